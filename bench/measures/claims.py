"""Jobs per second that a store can hand out and take back, without any command being run.

The loop of a node without its guard: each transaction finishes the runs of the last one, with
their records, and claims the next 1, 4 or 16 jobs. A node whose jobs are short claims more than it
has workers, so that it gets through more than this.
"""

import os
import time
from collections.abc import Iterable
from functools import partial

# A node has code made for the values of which it makes thousands.
import queuectl.node.node  # noqa: F401
from bench.figures import Reading
from bench.lab import Lab
from bench.processes import BenchError
from bench.subject import Measure, Plain, Subject
from queuectl import Queue
from queuectl.admission import ALL_QUEUES, Offer
from queuectl.facts import Node
from queuectl.job import Exited, Job
from queuectl.lifecycle import Policy, decide
from queuectl.store.contract import Ended, Over, Store

NODE = "bench"
HOST = "bench"
LEASE = 3_600_000


def subjects(lab: Lab) -> list[Subject]:
    """Return each store with each number of jobs."""
    return [
        Plain(f"{store}, batches of {batch}", partial(claims, lab, store, batch))
        for store in lab.stores
        for batch in lab.sizes.claim_batches
    ]


def claims(lab: Lab, store: str, batch: int) -> Iterable[Reading]:
    """Claim and finish jobs until none is left."""
    # Every transaction waits for the disk once, so small batches get fewer jobs.
    jobs = max(batch, lab.sizes.claim_jobs * batch // max(lab.sizes.claim_batches))
    with lab.queue(store) as queue:
        queue.enqueue_many(["true"] * jobs)
        register(queue.store)
        os.sync()
        began = time.perf_counter()
        done = drain(queue, batch)
        took = time.perf_counter() - began
    if done != jobs:
        raise BenchError(f"{done} of {jobs} jobs came back")
    return [Reading(id=f"claims/{store}/{batch}", value=jobs / took, unit="jobs/s")]


def drain(queue: Queue, batch: int) -> int:
    """Run all jobs without running anything, and return how many there were."""
    store = queue.store
    workers = range(1, batch + 1)
    held: list[Job] = []
    total = 0
    while True:
        done = held
        held = _turn(store, done, workers)
        total += len(done)
        if not held:
            return total


def _turn(store: Store, done: list[Job], workers: range) -> list[Job]:
    over = Over(judge=lambda stuck, asked, now: [_ended(job, now) for job in done])
    turned = store.runs.turn(NODE, over if done else None, Offer(workers))
    if turned.lost:
        raise BenchError("a run lost its lease")
    return list(turned.jobs)


def _ended(job: Job, now: int) -> Ended:
    outcome = Exited(0)
    return Ended(
        job=job,
        outcome=outcome,
        transition=decide(job, outcome, now, Policy()),
        started_at=job.started_at or now,
        finished_at=now,
        duration_ms=0,
        host=HOST,
    )


def register(store: Store) -> None:
    """Make a node known that may claim."""
    now = store.clock.now()
    store.nodes.register(
        Node(
            id=NODE,
            host=HOST,
            boot="bench",
            pid=1,
            pid_start=1,
            workers=1,
            queues=ALL_QUEUES,
            spool="",
            version="0",
            started_at=now,
            seen_at=now,
            lease_until=store.clock.steady() + LEASE,
            lease=LEASE,
        )
    )


MEASURE = Measure(
    name="claims",
    title="Claims without commands",
    about=__doc__ or "",
    subjects=subjects,
)
