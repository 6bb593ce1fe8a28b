"""Changing jobs by hand: cancel, retry and remove them.

A `Change` says what is done, and to jobs in which states. `make` does it to some jobs in one
transaction: to all of them or, if one can't be changed, to none. `make_named` and `make_matching`
do it to as many as are meant, in transactions small enough that workers don't wait for them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from queuectl import finding, lifecycle
from queuectl.errors import DuplicateError, QueuectlError, StateError, StoreError, UsageError
from queuectl.filter import Filter
from queuectl.history import event_of
from queuectl.host import whoami
from queuectl.job import FINISHED, OPEN, Job, Named, State
from queuectl.listing import check_filter
from queuectl.request import check_text, read_some
from queuectl.store.contract import Decision, Edit, EndRun, Store
from queuectl.values import dataclass, replace

LONGEST_REASON = 10_000
"""Bytes that the reason for a cancellation can have."""
PAGE = 500
"""Jobs changed in one transaction where a filter finds them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """Something that people do to jobs."""

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
        done="cancelled",
        allowed=OPEN,
        usual=OPEN,
        check=check,
        decide=lambda job, now: _cancel(job, why, now),
    )


def is_ending(job: Job) -> bool:
    """Tell whether a running job is being cancelled."""
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
        raise StateError(f"Job {job.id} is being cancelled already.")


def check_retry(job: Job, now: int) -> None:
    """Raise why a job can't be put back in line now, if that is so."""
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; wait for it or cancel it first.")
    if job.state == State.PENDING and job.run_at <= now:
        raise StateError(f"Job {job.id} is pending already; it needs a worker, not a retry.")


def _retry(job: Job, now: int) -> Decision:
    was = f"was {job.state}: {job.reason or job.error or ''}"
    return Decision(lifecycle.retried(now), event_of(now, "retry", job=job.id, detail=was))


def check_remove(job: Job, now: int) -> None:
    """Raise why a job can't be removed, if that is so."""
    if is_ending(job):
        raise StateError(f"Job {job.id} is being cancelled; remove it when that is done.")
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; cancel it first.")


def _remove(job: Job, now: int) -> Decision:
    return Decision(None, event_of(now, "rm", job=job.id, detail=f"was {job.state}"))


def check_waiting(job: Job, now: int) -> None:
    """Raise why a job can't be changed, if it doesn't wait."""
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} is running; what it runs can't be changed.")
    if job.state not in (State.PENDING, State.FAILED):
        raise StateError(f"Job {job.id} is {job.state}; only jobs that wait can be changed.")


def editing(given: Mapping[str, object]) -> Change:
    """Change what jobs that wait are to be, by the fields of a request."""
    if not given:
        raise UsageError("Say what to change, such as the priority.")
    for name in NOT_EDITED:
        if name in given:
            raise UsageError(f"The {name} of a job can't be changed.")

    def decide(job: Job, now: int) -> Decision | None:
        return _edit(job, given, now)

    return Change(done="edited", allowed=_LINE, usual=_LINE, check=check_waiting, decide=decide)


def _edit(job: Job, given: Mapping[str, object], now: int) -> Decision | None:
    values = read_some(given, now=now)
    if "command" in values or "argv" in values:
        values = {**dict.fromkeys(("command", "argv")), **values}
    if "env" in values:
        values["env"] = {**job.env, **values["env"]}
    if (delay := values.pop("delay", None)) is not None:
        values["run_at"] = now + delay
    if (expire := values.pop("expire", None)) is not None:
        values["expires_at"] = now + expire
    to = replace(job, **values)
    changed = [name for name in values if getattr(job, name) != getattr(to, name)]
    if not changed:
        return None
    detail = ", ".join(_told(name, job, to) for name in changed)
    return Decision(Edit(to), event_of(now, "edit", job=job.id, detail=detail))


def _told(name: str, before: Job, after: Job) -> str:
    """Say what became of a field; what is secret or long isn't shown."""
    if name in ("env", "command", "argv"):
        return name
    return f"{name} {getattr(before, name)!s} -> {getattr(after, name)!s}"


def check_hold(job: Job, now: int) -> None:
    """Raise why a job can't be held, if that is so."""
    check_waiting(job, now)
    if job.is_held:
        raise StateError(f"Job {job.id} is held already.")


def _hold(job: Job, now: int) -> Decision:
    return Decision(Edit(replace(job, parked="")), event_of(now, "hold", job=job.id))


def check_release(job: Job, now: int) -> None:
    """Raise why a job can't be released, if that is so."""
    if not job.is_held:
        raise StateError(f"Job {job.id} isn't held.")


def _release(job: Job, now: int) -> Decision:
    return Decision(Edit(replace(job, parked=None)), event_of(now, "release", job=job.id))


NOT_EDITED = ("id", "stdin", "stdin_base64")
_LINE = (State.PENDING, State.FAILED)

HOLD = Change(done="held", allowed=_LINE, usual=_LINE, check=check_hold, decide=_hold)
"""Keeps jobs that wait from running until they are released."""
RELEASE = Change(done="released", allowed=_LINE, usual=_LINE, check=check_release, decide=_release)

RETRY = Change(
    done="retried",
    allowed=(State.DEAD, State.FAILED, State.CANCELLED, State.COMPLETED),
    usual=(State.DEAD, State.FAILED, State.CANCELLED),
    check=check_retry,
    decide=_retry,
)
"""Puts jobs back in line, to run now."""

_IDLE = tuple(state for state in State if state != State.PROCESSING)

REMOVE = Change(
    done="removed", allowed=_IDLE, usual=_IDLE, check=check_remove, decide=_remove, deletes=True
)
"""Deletes jobs that don't run, with all that is kept of them."""


def only_dead(change: Change) -> Change:
    """Restrict a change to the dead letter queue; for a job in any other state it is an error."""

    def check(job: Job, now: int) -> None:
        check_dead(job)
        change.check(job, now)

    return replace(change, allowed=(State.DEAD,), usual=(State.DEAD,), check=check)


def check_dead(job: Job) -> None:
    """Raise why a job isn't to be found in the dead letter queue, if that is so."""
    if job.state != State.DEAD:
        raise StateError(f"Job {job.id} is {job.state}, not dead.", advice="see queuectl dlq list.")


RETRY_DEAD = only_dead(RETRY)
PURGE = only_dead(REMOVE)


# -- doing it ---------------------------------------------------------------------------


def make(store: Store, jobs: Sequence[Job], change: Change) -> list[Job]:
    """Change jobs, and return them as they are then; those that are gone, as they were."""
    return [each.after or each.before for each in _make(store, jobs, change)]


def _make(
    store: Store, jobs: Sequence[Job], change: Change, *, dry_run: bool = False
) -> list[Changed]:
    """Make a change, or only see whether it can be made."""
    if dry_run:
        now = store.clock.now()
        for job in jobs:
            change.check(job, now)
        return [Changed(before=job, after=job) for job in jobs]
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
    return [Changed(before=before[seq], after=after.get(seq, before[seq])) for seq in named]


def _decided(
    change: Change, jobs: Mapping[int, Job], which: Iterable[int], now: int
) -> dict[int, Decision]:
    decided = {seq: change.decide(jobs[seq], now) for seq in which}
    return {seq: decision for seq, decision in decided.items() if decision is not None}


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
    # All are found before one is changed: what is gone makes no room for another of that name.
    for job in _find(store, finding.several("change_named", ids)):
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
            name = id.id if isinstance(id, Job) else str(id)
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
    total = 0
    while True:
        jobs = store.jobs.select(which, limit=PAGE, after=after)
        page = _make_page(store, jobs, which, change, dry_run=dry_run)
        total += len(page)
        told(page)
        if len(jobs) < PAGE:
            return total
        after = jobs[-1].seq


def _make_page(
    store: Store, jobs: Sequence[Job], which: Filter, change: Change, *, dry_run: bool
) -> list[Changed]:
    """Change those of these jobs that still fit when nobody else can change them."""
    if dry_run:
        now = store.clock.now()
        return [Changed(before=job, after=job) for job in jobs if _fits(job, which, change, now)]
    fit: dict[int, Job] = {}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        fit.clear()
        fit.update((seq, job) for seq, job in held.items() if _fits(job, which, change, now))
        return _decided(change, fit, fit, now)

    try:
        after = store.jobs.change(jobs, decide)
    except DuplicateError:
        # One of them can't have its unique key again: the others can be changed without it.
        return _make_some(store, jobs, which, change) if len(jobs) > 1 else []
    in_order = (job.seq for job in jobs if job.seq in fit)
    return [Changed(before=fit[seq], after=after.get(seq, fit[seq])) for seq in in_order]


def _make_some(store: Store, jobs: Sequence[Job], which: Filter, change: Change) -> list[Changed]:
    """Change those that can be, one by one."""
    return [done for job in jobs for done in _make_page(store, [job], which, change, dry_run=False)]


def filter_for(change: Change, which: Filter) -> Filter:
    """Return what a filter means for a change; a state it can't be made in is a `UsageError`."""
    for state in which.states:
        if state not in change.allowed:
            raise UsageError(f"Jobs that are {state} can't be {change.done}; leave that state out.")
    return replace(which, states=which.states or change.usual)


def _fits(job: Job, which: Filter, change: Change, now: int) -> bool:
    if job.state not in which.states:
        return False
    try:
        change.check(job, now)
    except StateError:
        return False
    return True
