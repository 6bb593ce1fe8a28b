"""Rules: at which instants a schedule ticks. Text and an instant in, instants out; no clock.

A rule is five fields of cron (read by cronsim), a word for some of them such as `@daily`, or
`every 15m`. In a zone that has daylight saving time, cron's rules mean what Debian's cron says:

- A rule for certain times of the day (neither minute nor hour begins with `*`) ticks once for each:
  a time that a change of the clock skips comes at the moment of that change, and one that comes
  twice ticks the first time only.
- Any other goes by the clock on the wall: what is skipped doesn't come, and what is repeated comes
  twice.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import TYPE_CHECKING

from queuectl.errors import UsageError, shown
from queuectl.when import LATEST, human, parse_duration

if TYPE_CHECKING:
    from cronsim import CronSim

LONGEST = 200
"""Characters of a rule."""
LONGEST_ZONE = 64
SHORTEST_INTERVAL = 1_000
LONGEST_INTERVAL = 366 * 86_400_000
"""Milliseconds between two ticks of `every`."""
WORDS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
FIELDS = (
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31, L for the last, LW for its last weekday"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT, 5L for the last Friday, 1#2 for the second Monday"),
)
WHAT_IT_IS = (
    "A rule is five fields (minute, hour, day, month, weekday), a word such as @daily,"
    " or 'every 15m'"
)
_DAY = timedelta(days=1)
_SECOND = timedelta(seconds=1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Every:
    """Ticks that are so many milliseconds apart, counted from an instant."""

    def __init__(self, text: str, interval: int, anchor: int) -> None:
        self.text = text
        self._interval = interval
        self._anchor = anchor

    def after(self, instant: int) -> Iterator[int]:
        """Yield the ticks that come after an instant, in order."""
        passed = max(0, (instant - self._anchor) // self._interval)
        at = self._anchor + passed * self._interval
        while (at := at + self._interval) <= LATEST:
            yield at

    def in_words(self) -> str:
        """Say it in English."""
        return f"Every {human(self._interval)}"


class Cron:
    """Ticks at the times on the wall of a zone that five fields name."""

    def __init__(self, text: str, fields: str, zone: tzinfo) -> None:
        self.text = text
        self._fields = fields
        self._zone = zone
        minute, hour, *_ = fields.split()
        self._at_certain_times = not minute.startswith("*") and not hour.startswith("*")

    def after(self, instant: int) -> Iterator[int]:
        """Yield the ticks that come after an instant, in order."""
        found = self._of_times(instant) if self._at_certain_times else self._by_the_wall(instant)
        for at in found:
            if at > LATEST:
                return
            yield at

    def _of_times(self, instant: int) -> Iterator[int]:
        """Yield a tick for each time on the wall, whatever happens to the clock."""
        # From the day before: of times that come twice, we may be past the first.
        last = instant
        for wall in _walls(self._fields, self._wall(instant) - _DAY):
            at = self._of_time(wall)
            if at > last:
                last = at
                yield at

    def _of_time(self, wall: datetime) -> int:
        there = wall.replace(tzinfo=self._zone, fold=0)
        moment = there.astimezone(UTC)
        if moment.astimezone(self._zone).replace(tzinfo=None, fold=0) != wall:
            # The clock skips it. What it is before the change is behind it, what it is after is
            # before it; so the change lies between the two.
            ahead = wall.replace(tzinfo=self._zone, fold=1).astimezone(UTC)
            moment = self._change(min(moment, ahead), max(moment, ahead))
        return _milliseconds(moment)

    def _by_the_wall(self, instant: int) -> Iterator[int]:
        """Yield each moment at which the clock on the wall shows a time of the rule."""
        begin = _moment(instant) + timedelta(milliseconds=1)
        while begin.year < datetime.max.year - 1:
            end, offset = self._stretch(begin)
            # Inclusive: the next time on the wall may be the one at which the stretch begins.
            for wall in _walls(self._fields, begin.replace(tzinfo=None) + offset - _SECOND):
                at = (wall - offset).replace(tzinfo=UTC)
                if at >= end:
                    break
                if at >= begin:
                    yield _milliseconds(at)
            else:
                return
            begin = end

    def _stretch(self, begin: datetime) -> tuple[datetime, timedelta]:
        """Return until when the clock runs on as it does at a moment, and how far it is ahead."""
        offset = self._offset(begin)
        end = begin
        for _ in range(400):
            end += _DAY
            if self._offset(end) != offset:
                return self._change(end - _DAY, end), offset
        return end, offset

    def _change(self, before: datetime, after: datetime) -> datetime:
        """Return the first second in which the clock runs otherwise than it does before."""
        offset = self._offset(before)
        low, high = int((before - _EPOCH).total_seconds()), int((after - _EPOCH).total_seconds())
        while high - low > 1:
            middle = (low + high) // 2
            if self._offset(_EPOCH + timedelta(seconds=middle)) == offset:
                low = middle
            else:
                high = middle
        return _EPOCH + timedelta(seconds=high)

    def _offset(self, moment: datetime) -> timedelta:
        return moment.astimezone(self._zone).utcoffset() or timedelta(0)

    def _wall(self, instant: int) -> datetime:
        return _moment(instant).astimezone(self._zone).replace(tzinfo=None, fold=0)

    def in_words(self) -> str:
        """Say it in English."""
        return _read(self._fields, datetime(2000, 1, 1)).explain()


Rule = Every | Cron


def read_rule(text: str, zone: tzinfo, *, anchor: int) -> Rule:
    """Read a rule; `every` counts from `anchor`. One that never ticks is a `UsageError`."""
    if not isinstance(text, str) or not text.isprintable():
        raise UsageError(f"{WHAT_IT_IS}, not {shown(text)}.")
    if len(text) > LONGEST:
        raise UsageError(f"A rule can have {LONGEST} characters at most; this has {len(text):,}.")
    words = text.split()
    plain = " ".join(words)
    if words and words[0].lower() == "every":
        return _read_every(plain, words, anchor)
    if plain.startswith("@"):
        if plain.lower() not in WORDS:
            raise UsageError(f"There is no rule {plain!r}; there are {', '.join(WORDS)}.")
        return Cron(plain.lower(), WORDS[plain.lower()], zone)
    if len(words) != len(FIELDS):
        raise UsageError(f"{WHAT_IT_IS}; {plain!r} has {len(words)} fields.")
    _check(words)
    rule = Cron(plain, plain, zone)
    if next(_walls(plain, datetime(2000, 1, 1)), None) is None:
        raise UsageError(f"The rule {plain!r} never comes.")
    return rule


def read_zone(name: str) -> tzinfo:
    """Return the zone of this name; an unknown one is a `UsageError`."""
    from zoneinfo import ZoneInfo

    if name == "UTC":
        return UTC
    if isinstance(name, str) and 0 < len(name) <= LONGEST_ZONE and name.isprintable():
        try:
            return ZoneInfo(name)
        except (OSError, ValueError, KeyError):
            pass
    raise UsageError(
        f"There is no time zone {shown(name)} here.",
        advice="zones are named as in Europe/Berlin; the package tzdata has them.",
    )


def _read_every(plain: str, words: list[str], anchor: int) -> Every:
    try:
        interval = parse_duration(" ".join(words[1:]))
    except UsageError as error:
        raise UsageError(f"The rule {plain!r} names no time: {error}") from None
    if not SHORTEST_INTERVAL <= interval <= LONGEST_INTERVAL:
        least, most = human(SHORTEST_INTERVAL), human(LONGEST_INTERVAL)
        raise UsageError(f"A rule can tick every {least} to {most}; {plain!r} can't be.")
    return Every(plain, interval, anchor)


def _check(words: list[str]) -> None:
    """Find the fault in five fields, if there is one."""
    from cronsim import CronSimError

    begin = datetime(2000, 1, 1)
    for place, (field, (name, fit)) in enumerate(zip(words, FIELDS, strict=True)):
        for term in field.split(","):
            alone = ["*"] * len(words)
            alone[place] = term
            try:
                _read(" ".join(alone), begin)
            except (CronSimError, ValueError, AssertionError):
                raise UsageError(
                    f"The rule {' '.join(words)!r} has {term!r} as {name}; that is {fit}."
                ) from None
    try:
        _read(" ".join(words), begin)
    except (CronSimError, ValueError, AssertionError):
        raise UsageError(
            f"The rule {' '.join(words)!r} never comes: no such month has a day {words[2]}."
        ) from None


def _walls(fields: str, after: datetime) -> Iterator[datetime]:
    """Yield times on a wall whose clock is never put forward or back."""
    try:
        yield from _read(fields, after)
    except OverflowError:  # the end of time
        return


def _read(fields: str, begin: datetime) -> "CronSim":
    from cronsim import CronSim

    return CronSim(fields, begin)


def _moment(instant: int) -> datetime:
    return _EPOCH + timedelta(milliseconds=instant)


def _milliseconds(moment: datetime) -> int:
    return int((moment - _EPOCH) / timedelta(milliseconds=1))
