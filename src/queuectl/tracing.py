"""Spans around enqueueing, and the trace of what is enqueued, in programs that use OpenTelemetry.

It is only imported where `opentelemetry.trace` is imported already, by the application. Without its
SDK no spans are made; a job is still a part of the trace that is the current one. Names and
attributes are those of the conventions for messaging: https://opentelemetry.io/docs/specs/semconv/
"""

from collections.abc import Callable, Iterator

from opentelemetry import trace

from queuectl import __version__
from queuectl.facts import Batch
from queuectl.job import Job, NewJob, OneOfMany
from queuectl.tracecontext import SpanId, Trace, read_state
from queuectl.values import replace

SYSTEM = {"messaging.system": "queuectl"}
_SENDS = {**SYSTEM, "messaging.operation.name": "enqueue", "messaging.operation.type": "send"}

# It finds the application's provider with its first span.
_tracer = trace.get_tracer("queuectl", __version__)


def enqueue_one(new: NewJob | OneOfMany, store: Callable[[NewJob | OneOfMany], Job]) -> Job:
    """Store a job within a span, whose trace it is a part of.

    One that was given a trace keeps that, and there is no span.
    """
    model = new if isinstance(new, NewJob) else new[-1]
    if model.traceparent is not None:
        return store(new)
    queue = model.queue
    with _tracer.start_as_current_span(
        f"enqueue {queue}",
        kind=trace.SpanKind.PRODUCER,
        attributes={**_SENDS, "messaging.destination.name": queue},
    ) as span:
        model = _Part(span).of(model)
        job = store(model if isinstance(new, NewJob) else (*new[:-1], model))
        span.set_attribute("messaging.message.id", job.id)
        return job


def enqueue_all(
    requests: Iterator[OneOfMany], store: Callable[[Iterator[OneOfMany]], Batch]
) -> Batch:
    """Store many jobs within one span, whose trace they are a part of."""
    with _tracer.start_as_current_span(
        "enqueue", kind=trace.SpanKind.PRODUCER, attributes=_SENDS
    ) as span:
        part = _Part(span)
        batch = store(
            (id, command, argv, parameters, part.of(model))
            for id, command, argv, parameters, model in requests
        )
        span.set_attribute("messaging.batch.message_count", len(batch.ids))
        if len(part.queues) == 1:
            (queue,) = part.queues
            span.update_name(f"enqueue {queue}")
            span.set_attribute("messaging.destination.name", queue)
        return batch


class _Part:
    """Makes jobs a part of the trace of a span."""

    def __init__(self, span: trace.Span) -> None:
        self.queues: set[str] = set()
        """Those of all jobs so far."""
        self._trace = passed_on(span)
        self._last: tuple[NewJob | None, NewJob] = None, NewJob()

    def of(self, model: NewJob) -> NewJob:
        """Return the same job with the trace; of one and the same, one and the same."""
        last, made = self._last
        if last is not model:
            self.queues.add(model.queue)
            own, made = self._trace, model
            if own is not None and model.traceparent is None:
                made = replace(model, traceparent=str(own.parent), tracestate=own.state)
            self._last = model, made
        return made


def passed_on(span: trace.Span) -> Trace | None:
    """Return what is passed on of the trace of a span; None, if that is in none."""
    context = span.get_span_context()
    if not context.is_valid:
        return None
    parent = SpanId(f"{context.trace_id:032x}", f"{context.span_id:016x}", context.trace_flags)
    return Trace(parent, read_state(context.trace_state.to_header()))
