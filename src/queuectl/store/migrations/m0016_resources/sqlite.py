"""Needs of jobs, for SQLite."""

STATEMENTS = (
    # Amounts of resources that it needs of its node for itself, and labels that the node must have,
    # as JSON. Both are a part of its handler.
    "ALTER TABLE jobs ADD COLUMN needs TEXT",
    "ALTER TABLE jobs ADD COLUMN requires TEXT",
    # Which devices of each kind its newest run was given, as JSON.
    "ALTER TABLE jobs ADD COLUMN devices TEXT",
    # Jobs for which nodes keep room: of each job one node at most, and of each node one job.
    """
    CREATE TABLE reservations (
        seq INTEGER NOT NULL PRIMARY KEY,
        node TEXT NOT NULL UNIQUE,
        at INTEGER NOT NULL
    ) STRICT
    """,
    # Who is gone keeps nothing.
    """
    CREATE TRIGGER nodes_left AFTER DELETE ON nodes BEGIN
        DELETE FROM reservations WHERE node = OLD.id;
    END
    """,
)
AS_IF = {"jobs": "needs requires devices", "reservations": "seq node at"}
"""What is missing in a file that can't be upgraded, so that it can be read."""
