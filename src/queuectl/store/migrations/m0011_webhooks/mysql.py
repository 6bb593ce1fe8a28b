"""Webhooks, for MariaDB and MySQL. Every statement may run twice."""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    f"""
    CREATE TABLE IF NOT EXISTS @webhooks (
        name VARCHAR(128) NOT NULL PRIMARY KEY,
        url MEDIUMTEXT NOT NULL,
        -- JSON: what is told, and of which queues; an empty list is all of them.
        news MEDIUMTEXT NOT NULL,
        queues MEDIUMTEXT NOT NULL,
        -- The queue in which its deliveries wait.
        via VARCHAR(128) NOT NULL,
        -- What messages are signed with. Whoever can read it can pretend to be us.
        secret MEDIUMTEXT NOT NULL,
        -- 1: it may be at an address that isn't public; the data of data jobs are told.
        private BIGINT NOT NULL,
        with_data BIGINT NOT NULL,
        paused_at BIGINT,
        paused_by MEDIUMTEXT,
        created_at BIGINT NOT NULL,
        updated_at BIGINT NOT NULL
    ) {_TABLE}
    """,
)
