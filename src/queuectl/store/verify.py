"""Checks a store: is the file whole, and does what it says about itself agree with its rows?"""

from collections.abc import Callable
from typing import Any

_WRONG_COUNTS = """
WITH counted (queue, state, priority, jobs, timed) AS (
    SELECT queue, state, priority, count(*), sum(coalesce(timeout, 0) > 0)
    FROM jobs GROUP BY queue, state, priority
), said AS (SELECT queue, state, priority, jobs, timed FROM counts WHERE jobs <> 0 OR timed <> 0)
SELECT count(*) FROM (
    SELECT * FROM (SELECT * FROM counted EXCEPT SELECT * FROM said)
    UNION SELECT * FROM (SELECT * FROM said EXCEPT SELECT * FROM counted)
)
"""
_ORPHANS = "SELECT count(*) FROM {table} WHERE seq NOT IN (SELECT seq FROM jobs)"
_NOBODY = """
SELECT count(*) FROM jobs
WHERE state = 'processing' AND (node IS NULL OR node NOT IN (SELECT id FROM nodes))
"""


def verify(run: Callable[[str], list[tuple[Any, ...]]]) -> list[str]:
    """Return what is wrong, one sentence each; an empty list when all is well."""

    def count(text: str) -> int:
        found: int = run(text)[0][0]
        return found

    found = [str(row[0]) for row in run("PRAGMA integrity_check") if row[0] != "ok"]
    if wrong := count(_WRONG_COUNTS):
        found.append(f"{wrong} counters disagree with the jobs they count.")
    found += [
        f"{orphans} rows of {table} belong to no job."
        for table in ("attempts", "outputs", "tags")
        if (orphans := count(_ORPHANS.format(table=table)))
    ]
    if stuck := count(_NOBODY):
        found.append(f"{stuck} jobs are processing on a node that isn't registered.")
    return found
