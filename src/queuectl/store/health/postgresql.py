"""Checks PostgreSQL: what a commit is worth there, what we may do, and what is in between."""

from collections.abc import Iterator, Sequence

from queuectl.store.health.common import error, gather, note, ok, warning
from queuectl.store.health.findings import Finding
from queuectl.store.health.server import (
    NEEDED,
    about_connections,
    about_grants,
    check_isolation,
    checks_of_servers,
)
from queuectl.store.postgresql.driver import OLDEST, PostgresDriver
from queuectl.store.sqlstore import SqlStore
from queuectl.store.statements import postgresql_health as sql


def check(store: SqlStore) -> list[Finding]:
    """Check a queue in a schema of a PostgreSQL database, as far as it is there."""
    driver = store.db.driver
    assert isinstance(driver, PostgresDriver)
    schema, pooled, oldest = driver.schema, driver.pooled, OLDEST // 10000
    return gather(
        {
            "engine": lambda: _check_postgresql(store, oldest),
            "durability": lambda: _check_postgresql_commits(store, pooled),
            "read-only": lambda: _check_standby(store),
            "isolation": lambda: check_isolation(store, sql.ISOLATION),
            "grants": lambda: _check_postgresql_grants(store, schema),
            "connections": lambda: _check_postgresql_connections(store),
            "wake-up": lambda: _check_pooler(pooled),
            **checks_of_servers(store),
        }
    )


def _check_postgresql(store: SqlStore, oldest: int) -> Iterator[Finding]:
    ((version,),) = store.db.rows(sql.VERSION)
    yield ok("engine", f"PostgreSQL {version}; {oldest} or newer is needed.")


def _check_postgresql_commits(store: SqlStore, pooled: bool) -> Iterator[Finding]:
    value: dict[str, str] = dict(store.db.rows(sql.DURABILITY))
    if value["fsync"] == "off":
        yield error(
            "durability",
            "fsync is off: a power cut can lose acknowledged jobs, and damage the database.",
            "Run: ALTER SYSTEM SET fsync = on; SELECT pg_reload_conf();",
        )
    if value["full_page_writes"] == "off":
        yield warning(
            "durability",
            "full_page_writes is off: a power cut can damage the database, unless its filesystem"
            " writes whole pages or nothing, as ZFS does.",
            "Run: ALTER SYSTEM SET full_page_writes = on; SELECT pg_reload_conf();",
        )
    mend = "Run: ALTER SYSTEM SET synchronous_commit = on; SELECT pg_reload_conf();"
    if value["synchronous_commit"] == "off" and pooled:
        yield error(
            "durability",
            "synchronous_commit is off, and behind a pooler queuectl can't switch it on for"
            " itself: a crash of the server can lose acknowledged jobs.",
            f"{mend} Or for one user: ALTER ROLE ... SET synchronous_commit = on;",
        )
    elif value["synchronous_commit"] == "off":
        yield note(
            "durability",
            "synchronous_commit is off on this server; queuectl switches it on for its own"
            " sessions. Other programs that insert jobs can lose them in a crash of the server.",
            mend,
        )
    if "off" not in value.values():
        shown = ", ".join(f"{name} {setting}" for name, setting in sorted(value.items()))
        yield ok("durability", f"A commit is on the disk when it returns ({shown}).")


def _check_standby(store: SqlStore) -> Iterator[Finding]:
    ((standby, read_only),) = store.db.rows(sql.READ_ONLY)
    if standby:
        yield error(
            "read-only",
            "The server is a standby: it can only be read.",
            "Name the primary in the URL; with several hosts add ?target_session_attrs=read-write.",
        )
    elif read_only == "on":
        yield note(
            "read-only",
            "Sessions begin read-only on this server; queuectl asks for writing by itself.",
            "Run, if that isn't meant: ALTER SYSTEM RESET default_transaction_read_only;"
            " SELECT pg_reload_conf();",
        )


def _check_postgresql_grants(store: SqlStore, schema: str) -> Iterator[Finding]:
    ((role,),) = store.db.rows(sql.ROLE)
    to = _quoted(role)
    usage = store.db.rows(sql.MAY_USE_SCHEMA, schema=schema)
    if usage and not usage[0][0]:
        yield error(
            "grants",
            f"{role} may not use the schema {schema}.",
            f"Run as its owner: GRANT USAGE ON SCHEMA {_quoted(schema)} TO {to};",
        )
    rows = store.db.rows(sql.MISSING_RIGHTS, schema=schema)
    missing = [(table, right) for table, right in rows if right in NEEDED.get(table, ())]

    def grant(rights: str, tables: Sequence[str]) -> str:
        on = ", ".join(f"{_quoted(schema)}.{table}" for table in tables)
        return f"GRANT {rights} ON {on} TO {to};"

    if missing or (usage and usage[0][0]):
        yield from about_grants(role, missing, grant)


def _check_postgresql_connections(store: SqlStore) -> Iterator[Finding]:
    ((used, most),) = store.db.rows(sql.CONNECTIONS)
    yield about_connections(
        int(used), int(most), "Raise max_connections and restart the server, or put PgBouncer"
        " in front of it.",
    )  # fmt: skip


def _check_pooler(pooled: bool) -> Iterator[Finding]:
    if pooled:
        yield note(
            "wake-up",
            "There is a pooler in between, through which no notification comes: idle nodes poll,"
            " and start a new job within about a second.",
            "Let the nodes connect to the server itself if that is too slow.",
        )
    else:
        yield ok("wake-up", "The server notifies nodes of new jobs.")


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
