"""Checks MariaDB and MySQL: what a commit is worth there, what we may do, and what fits."""

from collections.abc import Iterator, Sequence

from queuectl.errors import BadSettingError, StoreDeniedError, StoreError
from queuectl.settings import Layer, Settings, layered
from queuectl.store.dialects import TABLES
from queuectl.store.health.common import error, gather, ok, warning
from queuectl.store.health.findings import Finding
from queuectl.store.health.server import (
    NEEDED,
    about_connections,
    about_grants,
    check_isolation,
    checks_of_servers,
)
from queuectl.store.mysql.driver import KINDS, MysqlDriver
from queuectl.store.sqlstore import SqlStore
from queuectl.store.statements import mysql_health as sql

PACKET_MARGIN = 2**20
"""Bytes of a statement besides the output in it."""


def check(store: SqlStore) -> list[Finding]:
    """Check a queue in a MariaDB or MySQL database, as far as it is there."""
    driver = store.db.driver
    assert isinstance(driver, MysqlDriver)
    name, version = KINDS[driver.is_mariadb]
    oldest = ".".join(map(str, version))
    isolation = sql.ISOLATION_IN_MARIADB if driver.is_mariadb else sql.ISOLATION_IN_MYSQL
    return gather(
        {
            "engine": lambda: _check_mysql(store, name, oldest),
            "durability": lambda: _check_mysql_commits(store),
            "read-only": lambda: _check_mysql_writable(store),
            "isolation": lambda: check_isolation(store, isolation),
            "grants": lambda: _check_mysql_grants(store, driver),
            "connections": lambda: _check_mysql_connections(store),
            "packets": lambda: _check_packets(store),
            **checks_of_servers(store),
        }
    )


def _check_mysql(store: SqlStore, name: str, oldest: str) -> Iterator[Finding]:
    ((version,),) = store.db.rows(sql.VERSION)
    yield ok("engine", f"{name} {version}; {oldest} or newer is needed.")


def _check_mysql_commits(store: SqlStore) -> Iterator[Finding]:
    value = _variables(store)
    flush = value.get("innodb_flush_log_at_trx_commit", "1")
    found = []
    if flush in ("0", "2"):
        found.append(
            error(
                "durability",
                f"innodb_flush_log_at_trx_commit is {flush}: a power cut can lose about a second of"
                " acknowledged jobs.",
                _set_global("innodb_flush_log_at_trx_commit", 1),
            )
        )
    method = value.get("innodb_flush_method", "")
    if method.lower() == "nosync":
        found.append(
            error(
                "durability",
                "innodb_flush_method is nosync: nothing is ever flushed to the disk.",
                "Remove innodb_flush_method from the server's my.cnf and restart it.",
            )
        )
    if value.get("innodb_doublewrite", "ON").upper() in ("OFF", "0"):
        found.append(
            warning(
                "durability",
                "innodb_doublewrite is off: a power cut can damage the database, unless its"
                " filesystem writes whole pages or nothing, as ZFS does.",
                "Set innodb_doublewrite = ON in the server's my.cnf and restart it.",
            )
        )
    synced = value.get("sync_binlog", "1")
    if value.get("log_bin", "OFF") == "ON" and synced != "1":
        found.append(
            error(
                "durability",
                f"The binary log is on and sync_binlog is {synced}: after a power cut the server"
                " undoes acknowledged commits that aren't in that log.",
                _set_global("sync_binlog", 1),
            )
        )
    yield from found
    if not found:
        text = f"innodb_flush_log_at_trx_commit {flush}"
        yield ok("durability", f"A commit is on the disk when it returns ({text}).")


def _set_global(name: str, value: int) -> str:
    return (
        f"Run: SET GLOBAL {name} = {value}; and put {name} = {value} into the server's my.cnf,"
        " for when it restarts."
    )


def _check_mysql_writable(store: SqlStore) -> Iterator[Finding]:
    value = _variables(store)
    names = [
        name
        for name in ("read_only", "super_read_only", "innodb_read_only")
        if value.get(name, "OFF").upper() not in ("OFF", "0")
    ]
    if names:
        yield error(
            "read-only",
            f"The server can only be read ({', '.join(names)}): it is a replica, or set so.",
            f"Name the primary in the URL, or run: SET GLOBAL {names[0]} = OFF;",
        )


def _check_mysql_grants(store: SqlStore, driver: MysqlDriver) -> Iterator[Finding]:
    ((who,),) = store.db.rows(sql.USER)
    user, _, host = str(who).rpartition("@")
    prefix, database = driver.prefix, driver.address.database
    if not store.db.rows(sql.TABLES_SEEN, prefix=prefix):
        # Without any right on a table, it can't even be told that it is there.
        return
    missing = [
        (table, right)
        for table, rights in NEEDED.items()
        for right in rights
        if not _may(store, right, table)
    ]

    def grant(rights: str, tables: Sequence[str]) -> str:
        names = (f"`{database}`.`{prefix}{table}`" for table in tables)
        return " ".join(f"GRANT {rights} ON {name} TO '{user}'@'{host}';" for name in names)

    yield from about_grants(str(who), missing, grant)


_COLUMNS = dict.fromkeys(TABLES, "seq") | {
    "tags": "tag",
    "counts": "jobs",
    "nodes": "pid",
    "queues": "paused_at",
    "rollups": "at",
    "config": "updated_at",
    "meta": "value",
    "receipts": "serial",
    "schedules": "anchor",
    "grants": "used_at",
    "keys": "meters",
    "uniques": "until",
    "pauses": "at",
    "emitted": "at",
    "webhooks": "url",
    "edges": "child",
}


def _may(store: SqlStore, right: str, table: str) -> bool:
    probe = sql.PROBES[right].replace("TABLE", f"{{{table}}}").replace("COLUMN", _COLUMNS[table])
    try:
        store.db.rows(probe)
    except StoreDeniedError:
        return False
    return True


def _check_mysql_connections(store: SqlStore) -> Iterator[Finding]:
    ((_, used),) = store.db.rows(sql.CONNECTED)
    most = int(_variables(store)["max_connections"])
    yield about_connections(int(used), most, _set_global("max_connections", 2 * most))


def _check_packets(store: SqlStore) -> Iterator[Finding]:
    """Compare the largest statement that the server takes with the output of a run.

    Both streams go into one statement, where half of the bytes may need another one before them.
    """
    size = int(_variables(store)["max_allowed_packet"])
    limit = _shared_settings(store).output_limit
    usual, worst_case = (n * limit + PACKET_MARGIN for n in (2, 4))
    text = f"max_allowed_packet is {size:,} bytes; output_limit is {limit:,}."
    megabytes = -(-worst_case // 2**20)
    advice = _set_global("max_allowed_packet", megabytes * 2**20)
    if size < usual:
        yield error("packets", f"{text} Jobs that write much can't be finished.", advice)
    elif size < worst_case:
        text = f"{text} Output that is mostly line ends or binary may not fit."
        yield warning("packets", text, advice)
    else:
        yield ok("packets", text)


def _shared_settings(store: SqlStore) -> Settings:
    """Return the settings of the config table; the usual ones where it can't be used."""
    try:
        return layered([Layer("the config table", store.settings.config())])[0]
    except (BadSettingError, StoreError):
        return Settings()


def _variables(store: SqlStore) -> dict[str, str]:
    """Return the settings that matter, as far as this server has them."""
    return {str(name).lower(): str(value) for name, value in store.db.rows(sql.VARIABLES)}
