"""FlexiQ with its SQLite storage, as it comes."""

import os

from flexiq import Queue

from bench.peers.noop import mark

NAME = "noop"


def _queue(workers: int) -> Queue:
    queue = Queue(db_path=os.environ["BENCH_BROKER"], workers=workers)
    queue.task(name=NAME)(mark)
    return queue


one, two, four = _queue(1), _queue(2), _queue(4)


def enqueue_task(number: int) -> None:
    """Enqueue a task that does nothing."""
    one.enqueue(NAME, (number,))


def enqueue_tasks(times: int) -> None:
    """Enqueue so many of them, by its bulk call."""
    one.enqueue_many(NAME, [(number,) for number in range(1, times + 1)])
