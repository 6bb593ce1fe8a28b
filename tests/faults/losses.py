"""Nodes and hosts that are lost at a moment, and when others ran their jobs again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tests.faults.campaign import Figure, percentile
from tests.faults.kernel import Runs
from tests.faults.ledger import Ledger, Run


@dataclass(slots=True, kw_only=True)
class Loss:
    """A node that was lost while jobs ran on it."""

    node: str
    at: float
    """In seconds since the kernel booted."""
    left: dict[str, int]
    """Its jobs that nobody has run again yet, with the number of the attempt that was lost."""
    again: list[Run] = field(default_factory=list)
    """The first run of each of the others since then."""

    @classmethod
    def of(cls, node: str, runs: Runs, at: float) -> "Loss":
        """Take down that a node is lost, with its runs."""
        return cls(node=node, at=at, left=dict(runs))

    def look(self, ledger: Ledger) -> bool:
        """Look for runs that have begun since, and tell whether all jobs have run again."""
        for id, attempt in list(self.left.items()):
            later = [run for run in ledger.runs_of(id) if run.attempt > attempt]
            if later:
                self.again.append(later[0])
                del self.left[id]
        return not self.left

    @property
    def times(self) -> Sequence[float]:
        """How many milliseconds it took, for each job that has run again."""
        return [(run.began - self.at) * 1000 for run in self.again]


def spread(what: str, times: Sequence[float]) -> Mapping[str, Figure]:
    """Return the figures of times in milliseconds, named after what took so long."""
    if not times:
        return {}
    p50, p99 = round(percentile(times, 50)), round(percentile(times, 99))
    return {f"{what}_p50_ms": p50, f"{what}_p99_ms": p99, f"{what}_max_ms": round(max(times))}
