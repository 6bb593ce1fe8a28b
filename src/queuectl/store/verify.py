"""Checks a store: is the file whole, and does what it says about itself agree with its rows?"""

from collections.abc import Callable
from typing import Any

_WRONG_COUNTS = """
WITH counted (queue, state, priority, jobs, timed) AS (
    SELECT queue, counted_as, priority, count(*), sum(CASE WHEN timeout > 0 THEN 1 ELSE 0 END)
    FROM (
        SELECT queue, CASE state WHEN 'processing' THEN 'pending' ELSE state END AS counted_as,
            priority, timeout FROM {jobs}
    ) AS each_job GROUP BY queue, counted_as, priority
), said (queue, state, priority, jobs, timed) AS (
    SELECT queue, state, priority, sum(jobs), sum(timed) FROM {counts}
    GROUP BY queue, state, priority HAVING sum(jobs) <> 0 OR sum(timed) <> 0
)
SELECT count(*) FROM (
    SELECT queue, state, priority FROM (
        SELECT * FROM counted UNION ALL SELECT * FROM said
    ) AS both_ways GROUP BY queue, state, priority, jobs, timed HAVING count(*) <> 2
) AS wrong
"""
_ORPHANS = "SELECT count(*) FROM {table} WHERE seq NOT IN (SELECT seq FROM {jobs})"
_SHORT = """
SELECT count(*) FROM {jobs} j WHERE stdin_bytes IS NOT NULL AND stdin_bytes <> (
    SELECT coalesce(sum(octet_length(i.data)), 0) FROM {inputs} i WHERE i.seq = j.seq
)
"""
_NOBODY = """
SELECT count(*) FROM {jobs}
WHERE state = 'processing' AND (node IS NULL OR node NOT IN (SELECT id FROM {nodes}))
"""


def verify_rows(run: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """Compare what the tables say about each other; returns what is wrong, one sentence each.

    `run` fills in the names of tables and returns rows.
    """

    def count(text: str) -> int:
        found: int = run(text)[0][0]
        return found

    found = []
    if wrong := count(_WRONG_COUNTS):
        found.append(f"{wrong} counters disagree with the jobs they count.")
    found += [
        f"{orphans} rows of {table} belong to no job."
        for table in ("attempts", "outputs", "inputs", "tags")
        if (orphans := count(_ORPHANS.replace("{table}", f"{{{table}}}")))
    ]
    if short := count(_SHORT):
        found.append(f"{short} jobs have another stdin than was stored with them.")
    if stuck := count(_NOBODY):
        found.append(f"{stuck} jobs are processing on a node that isn't registered.")
    return found
