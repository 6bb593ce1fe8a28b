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
            "edges": sql.ORPHANED_EDGES,
        }.items()
        if (orphans := db.value(statement))
    ]
    if short := db.value(sql.SHORT_INPUTS):
        found.append(f"{short} jobs have another stdin than was stored with them.")
    if wrong := db.value(sql.WRONG_PARENTS):
        found.append(f"{wrong} jobs wait for more or fewer others than their edges say.")
    if wrong := db.value(sql.UNLINKED_PARENTS):
        found.append(f"{wrong} jobs don't know that others wait for them.")
    if wrong := db.value(sql.WRONG_GROUPS):
        found.append(f"{wrong} groups have another number of open jobs than they say.")
    if stuck := db.value(sql.HELD_BY_NOBODY):
        found.append(f"{stuck} jobs are processing on a node that isn't registered.")
    return found
