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
from queuectl.store.postgresql import OLDEST, PostgresStore
from queuectl.store.server import ServerStore


def check(store: PostgresStore) -> list[Finding]:
    """Check a queue in a schema of a PostgreSQL database, as far as it is there."""
    schema, pooled, oldest = store.schema, store.pooled, OLDEST // 10000
    return gather(
        {
            "engine": lambda: _check_postgresql(store, oldest),
            "durability": lambda: _check_postgresql_commits(store, pooled),
            "read-only": lambda: _check_standby(store),
            "isolation": lambda: check_isolation(
                store,
                "SELECT current_setting('transaction_isolation'),"
                " current_setting('default_transaction_isolation')",
            ),
            "grants": lambda: _check_postgresql_grants(store, schema),
            "connections": lambda: _check_postgresql_connections(store),
            "wake-up": lambda: _check_pooler(pooled),
            **checks_of_servers(store),
        }
    )


def _check_postgresql(store: ServerStore, oldest: int) -> Iterator[Finding]:
    ((version,),) = store._run("SELECT current_setting('server_version')", {})
    yield ok("engine", f"PostgreSQL {version}; {oldest} or newer is needed.")


def _check_postgresql_commits(store: ServerStore, pooled: bool) -> Iterator[Finding]:
    # What a session begins with: ours may have changed it.
    value: dict[str, str] = dict(
        store._run(
            "SELECT name, reset_val FROM pg_settings"
            " WHERE name IN ('fsync', 'full_page_writes', 'synchronous_commit')",
            {},
        )
    )
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


def _check_standby(store: ServerStore) -> Iterator[Finding]:
    ((standby, read_only),) = store._run(
        "SELECT pg_is_in_recovery(), current_setting('default_transaction_read_only')", {}
    )
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


def _check_postgresql_grants(store: ServerStore, schema: str) -> Iterator[Finding]:
    ((role,),) = store._run("SELECT current_user", {})
    to = _quoted(role)
    usage = store._run(
        "SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = %(schema)s",
        {"schema": schema},
    )
    if usage and not usage[0][0]:
        yield error(
            "grants",
            f"{role} may not use the schema {schema}.",
            f"Run as its owner: GRANT USAGE ON SCHEMA {_quoted(schema)} TO {to};",
        )
    rows = store._run(
        """
        SELECT c.relname, r.name FROM pg_class c
        JOIN pg_namespace n ON n.oid = c.relnamespace
        CROSS JOIN unnest(ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE']) AS r (name)
        WHERE n.nspname = %(schema)s AND c.relkind IN ('r', 'p')
            AND NOT has_table_privilege(c.oid, r.name)
        """,
        {"schema": schema},
    )
    missing = [(table, right) for table, right in rows if right in NEEDED.get(table, ())]

    def grant(rights: str, tables: Sequence[str]) -> str:
        on = ", ".join(f"{_quoted(schema)}.{table}" for table in tables)
        return f"GRANT {rights} ON {on} TO {to};"

    if missing or (usage and usage[0][0]):
        yield from about_grants(role, missing, grant)


def _check_postgresql_connections(store: ServerStore) -> Iterator[Finding]:
    ((used, most),) = store._run(
        "SELECT (SELECT sum(numbackends) FROM pg_stat_database),"
        " current_setting('max_connections')::int"
        " - current_setting('superuser_reserved_connections')::int",
        {},
    )
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
