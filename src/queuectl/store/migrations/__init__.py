"""Numbered schema changes. A migration is never edited once released; the next one amends it."""

from collections.abc import Sequence

BASELINE = 6
"""The version of the schema that the first of them makes. Those before it were of queues from
before the first release, which nothing brings up to date.
"""
MIGRATIONS: tuple[str, ...] = (
    "m0001_baseline",
    "m0002_schedules",
    "m0003_limits",
    "m0004_changes",
    "m0005_hooks",
    "m0006_reports",
    "m0007_handlers",
    "m0008_forced",
    "m0009_sleeps",
    "m0010_access",
    "m0011_webhooks",
    "m0012_traces",
    "m0013_undo",
    "m0014_graphs",
    "m0015_usage",
    "m0016_resources",
)
"""Packages in this one, oldest first, with a module per dialect."""


def current() -> int:
    """Return the version of the schema that this code speaks."""
    return BASELINE - 1 + len(MIGRATIONS)


def since(version: int) -> Sequence[str]:
    """Return the migrations that a schema of this version lacks; 0 is no schema at all."""
    return MIGRATIONS[max(version - BASELINE + 1, 0) :]
