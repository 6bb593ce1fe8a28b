"""One of many clients that enqueue, claim, finish and count against one another, for a while.

`python -m tests.faults.storm NAME SECONDS` with the queue in the environment; prints each claim.
"""

import sys
from time import monotonic

from queuectl import Queue
from queuectl.job import Exited, Outcome, Signalled
from tests.contract.tools import a_node, ended


def storm(queue: Queue, name: str, seconds: float) -> None:
    """Do everything that meets the others' locks, as fast as possible."""
    store = queue.store
    a_node(store, name)
    until = monotonic() + seconds
    turn = 0
    while monotonic() < until:
        turn += 1
        # The same few priorities, queues and minutes as the others: the same counters.
        queue.enqueue_many(
            {"command": "true", "priority": n, "queue": f"q{turn % 2}", "tags": ["storm"]}
            for n in range(3)
        )
        jobs = store.claim(name, [1, 2, 3, 4], [], now=store.now())
        for job in jobs:
            print(job.id, job.attempts)
        outcomes: list[Outcome] = [Exited(0), Signalled(9)]
        ends = [ended(job, outcomes[n % 2], now=store.now()) for n, job in enumerate(jobs)]
        assert store.finish(ends) == []
        store.renew(name, until=store.steady() + 60_000)
        store.fold()
        if turn % 10 == 0:
            assert queue.status().states
            queue.pause(f"p{turn % 20}")
            queue.resume(f"p{turn % 20}")
    store.forget(name)


if __name__ == "__main__":
    with Queue() as queue:
        storm(queue, sys.argv[1], float(sys.argv[2]))
