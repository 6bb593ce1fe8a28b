"""What a store promises about schedules: one tick, one job, in the transaction that moves on."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from threading import Barrier, Thread
from typing import Any

import pytest

from queuectl.errors import StateError
from queuectl.facts import Event
from queuectl.job import Exited, Job, NewJob, State
from queuectl.lifecycle import Policy, cancelled
from queuectl.limits import Limits, WhenFull
from queuectl.schedule import Missed, Overlap, Schedule
from queuectl.store import Store, open_store
from queuectl.store.contract import Decision, EndRun, Ticked
from queuectl.uniqueness import OnDuplicate
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    a_node,
    add,
    apply,
    ended,
    finish,
    ids,
    remove,
    take,
    take_one,
    the,
)

ALL = {
    "name": "schedule-1",
    "rule": "every 2h",
    "zone": "Zone/3",
    "anchor": 4,
    "request": {"command": "command 5", "tags": ["ä"]},
    "missed": Missed.ALL,
    "missed_within": 6,
    "overlap": Overlap.CANCEL,
    "jitter": 7,
    "pause_after": 8,
    "paused_at": 9,
    "paused_by": "who 10",
    "done_until": 11,
    "next_at": 12,
    "failures": 13,
    "last_tick": 14,
    "last_job": "job 15",
    "last_seq": 16,
    "created_at": 17,
    "updated_at": 18,
}


def a_schedule(store: Store, name: str = "hourly", **changes: Any) -> Schedule:
    """Store a schedule that is due."""
    given: dict[str, Any] = {
        "name": name,
        "rule": "every 1h",
        "zone": "UTC",
        "anchor": NOW,
        "request": {"command": "true"},
        "done_until": NOW,
        "next_at": NOW + HOUR,
        "created_at": NOW,
        "updated_at": NOW,
    }
    schedule = Schedule(**given | changes)
    put(store, schedule)
    return schedule


def put(store: Store, schedule: Schedule) -> None:
    store.schedules.change(schedule.name, lambda there, now: schedule)


def one(store: Store, name: str = "hourly") -> Schedule:
    return next(schedule for schedule in store.schedules.all() if schedule.name == name)


def makes(*planned: int, **fields: Any) -> Callable[[Schedule, Job | None, int], Ticked]:
    """Make a job for each of these instants, and go on an hour later."""

    def look(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
        new = NewJob(command="true", **fields)
        last = max(planned, default=schedule.done_until)
        after = replace(schedule, done_until=last, next_at=last + HOUR)
        return Ticked(after, [(at, new) for at in planned])

    return look


class TestChange:
    def test_everything_comes_back(self, store: Store) -> None:
        schedule = Schedule(**ALL)  # type: ignore[arg-type]
        put(store, schedule)
        assert store.schedules.all() == [schedule]

    def test_its_request_may_stand_for_odd_bytes(self, store: Store) -> None:
        request = {"command": "echo ä", "parameters": {"line": "\udcff", "index": 3}}
        a_schedule(store, request=request)
        assert one(store).request == request

    def test_what_may_be_missing_may(self, store: Store) -> None:
        schedule = a_schedule(store, next_at=None)
        assert store.schedules.all() == [schedule]

    def test_it_is_changed_as_decided(self, store: Store) -> None:
        before = a_schedule(store)
        seen: list[Schedule | None] = []

        def decide(there: Schedule | None, now: int) -> Schedule:
            seen.append(there)
            assert there is not None
            return replace(there, rule="every 3h", failures=2)

        changed = store.schedules.change("hourly", decide)
        assert seen == [before]
        assert changed == one(store) == replace(before, rule="every 3h", failures=2)

    def test_it_is_removed_with_its_ticks_but_not_its_jobs(self, store: Store) -> None:
        a_schedule(store)
        (job,) = store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR)
        assert store.schedules.change("hourly", lambda there, now: None) is None
        assert store.schedules.all() == []
        assert store.schedules.ticks("hourly", 10) == []
        assert the(store, job.id) == job

    def test_an_error_changes_nothing(self, store: Store) -> None:
        before = a_schedule(store)

        def decide(there: Schedule | None, now: int) -> Schedule:
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            store.schedules.change("hourly", decide)
        assert store.schedules.all() == [before]

    def test_an_event_is_kept_of_it(self, store: Store) -> None:
        before = a_schedule(store)
        event = Event(at=NOW, kind="schedule", job=None, node=None, who="me", detail="so")
        store.schedules.change("hourly", lambda there, now: there, event=event)
        assert store.history.events() == []
        store.schedules.change("hourly", lambda there, now: replace(before, jitter=3), event=event)
        assert store.history.events() == [event]

    def test_names_come_in_order(self, store: Store) -> None:
        for name in ("b", "a", "ä", "B"):
            a_schedule(store, name)
        assert [one.name for one in store.schedules.all()] == ["B", "a", "b", "ä"]


class TestTick:
    def test_it_makes_a_job_and_goes_on(self, store: Store) -> None:
        a_schedule(store)
        (job,) = store.schedules.tick(makes(NOW + HOUR, priority=3), now=NOW + HOUR + 5)
        assert job == the(store, job.id)
        assert (job.priority, job.state, job.created_at) == (3, State.PENDING, NOW + HOUR + 5)
        assert (job.schedule, job.tick) == ("hourly", f"{NOW + HOUR} hourly")
        after = one(store)
        assert (after.last_tick, after.last_job, after.last_seq) == (NOW + HOUR, job.id, job.seq)
        assert (after.done_until, after.next_at) == (NOW + HOUR, NOW + 2 * HOUR)
        (tick,) = store.schedules.ticks("hourly", 10)
        assert tick == (NOW + HOUR, job.seq, job.id, NOW + HOUR + 5)

    def test_a_tick_makes_one_job_however_often_it_is_tried(self, store: Store) -> None:
        before = a_schedule(store)
        assert len(store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR)) == 1
        put(store, before)
        assert store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR) == []
        (job,) = store.schedules.tick(makes(NOW + HOUR, NOW + 2 * HOUR), name="hourly")
        assert job.tick == f"{NOW + 2 * HOUR} hourly"

    def test_one_that_is_refused_keeps_no_other_from_ticking(self, store: Store) -> None:
        """As its group was stopped, or what it waits for isn't there."""
        a_node(store)
        a_schedule(store, "a-stopped")
        a_schedule(store, "b-orphaned")
        a_schedule(store, "c-good")
        add(store, "x", group="g", max_fails=1)
        add(store, "later", group="g", run_at=NOW + DAY)
        finish(store, [ended(take_one(store), Exited(1), policy=Policy(max_retries=0))])
        wrong: dict[str, dict[str, Any]] = {
            "a-stopped": {"group": "g"},
            "b-orphaned": {"after": ("nix",)},
        }

        def look(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
            return makes(NOW + HOUR, **wrong.get(schedule.name, {}))(schedule, newest, now)

        (job,) = store.schedules.tick(look, now=NOW + HOUR)
        assert job.schedule == "c-good"
        assert [one.next_at for one in store.schedules.all()] == [NOW + 2 * HOUR] * 3
        told = [event.detail or "" for event in store.history.events()]
        skipped = sorted(detail.partition(":")[0] for detail in told if "skipped" in detail)
        assert skipped == ["a-stopped", "b-orphaned"]
        assert store.groups.named(["g"])[0].jobs == 2
        with pytest.raises(StateError):
            store.schedules.tick(look, name="a-stopped", now=NOW + 2 * HOUR)

    @pytest.mark.needs("transactions")
    def test_one_that_is_refused_takes_nobodys_place(self, store: Store) -> None:
        a_node(store)
        a_schedule(store)
        store.settings.set_limits("default", lambda _: Limits(limit=1, when_full=WhenFull.REJECT))
        fields: dict[str, Any] = {"unique": "k", "is_limited": True}
        add(store, "holder", **fields)
        assert ids(take(store, 1)) == ["holder"]
        replacing = makes(NOW + HOUR, on_duplicate=OnDuplicate.REPLACE, **fields)
        assert store.schedules.tick(replacing, now=NOW + HOUR) == []
        holder = the(store, "holder")
        assert (holder.state, holder.cancel_reason) == (State.PROCESSING, None)

    def test_only_what_is_due_is_looked_at(self, store: Store) -> None:
        a_schedule(store, "due")
        a_schedule(store, "later", next_at=NOW + HOUR + 1)
        a_schedule(store, "never", next_at=None)
        seen: list[str] = []

        def look(schedule: Schedule, newest: Job | None, now: int) -> None:
            seen.append(schedule.name)

        assert store.schedules.tick(look, now=NOW + HOUR) == []
        assert seen == ["due"]
        store.schedules.tick(look, now=NOW + HOUR, name="never")
        assert seen == ["due", "never"]

    def test_it_is_told_of_its_newest_job(self, store: Store) -> None:
        a_schedule(store)
        (job,) = store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR)
        seen: list[Job | None] = []

        def look(schedule: Schedule, newest: Job | None, now: int) -> None:
            seen.append(newest)

        store.schedules.tick(look, now=NOW + 2 * HOUR)
        remove(store, job)
        store.schedules.tick(look, now=NOW + 2 * HOUR)
        assert seen == [job, None]

    @pytest.mark.needs("transactions")
    def test_all_of_it_or_nothing(self, store: Store) -> None:
        before = [a_schedule(store, "a"), a_schedule(store, "b")]

        def look(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
            if schedule.name == "b":
                raise ZeroDivisionError
            return makes(NOW + HOUR)(schedule, newest, now)

        with pytest.raises(ZeroDivisionError):
            store.schedules.tick(look, now=NOW + HOUR)
        assert store.schedules.all() == before
        assert store.jobs.counts() == []
        assert store.schedules.ticks("a", 9) == []

    @pytest.mark.needs("transactions")
    def test_many_who_tick_at_once_make_one_job(self, store: Store, url: str) -> None:
        stores = [store, *(open_store(url) for _ in range(5))]
        for n in range(4):
            a_schedule(stores[0], f"s{n}")
        barrier = Barrier(len(stores))
        made: list[Job] = []

        def tick(store: Store) -> None:
            barrier.wait()
            made.extend(store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR))

        threads = [Thread(target=tick, args=[store]) for store in stores]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # Who finds one locked leaves it to whoever locked it.
        made += stores[0].schedules.tick(makes(NOW + HOUR), now=NOW + HOUR)
        assert sorted(str(job.schedule) for job in made) == ["s0", "s1", "s2", "s3"]
        for other in stores[1:]:
            other.close()

    def test_the_newest_job_can_be_cancelled_with_it(self, store: Store) -> None:
        a_node(store)
        a_schedule(store)
        (waiting,) = store.schedules.tick(makes(NOW + HOUR), now=NOW + HOUR)

        def cancel(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
            assert newest is not None
            to = EndRun("so") if newest.state == State.PROCESSING else cancelled(newest, "so")
            return Ticked(replace(schedule, next_at=None), cancel=Decision(to))

        store.schedules.tick(cancel, now=NOW + 2 * HOUR)
        assert the(store, waiting.id).state == State.CANCELLED
        # Its end has the schedule looked at again.
        assert one(store).next_at is not None
        store.schedules.tick(makes(NOW + 2 * HOUR), name="hourly", now=NOW + 2 * HOUR)
        running = take_one(store, now=NOW + 2 * HOUR)
        store.schedules.tick(cancel, name="hourly", now=NOW + 3 * HOUR)
        assert the(store, running.id).cancel_reason == "so"
        assert one(store).next_at is None

    def test_when_the_next_is_due(self, store: Store) -> None:
        assert store.schedules.next_at() is None
        a_schedule(store, "never", next_at=None)
        assert store.schedules.next_at() is None
        a_schedule(store, "b", next_at=NOW + 7)
        a_schedule(store, "a", next_at=NOW + 5)
        assert store.schedules.next_at() == NOW + 5

    def test_ticks_are_forgotten_after_a_while(self, store: Store) -> None:
        a_schedule(store)
        store.schedules.tick(makes(NOW + HOUR, NOW + 2 * HOUR), now=NOW + 2 * HOUR)
        store.tidy(now=NOW + 29 * DAY)
        assert [tick.planned for tick in store.schedules.ticks("hourly", 9)] == [
            NOW + 2 * HOUR,
            NOW + HOUR,
        ]
        store.tidy(now=NOW + 31 * DAY)
        assert store.schedules.ticks("hourly", 9) == []


class TestEnds:
    @pytest.fixture(autouse=True)
    def node(self, store: Store) -> None:
        a_node(store)

    def run(self, store: Store, *codes: int) -> Sequence[Job]:
        """Let the jobs of as many ticks end so."""
        jobs = []
        for n, code in enumerate(codes, 1):
            (job,) = store.schedules.tick(
                makes(NOW + n * HOUR, max_retries=0), name="hourly", now=NOW + n * HOUR
            )
            run = take_one(store, now=NOW + n * HOUR)
            assert run.id == job.id
            assert finish(store, [ended(run, Exited(code), now=NOW + n * HOUR + MINUTE)]) == []
            jobs.append(the(store, job.id))
        return jobs

    def test_jobs_in_a_row_that_died_are_counted(self, store: Store) -> None:
        a_schedule(store)
        jobs = self.run(store, 1, 1)
        assert [job.state for job in jobs] == [State.DEAD] * 2
        assert one(store).failures == 2
        store.schedules.tick(makes(NOW + 9 * HOUR), name="hourly", now=NOW + 9 * HOUR)
        run = take_one(store, now=NOW + 9 * HOUR)
        finish(store, [ended(run, Exited(0), now=NOW + 9 * HOUR + MINUTE)])
        assert one(store).failures == 0

    def test_too_many_pause_it_in_the_same_transaction(self, store: Store) -> None:
        a_schedule(store, pause_after=2)
        self.run(store, 1)
        assert one(store).paused_at is None
        store.schedules.tick(
            makes(NOW + 5 * HOUR, max_retries=0), name="hourly", now=NOW + 5 * HOUR
        )
        run = take_one(store, now=NOW + 5 * HOUR)
        finish(store, [ended(run, Exited(1), now=NOW + 5 * HOUR + MINUTE)])
        after = one(store)
        assert after.paused_at is not None
        assert after.next_at is None
        (event,) = [event for event in store.history.events() if event.kind == "pause"]
        assert event.detail == "schedule hourly: 2 jobs in a row died"

    def test_a_retry_is_no_end(self, store: Store) -> None:
        a_schedule(store)
        store.schedules.tick(makes(NOW + HOUR, max_retries=5), now=NOW + HOUR)
        put(store, replace(one(store), next_at=None))
        run = take_one(store, now=NOW + HOUR)
        finish(store, [ended(run, Exited(1), now=NOW + HOUR + MINUTE)])
        assert the(store, run.id).state in (State.FAILED, State.PENDING)
        assert (one(store).failures, one(store).next_at) == (0, None)

    @pytest.mark.parametrize("how", ["cancelled", "removed", "expired"])
    def test_every_end_wakes_what_waits_for_it(self, store: Store, how: str) -> None:
        a_schedule(store)
        expires = NOW + 2 * HOUR if how == "expired" else None
        (job,) = store.schedules.tick(makes(NOW + HOUR, expires_at=expires), now=NOW + HOUR)
        put(store, replace(one(store), next_at=None))
        if how == "cancelled":
            assert apply(store, job, cancelled(job, "so"), now=NOW + 3 * HOUR)
        elif how == "removed":
            remove(store, job)
        else:
            assert take(store, 1, now=NOW + 3 * HOUR) == []
        assert one(store).next_at is not None
