"""The queue in figures, for monitoring: what is worth watching, read at little cost.

All of it costs the same with ten jobs or ten million. What it costs grows with the number of queues
in which jobs wait, of nodes and of schedules.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from queuectl import roster
from queuectl.facts import Count, Node, QueueInfo, Total
from queuectl.job import WAITING
from queuectl.store.contract import Store
from queuectl.values import dataclass

if TYPE_CHECKING:
    from queuectl.schedule import Schedule

LOOKED_AT = 100
"""Of each line, so many of the first are looked at to find the one that has waited longest."""
BOUNDS = (
    *(5, 10, 25, 50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000),
    *(60_000, 300_000, 1_800_000, 3_600_000),
)
"""Milliseconds up to which runs and waits are counted together."""
MOST_LINES = 200
"""Queues, by priorities, whose lines are looked at; of more, those with the most jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFigures:
    """A node that is registered, and what it does."""

    node: Node
    alive: bool
    busy: int
    """How many of its workers have jobs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A queue in figures, as they were at a moment, or within a few milliseconds."""

    now: int
    counts: Sequence[Count]
    queues: Sequence[QueueInfo]
    """Those on which something was set."""
    oldest: Mapping[str, int]
    """By queue, since when the job is due that is ready for longest: of the first hundred in line,
    at each priority. Queues in which none is ready are left out."""
    totals: Mapping[str, Sequence[Total]]
    """By queue, all runs and waits ever, and failed runs by their kind; see `History.totals`."""
    nodes: Sequence[NodeFigures]
    schedules: "Sequence[Schedule]"


def figures(store: Store) -> Figures:
    counts = store.jobs.counts()
    busy = store.runs.busy()
    return Figures(
        now=store.clock.now(),
        counts=counts,
        queues=store.settings.queues(),
        oldest=_oldest(store, counts),
        totals=store.history.totals(BOUNDS),
        nodes=[
            NodeFigures(node=node, alive=roster.is_alive(store, node), busy=busy.get(node.id, 0))
            for node in store.nodes.all()
        ],
        schedules=store.schedules.all(),
    )


def _oldest(store: Store, counts: Sequence[Count]) -> dict[str, int]:
    waiting = [count for count in counts if count.state in WAITING]
    waiting.sort(key=lambda count: (-count.jobs, count.queue, -count.priority))
    priorities: dict[str, list[int]] = {}
    for count in waiting[:MOST_LINES]:
        known = priorities.setdefault(count.queue, [])
        if count.priority not in known:
            known.append(count.priority)
    found = {
        queue: store.runs.oldest(queue, some, limit=LOOKED_AT) for queue, some in priorities.items()
    }
    return {queue: since for queue, since in found.items() if since is not None}
