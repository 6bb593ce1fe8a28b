"""What runs may use, and what they have used, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- As JSON, by the names of the fields.
        ADD COLUMN bounds MEDIUMTEXT
    """,
    """
    ALTER TABLE @attempts
        -- NULL is what nobody has counted. Then what the run wasn't kept to, as its host can't.
        ADD COLUMN peak_memory BIGINT,
        ADD COLUMN cpu_ms BIGINT,
        ADD COLUMN read_bytes BIGINT,
        ADD COLUMN written_bytes BIGINT,
        ADD COLUMN noted MEDIUMTEXT
    """,
)
