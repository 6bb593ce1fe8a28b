"""Webhooks, for PostgreSQL."""

STATEMENTS = (
    """
    CREATE TABLE @webhooks (
        name text COLLATION PRIMARY KEY,
        url text COLLATION NOT NULL,
        -- JSON: what is told, and of which queues; an empty list is all of them.
        news text COLLATION NOT NULL,
        queues text COLLATION NOT NULL,
        -- The queue in which its deliveries wait.
        via text COLLATION NOT NULL,
        -- What messages are signed with. Whoever can read it can pretend to be us.
        secret text COLLATION NOT NULL,
        -- 1: it may be at an address that isn't public; the data of data jobs are told.
        private bigint NOT NULL,
        with_data bigint NOT NULL,
        paused_at bigint,
        paused_by text COLLATION,
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL
    )
    """,
)
