"""Settings of a server that would change what our sessions do, if we let them."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from queuectl import Queue
from queuectl.filter import Filter
from queuectl.job import Job
from queuectl.store import open_store
from queuectl.store.contract import Decision
from queuectl.store.driver import ConflictError
from queuectl.store.sqlstore import SqlStore
from tests.contract.tools import MINUTE, a_node, add, raw, renew, take, transaction
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import PostgresAccess
from tests.servers.proxy import Proxy


@pytest.mark.parametrize(
    "setting",
    [
        "default_transaction_read_only = on",
        "default_transaction_isolation = 'serializable'",
        "search_path = ''",
        "synchronous_commit = off",
        "statement_timeout = '5s'",
    ],
)
def test_of_a_role_in_postgresql(
    postgres_url: str, postgres_server: PostgresAccess, postgres_database: str, setting: str
) -> None:
    open_store(postgres_url, create=True).close()
    role = f"ALTER ROLE queuectl IN DATABASE {postgres_database}"
    postgres_server.sql(f"{role} SET {setting}")
    try:
        store = open_store(postgres_url)
        a_node(store)
        assert renew(store, "node-1", until=store.clock.steady() + MINUTE)
        add(store, "x")
        assert len(take(store)) == 1
        store.tidy(now=store.clock.now())
        assert store.info()["synchronous_commit"] == "on"
        store.close()
    finally:
        postgres_server.sql(f"{role} RESET ALL")


@pytest.fixture(scope="module")
def odd_mariadb() -> Iterator[str]:
    """A server with settings that somebody liked for reasons of their own."""
    with MariaDB(fast=True, tls=True) as server:
        server.create_database("odd")
        server.sql(
            "SET GLOBAL sql_select_limit = 1, sql_mode = 'ORACLE', max_join_size = 1,"
            " sql_big_selects = 0, innodb_default_row_format = 'compact', autocommit = 0,"
            " tx_isolation = 'SERIALIZABLE', time_zone = '-07:00'"
        )
        yield server.url("odd")


def test_of_a_whole_mariadb(odd_mariadb: str) -> None:
    store = open_store(odd_mariadb, create=True)
    a_node(store)
    for n in range(3):
        add(store, f"job {n}", now=store.clock.now())
    assert len(store.jobs.select(Filter(), limit=None)) == 3
    assert len(take(store, 2, now=store.clock.now())) == 2
    assert store.verify() == []
    # It offers TLS, so that is used; to read all certificates of the host for that takes long.
    assert raw(store)._secure
    assert raw(store).ctx.cert_store_stats()["x509_ca"] == 0
    store.close()


@pytest.mark.parametrize("place", ["postgres_url", "mariadb_url"])
def test_two_who_cancel_everything_at_once_do_not_stumble(
    request: pytest.FixtureRequest, place: str, tmp_path: Path
) -> None:
    url: str = request.getfixturevalue(place)
    with Queue(url) as queue:
        queue.enqueue_many(["true"] * 300)
        command = str(Path(sys.executable).with_name("queuectl"))
        env = os.environ | {"QUEUECTL_DB": url, "HOME": str(tmp_path)}
        both = [
            subprocess.Popen(
                [command, "cancel", "--state", "pending", "-q"],
                env=env,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for _ in range(2)
        ]
        said = [process.communicate(timeout=100) for process in both]
        assert [process.returncode for process in both] == [0, 0], said
        ids = [id for out, _ in said for id in out.split()]
        assert len(ids) == len(set(ids)) == 300


@pytest.mark.parametrize("place", ["postgres_url", "mariadb_url"])
def test_what_is_locked_nobody_else_changes(request: pytest.FixtureRequest, place: str) -> None:
    url: str = request.getfixturevalue(place)
    with Queue(url) as queue, Queue(url) as other:
        assert isinstance(queue.store, SqlStore)
        assert isinstance(other.store, SqlStore)
        job = queue.enqueue("true")
        at_once = queue.store.db.driver.text("SELECT seq FROM {jobs} FOR UPDATE NOWAIT")
        busy = other.store

        def decide(held: Mapping[int, Job], now: int) -> dict[int, Decision]:
            assert held == {job.seq: job}
            with pytest.raises(ConflictError), busy.db.transaction():
                busy.db.run(at_once)
            return {}

        queue.store.jobs.change([job], decide)
        with transaction(other.store):
            assert len(other.store.db.run(at_once)) == 1


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_connection_that_is_cut_while_it_is_made_is_made_again(
    request: pytest.FixtureRequest, kind: str
) -> None:
    url: str = request.getfixturevalue(f"{kind}_url")
    server = request.getfixturevalue(f"{kind}_server")
    with Proxy("127.0.0.1", server.port) as proxy:
        # What every client says of itself when it introduces itself.
        proxy.cut_when(b"queuectl", when="before")
        through = url.replace(f":{server.port}/", f":{proxy.port}/")
        open_store(through, create=True).close()
        assert proxy.fired == 1
