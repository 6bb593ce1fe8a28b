"""Needs of jobs, for PostgreSQL."""

_AS_OWNER = "LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog"

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- Amounts of resources that it needs of its node for itself, and labels that the node must
        -- have, as JSON. Both are a part of its handler.
        ADD COLUMN needs text COLLATION,
        ADD COLUMN requires text COLLATION,
        -- Which devices of each kind its newest run was given, as JSON.
        ADD COLUMN devices text COLLATION
    """,
    # Jobs for which nodes keep room: of each job one node at most, and of each node one job.
    """
    CREATE TABLE @reservations (
        seq bigint PRIMARY KEY,
        node text COLLATION NOT NULL UNIQUE,
        at bigint NOT NULL
    )
    """,
    # Who is gone keeps nothing.
    f"""
    CREATE FUNCTION @nodes_left() RETURNS trigger {_AS_OWNER} AS $$
    BEGIN
        DELETE FROM @reservations WHERE node = OLD.id;
        RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER nodes_left AFTER DELETE ON @nodes FOR EACH ROW EXECUTE FUNCTION @nodes_left()",
)
