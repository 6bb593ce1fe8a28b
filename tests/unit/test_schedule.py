"""What is due of a schedule: facts in, decisions out."""

from typing import Any

import pytest

from queuectl.errors import UsageError
from queuectl.job import Job, State
from queuectl.schedule import (
    AT_ONCE,
    MINUTE,
    ON_TIME,
    Missed,
    Overlap,
    Schedule,
    after_end,
    due,
    mark,
    resumed,
    started,
)
from queuectl.schedules import read_schedule
from queuectl.values import replace
from tests.unit.samples import SAMPLE

NOW = 1_762_606_800_000
HOUR = 60 * MINUTE


def a_schedule(**changes: Any) -> Schedule:
    """Return one that ticks each full hour, and has done so until now."""
    given: dict[str, Any] = {
        "name": "hourly",
        "rule": "0 * * * *",
        "zone": "UTC",
        "anchor": NOW,
        "request": {"command": "true"},
        "done_until": NOW,
        "next_at": NOW + HOUR,
        "created_at": NOW,
        "updated_at": NOW,
    }
    return Schedule(**given | changes)


def a_job(state: State, **changes: Any) -> Job:
    return replace(SAMPLE, state=state, tick=mark("hourly", NOW), **changes)


OPEN = a_job(State.PROCESSING)


class TestDue:
    def test_a_tick_that_has_come(self) -> None:
        made = due(a_schedule(), None, NOW + HOUR)
        assert (made.ticks, made.done_until) == ((NOW + HOUR,), NOW + HOUR)
        assert made.next_at == NOW + 2 * HOUR

    def test_before_its_time_there_is_nothing(self) -> None:
        made = due(a_schedule(), None, NOW + HOUR - 1)
        assert (made.ticks, made.done_until, made.next_at) == ((), NOW, NOW + HOUR)

    def test_a_clock_that_was_put_back_brings_none_again(self) -> None:
        done = a_schedule(done_until=NOW + 5 * HOUR)
        for back in range(8):
            made = due(done, None, NOW + 5 * HOUR - back * HOUR)
            assert (made.ticks, made.done_until) == ((), NOW + 5 * HOUR)
            assert made.next_at == NOW + 6 * HOUR

    def test_the_planned_instant_counts_not_when_it_is_looked_at(self) -> None:
        assert due(a_schedule(), None, NOW + HOUR + 1234).ticks == (NOW + HOUR,)


class TestMissed:
    LATE = NOW + 5 * HOUR + 30 * MINUTE

    def test_the_last_one_comes(self) -> None:
        made = due(a_schedule(), None, self.LATE)
        assert (made.ticks, made.done_until) == ((NOW + 5 * HOUR,), NOW + 5 * HOUR)
        assert made.next_at == NOW + 6 * HOUR

    def test_none_comes(self) -> None:
        made = due(a_schedule(missed=Missed.OFF), None, self.LATE)
        assert made.ticks == ()
        assert made.done_until >= NOW + 5 * HOUR
        assert made.next_at == NOW + 6 * HOUR

    def test_one_that_is_a_little_late_is_not_missed(self) -> None:
        made = due(a_schedule(missed=Missed.OFF), None, NOW + HOUR + ON_TIME - 1)
        assert made.ticks == (NOW + HOUR,)

    def test_all_come_in_their_order(self) -> None:
        made = due(a_schedule(missed=Missed.ALL, overlap=Overlap.ALLOW), None, self.LATE)
        assert made.ticks == tuple(NOW + n * HOUR for n in range(1, 6))

    def test_those_that_are_too_old_do_not_come(self) -> None:
        within = a_schedule(missed_within=20 * MINUTE)
        assert due(within, None, self.LATE).ticks == ()
        within = a_schedule(missed=Missed.ALL, missed_within=2 * HOUR, overlap=Overlap.ALLOW)
        assert due(within, None, self.LATE).ticks == (NOW + 4 * HOUR, NOW + 5 * HOUR)

    def test_very_many_come_some_at_a_time(self) -> None:
        often = a_schedule(rule="every 1s", missed=Missed.ALL, overlap=Overlap.ALLOW)
        made = due(often, None, NOW + HOUR)
        assert made.ticks == tuple(NOW + 1000 * n for n in range(1, AT_ONCE + 1))
        assert made.next_at is not None
        assert made.next_at <= NOW + HOUR

    def test_after_years_the_last_is_found_at_once(self) -> None:
        often = a_schedule(rule="every 1s")
        later = NOW + 20 * 365 * 24 * HOUR
        assert due(often, None, later).ticks == (later,)
        seldom = a_schedule(rule="0 0 29 2 *")
        assert due(seldom, None, NOW + 9 * 365 * 24 * HOUR).ticks != ()


class TestOverlap:
    LATE = NOW + 3 * HOUR

    def test_skip(self) -> None:
        made = due(a_schedule(), OPEN, self.LATE)
        assert (made.ticks, made.skipped, made.done_until) == ((), 1, self.LATE)
        assert made.next_at == NOW + 4 * HOUR

    @pytest.mark.parametrize("state", [State.COMPLETED, State.DEAD, State.CANCELLED])
    @pytest.mark.parametrize("overlap", Overlap)
    def test_what_is_over_is_in_nobodys_way(self, overlap: Overlap, state: State) -> None:
        assert due(a_schedule(overlap=overlap), a_job(state), NOW + HOUR).ticks == (NOW + HOUR,)

    def test_allow(self) -> None:
        assert due(a_schedule(overlap=Overlap.ALLOW), OPEN, self.LATE).ticks == (self.LATE,)

    @pytest.mark.parametrize("overlap", [Overlap.LATEST, Overlap.ALL, Overlap.CANCEL])
    def test_those_that_wait_come_when_the_job_is_over(self, overlap: Overlap) -> None:
        waiting = a_schedule(overlap=overlap, missed=Missed.ALL, last_seq=OPEN.seq)
        made = due(waiting, OPEN, self.LATE)
        assert (made.ticks, made.done_until, made.next_at) == ((), NOW, None)
        assert made.cancel == (overlap is Overlap.CANCEL)
        then = after_end(replace(waiting, next_at=None), OPEN.seq, State.COMPLETED, self.LATE)
        assert then.next_at == self.LATE
        after = due(then, a_job(State.COMPLETED), self.LATE)
        first = NOW + HOUR if overlap is Overlap.ALL else self.LATE
        assert (after.ticks, after.done_until) == ((first,), first)


class TestEnds:
    def test_failures_in_a_row_pause_it(self) -> None:
        failing = a_schedule(pause_after=2)
        once = after_end(failing, 7, State.DEAD, NOW)
        assert (once.failures, once.paused_at) == (1, None)
        assert after_end(once, 8, State.COMPLETED, NOW).failures == 0
        assert after_end(once, 8, State.CANCELLED, NOW).failures == 1
        twice = after_end(once, 8, State.DEAD, NOW)
        assert (twice.paused_at, twice.next_at) == (NOW, None)
        assert "2 jobs in a row" in str(twice.paused_by)

    def test_an_older_job_wakes_nothing(self) -> None:
        waiting = a_schedule(next_at=None, last_seq=9)
        assert after_end(waiting, 8, State.COMPLETED, NOW).next_at is None
        assert after_end(waiting, 9, None, NOW).next_at == NOW

    def test_what_is_paused_stays_so(self) -> None:
        paused = a_schedule(next_at=None, last_seq=9, paused_at=NOW)
        assert after_end(paused, 9, State.COMPLETED, NOW + 5) == paused


class TestStart:
    def test_nothing_of_the_past_comes(self) -> None:
        on = resumed(a_schedule(paused_at=NOW, next_at=None, failures=3), NOW + 10 * HOUR + 5)
        assert (on.paused_at, on.failures) == (None, 0)
        assert (on.done_until, on.next_at) == (NOW + 10 * HOUR + 5, NOW + 11 * HOUR)
        assert started(a_schedule(), NOW - HOUR).done_until == NOW

    def test_jitter_is_the_names_and_stays(self) -> None:
        late = a_schedule(jitter=10 * MINUTE)
        assert 0 < late.delay <= 10 * MINUTE
        assert late.delay == a_schedule(jitter=10 * MINUTE).delay
        assert late.delay != a_schedule(jitter=10 * MINUTE, name="another").delay
        assert started(late, NOW).next_at == NOW + HOUR + late.delay
        assert due(late, None, NOW + HOUR + late.delay - 1).ticks == ()
        assert due(late, None, NOW + HOUR + late.delay).ticks == (NOW + HOUR,)


class TestRead:
    @pytest.mark.parametrize(
        ("given", "says"),
        [
            ({"name": ""}, "The name of a schedule is empty."),
            ({"name": "a\0b"}, "contains a NUL byte"),
            ({"name": "a\nb"}, "must be printable"),
            ({"name": "x" * 2**20}, "is 1,048,576 bytes long; at most 512 are allowed."),
            ({"name": "\ud800"}, "isn't valid UTF-8|aren't valid UTF-8"),
            ({"name": 7}, "must be text, not int."),
            ({"rule": 7}, "A rule is five fields"),
            ({"rule": "61 * * * *"}, "has '61' as minute"),
            ({"tz": "Mars/Base"}, "There is no time zone 'Mars/Base' here."),
            ({"tz": 3}, "There is no time zone '3' here."),
            ({"missed": "some"}, "missed is one of latest, off, all, not 'some'."),
            ({"overlap": None}, "overlap is one of skip, allow, latest, all, cancel-running"),
            ({"pause_after": 0}, "from 1 to 1,000,000, not '0'."),
            ({"pause_after": True}, "from 1 to 1,000,000, not 'true'."),
            ({"missed_within": -1}, "-1"),
            ({"missed_within": "2y"}, "2y"),
            ({"jitter": "1h1s"}, "'0 \\* \\* \\* \\*' has 1h, and 1h1s is more."),
            ({"jitter": -5}, "-5"),
        ],
    )
    def test_what_can_not_be_is_refused_in_a_sentence(
        self, given: dict[str, Any], says: str
    ) -> None:
        usual: dict[str, Any] = {"name": "x", "rule": "0 * * * *", "now": NOW}
        with pytest.raises(UsageError, match=says) as refused:
            read_schedule(**usual | given)
        assert len(str(refused.value)) < 300

    def test_a_jitter_as_long_as_the_time_between_ticks_is_none_too_long(self) -> None:
        assert read_schedule("x", "every 15m", jitter="15m", now=NOW).jitter == 15 * MINUTE
        # The shortest of all, not the first.
        with pytest.raises(UsageError, match="has 1m, and 2m is more"):
            read_schedule("x", "0,58,59 * * * *", jitter="2m", now=NOW)
