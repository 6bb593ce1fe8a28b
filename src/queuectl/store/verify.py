"""Checks a store: does what it says about itself agree with its rows?"""

from queuectl.store.database import Database


def verify_rows(db: Database) -> list[str]:
    """Compare what the tables say about each other; returns what is wrong, one sentence each."""
    sql = db.sql
    found = []
    if wrong := db.value(sql.WRONG_COUNTS):
        found.append(f"{wrong} counters disagree with the jobs they count.")
    found += [
        f"{orphans} rows of {table} belong to no job."
        for table, statement in {
            "attempts": sql.ORPHANED_ATTEMPTS,
            "outputs": sql.ORPHANED_OUTPUTS,
            "inputs": sql.ORPHANED_INPUTS,
            "tags": sql.ORPHANED_TAGS,
            "results": sql.ORPHANED_RESULTS,
            "progress": sql.ORPHANED_PROGRESS,
            "steps": sql.ORPHANED_STEPS,
            "sleeps": sql.ORPHANED_SLEEPS,
        }.items()
        if (orphans := db.value(statement))
    ]
    if short := db.value(sql.SHORT_INPUTS):
        found.append(f"{short} jobs have another stdin than was stored with them.")
    if stuck := db.value(sql.HELD_BY_NOBODY):
        found.append(f"{stuck} jobs are processing on a node that isn't registered.")
    return found
