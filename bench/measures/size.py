"""Bytes of the database per job, with its indexes.

- *waiting*: `true` jobs as `enqueue_many` stores them.
- *finished*: the same jobs after a node has run them, with their attempts.
- *output*: jobs that also wrote 100 bytes.

What an empty database takes is subtracted. Space that a vacuum would give back isn't: a queue in
use has some.
"""

from collections.abc import Iterable
from functools import partial

from bench.figures import Reading
from bench.lab import MARIADB, SQLITE, Lab
from bench.measures.drain import completed
from bench.processes import watch
from bench.subject import Measure, Plain, Subject
from queuectl import Queue

WORKERS = 4
ANALYZED = [f"queuectl_{table}" for table in ("jobs", "attempts", "outputs", "counts", "rollups")]
WRITES = f"echo {'x' * 99}"


def subjects(lab: Lab) -> list[Subject]:
    """Return each store."""
    return [
        Plain(f"queuectl on {store}", partial(weigh, lab, store), cold=True) for store in lab.stores
    ]


def weigh(lab: Lab, store: str) -> Iterable[Reading]:
    """Fill a queue, run it, and look at its size in between."""
    jobs = lab.sizes.size_jobs
    return [
        *_readings(lab, store, jobs, "true", ("waiting", "finished")),
        *_readings(lab, store, jobs, WRITES, (None, "output")),
    ]


def _readings(
    lab: Lab, store: str, jobs: int, command: str, names: tuple[str | None, str]
) -> Iterable[Reading]:
    with lab.queue(store) as queue:
        empty = size(lab, queue, store)
        queue.enqueue_many([command] * jobs)
        waiting = size(lab, queue, store)
        with lab.node(queue, WORKERS):
            watch(lambda: completed(queue), jobs)
        finished = size(lab, queue, store)
    for name, found in zip(names, (waiting, finished), strict=True):
        if name is not None:
            value = (found - empty) / jobs
            yield Reading(id=f"size/{store}/{name}", value=value, unit="bytes/job")


def size(lab: Lab, queue: Queue, store: str) -> int:
    """Return the size of a database by what it says itself."""
    if store == SQLITE:
        # Until then, the pages are in the log.
        import apsw

        db = apsw.Connection(queue.place.url.removeprefix("sqlite:"))
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        db.close()
    elif store == MARIADB:
        # It answers with what it last counted, until it counts again.
        database = queue.place.url.rpartition("/")[2]
        lab.mariadb().sql(f"ANALYZE TABLE {', '.join(ANALYZED)}", database)
    return int(queue.store.info()["size_bytes"])


MEASURE = Measure(
    name="size",
    title="Size of the database",
    about=__doc__ or "",
    subjects=subjects,
)
