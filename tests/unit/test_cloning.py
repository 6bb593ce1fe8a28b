"""Another job like one: nothing that it was asked for is lost, and what is left out is said."""

from typing import Any

import pytest

from queuectl import State, StateError, UsageError
from queuectl.fields import COPIED
from queuectl.job import Job
from queuectl.queue import Queue
from tests.support import Lab

ASKED: dict[str, Any] = {
    "command": "cat",
    "queue": "mail",
    "priority": 4,
    "timeout": "7m",
    "max_retries": 9,
    "backoff": "linear",
    "backoff_base": 3.5,
    "retry_delay": "11s",
    "max_backoff": "13m",
    "env": {"TOKEN": "hidden"},
    "shell": "bash",
    "stdin": "what it reads",
    "cwd": "/tmp",
    "tags": ["a", "b"],
    "keys": ["k", "l"],
    "unique": "one",
    "unique_until": "start",
    "unique_for": "17s",
    "on_success": "echo good",
    "on_failure": "echo bad",
    "on_dead": "type:burial",
    "after": ["first:any"],
    "if_parent_fails": "run",
    "needs": "cpu=2",
    "requires": ["ssd"],
    "group": "many",
}
"""All that can be asked for of a command at once."""
NOT_HERE = {"after_group", "bounds", "type", "data", "env_all", "traceparent", "tracestate"}


def columns(job: Job) -> dict[str, Any]:
    """Return what a job was asked for, by the columns that keep it."""
    names = {field.column for field in COPIED if field.name not in ("traceparent", "tracestate")}
    return {name: getattr(job, name) for name in sorted(names)}


@pytest.fixture
def queue(lab: Lab) -> Queue:
    return lab.queue


def test_nothing_is_lost(queue: Queue) -> None:
    assert {field.name for field in COPIED} == (ASKED.keys() - {"command"}) | NOT_HERE
    queue.enqueue("true", id="first")
    one = queue.enqueue(ASKED, id="one")
    queue.cancel("one")
    # The settings of today are nothing to a job of yesterday.
    queue.set_setting("max_retries", 1)
    queue.set_setting("expire", "1m")
    queue.limits.set("mail", priority=-3, on_success="echo of the queue")
    made = queue.clone("one")
    # It has the key for 17 seconds more, whatever becomes of it.
    assert made.left_out[0] == "Its unique key 'one': another job has it."
    assert made.left_out[1:] == ("Its id one: the other has its own.",)
    assert columns(made.job) == columns(one) | {
        "unique_key": None,
        "unique_until": None,
        "unique_for": None,
    }
    assert (made.job.command, made.job.state) == ("cat", State.BLOCKED)
    assert made.job.expires_at is None
    assert queue.store.jobs.stdin(made.job) == b"what it reads"
    assert made.job.env == {"TOKEN": "hidden"}


def test_a_unique_key_goes_along_if_nobody_has_it(queue: Queue) -> None:
    queue.enqueue("true", id="one", unique="k", cwd="/")
    assert queue.clone("one").job.unique_key is None
    queue.cancel("one")
    made = queue.clone("one")
    assert (made.job.unique_key, made.left_out) == ("k", ("Its id one: the other has its own.",))


def test_a_queue_that_gives_its_jobs_more_gives_nothing_to_who_had_less(queue: Queue) -> None:
    queue.enqueue("true", id="plain", on_success=False, timeout=0)
    queue.limits.set("default", on_success="echo more", timeout="5s")
    made = queue.clone("plain").job
    assert (made.on_success or None, made.timeout) == (None, 0)


def test_it_waits_for_those_parents_that_are_still_there(queue: Queue) -> None:
    for id in ("gone", "done", "open"):
        queue.enqueue("true", id=id)
    one = queue.enqueue("true", id="one", after=["gone:any", "done:any", "open:any"])
    queue.cancel("done")
    queue.remove("gone")
    made = queue.clone(one)
    assert made.job.after == ("done:any", "open:any")
    assert (made.job.state, made.job.open_parents) == (State.BLOCKED, 1)
    assert made.left_out[1] == "That it waits for gone:any: not there any more."


def test_programs_and_data(queue: Queue) -> None:
    queue.enqueue(["echo", "a b"], id="argv")
    assert queue.clone("argv").job.argv == ("echo", "a b")
    queue.push("data", b"\xff\0", type="mail", max_retries=2)
    made = queue.clone("data").job
    assert (made.type, made.data, made.max_retries) == ("mail", b"\xff\0", 2)


def test_its_time(queue: Queue) -> None:
    later = queue.enqueue("true", delay="1h", expire="1m")
    other = queue.clone(later).job
    assert (other.run_at, other.expires_at) == (later.run_at, later.expires_at)
    due = queue.enqueue("true", expire="5m")
    other = queue.clone(due).job
    assert other.expires_at is not None
    assert other.expires_at - other.run_at == 300_000
    assert queue.clone(due, delay="1h", expire="2h").job.run_at >= queue.now() + 3_000_000


def test_with_changes(queue: Queue) -> None:
    queue.enqueue("false", id="one", env={"A": "1"}, tags=["x"])
    made = queue.clone("one", command="true", env={"B": "2"}, queue="q").job
    assert (made.command, made.queue, made.tags) == ("true", "q", ("x",))
    assert made.env == {"A": "1", "B": "2"}
    with pytest.raises(UsageError, match="priority"):
        queue.clone("one", priority="high")  # type: ignore[arg-type]


def test_what_it_came_from_is_left_out_and_said(queue: Queue) -> None:
    queue.schedules.add("nightly", "0 3 * * *", "true")
    made = queue.clone(queue.schedules.run("nightly"))
    assert made.job.tick is None
    assert "no schedule has made the other" in made.left_out[1]
    trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    made = queue.clone(queue.enqueue("true", traceparent=trace))
    assert made.job.traceparent is None
    assert made.left_out[1] == f"Its trace {trace[3:35]}."


def test_a_whole_environment_is_the_one_that_was_kept(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_THEN", "then")
    one = queue.enqueue("true", env_all=True)
    monkeypatch.setenv("OF_NOW", "now")
    made = queue.clone(one).job
    assert made.env_all
    assert made.env == one.env
    assert "OF_NOW" not in made.env


def test_a_delivery_is_retried_and_not_cloned(queue: Queue) -> None:
    queue.webhooks.add("http://127.0.0.1:1/", "cancelled", name="ops", private=True)
    queue.cancel(queue.enqueue("true"))
    (delivery,) = queue.webhooks.deliveries("ops")
    with pytest.raises(StateError, match="retry it"):
        queue.clone(delivery)
