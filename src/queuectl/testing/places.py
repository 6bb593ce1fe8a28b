"""An empty store for a queue of an application, so that its tests leave the real one alone."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from queuectl.queue import Queue


@contextmanager
def emptied(queue: Queue, url: str | os.PathLike[str] | None = None) -> Iterator[Queue]:
    """Have a queue be an empty one for as long as this lasts: in a file of its own, or at a URL.

    Its tasks stay registered. What it was before is as it was then, and nothing is closed.
    """
    with TemporaryDirectory(prefix="queuectl-") as folder:
        other = Queue(os.path.join(folder, "queue.db") if url is None else url)
        tasks, before = queue.tasks, dict(vars(queue))
        vars(queue).clear()
        vars(queue).update(vars(other), tasks=tasks)
        try:
            yield queue
        finally:
            vars(queue).clear()
            vars(queue).update(before)
            other.close()
