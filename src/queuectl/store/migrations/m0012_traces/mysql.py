"""Traces of jobs, for MariaDB and MySQL. Every statement may run twice.

One that has run before is known by the columns that it adds.
"""

STATEMENTS = (
    """
    ALTER TABLE @jobs
        -- The span that its runs are children of, and what goes with that, in the words of W3C.
        ADD COLUMN traceparent VARCHAR(64), ADD COLUMN tracestate VARCHAR(512)
    """,
)
