"""Checks what all database servers have in common: clock, isolation, connections, rights."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from time import time_ns

from queuectl.store.dialects import TABLES
from queuectl.store.health.common import (
    Check,
    check_access,
    check_disks,
    check_tables,
    check_version,
    error,
    ok,
    warning,
)
from queuectl.store.health.findings import Finding
from queuectl.store.sqlstore import SqlStore
from queuectl.when import human

SKEW = 2_000
"""Milliseconds between two clocks that are worth a word."""
CROWDED = 0.9
"""The share of connections in use that is worth a word."""
_ALL = ("SELECT", "INSERT", "UPDATE", "DELETE")
_FEWER: Mapping[str, Sequence[str]] = {
    "meta": ("SELECT",),
    "tags": ("SELECT",),
    "attempts": ("SELECT", "INSERT"),
    "outputs": ("SELECT", "INSERT"),
    "inputs": ("SELECT", "INSERT"),
    "events": ("SELECT", "INSERT"),
    "ticks": ("SELECT", "INSERT", "DELETE"),
}
NEEDED: Mapping[str, Sequence[str]] = {table: _FEWER.get(table, _ALL) for table in TABLES}
"""The rights that nodes and commands need; triggers do the rest as the owner of the tables."""


def checks_of_servers(store: SqlStore) -> dict[str, Check]:
    """Return the checks that are the same for all servers."""
    return {
        "clock": lambda: _check_clock(store),
        "schema": lambda: _check_schema(store),
        "permissions": lambda: check_access([store.db.driver.companion]),
        "disk": lambda: check_disks({"the output of running jobs": store.folder.spool}),
    }


def _check_schema(store: SqlStore) -> Iterator[Finding]:
    version = store.administration.schema_version()
    finding = check_version(version)
    yield finding
    if not finding.advice:
        yield from check_tables(store)


def check_isolation(store: SqlStore, question: str) -> Iterator[Finding]:
    """Ask inside a transaction what it sees of others, and what is usual on the server."""
    with store.db.transaction():
        ((level, default),) = store.db.rows(question)
    got, usual = (str(name).replace("-", " ").upper() for name in (level, default))
    text = f"Transactions are {got}; the server's own default is {usual}."
    if got == "READ COMMITTED":
        yield ok("isolation", text)
    else:
        yield error(
            "isolation",
            f"{text} They must be READ COMMITTED.",
            "Look for what sets it: a proxy or pooler in between, or an option in the URL.",
        )


def _check_clock(store: SqlStore) -> Iterator[Finding]:
    ahead, doubt = min((_ask_time(store) for _ in range(3)), key=lambda asked: asked[1])
    order = "ahead of" if ahead >= 0 else "behind"
    text = f"This host's clock is {human(abs(ahead))} {order} the server's (± {human(doubt)})."
    if abs(ahead) - doubt > SKEW:
        yield warning(
            "clock",
            f"{text} It does queuectl no harm: all its times are the server's. But other programs"
            " show other times.",
            "Let both hosts set their clocks by NTP (`timedatectl set-ntp true`).",
        )
    else:
        yield ok("clock", text)


def _ask_time(store: SqlStore) -> tuple[float, float]:
    """Return how many milliseconds our clock is ahead, and by how much that may be wrong."""
    asked = time_ns() / 1e6
    ((said,),) = store.db.rows(store.db.sql.CLOCK)
    heard = time_ns() / 1e6
    return (asked + heard) / 2 - (int(said) + 0.5), (heard - asked) / 2 + 1


def about_connections(used: int, most: int, advice: str) -> Finding:
    """Say how many connections are left."""
    text = f"{used} of {most} connections are in use."
    if used >= CROWDED * most:
        return warning("connections", f"{text} When none is left, nodes lose their leases.", advice)
    return ok("connections", text)


def about_grants(
    who: str, missing: Sequence[tuple[str, str]], grant: Callable[[str, Sequence[str]], str]
) -> Iterator[Finding]:
    """Say which rights somebody lacks; `grant` writes what grants rights on tables."""
    rights = {
        table: ", ".join(right for right in _ALL if (table, right) in missing)
        for table in TABLES
        if any(table == lacking for lacking, _ in missing)
    }
    for lacked in dict.fromkeys(rights.values()):
        tables = [table for table, those in rights.items() if those == lacked]
        yield error(
            "grants",
            f"{who} lacks {lacked} on {', '.join(tables)}.",
            f"Run as the owner: {grant(lacked, tables)}",
        )
    if not missing:
        yield ok("grants", f"{who} has every right that nodes and commands need.")
