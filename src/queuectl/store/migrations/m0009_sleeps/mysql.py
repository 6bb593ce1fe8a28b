"""Sleeping jobs and what is emitted, for MariaDB and MySQL. Every statement may run twice."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    # What the newest run of a job that said so sleeps for.
    f"""
    CREATE TABLE IF NOT EXISTS @sleeps (
        seq BIGINT NOT NULL PRIMARY KEY,
        -- The run that said so last, and the step that is done when it is over.
        number BIGINT NOT NULL,
        step VARCHAR(256) NOT NULL,
        -- What must be emitted; NULL if only the time counts.
        awaits VARCHAR(256),
        -- When it is over at the latest; NULL is never.
        until BIGINT,
        at BIGINT NOT NULL,
        -- Whether it was emitted since.
        woken BIGINT NOT NULL,
        INDEX sleeps_awaits (awaits)
    ) {_TABLE}
    """,
    # What was emitted; without a time, what is only waited for yet.
    f"""
    CREATE TABLE IF NOT EXISTS @emitted (
        name VARCHAR(256) NOT NULL PRIMARY KEY,
        -- How often somebody waited for it or emitted it: who does either holds the row.
        asked BIGINT NOT NULL,
        payload LONGTEXT,
        at BIGINT,
        who VARCHAR(256),
        INDEX emitted_at (at)
    ) {_TABLE}
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_slept AFTER DELETE ON @jobs FOR EACH ROW
        DELETE FROM @sleeps WHERE seq = OLD.seq
    """,
)
