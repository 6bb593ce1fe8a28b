"""Spans of what a node does for a job: how long it waited, and its run.

They are made when the end of a run is stored, by OpenTelemetry's SDK, which a thread of its own
exports them from. Their ids follow from the run: so it can be told its own span before it begins,
and whoever writes down its end, the program after a restart in place or who rescues it, names
the same. The SDK is configured by the variables that it has for that.
"""

import logging
import os
from collections.abc import Callable
from hashlib import sha256
from importlib.metadata import entry_points
from threading import Thread
from time import monotonic
from typing import Any

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.id_generator import IdGenerator
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.span import TraceFlags, TraceState

from queuectl import __version__
from queuectl.errors import UsageError, shown
from queuectl.job import Cancelled, Exited, Job, Outcome, Released, Signalled, Snoozed
from queuectl.node.runs import SUCCESS
from queuectl.store.contract import Ended, Turned
from queuectl.tracecontext import Trace, read_trace
from queuectl.tracing import SYSTEM, passed_on

FLUSHED_WITHIN = 2.0
"""Seconds that a node which leaves gives the exporter for what it still has."""
TOLD_EVERY = 60.0
"""Seconds between two sentences about trouble with exporting."""
_GROUP = "opentelemetry_traces_exporter"
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_EMPTY = Context()
_UNHARMED = (Released, Snoozed, Cancelled)
"""Ends that are no errors."""


def open_traces() -> "Traces | None":
    """Return what makes spans, as the environment has it; None if that says that there are none.

    Where nothing can export them, it is a `UsageError`.
    """
    try:
        exporters = [make() for make in _exporters()]
    except (ValueError, RuntimeError) as error:
        raise UsageError(f"Traces can't be exported as the variables have it: {error}") from error
    return Traces(exporters) if exporters else None


def check() -> None:
    """Raise a `UsageError` where nothing can export spans."""
    _exporters()


def _exporters() -> list[Callable[[], SpanExporter]]:
    """Find what the variables ask for."""
    if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return []
    asked = os.environ.get("OTEL_TRACES_EXPORTER", "").strip() or "otlp"
    names = [name.strip() for name in asked.split(",")]
    return [_exporter(name) for name in names if name not in ("", "none")]


def _exporter(name: str) -> Callable[[], SpanExporter]:
    installed = {point.name: point for point in entry_points(group=_GROUP)}
    for wanted in _names_of(name):
        if wanted in installed:
            found: Callable[[], SpanExporter] = installed[wanted].load()
            return found
    raise UsageError(
        f"No exporter of traces is installed that is called {shown(name)}: pip install"
        " opentelemetry-exporter-otlp, or set OTEL_TRACES_EXPORTER to another one, such as console."
    )


def _names_of(name: str) -> list[str]:
    """Return the names under which an exporter may be installed, the best first."""
    if name != "otlp":
        return [name]
    for variable in ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"):
        if protocol := os.environ.get(variable, "").strip():
            return [_PROTOCOLS.get(protocol, protocol)]
    return [*_PROTOCOLS.values(), name]


class Traces:
    """Makes spans of runs, and has them exported."""

    def __init__(self, exporters: list[SpanExporter]) -> None:
        """Export with these, from a thread for each."""
        self._ids = _Ids()
        self._provider = TracerProvider(
            resource=_resource(), id_generator=self._ids, shutdown_on_exit=False
        )
        for exporter in exporters:
            self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer = self._provider.get_tracer("queuectl", __version__)
        self._troubles = _Troubles()

    def told(self, job: Job) -> Trace | None:
        """Return what a run that was claimed is told: the span that it will be."""
        _, run = self._start(job, job.started_at or 0)
        return passed_on(run)

    def take(self, turned: Turned) -> None:
        """Make the spans of all runs whose ends a turn has stored; not of those that were lost."""
        lost = set(map(id, turned.lost))
        for end in turned.ends:
            if id(end) not in lost:
                self.over(end)

    def over(self, end: Ended) -> None:
        """Make the spans of a run whose end is stored."""
        wait, run = self._start(end.job, end.started_at)
        wait.end(_nanoseconds(end.started_at))
        run.set_attributes(_end_of(end))
        if _is_error(end.outcome):
            run.set_attribute("error.type", end.outcome.name.replace(" ", "_"))
            run.set_status(Status(StatusCode.ERROR, end.outcome.describe()))
        run.end(_nanoseconds(max(end.finished_at, end.started_at)))

    def _start(self, job: Job, began: int) -> tuple[Span, Span]:
        """Start the spans of a run, which are dropped unless they are ended.

        Both are children of the span that enqueued the job. Where that isn't known, the wait is the
        first of the trace, and the run its child.
        """
        given = read_trace(job.traceparent, job.tracestate)
        outer = _EMPTY if given is None else _context_of(given)
        self._ids.next_trace = _number(16, "trace", job.seq, job.id, job.created_at)
        run = job.id, job.attempts, job.node, job.started_at
        self._ids.next_span = _number(8, "wait", *run)
        wait = self._tracer.start_span(
            f"wait {job.queue}",
            outer,
            SpanKind.INTERNAL,
            _about(job, "wait"),
            start_time=_nanoseconds(min(job.run_at, began)),
        )
        self._ids.next_span = _number(8, "run", *run)
        ours = self._tracer.start_span(
            f"run {job.queue}",
            trace.set_span_in_context(wait, outer) if given is None else outer,
            SpanKind.CONSUMER,
            _about(job, "run") | {"messaging.operation.type": "process"},
            start_time=_nanoseconds(began),
        )
        return wait, ours

    # -- exporting ----------------------------------------------------------------------

    def trouble(self) -> str | None:
        """Return what went wrong with exporting, if it is time to say something of that."""
        return self._troubles.take()

    def flush(self) -> None:
        """Have what there is exported, as far as that goes quickly."""
        self._hurry(self._provider.force_flush)

    def close(self) -> None:
        """Do the same, and be done."""
        self._hurry(self._provider.shutdown)
        self._troubles.close()

    def _hurry(self, work: Callable[[], Any]) -> None:
        # The SDK waits for its exporter, however long that takes; we don't.
        thread = Thread(target=work, daemon=True, name="queuectl-traces")
        thread.start()
        thread.join(FLUSHED_WITHIN)


class _Ids(IdGenerator):
    """Gives the next span the ids that were decided for it."""

    next_trace = 0
    next_span = 0

    def generate_trace_id(self) -> int:
        return self.next_trace

    def generate_span_id(self) -> int:
        return self.next_span


class _Troubles(logging.Handler):
    """Hears what the SDK and its exporters complain of, for the node to say it now and then."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._heard: str | None = None
        self._told_at = -TOLD_EVERY
        self._logger = logging.getLogger("opentelemetry")
        self._logger.addHandler(self)
        # The log of the node is written in one place.
        self._logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        self._heard = record.getMessage()

    def take(self) -> str | None:
        """Return what was heard last, once in a while."""
        heard = self._heard
        if heard is None or monotonic() - self._told_at < TOLD_EVERY:
            return None
        self._heard, self._told_at = None, monotonic()
        return heard.partition("\n")[0]

    def close(self) -> None:
        self._logger.removeHandler(self)
        super().close()


def _resource() -> Resource:
    """Describe who makes these spans: what the variables say, and a name if they say none."""
    resource = Resource.create()
    if str(resource.attributes.get("service.name", "")).startswith("unknown_service"):
        resource = resource.merge(Resource({"service.name": "queuectl"}))
    return resource


def _context_of(given: Trace) -> Context:
    parent = SpanContext(
        int(given.parent.trace, 16),
        int(given.parent.span, 16),
        is_remote=True,
        trace_flags=TraceFlags(given.parent.flags),
        trace_state=TraceState.from_header([given.state] if given.state else []),
    )
    return trace.set_span_in_context(NonRecordingSpan(parent), _EMPTY)


def _number(size: int, *what: object) -> int:
    """Return a number of so many bytes that is the same for the same, and never 0."""
    digest = sha256(" ".join(map(str, what)).encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:size]) or 1


def _about(job: Job, operation: str) -> dict[str, str | int]:
    """Describe a job, as the conventions for messaging do."""
    said: dict[str, str | int] = {
        **SYSTEM,
        "messaging.operation.name": operation,
        "messaging.destination.name": job.queue,
        "messaging.message.id": job.id,
        "messaging.client.id": job.node or "",
        "queuectl.attempt": job.attempts,
        "queuectl.worker": job.worker or 0,
    }
    return said if job.type is None else said | {"queuectl.type": job.type}


def _end_of(end: Ended) -> dict[str, str | int]:
    """Describe how a run ended, and what that made of its job."""
    said: dict[str, str | int] = {
        "queuectl.outcome": end.outcome.name,
        "queuectl.state": str(end.transition.state),
        "queuectl.host": end.host,
    }
    match end.outcome:
        case Exited(code=code):
            said["process.exit.code"] = code
        case Signalled(signal=signal):
            said["queuectl.signal"] = signal
    return said


def _is_error(outcome: Outcome) -> bool:
    return outcome != SUCCESS and not isinstance(outcome, _UNHARMED)


def _nanoseconds(ms: int) -> int:
    return ms * 1_000_000
