"""What `queuectl.testing` gives to the tests of others: running, looking, moving the clock."""

import asyncio
import logging
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import apsw
import pytest

from queuectl import Discard, Queue, Retry, Snooze, State, StateError, TaskFailedError, current_job
from queuectl.testing import (
    assert_enqueued,
    drain,
    emptied,
    enqueued,
    inline,
    moving,
)

# The tasks write down here what they did.
done: list[object] = []


@pytest.fixture
def queue(tmp_path: Path) -> Iterator[Queue]:
    done.clear()
    with Queue(tmp_path / "jobs.db") as queue:
        yield queue


def note(what: str, by: timedelta = timedelta(0)) -> timedelta:
    done.append(what)
    return by * 2


def states(queue: Queue) -> list[State]:
    return [job.state for job in queue.iterate(oldest=True)]


class TestDrain:
    def test_it_runs_all_that_is_ready_in_order(self, queue: Queue) -> None:
        task = queue.task(note)
        task.enqueue("second")
        task.using(priority=5).enqueue("first")
        task.using(delay="1h").enqueue("never")
        ran = drain(queue)
        assert done == ["first", "second"]
        assert [(one.job.state, one.error) for one in ran] == [(State.COMPLETED, None)] * 2
        assert drain(queue) == []
        assert queue.nodes() == []

    def test_also_what_they_enqueue_meanwhile(self, queue: Queue) -> None:
        @queue.task(name="parent")
        def parent(left: int) -> int:
            done.append(left)
            return left and int(parent.enqueue(left - 1).id != "")

        parent.enqueue(2)
        assert len(drain(queue)) == 3
        assert done == [2, 1, 0]

    def test_they_sleep_and_wait(self, queue: Queue) -> None:
        @queue.task(name="sleeper")
        def sleeper() -> int:
            job = current_job()
            done.append(job.step("one", lambda: len(done)))
            job.sleep("1h")
            return int(job.wait_for("go"))

        job = sleeper.enqueue()
        assert [one.job.state for one in drain(queue)] == [State.PENDING]
        queue.emit("go", 7)
        drain(queue, later=True)
        assert job.result() == 7
        assert done == [0, 0]

    def test_values_go_through_json_and_back(self, queue: Queue) -> None:
        job = queue.task(note).enqueue("x", timedelta(seconds=1))
        drain(queue)
        assert job.result() == timedelta(seconds=2)
        assert queue.result(job.id) == [0, 2, 0]

    def test_failures_wait_for_their_retry(self, queue: Queue) -> None:
        @queue.task(name="flaky", retries=2, retry_delay="10m")
        def flaky() -> int:
            if current_job().attempt < 3:
                raise ValueError("not yet")
            return current_job().attempt

        job = flaky.enqueue()
        with moving(queue) as clock:
            [ran] = drain(queue)
            assert (ran.job.state, ran.job.failures) == (State.FAILED, 1)
            assert isinstance(ran.error, ValueError)
            assert ran.job.error == "ValueError: not yet"
            clock.move("9m")
            assert drain(queue) == []
            clock.move(timedelta(minutes=2))
            assert [one.job.failures for one in drain(queue)] == [2]
            assert [one.job.state for one in drain(queue, later=True)] == [State.COMPLETED]
            assert job.result() == 3

    def test_with_later_nothing_waits(self, queue: Queue) -> None:
        @queue.task(name="broken", retries=2)
        def broken() -> None:
            raise KeyError("x")

        job = broken.using(run_at="+1d").enqueue()
        ran = drain(queue, later=True)
        assert [one.job.state for one in ran] == [State.FAILED, State.FAILED, State.DEAD]
        assert queue.get(job.id).reason == "KeyError: 'x'; given up after 2 retries"

    def test_what_a_task_says_becomes_of_it(self, queue: Queue) -> None:
        @queue.task(name="ask", retries=3)
        def ask(how: str) -> str:
            if current_job().attempt > 1:
                return "done"
            if how == "retry":
                raise Retry("busy", after="1m")
            if how == "discard":
                raise Discard("no use")
            raise Snooze("5m")

        retried, discarded, snoozed = (ask.enqueue(h) for h in ("retry", "discard", "snooze"))
        first = {one.job.id: one.job for one in drain(queue)}
        assert first[retried.id].state == State.FAILED
        assert 59_000 < first[retried.id].run_at - first[retried.id].updated_at <= 61_000
        assert first[discarded.id].state == State.CANCELLED
        assert first[discarded.id].reason == "no use"
        assert (first[snoozed.id].state, first[snoozed.id].failures) == (State.PENDING, 0)
        assert [one.job.id for one in drain(queue, later=True)] == [retried.id, snoozed.id]
        assert snoozed.result() == "done"

    def test_what_never_ends_is_seen(self, queue: Queue) -> None:
        @queue.task(name="again")
        def again() -> None:
            raise Snooze("1h")

        again.enqueue()
        with pytest.raises(StateError, match="5 runs are over, and there are more"):
            drain(queue, later=True, most=5)
        assert queue.nodes() == []

    def test_commands_other_types_and_paused_queues_are_left_alone(self, queue: Queue) -> None:
        task = queue.task(note)
        queue.enqueue("echo command", priority=9)
        queue.push("other", b"{}", type="other", priority=9)
        task.using(queue="paused").enqueue("paused")
        task.enqueue("mine")
        queue.pause("paused")
        assert [one.job.state for one in drain(queue)] == [State.COMPLETED]
        assert done == ["mine"]
        waiting = queue.list(state="pending")
        assert [job.attempts for job in waiting] == [0, 0, 0]

    def test_only_some_queues(self, queue: Queue) -> None:
        task = queue.task(note)
        task.using(queue="a").enqueue("a")
        task.using(queue="b").enqueue("b")
        drain(queue, queues="b")
        assert done == ["b"]
        drain(queue, queues=["a", "b"])
        assert done == ["b", "a"]

    def test_async_ones_progress_and_the_current_job(self, queue: Queue) -> None:
        @queue.task(name="slow", key="{who}")
        async def slow(who: str) -> str:
            await asyncio.sleep(0)
            job = current_job()
            job.progress(0.5, "half")
            job.log.log(logging.INFO, "at it")
            return f"{job.id} {job.queue} {job.keys}"

        job = slow.enqueue("me")
        drain(queue)
        assert job.result() == f"{job.id} default ('me',)"
        assert str(queue.progress([queue.get(job.id)])[job.job.seq]) == "50% half"

    def test_it_exits_without_taking_us_along(self, queue: Queue) -> None:
        @queue.task(name="leave", retries=0)
        def leave() -> None:
            sys.exit(3)

        leave.enqueue()
        assert [one.job.state for one in drain(queue)] == [State.DEAD]

    def test_who_interrupts_it_finds_the_job_as_it_was(self, queue: Queue) -> None:
        @queue.task(name="interrupt")
        def interrupt() -> None:
            raise KeyboardInterrupt

        interrupt.enqueue()
        with pytest.raises(KeyboardInterrupt):
            drain(queue)
        assert states(queue) == [State.PENDING]

    def test_a_function_that_has_changed_since(self, queue: Queue) -> None:
        queue.task(name="note", retries=0)(note).enqueue("x")
        queue.tasks.clear()
        queue.task(name="note")(lambda other: None)
        [ran] = drain(queue)
        assert ran.job.error == "TypeError: note: it has no parameter 'what'"


class TestInline:
    def test_it_has_run_when_enqueue_returns(self, queue: Queue) -> None:
        task = queue.task(note)
        with inline():
            job = task.enqueue("x", timedelta(hours=1))
            assert done == ["x"]
            assert job.result() == timedelta(hours=2)
            assert queue.get(job.id).state == State.COMPLETED
            task.using(run_at="+1d").delay("tomorrow")
            asyncio.run(task.aenqueue("async"))
            assert done == ["x", "tomorrow", "async"]
        task.enqueue("later")
        assert len(done) == 3

    def test_in_one_another(self, queue: Queue) -> None:
        inner = queue.task(note)

        @queue.task(name="outer")
        def outer() -> int:
            done.append("outer")
            inner.enqueue("inner")
            done.append("after")
            return len(done)

        with inline():
            assert outer.enqueue().result() == 3
        assert done == ["outer", "inner", "after"]

    def test_async_tasks_where_a_loop_runs(self, queue: Queue) -> None:
        @queue.task(name="double")
        async def double(n: int) -> int:
            await asyncio.sleep(0)
            return n * 2

        async def main() -> int:
            return double.enqueue(4).result() + (await (await double.aenqueue(1)).aresult())

        with inline():
            assert asyncio.run(main()) == 10

    def test_failures_are_retried_at_once_and_told_with_their_cause(self, queue: Queue) -> None:
        @queue.task(name="broken", retries=2)
        def broken() -> None:
            done.append(1)
            raise ValueError("really")

        with inline():
            job = broken.enqueue()
        assert len(done) == 3
        with pytest.raises(TaskFailedError) as caught:
            job.result()
        assert isinstance(caught.value.__cause__, ValueError)

    def test_a_part_of_a_transaction_waits_for_that(self, queue: Queue, tmp_path: Path) -> None:
        task = queue.task(note)
        mine = apsw.Connection(str(tmp_path / "jobs.db"))
        mine.set_busy_timeout(10_000)
        with inline(), mine:
            job = task.using(connection=mine).enqueue("x")
            assert done == []
        assert job.state == State.PENDING
        drain(queue)
        assert done == ["x"]
        mine.close()

    def test_what_cannot_run_says_why(self, queue: Queue) -> None:
        task = queue.task(queue="mail")(note)
        queue.pause("mail")
        with inline(), pytest.raises(StateError, match=r"can't run at once: .*paused"):
            task.enqueue("x")


class TestAssertEnqueued:
    def test_some_arguments_all_or_none(self, queue: Queue) -> None:
        task = queue.task(note)
        with moving(queue):
            job = task.using(queue="mail", delay="5m", priority=3).enqueue("x").job
        assert assert_enqueued(queue, task) == [job]
        assert_enqueued(queue, task, "x")
        assert_enqueued(queue, task, what="x", by=timedelta(0), count=1)
        assert_enqueued(queue, task.using(queue="mail", delay=300), "x")
        assert_enqueued(queue, task, "y", count=0)
        [found] = enqueued(queue)
        assert (found.job, found.arguments) == (job, {"what": "x"})

    def test_also_what_has_run(self, queue: Queue) -> None:
        task = queue.task(note)
        task.enqueue("x")
        drain(queue)
        assert_enqueued(queue, task, "x", count=1)

    def test_what_it_says_when_it_is_not_so(self, queue: Queue) -> None:
        task = queue.task(name="note")(note)
        other = queue.task(name="other", queue="o")(note)
        with pytest.raises(AssertionError) as caught:
            assert_enqueued(queue, task)
        assert str(caught.value) == (
            "Expected note(…) to be enqueued at least once; it was never.\n"
            "There are no jobs of tasks at all."
        )
        other.enqueue("a")
        with pytest.raises(AssertionError) as caught:
            assert_enqueued(queue, task.using(queue="mail"), "x", count=2)
        assert str(caught.value) == (
            "Expected note(what='x'), queue 'mail' to be enqueued 2 times; it was never.\n"
            "There are only jobs of other tasks:\n"
            "  other(what='a') in o, pending"
        )
        for number in range(12):
            task.enqueue(str(number))
        with pytest.raises(AssertionError) as caught:
            assert_enqueued(queue, task, "3", count=0)
        lines = str(caught.value).splitlines()
        assert lines[0] == "Expected note(what='3') to be enqueued 0 times; it was once."
        assert lines[2] == "  note(what='0') in default, pending"
        assert lines[-1] == "  and 2 more"


class TestEmptied:
    def test_the_real_one_is_left_alone(self, queue: Queue, tmp_path: Path) -> None:
        task = queue.task(note)
        task.enqueue("real")
        before = queue.url
        with emptied(queue) as same:
            assert same is queue
            assert queue.url != before
            task.enqueue("test")
            assert [one.job.state for one in drain(queue)] == [State.COMPLETED]
        with emptied(queue, tmp_path / "other.db"):
            assert queue.count() == 0
        assert done == ["test"]
        assert (queue.url, states(queue)) == (before, [State.PENDING])


class TestPlugin:
    APP = """
        from queuectl import Queue
        queue = Queue({path!r})

        @queue.task(retry_delay="5m")
        def double(n: int) -> int:
            if n < 0:
                raise ValueError(n)
            return 2 * n
    """
    TESTS = """
        from queuectl.testing import assert_enqueued, drain
        from shop import double, queue

        def test_empty(queuectl_queue):
            assert queuectl_queue is queue and queue.count() == 0
            double.enqueue(1)
            assert_enqueued(queue, double, 1)
            assert len(drain(queue)) == 1

        def test_inline(queuectl_inline):
            assert queue.count() == 0
            assert double.enqueue(4).result() == 8

        def test_clock(queuectl_queue, queuectl_clock):
            double.enqueue(-1)
            assert len(drain(queue)) == 1
            queuectl_clock.move("6m")
            assert len(drain(queue)) == 1
    """

    def test_its_fixtures(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(shop=self.APP.format(path=str(pytester.path / "real.db")))
        pytester.makeini("[pytest]\npythonpath = .\nqueuectl_app = shop:queue\n")
        pytester.makepyfile(test_shop=self.TESTS)
        pytester.runpytest_subprocess("-q").assert_outcomes(passed=3)
        with Queue(pytester.path / "real.db") as real:
            assert real.count() == 0

    def test_without_an_application_the_queue_is_a_new_one(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile("def test_it(queuectl_queue): assert queuectl_queue.count() == 0")
        pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)

    def test_a_name_that_leads_nowhere(self, pytester: pytest.Pytester) -> None:
        pytester.makeini("[pytest]\nqueuectl_app = json:nothing\n")
        pytester.makepyfile("def test_it(queuectl_queue): pass")
        done = pytester.runpytest_subprocess("-q")
        done.stdout.fnmatch_lines(
            "*queuectl_app: json:nothing is no Queue; write it as module:name."
        )

    def test_who_does_not_use_it_imports_nothing(self, pytester: pytest.Pytester) -> None:
        pytester.makepyfile(
            """
            import sys

            def test_it():
                ours = {name for name in sys.modules if name.split(".")[0] == "queuectl"}
                assert ours == {"queuectl", "queuectl.testing", "queuectl.testing.plugin"}
            """
        )
        pytester.runpytest_subprocess("-q").assert_outcomes(passed=1)
