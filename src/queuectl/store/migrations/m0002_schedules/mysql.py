"""Schedules, for MariaDB and MySQL. Every statement may run twice."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    "ALTER TABLE @jobs ADD COLUMN tick VARCHAR(256)",
    f"""
    CREATE TABLE IF NOT EXISTS @schedules (
        name VARCHAR(128) NOT NULL PRIMARY KEY,
        rule MEDIUMTEXT NOT NULL,
        zone MEDIUMTEXT NOT NULL,
        anchor BIGINT NOT NULL,
        request MEDIUMTEXT NOT NULL,
        missed MEDIUMTEXT NOT NULL,
        missed_within BIGINT,
        overlap MEDIUMTEXT NOT NULL,
        jitter BIGINT NOT NULL,
        pause_after BIGINT,
        paused_at BIGINT,
        paused_by MEDIUMTEXT,
        done_until BIGINT NOT NULL,
        next_at BIGINT,
        failures BIGINT NOT NULL,
        last_tick BIGINT,
        last_job MEDIUMTEXT,
        last_seq BIGINT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL,
        INDEX schedules_next (next_at)
    ) {_TABLE}
    """,
    # A tick makes one job, whoever makes it.
    f"""
    CREATE TABLE IF NOT EXISTS @ticks (
        schedule VARCHAR(128) NOT NULL,
        planned BIGINT NOT NULL,
        seq BIGINT NOT NULL,
        job VARCHAR(256) NOT NULL,
        made_at BIGINT NOT NULL,
        PRIMARY KEY (schedule, planned),
        INDEX ticks_old (made_at)
    ) {_TABLE}
    """,
)
