"""Unique jobs and paused runs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    "ALTER TABLE @jobs ADD COLUMN unique_until VARCHAR(10), ADD COLUMN unique_for BIGINT",
    # Who has a name that only one job at a time can have.
    f"""
    CREATE TABLE IF NOT EXISTS @uniques (
        name VARCHAR(256) PRIMARY KEY,
        job VARCHAR(256) NOT NULL,
        -- The job's attempts when it took the name, if it has it until it starts; else NULL.
        starts BIGINT,
        -- It has the name until then at least.
        until BIGINT,
        -- Since when requests take each other's place in it.
        since BIGINT NOT NULL
    ) {_TABLE}
    """,
    """
    CREATE TRIGGER IF NOT EXISTS @jobs_unnamed AFTER DELETE ON @jobs FOR EACH ROW BEGIN
        IF OLD.unique_key IS NOT NULL THEN
            DELETE FROM @uniques WHERE name = OLD.unique_key AND job = OLD.id;
        END IF;
    END
    """,
    # Runs that are stopped, and who asked for it. A row of a run that is over means nothing.
    f"""
    CREATE TABLE IF NOT EXISTS @pauses (
        seq BIGINT NOT NULL,
        number BIGINT NOT NULL,
        at BIGINT NOT NULL,
        who MEDIUMTEXT NOT NULL,
        PRIMARY KEY (seq, number)
    ) {_TABLE}
    """,
)
