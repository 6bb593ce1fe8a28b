"""Schedules of a queue: adding and changing them, looking ahead, and making the jobs of ticks."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from queuectl import lifecycle
from queuectl import schedule as policy
from queuectl.enqueueing import Enqueuer
from queuectl.errors import (
    BadJobError,
    DuplicateError,
    NotFoundError,
    QueuectlError,
    UsageError,
    about,
    did_you_mean,
    shown,
)
from queuectl.history import event_of
from queuectl.host import local_zone
from queuectl.job import Job, NewJob, State
from queuectl.merging import without_rivals
from queuectl.request import by_name, check_name
from queuectl.schedule import Missed, Overlap, Schedule
from queuectl.store.contract import Decision, EndRun, Store, Tick, Ticked
from queuectl.values import replace
from queuectl.when import format_duration, parse_duration, parse_moment

if TYPE_CHECKING:
    from datetime import datetime, timedelta

MOST_SHOWN = 10_000
"""Ticks that one may look ahead."""
MOST_FILLED = 10_000
"""Jobs that one backfill makes."""
NOT_FOR_SCHEDULES = (
    *("id", "expires_at", "after", "after_group", "if_parent_fails"),
    *("traceparent", "tracestate"),
)
"""Fields that only make sense for a single job."""
MOST_FAILURES = 1_000_000
"""In a row, after which a schedule is paused."""
LONGEST_SPAN = 366 * 86_400_000
"""Milliseconds of jitter, and of the time within which missed ticks come."""


def read_schedule(
    name: str,
    rule: str,
    *,
    tz: str | None = None,
    missed: str = "latest",
    missed_within: "str | int | float | timedelta | None" = None,
    overlap: str = "skip",
    jitter: "str | int | float | timedelta" = 0,
    pause_after: int | None = None,
    now: int,
) -> Schedule:
    """Return a schedule that begins now, but for what it runs; a `UsageError` if it can't be."""
    new = Schedule(
        name=check_name("The name of a schedule", name),
        rule=rule,
        zone=local_zone() if tz is None else tz,
        anchor=now,
        request={},
        missed=_word("missed", Missed, missed),
        missed_within=_span("missed_within", missed_within),
        overlap=_word("overlap", Overlap, overlap),
        jitter=_span("jitter", jitter) or 0,
        pause_after=_count("pause_after", pause_after),
        done_until=now,
        created_at=now,
        updated_at=now,
    )
    return _fitting(policy.started(replace(new, rule=new.read().text), now))


class Schedules:
    """The schedules of a queue: `queue.schedules`."""

    def __init__(self, store: Store, enqueuer: Enqueuer) -> None:
        self._store = store
        self._enqueuer = enqueuer

    # -- reading ------------------------------------------------------------------------

    def all(self) -> list[Schedule]:
        """Return all schedules, by name."""
        return self._store.schedules.all()

    def get(self, name: str) -> Schedule:
        """Return the schedule of this name; there must be one."""
        known = {schedule.name: schedule for schedule in self.all()}
        if name not in known:
            raise _unknown(name, known)
        return known[name]

    def next(self, name: str, count: int = 1) -> list[int]:
        """Return the next instants for which ticks are planned, in milliseconds."""
        if not 0 <= count <= MOST_SHOWN:
            raise UsageError(f"One can look at 0 to {MOST_SHOWN:,} ticks, not {shown(count)}.")
        schedule = self.get(name)
        begin = max(schedule.done_until, self._store.clock.now())
        return list(islice(schedule.read().after(begin), count))

    def ticks(self, name: str, limit: int = 10) -> list[Tick]:
        """Return the newest ticks that made jobs, newest first."""
        return self._store.schedules.ticks(self.get(name).name, limit)

    # -- changing -----------------------------------------------------------------------

    def add(
        self,
        name: str,
        rule: str,
        what: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        *,
        tz: str | None = None,
        missed: str = "latest",
        missed_within: "str | int | float | timedelta | None" = None,
        overlap: str = "skip",
        jitter: "str | int | float | timedelta" = 0,
        pause_after: int | None = None,
        **fields: Any,
    ) -> Schedule:
        """Add a schedule that makes a job of `what`, and of these fields, at the times of a rule.

        Raises:
            UsageError: The rule or an option is wrong; nothing was stored.
            DuplicateError: There is a schedule of this name.
        """
        new = self.draft(
            name,
            rule,
            what,
            tz=tz,
            missed=missed,
            missed_within=missed_within,
            overlap=overlap,
            jitter=jitter,
            pause_after=pause_after,
            **fields,
        )

        def decide(there: Schedule | None, now: int) -> Schedule:
            if there is not None:
                raise DuplicateError(
                    f"There is a schedule {new.name!r} already; change it, or choose another name."
                )
            begun = replace(new, anchor=now, done_until=now, created_at=now, updated_at=now)
            return policy.started(begun, now)

        return self._change(new.name, decide, "schedule", f"{new.name}: {new.rule}")

    def draft(
        self,
        name: str,
        rule: str,
        what: "str | Sequence[str] | Mapping[str, Any] | None" = None,
        **given: Any,
    ) -> Schedule:
        """Return what `add` would store, if it can be; nothing is stored."""
        own = {word: given.pop(word) for word in policy.POLICY if word in given}
        new = read_schedule(name, rule, **own, now=self._store.clock.now())
        return replace(new, request=self._read_request(what, given))

    def edit(self, name: str, **changes: Any) -> Schedule:
        """Change a schedule, by what `add` takes; nothing of the past comes because of it.

        Fields of the job that aren't named stay as they are; None takes one away.
        """
        given = dict(changes)
        what = given.pop("what", None)
        own = {
            field: read(given.pop(word)) for word, (field, read) in _READ.items() if word in given
        }

        def decide(there: Schedule | None, now: int) -> Schedule:
            if there is None:
                raise self._unknown(name)
            request = there.request
            if what is not None or given:
                request = self._read_request(what, given, there.request)
            after = replace(there, request=request, updated_at=now, **own)
            if (after.rule, after.zone) != (there.rule, there.zone):
                after = replace(after, anchor=now, rule=after.read().text)
            _fitting(after)
            # What is due now, but hasn't come, was planned by what it was before.
            return after if after.paused_at is not None else policy.started(after, now)

        return self._change(name, decide, "schedule", f"{name}: edited")

    def pause(self, name: str) -> bool:
        """Let no tick come until it is resumed; False when it was paused already."""
        who = event_of(0, "pause").who
        was = self.get(name).paused_at is not None

        def decide(there: Schedule | None, now: int) -> Schedule:
            if there is None:
                raise self._unknown(name)
            if there.paused_at is not None:
                return there
            return replace(there, paused_at=now, paused_by=who, next_at=None, updated_at=now)

        self._change(name, decide, "pause", f"schedule {name}")
        return not was

    def resume(self, name: str) -> bool:
        """Let ticks come again, from now on; False when it wasn't paused."""
        was = self.get(name).paused_at is not None

        def decide(there: Schedule | None, now: int) -> Schedule:
            if there is None:
                raise self._unknown(name)
            return there if there.paused_at is None else policy.resumed(there, now)

        self._change(name, decide, "resume", f"schedule {name}")
        return was

    def remove(self, name: str) -> None:
        """Remove a schedule. The jobs that it made stay."""

        def decide(there: Schedule | None, now: int) -> None:
            if there is None:
                raise self._unknown(name)

        event = event_of(self._store.clock.now(), "rm", detail=f"schedule {name}")
        self._store.schedules.change(name, decide, event=event)

    def _change(
        self,
        name: str,
        decide: Callable[[Schedule | None, int], Schedule],
        kind: str,
        detail: str,
    ) -> Schedule:
        event = event_of(self._store.clock.now(), kind, detail=detail)
        after = self._store.schedules.change(name, decide, event=event)
        assert after is not None
        return after

    # -- making jobs ----------------------------------------------------------------------

    def run(self, name: str) -> Job:
        """Make a job of a schedule now, besides those of its ticks, whatever the rule says."""

        def look(there: Schedule, newest: Job | None, now: int) -> Ticked:
            event = event_of(now, "schedule", detail=f"{name}: run by hand")
            return Ticked(there, [(now, self._new(there, now))], events=[event])

        return self._made(name, look)[0]

    def backfill(
        self,
        name: str,
        begin: "str | int | datetime",
        end: "str | int | datetime",
        *,
        dry_run: bool = False,
    ) -> list[int]:
        """Make the jobs of ticks that were planned from one time until before another.

        Ticks that have made jobs make none again. Returns the instants of those that do.
        """
        now = self._store.clock.now()
        first, last = (_moment(at, now) for at in (begin, end))
        if first >= last:
            raise UsageError("A backfill goes from a time to a later one.")
        if last > now:
            raise UsageError("A backfill is about the past; its end can't be in the future.")
        schedule = self.get(name)
        after = schedule.read().after(first - 1)
        planned = list(islice(takewhile(lambda at: at < last, after), MOST_FILLED + 1))
        if len(planned) > MOST_FILLED:
            raise UsageError(f"A backfill makes {MOST_FILLED:,} jobs at most; take a shorter time.")
        done = {tick.planned for tick in self._store.schedules.ticks(name, 2**31)}
        planned = [at for at in planned if at not in done]
        if dry_run or not planned:
            return planned

        def look(there: Schedule, newest: Job | None, now: int) -> Ticked:
            event = event_of(now, "schedule", detail=f"{name}: {len(planned)} ticks filled in")
            return Ticked(there, [(at, self._new(there, now)) for at in planned], events=[event])

        self._made(name, look)
        return planned

    def tick(self) -> list[Job]:
        """Make the jobs that are due now, of all schedules: what each node does by itself."""
        return self._store.schedules.tick(self._look)

    def _look(self, schedule: Schedule, newest: Job | None, now: int) -> Ticked | None:
        try:
            due = policy.due(schedule, newest, now)
            jobs = [(at, self._new(schedule, now)) for at in due.ticks]
        except QueuectlError as error:
            # Such as a zone that this host doesn't know. It is looked at again soon, by any node.
            return Ticked(
                replace(schedule, next_at=now + policy.MINUTE),
                events=[event_of(now, "schedule", detail=f"{schedule.name}: {error}")],
            )
        events = []
        if due.skipped:
            detail = f"{schedule.name}: skipped, as job {schedule.last_job} isn't over"
            events = [event_of(now, "schedule", detail=detail)]
        cancel = None
        if due.cancel and newest is not None and newest.cancel_reason is None:
            cancel = _cancel(newest, f"cancelled by the next tick of schedule {schedule.name}", now)
        after = replace(schedule, done_until=due.done_until, next_at=due.next_at)
        return Ticked(after, jobs, cancel, events)

    def _made(self, name: str, look: Any) -> list[Job]:
        self.get(name)
        made = self._store.schedules.tick(look, name=name)
        if not made:
            raise self._unknown(name)
        return made

    def _new(self, schedule: Schedule, now: int) -> NewJob:
        job = self._enqueuer.complete_one(schedule.request, now)
        if schedule.request.get("env_all"):
            # It has the whole of an environment, of whoever added it; ours is another.
            job = replace(job, env=schedule.request.get("env", {}))
        return job

    # -- what its jobs are ------------------------------------------------------------------

    def _read_request(
        self, what: Any, fields: Mapping[str, Any], before: Mapping[str, Any] | None = None
    ) -> dict[str, Any]:
        """Return the fields of its jobs as they are kept: as a request says them, in JSON."""
        asked = by_name(
            {**({} if what is None else self._enqueuer.as_fields(what)), **fields}, nulls=True
        )
        kept = without_rivals(before or {}, asked)
        if "env_all" in asked:
            # What was kept of an environment is that of before.
            kept.pop("env", None)
        given = {**kept, **asked}
        given = {name: value for name, value in given.items() if value is not None}
        for name in NOT_FOR_SCHEDULES:
            if name in given:
                raise BadJobError(f"A schedule makes many jobs, so {name} can't be said for all.")
        if (folder := self._enqueuer.folder()) is not None:
            given.setdefault("cwd", folder)
        if isinstance(given.get("stdin"), bytes):
            from base64 import b64encode

            given["stdin_base64"] = b64encode(given.pop("stdin")).decode()
        job = self._enqueuer.complete_one(given, self._store.clock.now())
        if given.get("env_all") and "env_all" in asked:
            # Of whoever adds it: nobody else's could be meant.
            given["env"] = job.env
        return plain_fields(given)

    def _unknown(self, name: str) -> NotFoundError:
        return _unknown(name, [schedule.name for schedule in self.all()])


def _fitting(schedule: Schedule) -> Schedule:
    """Return a schedule whose jitter doesn't take its ticks past the next ones."""
    gap = policy.shortest_gap(schedule) if schedule.jitter else None
    if gap is not None and schedule.jitter > gap:
        raise UsageError(
            f"jitter can't be longer than the time between two ticks: {schedule.rule!r} has"
            f" {format_duration(gap)}, and {format_duration(schedule.jitter)} is more.",
            field="jitter",
        )
    return schedule


def _cancel(job: Job, why: str, now: int) -> Decision:
    event = event_of(now, "cancel", job=job.id, detail=why)
    if job.state == State.PROCESSING:
        return Decision(EndRun(why), event)
    return Decision(lifecycle.cancelled(job, why), event)


def _unknown(name: str, known: Iterable[str]) -> NotFoundError:
    return NotFoundError(
        f"There is no schedule {shown(name)}.",
        advice=did_you_mean(str(name), known, "see queuectl schedule list."),
    )


def plain_fields(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return fields as JSON has them."""
    from datetime import datetime, timedelta

    plain: dict[str, Any] = {}
    for name, value in given.items():
        if isinstance(value, timedelta):
            plain[name] = value.total_seconds()
        elif isinstance(value, datetime):
            plain[name] = value.isoformat()
        elif (hook := getattr(value, "as_hook", None)) is not None:
            plain[name] = hook
        elif isinstance(value, Mapping):
            plain[name] = dict(value)
        elif isinstance(value, Sequence) and not isinstance(value, str):
            plain[name] = list(value)
        else:
            plain[name] = value
    return plain


def _word(name: str, kind: Any, value: Any) -> Any:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(kind)
        raise UsageError(f"{name} is one of {words}, not {shown(value)}.", field=name) from None


def _span(name: str, value: Any) -> int | None:
    if value is None:
        return None
    with about(name):
        ms = parse_duration(value.total_seconds() if hasattr(value, "total_seconds") else value)
    if ms > LONGEST_SPAN:
        raise UsageError(f"{name} can be a year at most.", field=name)
    return ms


def _count(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MOST_FAILURES:
        raise UsageError(
            f"{name} must be a whole number from 1 to {MOST_FAILURES:,}, not {shown(value)}.",
            field=name,
        )
    return value


def _moment(value: Any, now: int) -> int:
    if isinstance(value, str):
        return parse_moment(value, now=now)
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    from queuectl.when import milliseconds

    return milliseconds(value)


_READ: Mapping[str, tuple[str, Callable[[Any], Any]]] = {
    "rule": ("rule", lambda rule: rule),
    "tz": ("zone", lambda zone: zone),
    "missed": ("missed", lambda value: _word("missed", Missed, value)),
    "overlap": ("overlap", lambda value: _word("overlap", Overlap, value)),
    "missed_within": ("missed_within", lambda value: _span("missed_within", value)),
    "jitter": ("jitter", lambda value: _span("jitter", value) or 0),
    "pause_after": ("pause_after", lambda value: _count("pause_after", value)),
}
"""What can be edited of a schedule, as users call it: which field that is, and how it is read."""
