"""Times and durations: what people write, what we store, what we show.

A time is an integer, milliseconds since 1970 UTC; a duration is an integer, milliseconds.
Nothing here reads the clock: whoever needs the present passes `now`.
"""

import re
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo

from queuectl.errors import BadTimeError

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
WEEK = 7 * DAY

_UNITS = {
    "w(?:ks?|eeks?)?": WEEK,
    "d(?:ays?)?": DAY,
    "h(?:rs?|ours?)?": HOUR,
    "m(?:ins?|inutes?)?": MINUTE,
    "s(?:ecs?|econds?)?": SECOND,
    "(?:ms|milliseconds?)": 1,
}
"""How people write units, as patterns, from the longest to the shortest."""
LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999."""
_LONGEST = 36_525 * DAY  # a hundred years

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# A day inside what datetime can hold, so that every time zone can show every time.
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH) // _MILLISECOND
_LAST = (datetime(9999, 12, 31, tzinfo=UTC) - _EPOCH) // _MILLISECOND - 1

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NAMED_DAYS = {"yesterday": -1, "today": 0, "tomorrow": 1}

# Patterns stay text, compiled (and cached by re) when first needed: most commands read no time.
# They are for tidied text: lower case, single spaces.
_NUMBER = r"[0-9]+(?:\.[0-9]+)?"
_DURATION = "".join(rf"(?:({_NUMBER}) ?{unit} ?)?" for unit in _UNITS)
_EPOCH_SECONDS = rf"@(-?{_NUMBER})"
_CLOCK = r"([0-9]{1,2}):([0-9]{2})(?::([0-9]{2})(?:[.,]([0-9]+))?)?"
_HALF_DAY_CLOCK = r"(?:(.+) )?([0-9]{1,2})(?::([0-9]{2}))? ?([ap])m"
_DATE = r"([0-9]{4}-[0-9]{2}-[0-9]{2})"
_OFFSET = r"(?:(z)|([+-])([0-9]{2})(?::?([0-5][0-9]))?)"
_DATE_TIME = rf"{_DATE}(?:[t ]({_CLOCK}) ?({_OFFSET})?)?"

_LONGEST_TEXT = 100  # nothing we can read is longer; int() and re needn't meet a megabyte


def parse_duration(text: str | int | float) -> int:
    """Read a duration such as `30`, `90s`, `1h30m`, `1.5h` or `250ms`; a bare number is seconds.

    Units are w, d, h, m, s and ms, in that order, each at most once; or the words for them, as in
    `5min`, `90 sec` and `1 hour 30 minutes`. The result is rounded to milliseconds, but what is
    more than nothing never becomes nothing.

    Raises:
        BadTimeError: It isn't a duration, is negative, or is longer than 100 years.
    """
    ms = _duration(_tidy(text)) if isinstance(text, str) else _seconds(text)
    if ms is None:
        raise BadTimeError(f"{_shown(text)} is not a duration; write it like 30s, 5m or 1h30m")
    if ms > _LONGEST:
        raise BadTimeError(
            f"{_shown(text)} is longer than 100 years; write a duration like 30s, 5m or 1h30m"
        )
    return max(round(ms), 1) if ms > 0 else 0


def format_duration(ms: int) -> str:
    """Write a duration exactly, such as `250ms`, `1.5s`, `2h05m` or `14d`.

    Days are the largest unit. `parse_duration` reads it back, unless it is negative.
    """
    if ms < 0:
        return "-" + format_duration(-ms)
    days, rest = divmod(ms, DAY)
    hours, rest = divmod(rest, HOUR)
    minutes, rest = divmod(rest, MINUTE)
    text = "".join(f"{n}{unit}" for n, unit in ((days, "d"), (hours, "h")) if n)
    if minutes:
        text += f"{minutes:02d}m" if hours else f"{minutes}m"
    if 0 < rest < SECOND:
        return f"{text}{rest}ms"
    if rest or not text:
        seconds = f"{rest / SECOND:g}"
        return f"{text}0{seconds}s" if minutes and rest < 10 * SECOND else f"{text}{seconds}s"
    return text


def human(ms: int | float) -> str:
    """Write a duration for people, in two units at most: `12ms`, `43.5s`, `1m57s`, `3d4h`."""
    rounded = round(ms)
    for shortest, unit in ((DAY, HOUR), (HOUR, MINUTE), (MINUTE, SECOND), (SECOND, SECOND // 10)):
        if abs(rounded) >= shortest:
            return format_duration(round(rounded / unit) * unit)
    return f"{rounded}ms"


def parse_time(text: str, *, now: int, tz: tzinfo | None = None) -> int:
    """Read a time, which may lie in the past.

    - `now`, or a duration from now: `+5m`, `+1h30m`
    - ISO-8601: `2025-11-08T13:00:00Z`, `2025-11-08 13:00`, `2025-11-08` (midnight)
    - the next time a clock shows it: `17:30`, `9:00:15`, `9am`, `9:30 pm`
    - a day, at midnight or at a time: `today 17:00`, `tomorrow`, `yesterday 9am`
    - the next such weekday: `friday`, `fri 09:00`
    - seconds since 1970: `@1731672000`, `@1731672000.5`

    What names no offset is in `tz`, else in the local time zone. Where clocks change, it is read
    as Python's fold=0 does: a time that comes twice is the first one, and a time that is skipped
    is counted with the offset before the change (02:30 becomes 03:30 when clocks jump from 2 to 3).

    Raises:
        BadTimeError: It isn't a time, or lies outside the years 1 to 9999.
    """
    return _read(text, now=now, tz=tz, ahead=True)


def parse_moment(text: str, *, now: int, tz: tzinfo | None = None) -> int:
    """Read a time to look back to, for filters such as `--since`.

    A duration is that long ago: `1h`, `-2d`, `5 minutes ago`. A clock time or a weekday is
    the latest one that has been: `09:00`, `monday`. Everything else is as in `parse_time`.

    Raises:
        BadTimeError: It is neither a duration nor a time, or lies outside the years 1 to 9999.
    """
    words = _tidy(text)
    if words.startswith("-"):
        return _in_range(now - parse_duration(words[1:]), text)
    past = words.removesuffix(" ago")
    if _duration(past) is not None:
        return _in_range(now - parse_duration(past), text)
    return _read(text, now=now, tz=tz, ahead=False)


def milliseconds(moment: int | datetime) -> int:
    """Return a time that a program gave as it is stored. Without a zone it is local.

    Raises:
        BadTimeError: It is something else, or lies outside of what this host can say the zone of.
    """
    if isinstance(moment, int) and not isinstance(moment, bool):
        if abs(moment) > LATEST:
            raise BadTimeError(f"{_shown(moment)} lies outside the years 1 to 9999")
        return moment
    if not isinstance(moment, datetime):
        raise BadTimeError(
            f"{_shown(moment)} is not a time; give a datetime, or whole milliseconds since 1970"
        )
    try:
        return round(moment.timestamp() * SECOND)
    except (ValueError, OverflowError):
        raise BadTimeError(f"{moment} lies outside the years 1 to 9999") from None


def iso(ms: int) -> str:
    """Write a time for programs: `2025-11-08T13:00:00.000Z`.

    A time outside the years 1 to 9999 is written as the nearest one inside.
    """
    return _utc(ms).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def local(ms: int, tz: tzinfo | None = None, *, exact: bool = False) -> str:
    """Write a time for people, in `tz` or the local time zone: `2025-11-08T14:00:00+01:00`.

    It is to the second, or if `exact` to the millisecond. A time outside the years 1 to 9999 is
    written as the nearest one inside.
    """
    text = _utc(ms).astimezone(tz).isoformat(timespec="milliseconds" if exact else "seconds")
    return f"{text.removesuffix('+00:00')}Z" if text.endswith("+00:00") else text


def ago(ms_difference: int) -> str:
    """Write an age for people, in whole seconds: `3s`, `1m57s`, `2h05m`; below zero is `0s`."""
    seconds = max(ms_difference, 0) // SECOND
    return human(seconds * SECOND) if seconds else "0s"


def until(ms: int, now: int) -> str:
    """Write how long it is until then: `in 1h59m`."""
    return f"in {human(ms - now)}"


def ahead(ms: int, now: int) -> str:
    """Write a time to come and how long it is until then: `2026-11-16T02:00:00Z (in 22h)`."""
    return f"{local(ms)} ({until(ms, now)})"


def _tidy(text: str) -> str:
    """Lower the case and make each run of spaces one, as the patterns expect."""
    return " ".join(text.lower().split()) if len(text) <= _LONGEST_TEXT else ""


def _duration(words: str) -> float | None:
    """Add up the parts of a duration in milliseconds, or None if it isn't one."""
    if re.fullmatch(_NUMBER, words):
        return float(words) * SECOND
    parts = re.fullmatch(_DURATION, words)
    if not words or not parts:
        return None
    return sum(
        float(number) * unit
        for number, unit in zip(parts.groups(), _UNITS.values(), strict=True)
        if number
    )


def _seconds(number: float) -> float | None:
    """Turn seconds into milliseconds, or None for what is no amount of time (nor a number)."""
    if isinstance(number, bool) or not isinstance(number, int | float) or not number >= 0:
        return None
    return number * SECOND


def _read(text: str, *, now: int, tz: tzinfo | None, ahead: bool) -> int:
    words = _tidy(text)
    try:
        ms = _time(words, now=now, tz=tz, ahead=ahead)
    except (ValueError, OverflowError, OSError):  # the 31st of February, 25:00, the year 0
        ms = None
    if ms is None:
        raise BadTimeError(
            f"{_shown(text)} is not a time; "
            "write it like +5m, 2025-11-08T13:00:00Z or 'tomorrow 09:00'"
        )
    return _in_range(ms, text)


def _time(words: str, *, now: int, tz: tzinfo | None, ahead: bool) -> int | None:
    """Read tidied text as a time, or None if it has no form we know."""
    if words == "now":
        return now
    if words.startswith("+"):
        return now + parse_duration(words[1:])
    if found := re.fullmatch(_EPOCH_SECONDS, words):
        return round(float(found[1]) * SECOND)
    if found := re.fullmatch(_DATE_TIME, words):
        return _dated(found, tz)
    if found := re.fullmatch(_HALF_DAY_CLOCK, words):
        day, hour, minute, half = found.groups()
        clock_time = _half_day_clock(hour, minute, half)
        return _on_day(day or "", clock_time, now=now, tz=tz, ahead=ahead)
    if ":" not in words:
        return _on_day(words, time(), now=now, tz=tz, ahead=ahead) if words else None
    day, _, clock = words.rpartition(" ")
    if found := re.fullmatch(_CLOCK, clock):
        return _on_day(day, _clock(*found.groups()), now=now, tz=tz, ahead=ahead)
    return None


def _dated(found: re.Match[str], tz: tzinfo | None) -> int:
    """Build a time from a match of `_DATE_TIME`."""
    day, clock, hour, minute, second, fraction, offset, zulu, sign, hours, minutes = found.groups()
    if offset:
        tz = UTC if zulu else _offset(sign, hours, minutes)
    return _at(
        date.fromisoformat(day), _clock(hour, minute, second, fraction) if clock else time(), tz
    )


def _on_day(day: str, clock: time, *, now: int, tz: tzinfo | None, ahead: bool) -> int | None:
    """Find `clock` on a named day; without a name, and on weekdays, the nearest on our side of now.

    That is the first after now when `ahead`, else the last that is not after now.
    """
    today = _utc(now).astimezone(tz).date()
    if day in _NAMED_DAYS:
        return _at(today + timedelta(_NAMED_DAYS[day]), clock, tz)
    if not day:
        first, step = today, 1
    elif (weekday := _weekday(day)) is not None:
        step = 7
        first = today + timedelta((weekday - today.weekday()) % (step if ahead else -step))
    else:
        return None
    ms = _at(first, clock, tz)
    if ahead and ms <= now:
        return _at(first + timedelta(step), clock, tz)
    if not ahead and ms > now:
        return _at(first - timedelta(step), clock, tz)
    return ms


def _weekday(name: str) -> int | None:
    """Number a weekday from Monday = 0; three letters of it are enough."""
    if len(name) < 3:
        return None
    return next((n for n, weekday in enumerate(_WEEKDAYS) if weekday.startswith(name)), None)


def _clock(hour: str, minute: str, second: str | None, fraction: str | None) -> time:
    milliseconds = int(((fraction or "") + "000")[:3])
    return time(int(hour), int(minute), int(second or 0), milliseconds * 1_000)


def _half_day_clock(hour: str, minute: str | None, half: str) -> time:
    if not 1 <= int(hour) <= 12:
        raise ValueError("no clock of twelve hours shows that")
    return time(int(hour) % 12 + (12 if half == "p" else 0), int(minute or 0))


def _offset(sign: str, hours: str, minutes: str | None) -> timezone:
    offset = timedelta(hours=int(hours), minutes=int(minutes or 0))
    return timezone(-offset if sign == "-" else offset)


def _at(day: date, clock: time, tz: tzinfo | None) -> int:
    """Place a wall-clock reading in `tz`, or in the local time zone."""
    # Not astimezone(): for a local time that is skipped it takes the offset after the change.
    return round(datetime.combine(day, clock, tz).timestamp() * SECOND)


def _utc(ms: int) -> datetime:
    return _EPOCH + min(max(ms, _FIRST), _LAST) * _MILLISECOND


def _in_range(ms: int, text: str) -> int:
    if not _FIRST <= ms <= _LAST:
        raise BadTimeError(
            f"{_shown(text)} lies outside the years 1 to 9999; "
            "write a time like +5m, 2025-11-08T13:00:00Z or @1731672000"
        )
    return ms


def _shown(value: object) -> str:
    """Quote what was given, short enough for a message."""
    if isinstance(value, int) and value.bit_length() > 200:  # Python won't print the very long
        return "that number"
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
