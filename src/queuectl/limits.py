"""What a queue allows: limits, rates, shares, and what its jobs get by default.

Facts in, a decision out: no clock, no store. A store reads the facts of a queue while nobody else
claims from it, asks its `Gate`, and writes down what the gate says.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence, Set
from enum import StrEnum
from functools import lru_cache
from typing import Any, NamedTuple

from queuectl.errors import UsageError
from queuectl.values import dataclass, field, fields
from queuectl.when import format_duration, parse_duration

MOST = 1_000_000
"""The highest limit, and the most jobs of a rate."""
MOST_RATES = 4
MOST_KEYS = 1_000
"""For how many keys a queue may say something of their own."""
HEAVIEST = 1_000
UNIT = 2**20
"""By how much a job of a key of weight 1 moves the key on, in virtual time."""
LOOK_AGAIN = 2_000
"""Milliseconds after which a full queue is looked at again, though nobody said that a run is over.

Whoever ends a run says so; this bounds what a case that nobody thought of can cost."""


OWN = "%"
"""What keys begin with that carry a limit of their own: `%4 NAME`, for at most 4 at once.

Elements of an array have one. They are for no shares, no rates, and nothing else that is set.
"""


@lru_cache(4096)
def own_limit(key: str) -> int | None:
    """Return how many jobs with a key may run at once by what it is called itself."""
    number, space, _ = key.removeprefix(OWN).partition(" ")
    if not key.startswith(OWN) or not space or not number.isascii() or not number.isdecimal():
        return None
    return int(number) or None


def key_of(at_once: str) -> str:
    """Return the key of those of whom so many run at once, who are known by a name: `4 NAME`."""
    return f"{OWN}{at_once}"


def given_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the keys that somebody gave: those without a limit of their own."""
    return tuple(key for key in keys if key[:1] != OWN or own_limit(key) is None)


def own_keys(keys: Sequence[str]) -> tuple[str, ...]:
    """Return the others."""
    return tuple(key for key in keys if key[:1] == OWN and own_limit(key) is not None)


def at_once_of(keys: Sequence[str]) -> str | None:
    """Return how many run at once of those that a job belongs to, and their name: `4 NAME`."""
    return next((key.removeprefix(OWN) for key in own_keys(keys)), None)


def sharing_key(keys: Sequence[str]) -> str:
    """Return the key by which a job shares its queue; empty if nobody gave it one."""
    for key in keys:
        if key[:1] != OWN or own_limit(key) is None:
            return key
    return ""


class WhenFull(StrEnum):
    """What becomes of a new job when its queue, or its key, has no room for one more."""

    WAIT = "wait"
    REJECT = "reject"
    DROP_NEWEST = "drop-newest"
    REPLACE_WAITING = "replace-waiting"
    CANCEL_RUNNING = "cancel-running"


@dataclass(frozen=True, slots=True)
class Rate:
    """How many runs may begin in how long, by GCRA: all that it remembers is one time.

    `burst` of them may begin at once when none has for a while. So in any span no more begin than
    the rate allows in it and the burst.
    """

    jobs: int
    per: int
    """In milliseconds."""
    burst: int

    @property
    def spacing(self) -> float:
        """Milliseconds from one to the next."""
        return self.per / self.jobs

    @property
    def longest(self) -> float:
        """Milliseconds for which it can be used up at most."""
        return self.burst * self.spacing

    def opens_at(self, tat: float) -> float:
        """Return when the next run may begin, by the time until which those before have used it."""
        return tat - (self.burst - 1) * self.spacing

    def charged(self, tat: float, now: int) -> float:
        """Return until when it is used after one more run has begun."""
        return max(tat, now) + self.spacing

    def __str__(self) -> str:
        more = "" if self.burst == self.jobs else f":{self.burst}"
        return f"{self.jobs}/{format_duration(self.per)}{more}"


def parse_rate(text: object) -> Rate:
    """Read a rate such as `100/1m`, `5/s`, or, with the burst that it allows, `100/1m:10`."""
    wrong = UsageError(
        f"A rate is a number of jobs and a time, such as 100/1m or 5/1s, not {str(text)[:40]!r}."
    )
    count, slash, rest = str(text)[:100].partition("/")
    span, colon, most = rest.partition(":")
    numbers = [count.strip(), most.strip() if colon else "1"]
    if not slash or not all(one.isascii() and one.isdecimal() for one in numbers):
        raise wrong
    span = span.strip()
    try:
        per = parse_duration(f"1{span}" if span.isalpha() else span)
    except ValueError:
        raise wrong from None
    jobs = int(count)
    burst = int(most) if colon else jobs
    if not (1 <= jobs <= MOST and 1 <= burst <= MOST and per >= 1):
        raise UsageError(f"A rate allows 1 to {MOST:,} jobs in a time that isn't 0: {text!r}.")
    return Rate(jobs, per, burst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What was set on a queue. None, and what is empty, says nothing."""

    limit: int | None = None
    """How many of its jobs run at once."""
    rates: tuple[Rate, ...] = ()
    """How many begin in a time."""
    key_limit: int | None = None
    """How many run at once of each key."""
    key_limits: Mapping[str, int] = field(default_factory=dict)
    """The same for some keys, `name` or `name=value`; a `name` is for all its values."""
    key_rates: tuple[Rate, ...] = ()
    """How many begin in a time, of each key."""
    weights: Mapping[str, int] = field(default_factory=dict)
    """How much of the queue some keys get, where others get 1."""
    max_waiting: int | None = None
    """How many jobs may wait."""
    when_full: WhenFull | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """What new jobs get where their request says nothing, by the fields of a request."""

    @property
    def has_slots(self) -> bool:
        """Whether it matters when runs end."""
        return self.limit is not None or self.counts_keys

    @property
    def counts_keys(self) -> bool:
        """Whether it matters of which keys jobs are, besides their shares."""
        return self.key_limit is not None or bool(self.key_limits) or bool(self.key_rates)

    @property
    def longest(self) -> int:
        """Milliseconds for which it can close a queue, or a key, at most."""
        rates = (*self.rates, *self.key_rates)
        return max(LOOK_AGAIN, *(math.ceil(rate.longest) for rate in rates), 0)

    @property
    def bounds_line(self) -> bool:
        """Whether it decides about new jobs."""
        return self.max_waiting is not None or self.when_full not in (None, WhenFull.WAIT)

    def limit_of(self, key: str) -> int | None:
        """Return how many jobs of a key may run at once."""
        if key[:1] == OWN and (most := own_limit(key)) is not None:
            return most
        own = self.key_limits.get(key)
        if own is None:
            own = self.key_limits.get(key.partition("=")[0])
        return self.key_limit if own is None else own

    def weight_of(self, keys: Sequence[str]) -> int:
        """Return the weight of whom a job is for: that of its first key."""
        key = sharing_key(keys)
        if not key:
            return 1
        return self.weights.get(key) or self.weights.get(key.partition("=")[0]) or 1

    def as_dict(self) -> dict[str, Any]:
        """Write it for JSON, without what it says nothing of."""
        found: dict[str, Any] = {}
        for name in (f.name for f in fields(Limits)):
            value = getattr(self, name)
            if isinstance(value, tuple):
                value = [str(rate) for rate in value]
            elif isinstance(value, Mapping):
                value = dict(value)
            if value not in (None, [], {}):
                found[name] = value
        return found


UNLIMITED = Limits()


def read_limits(found: Mapping[str, Any]) -> Limits:
    """Read what `as_dict` has written."""
    values = dict(found)
    for name in ("rates", "key_rates"):
        values[name] = tuple(map(parse_rate, values.get(name, ())))
    if values.get("when_full") is not None:
        values["when_full"] = WhenFull(values["when_full"])
    known = {f.name for f in fields(Limits)}
    return Limits(**{name: value for name, value in values.items() if name in known})


@lru_cache(256)
def limits_of_text(text: str) -> Limits:
    """Read what a store has kept; mostly that is what it was before."""
    import json

    return read_limits(json.loads(text))


Meters = dict[str, float]
"""Until when the rates of a key are used, by what they are."""


class Place(NamedTuple):
    """Where a job can run: a worker of a node, who runs one at a time."""

    node: str
    worker: int
    ahead: bool = False
    """Whether the worker has something to do first."""

    @property
    def who(self) -> "Who":
        """Whose slot it is."""
        return self.node, self.worker


Who = tuple[str | None, int | None]
"""A worker: all the jobs of one that wait behind each other take no more than one slot."""


class Gate:
    """What may begin now of the jobs of a queue that has limits.

    Whoever asks for a job and is admitted has it counted.
    """

    def __init__(
        self,
        limits: Limits,
        running: Iterable[tuple[Who, Sequence[str]]],
        meters: Mapping[str, Meters],
        vtime: int,
        now: int,
    ) -> None:
        """Take who has jobs of which keys, and the meters by key; the queue's own is empty."""
        self.limits = limits
        self.vtime = vtime
        self._now = now
        self._slots: dict[str, set[Who]] = defaultdict(set)
        for who, keys in running:
            for key in ("", *keys):
                self._slots[key].add(who)
        self._meters = dict(meters)
        self.charged: dict[str, Meters] = {}
        """The meters of keys after those who were admitted."""
        for key, used in meters.items():
            # After a clock was put back, nothing is used up for longer than it can be.
            rates = {str(rate): now + rate.longest for rate in self._rates(key)}
            if any(until > rates.get(name, until) for name, until in used.items()):
                self._meters[key] = self.charged[key] = {
                    name: min(until, rates.get(name, until)) for name, until in used.items()
                }
        self.closed_until: int | None = None
        """Until when nothing more can begin, whatever its keys are; None if something can."""
        self.satisfied = False
        """Whether there is room, but none for jobs that are claimed ahead."""
        self.opening: dict[str, int] = {}
        """When keys open again whose rates are used up."""

    @property
    def is_shut(self) -> bool:
        """Whether it is no use to ask for another job."""
        return self.closed_until is not None or self.satisfied

    def ask(
        self, keys: Sequence[str], vtime: int, places: Sequence[Place]
    ) -> tuple[int | None, str | None]:
        """Ask for a job; returns at which of these places it begins, or which key has no room.

        If neither, the gate is shut.
        """
        now = self._now
        if self.limits.rates and (opens := self.opens_next("")) > now:
            self.closed_until = opens
            return None, None
        for key in given_keys(keys) if self.limits.key_rates else ():
            if (opens := self.opens_next(key)) > now:
                self.opening[key] = opens
                return None, key
        at = 0
        if not self._has_room(keys, places[0]):
            if (full := self._full(keys, {place.who for place in places})) is not None:
                return None, full
            at = next((at for at, place in enumerate(places) if self._has_room(keys, place)), -1)
            if at < 0:
                self.satisfied = self.closed_until is None
                return None, None
        for key in ("", *keys):
            self._slots[key].add(places[at].who)
            self._charge(key, self._rates(key))
        self.vtime = max(self.vtime, vtime)
        return at, None

    def _has_room(self, keys: Sequence[str], place: Place) -> bool:
        """Tell whether there is a slot for a job there; one claimed ahead leaves others half."""
        for key in ("", *keys):
            most = self._most(key)
            if most is None or place.who in (slots := self._slots[key]):
                continue
            if (2 if place.ahead else 1) * (len(slots) + 1) > most:
                return False
        return True

    def _full(self, keys: Sequence[str], offered: Set[Who]) -> str | None:
        """Return the key that has no slot for a job of any of these workers, if there is one.

        If that is so of the queue, it is closed.
        """
        for key in ("", *keys):
            slots, most = self._slots[key], self._most(key)
            if most is not None and len(slots) >= most and slots.isdisjoint(offered):
                if key:
                    return key
                self.closed_until = self._now + LOOK_AGAIN
        return None

    def _most(self, key: str) -> int | None:
        return self.limits.limit_of(key) if key else self.limits.limit

    def _rates(self, key: str) -> tuple[Rate, ...]:
        if own_keys((key,)):
            return ()
        return self.limits.key_rates if key else self.limits.rates

    def _charge(self, key: str, rates: Sequence[Rate]) -> None:
        if rates:
            used = self._meters.get(key, {})
            self._meters[key] = self.charged[key] = {
                str(rate): rate.charged(used.get(str(rate), 0), self._now) for rate in rates
            }

    def opens_next(self, key: str) -> int:
        """Return when the rates of a key allow one more run."""
        used = self._meters.get(key, {})
        opens = (rate.opens_at(used.get(str(rate), 0)) for rate in self._rates(key))
        return math.ceil(max(opens, default=0))

    def room_of(self, key: str) -> int:
        """Return how many more jobs of a key may begin, as far as its slots go."""
        most = self._most(key)
        return MOST if most is None else max(most - len(self._slots[key]), 0)


def refunded(rates: Sequence[Rate], used: Meters, jobs: int) -> Meters:
    """Return the meters of a key as if so many runs hadn't begun."""
    return {str(rate): used.get(str(rate), 0) - jobs * rate.spacing for rate in rates}


class Full(StrEnum):
    """What has no room for one more job."""

    QUEUE = "queue"
    KEY = "key"


@dataclass(frozen=True, slots=True)
class Crowd:
    """How many jobs of a queue, or of a key, run and wait."""

    running: int
    waiting: int


def full(limits: Limits, keys: Sequence[str], whole: Crowd, same: Crowd) -> Full | None:
    """Say what has no room for one more job, if that is so.

    With `max_waiting` that is for the whole line to say. Without, where new jobs don't just wait,
    slots are taken when as many jobs run or wait; `same` are the jobs with the same keys.
    """
    slots = limits.limit or 0
    if limits.max_waiting is not None:
        taken = whole.waiting + (whole.running if slots else 0)
        return Full.QUEUE if taken >= limits.max_waiting + slots else None
    if limits.when_full in (None, WhenFull.WAIT):
        return None
    of_keys = [most for key in given_keys(keys) if (most := limits.limit_of(key)) is not None]
    if of_keys:
        return Full.KEY if same.running + same.waiting >= min(of_keys) else None
    return Full.QUEUE if slots and whole.running + whole.waiting >= slots else None


class Shares:
    """Gives new jobs their places, so that keys of equal priority share a queue evenly.

    This is start-time fair queueing: each key has a virtual time of its own, which each of its jobs
    moves on by its unit, divided by the weight; a key that had nothing to do starts at the time of
    the queue, which is that of the job that began last.
    """

    def __init__(self, limits: Limits, vtime: int, keys: Mapping[str, int]) -> None:
        """Take the virtual times of the queue and of its keys; jobs without one share the empty."""
        self._limits = limits
        self._vtime = vtime
        self.keys = dict(keys)

    def place(self, keys: Sequence[str]) -> int:
        """Return the virtual time of a new job with these keys."""
        return self.places(keys, 1)[0]

    def places(self, keys: Sequence[str], jobs: int) -> range:
        """Return those of so many with the same keys, which come one after the other."""
        key = sharing_key(keys)
        start = max(self._vtime, self.keys.get(key, 0))
        step = UNIT // self._limits.weight_of(keys)
        self.keys[key] = end = start + jobs * step
        return range(start, end, step)
