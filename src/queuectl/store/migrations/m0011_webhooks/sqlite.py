"""Webhooks, for SQLite."""

STATEMENTS = (
    """
    CREATE TABLE webhooks (
        name TEXT NOT NULL PRIMARY KEY,
        url TEXT NOT NULL,
        -- JSON: what is told, and of which queues; an empty list is all of them.
        news TEXT NOT NULL,
        queues TEXT NOT NULL,
        -- The queue in which its deliveries wait.
        via TEXT NOT NULL,
        -- What messages are signed with. Whoever can read it can pretend to be us.
        secret TEXT NOT NULL,
        -- 1: it may be at an address that isn't public; the data of data jobs are told.
        private INTEGER NOT NULL,
        with_data INTEGER NOT NULL,
        paused_at INTEGER,
        paused_by TEXT,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT
    """,
)
AS_IF = {
    "webhooks": "name url news queues via secret private with_data paused_at paused_by created_at"
    " updated_at",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
