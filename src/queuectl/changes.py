"""Changing jobs by hand: cancel, finish, retry and remove them.

A `Change` says what is done, and to jobs in which states. `make` does it to some jobs in one
transaction: to all of them or, if one can't be changed, to none. `make_named` and `make_matching`
do it to as many as are meant, in transactions small enough that workers don't wait for them.
"""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from typing import Any

from queuectl import finding, lifecycle
from queuectl.action import Action, current_action, one_action
from queuectl.dependencies import is_fallout, parent_in
from queuectl.errors import (
    DuplicateError,
    NotFoundError,
    QueuectlError,
    StateError,
    StoreError,
    UsageError,
)
from queuectl.filter import Filter
from queuectl.history import event_of
from queuectl.host import whoami
from queuectl.job import FINISHED, OPEN, Job, Named, State, Transition
from queuectl.listing import check_filter
from queuectl.request import check_text
from queuectl.scope import reaches
from queuectl.store.contract import Decision, Edit, EndRun, Store
from queuectl.values import dataclass, replace
from queuectl.when import milliseconds

LONGEST_REASON = 10_000
"""Bytes that the reason for a cancellation can have."""
PAGE = 500
"""Jobs changed in one transaction where a filter finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What is to be done to jobs, in words that can be sent: `editing.change_of` reads them."""

    do: str
    reason: str | None = None
    joining: bool = False
    result: str | None = None
    given: Mapping[str, Any] | None = None
    """The fields of a request, of jobs that are to be others."""
    from_step: str | None = None
    only_dead: bool = False
    repairs: bool = False
    """Whether only what is dead is meant, and what was cancelled because of that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that people do to jobs."""

    asked: Asked
    done: str
    """What jobs then are, as in "can't be cancelled"."""
    allowed: tuple[State, ...]
    """The states in which a filter finds jobs for it."""
    usual: tuple[State, ...]
    """Those that a filter means when it names none."""
    check: Callable[[Job, int], None]
    """Raises why it can't be done to a job at this time."""
    decide: Callable[[Job, int], Decision | None]
    """Says what is made of a job that it can be done to, at this time; None to leave it so."""
    deletes: bool = False
    """Whether the jobs are gone then."""
    together: bool = False
    """Whether all that are named are changed at once, as their order matters."""
    oldest_first: bool = False
    """Whether those that a filter finds are changed in the order of the line."""
    narrow: Callable[[Store, Sequence[Job], Container[str]], Sequence[Job]] | None = None
    """Returns those that are meant of jobs that a filter found, if not all of them are.

    In a dry run it is told which would have been changed already.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A job that was changed or, in a dry run, would be."""

    before: Job
    after: Job | None
    """As it is now; None when it is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A job that was named, and couldn't be changed."""

    name: str
    """The id, or the beginning of one, by which it was named."""
    job: Job | None
    """None when no job is meant by that."""
    error: QueuectlError


# -- what can be done -------------------------------------------------------------------


def cancelling(reason: str | None = None, *, joining: bool = False) -> Change:
    """Cancel jobs that wait, and ask the nodes of those that run to end them.

    With `joining`, jobs that are being cancelled already are taken as well, and left as they are:
    for whoever wants to wait for the end of all.
    """
    if reason:
        check_text("the reason", reason, longest=LONGEST_REASON)
    why = f"cancelled by {whoami()}" + (f": {reason}" if reason else "")

    def check(job: Job, now: int) -> None:
        if not (joining and is_ending(job)):
            check_cancel(job, now)

    return Change(
        asked=Asked(do="cancel", reason=reason, joining=joining),
        done="cancelled",
        allowed=OPEN,
        usual=OPEN,
        check=check,
        decide=lambda job, now: _cancel(job, why, now),
    )


def finishing(result: str | None = None) -> Change:
    """Complete jobs by hand, with this result as JSON; those that run, when their runs have ended.

    Their nodes are asked to end the runs: whatever these still come to, the jobs are completed.
    """
    why = f"finished by {whoami()}"
    return Change(
        asked=Asked(do="finish", result=result),
        done="finished",
        allowed=OPEN,
        usual=OPEN,
        check=check_finish,
        decide=lambda job, now: _force(job, why, result, now),
    )


def check_finish(job: Job, now: int) -> None:
    """Raise why a job can't be completed by hand, if that is so."""
    if job.state in FINISHED:
        raise StateError(f"Job {job.id} is {job.state} already; it can't be finished.")
    if job.is_forced:
        raise StateError(f"Job {job.id} is being finished already.")
    if is_ending(job):
        raise StateError(f"Job {job.id} is being cancelled already; it can't be finished.")


def _force(job: Job, why: str, result: str | None, now: int) -> Decision:
    event = event_of(now, "force-finish", job=job.id, detail=why)
    if job.state == State.PROCESSING:
        return Decision(EndRun(why, forced=result or ""), event)
    return Decision(lifecycle.finished(job, why), event, result=result)


def is_ending(job: Job) -> bool:
    """Tell whether a running job is being cancelled, or finished, by hand."""
    return job.state == State.PROCESSING and job.cancel_reason is not None


def _cancel(job: Job, why: str, now: int) -> Decision | None:
    if is_ending(job):
        return None
    event = event_of(now, "cancel", job=job.id, detail=why)
    if job.state == State.PROCESSING:
        return Decision(EndRun(why), event)
    return Decision(lifecycle.cancelled(job, why), event)


def check_cancel(job: Job, now: int) -> None:
    """Raise why a job can't be cancelled, if that is so."""
    if job.state in FINISHED:
        raise StateError(f"Job {job.id} is {job.state} already; it can't be cancelled.")
    if is_ending(job):
        what = "finished" if job.is_forced else "cancelled"
        raise StateError(f"Job {job.id} is being {what} already.")


def check_retry(job: Job, now: int) -> None:
    """Raise why a job can't be put back in line now, if that is so."""
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; wait for it or cancel it first.")
    if job.is_held:
        raise StateError(f"Job {job.id} is held.", advice=f"queuectl release {job.id} lets it run.")
    if job.state == State.PENDING and job.run_at <= now:
        raise StateError(f"Job {job.id} is pending already; it needs a worker, not a retry.")


def retry_detail(job: Job) -> str:
    """Say what a job was that is retried."""
    return ": ".join(filter(None, (f"was {job.state}", job.reason or job.error)))


def _retry(job: Job, now: int) -> Decision:
    event = event_of(now, "retry", job=job.id, detail=retry_detail(job))
    return Decision(lifecycle.retried(now, lifecycle.in_line(job)), event)


def check_remove(job: Job, now: int) -> None:
    """Raise why a job can't be removed, if that is so."""
    if is_ending(job):
        what = "finished" if job.is_forced else "cancelled"
        raise StateError(f"Job {job.id} is being {what}; remove it when that is done.")
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; cancel it first.")


def _remove(job: Job, now: int) -> Decision:
    return Decision(None, event_of(now, "rm", job=job.id, detail=f"was {job.state}"))


def retrying_from(step: str, change: "Change | None" = None) -> "Change":
    """Put jobs back in line, to do a step once more, and those after it."""
    change = RETRY if change is None else change
    decide = change.decide

    def forgetting(job: Job, now: int) -> Decision | None:
        decided = decide(job, now)
        return None if decided is None else decided._replace(forget=step)

    return replace(change, asked=replace(change.asked, from_step=step), decide=forgetting)


RETRY = Change(
    asked=Asked(do="retry"),
    done="retried",
    allowed=(State.DEAD, State.FAILED, State.CANCELLED, State.COMPLETED),
    usual=(State.DEAD, State.FAILED, State.CANCELLED),
    check=check_retry,
    decide=_retry,
)
"""Puts jobs back in line, to run now."""

_IDLE = tuple(state for state in State if state != State.PROCESSING)

REMOVE = Change(
    asked=Asked(do="remove"),
    done="removed",
    allowed=_IDLE,
    usual=_IDLE,
    check=check_remove,
    decide=_remove,
    deletes=True,
)
"""Deletes jobs that don't run, with all that is kept of them."""


def only_dead(change: Change) -> Change:
    """Restrict a change to the dead letter queue; for a job in any other state it is an error."""

    def check(job: Job, now: int) -> None:
        check_dead(job)
        change.check(job, now)

    asked = replace(change.asked, only_dead=True)
    return replace(change, asked=asked, allowed=(State.DEAD,), usual=(State.DEAD,), check=check)


def check_dead(job: Job) -> None:
    """Raise why a job isn't to be found in the dead letter queue, if that is so."""
    if job.state != State.DEAD:
        raise StateError(f"Job {job.id} is {job.state}, not dead.", advice="see queuectl dlq list.")


def repairing(change: Change) -> Change:
    """Restrict a retry to dead jobs, and to those that were cancelled because of dead ones.

    Not to those that somebody cancelled, nor to what follows from that. What else the retry does,
    such as to change what is run, it does to the dead ones: the others go on as they were.
    """

    def check(job: Job, now: int) -> None:
        if job.state == State.CANCELLED and not is_fallout(job.reason, job.group):
            raise StateError(f"Job {job.id} wasn't cancelled because others are dead.")
        (RETRY if job.state == State.CANCELLED else change).check(job, now)

    def decide(job: Job, now: int) -> Decision | None:
        return (RETRY if job.state == State.CANCELLED else change).decide(job, now)

    return replace(
        change,
        asked=replace(change.asked, repairs=True),
        usual=(State.DEAD, State.CANCELLED),
        check=check,
        decide=decide,
        oldest_first=True,
        narrow=_fallen,
    )


def stays_itself(job: Job, change: Change) -> bool:
    """Tell whether a change leaves what a job is to others, as it never failed itself."""
    return change.asked.repairs and job.state == State.CANCELLED


def _fallen(store: Store, jobs: Sequence[Job], foreseen: Container[str]) -> list[Job]:
    """Return those of these jobs, in the order of the line, that are down because of dead ones.

    What waits for others comes behind them. So these have been retried already, or are to be, if
    it was because of dead ones as well that they were cancelled. Those that are `foreseen` would
    have been retried.
    """
    parents = {job.seq: parent_in(job.reason) for job in jobs if job.state == State.CANCELLED}
    named = sorted({name for name in parents.values() if name is not None})
    states: dict[str, State] = store.jobs.states(named) if named else {}
    for group in store.groups.named([name.removeprefix(_GROUP) for name in named]):
        state = State.PENDING if group.over_at is None else group.came_to
        states.setdefault(f"{_GROUP}{group.name}", state)
    meant: dict[str, Job] = {}
    for job in jobs:
        parent = parents.get(job.seq)
        is_up = parent is None or parent in meant or parent in foreseen
        is_up = is_up or states.get(parent or "", State.DEAD) not in _DOWN
        if job.state != State.CANCELLED or (is_fallout(job.reason, job.group) and is_up):
            meant[job.id] = job
    return [*meant.values()]


_GROUP = "group "
_DOWN = (State.DEAD, State.CANCELLED)

REPAIR = repairing(RETRY)
"""Retries what failed of a group, and what that took along."""
RETRY_DEAD = only_dead(RETRY)
PURGE = only_dead(REMOVE)


# -- doing it ---------------------------------------------------------------------------


def make(store: Store, jobs: Sequence[Job], change: Change) -> list[Job]:
    """Change jobs, and return them as they are then; those that are gone, as they were."""
    with one_action():
        return [each.after or each.before for each in _make(store, jobs, change)]


def _make(
    store: Store, jobs: Sequence[Job], change: Change, *, dry_run: bool = False
) -> list[Changed]:
    """Make a change, or only see whether it can be made."""
    if dry_run:
        now = store.clock.now()
        for job in jobs:
            change.check(job, now)
        return [_foreseen(job, change, now) for job in jobs]
    try:
        return _make_now(store, jobs, change)
    except NotFoundError:
        # They may have got other places meanwhile.
        return _make_now(store, [finding.get(store, job) for job in jobs], change)


def _foreseen(job: Job, change: Change, now: int) -> Changed:
    """Say what a change would make of a job that is another one then."""
    to = (change.decide(job, now) or Decision(None)).to
    return Changed(before=job, after=to.job if isinstance(to, Edit) else job)


def _make_now(store: Store, jobs: Sequence[Job], change: Change) -> list[Changed]:
    named = {job.seq: job for job in jobs}
    before: dict[int, Job] = {}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        before.update(held)
        for seq, job in named.items():
            # Another queue, or one that was made anew, has another job at that place.
            if seq not in held or held[seq].id != job.id:
                raise finding.gone(job)
            change.check(held[seq], now)
        return _decided(change, held, named, now)

    after = store.jobs.change(jobs, decide)
    settle(store)
    return [Changed(before=before[seq], after=after.get(seq, before[seq])) for seq in named]


def settle(store: Store) -> None:
    """See to it that all who wait for jobs are told what became of these, however many they are."""
    while store.jobs.unsettled and store.jobs.settle():
        continue


def _decided(
    change: Change, jobs: Mapping[int, Job], which: Iterable[int], now: int
) -> dict[int, Decision]:
    found = {seq: change.decide(jobs[seq], now) for seq in which}
    decided = {
        seq: decision._replace(keeps=_can_be_undone(jobs[seq], decision))
        for seq, decision in found.items()
        if decision is not None
    }
    if (action := current_action()) is not None:
        action.can_be_undone |= any(decision.keeps for decision in decided.values())
    return decided


def _can_be_undone(job: Job, decision: Decision) -> bool:
    """Tell whether what a change makes of a job is something from which it can come back."""
    match decision.to:
        case _ if decision.forget is not None:
            return False
        case Edit(job=to):
            # What variables were isn't kept: they may be secrets.
            # Nor is what parents came to that it waits for no longer.
            return dict(to.env) == dict(job.env) and to.after == job.after
        case Transition(state=State.COMPLETED):
            # Hooks were called.
            return False
        case Transition(state=State.CANCELLED):
            # Its schedule has gone on.
            return job.tick is None
        case Transition():
            return True
    return False


def make_all(store: Store, call: str, jobs: Iterable[Named], change: Change) -> list[Job]:
    """Do the same to several jobs or ids, which must not be a single one for this `call`."""
    return make(store, finding.all_meant(store, call, jobs), change)


def make_named(
    store: Store,
    ids: Iterable[Named],
    change: Change,
    told: Callable[[Changed | Refused], None],
    *,
    dry_run: bool,
) -> None:
    with one_action():
        _make_named(store, ids, change, told, dry_run=dry_run)


def _make_named(
    store: Store,
    ids: Iterable[Named],
    change: Change,
    told: Callable[[Changed | Refused], None],
    *,
    dry_run: bool,
) -> None:
    # All are found before one is changed: what is gone makes no room for another of that name.
    found = _find(store, finding.several("change_named", ids))
    if change.together and not dry_run:
        for result in _make_together(store, found, change):
            told(result)
        return
    for job in found:
        if isinstance(job, Job):
            try:
                [done] = _make(store, [job], change, dry_run=dry_run)
            except StoreError:
                raise
            except QueuectlError as error:
                told(Refused(name=job.id, job=job, error=error))
            else:
                told(done)
        else:
            told(job)


def _make_together(
    store: Store, found: Sequence[Job | Refused], change: Change
) -> list[Changed | Refused]:
    """Change all of these jobs at once that can be; says what became of each."""
    named = {job.seq: job for job in found if isinstance(job, Job)}
    before: dict[int, Job] = {}
    refused: dict[int, QueuectlError] = {}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        before.clear()
        for seq, job in named.items():
            try:
                if seq not in held or held[seq].id != job.id:
                    raise finding.gone(job)
                change.check(held[seq], now)
            except QueuectlError as error:
                refused[seq] = error
            else:
                before[seq] = held[seq]
        return _decided(change, before, before, now)

    after = store.jobs.change(list(named.values()), decide)
    settle(store)
    return [
        job
        if isinstance(job, Refused)
        else Changed(before=before[job.seq], after=after.get(job.seq, before[job.seq]))
        if job.seq in before
        else Refused(name=job.id, job=job, error=refused[job.seq])
        for job in found
    ]


def _find(store: Store, ids: Iterable[Named]) -> list[Job | Refused]:
    """Return the jobs with these ids, each once, and in the place of others why there is none."""
    found: dict[int | str, Job | Refused] = {}
    for id in ids:
        try:
            job = finding.meant(store, id)
            found.setdefault(job.seq, job)
        except StoreError:
            raise
        except QueuectlError as error:
            name = str(getattr(id, "id", id))
            found[name] = Refused(name=name, job=None, error=error)
    return list(found.values())


def make_matching(
    store: Store,
    which: Filter,
    change: Change,
    told: Callable[[Sequence[Changed]], None],
    *,
    dry_run: bool,
) -> int:
    which = filter_for(change, check_filter(which))
    after: int | None = None
    total, action = 0, Action()
    foreseen: set[str] = set()
    while True:
        jobs = store.jobs.select(which, limit=PAGE, after=after, oldest=change.oldest_first)
        meant = jobs if change.narrow is None else change.narrow(store, jobs, foreseen)
        with one_action(action):
            page = _make_page(store, meant, which, change, dry_run=dry_run)
        total += len(page)
        told(page)
        if dry_run and change.narrow is not None:
            foreseen.update(one.before.id for one in page)
        if len(jobs) < PAGE:
            return total
        after = jobs[-1].seq


def _make_page(
    store: Store, jobs: Sequence[Job], which: Filter, change: Change, *, dry_run: bool
) -> list[Changed]:
    """Change those of these jobs that still fit when nobody else can change them."""
    if dry_run:
        now = store.clock.now()
        fitting = [job for job in jobs if _fits(job, which, change, now)]
        return [_foreseen(job, change, now) for job in fitting]
    found = {job.seq: job.id for job in jobs}
    there: dict[int, Job] = {}
    fit: dict[int, Job] = {}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        there.clear()
        there.update((seq, job) for seq, job in held.items() if job.id == found[seq])
        fit.clear()
        fit.update((seq, job) for seq, job in there.items() if _fits(job, which, change, now))
        return _decided(change, fit, fit, now)

    try:
        after = store.jobs.change(jobs, decide)
        settle(store)
    except DuplicateError:
        # One of them can't have its unique key again: the others can be changed without it.
        return _make_some(store, jobs, which, change) if len(jobs) > 1 else []
    in_order = (job.seq for job in jobs if job.seq in fit)
    made = [Changed(before=fit[seq], after=after.get(seq, fit[seq])) for seq in in_order]
    elsewhere = [store.jobs.get(id) for seq, id in found.items() if seq not in there]
    if moved := [job for job in elsewhere if job is not None and reaches(job.queue)]:
        # Somebody has given them other places meanwhile.
        made += _make_page(store, moved, which, change, dry_run=False)
    return made


def _make_some(store: Store, jobs: Sequence[Job], which: Filter, change: Change) -> list[Changed]:
    """Change those that can be, one by one."""
    return [done for job in jobs for done in _make_page(store, [job], which, change, dry_run=False)]


def _is_meant(job: Job, which: Filter) -> bool:
    """Tell whether a job that a filter found is still what that asks for."""
    if which.queues and job.queue not in which.queues:
        return False
    if which.types and job.type not in which.types:
        return False
    if which.groups and job.group not in which.groups:
        return False
    if not set(which.tags) <= set(job.tags) or not set(which.keys) <= set(job.keys):
        return False
    if which.due_since is not None and job.run_at < milliseconds(which.due_since):
        return False
    if which.due_before is not None and job.run_at >= milliseconds(which.due_before):
        return False
    texts = (job.id, job.command, job.error, job.reason, *(job.argv or ()))
    needle = which.text.lower()
    return not needle or any(needle in text.lower() for text in texts if text is not None)


def filter_for(change: Change, which: Filter) -> Filter:
    """Return what a filter means for a change; a state it can't be made in is a `UsageError`."""
    for state in which.states:
        if state not in change.allowed:
            raise UsageError(f"Jobs that are {state} can't be {change.done}; leave that state out.")
    return replace(which, states=which.states or change.usual)


def _fits(job: Job, which: Filter, change: Change, now: int) -> bool:
    if job.state not in which.states or not _is_meant(job, which):
        return False
    try:
        change.check(job, now)
    except StateError:
        return False
    return True
