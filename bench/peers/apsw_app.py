"""The limit of SQLite: the same rows, by raw APSW, with the same pragmas, into the same table."""

import os
from itertools import count

import apsw

from queuectl import Queue
from queuectl.job import JOB_COLUMNS

PATH = os.environ["BENCH_BROKER"].removeprefix("sqlite:")
COLUMNS = [*(name for name in JOB_COLUMNS if name not in ("seq", "id")), "ready"]

with Queue(PATH) as queue:
    first = queue.enqueue("true")

db = apsw.Connection(PATH)
for pragma in ("journal_mode = WAL", "synchronous = FULL", "temp_store = MEMORY"):
    db.execute(f"PRAGMA {pragma}").fetchall()
ROW = db.execute(f"SELECT {', '.join(COLUMNS)} FROM jobs WHERE id = ?", (first.id,)).fetchall()[0]
INSERT = f"INSERT INTO jobs (id, {', '.join(COLUMNS)}) VALUES (?{', ?' * len(COLUMNS)})"
numbers = count()


def enqueue(command: str) -> None:
    """Insert one row like that of a job, in a transaction of its own."""
    db.execute(INSERT, (f"raw{next(numbers)}", *ROW))


def enqueue_many(command: str, times: int) -> None:
    """Insert many in one transaction."""
    with db:
        db.executemany(INSERT, ((f"raw{next(numbers)}", *ROW) for _ in range(times)))
