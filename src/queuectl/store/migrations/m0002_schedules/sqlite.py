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
AS_IF = {
    "jobs": "tick",
    "schedules": "name rule zone anchor request missed missed_within overlap jitter pause_after"
    " paused_at paused_by done_until next_at failures last_tick last_job last_seq created_at"
    " updated_at",
    "ticks": "schedule planned seq job made_at",
}
"""What is missing in a file that can't be upgraded, so that it can be read."""
