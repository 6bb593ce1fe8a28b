"""Fills a queue with a past and a future: jobs that wait, are delayed, or were finished long ago.

A node runs one real job first, and one of each other kind is really enqueued. All others are
copies of those rows, made by the database itself: with their attempts, output and rollups, and
with times of their own. So what is there is what the product leaves, without the days it takes.

`fill` has jobs of one queue and one day, for who claims and counts; `fill_month` those of ten
queues and a month, a tenth of them dead of this and that, for who looks at them.
"""

from dataclasses import dataclass, replace
from typing import Any

from bench.lab import MARIADB, POSTGRESQL, SQLITE, Lab
from queuectl import Queue
from queuectl.filter import Filter
from queuectl.job import JOB_COLUMNS, Job
from queuectl.store.sqlstore import SqlStore
from queuectl.store.statements import columns

CHUNK = 50_000
"""Rows in one transaction."""
_RUN = 32_768
"""Ids that one process makes rise so often, from one end of the alphabet to the other."""
_APART = 131_071
"""How far two of them that follow each other are apart. A prime, so that none comes twice."""
HOUR = 3600 * 1000
DAY = 24 * HOUR
"""Finished jobs have ended over the last day, as evenly as they come ..."""
MONTH = 30 * DAY
"""... or month."""
QUEUES = 10
REASONS = 7
"""What jobs are dead of, numbers aside."""
NUMBERS = {
    SQLITE: (
        "(WITH RECURSIVE line (n) AS"
        " (SELECT {first} UNION ALL SELECT n + 1 FROM line WHERE n < {last}) SELECT n FROM line)"
    ),
    POSTGRESQL: "(SELECT n FROM generate_series({first}::bigint, {last}::bigint) AS one (n))",
    MARIADB: "(SELECT seq AS n FROM seq_{first}_to_{last})",
}
"""How a database counts from one number to another."""

# As those of the product, if one process enqueues all: they rise, and begin again and again.
_ID = (
    f"concat('{{kind}}', 10000000000 + (n % {_RUN}) * {_APART}"
    f" + ((n - n % {_RUN}) * 7919) % {_APART})"
)
_COLUMNS = [name for name in JOB_COLUMNS if name not in ("seq", "id")] + ["ready"]

_COPY_JOBS = """
INSERT INTO {jobs} (id, {columns})
SELECT {id}, {values} FROM {numbers} line, {jobs} t WHERE t.seq = :seq
"""
_COPY_ATTEMPTS = """
INSERT INTO {attempts} (seq, number, node, host, worker, started_at, finished_at, duration_ms,
    outcome, exit_code, stdout_bytes, stderr_bytes)
SELECT j.seq, t.number, t.node, t.host, t.worker, j.started_at, j.finished_at, j.duration_ms,
    t.outcome, t.exit_code, t.stdout_bytes, t.stderr_bytes
FROM {jobs} j, {attempts} t WHERE t.seq = :seq AND j.seq > :first AND j.seq <= :last
"""
_COPY_OUTPUTS = """
INSERT INTO {outputs} (seq, number, stdout, stderr)
SELECT j.seq, t.number, t.stdout, t.stderr
FROM {jobs} j, {outputs} t WHERE t.seq = :seq AND j.seq > :first AND j.seq <= :last
"""
# Durations are below 128 ms, where a bucket is one millisecond.
_ADD_ROLLUPS = """
INSERT INTO {rollups} (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
SELECT TIME, queue, node, 'MEASURE', MS, count(*), sum(MS), min(MS), max(MS)
FROM {jobs} WHERE seq > :seq AND seq <= :last GROUP BY GROUPqueue, node, MS
{on_conflict[at, queue, node, measure, bucket]}
    count = {rollups}.count + {excluded[count]},
    total_ms = {rollups}.total_ms + {excluded[total_ms]},
    least_ms = {least}({rollups}.least_ms, {excluded[least_ms]}),
    most_ms = {greatest}({rollups}.most_ms, {excluded[most_ms]})
"""
_MINUTE = "finished_at - finished_at % 60000"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """Jobs of one kind: the row they are copies of, and what is different in each."""

    letter: str
    template: Job
    different: dict[str, str]


def fill(lab: Lab, store: str, queue: Queue, size: int) -> None:
    """Make `size` finished jobs, as many delayed ones of high priority, and as many that wait."""
    sql = queue.store
    assert isinstance(sql, SqlStore)
    done = _really_run(lab, queue, "echo hello")
    _copy(sql, store, _finished(sql, done, size), size)
    _copy_history(sql, done)
    queue.pause("default")
    delayed = queue.enqueue("true", priority=100, delay="1d")
    later = _Kind(letter="d", template=delayed, different={"run_at": "t.run_at + n"})
    _copy(sql, store, later, size)
    waiting = _Kind(letter="w", template=queue.enqueue("true"), different={})
    _copy(sql, store, waiting, size)
    _settle(lab, store, sql)


def fill_month(lab: Lab, store: str, queue: Queue, size: int) -> None:
    """Make so many jobs that ten queues have had in a month; a tenth is dead, and some wait."""
    sql = queue.store
    assert isinstance(sql, SqlStore)
    dead = max(1, size // 10)
    queues = {"queue": f"concat('queue', n % {QUEUES})"}
    done = _really_run(lab, queue, "echo report 0")
    lived = _finished(sql, done, size - dead, MONTH)
    said = {"command": "concat('echo report ', n)", **queues}
    _copy(sql, store, replace(lived, different=lived.different | said), size - dead)
    _copy_history(sql, done)
    died = _really_run(lab, queue, "echo 'refused by 10.0.0.1' >&2; exit 69", max_retries=0)
    ended = _finished(sql, died, dead, MONTH)
    why = {"error": f"concat('exit code ', n % {REASONS}, ': refused by 10.0.0.', n % 250)"}
    kind = replace(ended, letter="x", different=ended.different | why | queues)
    _copy(sql, store, kind, dead)
    _copy_history(sql, died, ends="dead")
    for number in range(QUEUES):
        queue.pause(f"queue{number}")
    waiting = _Kind(letter="w", template=queue.enqueue("true", queue="queue0"), different=queues)
    _copy(sql, store, waiting, max(1, size // 100))
    _settle(lab, store, sql)


def _settle(lab: Lab, store: str, sql: SqlStore) -> None:
    sql.tidy(now=sql.clock.now())
    if store == POSTGRESQL:
        # By then, autovacuum would have come by, and what was written would be on the disk.
        sql.vacuum()
        lab.postgres().sql("CHECKPOINT")


def _really_run(lab: Lab, queue: Queue, command: str, **fields: Any) -> Job:
    with lab.node(queue, 1):
        (job,) = queue.wait(queue.enqueue(command, **fields).id, timeout=60)
    return job


def _finished(sql: SqlStore, template: Job, size: int, within: int = DAY) -> _Kind:
    # None ends in the minute of the real one, which has its rollup already.
    began = sql.clock.now() - within - HOUR
    # Whole numbers only: databases differ in how they divide.
    ended = f"({began} + n * {max(1, within // size)})"
    duration, wait = "(5 + n * 7919 % 56)", "(n * 104729 % 41)"
    return _Kind(
        letter="f",
        template=template,
        different={
            "created_at": f"{ended} - {duration} - {wait}",
            "run_at": f"{ended} - {duration} - {wait}",
            "started_at": f"{ended} - {duration}",
            "finished_at": ended,
            "updated_at": ended,
            "duration_ms": duration,
        },
    )


def _copy(sql: SqlStore, store: str, kind: _Kind, size: int) -> None:
    values = ", ".join(kind.different.get(name, f"t.{columns([name])}") for name in _COLUMNS)
    for first in range(1, size + 1, CHUNK):
        last = min(first + CHUNK - 1, size)
        numbers = NUMBERS[store].format(first=first, last=last)
        statement = _COPY_JOBS.format(
            jobs="{jobs}",
            id=_ID.format(kind=kind.letter),
            columns=columns(_COLUMNS),
            values=values,
            numbers=numbers,
        )
        sql.db.write(statement, seq=kind.template.seq)


def _copy_history(sql: SqlStore, template: Job, ends: str = "completed") -> None:
    """Give the finished jobs, all behind their template, the records that its run has left."""
    (newest,) = sql.jobs.select(Filter(), limit=1)
    for first in range(template.seq, newest.seq, CHUNK):
        last = min(first + CHUNK, newest.seq)
        for statement in (_COPY_ATTEMPTS, _COPY_OUTPUTS):
            sql.db.write(statement, seq=template.seq, first=first, last=last)
    for measure, ms in ((ends, "duration_ms"), ("wait", "(started_at - run_at)")):
        added = _ADD_ROLLUPS.replace("MEASURE", measure).replace("MS", ms)
        for time, group in ((_MINUTE, f"{_MINUTE}, "), ("0", "")):
            statement = added.replace("TIME", time).replace("GROUP BY GROUP", f"GROUP BY {group}")
            sql.db.write(statement, seq=template.seq, last=newest.seq)
