"""Traces of Python programs: enqueues are spans, and tasks are within the span of their run."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from tests.spans import PARENT, SPAN, TRACE, Span, spans_in, without_opentelemetry
from tests.support import Lab, wait_for
from tests.tasks.conftest import Works

HERE = Path(__file__).parent


class Traced(Lab):
    """A lab with an application that makes spans, and nodes that do."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        shutil.copy(HERE / "traced.py", folder)
        self.extra_env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "20"}

    def command(self, *args: str) -> list[str]:
        return ["sh", "-c", 'exec "$0" "$@" >> spans', *super().command(*args)]

    def python(self, *args: str) -> str:
        """Run Python in the folder of the application, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *args],
            env=self.env,
            cwd=self.folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def runs(self) -> dict[str, Span]:
        """Return the spans of runs, by the ids of their jobs."""
        found = spans_in(self.folder / "spans")
        return {str(s.has["messaging.message.id"]): s for s in found if s.name.startswith("run ")}

    def made(self) -> dict[str, Span]:
        """Return the spans of the application, by their names."""
        return {span.name: span for span in spans_in(self.folder / "spans.app")}

    def run_of(self, id: str) -> Span:
        """Wait for the span of the run of a job."""
        return wait_for(lambda: self.runs().get(id), f"the run of {id}; {self.log()[-2000:]}")


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    lab = Traced(tmp_path)
    yield lab
    lab.close()


def test_a_request_and_all_that_it_leads_to_are_one_trace(traced: Traced) -> None:
    traced.python("traced.py")
    made = traced.made()
    request = made["request"]
    for name in ("enqueue mail", "enqueue bulk", "enqueue"):
        assert (made[name].parent, made[name].trace) == (request.id, request.trace)
        assert made[name].kind == "PRODUCER"
    jobs = {job.id: job for job in traced.queue.list(limit=None)}
    first = next(
        span
        for span in spans_in(traced.folder / "spans.app")
        if span.has.get("messaging.message.id") == "task"
    )
    assert (first.name, first.parent) == ("enqueue default", request.id)
    assert first.is_meant(jobs["task"].traceparent)
    traced.node("--app", "traced:queue", "--traces")
    wait_for(lambda: traced.queue.find("a's"), "what the task enqueues")
    traced.wait_state("a's", State.COMPLETED)
    run, then = traced.run_of("task"), traced.run_of("a's")
    made = traced.made()
    assert (run.parent, run.trace) == (first.id, request.trace)
    parent, state = traced.queue.result("task")
    assert run.is_meant(parent)
    assert state is None
    assert made["inner a"].parent == run.id
    again = next(
        span
        for span in spans_in(traced.folder / "spans.app")
        if span.has.get("messaging.message.id") == "a's"
    )
    assert again.parent == made["inner a"].id
    assert then.parent == again.id
    assert made["inner a's"].parent == then.id
    assert {span.trace for span in (run, then, *made.values())} == {request.trace}
    printed = traced.queue.output("command").stdout.decode().strip()
    assert traced.run_of("command").is_meant(printed)


def test_an_enqueue_says_what_it_does(traced: Traced) -> None:
    traced.python("traced.py")
    spans = spans_in(traced.folder / "spans.app")
    sends = {"messaging.system": "queuectl", "messaging.operation.name": "enqueue"}
    sends["messaging.operation.type"] = "send"
    by_name = {span.name: span.has for span in spans}
    assert by_name["enqueue mail"] == sends | {
        "messaging.destination.name": "mail",
        "messaging.message.id": "command",
    }
    assert by_name["enqueue"] == sends | {"messaging.batch.message_count": 3}
    assert by_name["enqueue bulk"] == sends | {
        "messaging.destination.name": "bulk",
        "messaging.batch.message_count": 1,
    }
    # What was refused is an error; what was given a trace has no span of ours.
    assert [span.status for span in spans if span.name == "enqueue default"] == ["UNSET", "ERROR"]
    by_id = {job.id: job for job in traced.queue.list(limit=None)}
    assert by_id["given"].traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    (many,) = {job.traceparent for job in traced.queue.list(tag="many")}
    assert next(span for span in spans if span.name == "enqueue").is_meant(many)


def test_async_tasks_are_each_in_their_own(traced: Traced) -> None:
    ids = [
        traced.queue.enqueue(type="traced.flow", data=json.dumps({"name": str(n)})).id
        for n in range(10)
    ]
    traced.node("--app", "traced:queue", "--async-concurrency", "5", "--traces")
    for n, id in enumerate(ids):
        traced.wait_state(id, State.COMPLETED)
        run = traced.run_of(id)
        assert run.is_meant(traced.queue.result(id))
        assert traced.made()[f"inner {n}"].parent == run.id


def test_one_after_the_other_is_in_the_trace_of_its_own_job(traced: Traced) -> None:
    with_one = traced.queue.enqueue(type="traced.is_traced", data="{}", traceparent=PARENT).id
    without = traced.queue.enqueue(type="traced.is_traced", data="{}").id
    # The node makes no spans: what the job has is handed on.
    traced.node("--app", "traced:queue")
    for id, is_traced in ((with_one, True), (without, False)):
        traced.wait_state(id, State.COMPLETED)
        assert traced.queue.result(id) is is_traced


def test_without_opentelemetry_a_task_has_it_as_text(works: Works) -> None:
    path = (without_opentelemetry(works.folder / "bare"), os.environ.get("PYTHONPATH"))
    works.extra_env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    (works.folder / "plain.py").write_text(
        "from queuectl import Queue, current_job\nqueue = Queue()\n@queue.task\n"
        "def told() -> list[str | None]:\n"
        "    return [current_job().traceparent, current_job().tracestate]\n"
    )
    given = {"traceparent": PARENT, "tracestate": "a=1"}
    id = works.queue.enqueue(type="plain.told", data="{}", **given).id  # type: ignore[arg-type]
    other = works.queue.enqueue(type="plain.told", data="{}").id
    works.node("--app", "plain:queue")
    assert works.result(id) == [PARENT, "a=1"]
    assert works.result(other) == [None, None]


HANDLER = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if "hello" in message:
        print(json.dumps({"ready": 1}), flush=True)
    elif "job" in message:
        told = [message.get("traceparent"), message.get("tracestate")]
        print(json.dumps({"done": message["job"], "result": told}), flush=True)
"""


def test_a_handler_gets_it_with_the_job(works: Works) -> None:
    (works.folder / "handler.py").write_text(HANDLER)
    given = {"traceparent": PARENT, "tracestate": "a=1"}
    id = works.queue.push("a", b"", type="x", **given).id  # type: ignore[arg-type]
    other = works.queue.push("b", b"", type="x").id
    works.node("--serve", f"x={sys.executable}", "--", str(works.folder / "handler.py"))
    assert works.result(id) == [PARENT, "a=1"]
    assert works.result(other) == [None, None]


API_ONLY = """
import sys
from queuectl import Queue
queue = Queue(sys.argv[1])
queue.enqueue("true", id="before")
assert "opentelemetry" not in sys.modules
assert "queuectl.tracecontext" not in sys.modules
from opentelemetry import context, trace
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
queue.enqueue("true", id="none")
carrier = {"traceparent": sys.argv[2], "tracestate": "a=1"}
context.attach(TraceContextTextMapPropagator().extract(carrier))
queue.enqueue("true", id="one")
queue.enqueue_many([{"command": "true", "id": "many"}])
"""


def test_without_an_sdk_the_current_trace_is_handed_on(traced: Traced) -> None:
    traced.python("-c", API_ONLY, traced.url, PARENT)
    found = {job.id: (job.traceparent, job.tracestate) for job in traced.queue.list()}
    nothing, told = (None, None), (PARENT, "a=1")
    assert found == {"before": nothing, "none": nothing, "one": told, "many": told}
    assert traced.queue.get("one").trace_id == TRACE
    assert SPAN in PARENT


def test_a_program_that_does_not_trace_imports_nothing_of_it(traced: Traced) -> None:
    traced.extra_env["TRACEPARENT"] = PARENT
    program = (
        "import sys; from queuectl import Queue; q = Queue(sys.argv[1]); q.enqueue('true');"
        "q.enqueue_many(['true']); print([m for m in sys.modules if 'opentelemetry' in m])"
    )
    assert traced.python("-c", program, traced.url) == "[]\n"
    assert {job.traceparent for job in traced.queue.list()} == {None}
