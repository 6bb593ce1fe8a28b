"""Jobs that sleep, and what is emitted for them: who comes back when, and what can't be lost."""

from threading import Event as Flag
from threading import Thread
from typing import Any

import pytest

from queuectl.errors import DuplicateError, LeaseLostError, StateError
from queuectl.facts import Emitted, Sleep, Step
from queuectl.job import Exited, Job, Lost, State
from queuectl.lifecycle import LONGEST_WAIT, Policy, retried
from queuectl.store import Store
from queuectl.store.contract import Decision, Edit, RunId, Topic, Wish
from queuectl.values import replace
from tests.contract.tools import (
    DAY,
    HOUR,
    NOW,
    SECOND,
    Client,
    add,
    apply,
    ended,
    finish,
    hear,
    quieten,
    remove,
    take,
    take_one,
    the,
    tired,
)

pytestmark = pytest.mark.usefixtures("two_nodes")
LATER = NOW + HOUR
AT_ONCE = Policy(retry_delay=0, max_backoff=0)
TWO_DAYS = Wish(step="sleep 2d", numbered=True, wait=2 * DAY)
PAID = Wish(step="await paid", numbered=True, awaits="paid")
SOON = Wish(step="await paid", numbered=True, awaits="paid", wait=HOUR)


def run_of(job: Job) -> RunId:
    """Name the run that a job has."""
    return RunId(job.id, job.attempts, job.node or "")


def sleep(store: Store, job: Job, wish: Wish, *, now: int = NOW) -> Step | Sleep:
    """Have a run sleep, or find that it has."""
    return store.sleeps.begin(run_of(job), wish, now=now)


def doze(store: Store, job: Job, wish: Wish, *, now: int = NOW, code: int = 75) -> Job:
    """Have a run sleep, end it, and return its job as it is then."""
    assert isinstance(sleep(store, job, wish, now=now), Sleep)
    end(store, job, now=now + SECOND, code=code)
    return the(store, job.id)


def end(store: Store, job: Job, *, now: int, code: int = 75) -> None:
    """End the run of a job that may sleep."""
    over = ended(job, Exited(code), now=now, policy=Policy(max_retries=0))
    assert finish(store, [tired(over, now=now, policy=Policy(max_retries=0))]) == []


class TestSleeping:
    def test_a_job_comes_back_when_its_time_has_come(self, store: Store) -> None:
        add(store, "a")
        job = doze(store, take_one(store), TWO_DAYS)
        assert (job.state, job.run_at, job.failures, job.crashes) == (
            State.PENDING,
            NOW + 2 * DAY,
            0,
            0,
        )
        [run] = store.history.attempts(job)
        assert (run.outcome, run.exit_code, run.error) == ("snoozed", None, None)
        assert take(store, now=NOW + DAY) == []
        again = take_one(store, now=NOW + 2 * DAY)
        done = sleep(store, again, TWO_DAYS, now=NOW + 2 * DAY)
        assert done == Step(name="sleep 2d", number=2, seen=2, output=b"", at=NOW + 2 * DAY)
        assert store.reports.steps(again) == [done]

    @pytest.mark.parametrize("code", [0, 1, 75])
    def test_whatever_its_exit_code_is(self, store: Store, code: int) -> None:
        add(store, "a")
        assert doze(store, take_one(store), TWO_DAYS, code=code).state == State.PENDING

    def test_a_run_that_said_nothing_ends_as_it_ended(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        end(store, job, now=LATER, code=75)
        assert the(store, "a").state == State.DEAD
        add(store, "b")
        end(store, take_one(store), now=LATER, code=0)
        assert the(store, "b").state == State.COMPLETED

    def test_an_end_that_asks_nothing_is_as_it_was(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        sleep(store, job, TWO_DAYS)
        finish(store, [ended(job, Exited(0))])
        assert the(store, "a").state == State.COMPLETED
        assert store.sleeps.of([the(store, "a")]) == {}

    def test_what_the_job_sleeps_for_is_known(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        first, other = take(store, 2)
        doze(store, first, TWO_DAYS)
        doze(store, other, replace(SOON, step="one"), now=NOW + 3)
        jobs = [the(store, "a"), the(store, "b")]
        assert store.sleeps.of(jobs) == {
            first.seq: Sleep(
                seq=first.seq,
                number=1,
                step="sleep 2d",
                awaits=None,
                until=NOW + 2 * DAY,
                at=NOW,
            ),
            other.seq: Sleep(
                seq=other.seq,
                number=1,
                step="one",
                awaits="paid",
                until=NOW + 3 + HOUR,
                at=NOW + 3,
            ),
        }
        assert store.sleeps.of([]) == {}
        # While it runs, it doesn't.
        assert store.sleeps.of([first]) == {}

    def test_who_comes_too_early_sleeps_on_until_the_same_time(self, store: Store) -> None:
        add(store, "a")
        job = doze(store, take_one(store), TWO_DAYS)
        apply(store, job, retried(LATER), now=LATER)
        again = take_one(store, now=LATER)
        on = sleep(store, again, replace(TWO_DAYS, wait=9 * DAY), now=LATER)
        assert isinstance(on, Sleep)
        assert (on.until, on.at, on.number) == (NOW + 2 * DAY, NOW, 2)
        end(store, again, now=LATER + SECOND)
        assert the(store, "a").run_at == NOW + 2 * DAY

    def test_longer_than_any_wait_it_sleeps_on(self, store: Store) -> None:
        """A job is due once in 366 days; its run then finds that it goes on sleeping."""
        long = Wish(step="long", wait=LONGEST_WAIT + DAY)
        for id, wish in (("a", long), ("b", PAID)):
            add(store, id)
            job = doze(store, take_one(store), wish)
            assert job.run_at == NOW + SECOND + LONGEST_WAIT
        year = NOW + SECOND + LONGEST_WAIT
        for wish, due in ((long, NOW + LONGEST_WAIT + DAY), (PAID, year + SECOND + LONGEST_WAIT)):
            job = doze(store, take_one(store, now=year), wish, now=year)
            assert (job.state, job.attempts, job.run_at) == (State.PENDING, 2, due)
        store.sleeps.emit("paid", "30", who="me", now=year + HOUR)
        done = sleep(store, take_one(store, now=year + HOUR), PAID, now=year + HOUR)
        assert isinstance(done, Step)
        assert done.output == b"30"

    def test_a_crash_forgets_nothing(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        sleep(store, job, TWO_DAYS)
        finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        again = take_one(store, node="node-2", now=LATER)
        on = sleep(store, again, TWO_DAYS, now=LATER)
        assert isinstance(on, Sleep)
        assert on.until == NOW + 2 * DAY

    def test_a_run_comes_by_several_with_a_number_each(self, store: Store) -> None:
        add(store, "a")
        wish = Wish(step="sleep 1s", numbered=True, wait=SECOND)
        now = NOW
        for n in range(3):
            job = take_one(store, now=now)
            for _ in range(n):
                assert isinstance(sleep(store, job, wish, now=now), Step)
            doze(store, job, wish, now=now)
            now += 10 * SECOND
        job = take_one(store, now=now)
        names = [sleep(store, job, wish, now=now).__getattribute__("name") for _ in range(3)]
        assert names == ["sleep 1s", "sleep 1s #2", "sleep 1s #3"]

    def test_a_name_of_its_own_comes_once(self, store: Store) -> None:
        add(store, "a")
        wish = Wish(step="nap", wait=0)
        job = take_one(store)
        assert isinstance(sleep(store, job, wish), Step)
        with pytest.raises(DuplicateError, match="'nap' of job a comes twice"):
            sleep(store, job, wish)

    def test_a_run_that_sleeps_does_nothing_else(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        sleep(store, job, TWO_DAYS)
        with pytest.raises(StateError, match="Run 1 of job a sleeps"):
            store.reports.begin_step(run_of(job), "next")
        with pytest.raises(StateError, match="Run 1 of job a sleeps"):
            sleep(store, job, PAID)
        # To say the same again changes nothing.
        assert isinstance(sleep(store, job, TWO_DAYS, now=NOW + 5), Sleep)
        end(store, job, now=NOW + 6)
        assert the(store, "a").run_at == NOW + 2 * DAY

    def test_another_sleep_of_a_later_run_takes_its_place(self, store: Store) -> None:
        add(store, "a")
        doze(store, take_one(store), TWO_DAYS)
        again = take_one(store, now=NOW + 3 * DAY)
        found = sleep(store, again, PAID, now=NOW + 3 * DAY)
        assert isinstance(found, Sleep)
        assert (found.awaits, found.until) == ("paid", None)
        end(store, again, now=NOW + 3 * DAY)
        assert the(store, "a").run_at == NOW + 3 * DAY + LONGEST_WAIT

    def test_a_run_that_lost_its_lease_can_not(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        again = take_one(store, node="node-2", now=LATER)
        for stranger in (run_of(job), run_of(again)._replace(node="node-1")):
            for wish in (TWO_DAYS, PAID, Wish(step="none", wait=0)):
                with pytest.raises(LeaseLostError):
                    store.sleeps.begin(stranger, wish, now=LATER)
        end(store, again, now=LATER + SECOND, code=0)
        assert the(store, "a").state == State.COMPLETED
        assert store.reports.steps(the(store, "a")) == []

    def test_who_is_cancelled_meanwhile_is(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        sleep(store, job, TWO_DAYS)
        over = tired(ended(replace(job, cancel_reason="no"), Exited(75)), now=LATER)
        assert finish(store, [over]) == []
        assert the(store, "a").state == State.CANCELLED

    def test_a_retry_from_a_step_forgets_it(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "one", b"", now=NOW)
        job = doze(store, job, TWO_DAYS)
        store.jobs.change(
            [job], lambda held, now: {job.seq: Decision(retried(now), forget="one")}, now=LATER
        )
        again = take_one(store, now=LATER)
        found = sleep(store, again, TWO_DAYS, now=LATER)
        assert isinstance(found, Sleep)
        assert found.until == LATER + 2 * DAY

    def test_it_follows_a_job_that_is_swapped(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        doze(store, take_one(store), TWO_DAYS)
        store.jobs.swap(the(store, "a"), the(store, "b"), lambda *_: (), now=LATER)
        moved = the(store, "a")
        assert store.sleeps.of([moved])[moved.seq].step == "sleep 2d"
        assert store.sleeps.of([the(store, "b")]) == {}

    def test_goes_with_its_job(self, store: Store, client: Client) -> None:
        add(store, "a")
        remove(store, doze(store, take_one(store), TWO_DAYS))
        assert store.verify() == []
        assert client.run("SELECT count(*) FROM {sleeps}") == [(0,)]


class TestEmitting:
    def test_brings_back_who_waits(self, store: Store) -> None:
        for id in ("a", "b", "c"):
            add(store, id)
        first, other, third = take(store, 3)
        doze(store, first, PAID)
        doze(store, other, replace(PAID, awaits="shipped"))
        doze(store, third, SOON)
        told = Emitted(name="paid", payload='{"ü": [1, "🎈"]}', at=LATER - 9, who="me")
        assert store.sleeps.emit("paid", told.payload, who="me", now=LATER - 9) == (told, 2)
        job = the(store, "a")
        assert (job.state, job.run_at, job.updated_at) == (State.PENDING, LATER - 9, LATER - 9)
        again, too = take(store, 5, now=LATER - 9)
        assert [again.id, too.id] == ["a", "c"]
        for job in (again, too):
            done = sleep(store, job, PAID, now=LATER)
            assert isinstance(done, Step)
            assert (done.name, done.output) == ("await paid", told.payload.encode())
        assert the(store, "b").run_at == NOW + SECOND + LONGEST_WAIT

    def test_wakes_nodes(self, store: Store) -> None:
        add(store, "a")
        doze(store, take_one(store), PAID)
        if "notifications" not in store.capabilities:
            return
        listener = store.listen()
        try:
            quieten(listener)
            store.sleeps.emit("paid", "1", who="me", now=LATER)
            assert hear(listener, Topic.WORK)
        finally:
            listener.close()

    def test_before_anybody_waits_counts(self, store: Store) -> None:
        assert store.sleeps.emit("paid", "1", who="me", now=NOW)[1] == 0
        add(store, "a")
        done = sleep(store, take_one(store), PAID)
        assert isinstance(done, Step)
        assert done.output == b"1"

    def test_the_first_one_wins(self, store: Store) -> None:
        add(store, "a")
        doze(store, take_one(store), PAID)
        first, _ = store.sleeps.emit("paid", "1", who="me", now=LATER)
        assert store.sleeps.emit("paid", "2", who="you", now=LATER + 1) == (first, None)
        assert store.sleeps.emitted("paid") == [first]
        done = sleep(store, take_one(store, now=LATER), PAID, now=LATER)
        assert isinstance(done, Step)
        assert done.output == b"1"

    def test_between_the_look_and_the_end_of_the_run_it_is_not_lost(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        assert isinstance(sleep(store, job, PAID), Sleep)
        assert store.sleeps.emit("paid", "1", who="me", now=NOW + 5)[1] == 1
        assert the(store, "a").state == State.PROCESSING
        end(store, job, now=NOW + 9)
        assert the(store, "a").run_at == NOW + 9
        again = take_one(store, now=NOW + 9)
        assert isinstance(sleep(store, again, PAID, now=NOW + 9), Step)

    @pytest.mark.needs("transactions")
    def test_at_the_same_time_it_is_not_lost(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        looked, go_on = Flag(), Flag()

        def fall_asleep() -> None:
            def action() -> Any:
                found = sleep(store, job, PAID)
                looked.set()
                # Who emits can't be done before.
                go_on.wait(0.2)
                return found

            store.transact(action)

        thread = Thread(target=fall_asleep)
        thread.start()
        assert looked.wait(60)
        assert store.sleeps.emit("paid", "1", who="me", now=NOW + 5)[1] == 1
        thread.join()
        end(store, job, now=NOW + 9)
        assert the(store, "a").run_at == NOW + 9

    def test_too_late_for_one_that_came_in_vain(self, store: Store) -> None:
        add(store, "a")
        job = doze(store, take_one(store), SOON)
        assert job.run_at == NOW + HOUR
        again = take_one(store, now=NOW + HOUR)
        done = sleep(store, again, SOON, now=NOW + HOUR)
        assert isinstance(done, Step)
        assert done.output == b""
        assert store.sleeps.emit("paid", "1", who="me", now=NOW + 2 * HOUR)[1] == 0
        finish(store, [ended(again, Exited(1), policy=AT_ONCE, now=NOW + 2 * HOUR)])
        third = take_one(store, now=NOW + 3 * HOUR)
        found = sleep(store, third, SOON, now=NOW + 3 * HOUR)
        assert isinstance(found, Step)
        assert found.output == b""

    def test_one_that_is_held_stays_so(self, store: Store) -> None:
        add(store, "a")
        job = doze(store, take_one(store), PAID)
        held = Edit(replace(job, parked=""))
        store.jobs.change([job], lambda *_: {job.seq: Decision(held)}, now=LATER)
        assert store.sleeps.emit("paid", "1", who="me", now=LATER)[1] == 1
        assert take(store, now=LATER) == []
        job = the(store, "a")
        free = Edit(replace(job, parked=None))
        store.jobs.change([job], lambda *_: {job.seq: Decision(free)}, now=LATER + 1)
        assert take_one(store, now=LATER + 1).id == "a"

    def test_one_that_is_over_stays_so(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        sleep(store, job, PAID)
        finish(store, [ended(job)])
        assert store.sleeps.emit("paid", "1", who="me", now=LATER)[1] == 0
        assert the(store, "a").state == State.COMPLETED

    def test_are_listed_newest_first(self, store: Store) -> None:
        for n, name in enumerate(("b", "ü 🎈", "a")):
            store.sleeps.emit(name, str(n), who=f"who {n}", now=NOW + n)
        add(store, "a")
        doze(store, take_one(store), PAID)
        assert [one.name for one in store.sleeps.emitted(limit=2)] == ["a", "ü 🎈"]
        assert store.sleeps.emitted("paid") == []
        [one] = store.sleeps.emitted("ü 🎈")
        assert (one.payload, one.at, one.who) == ("1", NOW + 1, "who 1")

    def test_names_are_found_by_how_they_begin(self, store: Store) -> None:
        for name in ("paid-2", "shipped", "paid-1", "Paid", "pai%"):
            store.sleeps.emit(name, "1", who="me", now=NOW)
        for name in ("paid-11", "pay"):
            add(store, name)
            doze(store, take_one(store), Wish(step="await", awaits=name))
        assert store.sleeps.names("paid-", 9) == {"paid-1": True, "paid-11": False, "paid-2": True}
        assert list(store.sleeps.names("pa", 3)) == ["pai%", "paid-1", "paid-11"]
        assert store.sleeps.names("pai%", 9) == {"pai%": True}
        assert store.sleeps.names("x", 9) == store.sleeps.names("\x00", 9) == {}
        assert len(store.sleeps.names("", 99)) == 7

    def test_old_ones_are_forgotten_unless_somebody_waits(self, store: Store) -> None:
        add(store, "a")
        doze(store, take_one(store), PAID)
        for n, name in enumerate(("paid", "old", "new")):
            store.sleeps.emit(name, "1", who="me", now=NOW + n * HOUR)
        store.tidy(now=NOW + 2 * HOUR)
        assert len(store.sleeps.emitted(limit=9)) == 3
        store.tidy(now=NOW + 2 * HOUR, emitted_before=NOW + 2 * HOUR)
        assert [one.name for one in store.sleeps.emitted(limit=9)] == ["new", "paid"]
        done = sleep(store, take_one(store, now=LATER), PAID, now=LATER)
        assert isinstance(done, Step)
        store.tidy(now=NOW + 2 * HOUR, emitted_before=NOW + 2 * HOUR)
        assert [one.name for one in store.sleeps.emitted(limit=9)] == ["new"]

    def test_a_name_that_nobody_waits_for_any_more_leaves_nothing(
        self, store: Store, client: Client
    ) -> None:
        add(store, "a")
        job = doze(store, take_one(store), PAID)
        store.tidy(now=LATER)
        assert client.run("SELECT name FROM {emitted}") == [("paid",)]
        remove(store, job)
        store.tidy(now=LATER)
        assert client.run("SELECT name FROM {emitted}") == []

    @pytest.mark.needs("transactions")
    def test_nothing_is_left_of_one_that_is_undone(self, store: Store) -> None:
        add(store, "a")
        doze(store, take_one(store), PAID)

        def fail() -> None:
            store.sleeps.emit("paid", "1", who="me", now=LATER)
            raise RuntimeError("undone")

        with pytest.raises(RuntimeError):
            store.transact(fail)
        assert store.sleeps.emitted("paid") == []
        assert the(store, "a").run_at > LATER
