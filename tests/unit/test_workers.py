"""How many jobs a node claims for its workers, and what it gives back."""

from hypothesis import given
from hypothesis import strategies as st

from queuectl.node.workers import (
    AHEAD_FOR,
    BEHIND_FOR,
    COMMITS_AHEAD,
    LONGEST_AHEAD,
    MOST_AHEAD,
    MOST_AT_ONCE,
    MOST_WARM_AHEAD,
    MOST_WARM_AT_ONCE,
    Workers,
)


def at_pace(count: int, seconds: float, *, warm: bool = False) -> Workers:
    """Return workers whose runs have taken so long for a while."""
    workers = Workers(count)
    for _ in range(50):
        workers.took(seconds, warm=warm)
    return workers


class TestWanted:
    def test_one_job_for_each_as_long_as_nothing_is_known(self) -> None:
        assert Workers(3).wanted() == [1, 2, 3]

    def test_one_job_for_each_when_runs_take_long(self) -> None:
        assert at_pace(2, 10.0).wanted() == [1, 2]

    def test_short_runs_are_claimed_ahead_but_idle_workers_come_first(self) -> None:
        workers = at_pace(2, AHEAD_FOR / 2)
        workers.begin(1, 7, now=0.0)
        assert workers.wanted() == [2, 1, 2, 1, 2]

    def test_there_is_a_limit_for_a_worker(self) -> None:
        assert len(at_pace(1, 0.0).wanted()) == 1 + MOST_AHEAD

    def test_there_is_a_limit_for_a_commit(self) -> None:
        assert len(at_pace(1000, 0.0).wanted()) == MOST_AT_ONCE

    def test_warm_programs_are_given_more_until_a_command_has_run(self) -> None:
        workers = at_pace(1000, 0.0, warm=True)
        assert (workers.ahead, len(workers.wanted())) == (MOST_WARM_AHEAD, MOST_WARM_AT_ONCE)
        workers.took(0.0)
        assert (workers.ahead, len(workers.wanted())) == (MOST_AHEAD, MOST_AT_ONCE)

    def test_busy_workers_want_nothing(self) -> None:
        workers = Workers(1)
        workers.begin(1, 7, now=0.0)
        assert (workers.wanted(), workers.idle, workers.hungry) == ([], False, False)


class TestSlowStore:
    """The more a commit costs, the more jobs it is for."""

    def test_more_is_claimed_ahead(self) -> None:
        workers = at_pace(1, AHEAD_FOR / 2)
        workers.commit_takes = 2 * AHEAD_FOR / COMMITS_AHEAD
        assert workers.ahead == 4

    def test_but_not_for_ever(self) -> None:
        workers = at_pace(1, AHEAD_FOR / 2)
        workers.commit_takes = 60.0
        assert workers.ahead == int(LONGEST_AHEAD / (AHEAD_FOR / 2))

    def test_nothing_waits_behind_a_run_that_takes_long(self) -> None:
        workers = at_pace(1, AHEAD_FOR * 1.1)
        workers.commit_takes = 60.0
        assert workers.ahead == 0


class TestPace:
    def test_one_long_run_ends_the_claiming_ahead(self) -> None:
        workers = at_pace(1, 0.001)
        workers.took(1.0)
        assert workers.ahead == 0

    def test_short_runs_begin_it_again(self) -> None:
        workers = at_pace(1, 60.0)
        for _ in range(100):
            workers.took(0.001)
        assert workers.ahead == MOST_AHEAD

    def test_workers_are_hungry_when_a_third_of_the_lines_is_gone(self) -> None:
        workers = at_pace(1, AHEAD_FOR / 3)
        for run in range(4):
            workers.begin(1, run, now=0.0)
        assert not workers.hungry
        workers.end(1, 0, now=0.0)
        assert not workers.hungry
        workers.end(1, 1, now=0.0)
        assert workers.hungry


class TestLine:
    def test_those_behind_a_long_run_are_held_up(self) -> None:
        workers = at_pace(2, 0.001)
        for run, worker in enumerate([1, 1, 1, 2, 2]):
            workers.begin(worker, run, now=0.0)
        workers.end(2, 3, now=BEHIND_FOR)
        assert workers.look_at == BEHIND_FOR
        assert list(workers.held_up(BEHIND_FOR)) == [1, 2]
        assert workers.ahead == 0

    def test_who_came_to_the_front_since_holds_up_nobody_yet(self) -> None:
        workers = at_pace(1, 0.001)
        for run in range(3):
            workers.begin(1, run, now=0.0)
        workers.end(1, 0, now=BEHIND_FOR / 2)
        assert list(workers.held_up(BEHIND_FOR)) == []
        assert workers.look_at == BEHIND_FOR * 1.5

    def test_all_but_the_first_wait(self) -> None:
        workers = at_pace(2, 0.001)
        for run, worker in enumerate([1, 1, 2]):
            workers.begin(worker, run, now=0.0)
        assert list(workers.waiting()) == [1]
        assert workers.has_line
        workers.end(1, 1, now=0.0)
        assert not workers.has_line

    def test_one_in_line_may_leave_before_the_first(self) -> None:
        workers = Workers(1)
        for run in range(3):
            workers.begin(1, run, now=float(run))
        workers.end(1, 1, now=5.0)
        assert list(workers.waiting()) == [2]
        assert list(workers.held_up(BEHIND_FOR)) == [2]


class TestAnotherNumber:
    def test_more_of_them_are_idle_at_once(self) -> None:
        workers = Workers(1)
        workers.begin(1, 10, 0.0)
        assert not workers.idle
        workers.resize(3)
        assert workers.idle
        assert workers.wanted() == [2, 3]

    def test_those_who_are_too_many_get_nothing_more(self) -> None:
        workers = Workers(3)
        for number in (1, 2, 3):
            workers.begin(number, 10 + number, 0.0)
        workers.resize(2)
        assert not workers.hungry
        workers.end(1, 11, 1.0)
        # Two are still at work, and two is what there should be.
        assert (workers.idle, workers.hungry, workers.wanted()) == (False, False, [])
        workers.end(3, 13, 2.0)
        assert (workers.idle, workers.wanted()) == (True, [1])
        workers.end(2, 12, 3.0)
        assert workers.wanted() == [1, 2]

    def test_runs_in_line_behind_these_can_be_told_from_the_others(self) -> None:
        workers = Workers(2)
        for run, worker in enumerate((1, 1, 2, 2), 10):
            workers.begin(worker, run, 0.0)
        workers.resize(1)
        assert list(workers.waiting(beyond=1)) == [13]
        assert sorted(workers.waiting()) == [11, 13]

    def test_nothing_is_claimed_ahead_while_there_are_too_many(self) -> None:
        workers = Workers(2)
        workers.begin(2, 10, 0.0)
        workers.took(0.001)
        workers.resize(1)
        assert workers.ahead > 0
        # To be hungry and want nothing would have the node ask again without a pause.
        assert (workers.hungry, workers.wanted()) == (False, [])

    @given(
        st.lists(
            st.tuples(st.sampled_from(["resize", "begin", "end"]), st.integers(1, 4)), max_size=60
        )
    )
    def test_never_more_begin_than_there_should_be(self, steps: list[tuple[str, int]]) -> None:
        workers = Workers(2)
        at: dict[int, int] = {}
        for number, (step, choice) in enumerate(steps, 100):
            if step == "resize":
                workers.resize(choice)
            elif step == "begin":
                for worker in workers.wanted()[:choice]:
                    assert worker not in at
                    at[worker] = number * 10 + worker
                    assert workers.begin(worker, at[worker], 0.0)
                    assert len(at) <= workers.count
            elif at:
                worker = sorted(at)[choice % len(at)]
                workers.end(worker, at.pop(worker), 0.0)
            assert workers.idle == (len(at) < workers.count)
            assert workers.hungry == bool(workers.wanted())
