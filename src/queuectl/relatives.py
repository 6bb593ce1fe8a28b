"""The jobs around a job, as a store has them: parents, children, root causes, the whole graph.

All go level by level, with a set of what was seen, and no further than to some number of jobs.
"""

from collections.abc import Iterable, Iterator, Sequence

from queuectl.dependencies import IfParentFails, Verdict, Wanted, read_parent, verdict
from queuectl.errors import NotFoundError
from queuectl.facts import Edge, Group
from queuectl.filter import Filter
from queuectl.graphs import in_order
from queuectl.job import OPEN, Job, State
from queuectl.lineage import Along, Graph, Link, Node, Relative, Root, Roots
from queuectl.listing import search
from queuectl.request import MOST_PARENTS
from queuectl.scope import is_bounded, keeping_to, reaches
from queuectl.store.contract import Store, chunks
from queuectl.titles import own_of
from queuectl.values import replace

AT_ONCE = 1_000
"""Jobs that are read at once."""
MOST_BEFORE = 200_000
"""Jobs that are looked at to find what keeps one."""
MEMBERS, LOOKS = 100, 10_000
"""Jobs of a group that are looked into, and among how many they are looked for."""
ABLE = tuple(state for state in OPEN if state != State.BLOCKED)
"""States of jobs that run, or will without others."""
LEFT_AT_ONCE = 1_000
"""Blocked jobs that are read to see whether they are all that is left of a large group."""
MOST_ALONG = 10_000
"""Jobs that are counted as those which a cancellation takes along."""
LEVELS = 1_000
"""How many times a cancellation is followed from children to their children."""
MOST_CHILDREN = 1_000
"""Children of a job that are told, unless another number is asked for."""
MOST_NODES = 200
"""Jobs that a graph has, unless more are asked for."""
LINKS_FOR_EACH = 50
"""Links that a graph may have for each of its jobs, besides those of one with very many."""
LONGEST_TITLE = 200


def parents(store: Store, job: Job) -> list[Relative]:
    """Return the jobs that one waits for, or did."""
    if not job.awaits:
        return []
    edges = store.jobs.parents([job])
    there = _at(store, [edge.parent for edge in edges])
    named = [read_parent(text)[0] for text in job.after]
    places = {id: place for place, id in enumerate(named)}
    edges.sort(key=lambda edge: (edge.is_group, places.get(edge.parent_id, 0)))
    return [_relative(edge, edge.parent_id, there.get(edge.parent)) for edge in edges]


def children(store: Store, job: Job, *, limit: int) -> list[Relative]:
    """Return jobs that wait for one, or did, as they were enqueued."""
    if not job.has_children or limit < 1:
        return []
    edges = store.jobs.children([job], limit=limit)
    there = _at(store, [edge.child for edge in edges])
    return [
        _relative(edge, child.id, child)
        for edge in edges
        if (child := there.get(edge.child)) is not None and reaches(child.queue)
    ]


def children_of_group(store: Store, name: str, *, limit: int) -> list[Relative]:
    """Return jobs that wait for a group, or did, as they were enqueued; of very many, some."""
    edges = store.groups.children(name, limit=limit)
    there = _at(store, [edge.child for edge in edges])
    return [
        _relative(replace(edge, is_group=False), child.id, child)
        for edge in edges
        if (child := there.get(edge.child)) is not None and reaches(child.queue)
    ]


def count_children(store: Store, job: Job, *, most: int) -> int:
    """Return how many jobs wait for one, or did; of more than so many, that number."""
    if not job.has_children:
        return 0
    if is_bounded():
        return len(children(store, job, limit=most))
    return len(store.jobs.children([job], limit=most))


def _relative(edge: Edge, id: str, job: Job | None) -> Relative:
    return Relative(
        id=id,
        wanted=edge.wanted,
        came_to=None if edge.came_to is None else State(edge.came_to),
        is_met=edge.is_met,
        job=_seen(job, id),
        is_group=edge.is_group,
    )


def _seen(job: Job | None, id: str) -> Job | None:
    """Return a job if it is the one with this id, and may be spoken of."""
    return job if job is not None and job.id == id and reaches(job.queue) else None


def _at(store: Store, seqs: Iterable[int]) -> dict[int, Job]:
    """Return the jobs at these places."""
    places = list(dict.fromkeys(seqs))
    return {job.seq: job for some in chunks(places, AT_ONCE) for job in store.jobs.at(some)}


def _parents_of(store: Store, jobs: Sequence[Job]) -> Iterator[Edge]:
    waiting = [job for job in jobs if job.awaits]
    for some in chunks(waiting, AT_ONCE):
        yield from store.jobs.parents(some)


# -- what keeps a job -------------------------------------------------------------------


def roots(store: Store, jobs: Sequence[Job], *, most: int = MOST_BEFORE) -> Roots:
    """Return what keeps jobs from running that are blocked, through all that are blocked as well.

    Of a group that is waited for, some of its jobs are looked at as well.

    The longer it goes on, the more is read ahead: what one waits for was mostly enqueued just
    before it.
    """
    found: dict[str, Root] = {}
    known = _Ahead(store)
    level = [job for job in jobs if job.state == State.BLOCKED]
    seen = {job.id for job in level}
    known.take(level)
    while level and len(seen) <= most:
        above: list[Job] = []
        for job in level:
            for edge in known.open_parents(job):
                named = _named(edge)
                if named in seen:
                    continue
                seen.add(named)
                parent = known.job(edge)
                if parent is not None and parent.state == State.BLOCKED:
                    above.append(parent)
                    continue
                found[named] = _root(store, edge, parent, job)
                if edge.is_group:
                    inside = [one for one in _blocked_in(store, edge) if one.id not in seen]
                    seen.update(one.id for one in inside)
                    known.take(inside)
                    above += inside
        level = above
    ordered = sorted(found.values(), key=lambda root: not root.is_stuck)
    return Roots(found=tuple(ordered), is_whole=not level)


def _named(edge: Edge) -> str:
    """Return what a parent is called among jobs and groups."""
    return f"group {edge.parent_id}" if edge.is_group else edge.parent_id


def _root(store: Store, edge: Edge, job: Job | None, child: Job) -> Root:
    return Root(
        id=edge.parent_id,
        child=child.id,
        came_to=None if edge.came_to is None else State(edge.came_to),
        job=_seen(job, edge.parent_id),
        is_group=edge.is_group,
        because=_dead_in(store, edge) if edge.is_group and edge.wanted == Wanted.OK else (),
    )


def _dead_in(store: Store, edge: Edge) -> tuple[Job, ...]:
    """Return some dead jobs of a group."""
    return tuple(job for job in _members(store, edge, State.DEAD) if reaches(job.queue))


def _blocked_in(store: Store, edge: Edge) -> list[Job]:
    """Return some of a group's jobs that are blocked, if it isn't over."""
    return _members(store, edge, State.BLOCKED) if edge.came_to is None else []


def _members(store: Store, edge: Edge, state: State) -> list[Job]:
    which = Filter(groups=(edge.parent_id,), states=(state,))
    found = search(store, which, limit=MEMBERS, looks=LOOKS, after=None, oldest=True)
    return list(found.jobs)


def roots_of_group(store: Store, name: str, *, most: int, looks: int) -> Roots:
    """Return what keeps the newest blocked jobs of a group from running: of so many at most.

    So many jobs of the group are looked at to find these.
    """
    horizon = store.jobs.horizon(Filter(groups=(name,)), looks=looks)
    which = Filter(groups=(name,), states=(State.BLOCKED,))
    last = None if horizon is None else horizon.seq
    blocked = store.jobs.select(which, limit=most + 1, last=last)
    found = roots(store, blocked[:most])
    return found if horizon is None and len(blocked) <= most else replace(found, is_whole=False)


def is_in_vain(store: Store, group: Group, *, most: int, looks: int) -> bool:
    """Tell whether all that is left of a group is blocked, by what doesn't go on by itself.

    So many of its newest jobs are looked at to find these. Of a larger group that is known only if
    no more than `LEFT_AT_ONCE` are left, and of more blocked ones than `most` the newest tell.
    """
    horizon = store.jobs.horizon(Filter(groups=(group.name,)), looks=looks)
    last = None if horizon is None else horizon.seq
    able = Filter(groups=(group.name,), states=ABLE)
    if store.jobs.select(able, limit=1, last=last):
        return False
    limit = most if horizon is None else LEFT_AT_ONCE
    which = Filter(groups=(group.name,), states=(State.BLOCKED,))
    blocked = store.jobs.select(which, limit=limit, last=last)
    if horizon is not None and len(blocked) < group.open:
        return False
    found = roots(store, blocked[:most])
    return bool(found.found) and len(found.stuck) == len(found.found)


def are_in_vain(store: Store, which: Sequence[str] | Filter) -> bool:
    """Tell whether jobs are left of these, by their ids or that fit, and all of them are blocked.

    By what doesn't go on by itself, also where that isn't spoken of to who asks.
    """
    with keeping_to(()):
        pages = _left_that_fit(store, which) if isinstance(which, Filter) else _left(store, which)
        is_any = False
        for page in pages:
            is_any = True
            if any(job.state != State.BLOCKED for job in page):
                return False
            found = roots(store, page)
            if not found.is_whole or not found.found or len(found.stuck) < len(found.found):
                return False
        return is_any


def _left(store: Store, ids: Sequence[str]) -> Iterator[list[Job]]:
    """Yield those of these jobs that aren't over, some at a time."""
    for some in chunks(list(ids), AT_ONCE):
        states = store.jobs.states(some)
        if any(state in ABLE for state in states.values()):
            some = [id for id in some if states.get(id) in ABLE][:1]
        jobs = [job for id in some if (job := store.jobs.get(id)) is not None]
        if left := [job for job in jobs if job.state in OPEN]:
            yield left


def _left_that_fit(store: Store, which: Filter) -> Iterator[list[Job]]:
    """Yield those that fit and aren't over, some at a time: first one that isn't blocked."""
    if able := store.jobs.select(replace(which, states=ABLE), limit=1):
        yield able
    blocked, after = replace(which, states=(State.BLOCKED,)), None
    while page := store.jobs.select(blocked, limit=AT_ONCE, after=after):
        yield page
        after = page[-1].seq


class _Ahead:
    """Jobs and what they wait for, read more at a time as more is asked for."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: dict[int, Job | None] = {}
        self._parents: dict[int, list[Edge]] = {}
        self._asked = 0

    def take(self, jobs: Sequence[Job]) -> None:
        """Take jobs that were read already."""
        self._jobs.update((job.seq, job) for job in jobs)
        self._read_parents(jobs)

    def job(self, edge: Edge) -> Job | None:
        """Return the parent, if it is there."""
        if edge.is_group:
            return None
        if edge.parent not in self._jobs:
            self._read(edge.parent)
        job = self._jobs[edge.parent]
        return None if job is None or job.id != edge.parent_id else job

    def open_parents(self, job: Job) -> list[Edge]:
        """Return what a job waits for that keeps it."""
        if job.seq not in self._parents:
            self._read_parents([job])
        return self._parents[job.seq]

    def _read(self, seq: int) -> None:
        # Twice as many each time.
        self._asked = min(2 * self._asked + 1, AT_ONCE)
        places = [at for at in range(seq, seq - self._asked, -1) if at not in self._jobs]
        found = self._store.jobs.at(places)
        self._jobs.update(dict.fromkeys(places))
        self.take(found)

    def _read_parents(self, jobs: Sequence[Job]) -> None:
        blocked = [job for job in jobs if job.state == State.BLOCKED]
        self._parents.update((job.seq, []) for job in blocked)
        for edge in _parents_of(self._store, blocked):
            if not edge.is_met:
                self._parents[edge.child].append(edge)


# -- what a cancellation takes along ----------------------------------------------------


def along(store: Store, jobs: Sequence[Job], *, most: int = MOST_ALONG) -> Along:
    """Return which jobs are cancelled with these, as they wait for them and so can't run.

    These are taken to be cancelled, or removed, while they are open: what is over takes nothing
    along any more.
    """
    edges = _open_edges(store, [job for job in jobs if job.state in OPEN], most + 1)
    return _along(store, _over(store, edges), {job.seq for job in jobs}, most)


def along_with_group(store: Store, group: Group, *, most: int = MOST_ALONG) -> Along:
    """Return which other jobs are cancelled if the open ones of a group are.

    Those that wait for these, and those that wait for the group itself: it is over then.
    """
    listed = store.jobs.select(Filter(groups=(group.name,)), limit=most + 1)
    jobs = [job for job in listed if job.state in OPEN]
    over = _over(store, _open_edges(store, jobs, most + 1))
    if jobs:
        edges = store.groups.children(group.name, limit=most + 1)
        came_to = State.DEAD if group.dead else State.CANCELLED
        over += _over(store, [edge for edge in edges if edge.came_to is None], came_to)
    found = _along(store, over, {job.seq for job in jobs}, most, without=group.name)
    return found if len(listed) <= most else replace(found, is_whole=False)


def _along(
    store: Store, over: list[Job], seen: set[int], most: int, without: str | None = None
) -> Along:
    """Return jobs that are over, and all whom their ends cancel; `without` those of a group."""
    ids: list[str] = []
    for _ in range(LEVELS):
        fresh = [job for job in {job.seq: job for job in over}.values() if job.seq not in seen]
        seen.update(job.seq for job in fresh)
        told = [job for job in fresh if without is None or job.group != without]
        ids += [job.id for job in told if reaches(job.queue)]
        if len(over) > most or len(ids) > most:
            break
        edges = _open_edges(store, fresh, most - len(ids) + 1)
        if not edges:
            return Along(ids=tuple(ids))
        over = _over(store, edges)
    return Along(ids=tuple(ids[:most]), is_whole=False)


def _open_edges(store: Store, jobs: Sequence[Job], most: int) -> list[Edge]:
    """Return who waits for the ends of these jobs."""
    having = [job for job in jobs if job.has_children]
    return [
        edge
        for some in chunks(having, AT_ONCE)
        for edge in store.jobs.children(some, limit=most)
        if edge.came_to is None
    ]


def _over(store: Store, edges: Sequence[Edge], came_to: State = State.CANCELLED) -> list[Job]:
    """Return the children that are over if those they wait for come to this."""
    there = _at(store, [edge.child for edge in edges])
    found: dict[int, Job] = {}
    for edge in edges:
        child = there.get(edge.child)
        if child is not None and child.state == State.BLOCKED:
            how = IfParentFails(child.if_parent_fails or IfParentFails.BLOCK)
            if verdict(Wanted(edge.wanted), came_to, how) == Verdict.OVER:
                found[child.seq] = child
    return list(found.values())


# -- the whole graph --------------------------------------------------------------------


def graph(store: Store, job: Job, *, most: int = MOST_NODES) -> Graph:
    """Return a job with all that must end before it, and all that wait for it; the nearest first.

    Parents that are gone are there by their ids.
    """
    around = _Around(store, [job], most)
    above, below = [job], [job]
    while above or below:
        above, below = around.parents_of(above), around.children_of(below)
    return around.made(job.id)


def graph_of_group(store: Store, name: str, *, most: int = MOST_NODES) -> Graph:
    """Return the jobs of a group, and who of them waits for whom; the oldest, of many."""
    found = store.jobs.select(Filter(groups=(name,)), limit=most + 1, oldest=True)
    jobs = [job for job in found if reaches(job.queue)]
    if not jobs:
        raise NotFoundError(f"No job is in group {name!r}.")
    around = _Around(store, jobs[:1], most)
    around.take(jobs[1:most])
    made = around.made(f"group {name}")
    return made if len(found) <= most else replace(made, is_whole=False)


class _Around:
    """A job and those around it, as far as there is room for them."""

    def __init__(self, store: Store, jobs: Sequence[Job], most: int) -> None:
        self._store = store
        self._jobs = {job.seq: job for job in jobs}
        self._gone: dict[str, Edge] = {}
        """Those of which only the id is known, and how they ended."""
        self._room = most - len(jobs)
        self._links = LINKS_FOR_EACH * most + MOST_PARENTS
        self._is_whole = True

    def take(self, jobs: Sequence[Job]) -> None:
        """Take in jobs, as far as there is room for them."""
        for job in jobs:
            self._add(job, [])

    def parents_of(self, jobs: Sequence[Job]) -> list[Job]:
        """Take in what these wait for; returns those that are new."""
        edges = [edge for edge in _parents_of(self._store, jobs) if edge.parent not in self._jobs]
        there = _at(self._store, [edge.parent for edge in edges])
        fresh: list[Job] = []
        for edge in edges:
            parent = _seen(there.get(edge.parent), edge.parent_id)
            if parent is not None:
                self._add(parent, fresh)
            elif _named(edge) not in self._gone and self._has_room():
                self._gone[_named(edge)] = edge
        return fresh

    def children_of(self, jobs: Sequence[Job]) -> list[Job]:
        """Take in what waits for these; returns those that are new."""
        having = [job for job in jobs if job.has_children]
        fresh: list[Job] = []
        for some in chunks(having, AT_ONCE):
            limit = max(self._room, 0) + len(self._jobs) + 1
            edges = self._store.jobs.children(some, limit=limit)
            there = _at(self._store, [e.child for e in edges if e.child not in self._jobs])
            for child in there.values():
                if reaches(child.queue):
                    self._add(child, fresh)
        return fresh

    def _add(self, job: Job, fresh: list[Job]) -> None:
        if job.seq not in self._jobs and self._has_room(len(job.after)):
            self._jobs[job.seq] = job
            fresh.append(job)

    def _has_room(self, links: int = 0) -> bool:
        self._room -= 1
        self._links -= links
        has_room = self._room >= 0 and self._links >= 0
        self._is_whole &= has_room
        return has_room

    def made(self, id: str) -> Graph:
        """Return them with all links between them, as the graph of what has this id."""
        jobs = sorted(self._jobs.values(), key=lambda job: job.seq)
        ids = [*self._gone, *(job.id for job in jobs)]
        places = {id: at for at, id in enumerate(ids)}
        by_seq = {job.seq: job.id for job in jobs}
        links = [
            Link(
                parent=_named(edge),
                child=by_seq[edge.child],
                wanted=edge.wanted,
                came_to=None if edge.came_to is None else State(edge.came_to),
                is_met=edge.is_met,
            )
            for edge in _parents_of(self._store, jobs)
            if _named(edge) in places
        ]
        above: list[list[int]] = [[] for _ in ids]
        for link in links:
            above[places[link.child]].append(places[link.parent])
        nodes = [*(_ghost(id, edge) for id, edge in self._gone.items()), *map(_node, jobs)]
        return Graph(
            id=id,
            nodes=tuple(nodes[at] for at in in_order(above, lambda at: ids[at])),
            links=tuple(links),
            is_whole=self._is_whole,
        )


def _ghost(id: str, edge: Edge) -> Node:
    came_to = None if edge.came_to is None else State(edge.came_to)
    return Node(id=id, state=came_to if edge.is_group else None, is_group=edge.is_group)


def _node(job: Job) -> Node:
    return Node(
        id=job.id,
        state=job.state,
        title=job.title[:LONGEST_TITLE],
        own=own_of(job),
        queue=job.queue,
        reason=job.reason,
    )
