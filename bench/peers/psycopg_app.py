"""The limit of PostgreSQL: the same rows, by INSERT and by COPY, into the same table."""

import os
from itertools import count

import psycopg

from queuectl import Queue
from queuectl.job import JOB_COLUMNS

URL = os.environ["BENCH_BROKER"]
COLUMNS = [*(name for name in JOB_COLUMNS if name not in ("seq", "id")), "ready"]
NAMES = ", ".join(["id", *COLUMNS])

with Queue(URL) as queue:
    first = queue.enqueue("true")

db = psycopg.connect(URL, autocommit=True)
ROW = db.execute(
    f"SELECT {', '.join(COLUMNS)} FROM queuectl.jobs WHERE id = %s", (first.id,)
).fetchall()[0]
INSERT = f"INSERT INTO queuectl.jobs ({NAMES}) VALUES (%s{', %s' * len(COLUMNS)})"
numbers = count()


def enqueue(command: str) -> None:
    """Insert one row like that of a job, in a transaction of its own."""
    db.execute(INSERT, (f"raw{next(numbers)}", *ROW))


def enqueue_many(command: str, times: int) -> None:
    """Copy many in one transaction."""
    with db.cursor() as cursor, cursor.copy(f"COPY queuectl.jobs ({NAMES}) FROM STDIN") as copy:
        for _ in range(times):
            copy.write_row((f"raw{next(numbers)}", *ROW))
