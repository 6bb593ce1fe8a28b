"""What is said of the jobs around a job: its parents and children, what keeps it, the whole graph.

Values only; `relatives` finds them in a store.
"""

from queuectl.dependencies import parent_in
from queuectl.job import FINISHED, Job, State
from queuectl.titles import with_own
from queuectl.values import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Relative:
    """A job that another waits for, or did; or one that waits for it."""

    id: str
    wanted: str
    """How the one that is waited for has to end: `ok`, `fail` or `any`."""
    came_to: State | None
    """The state that it ended in, as far as the other was told."""
    is_met: bool
    """Whether the one that waits may run, as far as the other is concerned."""
    job: Job | None
    """As it is now; None if it is gone, or in a queue that isn't spoken of."""
    is_group: bool = False
    """Whether it is a group, and its id a name."""

    @property
    def state(self) -> State | None:
        """Where it stands now; None if it is gone. Of a group, how it ended."""
        if self.is_group:
            return self.came_to
        return None if self.job is None else self.job.state


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A job that keeps others from running, and isn't kept by another one itself."""

    id: str
    child: str
    """One that waits for it."""
    came_to: State | None
    job: Job | None
    """As it is now; None if it is gone, or in a queue that isn't spoken of."""
    is_group: bool = False
    """Whether it is a group, and its id a name."""
    because: tuple[Job, ...] = ()
    """Of a group, some of its jobs because of which it doesn't end as is waited for."""

    @property
    def state(self) -> State | None:
        """Where it stands, or, if it is gone, how it ended."""
        return self.came_to if self.job is None else self.job.state

    @property
    def is_stuck(self) -> bool:
        """Whether nothing goes on by itself: it has ended in another way than is waited for."""
        if self.is_group:
            return self.came_to is not None or bool(self.because)
        return self.job is None or self.job.state in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Roots:
    """All jobs that keep some from running, those first that are stuck."""

    found: tuple[Root, ...]
    is_whole: bool = True
    """Whether all that are before them were looked at."""

    @property
    def stuck(self) -> tuple[Root, ...]:
        """Those from which nothing goes on by itself."""
        return tuple(root for root in self.found if root.is_stuck)


@dataclass(frozen=True, slots=True, kw_only=True)
class Along:
    """The jobs that others take with them when they are cancelled, or removed."""

    ids: tuple[str, ...]
    """The nearest first."""
    is_whole: bool = True
    """Whether these are all of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A job of a graph."""

    id: str
    state: State | None
    """None if it is gone, or in a queue that isn't spoken of."""
    title: str = ""
    """What it runs."""
    own: str = ""
    """What it has to itself that can't be seen in that."""
    queue: str | None = None
    reason: str | None = None
    """Why it is dead or cancelled."""
    is_group: bool = False
    """Whether it is a group."""

    def titled(self, longest: int | None = None) -> str:
        """Return how it is titled for people; what it runs gives way to what it has to itself."""
        return with_own(self.title, self.own, longest)


@dataclass(frozen=True, slots=True, kw_only=True)
class Link:
    """That one job of a graph waits for another."""

    parent: str
    child: str
    wanted: str
    came_to: State | None
    is_met: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """A job with all that must end before it, and all that waits for its end."""

    id: str
    """That of the job; of a group, `group` and its name."""
    nodes: tuple[Node, ...]
    """Each after those that it waits for."""
    links: tuple[Link, ...]
    is_whole: bool = True
    """Whether all of them are there; else the nearest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Blockage:
    """What of a graph waits in vain, and for what."""

    roots: frozenset[str]
    """The jobs and groups that ended in another way than is waited for."""
    links: frozenset[tuple[str, str]]
    """The ways from what is blocked to these, as parents and children."""


def blockage(graph: Graph, of: str | None = None) -> Blockage:
    """Return what keeps the blocked jobs of a graph, or one of them, and nothing goes on by itself.

    Also what took others along that were cancelled because of it, and the ways to these. Only what
    is in the graph is found; that is all of it if the graph is whole.
    """
    nodes = {node.id: node for node in graph.nodes}
    kept = {node.id: list[Link]() for node in graph.nodes}
    for link in graph.links:
        child = nodes[link.child]
        waits = child.state == State.BLOCKED and not link.is_met
        if waits or (child.state == State.CANCELLED and parent_in(child.reason) == link.parent):
            kept[link.child].append(link)
    roots: set[str] = set()
    ways: set[tuple[str, str]] = set()
    in_vain: set[str] = set()
    # Each node stands after those that it waits for.
    for node in graph.nodes:
        for link in kept[node.id]:
            if _is_root(nodes[link.parent], node, link):
                roots.add(link.parent)
            elif link.parent not in in_vain:
                continue
            in_vain.add(node.id)
            ways.add((link.parent, link.child))
    if of is None or of not in in_vain:
        return Blockage(roots=frozenset(roots), links=frozenset(ways))
    before = {of}
    for node in reversed(graph.nodes):
        if node.id in before:
            before.update(link.parent for link in kept[node.id])
    return Blockage(
        roots=frozenset(roots),
        links=frozenset(way for way in ways if way[1] in before),
    )


def _is_root(parent: Node, child: Node, link: Link) -> bool:
    """Tell whether a parent keeps a child by how it has ended, or took it along as it is dead."""
    if child.state != State.CANCELLED:
        return _has_ended(parent, link)
    return State.DEAD in (parent.state, link.came_to if parent.state is None else None)


def _has_ended(parent: Node, link: Link) -> bool:
    if parent.state is None or parent.is_group:
        return link.came_to is not None
    return parent.state in FINISHED
