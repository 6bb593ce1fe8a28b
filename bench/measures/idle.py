"""What workers take that have nothing to do: percent of one CPU, and megabytes.

A node (with its guard) first runs two jobs for each of its workers, so that it has done whatever
it does the first time. Then it is left alone for some seconds. Memory is proportional: a page that
n processes share counts 1/n for each of them. Since the benchmarks run by the same interpreter,
that flatters all who are written in Python, so *alone* says what it would be if nobody else shared
a page. Peers have four workers.
"""

import time
from collections.abc import Iterable
from functools import partial

from bench.clients import Asked, awake, broker_of, workers_of
from bench.figures import Reading
from bench.lab import Lab
from bench.peers.roster import PEERS, Peer
from bench.processes import Group, alone_mb, cpu_seconds, proportional_mb
from bench.subject import Measure, Plain, Subject

WORKERS = 4
SETTLING = 1.0
"""Seconds until a node that has worked is quiet."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store and with each number of workers, and the peers."""
    found: list[Subject] = [
        Plain(
            f"queuectl on {store}, {workers} workers", partial(ours, lab, store, workers), cold=True
        )
        for store in lab.stores
        for workers in lab.sizes.idle_workers
    ]
    if lab.peers:
        found += [Plain(peer.title, partial(theirs, lab, peer), cold=True) for peer in PEERS]
    return found


def ours(lab: Lab, store: str, workers: int) -> Iterable[Reading]:
    """Weigh a node."""
    with lab.queue(store) as queue, lab.node(queue, workers) as group:
        batch = queue.enqueue_many(["true"] * (2 * workers))
        queue.wait(*batch.ids, timeout=120)
        # Nobody else looks at the store while it is weighed.
        return weigh(lab, f"{store}/{workers}", [group])


def theirs(lab: Lab, peer: Peer) -> Iterable[Reading]:
    """Weigh the workers of a peer."""
    with broker_of(lab, peer) as broker, workers_of(lab, peer.plain, broker) as groups:
        with Asked(lab, peer.app, broker) as client:
            awake(lab, client, groups, 2 * WORKERS)
        return weigh(lab, f"{peer.name}/{WORKERS}", groups)


def weigh(lab: Lab, id: str, groups: list[Group]) -> list[Reading]:
    """Watch processes for a while."""
    time.sleep(SETTLING)
    pids = [pid for group in groups for pid in group.members()]
    before = cpu_seconds(pids)
    began = time.monotonic()
    time.sleep(lab.sizes.idle_seconds)
    used = cpu_seconds(pids) - before
    share = 100 * used / (time.monotonic() - began)
    return [
        Reading(id=f"idle/{id}/cpu", value=share, unit="% CPU"),
        Reading(id=f"idle/{id}/memory", value=proportional_mb(pids), unit="MB"),
        Reading(id=f"idle/{id}/alone", value=alone_mb(pids), unit="MB"),
    ]


MEASURE = Measure(
    name="idle",
    title="Idle workers",
    about=__doc__ or "",
    subjects=subjects,
)
