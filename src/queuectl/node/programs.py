"""Which program a node runs for a data job, by the type of that."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from queuectl.job import ANY_TYPE, TYPE, Job


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of a node for data jobs, and the arguments that all of them get first."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    """Those for one type each; that of the empty one is for data without a type."""
    for_all: str | None = None
    """That for all types that have none of their own."""
    arguments: Sequence[str] = ()

    @property
    def handlers(self) -> tuple[str, ...]:
        """What the node is said to handle."""
        named = tuple(TYPE + type for type in self.by_type)
        return named if self.for_all is None else (*named, ANY_TYPE)

    def argv(self, job: Job) -> list[str] | None:
        """Return the program for a job with its arguments, the job's id last; None if none is."""
        program = self.by_type.get(job.type or "", self.for_all)
        if job.type is None or program is None:
            return None
        return [program, *self.arguments, job.id]
