"""Why a job waits, or stands still: facts about it and about who works in, reasons out.

No clock, no store.
"""

from collections.abc import Collection, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from queuectl.facts import Event, Node, Pause, QueueInfo, Sleep, count_unhandled
from queuectl.job import TYPE, WAITING, Job, State, base_handler, moment, told_handler
from queuectl.values import dataclass, field, replace
from queuectl.when import ahead, human, iso, local

if TYPE_CHECKING:
    from datetime import datetime

    from queuectl.admission import Serving
    from queuectl.limits import Rate
    from queuectl.lineage import Relative, Root, Roots
    from queuectl.resources import Stock

NAMED = 3
"""Jobs that a reason names, of many."""
MEANT = 1_000
"""Jobs that a reason has the ids of."""


class Cause(StrEnum):
    """What kind of reason it is. More may be added."""

    BLOCKED = "blocked"
    """Other jobs must end first."""
    ROOT_CAUSE = "root_cause"
    """What it waits for in the end is dead or cancelled, and waits for somebody to retry it."""
    PARENT_GONE = "parent_gone"
    """What it waits for was removed, and can't end as it should any more."""
    HELD = "held"
    """Somebody holds it."""
    EXPIRED = "expired"
    """Its time to start is over; the next claim of any node buries it."""
    NOT_DUE = "not_due"
    """Its `run_at` hasn't come."""
    ASLEEP = "asleep"
    """It has given its worker back for a time."""
    AWAITS = "awaits"
    """It has given its worker back until something is emitted."""
    RETRY = "retry"
    """It failed, and the time of its retry hasn't come."""
    PAUSED = "paused"
    """Its queue is paused."""
    RUN_PAUSED = "run_paused"
    """It runs, but somebody has paused it: its processes stand still."""
    NODE_GONE = "node_gone"
    """It was running on a node that is gone; another one rescues it."""
    NO_WORKER = "no_worker"
    """No node lives that takes jobs."""
    NOT_SERVED = "not_served"
    """Nodes live, but none of them serves its queue."""
    NO_HANDLER = "no_handler"
    """Nodes serve its queue, but none of them has a program for its data."""
    NO_LABEL = "no_label"
    """Nodes would run it, but none of them has a label that it requires."""
    TOO_LARGE = "too_large"
    """Nodes would run it, but none of them has as much as it needs, even if nothing runs there."""
    NO_ROOM = "no_room"
    """Nodes have as much as it needs, but none of them has it free."""
    RESERVED = "reserved"
    """A node has what it needs free, but keeps that for another job."""
    LIMIT = "limit"
    """As many jobs of its queue run as its limit allows."""
    KEY = "key"
    """As many jobs of one of its keys run as are allowed."""
    RATE = "rate"
    """As many jobs of its queue, or of a key of its, have begun as a rate allows."""
    ALONE = "alone"
    """It is a suspect: a node makes room so that it can run alone."""
    BUSY = "busy"
    """All workers that serve its queue have something to do."""
    ITS_TURN = "its_turn"
    """Nothing keeps it: a worker is free, and takes it as soon as it is first in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for which a job waits."""

    cause: Cause
    text: str
    """A clause for people, such as `no worker is running`."""
    remedy: str | None = None
    """The command of queuectl that ends it, such as `worker start`, where there is one."""
    ends_at: int | None = None
    """When it ends by itself, in milliseconds, where that is known."""
    jobs: tuple[str, ...] = ()
    """The jobs that the remedy is for, the first of very many, where others are meant."""
    groups: tuple[str, ...] = ()
    """The groups that it is for."""

    @property
    def until(self) -> "datetime | None":
        """When it ends by itself, where that is known."""
        return None if self.ends_at is None else moment(self.ends_at)

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`."""
        return {
            "cause": self.cause.value,
            "text": self.text,
            "remedy": None if self.remedy is None else f"queuectl {self.remedy}",
            "until": None if self.ends_at is None else iso(self.ends_at),
            "jobs": list(self.jobs),
            "groups": list(self.groups),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a node that lives."""

    queues: "Serving"
    workers: int
    busy: int
    stopping: bool = False
    node: str = ""
    stock: "Stock | None" = None
    """What it has for jobs that need something, and what its runs have of it, if that matters."""

    def serves(self, queue: str) -> bool:
        """Tell whether it takes jobs of this queue."""
        return queue in self.queues

    def serves_any(self, queues: Collection[str]) -> bool:
        """Tell whether it takes jobs of one of these queues."""
        return any(self.serves(queue) for queue in queues)

    def takes(self, job: Job) -> bool:
        """Tell whether it would run this job."""
        return not self.stopping and self.queues.takes(job.queue, job.handler)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a job's turn hangs on, besides the job itself."""

    now: int
    crews: tuple[Crew, ...]
    queues: tuple[QueueInfo, ...]
    suspicious: int
    """From so many crashes on, a job is a suspect."""
    running: tuple[Job, ...] = ()
    """The jobs of its queue that run, if that has limits."""
    key_opens_at: int | None = None
    """When the key may go on whose rate it waits for, where that is known."""
    place: int | None = None
    """Its place in the line of its queue, 1 for the first, where that was looked for."""
    pace: float | None = None
    """How many jobs of its queue a millisecond sees end lately, where that is known."""
    held: Event | None = None
    """That somebody has held it, where that is known."""
    sleep: Sleep | None = None
    """What it sleeps for, if it does."""
    kept: Mapping[str, str] = field(default_factory=dict)
    """For which job each node keeps room, by their ids."""
    parents: "tuple[Relative, ...]" = ()
    """What it waits for, if that keeps it."""
    roots: "Roots | None" = None
    """What keeps it in the end, through all that are blocked as well."""


def explain(job: Job, around: Surroundings) -> list[Reason]:
    """Say why a job waits, all of it; nothing for one that doesn't wait.

    First comes what lies in the job itself, then what keeps its whole queue, then, once it is due,
    the limits that have no room for it.
    """
    if job.state not in WAITING:
        return []
    held, own = _held(job, around.held), _in_itself(job, around)
    needs = [job.handler] if job.handler else []
    reasons = [*held, *own, *hindrances([job.queue], around.crews, around.queues, needs)]
    reasons += unhandled([job], around.crews)
    if not own:
        reasons += _held_back(job, around)
        reasons += _without_room(job, around)
    return reasons or [_its_turn(job, around)]


def run_paused(job: Job, pause: Pause) -> Reason:
    """Say that the run of a job stands still, since when, and who wanted that."""
    text = f"job {job.id} is paused by {pause.who} since {local(pause.at)}"
    return _reason(Cause.RUN_PAUSED, text, f"resume --job {_quoted(job.id)}")


def node_gone(job: Job, node: Node | None, *, rescued: bool) -> Reason:
    """Say that the node of a job is gone, since when, and whether one lives to rescue the job."""
    silent = (
        "" if node is None else f", which has shown no sign of life since {local(node.seen_at)}"
    )
    text = f"it was running on node {job.node}{silent}"
    if rescued:
        return _reason(Cause.NODE_GONE, f"{text}; another node rescues it")
    return _reason(Cause.NODE_GONE, f"{text}, and no other is running to rescue it", "worker start")


def explain_all(jobs: Sequence[Job], now: int) -> list[Reason]:
    """Say that all of these unfinished jobs are held, or that none is due, if that is so."""
    if jobs and all(job.state in WAITING and job.is_held for job in jobs):
        ids = [job.id for job in jobs[:NAMED]]
        what = "it is" if len(jobs) == 1 else "all of them are"
        remedy = f"release {_quoted(*ids)}" if len(jobs) <= NAMED else None
        return [_reason(Cause.HELD, f"{what} held by hand", remedy)]
    if not jobs or any(job.state not in WAITING or job.run_at <= now for job in jobs):
        return []
    first = min(jobs, key=lambda job: job.run_at)
    when = ahead(first.run_at, now)
    if len(jobs) == 1:
        remedy = f"retry {_quoted(first.id)}"
        text = f"job {first.id} isn't due until {when}"
        return [_reason(Cause.NOT_DUE, text, remedy, ends_at=first.run_at)]
    return [_reason(Cause.NOT_DUE, f"none of them is due before {when}", ends_at=first.run_at)]


def hindrances(
    names: Collection[str],
    crews: Sequence[Crew],
    queues: Sequence[QueueInfo],
    handlers: Sequence[str] = (),
) -> list[Reason]:
    """Say what keeps all jobs of these queues from being started, and how to end it.

    A node that is to be started for that needs these handlers.

    Without a queue, for whoever waits for jobs that run: whether anybody lives who could end them.
    """
    reasons = []
    if paused := [queue for queue in queues if queue.paused_at and queue.name in names]:
        reasons.append(_paused(paused))
    taking = [crew for crew in crews if not crew.stopping]
    start = handling(handlers) if handlers else "worker start"
    if not crews:
        reasons.append(_reason(Cause.NO_WORKER, "no worker is running", start))
    elif names and not taking:
        reasons.append(_reason(Cause.NO_WORKER, "all workers are stopping", start))
    elif not handlers and _run_no_commands([crew for crew in taking if crew.serves_any(names)]):
        text = "no worker runs commands: those that there are have async tasks only"
        reasons.append(_reason(Cause.NO_HANDLER, text, start))
    elif unserved := sorted(q for q in names if not any(crew.serves(q) for crew in taking)):
        options = " ".join(f"--queue {_quoted(served(name))}" for name in unserved)
        text = f"no worker serves {', '.join(unserved)}"
        reasons.append(_reason(Cause.NOT_SERVED, text, f"{start} {options}"))
    return reasons


def _run_no_commands(crews: Sequence[Crew]) -> bool:
    return bool(crews) and all(crew.queues.no_commands for crew in crews)


def unhandled(jobs: Sequence[Job], crews: Sequence[Crew]) -> list[Reason]:
    """Say which of these jobs no node can run, though some serve their queues."""
    taking = [crew for crew in crews if not crew.stopping]
    lacking = sorted(
        {
            job.handler
            for job in jobs
            if job.handler
            and any(crew.serves(job.queue) for crew in taking)
            and not any(crew.takes(job) for crew in taking)
        }
    )
    return _unhandled(lacking, [crew.queues for crew in taking])


def unhandled_lines(
    lines: Mapping[tuple[str, str], int], crews: Sequence[Crew], most: int
) -> list[Reason]:
    """Say which ready jobs no node can run, though some serve their queues, and how many they are.

    Each line is that of a queue and a handler, and was counted up to `most`.
    """
    nodes = [crew.queues for crew in crews if not crew.stopping]
    found: dict[str, tuple[Reason, int]] = {}
    for handler, jobs in count_unhandled(lines, nodes).items():
        for reason in _unhandled([handler], nodes):
            first, before = found.get(reason.text, (reason, 0))
            found[reason.text] = (first, before + jobs)
    return [
        replace(reason, text=f"{_counted(jobs, most)} can't run: {reason.text}")
        for reason, jobs in [*found.values()][:NAMED]
    ]


def _counted(jobs: int, most: int) -> str:
    return f"{most:,} jobs or more" if jobs >= most else f"{jobs:,} job{'s' * (jobs != 1)}"


def _unhandled(lacking: Sequence[str], nodes: "Sequence[Serving]") -> list[Reason]:
    """Say of handlers that no node has what it is that they lack."""
    if not lacking:
        return []
    from queuectl.shortage import is_short

    short = [handler for handler in lacking if is_short(handler, nodes)]
    return unable([one for one in lacking if one not in short]) + _lacks(short, nodes)


def _lacks(handlers: Sequence[str], nodes: "Sequence[Serving]") -> list[Reason]:
    """Say what no node has that jobs with these handlers need."""
    from queuectl.shortage import shortages

    return [
        _reason(
            Cause.NO_LABEL if found.of_labels else Cause.TOO_LARGE,
            found.text,
            handling(found.handlers),
        )
        for found in shortages(handlers, nodes)
    ]


def unable(handlers: Sequence[str]) -> list[Reason]:
    """Say that no node has a program for jobs with these handlers."""
    missing = list(handlers)
    if not missing:
        return []
    text = f"no worker handles {', '.join(map(told_handler, missing[:NAMED]))}"
    text += f" and {len(missing) - NAMED} more" if len(missing) > NAMED else ""
    text += " (by --exec, --serve or --app)"
    return [_reason(Cause.NO_HANDLER, text, handling(missing[:NAMED]))]


def handling(handlers: Sequence[str]) -> str:
    """Write the command that starts a node which has programs for these."""
    from queuectl.shortage import having

    if options := having(handlers):
        bases = [base for handler in handlers if (base := base_handler(handler))]
        start = handling(bases) if bases else "worker start"
        return f"{start} {options}"
    types = [handler.removeprefix(TYPE) for handler in handlers]
    if not all(types):
        return "worker start --exec PROGRAM"
    # That of a task is the name of its module, and its own.
    modules = dict.fromkeys(type.rpartition(".")[0] for type in types)
    if all(modules):
        return f"worker start {' '.join(f'--app {_quoted(name)}:queue' for name in modules)}"
    return f"worker start {' '.join(f'--exec {_quoted(type)}=PROGRAM' for type in types)}"


def served(name: str) -> str:
    """Write a queue for `worker start`, which takes a number behind a colon for its share."""
    return f"{name}:1" if name.rpartition(":")[2].isdecimal() and ":" in name else name


def _held(job: Job, event: Event | None) -> list[Reason]:
    if not job.is_held:
        return []
    text = "it is held"
    text += f" by {event.who} since {local(event.at)}" if event is not None else " by hand"
    return [_reason(Cause.HELD, text, f"release {_quoted(job.id)}")]


def _asleep(job: Job, sleep: Sleep, now: int) -> Reason:
    """Say what a job sleeps for. To run it now would not help: it would sleep on."""
    when = "" if sleep.until is None else ahead(sleep.until, now)
    if sleep.awaits is None:
        return _reason(Cause.ASLEEP, f"it sleeps until {when}", ends_at=sleep.until)
    text = f"it waits for {sleep.awaits} to be emitted"
    text += f", until {when}" if when else ""
    return _reason(Cause.AWAITS, text, f"emit {_quoted(sleep.awaits)}", ends_at=sleep.until)


def _blocked(around: Surroundings) -> list[Reason]:
    """Say what a job waits for, and what keeps it in the end: once, where both are the same."""
    kept = [parent for parent in around.parents if not parent.is_met]
    if not kept:
        return [_reason(Cause.BLOCKED, "other jobs must end before it")]
    text = f"it waits for {listed([_parent(parent) for parent in kept])}"
    roots = around.roots
    if roots is None:
        return [_reason(Cause.BLOCKED, text)]
    direct = {parent.id for parent in kept}
    others = [root for root in roots.found if not root.is_stuck and root.id not in direct]
    if roots.is_whole and direct <= {root.id for root in roots.stuck} and len(direct) <= NAMED:
        return stuck(roots)
    if others and not roots.stuck:
        text += f", and so for {listed([_waited_for(root) for root in others])}"
    if not roots.is_whole:
        text += "; more jobs are before it than were looked at"
    return [_reason(Cause.BLOCKED, text), *stuck(roots)]


def _waited_for(root: "Root") -> str:
    return f"group {root.id}" if root.is_group else f"{root.id} ({root.state})"


def _parent(parent: "Relative") -> str:
    if parent.is_group:
        return f"group {parent.id} ({parent.came_to or 'not over'})"
    state = parent.state or f"gone, it was {parent.came_to or 'not over'}"
    wanted = {"fail": ", it is to fail"}.get(parent.wanted, "")
    return f"{parent.id} ({state}{wanted})"


def stuck(roots: "Roots", *, of_several: bool = False) -> list[Reason]:
    """Say which jobs have ended so that nothing which waits for them goes on, and what helps.

    That is said of one job that is blocked, or of several that are waited for.
    """
    there = [root for root in roots.stuck if root.job is not None or root.is_group]
    gone = [root for root in roots.stuck if root.job is None and not root.is_group]
    vain = "some of them wait in vain" if of_several else "it waits in vain"
    reasons = []
    if there:
        text = f"{vain}: {listed([_stuck(root) for root in there])}"
        remedy = _retrying(there)
        jobs = tuple(root.id for root in there if not root.is_group)[:MEANT]
        groups = tuple(root.id for root in there if root.is_group)[:MEANT]
        found = _reason(Cause.ROOT_CAUSE, text, remedy)
        reasons.append(replace(found, jobs=jobs, groups=groups))
    if gone:
        told = [f"job {root.id}, which was {root.came_to or 'not over'}, is gone" for root in gone]
        children = list(dict.fromkeys(root.child for root in gone))
        remedy = f"edit {_quoted(*children[:NAMED])} --unset after"
        found = _reason(Cause.PARENT_GONE, f"{vain}: {listed(told)}", remedy)
        reasons.append(replace(found, jobs=tuple(children[:MEANT])))
    return reasons


def _retrying(roots: "Sequence[Root]") -> str:
    """Write the command that retries jobs, or what is dead of a group."""
    if jobs := [root for root in roots if not root.is_group]:
        named = jobs[:NAMED]
        changed = {mending(root.job) for root in named if root.job is not None}
        same = f" {changed.pop()}" if len(changed) == 1 and changed != {""} else ""
        return f"retry {_quoted(*(root.id for root in named))}{same}"
    return f"retry --group {_quoted(roots[0].id)}"


def mending(job: Job) -> str:
    """Say with what a dead job has to be retried, where it would fail again otherwise."""
    reason = job.reason or ""
    if job.state != State.DEAD:
        return ""
    if reason.startswith("could not start: ") and "--best-effort " in reason:
        return "--with best_effort=true"
    memory = job.bounds.get("memory")
    if reason.startswith("out of memory: ") and memory:
        from queuectl.sizes import format_size

        return f"--with memory={format_size(2 * memory)}"
    return ""


def _stuck(root: "Root") -> str:
    if not root.is_group:
        return _ended(root.id, root.state, root.job)
    stands = "isn't over" if root.state is None else f"is {root.state}"
    if not root.because:
        return f"group {root.id} {stands}"
    dead = listed([_ended(job.id, job.state, job) for job in root.because])
    return f"group {root.id} {stands}, and {dead}"


def _ended(id: str, state: State | None, job: Job | None) -> str:
    why = None if job is None else job.reason
    return f"job {id} is {state}" + (f" ({why.rstrip('.')})" if why else "")


def listed(items: Sequence[str]) -> str:
    """Name some things in words, the first of many."""
    named, more = items[:NAMED], len(items) - NAMED
    if more > 0:
        return f"{', '.join(named)} and {more:,} more"
    return " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))


def _in_itself(job: Job, around: Surroundings) -> list[Reason]:
    now, sleep = around.now, around.sleep
    if job.state == State.BLOCKED:
        return _blocked(around)
    if job.expires_at is not None and job.expires_at <= now:
        text = f"it had to start by {local(job.expires_at)}; it is dead as soon as a worker looks"
        return [_reason(Cause.EXPIRED, text)]
    if job.run_at <= now:
        return []
    if sleep is not None:
        return [_asleep(job, sleep, now)]
    retry = job.state == State.FAILED
    when = ahead(job.run_at, now)
    text = f"its retry isn't due until {when}" if retry else f"it isn't due until {when}"
    cause = Cause.RETRY if retry else Cause.NOT_DUE
    remedy = None if job.is_held else f"retry {_quoted(job.id)}"
    return [_reason(cause, text, remedy, ends_at=job.run_at)]


def _paused(queues: Sequence[QueueInfo]) -> Reason:
    names = [queue.name for queue in queues]
    text = f"queues {', '.join(names)} are paused"
    if len(queues) == 1:
        [queue] = queues
        text = f"queue {queue.name} is paused"
        text += f" by {queue.paused_by}" if queue.paused_by else ""
        text += f" since {local(queue.paused_at)}" if queue.paused_at else ""
    return _reason(Cause.PAUSED, text, f"resume {_quoted(*names)}")


def _held_back(job: Job, around: Surroundings) -> list[Reason]:
    """Say which limits of its queue have no room for a job."""
    info = next((queue for queue in around.queues if queue.name == job.queue), None)
    if info is None or info.limits is None:
        return []
    from queuectl.limits import own_keys

    limits, reasons = info.limits, []
    of_queue = [other for other in around.running if other.queue == job.queue]
    running = _slots(of_queue)
    if limits.limit is not None and len(running) >= limits.limit:
        held = f"limit {len(running)} of {limits.limit} of queue {job.queue} is held by"
        reasons.append(_reason(Cause.LIMIT, f"{held} {_named(running)}"))
    elif limits.rates and info.closed_until is not None and info.closed_until > around.now:
        reasons.append(_rate(limits.rates, f"queue {job.queue}", info.closed_until, around.now))
    for key in job.keys:
        most = limits.limit_of(key)
        holders = _slots([other for other in of_queue if key in other.keys])
        if most is not None and len(holders) >= most:
            text = f"key {key} runs {len(holders)} of {most}: {_named(holders)}"
            if own_keys((key,)):
                name = key.partition(" ")[2]
                text = f"at most {most} at once with the others of {name}: {_named(holders)}"
            reasons.append(_reason(Cause.KEY, text))
        elif limits.key_rates and job.parked == key:
            at = around.key_opens_at
            reasons.append(_rate(limits.key_rates, f"key {key}", at, around.now))
    return reasons


def _without_room(job: Job, around: Surroundings) -> list[Reason]:
    """Say that what a job needs is there, but isn't free."""
    if job.needs is None:
        return []
    from queuectl.resources import needs_of, told_needs

    needs = needs_of(job.handler)
    able = [crew for crew in around.crews if crew.takes(job)]
    if needs is None or not needs.amounts or not able:
        return []
    mine = [node for node, id in around.kept.items() if id == job.id]
    keeps = f"; node {mine[0]} keeps room for it" if mine else ""
    free = [crew for crew in able if crew.stock and crew.stock.room().fits(needs)]
    if not free:
        who = "the one node that has" if len(able) == 1 else f"all {len(able)} nodes that have"
        text = f"it needs {told_needs(needs)}, which is in use on {who} so much{keeps}"
        return [_reason(Cause.NO_ROOM, text)]
    others = [around.kept.get(crew.node) for crew in free]
    if mine or not all(others):
        return []
    return [_reason(Cause.RESERVED, f"what it needs is kept for job {others[0]}, which came first")]


def _slots(jobs: Sequence[Job]) -> list[Job]:
    """Return the first job of each worker; those that it has claimed ahead take no slot."""
    return list({(job.node, job.worker): job for job in reversed(jobs)}.values())[::-1]


def _named(jobs: Sequence[Job]) -> str:
    names = ", ".join(job.id for job in jobs[:NAMED])
    more = f" and {len(jobs) - NAMED} more" if len(jobs) > NAMED else ""
    return f"job{'' if len(jobs) == 1 else 's'} {names}{more}"


def _rate(rates: "Sequence[Rate]", whose: str, opens_at: int | None, now: int) -> Reason:
    """Say that rates are used up, and until when."""
    what = "no run yet"
    if opens_at is not None:
        left = opens_at - now
        when = f"in {human(max(left, 0))}" if left < 60_000 else f"at {ahead(opens_at, now)}"
        what = f"the next run {when}"
    named = " and ".join(map(str, rates))
    allow = (
        f"rate {named} of {whose} allows" if len(rates) == 1 else f"rates {named} of {whose} allow"
    )
    return _reason(Cause.RATE, f"{allow} {what}", ends_at=opens_at)


def all_busy(job: Job, crews: Sequence[Crew]) -> bool:
    """Tell whether no worker that would run a job is free, though there are some."""
    serving = [crew for crew in crews if crew.takes(job)]
    return bool(serving) and sum(c.busy for c in serving) >= sum(c.workers for c in serving)


def _its_turn(job: Job, around: Surroundings) -> Reason:
    """Say how its turn comes, when nothing keeps it."""
    serving = [crew for crew in around.crews if crew.takes(job)]
    from queuectl.lifecycle import ROOM_WITHIN

    alone_until = job.run_at + ROOM_WITHIN
    if (
        job.crashes >= around.suspicious
        and around.now < alone_until
        and all(crew.busy for crew in serving)
    ):
        text = "after its crashes it is to run alone, and a node makes room for it"
        return _reason(Cause.ALONE, text, ends_at=alone_until)
    if all_busy(job, serving):
        workers = sum(crew.workers for crew in serving)
        who = {1: "the one worker that serves it is", 2: "both workers that serve it are"}
        text = who.get(workers, f"all {workers} workers that serve it are") + " busy"
        return _reason(Cause.BUSY, text + _in_line(around))
    return _reason(Cause.ITS_TURN, "a worker is free and takes it when it is first in line")


def _in_line(around: Surroundings) -> str:
    """Say how many are before a job, and how long that takes if it goes on like this."""
    if around.place is None:
        return ""
    left = f", at the present rate about {human(around.place / around.pace)}" if around.pace else ""
    return f" (place {around.place:,} in line{left})"


def _reason(
    cause: Cause, text: str, remedy: str | None = None, *, ends_at: int | None = None
) -> Reason:
    return Reason(cause=cause, text=text, remedy=remedy, ends_at=ends_at)


def _quoted(*words: str) -> str:
    """Write words as a shell reads them."""
    import shlex

    return shlex.join(words)
