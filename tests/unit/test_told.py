"""What runs do by the Python interface to the data of their jobs, and what they may not."""

from pathlib import Path

import pytest

from queuectl import Job, Queue
from queuectl.admission import Offer, Serving
from queuectl.errors import LeaseLostError, StateError, UsageError
from queuectl.job import ANY_TYPE
from queuectl.store.contract import RunId
from tests.contract.tools import a_node


@pytest.fixture
def queue(tmp_path: Path) -> Queue:
    queue = Queue(str(tmp_path / "queue.db"))
    a_node(queue.store)
    return queue


def running(queue: Queue, data: bytes) -> RunId:
    """Have a job with these data run, and name its run."""
    queue.push("job", data, type="t")
    offer = Offer(workers=(1,), queues=Serving(handlers=(ANY_TYPE,)))
    (job,) = queue.store.runs.turn("node-1", None, offer).jobs
    return RunId(job.id, job.attempts, "node-1")


def test_names_are_merged_into_an_object(queue: Queue) -> None:
    run = running(queue, b'{"a": 1, "b": {"c": 2}}')
    assert queue.update_data({"b": 3, "\u00fc": None}, run=run) == queue.get("job").data
    assert queue.get("job").data == '{"a": 1, "b": 3, "\u00fc": null}'.encode()


def test_data_are_replaced(queue: Queue) -> None:
    run = running(queue, b"\xff")
    queue.update_data({"a": 1}, replace=True, run=run)
    assert queue.get("job").data == b'{"a": 1}'
    queue.update_data(b"\0\xff", run=run)
    assert queue.get("job").data == b"\0\xff"
    queue.update_data("t\u00e4xt", run=run)
    assert queue.get("job").data == "t\u00e4xt".encode()


@pytest.mark.parametrize("data", [b"", b"[1]", b"\xff", b"{", b"[" * 100_000])
def test_into_what_is_no_object_nothing_is_merged(queue: Queue, data: bytes) -> None:
    run = running(queue, data)
    with pytest.raises(StateError, match="are no JSON object"):
        queue.update_data({"a": 1}, run=run)
    assert queue.get("job").data == data


def test_too_much_is_refused(queue: Queue) -> None:
    run = running(queue, b'{"a": "x"}')
    for data in (b"x" * (2**20 + 1), {"b": "x" * 2**20}):
        with pytest.raises(UsageError, match="at most 1,048,576 are kept"):
            queue.update_data(data, run=run)
    half = "x" * (2**19 + 9)
    queue.update_data({"a": half}, run=run)
    with pytest.raises(UsageError, match="at most 1,048,576 are kept"):
        queue.update_data({"b": half}, run=run)
    assert len(queue.get("job").data or b"") < 2**20


def test_what_json_can_not_say_is_refused(queue: Queue) -> None:
    run = running(queue, b"{}")
    with pytest.raises(UsageError, match="can't be written as JSON"):
        queue.update_data({"a": object()}, run=run)
    with pytest.raises(UsageError, match="can't be written as JSON"):
        queue.force_finish("job", result=object())
    assert not queue.get("job").is_forced


def test_outside_of_a_run_nothing_is_changed(queue: Queue) -> None:
    run = running(queue, b"{}")
    with pytest.raises(StateError, match="only inside a job"):
        queue.update_data({"a": 1})
    with pytest.raises(LeaseLostError, match="Run 2 of job job has lost its lease"):
        queue.update_data({"a": 1}, run=run._replace(attempt=2))


def test_a_run_knows_itself_by_its_environment(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    running(queue, b"{}")
    for name, value in {"JOB_ID": "job", "ATTEMPT": "1", "NODE": "node-1"}.items():
        monkeypatch.setenv(f"QUEUECTL_{name}", value)
    assert queue.update_data({"a": 1}) == b'{"a": 1}'
    assert queue.heartbeat().data == b'{"a": 1}'


def test_a_heartbeat_says_that_a_run_should_end(queue: Queue) -> None:
    run = running(queue, b"{}")
    job: Job = queue.heartbeat(run)
    assert (job.id, job.attempts) == ("job", 1)
    queue.force_finish("job", result=[1])
    with pytest.raises(StateError, match="Job job is being finished, so that this run should end"):
        queue.heartbeat(run)
    with pytest.raises(StateError, match="is being finished already"):
        queue.cancel("job")
    with pytest.raises(StateError, match="is being finished already"):
        queue.force_finish("job")
    with pytest.raises(StateError, match="is being finished; remove it when that is done"):
        queue.remove("job")


def test_what_is_being_cancelled_can_not_be_finished(queue: Queue) -> None:
    run = running(queue, b"{}")
    queue.cancel("job")
    with pytest.raises(StateError, match="is being cancelled"):
        queue.heartbeat(run)
    with pytest.raises(StateError, match="is being cancelled already; it can't be finished"):
        queue.force_finish("job")
