"""The limits of queues: reading what somebody wants of them, setting it, telling what holds."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from queuectl.bounds import written as bound_written
from queuectl.enqueueing import Enqueuer
from queuectl.errors import UsageError, about, did_you_mean, shown
from queuectl.fields import REQUESTED
from queuectl.filter import Filter
from queuectl.history import event_of
from queuectl.job import WAITING, Job, State
from queuectl.limits import (
    HEAVIEST,
    MOST,
    MOST_KEYS,
    MOST_RATES,
    UNLIMITED,
    Limits,
    Rate,
    WhenFull,
    parse_rate,
)
from queuectl.request import BOUND_NAMES, check_key, check_name, plain, read_some
from queuectl.store.contract import Store
from queuectl.values import dataclass, replace
from queuectl.when import format_duration

DEFAULTS = tuple(
    field.name
    for field in REQUESTED
    if field.name == "priority"
    or field.kind == "hook"
    or field.within
    or (field.setting and field.kind not in ("flag", "program"))
)
"""Fields of jobs that a queue can say, where a request says nothing."""
LOOKED_AT = 10_000
"""Of very many jobs that wait, so many are looked at to tell of which keys they are."""
_WITH_UNITS = ("memory", "cpu_time")
_DURATIONS = [f.name for f in REQUESTED if f.kind in ("limit", "wait", "duration")]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyUse:
    """What goes on of a key of a queue."""

    name: str
    running: int
    waiting: int
    limit: int | None
    weight: int


class QueueLimits:
    """What queues allow: `queue.limits`."""

    def __init__(self, store: Store, enqueuer: Enqueuer) -> None:
        self._store = store
        self._enqueuer = enqueuer

    def all(self) -> dict[str, Limits]:
        """Return the limits of all queues on which some were set."""
        return {
            queue.name: queue.limits
            for queue in self._store.settings.queues()
            if queue.limits is not None and queue.limits != UNLIMITED
        }

    def get(self, name: str) -> Limits:
        """Return the limits of a queue; one on which none were set has empty ones."""
        return self.all().get(check_name("queue", name), UNLIMITED)

    def keys(self, name: str) -> list[KeyUse]:
        """Return the keys of which jobs of a queue run or wait, those with most of them first.

        Of jobs that wait, the oldest 10,000 count.
        """
        limits = self.get(name)
        running, waiting = (
            Counter(key for job in self._some(name, states) for key in job.keys)
            for states in ((State.PROCESSING,), WAITING)
        )
        return [
            KeyUse(
                name=key,
                running=running[key],
                waiting=waiting[key],
                limit=limits.limit_of(key),
                weight=limits.weight_of([key]),
            )
            for key, _ in (running + waiting).most_common()
        ]

    def _some(self, name: str, states: tuple[State, ...]) -> list[Job]:
        which = Filter(queues=(name,), states=states)
        return self._store.jobs.select(which, limit=LOOKED_AT, oldest=True)

    def set(self, name: str, **changes: Any) -> Limits:
        """Change limits of a queue, for all nodes and from now on; returns what holds then.

        Only what is given changes, and None takes a limit away:

        - `limit`: how many of its jobs run at once; `rates`: how many begin in a time ("100/1m");
        - `key_limit`, `key_rates`: the same of each key, and `key_limits` of some, by name;
        - `weights`: how much keys get of the queue, by name, where others get 1;
        - `max_waiting`, `when_full`: how many wait at most, and what becomes of one more;
        - `priority`, `timeout`, `max_retries`, `backoff`, `backoff_base`, `retry_delay`,
          `max_backoff`, `expire`, `on_success`, `on_failure`, `on_dead`: what its jobs get where
          they say nothing.

        Raises:
            UsageError: Something in it can't be; nothing was changed.
        """
        name = check_name("queue", name)
        if not changes:
            raise UsageError("Say what to set on the queue, such as limit=3.")
        change = read_changes(changes)
        return self._set(name, change, f"{name}: {_in_words(changes)}")

    def clear(self, name: str) -> None:
        """Take all limits of a queue away."""
        name = check_name("queue", name)
        self._set(name, lambda _: UNLIMITED, f"{name}: cleared")

    def _set(self, name: str, change: Callable[[Limits], Limits], detail: str) -> Limits:
        event = event_of(self._store.clock.now(), "limits", detail=detail)
        limits = self._store.settings.set_limits(name, change, event=event)
        self._enqueuer.note_new_settings()
        return limits


def read_changes(changes: Mapping[str, Any]) -> Callable[[Limits], Limits]:
    """Read what is to be changed; returns what makes the new limits of the old ones, or raises."""
    own: dict[str, Any] = {}
    said: dict[str, Any] = {}
    for word, value in changes.items():
        if word in _READ:
            none = () if word in _RATES else None
            with about(word):
                own[word] = none if value is None else _READ[word](word, value)
        elif word in DEFAULTS:
            said[word] = value
        else:
            known = (*_READ, *DEFAULTS)
            hint = did_you_mean(str(word), known, f"there are {', '.join(known)}.")
            raise UsageError(f"There is nothing called {shown(word)} to set on a queue; {hint}")
    defaults = _read_some({word: value for word, value in said.items() if value is not None})

    def change(limits: Limits) -> Limits:
        values: dict[str, Any] = {
            word: _laid(word, getattr(limits, word), value) if word in _BY_KEY else value
            for word, value in own.items()
        }
        merged = dict(limits.defaults) | {word: defaults.get(word) for word in said}
        kept = {word: merged[word] for word in DEFAULTS if merged.get(word) not in (None, "")}
        after = replace(limits, **values, defaults=kept)
        _check_full(after)
        return after

    return change


def _read_some(said: Mapping[str, Any]) -> dict[str, Any]:
    """Read fields of jobs; returns them as JSON has them, for whoever makes jobs reads them."""
    read = read_some({word: plain(value) for word, value in said.items()})
    return {word: _as_said(word, read) for word in said}


def _as_said(word: str, read: Mapping[str, Any]) -> Any:
    """Return what was read of a field as one would say it again."""
    if word in BOUND_NAMES:
        value = read["bounds"][word]
        return bound_written(word, value) if value is not None and word in _WITH_UNITS else value
    return format_duration(read[word]) if word in _DURATIONS else read[word]


def _whole(word: str, value: object, most: int = MOST) -> int:
    number = value
    if isinstance(value, str) and value.isascii() and value.strip().isdecimal():
        number = int(value[:20])
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= most:
        raise UsageError(f"{word} must be a whole number from 1 to {most:,}, not {shown(value)}.")
    return number


def _rates(word: str, value: object) -> tuple[Rate, ...]:
    given = [value] if isinstance(value, str | Rate) else value
    if not isinstance(given, Sequence):
        raise UsageError(f"{word} must be rates such as 100/1m, not {shown(value)}.")
    if len(given) > MOST_RATES:
        raise UsageError(f"{word} can be {MOST_RATES} rates at most, not {len(given)}.")
    return tuple(dict.fromkeys(parse_rate(str(rate)) for rate in given))


def _by_key(word: str, value: object, most: int = MOST) -> dict[str, int | None]:
    if not isinstance(value, Mapping):
        raise UsageError(f"{word} must map keys to numbers, such as {{'vip': 5}}.")
    return {
        check_key(key): None if number is None else _whole(f"{word} of {key}", number, most)
        for key, number in value.items()
    }


def _when_full(word: str, value: object) -> WhenFull:
    try:
        return WhenFull(str(value))
    except ValueError:
        words = ", ".join(WhenFull)
        raise UsageError(f"{word} is one of {words}, not {shown(value)}.") from None


_READ: dict[str, Callable[[str, Any], Any]] = {
    "limit": _whole,
    "rates": _rates,
    "key_limit": _whole,
    "key_limits": _by_key,
    "key_rates": _rates,
    "weights": lambda word, value: _by_key(word, value, HEAVIEST),
    "max_waiting": _whole,
    "when_full": _when_full,
}
"""What reads a limit that isn't None."""
_RATES = ("rates", "key_rates")
_BY_KEY = ("key_limits", "weights")


def _laid(
    word: str, there: Mapping[str, int], given: Mapping[str, int | None] | None
) -> dict[str, int]:
    """Lay what is said of some keys over what was said before; None takes it away."""
    if given is None:
        return {}
    after = {key: number for key, number in {**there, **given}.items() if number is not None}
    if len(after) > MOST_KEYS:
        raise UsageError(f"{word} can be said of {MOST_KEYS:,} keys at most, not {len(after):,}.")
    return after


def _check_full(limits: Limits) -> None:
    """Refuse what says nothing of when a queue is full."""
    if limits.when_full is WhenFull.WAIT and limits.max_waiting is not None:
        raise UsageError("when_full wait lets every new job wait; take max_waiting or it away.")
    slots = limits.limit is not None or limits.key_limit is not None or limits.key_limits
    if limits.bounds_line and not slots and limits.max_waiting is None:
        raise UsageError(
            f"when_full {limits.when_full} needs to know when that is; set max_waiting, limit or"
            " key_limit, or take when_full away."
        )


def _in_words(changes: Mapping[str, Any]) -> str:
    return ", ".join(f"{word} {_text(value)}" for word, value in changes.items())


def _text(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, Mapping):
        return " ".join(f"{key}={_text(number)}" for key, number in value.items())
    if isinstance(value, Sequence) and not isinstance(value, str):
        return " ".join(map(str, value)) or "none"
    return str(value)
