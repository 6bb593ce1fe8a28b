"""The trace of a job as what is current in OpenTelemetry, so that spans of its code are in it."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

from queuectl.tasks.current import CurrentJob


def within_trace(job: CurrentJob) -> AbstractContextManager[None]:
    """Have spans be a part of the trace of a job, if it has one and OpenTelemetry is there."""
    return nullcontext() if job.traceparent is None else _within(job)


@contextmanager
def _within(job: CurrentJob) -> Iterator[None]:
    api = _api()
    if api is None:
        yield
        return
    context, propagator = api
    carrier = {"traceparent": job.traceparent, "tracestate": job.tracestate}
    token = context.attach(propagator.extract({name: it for name, it in carrier.items() if it}))
    try:
        yield
    finally:
        context.detach(token)


@cache
def _api() -> Any:
    """Return what is needed of OpenTelemetry, or None; a job of a trace is worth the import."""
    try:
        from opentelemetry import context
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
    except ImportError:
        return None
    return context, TraceContextTextMapPropagator()
