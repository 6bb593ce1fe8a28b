"""What runs tell and keep: results, progress and steps, and who may write them."""

import pytest

from queuectl.admission import Serving
from queuectl.errors import DuplicateError, LeaseLostError, NotFoundError, StateError
from queuectl.facts import Event, RunProgress, Step
from queuectl.job import ANY_TYPE, Exited, Job, Lost, State
from queuectl.lifecycle import Policy, retried
from queuectl.store import Store
from queuectl.store.contract import Decision, RunId
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    apply,
    ask_cancel,
    ended,
    finish,
    release,
    remove,
    run,
    take,
    take_one,
    the,
)

LATER = NOW + 60 * SECOND
ANY = Serving(handlers=(ANY_TYPE,))
AT_ONCE = Policy(retry_delay=0, max_backoff=0)


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def run_of(job: Job) -> RunId:
    """Name the run that a job has."""
    return RunId(job.id, job.attempts, job.node or "")


def result(store: Store, id: str) -> str | None:
    """Return what a job came to."""
    job = the(store, id)
    return store.reports.results([job]).get(job.seq)


def names(store: Store, id: str) -> list[str]:
    """Return the names of the steps of a job."""
    return [step.name for step in store.reports.steps(the(store, id))]


class TestResults:
    def test_a_completed_job_has_that_of_its_run(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        run(store, "a", result='{"rows": 3, "ü": "🎈"}')
        run(store, "b")
        assert result(store, "a") == '{"rows": 3, "ü": "🎈"}'
        assert result(store, "b") is None
        both = [the(store, "a"), the(store, "b")]
        assert list(store.reports.results(both)) == [both[0].seq]
        assert store.reports.results([]) == {}

    def test_a_megabyte_comes_back_whole(self, store: Store) -> None:
        add(store, "a")
        text = '"' + "ü" * ((1 << 19) - 1) + '"'
        run(store, "a", result=text)
        assert result(store, "a") == text

    def test_that_of_a_failed_run_is_not_kept(self, store: Store) -> None:
        add(store, "a")
        run(store, "a", Exited(1), policy=AT_ONCE, result='"of the failed one"')
        assert result(store, "a") is None
        run(store, "a", now=LATER)
        assert the(store, "a").state == State.COMPLETED
        assert result(store, "a") is None

    def test_a_job_that_runs_again_has_none_until_it_is_completed(self, store: Store) -> None:
        add(store, "a")
        run(store, "a", result="1")
        done = the(store, "a")
        assert apply(store, done, retried(LATER), now=LATER)
        assert result(store, "a") is None
        run(store, "a", now=LATER + 5 * SECOND)
        assert result(store, "a") is None
        assert apply(store, the(store, "a"), retried(LATER), now=LATER + 5 * SECOND)
        run(store, "a", now=LATER + 20 * SECOND, result="3")
        assert result(store, "a") == "3"

    def test_of_a_run_that_lost_its_lease_nothing_is_kept(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        assert not finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        again = take_one(store, node="node-2", now=LATER)
        finish(store, [ended(job, result='"late"')])
        assert the(store, "a").state == State.PROCESSING
        finish(store, [ended(again, now=LATER + SECOND)])
        assert result(store, "a") is None

    def test_an_event_is_kept_with_the_end_of_a_run(self, store: Store) -> None:
        add(store, "a")
        event = Event(at=NOW, kind="result", job="a", node="node-1", who="me", detail="no JSON")
        run(store, "a", event=event)
        [kept] = store.history.events("a")
        assert (kept.kind, kept.detail) == ("result", "no JSON")

    def test_goes_with_its_job(self, store: Store, client: Client) -> None:
        add(store, "a")
        run(store, "a", result="1")
        remove(store, the(store, "a"))
        assert store.verify() == []
        assert client.run("SELECT count(*) FROM {results}") == [(0,)]


class TestData:
    """What a run makes of the data of its job is there for its next runs."""

    def test_later_runs_are_given_what_a_run_has_made_of_it(self, store: Store) -> None:
        add(store, "a", type="t", data=b"one")
        (job,) = take(store, queues=ANY)
        made = store.reports.set_data(run_of(job), lambda data: data + b"\0\xff", now=LATER)
        assert made == b"one\0\xff"
        assert store.reports.running(run_of(job)).data == made
        assert (the(store, "a").data, the(store, "a").updated_at) == (made, LATER)
        finish(store, [ended(job, Exited(1), policy=AT_ONCE)])
        assert [job.data for job in take(store, queues=ANY, now=LATER)] == [made]

    def test_a_megabyte_is_taken(self, store: Store) -> None:
        add(store, "a", type="t", data=b"")
        (job,) = take(store, queues=ANY)
        data = bytes(range(256)) * 4096
        store.reports.set_data(run_of(job), lambda _: data)
        assert the(store, "a").data == data

    def test_a_run_that_lost_its_lease_changes_nothing(self, store: Store) -> None:
        add(store, "a", type="t", data=b"one")
        (job,) = take(store, queues=ANY)
        finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        for again in (take(store, queues=ANY, now=LATER), []):
            with pytest.raises(LeaseLostError):
                store.reports.set_data(run_of(job), lambda _: b"late")
            with pytest.raises(LeaseLostError):
                store.reports.running(run_of(job))
            finish(store, [ended(job, now=LATER) for job in again])
        assert the(store, "a").data == b"one"

    def test_another_node_changes_nothing(self, store: Store) -> None:
        add(store, "a", type="t", data=b"one")
        (job,) = take(store, queues=ANY)
        with pytest.raises(LeaseLostError):
            store.reports.set_data(run_of(job)._replace(node="node-2"), lambda _: b"two")
        assert the(store, "a").data == b"one"

    def test_a_command_has_none(self, store: Store) -> None:
        add(store, "a")
        with pytest.raises(StateError, match="is a command"):
            store.reports.set_data(run_of(take_one(store)), lambda _: b"two")
        assert the(store, "a").data is None

    def test_what_raises_changes_nothing(self, store: Store) -> None:
        add(store, "a", type="t", data=b"one")
        (job,) = take(store, queues=ANY)

        def refuse(data: bytes) -> bytes:
            raise StateError(f"not {data!r}")

        with pytest.raises(StateError, match="not b'one'"):
            store.reports.set_data(run_of(job), refuse)
        assert the(store, "a").data == b"one"

    def test_whoever_runs_sees_that_it_should_end(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        assert store.reports.running(run_of(job)).cancel_reason is None
        ask_cancel(store, job, "enough", now=NOW)
        assert store.reports.running(run_of(job)).cancel_reason == "enough"


class TestProgress:
    def test_is_that_of_the_newest_run(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        told = RunProgress(seq=job.seq, number=1, percent=12.5, note="rows 3 ü🎈", at=NOW + 4)
        store.reports.set_progress((job, told))
        assert store.reports.progress([the(store, "a")]) == {job.seq: told}
        more = RunProgress(seq=job.seq, number=1, percent=None, note="done", at=NOW + 5)
        store.reports.set_progress((job, more))
        assert store.reports.progress([the(store, "a")]) == {job.seq: more}
        finish(store, [ended(job, Exited(1), policy=AT_ONCE)])
        assert store.reports.progress([the(store, "a")]) == {job.seq: more}
        take_one(store, now=LATER)
        assert store.reports.progress([the(store, "a")]) == {}
        assert store.reports.progress([]) == {}

    def test_a_run_that_lost_its_lease_tells_nothing(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        again = take_one(store, node="node-2", now=LATER)
        new = RunProgress(seq=job.seq, number=2, percent=1.0, note="new", at=LATER)
        old = RunProgress(seq=job.seq, number=1, percent=99.0, note="old", at=LATER)
        store.reports.set_progress((job, old), (again, new), (job, old))
        assert store.reports.progress([the(store, "a")]) == {job.seq: new}


class TestSteps:
    def test_are_kept_in_their_order(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        job, other = take_one(store), take_one(store)
        for n, name in enumerate(["fetch", "ü 🎈", "a"]):
            assert store.reports.begin_step(run_of(job), name) is None
            store.reports.keep_step(run_of(job), name, bytes([n, 0, 255]), now=NOW + n)
        store.reports.keep_step(run_of(other), "fetch", b"another job's", now=NOW)
        steps = store.reports.steps(the(store, "a"))
        assert steps == [
            Step(name=name, number=1, seen=1, output=bytes([n, 0, 255]), at=NOW + n)
            for n, name in enumerate(["fetch", "ü 🎈", "a"])
        ]

    def test_a_later_run_finds_them(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "fetch", b"what it wrote", now=NOW + 1)
        finish(store, [ended(job, Exited(1), policy=AT_ONCE)])
        again = take_one(store, node="node-2", now=LATER)
        found = store.reports.begin_step(run_of(again), "fetch")
        assert found is not None
        assert (found.output, found.number) == (b"what it wrote", 1)
        assert store.reports.begin_step(run_of(again), "next") is None
        assert store.reports.steps(the(store, "a"))[0].seen == 2

    def test_no_run_comes_by_a_step_twice(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "fetch", b"1", now=NOW)
        with pytest.raises(DuplicateError, match="Step 'fetch' of job a comes twice in one run"):
            store.reports.begin_step(run_of(job), "fetch")
        with pytest.raises(DuplicateError, match="twice"):
            store.reports.keep_step(run_of(job), "fetch", b"2", now=NOW)
        finish(store, [ended(job, Exited(1), policy=AT_ONCE)])
        again = take_one(store, now=LATER)
        assert store.reports.begin_step(run_of(again), "fetch") is not None
        with pytest.raises(DuplicateError, match="twice"):
            store.reports.begin_step(run_of(again), "fetch")
        assert [step.output for step in store.reports.steps(the(store, "a"))] == [b"1"]

    def test_a_run_that_lost_its_lease_stores_nothing(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        finish(store, [ended(job, Lost("gone"), policy=AT_ONCE)])
        with pytest.raises(LeaseLostError, match="Run 1 of job a has lost its lease"):
            store.reports.keep_step(run_of(job), "late", b"", now=NOW)
        again = take_one(store, node="node-2", now=LATER)
        for stranger in (
            run_of(job),
            run_of(again)._replace(node="node-1"),
            run_of(again)._replace(job="b"),
            run_of(again)._replace(attempt=3),
        ):
            with pytest.raises(LeaseLostError):
                store.reports.keep_step(stranger, "late", b"", now=NOW)
            with pytest.raises(LeaseLostError):
                store.reports.begin_step(stranger, "late")
        assert names(store, "a") == []
        store.reports.keep_step(run_of(again), "mine", b"", now=LATER)
        with pytest.raises(LeaseLostError):
            store.reports.begin_step(run_of(job), "mine")
        assert store.reports.steps(the(store, "a"))[0].seen == 2

    def test_a_job_that_was_put_back_has_no_run(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        release(store, [job], now=NOW)
        with pytest.raises(LeaseLostError):
            store.reports.keep_step(run_of(job), "x", b"", now=NOW)

    def test_a_retry_keeps_them(self, store: Store) -> None:
        add(store, "a")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "one", b"", now=NOW)
        finish(store, [ended(job, Exited(1), policy=Policy(max_retries=0))])
        assert the(store, "a").state == State.DEAD
        apply(store, the(store, "a"), retried(LATER), now=LATER)
        assert names(store, "a") == ["one"]

    def test_a_retry_from_a_step_forgets_it_and_those_after_it(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        job, other = take_one(store), take_one(store)
        for name in ("one", "two", "three"):
            store.reports.keep_step(run_of(job), name, b"", now=NOW)
            store.reports.keep_step(run_of(other), name, b"", now=NOW)
        finish(store, [ended(job, Exited(1), policy=Policy(max_retries=0))])
        dead = the(store, "a")

        def forget(name: str) -> None:
            store.jobs.change(
                [dead],
                lambda held, now: {dead.seq: Decision(retried(now), forget=name)},
                now=LATER,
            )

        with pytest.raises(NotFoundError, match="Job a has no step 'four' that is done"):
            forget("four")
        assert the(store, "a").state == State.DEAD
        assert names(store, "a") == ["one", "two", "three"]
        forget("two")
        assert the(store, "a").state == State.PENDING
        assert names(store, "a") == ["one"]
        assert names(store, "b") == ["one", "two", "three"]
        again = take_one(store, now=LATER)
        store.reports.keep_step(run_of(again), "three", b"", now=NOW)
        store.reports.keep_step(run_of(again), "two", b"", now=NOW)
        assert names(store, "a") == ["one", "three", "two"]

    def test_follow_a_job_that_is_swapped(self, store: Store) -> None:
        add(store, "a")
        add(store, "b")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "one", b"", now=NOW)
        told = RunProgress(seq=job.seq, number=1, percent=3.0, note="", at=NOW)
        store.reports.set_progress((job, told))
        finish(store, [ended(job, Exited(1), policy=AT_ONCE)])
        store.jobs.swap(the(store, "a"), the(store, "b"), lambda *_: (), now=LATER)
        assert names(store, "a") == ["one"]
        assert names(store, "b") == []
        moved = the(store, "a")
        assert store.reports.progress([moved])[moved.seq].percent == 3.0

    def test_go_with_their_job(self, store: Store, client: Client) -> None:
        add(store, "a")
        job = take_one(store)
        store.reports.keep_step(run_of(job), "one", b"", now=NOW)
        store.reports.set_progress(
            (job, RunProgress(seq=job.seq, number=1, percent=3.0, note="", at=NOW))
        )
        finish(store, [ended(job)])
        remove(store, the(store, "a"))
        assert client.run("SELECT count(*) FROM {steps}") == [(0,)]
        assert client.run("SELECT count(*) FROM {progress}") == [(0,)]
