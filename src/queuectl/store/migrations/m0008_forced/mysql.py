"""Jobs that are completed by hand, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- What a running job is to come to by hand: its result as JSON, or nothing. It counts
        -- while cancel_reason is set.
        ADD COLUMN forced MEDIUMTEXT
    """,
)
