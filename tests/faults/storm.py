"""One of many clients that enqueue, claim, finish and count against one another.

`python -m tests.faults.storm NAME CLAIMS` with the queue in the environment. It works like a node
without its jobs: each turn ends all runs and claims new ones in one transaction. Once that is
committed, it prints the id and the attempt of each claim, and of each claim that it found to have
been given to somebody else: `got ID ATTEMPT` and `lost ID ATTEMPT`.
"""

import sys
import time
from collections.abc import Sequence
from itertools import count

from queuectl import Queue
from queuectl.admission import Offer, Serving
from queuectl.errors import StoreUnreachableError
from queuectl.job import Exited, Job, Outcome, Output, Signalled, Strategy
from queuectl.lifecycle import Policy
from queuectl.store.contract import Asked, Ended, Over
from tests.contract.tools import a_node, ended, forget, renew

QUEUES = ("storm-1", "storm-2")
WORKERS = 8
BATCH = 4 * WORKERS
POLICY = Policy(backoff=Strategy.FIXED, retry_delay=100)
"""What fails is soon claimed again."""
OUTCOMES: tuple[Outcome, ...] = (Exited(0), Signalled(9))


def storm(queue: Queue, name: str, claims: int) -> None:
    """Do everything that meets the others' locks, as fast as possible."""
    store = queue.store
    a_node(store, name)
    running: list[Job] = []
    claimed = enqueued = 0
    for turn in count(1):
        if claimed == claims and not running:
            break
        # The same few priorities, queues and minutes as the others: the same counters.
        if enqueued < claims and enqueued < claimed + BATCH:
            enqueued += BATCH
            queue.enqueue_many(
                {"command": "true", "priority": n % 3, "queue": QUEUES[n % 2], "tags": ["storm"]}
                for n in range(BATCH)
            )
        lost, running = take_turn(queue, name, running, min(claims - claimed, WORKERS))
        claimed += len(running)
        for end in lost:
            print("lost", end.job.id, end.job.attempts)
        for job in running:
            print("got", job.id, job.attempts)
        if turn % 5 == 0:
            renew(store, name, until=store.clock.steady() + 60_000)
            store.tidy()
        if turn % 20 == 0:
            assert queue.status().states
            queue.pause(f"p{turn % 40}")
            queue.resume(f"p{turn % 40}")
    forget(store, name)


def take_turn(
    queue: Queue, name: str, running: list[Job], free: int
) -> tuple[list[Ended], list[Job]]:
    """End all runs, every other one badly, and claim as many jobs as asked for.

    Returns the runs that could not be ended, because they weren't ours any more, and the jobs.
    """
    store = queue.store

    def judge(stuck: Sequence[Job], asked: Asked, now: int) -> list[Ended]:
        return [
            ended(job, OUTCOMES[n % 2], now=now, policy=POLICY, output=Output())
            for n, job in enumerate(running)
        ]

    turned = store.runs.turn(name, Over(judge=judge), Offer(range(1, free + 1), Serving(QUEUES)))
    return list(turned.lost), list(turned.jobs)


def opened() -> Queue:
    """Open the queue; a server that is too busy to let us in now, does so later."""
    while True:
        try:
            return Queue()
        except StoreUnreachableError:
            time.sleep(0.1)


if __name__ == "__main__":
    with opened() as queue:
        storm(queue, sys.argv[1], int(sys.argv[2]))
