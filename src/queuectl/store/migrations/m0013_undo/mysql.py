"""Actions, and what jobs were before them, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    """
    ALTER TABLE @events
        -- What it was done with; and of what can be undone, the columns that the job had, as JSON.
        ADD COLUMN action VARCHAR(32), ADD COLUMN was MEDIUMTEXT,
        ADD INDEX events_of_action (action, seq)
    """,
)
