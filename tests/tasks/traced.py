"""An application that makes spans: its SDK prints them into a file."""

import os
from contextlib import suppress
from pathlib import Path

from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

from queuectl import DuplicateError, Queue, current_job

provider = TracerProvider()
printer = ConsoleSpanExporter(out=Path("spans.app").open("a"))  # noqa: SIM115 - to its end
provider.add_span_processor(SimpleSpanProcessor(printer))
trace.set_tracer_provider(provider)
tracer = trace.get_tracer("app")
queue = Queue(os.environ.get("QUEUECTL_DB"))


@queue.task
def work(name: str, more: int = 0) -> list[str | None]:
    with tracer.start_as_current_span(f"inner {name}"):
        if more:
            work.using(id=f"{name}'s").enqueue(f"{name}'s", more - 1)
        return [current_job().traceparent, current_job().tracestate]


@queue.task
async def flow(name: str) -> str | None:
    with tracer.start_as_current_span(f"inner {name}"):
        return current_job().traceparent


@queue.task
def is_traced() -> bool:
    return trace.get_current_span().get_span_context().is_valid


def request() -> None:
    """Enqueue in all ways, within a span."""
    with tracer.start_as_current_span("request"):
        work.using(id="task").enqueue("a", 1)
        queue.enqueue("echo $TRACEPARENT", id="command", queue="mail")
        queue.enqueue_many(["true", {"command": "true", "queue": "other"}, "true"], tags="many")
        queue.enqueue_many(["true"], queue="bulk", tags="one queue")
        given = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        queue.enqueue("true", id="given", traceparent=given)
        with suppress(DuplicateError):
            queue.enqueue("true", id="command")


if __name__ == "__main__":
    request()
