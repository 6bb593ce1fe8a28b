"""Times and durations: each form that is read, each that is refused, and what always holds."""

import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.errors import BadTimeError, UsageError
from queuectl.when import (
    DAY,
    HOUR,
    MINUTE,
    SECOND,
    WEEK,
    ago,
    format_duration,
    human,
    iso,
    local,
    parse_duration,
    parse_moment,
    parse_time,
)

BERLIN = ZoneInfo("Europe/Berlin")
HUNDRED_YEARS = 36_525 * DAY


def at(text: str) -> int:
    """Milliseconds of an ISO time with an offset, by another road than the one under test."""
    moment = datetime.fromisoformat(text)
    assert moment.tzinfo is not None
    return round(moment.timestamp() * 1000)


# A Saturday, 14:00 in Berlin.
NOW = at("2025-11-08T13:00:00Z")

# Every time that any time zone can show, and a narrower range of plausible present moments.
times = st.integers(at("0001-01-02T00:00:00Z"), at("9999-12-30T23:59:59Z"))
presents = st.integers(at("1971-01-01T00:00:00Z"), at("2100-01-01T00:00:00Z"))
durations = st.integers(0, HUNDRED_YEARS)
offsets = st.integers(-23 * 60, 23 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
zones = offsets | st.just(BERLIN)
# Text that gets further into the parsers than arbitrary characters do.
fragments = [
    *("now", "today", "tomorrow", "yesterday", "fri", "monday", " ", "+", "-", "@", ":"),
    *("9", "12", "61", "0000", "9999", "-12-31", "-02-30", "T24:00", "23:59", ":60", ".5"),
    *("Z", "+14:00", "-23:59", "+24:00", "1e9", "99999999999", "h", "m", "ms"),
]
near_misses = st.text("0123456789.:+-@ TZwdhms٣", max_size=30) | st.lists(
    st.sampled_from(fragments), max_size=6
).map("".join)
any_text = st.text() | near_misses


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], None]]:
    """Set the local time zone of this process by a POSIX rule, until the test ends."""

    def set_zone(rule: str) -> None:
        monkeypatch.setenv("TZ", rule)
        time.tzset()

    yield set_zone
    monkeypatch.undo()
    time.tzset()


BERLIN_RULE = "CET-1CEST,M3.5.0,M10.5.0/3"


class TestParseDuration:
    @pytest.mark.parametrize(
        ("text", "ms"),
        [
            ("0", 0),
            ("0s", 0),
            ("30", 30 * SECOND),
            ("1.5", 1500),
            ("30s", 30 * SECOND),
            ("5m", 5 * MINUTE),
            ("1h30m", 90 * MINUTE),
            ("1h 30m", 90 * MINUTE),
            ("  1 h   30 m ", 90 * MINUTE),
            ("1H30M", 90 * MINUTE),
            ("1.5h", 90 * MINUTE),
            ("1d", DAY),
            ("2w", 2 * WEEK),
            ("250ms", 250),
            ("250MS", 250),
            ("1m5ms", MINUTE + 5),
            ("1w2d3h4m5s6ms", WEEK + 2 * DAY + 3 * HOUR + 4 * MINUTE + 5 * SECOND + 6),
            ("5min", 5 * MINUTE),
            ("5 minutes", 5 * MINUTE),
            ("1 minute", MINUTE),
            ("1 Hour 30 Minutes", 90 * MINUTE),
            ("1hr30mins", 90 * MINUTE),
            ("1week", WEEK),
            ("2 wks", 2 * WEEK),
            ("2days", 2 * DAY),
            ("90 sec", 90 * SECOND),
            ("1 second 5 milliseconds", SECOND + 5),
            ("0.1s", 100),
            ("0.0004s", 1),
            ("36525d", HUNDRED_YEARS),
            (30, 30 * SECOND),
            (0, 0),
            (1.5, 1500),
            (0.1 + 0.2, 300),
            (1e-9, 1),
            (-0.0, 0),
        ],
    )
    def test_reads(self, text: str | float, ms: int) -> None:
        assert parse_duration(text) == ms

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "m",
            "-5",
            "-5m",
            "+5m",
            "5x",
            "5mm",
            "5m5m",
            "30m1h",
            "1ms1s",
            "1h30",
            "1.h",
            ".5h",
            "1..5h",
            "1,5h",
            "1e3",
            "1_000",
            "0x10",
            "nan",
            "inf",
            "٣s",
            "3 0s",
            "5 mi",
            "5minutess",
            "minutes",
            "5min5m",
            "5 minutes 1 hour",
            "5 months",
            "5 minutes ago",
            pytest.param("9" * 5000, id="5000 digits"),
            pytest.param("1h " * 5000, id="5000 parts"),
            -1,
            -0.001,
            float("nan"),
            float("-inf"),
            True,
            False,
        ],
    )
    def test_refuses(self, text: str | float) -> None:
        with pytest.raises(BadTimeError, match="is not a duration; write it like 30s, 5m or 1h30m"):
            parse_duration(text)

    @pytest.mark.parametrize(
        "text",
        [
            "36525d1ms",
            "5218w",
            "9" * 100,
            1e300,
            float("inf"),
            10**400,
            pytest.param(10**5000, id="5000 digits"),
        ],
    )
    def test_refuses_more_than_100_years(self, text: str | float) -> None:
        with pytest.raises(BadTimeError, match="longer than 100 years"):
            parse_duration(text)

    @pytest.mark.parametrize("value", [None, [], {}, b"5m"])
    def test_refuses_what_json_may_bring_in_its_place(self, value: object) -> None:
        with pytest.raises(BadTimeError, match="is not a duration"):
            parse_duration(value)  # type: ignore[arg-type]

    @given(durations)
    def test_a_number_is_seconds_like_its_text(self, ms: int) -> None:
        assert parse_duration(ms / 1000) == parse_duration(f"{ms / 1000:.3f}") == ms

    @given(any_text | st.floats() | st.integers() | st.booleans())
    def test_reads_or_says_why_not(self, text: str | float) -> None:
        try:
            assert 0 <= parse_duration(text) <= HUNDRED_YEARS
        except BadTimeError as error:
            assert_one_short_sentence(error)


class TestFormatDuration:
    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "0s"),
            (1, "1ms"),
            (250, "250ms"),
            (1000, "1s"),
            (1500, "1.5s"),
            (59_999, "59.999s"),
            (60_000, "1m"),
            (60_250, "1m250ms"),
            (90_000, "1m30s"),
            (90 * MINUTE, "1h30m"),
            (HOUR + 1500, "1h1.5s"),
            (DAY, "1d"),
            (36 * HOUR, "1d12h"),
            (2 * WEEK, "14d"),
            (-90_000, "-1m30s"),
        ],
    )
    def test_writes(self, ms: int, text: str) -> None:
        assert format_duration(ms) == text

    @given(durations)
    def test_reads_back(self, ms: int) -> None:
        assert parse_duration(format_duration(ms)) == ms


class TestParseTime:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("now", "2025-11-08T14:00:00+01:00"),
            (" NOW ", "2025-11-08T14:00:00+01:00"),
            ("+0", "2025-11-08T14:00:00+01:00"),
            ("+30", "2025-11-08T14:00:30+01:00"),
            ("+5m", "2025-11-08T14:05:00+01:00"),
            ("+ 1h 30m", "2025-11-08T15:30:00+01:00"),
            ("2025-11-08T12:00:00Z", "2025-11-08T12:00:00Z"),
            ("2025-11-08t12:00:00z", "2025-11-08T12:00:00Z"),
            ("2025-11-08 12:00Z", "2025-11-08T12:00:00Z"),
            ("2025-11-08T12:00:00.250Z", "2025-11-08T12:00:00.250Z"),
            ("2025-11-08T12:00:00,5Z", "2025-11-08T12:00:00.500Z"),
            ("2025-11-08T12:00:00.123456789Z", "2025-11-08T12:00:00.123Z"),
            ("2025-11-08T12:00:00+05:30", "2025-11-08T12:00:00+05:30"),
            ("2025-11-08 12:00:00 -0500", "2025-11-08T12:00:00-05:00"),
            ("2025-11-08T12:00-05", "2025-11-08T12:00:00-05:00"),
            ("2025-11-08T12:00", "2025-11-08T12:00:00+01:00"),
            ("2025-11-08 12:00:01", "2025-11-08T12:00:01+01:00"),
            ("2025-11-08   9:00", "2025-11-08T09:00:00+01:00"),
            ("2025-07-08 12:00", "2025-07-08T12:00:00+02:00"),
            ("2025-11-09", "2025-11-09T00:00:00+01:00"),
            ("1969-12-31T23:59:59Z", "1969-12-31T23:59:59Z"),
            ("14:01", "2025-11-08T14:01:00+01:00"),
            ("14:00", "2025-11-09T14:00:00+01:00"),
            ("13:59:59", "2025-11-09T13:59:59+01:00"),
            ("9:00", "2025-11-09T09:00:00+01:00"),
            ("9am", "2025-11-09T09:00:00+01:00"),
            ("9:30 PM", "2025-11-08T21:30:00+01:00"),
            ("12am", "2025-11-09T00:00:00+01:00"),
            ("12:15pm", "2025-11-09T12:15:00+01:00"),
            ("tomorrow 3am", "2025-11-09T03:00:00+01:00"),
            ("fri 5 pm", "2025-11-14T17:00:00+01:00"),
            ("+5 minutes", "2025-11-08T14:05:00+01:00"),
            ("yesterday", "2025-11-07T00:00:00+01:00"),
            ("today", "2025-11-08T00:00:00+01:00"),
            ("today 17:00", "2025-11-08T17:00:00+01:00"),
            ("today 09:00", "2025-11-08T09:00:00+01:00"),
            ("tomorrow", "2025-11-09T00:00:00+01:00"),
            ("Tomorrow 09:00:30", "2025-11-09T09:00:30+01:00"),
            ("friday", "2025-11-14T00:00:00+01:00"),
            ("fri 09:00", "2025-11-14T09:00:00+01:00"),
            ("FRIDAY 09:00", "2025-11-14T09:00:00+01:00"),
            ("thurs 09:00", "2025-11-13T09:00:00+01:00"),
            ("sat 15:00", "2025-11-08T15:00:00+01:00"),
            ("sat 13:00", "2025-11-15T13:00:00+01:00"),
            ("saturday", "2025-11-15T00:00:00+01:00"),
            ("sunday", "2025-11-09T00:00:00+01:00"),
            ("@1731672000", "2024-11-15T12:00:00Z"),
            ("@1731672000.5", "2024-11-15T12:00:00.500Z"),
            ("@0", "1970-01-01T00:00:00Z"),
            ("@-1.5", "1969-12-31T23:59:58.500Z"),
        ],
    )
    def test_reads(self, text: str, expected: str) -> None:
        assert parse_time(text, now=NOW, tz=BERLIN) == at(expected)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            " ",
            "soon",
            "1h",
            "30",
            "-1h",
            "@",
            "@now",
            "@1e9",
            "2025",
            "20251108",
            "2025-11",
            "2025-02-30",
            "2025-13-01",
            "0000-01-01",
            "2025-11-08T",
            "2025-11-08Z",
            "2025-11-08T25:00",
            "2025-11-08T12:60",
            "2025-11-08T12:00:60",
            "2025-11-08T12:00+24:00",
            "2025-11-08T12:00+01:99",
            "2025-11-08T12:00+01:",
            "2025-11-08x12:00",
            "٢٠٢٥-11-08",
            "24:00",
            "9",
            "9:5",
            "0am",
            "13pm",
            "9:60am",
            "9:30:15am",
            "am",
            "someday 9am",
            "2025-11-08 9am",
            "09:00Z",
            "tomorrow 09:00Z",
            "tomorrow 9",
            "tomorrow noon",
            "tomorrow friday",
            "fr",
            "fryday",
            "next friday",
            pytest.param("x" * 100_000, id="100000 letters"),
            "\ud800",
        ],
    )
    def test_refuses(self, text: str) -> None:
        with pytest.raises(BadTimeError, match=r"is not a time; write it like \+5m, ") as caught:
            parse_time(text, now=NOW)
        assert_one_short_sentence(caught.value)

    def test_refuses_a_bad_duration_as_a_duration(self) -> None:
        with pytest.raises(BadTimeError, match="'5x' is not a duration"):
            parse_time("+5x", now=NOW)

    @pytest.mark.parametrize(
        "text", ["@1731672000000", "@999999999999999999", "0001-01-01T00:00Z", "9999-12-31T12:00Z"]
    )
    def test_refuses_times_no_calendar_shows(self, text: str) -> None:
        with pytest.raises(BadTimeError, match="outside the years 1 to 9999"):
            parse_time(text, now=NOW)

    def test_naive_times_are_local(self, local_zone: Callable[[str], None]) -> None:
        local_zone(BERLIN_RULE)
        assert parse_time("2025-11-08 12:00", now=NOW) == at("2025-11-08T12:00:00+01:00")
        assert parse_time("2025-07-08", now=NOW) == at("2025-07-08T00:00:00+02:00")
        assert parse_time("14:01", now=NOW) == at("2025-11-08T14:01:00+01:00")
        local_zone("EST5EDT,M3.2.0,M11.1.0")
        assert parse_time("2025-11-08 12:00", now=NOW) == at("2025-11-08T12:00:00-05:00")

    @pytest.mark.parametrize("tz", [None, BERLIN])
    def test_where_clocks_change_reads_as_fold_0(
        self, tz: tzinfo | None, local_zone: Callable[[str], None]
    ) -> None:
        local_zone(BERLIN_RULE)
        skipped = parse_time("2025-03-30 02:30", now=NOW, tz=tz)
        assert skipped == at("2025-03-30T03:30:00+02:00")
        twice = parse_time("2025-10-26 02:30", now=NOW, tz=tz)
        assert twice == at("2025-10-26T02:30:00+02:00")

    @pytest.mark.parametrize("tz", [None, BERLIN])
    def test_tomorrow_is_a_day_of_the_calendar_not_24_hours(
        self, tz: tzinfo | None, local_zone: Callable[[str], None]
    ) -> None:
        local_zone(BERLIN_RULE)
        now = at("2025-10-25T12:00:00+02:00")
        assert parse_time("tomorrow 12:00", now=now, tz=tz) == now + 25 * HOUR
        assert parse_time("12:00", now=now, tz=tz) == now + 25 * HOUR
        assert parse_time("+1d", now=now, tz=tz) == now + 24 * HOUR

    @given(times)
    def test_reads_back_what_iso_writes(self, ms: int) -> None:
        assert parse_time(iso(ms), now=NOW) == ms

    @given(times, offsets)
    def test_reads_back_what_local_writes_to_the_second(self, ms: int, tz: tzinfo) -> None:
        assert parse_time(local(ms, tz), now=NOW, tz=tz) == ms - ms % SECOND

    @given(presents, durations)
    def test_plus_adds_the_duration(self, now: int, ms: int) -> None:
        assert parse_time(f"+{format_duration(ms)}", now=now) == now + ms

    @given(presents, st.times(), zones)
    def test_a_clock_time_is_the_next_one(self, now: int, clock: object, tz: tzinfo) -> None:
        text = f"{clock:%H:%M:%S}"
        ms = parse_time(text, now=now, tz=tz)
        # 26 hours: the day may have 25, and a skipped time comes up to an hour late.
        assert now < ms <= now + 26 * HOUR

    @given(presents, st.sampled_from(["mon", "tue", "wed", "thu", "fri", "sat", "sun"]), zones)
    def test_a_weekday_is_the_next_one(self, now: int, name: str, tz: tzinfo) -> None:
        ms = parse_time(name, now=now, tz=tz)
        assert now < ms <= now + WEEK + HOUR
        shown = datetime.fromtimestamp(ms / 1000, UTC).astimezone(tz)
        assert f"{shown:%a %H:%M}".lower() == f"{name} 00:00"

    @given(any_text, st.integers(), st.none() | zones)
    def test_reads_or_says_why_not(self, text: str, now: int, tz: tzinfo | None) -> None:
        for parse in (parse_time, parse_moment):
            try:
                ms = parse(text, now=now, tz=tz)
            except BadTimeError as error:
                assert_one_short_sentence(error)
            else:
                assert parse_time(iso(ms), now=now) == ms


class TestParseMoment:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("5 minutes ago", "2025-11-08T13:55:00+01:00"),
            ("9am", "2025-11-08T09:00:00+01:00"),
            ("1h", "2025-11-08T13:00:00+01:00"),
            ("-1h", "2025-11-08T13:00:00+01:00"),
            ("- 1h 30m", "2025-11-08T12:30:00+01:00"),
            ("2d", "2025-11-06T14:00:00+01:00"),
            ("30", "2025-11-08T13:59:30+01:00"),
            ("0", "2025-11-08T14:00:00+01:00"),
            ("+1h", "2025-11-08T15:00:00+01:00"),
            ("now", "2025-11-08T14:00:00+01:00"),
            ("yesterday 09:00", "2025-11-07T09:00:00+01:00"),
            ("2025-11-01", "2025-11-01T00:00:00+01:00"),
            ("@1731672000", "2024-11-15T12:00:00Z"),
            ("09:00", "2025-11-08T09:00:00+01:00"),
            ("14:00", "2025-11-08T14:00:00+01:00"),
            ("14:01", "2025-11-07T14:01:00+01:00"),
            ("sat", "2025-11-08T00:00:00+01:00"),
            ("sat 15:00", "2025-11-01T15:00:00+01:00"),
            ("monday", "2025-11-03T00:00:00+01:00"),
            ("sunday", "2025-11-02T00:00:00+01:00"),
        ],
    )
    def test_reads(self, text: str, expected: str) -> None:
        assert parse_moment(text, now=NOW, tz=BERLIN) == at(expected)

    @pytest.mark.parametrize("text", ["", "-", "--1h", "-+1h", "-now", "ago", "101w 5", "200000d"])
    def test_refuses(self, text: str) -> None:
        with pytest.raises(BadTimeError):
            parse_moment(text, now=NOW)

    @given(presents, durations)
    def test_looks_back_by_a_duration(self, now: int, ms: int) -> None:
        assert parse_moment(format_duration(ms), now=now) == now - ms
        assert parse_moment(format_duration(-ms), now=now) == now - ms

    @given(presents, st.times(), zones)
    def test_a_clock_time_is_the_latest_one(self, now: int, clock: object, tz: tzinfo) -> None:
        ms = parse_moment(f"{clock:%H:%M:%S}", now=now, tz=tz)
        assert now - 26 * HOUR < ms <= now


class TestShowing:
    def test_iso_has_milliseconds_and_z(self) -> None:
        assert iso(NOW) == "2025-11-08T13:00:00.000Z"
        assert iso(NOW + 7) == "2025-11-08T13:00:00.007Z"
        assert iso(-1) == "1969-12-31T23:59:59.999Z"

    def test_local_is_for_people(self, local_zone: Callable[[str], None]) -> None:
        assert local(NOW, BERLIN) == "2025-11-08T14:00:00+01:00"
        assert local(NOW, UTC) == "2025-11-08T13:00:00Z"
        local_zone(BERLIN_RULE)
        assert local(NOW) == "2025-11-08T14:00:00+01:00"
        assert local(at("2025-07-08T12:00:00Z") + 999) == "2025-07-08T14:00:00+02:00"
        assert local(NOW + 7, exact=True) == "2025-11-08T14:00:00.007+01:00"

    @given(st.integers(), st.none() | zones)
    def test_any_integer_can_be_shown(self, ms: int, tz: tzinfo | None) -> None:
        assert len(iso(ms)) == len("2025-11-08T13:00:00.000Z")
        assert local(ms, tz)[:19] <= local(ms, tz, exact=True)[:23]

    def test_beyond_the_calendar_is_its_edge(self) -> None:
        assert iso(10**30) == "9999-12-30T23:59:59.999Z"
        assert iso(-(10**30)) == "0001-01-02T00:00:00.000Z"

    @given(times, times)
    def test_iso_sorts_as_time_does(self, one: int, other: int) -> None:
        assert (iso(one) < iso(other)) == (one < other)

    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (-5, "0s"),
            (0, "0s"),
            (999, "0s"),
            (3_200, "3s"),
            (59_999, "59s"),
            (60_000, "1m"),
            (5 * MINUTE + 9_000, "5m09s"),
            (HOUR, "1h"),
            (4 * DAY + HOUR, "4d1h"),
            (400 * DAY, "400d"),
        ],
    )
    def test_ago(self, ms: int, text: str) -> None:
        assert ago(ms) == text

    @pytest.mark.parametrize(
        ("ms", "text"),
        [
            (0, "0ms"),
            (0.4, "0ms"),
            (12, "12ms"),
            (999.6, "1s"),
            (1_234, "1.2s"),
            (43_500, "43.5s"),
            (59_960, "1m"),
            (117_000, "1m57s"),
            (119 * MINUTE, "1h59m"),
            (2 * HOUR + 5 * MINUTE + 1, "2h05m"),
            (3_599_600, "1h"),
            (3 * DAY + 4 * HOUR, "3d4h"),
            (DAY - 1, "1d"),
            (-1_500, "-1.5s"),
        ],
    )
    def test_human(self, ms: float, text: str) -> None:
        assert human(ms) == text

    @given(st.integers(0, 10**15))
    def test_what_people_read_is_near_and_can_be_read_back(self, ms: int) -> None:
        shown = human(min(ms, 30_000 * DAY))
        assert abs(parse_duration(shown) - min(ms, 30_000 * DAY)) <= max(ms // 24, 50)


def assert_one_short_sentence(error: BadTimeError) -> None:
    """Check that a message fits a terminal, and that printing it can't fail."""
    assert isinstance(error, UsageError)
    message = str(error)
    assert message.encode().decode().isprintable()
    assert len(message) < 160


def test_messages_quote_a_long_text_shortened() -> None:
    with pytest.raises(BadTimeError) as caught:
        parse_duration("x" * 1000)
    quoted = str(caught.value).partition(" is not")[0]
    assert quoted == "'" + "x" * 56 + "..."
