"""Traces of jobs, for PostgreSQL."""

STATEMENTS = (
    # The span that its runs are children of, and what goes with that, in the words of W3C.
    "ALTER TABLE @jobs ADD COLUMN traceparent text COLLATION, ADD COLUMN tracestate text COLLATION",
)
