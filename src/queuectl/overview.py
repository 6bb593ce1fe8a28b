"""The queue at a glance: gathers what status, statistics and explanations are made of."""

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from queuectl import roster
from queuectl.explain import (
    Crew,
    Reason,
    Surroundings,
    all_busy,
    explain,
    explain_all,
    hindrances,
    node_gone,
    run_paused,
    stuck,
    unhandled,
    unhandled_lines,
)
from queuectl.facts import Event, Node, Pause
from queuectl.filter import Filter, Names
from queuectl.job import FINISHED, OPEN, WAITING, Job, State
from queuectl.place import Place
from queuectl.request import check_sought
from queuectl.store.contract import Store
from queuectl.values import replace
from queuectl.when import milliseconds

if TYPE_CHECKING:
    from datetime import datetime

    from queuectl.report import Stats, Status
    from queuectl.resources import Stock

LOOKED_AT = 100
"""Of very many jobs, so many are looked at to say why they wait."""
LONGEST_LINE = 10_000
"""Jobs that are looked at to find the place of one among them."""
LATELY = 300_000
"""Milliseconds over which the pace of a queue is measured."""
LOOKED_AT = 1_000
"""Jobs that are over of which `stats` says what they used: the newest."""
SLOWEST = 5
"""Jobs that statistics name for having taken longest."""


def nodes(store: Store) -> list[dict[str, Any]]:
    from queuectl.report import node_dict

    known = store.nodes.all()
    stocks = _stocks(store, known)
    return [
        node_dict(
            node,
            alive=roster.is_alive(store, node),
            running=roster.busy_workers(store, node),
            stock=stocks.get(node.id),
        )
        for node in known
    ]


def _stocks(store: Store, nodes: Sequence[Node]) -> "dict[str, Stock]":
    """Return what nodes have for jobs that need something, and what of it is in use."""
    having = [node for node in nodes if node.queues.resources]
    if not having:
        return {}
    from queuectl.resources import Holding, Stock, needs_of

    held: dict[str, list[Holding]] = {}
    for use in store.runs.using():
        if (needs := needs_of(use.handler)) is not None:
            held.setdefault(use.node, []).append(Holding(use.at, needs, use.devices))
    return {node.id: Stock(node.queues.resources, held.get(node.id, ())) for node in having}


def explain_job(store: Store, place: Place, job: Job) -> list[Reason]:
    if job.state == State.PROCESSING:
        return _gone(store, job) or explain_runs(store, [job])
    if job.state not in WAITING:
        return []
    around = _surroundings(store, place)
    if any(queue.name == job.queue and queue.limits is not None for queue in around.queues):
        running = Filter(states=(State.PROCESSING,), queues=(job.queue,))
        held_by = tuple(store.jobs.select(running, limit=None, oldest=True))
        opens_at = store.runs.opens_at(job.queue, job.parked) if job.parked else None
        around = replace(around, running=held_by, key_opens_at=opens_at)
    if job.attempts and job.run_at > around.now:
        around = replace(around, sleep=store.sleeps.of([job]).get(job.seq))
    if job.is_held:
        around = replace(around, held=_hold_of(store, job))
    if job.needs is not None:
        around = _with_room(store, around)
    if job.state == State.BLOCKED:
        from queuectl import relatives

        parents, roots = relatives.parents(store, job), relatives.roots(store, [job])
        around = replace(around, parents=tuple(parents), roots=roots)
    if all_busy(job, around.crews):
        before = store.runs.before(job, LONGEST_LINE)
        in_line = 1 + before if before < LONGEST_LINE else None
        around = replace(around, place=in_line, pace=_pace(store, job.queue, around.now))
    return explain(job, around)


def _with_room(store: Store, around: Surroundings) -> Surroundings:
    """Add what nodes have free, and for which jobs they keep room."""
    stocks = _stocks(store, roster.living(store))
    crews = tuple(replace(one, stock=stocks.get(one.node, one.stock)) for one in around.crews)
    kept = store.runs.reservations()
    ids = {job.seq: job.id for job in store.jobs.at([one.seq for one in kept])}
    by_node = {one.node: ids[one.seq] for one in kept if one.seq in ids}
    return replace(around, crews=crews, kept=by_node)


def _gone(store: Store, job: Job) -> list[Reason]:
    """Say that a job doesn't run any more, if its node doesn't live."""
    nodes = store.nodes.all()
    living = {node.id for node in nodes if roster.is_alive(store, node)}
    if job.node in living:
        return []
    known = next((node for node in nodes if node.id == job.node), None)
    return [node_gone(job, known, rescued=bool(living))]


def pauses_of(store: Store) -> dict[int, Pause]:
    """Return the pauses of runs that go on, by the places of their jobs."""
    return {pause.seq: pause for pause in store.runs.pauses()}


def explain_runs(store: Store, jobs: Sequence[Job]) -> list[Reason]:
    """Say which of these jobs run, but stand still."""
    running = [job for job in jobs if job.state == State.PROCESSING]
    pauses = pauses_of(store) if running else {}
    return [run_paused(job, pauses[job.seq]) for job in running if job.seq in pauses]


def _hold_of(store: Store, job: Job) -> Event | None:
    """Find the event of somebody's holding a job; not if much has happened to it since."""
    events = store.history.events(job.id, limit=LOOKED_AT)
    return next((event for event in events if event.kind == "hold"), None)


def _pace(store: Store, queue: str, now: int) -> float | None:
    """Return how many runs of a queue ended in a millisecond, over the last minutes."""
    begun = min((node.started_at for node in roster.living(store)), default=now)
    since = max(now - LATELY, begun)
    ended = sum(
        row.count
        for row in store.history.rollups(since=now - LATELY, queue=queue)
        if row.measure != "wait"
    )
    return ended / max(now - since, 1) if ended else None


def explain_queues(store: Store, choices: Sequence[Collection[str]]) -> list[list[Reason]]:
    """Say of each choice of queues what keeps all their jobs."""
    crews = [_crew(node) for node in roster.living(store)]
    infos = store.settings.queues()
    return [hindrances(queues, crews, infos) for queues in choices]


def explain_each_queue(store: Store, queues: Sequence[str]) -> dict[str, list[Reason]]:
    """Say of each queue what keeps all its jobs, and which of them can't be run by any node."""
    found = explain_queues(store, [[name] for name in queues])
    crews = [_crew(node) for node in roster.living(store)]
    lines = store.runs.lines(LONGEST_LINE) if crews and queues else {}
    return {
        name: [*reasons, *unhandled_lines(_of_queue(lines, name), crews, LONGEST_LINE)]
        for name, reasons in zip(queues, found, strict=True)
    }


def _of_queue(lines: Mapping[tuple[str, str], int], queue: str) -> dict[tuple[str, str], int]:
    return {line: jobs for line, jobs in lines.items() if line[0] == queue}


def explain_some(store: Store, place: Place, which: Sequence[str] | Filter) -> list[Reason]:
    ids = _waiting(store, which) if isinstance(which, Filter) else which
    jobs = [job for job in map(store.jobs.get, ids[:LOOKED_AT]) if job is not None]
    waiting = [job for job in jobs if job.state in WAITING]
    if len(ids) == 1 and waiting:
        return explain_job(store, place, waiting[0])
    queues = {job.queue for job in waiting}
    return explain_unstarted(store, place, jobs if len(ids) <= LOOKED_AT else [], queues)


def explain_open(store: Store, place: Place, queues: Collection[str]) -> list[Reason]:
    waiting = {
        count.queue
        for count in store.jobs.counts()
        if count.jobs and count.state in WAITING and (not queues or count.queue in queues)
    }
    which = Filter(states=OPEN, queues=tuple(queues))
    jobs = store.jobs.select(which, limit=LOOKED_AT + 1)
    return explain_unstarted(store, place, jobs if len(jobs) <= LOOKED_AT else [], waiting)


def _waiting(store: Store, which: Filter) -> list[str]:
    waiting = replace(which, states=WAITING)
    return [job.id for job in store.jobs.select(waiting, limit=LOOKED_AT)]


def explain_unstarted(
    store: Store, place: Place, jobs: Sequence[Job], queues: Collection[str]
) -> list[Reason]:
    """Say that none of these jobs is due, if that is so, and what keeps these queues."""
    around = _surroundings(store, place)
    unfinished = [job for job in jobs if job.state not in FINISHED]
    return [
        *explain_all(unfinished, around.now),
        *_explain_stuck(store, unfinished),
        *explain_runs(store, unfinished),
        *hindrances(queues, around.crews, around.queues),
        *unhandled([job for job in unfinished if job.state in WAITING], around.crews),
    ]


def _explain_stuck(store: Store, jobs: Sequence[Job]) -> list[Reason]:
    """Say for what those of these jobs wait in vain that are blocked, if they do."""
    blocked = [job for job in jobs if job.state == State.BLOCKED]
    if not blocked:
        return []
    from queuectl import relatives

    return stuck(relatives.roots(store, blocked), of_several=len(jobs) > 1)


def _crew(node: Node, busy: int = 0) -> Crew:
    stopping = node.stop is not None
    return Crew(
        queues=node.queues, workers=node.workers, busy=busy, stopping=stopping, node=node.id
    )


def _surroundings(store: Store, place: Place) -> Surroundings:
    """Gather what the turn of jobs hangs on besides the jobs."""
    from queuectl.lifecycle import Policy

    settings, _ = place.settings(store.settings.config())
    return Surroundings(
        now=store.clock.now(),
        crews=tuple(_crew(node, roster.busy_workers(store, node)) for node in roster.living(store)),
        queues=tuple(store.settings.queues()),
        suspicious=Policy(max_crashes=settings.max_crashes).suspicious,
    )


def status(store: Store) -> "Status":
    from queuectl.report import build_status

    counts = store.jobs.counts()
    waits = any(one.state in WAITING and one.jobs for one in counts)
    return build_status(
        store.url,
        counts,
        store.settings.queues(),
        nodes(store),
        store.runs.outlook().due,
        _paused_runs(store),
        store.jobs.count_held(list({one.queue for one in counts if one.state in WAITING})),
        store.runs.lines(LONGEST_LINE) if waits else {},
    )


def _paused_runs(store: Store) -> list[tuple[Job, Pause]]:
    """Return the jobs that run, but stand still."""
    pauses = pauses_of(store)
    jobs = store.jobs.at(list(pauses))
    return [(job, pauses[job.seq]) for job in jobs if pauses[job.seq].is_of(job)]


def stats(
    store: Store, *, since: "int | datetime | None", queue: str | None, tag: Names | None
) -> "Stats":
    from queuectl import listing
    from queuectl.report import build_stats, build_stats_of

    begin = None if since is None else milliseconds(since)
    if queue is not None:
        check_sought("queue", queue)
    which = listing.narrowed(None, queue=queue, tag=tag)
    if which.tags:
        found = build_stats_of(listing.jobs(store, which), since=begin, slowest=SLOWEST)
        return _with_usage(store, which, found)
    counts = [count for count in store.jobs.counts() if queue is None or count.queue == queue]
    rollups = store.history.rollups(since=begin, queue=queue)
    return _with_usage(store, which, build_stats(counts, rollups, _slowest(store, queue)))


def _with_usage(store: Store, which: Filter, found: "Stats") -> "Stats":
    """Add what the newest runs have used: of some, as all of them would have to be read."""
    from queuectl import listing, told
    from queuectl.report import spread

    over = replace(which, states=FINISHED)
    used = told.usages(store, [*listing.jobs(store, over, limit=LOOKED_AT)]).values()
    return replace(
        found,
        memory=spread(one.peak_memory for one in used),
        cpu=spread(one.cpu_ms for one in used),
    )


def _slowest(store: Store, queue: str | None) -> list[Job]:
    from queuectl import listing

    which = Filter(states=(State.COMPLETED,), queues=() if queue is None else (queue,))
    by = listing.read_sort("-duration")
    return [*listing.sorted_jobs(store, which, by, limit=SLOWEST)]
