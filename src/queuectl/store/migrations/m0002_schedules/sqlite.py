"""Schedules, for SQLite."""

STATEMENTS = (
    "ALTER TABLE jobs ADD COLUMN tick TEXT",
    """
    CREATE TABLE schedules (
        name TEXT NOT NULL PRIMARY KEY,
        rule TEXT NOT NULL,
        zone TEXT NOT NULL,
        anchor INTEGER NOT NULL,
        request TEXT NOT NULL,
        missed TEXT NOT NULL,
        missed_within INTEGER,
        overlap TEXT NOT NULL,
        jitter INTEGER NOT NULL,
        pause_after INTEGER,
        paused_at INTEGER,
        paused_by TEXT,
        done_until INTEGER NOT NULL,
        next_at INTEGER,
        failures INTEGER NOT NULL,
        last_tick INTEGER,
        last_job TEXT,
        last_seq INTEGER,
        created_at INTEGER NOT NULL,
        updated_at INTEGER NOT NULL
    ) STRICT
    """,
    "CREATE INDEX schedules_next ON schedules (next_at) WHERE next_at IS NOT NULL",
    # A tick makes one job, whoever makes it.
    """
    CREATE TABLE ticks (
        schedule TEXT NOT NULL,
        planned INTEGER NOT NULL,
        seq INTEGER NOT NULL,
        job TEXT NOT NULL,
        made_at INTEGER NOT NULL,
        PRIMARY KEY (schedule, planned)
    ) STRICT, WITHOUT ROWID
    """,
    "CREATE INDEX ticks_old ON ticks (made_at)",
)
AS_IF = (
    "CREATE TEMP VIEW jobs AS SELECT *, NULL AS tick FROM main.jobs",
    "CREATE TEMP VIEW schedules AS SELECT '' AS name, '' AS rule, '' AS zone, 0 AS anchor, '' "
    "AS request, '' AS missed, 0 AS missed_within, '' AS overlap, 0 AS jitter, 0 AS "
    "pause_after, 0 AS paused_at, 0 AS paused_by, 0 AS done_until, 0 AS next_at, 0 AS "
    "failures, 0 AS last_tick, 0 AS last_job, 0 AS last_seq, 0 AS created_at, 0 AS updated_at "
    "WHERE false",
    "CREATE TEMP VIEW ticks AS SELECT '' AS schedule, 0 AS planned, 0 AS seq, '' AS job, "
    "0 AS made_at WHERE false",
)
"""What makes a file that can't be upgraded readable."""
