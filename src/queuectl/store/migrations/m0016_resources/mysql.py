"""Needs of jobs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

_TABLE = "ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATION"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- Amounts of resources that it needs of its node for itself, and labels that the node must
        -- have, as JSON. Both are a part of its handler.
        ADD COLUMN needs MEDIUMTEXT,
        ADD COLUMN requires MEDIUMTEXT,
        -- Which devices of each kind its newest run was given, as JSON.
        ADD COLUMN devices MEDIUMTEXT,
        MODIFY COLUMN handler VARCHAR(360) NOT NULL DEFAULT ''
    """,
    # Jobs for which nodes keep room: of each job one node at most, and of each node one job.
    f"""
    CREATE TABLE IF NOT EXISTS @reservations (
        seq BIGINT NOT NULL PRIMARY KEY,
        node VARCHAR(64) NOT NULL,
        at BIGINT NOT NULL,
        UNIQUE INDEX reservations_of_node (node)
    ) {_TABLE}
    """,
    # Who is gone keeps nothing.
    """
    CREATE TRIGGER IF NOT EXISTS @nodes_left AFTER DELETE ON @nodes FOR EACH ROW
    BEGIN
        DELETE FROM @reservations WHERE node = OLD.id;
    END
    """,
)
