"""What ends of jobs mean to those who wait for them, gathered before any of it is written."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from queuectl.dependencies import IfParentFails, Verdict, Wanted, verdict, why_cancelled
from queuectl.job import Job, State
from queuectl.store.changed import End


class Edge(NamedTuple):
    """A child that is told of an end."""

    child: int
    end: End
    wanted: Wanted

    @property
    def why(self) -> str:
        """Why the child is cancelled, if it is."""
        return why_cancelled(
            self.end.told,
            self.wanted,
            self.end.state,
            was_removed=self.end.was_removed,
            was_unneeded=self.end.was_unneeded,
        )


class Alike(NamedTuple):
    """Edges of which the same is written."""

    state: State
    is_met: bool
    parents: Sequence[int]
    wanted: Wanted | None = None
    """Of all who wait for these and want this; or of those that are named."""
    children: Sequence[int] = ()

    @property
    def parent(self) -> int:
        """The one for which those wait that are named."""
        return self.parents[0]


class Judged:
    """What some ends mean to those who wait."""

    def __init__(self) -> None:
        self.fewer: Counter[int] = Counter()
        """How many parents less keep these from running."""
        self.over: dict[int, Edge] = {}
        """Those who will never run, if they are blocked; and because of which end, the first."""
        self.blocked: dict[int, Job] = {}
        """Those of them that are, and are held."""
        self.told: set[int] = set()
        """Those of them who were judged as ends in their turn."""
        self._ends: dict[tuple[int, State, Wanted], dict[bool, list[int]]] = defaultdict(
            lambda: defaultdict(list)
        )

    def take(self, edge: Edge, if_fails: IfParentFails) -> bool:
        """Judge what an end means to a child; says whether that will never run."""
        said = verdict(edge.wanted, edge.end.state, if_fails)
        is_met = said == Verdict.MET
        self._ends[edge.end.seq, edge.end.state, edge.wanted][is_met].append(edge.child)
        if is_met:
            self.fewer[edge.child] += 1
        elif said == Verdict.OVER:
            self.over.setdefault(edge.child, edge)
        return said == Verdict.OVER

    def alike(self, *, is_whole: bool) -> Iterator[Alike]:
        """Yield which edges are written alike; `is_whole`: all that wait for an end were judged."""
        together: dict[tuple[State, Wanted, bool], list[int]] = defaultdict(list)
        for (parent, state, wanted), by_met in self._ends.items():
            for is_met, children in by_met.items():
                if is_whole and len(by_met) == 1:
                    together[state, wanted, is_met].append(parent)
                else:
                    yield Alike(state, is_met, [parent], children=children)
        for (state, wanted, is_met), parents in together.items():
            yield Alike(state, is_met, sorted(parents), wanted)


def by_parent(edges: Iterable[tuple[int, int, str]]) -> dict[int, list[tuple[int, Wanted]]]:
    """Return which children wait for each of these parents, and for what."""
    found: dict[int, list[tuple[int, Wanted]]] = defaultdict(list)
    for parent, child, wanted in edges:
        found[parent].append((child, Wanted(wanted)))
    return found
