"""queuectl, as a program that enqueues uses it."""

import os
from typing import Any

from queuectl import Queue

queue = Queue(os.environ["BENCH_BROKER"])


def enqueue(command: str, **more: Any) -> None:
    """Store one job."""
    queue.enqueue(command, **more)


def enqueue_many(command: str, times: int) -> None:
    """Store many, all or none."""
    queue.enqueue_many([command] * times)
