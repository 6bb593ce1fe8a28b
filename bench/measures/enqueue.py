"""Jobs enqueued per second, each of them durable before the call returns.

- *single*: one `Queue.enqueue` after the other from one process; the same for peers, by the call
  that their users make. On SQLite the limit is raw APSW: the same row, by INSERT, with the same
  pragmas, into the same table with its triggers, in a transaction of its own. Ours and the limit
  take turns, a tenth of the jobs each time, so that a slow moment of the disk is one for both.
- *threaded*: eight threads share one `Queue`.
- *bulk*: one `Queue.enqueue_many`. The limits are `executemany` of APSW in one transaction, and
  COPY in PostgreSQL, both with the rows ready-made.
- *jsonl*: one `queuectl enqueue --file jobs.jsonl`, from its start to its end.

No worker runs meanwhile. huey, RQ, dramatiq and Celery store jobs without waiting for any disk.
"""

import os
import subprocess
import time
from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

from bench.clients import Asked, broker_of
from bench.figures import Reading
from bench.lab import POSTGRESQL, SQLITE, Lab, queuectl
from bench.peers.roster import PEERS, Peer
from bench.processes import BenchError
from bench.subject import Measure, Plain, Subject
from queuectl import Queue

THREADS = 8
TURNS = 10
"""How often ours and the limit enqueue single jobs, the one right after the other."""
LIMITS = {SQLITE: ("apsw", "apsw_app"), POSTGRESQL: ("psycopg", "psycopg_app")}
"""What is as fast as it gets on a store, without a queue around it."""


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, the limits and the peers."""
    found: list[Subject] = []
    for store in lab.stores:
        found.append(Plain(f"single on {store}", partial(singly, lab, store)))
        found.append(Plain(f"queuectl on {store}", partial(ours, lab, store)))
        found.append(Plain(f"jsonl on {store}", partial(jsonl, lab, store)))
        if store in LIMITS:
            name, app = LIMITS[store]
            found.append(Plain(name, partial(limit, lab, store, name, app)))
    if lab.peers:
        found += [Plain(peer.title, partial(theirs, lab, peer)) for peer in PEERS]
    return found


def singly(lab: Lab, store: str) -> Iterable[Reading]:
    """Enqueue one after the other, in turns with the limit of the store if it has one."""
    each = lab.sizes.enqueue_single // TURNS
    apps = dict([(store, "queuectl_app"), *([LIMITS[store]] if store in LIMITS else [])])
    seconds = dict.fromkeys(apps, 0.0)
    with ExitStack() as stack:
        urls = {name: stack.enter_context(lab.place(store)) for name in apps}
        clients = {
            name: stack.enter_context(Asked(lab, app, urls[name])) for name, app in apps.items()
        }
        for client in clients.values():
            client("single", command="true", times=10)
        for turn in range(TURNS):
            for name in sorted(clients, reverse=bool(turn % 2)):
                seconds[name] += clients[name]("single", command="true", times=each)["seconds"]
        check(urls[store], 10 + TURNS * each)
    return [_rate(f"{name}/single", TURNS * each, took) for name, took in seconds.items()]


def ours(lab: Lab, store: str) -> Iterable[Reading]:
    """Enqueue from many threads, and many at once, through the Python interface."""
    single, bulk = lab.sizes.enqueue_single, lab.sizes.enqueue_bulk
    with lab.place(store) as url, Asked(lab, "queuectl_app", url) as client:
        client("single", command="true", times=10)
        crowd = client("threaded", command="true", times=single, threads=THREADS)
        os.sync()
        many = client("many", command="true", times=bulk)["seconds"]
        check(url, 10 + crowd["times"] + bulk)
    return [
        _rate(f"{store}/threaded", crowd["times"], crowd["seconds"]),
        _rate(f"{store}/bulk", bulk, many),
    ]


def jsonl(lab: Lab, store: str) -> Iterable[Reading]:
    """Enqueue a file by the command."""
    bulk = lab.sizes.enqueue_bulk
    with lab.place(store) as url, lab.scratch() as folder:
        Queue(url).close()
        path = folder / "jobs.jsonl"
        path.write_text("".join(f'{{"command": "echo {n}"}}\n' for n in range(bulk)))
        os.sync()
        began = time.perf_counter()
        subprocess.run(
            queuectl("enqueue", "--file", str(path)),
            env=lab.environment(QUEUECTL_DB=url),
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        took = time.perf_counter() - began
        check(url, bulk)
    return [_rate(f"{store}/jsonl", bulk, took)]


def limit(lab: Lab, store: str, name: str, app: str) -> Iterable[Reading]:
    """Insert rows without a queue around it."""
    bulk = lab.sizes.enqueue_bulk
    with lab.place(store) as url, Asked(lab, app, url) as client:
        client("single", command="true", times=10)
        os.sync()
        many = client("many", command="true", times=bulk)["seconds"]
        check(url, 1 + 10 + bulk)
    return [_rate(f"{name}/bulk", bulk, many)]


def theirs(lab: Lab, peer: Peer) -> Iterable[Reading]:
    """Enqueue with a peer."""
    single = lab.sizes.enqueue_single
    with broker_of(lab, peer) as broker, Asked(lab, peer.app, broker) as client:
        client("single", command="true", times=10)
        seconds = client("single", command="true", times=single)["seconds"]
    return [_rate(f"{peer.name}/single", single, seconds)]


def _rate(id: str, jobs: int, seconds: float) -> Reading:
    return Reading(id=f"enqueue/{id}", value=jobs / seconds, unit="jobs/s")


def check(url: str, jobs: int) -> None:
    with Queue(url) as queue:
        found = sum(count.jobs for count in queue.store.jobs.counts())
    if found != jobs:
        raise BenchError(f"{found} jobs are there, and {jobs} were enqueued")


MEASURE = Measure(
    name="enqueue",
    title="Enqueue",
    about=__doc__ or "",
    subjects=subjects,
)
