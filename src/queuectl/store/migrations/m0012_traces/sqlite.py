"""Traces of jobs, for SQLite."""

STATEMENTS = (
    # The span that its runs are children of, and what goes with that, in the words of W3C.
    "ALTER TABLE jobs ADD COLUMN traceparent TEXT",
    "ALTER TABLE jobs ADD COLUMN tracestate TEXT",
)
AS_IF = {"jobs": "traceparent tracestate"}
"""What is missing in a file that can't be upgraded, so that it can be read."""
