"""Schedules, for PostgreSQL."""

STATEMENTS = (
    "ALTER TABLE @jobs ADD COLUMN tick text COLLATION",
    """
    CREATE TABLE @schedules (
        name text COLLATION PRIMARY KEY,
        rule text COLLATION NOT NULL,
        zone text COLLATION NOT NULL,
        anchor bigint NOT NULL,
        request text COLLATION NOT NULL,
        missed text COLLATION NOT NULL,
        missed_within bigint,
        overlap text COLLATION NOT NULL,
        jitter bigint NOT NULL,
        pause_after bigint,
        paused_at bigint,
        paused_by text COLLATION,
        done_until bigint NOT NULL,
        next_at bigint,
        failures bigint NOT NULL,
        last_tick bigint,
        last_job text COLLATION,
        last_seq bigint,
        created_at bigint NOT NULL,
        updated_at bigint NOT NULL
    )
    """,
    "CREATE INDEX schedules_next ON @schedules (next_at) WHERE next_at IS NOT NULL",
    # A tick makes one job, whoever makes it.
    """
    CREATE TABLE @ticks (
        schedule text COLLATION NOT NULL,
        planned bigint NOT NULL,
        seq bigint NOT NULL,
        job text COLLATION NOT NULL,
        made_at bigint NOT NULL,
        PRIMARY KEY (schedule, planned)
    )
    """,
    "CREATE INDEX ticks_old ON @ticks (made_at)",
)
