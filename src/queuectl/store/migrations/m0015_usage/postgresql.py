"""What runs may use, and what they have used, for PostgreSQL."""

STATEMENTS = (
    # As JSON, by the names of the fields.
    "ALTER TABLE @jobs ADD COLUMN bounds text COLLATION",
    # NULL is what nobody has counted. Then what the run wasn't kept to, as its host can't.
    """
    ALTER TABLE @attempts
        ADD COLUMN peak_memory bigint,
        ADD COLUMN cpu_ms bigint,
        ADD COLUMN read_bytes bigint,
        ADD COLUMN written_bytes bigint,
        ADD COLUMN noted text COLLATION
    """,
)
