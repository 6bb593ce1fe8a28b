"""Rules of schedules, beside a second implementation of what the module says: minute by minute."""

import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from itertools import islice, takewhile
from zoneinfo import ZoneInfo, available_timezones

import pytest

from queuectl.errors import UsageError
from queuectl.rules import LONGEST, WORDS, read_rule, read_zone
from tests.plain_cron import EPOCH, Plain, ms

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    return ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


def ticks(rule: str, zone: tzinfo, begin: int, count: int) -> list[str]:
    found = islice(read_rule(rule, zone, anchor=begin).after(begin), count)
    return [(EPOCH + timedelta(milliseconds=tick)).strftime("%m-%d %H:%M") for tick in found]


RULES = (
    "30 2 * * *",
    "0,20,40 0-4 * * *",
    "*/20 * * * *",
    "10 * * * *",
    "*/30 1-3 * * *",
    "5 */2 * * *",
    "15 23,0 * * *",
    "0 1 1,15 * 0",
)


STEPS = (timedelta(days=7), timedelta(days=1), timedelta(hours=1))


def changes(
    zone: tzinfo, begin: datetime, end: datetime, steps: Sequence[timedelta] = STEPS
) -> Iterator[datetime]:
    """Yield the hours in which a zone's clocks are changed."""
    step, *finer = steps
    moment = begin
    while moment < end:
        following = moment + step
        if moment.astimezone(zone).utcoffset() != following.astimezone(zone).utcoffset():
            yield from changes(zone, moment, following, finer) if finer else [moment]
        moment = following


def until(end: datetime, after: Iterator[int]) -> list[int]:
    """Return the ticks before a moment."""
    return list(takewhile(lambda tick: tick < ms(end), after))


YEARS = (2022, 2032) if os.environ.get("QUEUECTL_TEST_ALL_ZONES") else (2026, 2028)
"""From when until when zones are compared: see CONTRIBUTING.md for the long form."""
Ways = tuple[tuple[datetime, timedelta | None], ...]


def ways(name: str) -> Ways:
    """Return when the clocks of a zone are changed in these years, and how far they are then."""
    zone = ZoneInfo(name)
    begin, end = (datetime(year, 1, 1, tzinfo=UTC) for year in YEARS)
    return tuple(
        (change, change.astimezone(zone).utcoffset()) for change in changes(zone, begin, end)
    )


def test_around_each_change_in_each_zone() -> None:
    # One zone for each way in which clocks are changed: others of the same way can't differ.
    zones = {ways(name): name for name in sorted(available_timezones())}
    plain = {rule: Plain(rule) for rule in RULES}
    looked_at = 0
    for number, (there, name) in enumerate(zones.items()):
        zone = ZoneInfo(name)
        for change, _ in there:
            begin, end = change - timedelta(hours=3), change + timedelta(hours=4)
            rule = RULES[(number + looked_at) % len(RULES)]
            expected = plain[rule].ticks(zone, begin, end)
            after = read_rule(rule, zone, anchor=0).after(ms(begin) - 1)
            assert until(end, after) == expected, (name, rule, change)
            looked_at += 1
    assert looked_at > 40 * (YEARS[1] - YEARS[0])


@pytest.mark.parametrize("zone", ["Europe/Berlin", "Australia/Lord_Howe", "America/St_Johns"])
@pytest.mark.parametrize("rule", RULES)
def test_each_rule_through_a_year(zone: str, rule: str) -> None:
    there = ZoneInfo(zone)
    for change in changes(
        there, datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
    ):
        begin, end = change - timedelta(hours=27), change + timedelta(hours=27)
        expected = Plain(rule).ticks(there, begin, end)
        # From every place in between the rest is the same.
        for start in range(ms(begin) - 1, ms(end), 7 * 1_800_000 + 60_000):
            after = read_rule(rule, there, anchor=0).after(start)
            found = until(end, after)
            assert found == [tick for tick in expected if tick > start]


# -- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("30 2 * * *", ["03-29 01:00", "03-30 00:30"]),
        ("*/30 2 * * *", ["03-30 00:00", "03-30 00:30"]),
        ("0,30 2,3 * * *", ["03-29 01:00", "03-29 01:30"]),
    ],
)
def test_when_an_hour_is_skipped(rule: str, expected: Sequence[str]) -> None:
    assert ticks(rule, BERLIN, at("2026-03-28T23:30"), 2) == expected


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        ("30 2 * * *", ["10-25 00:30", "10-26 01:30"]),
        ("*/30 2 * * *", ["10-25 00:00", "10-25 00:30", "10-25 01:00", "10-25 01:30"]),
        ("0 * * * *", ["10-24 23:00", "10-25 00:00", "10-25 01:00", "10-25 02:00"]),
    ],
)
def test_when_an_hour_comes_twice(rule: str, expected: Sequence[str]) -> None:
    assert ticks(rule, BERLIN, at("2026-10-24T22:30"), len(expected)) == expected


def test_who_looks_from_the_second_time_does_not_go_back() -> None:
    assert ticks("45 2 * * *", BERLIN, at("2026-10-25T01:30"), 1) == ["10-26 01:45"]


def test_every_counts_from_its_anchor() -> None:
    anchor = at("2026-01-01T00:07")
    rule = read_rule("every 90m", UTC, anchor=anchor)
    assert next(rule.after(anchor)) == anchor + 90 * 60_000
    assert next(rule.after(anchor - 10**9)) == anchor + 90 * 60_000
    assert next(rule.after(anchor + 90 * 60_000)) == anchor + 180 * 60_000
    assert next(rule.after(anchor + 180 * 60_000 - 1)) == anchor + 180 * 60_000


@pytest.mark.parametrize(("word", "fields"), WORDS.items())
def test_a_word_stands_for_fields(word: str, fields: str) -> None:
    begin = at("2026-05-05T05:05")
    assert ticks(word.upper(), BERLIN, begin, 5) == ticks(fields, BERLIN, begin, 5)


def test_the_end_of_time_is_the_end() -> None:
    assert list(read_rule("0 0 1 1 *", UTC, anchor=0).after(at("9998-06-01T00:00"))) == [
        at("9999-01-01T00:00")
    ]
    assert list(read_rule("*/30 * * * *", UTC, anchor=0).after(at("9999-12-31T23:59"))) == []


@pytest.mark.parametrize(
    ("rule", "says"),
    [
        ("61 * * * *", "has '61' as minute; that is 0-59"),
        ("0 5,24 * * *", "has '24' as hour"),
        ("0 0 1#2 * *", "has '1#2' as day of the month"),
        ("0 0 * * FOO", "has 'FOO' as day of the week"),
        ("*/0 * * * *", "has '*/0' as minute"),
        ("0 0 31 2 *", "never comes: no such month has a day 31"),
        ("* * * *", "has 4 fields"),
        ("* * * * * *", "has 6 fields"),
        ("", "has 0 fields"),
        ("@reboot", "There is no rule '@reboot'; there are @hourly"),
        ("every", "names no time"),
        ("every 5x", "names no time: '5x' is not a duration"),
        ("every 0s", "can tick every 1s to"),
        ("every 20y", "names no time"),
        ("0" + "," * 1000 + " * * * *", f"{LONGEST} characters at most"),
        ("0 0\n* * *", "A rule is five fields"),
        ("0 0 * * \0", "A rule is five fields"),
    ],
)
def test_what_is_no_rule_is_refused_with_the_place_of_the_fault(rule: str, says: str) -> None:
    with pytest.raises(UsageError) as refused:
        read_rule(rule, UTC, anchor=0)
    assert says in str(refused.value)


@pytest.mark.parametrize("name", ["Mars/Base", "", "../etc/passwd", "a" * 100, "Europe/\0", "/etc"])
def test_an_unknown_zone_is_refused(name: str) -> None:
    with pytest.raises(UsageError, match="There is no time zone"):
        read_zone(name)


def test_a_rule_in_words() -> None:
    assert read_rule("0 9 * * 1-5", UTC, anchor=0).in_words() == "At 09:00 on Monday through Friday"
    assert read_rule("every 15m", UTC, anchor=0).in_words() == "Every 15m"
