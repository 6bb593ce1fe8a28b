"""The trace of a job: whoever claims the job has it, and it stays with all that becomes of it."""

from typing import Any

import pytest

from queuectl.job import Exited, Job, NewJob, State
from queuectl.store import Store
from queuectl.uniqueness import OnDuplicate
from tests.contract.tools import NOW, SECOND, a_node, add, run, take, take_one, the

TRACE: dict[str, Any] = {
    "traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    "tracestate": "a=1,b=" + "x" * 500,
}
OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store)


def told(job: Job) -> dict[str, str | None]:
    return {"traceparent": job.traceparent, "tracestate": job.tracestate}


def test_who_claims_a_job_has_it(store: Store) -> None:
    add(store, "a", **TRACE)
    add(store, "b")
    first, second = take(store, 2)
    assert told(first) == TRACE
    assert told(second) == dict.fromkeys(TRACE)
    assert [told(job) for job in store.runs.held("node-1")] == [TRACE, dict.fromkeys(TRACE)]


def test_it_is_there_for_each_attempt(store: Store) -> None:
    add(store, "a", max_retries=1, retry_delay=0, **TRACE)
    assert told(run(store, "a", Exited(1), now=NOW + 5 * SECOND)) == TRACE
    again = take_one(store, now=NOW + 3_600 * SECOND)
    assert (again.attempts, told(again)) == (2, TRACE)


def test_each_of_many_has_its_own(store: Store) -> None:
    new = [
        NewJob(id="a", command="x", **TRACE),
        NewJob(id="b", command="x", traceparent=OTHER),
        NewJob(id="c", command="x"),
    ]
    store.jobs.enqueue(new, now=NOW)
    found = [the(store, id).traceparent for id in "abc"]
    assert found == [TRACE["traceparent"], OTHER, None]


def test_a_hook_is_in_the_trace_of_its_job(store: Store) -> None:
    add(store, "a", on_success="echo success", **TRACE)
    run(store, "a")
    (hook,) = store.jobs.hooks(the(store, "a"))
    assert (hook.state, told(hook)) == (State.PENDING, TRACE)


def test_what_is_debounced_is_in_the_trace_of_the_last_request(store: Store) -> None:
    unique: dict[str, Any] = {
        "command": "x",
        "unique": "k",
        "on_duplicate": OnDuplicate.DEBOUNCE,
        "delay": SECOND,
    }
    store.jobs.enqueue([NewJob(id="a", **unique, **TRACE)], now=NOW)
    store.jobs.enqueue([NewJob(**unique, traceparent=OTHER)], now=NOW)
    assert told(the(store, "a")) == {"traceparent": OTHER, "tracestate": None}
