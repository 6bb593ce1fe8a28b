"""Taking back what was done to jobs by hand: as far as they are still what came of it.

All events of one command, request or call have the same action; those of changes that can be
taken back keep what each job was. Undoing an action is done in transactions of some hundred jobs,
as it was done itself, and is an action of its own.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from shlex import quote

from queuectl import finding
from queuectl.action import one_action
from queuectl.changes import Changed, Refused, is_ending
from queuectl.dependencies import is_along
from queuectl.errors import DuplicateError, NotFoundError, QueuectlError, StateError
from queuectl.facts import UNDO_FOR, Event
from queuectl.fields import FIELDS
from queuectl.history import event_of
from queuectl.host import whoami
from queuectl.job import FINISHED, Job, State
from queuectl.scope import is_bounded, reaches
from queuectl.store.contract import Decision, Restore, Store
from queuectl.values import dataclass, replace

PAGE = 500
"""Jobs that are brought back in one transaction."""
LOOKED_AT = 1_000
"""Events among which the last action is looked for."""
_WORK = frozenset(field.column for field in FIELDS if field.is_work)


@dataclass(frozen=True, slots=True, kw_only=True)
class Undone:
    """What came of undoing an action."""

    action: str
    jobs: int
    """How many are what they were."""
    refused: int
    """How many aren't, each for a reason of its own."""


Told = Callable[[Sequence[Changed | Refused]], None]


def last_action(store: Store, since: int | None = None) -> str:
    """Return the last action of who asks, since a time: the one that was begun last.

    Also if it can't be undone: who asks for that doesn't mean anything older.
    """
    who, now = whoami(), store.clock.now()
    earliest = max(now - UNDO_FOR, since or 0)
    last: Event | None = None
    seen: set[str | None] = set()
    for event in store.history.events(limit=LOOKED_AT):
        if last is not None and event.seq < last.seq:
            break
        if event.at < earliest:
            continue
        if event.action is None and event.who == who and event.kind in _TO_QUEUE:
            last = event
        elif event.action in seen or not (event.who == who or _is_along(event)):
            continue
        elif event.action is not None:
            # What it took along may have been cancelled much later, and by a node.
            seen.add(event.action)
            [first] = store.history.events(action=event.action, limit=1, oldest=True) or [event]
            is_later = last is None or first.seq > last.seq
            if is_later and first.who == who and first.at >= (since or 0) and _counts(first):
                last = first
    if last is None:
        raise NotFoundError(
            "You have done nothing in the last 10 minutes that can be undone.", advice=_LISTED
        )
    if last.action is None:
        raise _done_to_no_jobs(last)
    return last.action


_TO_QUEUE = frozenset(("pause", "resume", "rename", "rm", "config", "limits", "reset"))
"""What is done to queues, and to runs; on a command line that is no action by itself."""
_LISTED = "queuectl events --json has what was done, with its actions."


def _is_along(event: Event) -> bool:
    """Tell whether a job was cancelled because of others."""
    return event.kind == "cancel" and is_along(event.detail)


def _counts(event: Event) -> bool:
    """Tell whether something was done to jobs or queues; who signs in has done nothing to them."""
    return event.job is not None or event.kind in _TO_QUEUE or event.kind == "prune"


def _done_to_no_jobs(event: Event) -> StateError:
    what = " ".join(filter(None, (event.kind, event.job or event.detail)))
    return StateError(f"What was done last can't be undone: {what[:100]}.", advice=_LISTED)


def undo(
    store: Store, action: str | None, told: Told, *, may_change_work: bool, dry_run: bool = False
) -> Undone:
    """Undo an action, or the last one of who asks."""
    action = last_action(store) if action is None else action
    _check(store, action)
    done = refused = 0
    with one_action():
        for events in _pages(store, action):
            meant = [event for event in events if event.job is not None]
            found = _undo_page(store, meant, may_change_work=may_change_work, dry_run=dry_run)
            done += sum(isinstance(one, Changed) for one in found)
            refused += sum(isinstance(one, Refused) for one in found)
            told(found)
    if not done + refused:
        raise StateError("That was done to no jobs; there is nothing to undo.")
    return Undone(action=action, jobs=done, refused=refused)


def _pages(store: Store, action: str) -> Iterator[Sequence[Event]]:
    """Yield the events of an action, newest first; of jobs that aren't for who asks, none."""
    before: int | None = None
    while events := store.history.events(action=action, limit=PAGE, before=before):
        before = events[-1].seq
        yield _reached(store, events) if is_bounded() else events


def _reached(store: Store, events: Sequence[Event]) -> list[Event]:
    """Return those of events whose jobs are there, in queues that are for who asks."""
    places = {event.job: place for event in events if (place := _place(event)) is not None}
    there = {job.id: job for job in store.jobs.at(list(places.values()))}
    ids = {event.job for event in events if event.job is not None}
    jobs = {id: there.get(id) or store.jobs.get(id) for id in ids}
    mine = {id for id, job in jobs.items() if job is not None and reaches(job.queue)}
    return [event for event in events if event.job in mine]


def _check(store: Store, action: str) -> None:
    """Raise why nothing of an action can be undone, if that can be told at once."""
    newest = next(chain.from_iterable(_pages(store, action)), None)
    if newest is None:
        raise NotFoundError(
            f"There is no action {action[:60]!r}.", advice="queuectl events --json has them."
        )
    if newest.kind == "undo":
        raise StateError("That took something back, which can't be undone.", advice=_LISTED)
    if newest.job is None:
        raise _done_to_no_jobs(newest)
    if newest.at + UNDO_FOR < store.clock.now():
        raise StateError("That was done more than 10 minutes ago; it can't be undone any more.")


def _undo_page(
    store: Store, events: Sequence[Event], *, may_change_work: bool, dry_run: bool
) -> list[Changed | Refused]:
    """Undo what was done to some jobs: all that can be, in one transaction."""
    if not events:
        return []
    meant = {place: event for event in events if (place := _place(event)) is not None}
    before: dict[int, Job] = {}
    refused: dict[str, QueuectlError] = {}

    def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
        before.clear()
        refused.clear()
        last = store.history.last_of([str(event.job) for event in meant.values()])
        for seq, event in meant.items():
            try:
                before[seq] = _checked(held.get(seq), event, last, now, may_work=may_change_work)
            except QueuectlError as error:
                refused[str(event.job)] = error
        return {seq: _back(before[seq], meant[seq], now) for seq in before}

    jobs = store.jobs.at(list(meant))
    after: dict[int, Job | None] = {}
    if dry_run:
        decide({job.seq: job for job in jobs if reaches(job.queue)}, store.clock.now())
    else:
        try:
            after = store.jobs.change(jobs, decide) if jobs else {}
        except DuplicateError as error:
            # One of them can't have its unique key again: the others can come back without it.
            if len(events) == 1:
                return [Refused(name=str(events[0].job), job=jobs[0], error=error)]
            return [
                found
                for event in events
                for found in _undo_page(
                    store, [event], may_change_work=may_change_work, dry_run=False
                )
            ]
    if not jobs:
        decide({}, store.clock.now())
    made = {before[seq].id: Changed(before=before[seq], after=after.get(seq)) for seq in before}
    return [
        made.get(str(event.job))
        or Refused(name=str(event.job), job=None, error=refused[str(event.job)])
        if event.was is not None
        else Refused(name=str(event.job), job=None, error=_why_not(store, event))
        for event in events
    ]


def _why_not(store: Store, event: Event) -> StateError:
    """Say why something can't be undone of which isn't kept what the job was."""
    if event.kind == "cancel" and (job := store.jobs.get(str(event.job))) is not None:
        return _why_cancelled(job, event)
    return StateError(f"Job {event.job}: {event.kind} can't be undone{_WHY.get(event.kind, '')}.")


def _why_cancelled(job: Job, event: Event) -> StateError:
    """Say why a job stays cancelled, and how it runs again."""
    if is_ending(job):
        return StateError(
            f"Job {job.id} runs, and is being ended; that can't be taken back.",
            advice="what waits for it is cancelled when it has ended, and comes back then with:"
            f" queuectl undo {event.action}",
        )
    ran = "it ran" if job.tick is None else "its schedule has gone on"
    if job.state != State.CANCELLED:
        return StateError(f"Job {job.id}: {ran}, so that can't be taken back; it is {job.state}.")
    return StateError(
        f"Job {job.id} stays cancelled: {ran}, so that can't be taken back.",
        advice=f"run it again with: queuectl retry {quote(job.id)}",
    )


_WHY = {
    "rm": "; it is deleted",
    "cancel": " once it ran, or its schedule has gone on",
    "edit": " where it changed variables, or parents: what they were isn't kept",
    "retry": " from a step on, or with other variables",
    "force-finish": "; its hooks were called",
}


def _place(event: Event) -> int | None:
    return None if event.was is None else int(json.loads(event.was)["seq"])


def _checked(
    job: Job | None, event: Event, last: Mapping[str, int], now: int, *, may_work: bool
) -> Job:
    """Return a job that can be brought back to what it was, or raise why it can't."""
    was = json.loads(event.was or "{}")
    if job is None or job.id != event.job:
        raise NotFoundError(f"Job {event.job} isn't here any more, or has another place.")
    if event.at + UNDO_FOR < now:
        raise StateError(f"Job {job.id}: more than 10 minutes ago; it can't be undone any more.")
    if job.state == State.PROCESSING:
        raise StateError(f"Job {job.id} runs by now.")
    if job.attempts != was["attempts"]:
        raise StateError(f"Job {job.id} has run since; it is {job.state}.")
    if job.updated_at != event.at or last.get(job.id) != event.seq:
        raise StateError(f"Job {job.id} has changed since; it is {job.state}.")
    if not reaches(was.get("queue", job.queue)):
        raise finding.gone(job)
    if not may_work and _WORK & was.keys():
        raise StateError(f"Job {job.id} would run something else; you may not change that.")
    expires = was.get("expires_at", job.expires_at)
    if was.get("state", job.state) not in FINISHED and expires is not None and expires <= now:
        raise StateError(f"Job {job.id} would be brought back to expire at once.")
    return job


def _back(job: Job, event: Event, now: int) -> Decision:
    undone = event_of(now, "undo", job=job.id, detail=f"{event.kind} by {event.who}")
    return Decision(Restore(was=event.was or ""), replace(undone, was=None))
