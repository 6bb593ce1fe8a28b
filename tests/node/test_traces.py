"""Spans of waits and runs: on real nodes, with exporters that print, and ones that fail."""

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from tests.node.test_restart import gated, open_gate, restart
from tests.spans import PARENT, SPAN, TRACE, Span, spans_in
from tests.support import Lab, wait_for


class Traced(Lab):
    """A lab whose nodes print spans into a file of their own."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        super().__init__(folder, url)
        self.extra_env = {"OTEL_TRACES_EXPORTER": "console", "OTEL_BSP_SCHEDULE_DELAY": "20"}

    def command(self, *args: str) -> list[str]:
        if args[:2] != ("worker", "start"):
            return super().command(*args)
        words = super().command(*args, "--traces")
        return ["sh", "-c", 'exec "$0" "$@" >> spans', *words]

    def spans(self) -> list[Span]:
        """Return what nodes have printed so far."""
        return spans_in(self.folder / "spans")

    def runs(self, many: int = 1) -> list[Span]:
        """Wait for the spans of so many runs."""

        def there() -> list[Span] | None:
            found = [span for span in self.spans() if span.name.startswith("run ")]
            return found if len(found) >= many else None

        found = wait_for(there, f"{many} spans of runs; {self.log()[-2000:]}")
        assert len(found) == many
        return found

    def said(self, id: str, attempt: int | None = None) -> str:
        """Return what a run wrote."""
        return self.queue.output(id, attempt).stdout.decode().strip()


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Traced]:
    lab = Traced(tmp_path)
    yield lab
    lab.close()


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Traced]:
    store = request.param
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    lab = Traced(tmp_path, url)
    yield lab
    lab.close()


def test_a_job_is_told_the_span_of_its_run(anywhere: Traced) -> None:
    lab = anywhere
    job = lab.queue.enqueue(
        'echo "$TRACEPARENT $TRACESTATE"', queue="mail", traceparent=PARENT, tracestate="a=1"
    )
    node = lab.node()
    job = lab.wait_state(job.id, State.COMPLETED)
    (run,) = lab.runs()
    wait = next(span for span in lab.spans() if span.name == "wait mail")
    parent, state = lab.said(job.id).split()
    assert run.is_meant(parent)
    assert state == "a=1"
    assert (run.name, run.kind, run.status, run.service) == (
        *("run mail", "CONSUMER", "UNSET", "queuectl"),
    )
    assert (wait.kind, wait.status) == ("INTERNAL", "UNSET")
    assert (run.trace, run.parent) == (wait.trace, wait.parent) == (TRACE, SPAN)
    assert wait.id != run.id
    assert wait.ended == run.began
    assert run.has == {
        "messaging.system": "queuectl",
        "messaging.operation.name": "run",
        "messaging.operation.type": "process",
        "messaging.destination.name": "mail",
        "messaging.message.id": job.id,
        "messaging.client.id": job.node,
        "queuectl.attempt": 1,
        "queuectl.worker": 1,
        "queuectl.outcome": "exited",
        "queuectl.state": "completed",
        "queuectl.host": os.uname().nodename,
        "process.exit.code": 0,
    }
    node.terminate()
    assert node.wait(60) == 0


def test_retries_are_spans_side_by_side(traced: Traced) -> None:
    id = traced.queue.enqueue(
        'echo $TRACEPARENT; echo "a secret" >&2; [ $QUEUECTL_ATTEMPT = 2 ]',
        traceparent=PARENT,
        retry_delay=0,
    ).id
    traced.node()
    traced.wait_state(id, State.COMPLETED)
    first, second = traced.runs(2)
    assert [first.parent, second.parent] == [SPAN, SPAN]
    assert first.is_meant(traced.said(id, 1))
    assert second.is_meant(traced.said(id, 2))
    assert first.id != second.id
    assert (first.status, first.description) == ("ERROR", "exit code 1")
    assert first.has["error.type"] == "exited"
    assert first.has["process.exit.code"] == 1
    assert first.has["queuectl.state"] == "failed"
    assert second.status == "UNSET"
    assert [first.has["queuectl.attempt"], second.has["queuectl.attempt"]] == [1, 2]
    assert "secret" not in (traced.folder / "spans").read_text()
    assert len(traced.spans()) == 4


def test_a_job_without_a_trace_has_one_of_its_own(traced: Traced) -> None:
    id = traced.queue.enqueue("[ $QUEUECTL_ATTEMPT = 2 ]", retry_delay=0).id
    other = traced.queue.enqueue("true").id
    traced.node()
    for job in (id, other):
        traced.wait_state(job, State.COMPLETED)
    runs = traced.runs(3)
    mine = [run for run in runs if run.has["messaging.message.id"] == id]
    assert len({run.trace for run in mine}) == 1
    assert len({run.trace for run in runs}) == 2
    waits = {span.id: span for span in traced.spans() if span.name == "wait default"}
    assert len(waits) == 3
    for run in runs:
        wait = waits[run.parent or ""]
        assert (wait.parent, wait.trace) == (None, run.trace)
        assert wait.has["queuectl.attempt"] == run.has["queuectl.attempt"]


def test_what_is_not_sampled_is_not_exported(traced: Traced) -> None:
    parent = PARENT[:-2] + "00"
    id = traced.queue.enqueue("echo $TRACEPARENT", traceparent=parent).id
    last = traced.queue.enqueue("true", traceparent=PARENT).id
    traced.node()
    for job in (id, last):
        traced.wait_state(job, State.COMPLETED)
    (run,) = traced.runs()
    assert run.has["messaging.message.id"] == last
    told = traced.said(id)
    assert told.startswith(f"00-{TRACE}-") and told.endswith("-00")


@pytest.mark.parametrize("off", [("OTEL_SDK_DISABLED", "TRUE"), ("OTEL_TRACES_EXPORTER", "none")])
def test_the_variables_can_turn_it_off(traced: Traced, off: tuple[str, str]) -> None:
    traced.extra_env |= dict([off])
    id = traced.queue.enqueue("echo $TRACEPARENT", traceparent=PARENT).id
    traced.node("--drain").wait(60)
    assert traced.said(id) == PARENT
    assert traced.spans() == []


def test_the_variables_say_who_it_is(traced: Traced) -> None:
    traced.extra_env["OTEL_SERVICE_NAME"] = "shop-jobs"
    traced.queue.enqueue("true")
    assert traced.node("--drain").wait(60) == 0
    (run,) = traced.runs()
    assert run.service == "shop-jobs"


def test_a_node_that_leaves_has_exported_all(traced: Traced) -> None:
    traced.extra_env["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"
    for _ in range(30):
        traced.queue.enqueue("true")
    assert traced.node("--drain", count=2).wait(60) == 0
    assert len(traced.spans()) == 60


def test_a_run_that_goes_on_after_a_restart_is_one_span(traced: Traced) -> None:
    traced.extra_env["OTEL_BSP_SCHEDULE_DELAY"] = "3600000"
    before = traced.queue.enqueue("true").id
    id = traced.queue.enqueue(f"echo $TRACEPARENT; {gated(traced)}", traceparent=PARENT).id
    node = traced.node(count=2)
    traced.pid_in("gate.pid")
    traced.wait_state(before, State.COMPLETED)
    restart(traced, node)
    # What was over before that is exported, as the next program knows nothing of it.
    (run,) = traced.runs()
    assert run.has["messaging.message.id"] == before
    open_gate(traced)
    traced.wait_state(id, State.COMPLETED)
    node.terminate()
    assert node.wait(60) == 0
    run = traced.runs(2)[-1]
    assert run.is_meant(traced.said(id).splitlines()[0])
    assert (run.parent, run.status) == (SPAN, "UNSET")


def test_who_rescues_a_job_makes_the_span_that_its_run_was_told(traced: Traced) -> None:
    script = f"echo $TRACEPARENT > {traced.folder}/told.$QUEUECTL_ATTEMPT; {gated(traced)}"
    id = traced.queue.enqueue(script, traceparent=PARENT).id
    node = traced.node()
    traced.pid_in("gate.pid")
    node.send_signal(signal.SIGKILL)
    node.wait()
    traced.node()
    wait_for((traced.folder / "told.2").exists, "the second run")
    open_gate(traced)
    traced.wait_state(id, State.COMPLETED)
    lost, run = traced.runs(2)
    assert lost.is_meant(traced.lines("told.1")[0])
    assert run.is_meant(traced.lines("told.2")[0])
    assert (lost.status, lost.has["error.type"]) == ("ERROR", "lost")
    assert (lost.has["queuectl.attempt"], run.has["queuectl.attempt"]) == (1, 2)
    assert lost.has["messaging.client.id"] != run.has["messaging.client.id"]


def test_a_cancelled_run_is_no_error(traced: Traced) -> None:
    id = traced.queue.enqueue(gated(traced)).id
    traced.node()
    traced.pid_in("gate.pid")
    traced.queue.cancel(id)
    traced.wait_state(id, State.CANCELLED)
    (run,) = traced.runs()
    assert (run.status, run.has["queuectl.outcome"]) == ("UNSET", "cancelled")


def test_a_hook_is_in_the_trace_of_its_job(traced: Traced) -> None:
    job = traced.queue.enqueue("true", on_success="echo $TRACEPARENT", traceparent=PARENT)
    traced.node("--drain").wait(60)
    (hook,) = traced.queue.hooks(job.id)
    assert hook.traceparent == PARENT
    assert [run.parent for run in traced.runs(2)] == [SPAN, SPAN]


def test_a_trace_that_another_program_wrote_wrongly_is_none(traced: Traced) -> None:
    id = traced.queue.enqueue("echo -$TRACEPARENT-", traceparent=PARENT).id
    sql = "UPDATE jobs SET traceparent = 'nonsense', tracestate = 'A=1'"
    traced.run_shell(f"sqlite3 -cmd '.timeout 5000' {traced.db} \"{sql}\"")
    traced.node("--drain").wait(60)
    (run,) = traced.runs()
    assert run.is_meant(traced.said(id).strip("-"))
    assert run.trace != TRACE


# -- exporters that are trouble -------------------------------------------------------------

TROUBLE = """
from threading import Event

class Stuck:
    def export(self, spans):
        open("stuck", "w").close()
        Event().wait()
    def shutdown(self):
        Event().wait()
    def force_flush(self, timeout_millis=0):
        Event().wait()

class Failing:
    def export(self, spans):
        raise OSError("no collector")
    def shutdown(self):
        pass
"""


@pytest.fixture
def trouble(traced: Traced) -> Traced:
    """A lab with exporters that are stuck, or fail."""
    packages = traced.folder / "packages"
    known = packages / "trouble-1.dist-info"
    known.mkdir(parents=True)
    (packages / "trouble.py").write_text(TROUBLE)
    (known / "METADATA").write_text("Metadata-Version: 2.1\nName: trouble\nVersion: 1\n")
    (known / "entry_points.txt").write_text(
        "[opentelemetry_traces_exporter]\nstuck = trouble:Stuck\nfailing = trouble:Failing\n"
    )
    path = (str(packages), os.environ.get("PYTHONPATH"))
    traced.extra_env["PYTHONPATH"] = os.pathsep.join(filter(None, path))
    return traced


def finish_all(lab: Lab, node: "subprocess.Popen[bytes]") -> None:
    for _ in range(20):
        lab.wait_state(lab.queue.enqueue("true").id, State.COMPLETED)
    assert node.poll() is None


def test_a_collector_that_never_answers_holds_nothing_up(trouble: Traced) -> None:
    trouble.extra_env["OTEL_TRACES_EXPORTER"] = "stuck"
    node = trouble.node()
    trouble.wait_state(trouble.queue.enqueue("true").id, State.COMPLETED)
    wait_for((trouble.folder / "stuck").exists, "the exporter to be stuck")
    finish_all(trouble, node)
    restart(trouble, node)
    finish_all(trouble, node)
    node.terminate()
    assert node.wait(60) == 0


def test_a_collector_that_fails_is_told_once_in_a_while(trouble: Traced) -> None:
    trouble.extra_env["OTEL_TRACES_EXPORTER"] = "failing,console"
    node = trouble.node()
    finish_all(trouble, node)
    wait_for(lambda: "Traces: Exception while exporting Span" in trouble.log(), "a sentence")
    finish_all(trouble, node)
    assert trouble.log().count("Traces: ") == 1
    assert "Traceback" not in trouble.log()
    # The other one has them all.
    trouble.runs(40)
