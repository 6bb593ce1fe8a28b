"""To which queues something keeps that is done for somebody who is let in for some of them only.

The store's verbs look at it in the transaction that changes a job: whoever was asked before may
have found it in a queue in which it isn't any more.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_queues: "ContextVar[Collection[str]]" = ContextVar("queues", default=())


@contextmanager
def keeping_to(queues: Collection[str]) -> Iterator[None]:
    """Let what is done inside change jobs of these queues only; of none of them is of all.

    It holds for this thread, or this task of asyncio, and what these start with a copy of their
    context.
    """
    before = _queues.set(queues)
    try:
        yield
    finally:
        _queues.reset(before)


def is_bounded() -> bool:
    """Tell whether what is done now may have to do with jobs of some queues only."""
    return bool(_queues.get())


def reaches(queue: str) -> bool:
    """Tell whether what is done now may have to do with jobs of a queue."""
    queues = _queues.get()
    return not queues or queue in queues
