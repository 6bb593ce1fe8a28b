"""Rollups of all time, for PostgreSQL."""

STATEMENTS = (
    """
    INSERT INTO @rollups (at, queue, node, measure, bucket, count, total_ms, least_ms, most_ms)
    SELECT 0, queue, '', measure, bucket, sum(count), sum(total_ms), min(least_ms), max(most_ms)
    FROM @rollups WHERE at > 0 GROUP BY queue, measure, bucket
    """,
)
