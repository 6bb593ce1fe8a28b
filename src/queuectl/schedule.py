"""A schedule: a rule that makes jobs at times. What is due of it is decided here.

A tick is one planned instant of its rule. Ticks are dealt with in their order, each once: the
schedule remembers until when (`done_until`), and that moves in the transaction that stores the job.
So neither a clock that is put back, nor another node, nor a crash can make one come twice.
"""

from collections.abc import Mapping
from datetime import tzinfo
from enum import StrEnum
from hashlib import sha256
from itertools import islice, pairwise, takewhile
from typing import Any

from queuectl.errors import about
from queuectl.job import FINISHED, Job, State
from queuectl.rules import Rule, read_rule, read_zone
from queuectl.values import dataclass, replace

MINUTE = 60_000
ON_TIME = MINUTE
"""Milliseconds by which a tick may be late and not be missed."""
AT_ONCE = 100
"""Ticks of one schedule that are dealt with in one transaction."""
POLICY = ("tz", "missed", "missed_within", "overlap", "jitter", "pause_after")
"""What says how a schedule ticks, and not what its jobs are, as users call it."""
_BACK = tuple(MINUTE * 10**n for n in range(8))
"""How far to look back for the last tick: further each time, to the whole of what can be."""


class Missed(StrEnum):
    """What becomes of ticks that nobody was there for."""

    LATEST = "latest"
    """Of several the last one comes, late."""
    OFF = "off"
    """None of them comes."""
    ALL = "all"
    """All of them come, one after the other."""


class Overlap(StrEnum):
    """What a tick does while the job of the one before isn't over."""

    SKIP = "skip"
    """It makes no job."""
    ALLOW = "allow"
    """It makes its job, which may run beside the other."""
    LATEST = "latest"
    """It waits for that; of several that wait, the last one comes."""
    ALL = "all"
    """It waits for that, and for those before it."""
    CANCEL = "cancel-running"
    """It cancels that job, and comes when that is over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """A rule that makes jobs at times, and how far it has come."""

    name: str
    rule: str
    zone: str
    anchor: int
    """From when `every` counts."""
    request: Mapping[str, Any]
    """The fields of its jobs, as a request says them; what it doesn't say, the settings do then."""
    missed: Missed = Missed.LATEST
    missed_within: int | None = None
    """Milliseconds after which a missed tick doesn't come any more; None for never."""
    overlap: Overlap = Overlap.SKIP
    jitter: int = 0
    """Milliseconds by which ticks may come later; how much it is, the name decides."""
    pause_after: int | None = None
    """After so many jobs in a row that died it pauses itself."""
    paused_at: int | None = None
    paused_by: str | None = None
    done_until: int
    """All ticks that were planned until then have been dealt with."""
    next_at: int | None = None
    """When there is something to do: the next tick, with its jitter. None while it is paused, or
    waits for the job of a tick, or when no tick comes any more."""
    failures: int = 0
    """Jobs in a row that died."""
    last_tick: int | None = None
    last_job: str | None = None
    last_seq: int | None = None
    """The newest tick that made a job, that job, and its place in the line."""
    created_at: int
    updated_at: int

    @property
    def tz(self) -> tzinfo:
        """Its time zone; an error where this host doesn't know it."""
        with about("tz"):
            return read_zone(self.zone)

    def read(self) -> Rule:
        """Return its rule; an error where this host doesn't know its zone."""
        with about("rule"):
            return read_rule(self.rule, self.tz, anchor=self.anchor)

    @property
    def delay(self) -> int:
        """How many milliseconds after the planned instant its ticks come."""
        if not self.jitter:
            return 0
        # The same on every host, and in every version of Python.
        return int.from_bytes(sha256(self.name.encode()).digest()[:8]) % (self.jitter + 1)

    def waits_for(self, job: Job | None) -> bool:
        """Tell whether this job, its newest, isn't over yet."""
        return job is not None and job.state not in FINISHED


@dataclass(frozen=True, slots=True, kw_only=True)
class Due:
    """What a schedule has to do now."""

    ticks: tuple[int, ...] = ()
    """Those that make a job, in their order."""
    skipped: int = 0
    """How many make none, as far as anybody counts."""
    cancel: bool = False
    """Whether the newest job has to be cancelled."""
    done_until: int
    next_at: int | None


def due(schedule: Schedule, newest: Job | None, now: int) -> Due:
    """Decide what a schedule does now, with its newest job as it is."""
    rule, until = schedule.read(), now - schedule.delay
    begin = _from(schedule, until)
    if begin >= until:
        return _on(schedule, rule, Due(done_until=schedule.done_until, next_at=None))
    if schedule.missed is Missed.ALL:
        found = list(islice(takewhile(lambda tick: tick <= until, rule.after(begin)), AT_ONCE))
    else:
        found = _last(rule, begin, until)
    if not found:
        return _on(schedule, rule, Due(done_until=max(begin, schedule.done_until), next_at=None))
    if schedule.overlap is Overlap.ALLOW:
        return _on(schedule, rule, Due(ticks=tuple(found), done_until=found[-1], next_at=None))
    if not schedule.waits_for(newest):
        first = found[0] if schedule.overlap is Overlap.ALL else found[-1]
        made = Due(ticks=(first,), done_until=first, next_at=None)
        return _on(schedule, rule, made)
    if schedule.overlap is Overlap.SKIP:
        return _on(schedule, rule, Due(skipped=len(found), done_until=found[-1], next_at=None))
    # The end of that job brings it up again; see `after_end`.
    cancel = schedule.overlap is Overlap.CANCEL
    return Due(cancel=cancel, done_until=schedule.done_until, next_at=None)


def _from(schedule: Schedule, until: int) -> int:
    """Return the instant after which ticks count."""
    within = ON_TIME if schedule.missed is Missed.OFF else schedule.missed_within
    return schedule.done_until if within is None else max(schedule.done_until, until - within)


def _last(rule: Rule, begin: int, until: int) -> list[int]:
    """Return the last tick after one instant, and until another, if there is one."""
    for back in _BACK:
        start = max(begin, until - back)
        found = list(takewhile(lambda tick: tick <= until, rule.after(start)))
        if found or start == begin:
            return found[-1:]
    return []


def _on(schedule: Schedule, rule: Rule, made: Due) -> Due:
    """Say when the next tick comes."""
    following = next(rule.after(made.done_until), None)
    at = None if following is None else following + schedule.delay
    return replace(made, next_at=at)


def shortest_gap(schedule: Schedule) -> int | None:
    """Return the least milliseconds between ticks of the nearer future; None if none follow."""
    coming = list(islice(schedule.read().after(schedule.done_until), AT_ONCE))
    return min((later - tick for tick, later in pairwise(coming)), default=None)


def after_end(schedule: Schedule, seq: int, state: State | None, now: int) -> Schedule:
    """Return what a schedule is once a job of its is over, in this state; None if it is removed."""
    failures = schedule.failures
    if state is State.COMPLETED:
        failures = 0
    elif state is State.DEAD:
        failures += 1
    ended = replace(schedule, failures=failures)
    if schedule.paused_at is None and schedule.pause_after and failures >= schedule.pause_after:
        why = f"queuectl, after {failures} jobs in a row that died"
        return replace(ended, paused_at=now, paused_by=why, next_at=None, updated_at=now)
    if seq == schedule.last_seq and schedule.next_at is None and schedule.paused_at is None:
        # Ticks may have waited for it.
        return replace(ended, next_at=now)
    return ended


def resumed(schedule: Schedule, now: int) -> Schedule:
    """Return a schedule that goes on from now: what came while it was paused is past."""
    on = replace(schedule, paused_at=None, paused_by=None, failures=0, updated_at=now)
    return started(replace(on, done_until=max(schedule.done_until, now)), now)


def started(schedule: Schedule, now: int) -> Schedule:
    """Return a schedule with the time of its next tick; none of before now comes."""
    done_until = max(schedule.done_until, now)
    following = next(schedule.read().after(done_until), None)
    at = None if following is None else following + schedule.delay
    return replace(schedule, done_until=done_until, next_at=at)


def mark(name: str, tick: int) -> str:
    """Return what names a tick among those of all schedules."""
    return f"{tick} {name}"
