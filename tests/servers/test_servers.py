"""The servers of the tests, tested: they start, ask for passwords, survive a kill and go away."""

import select
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import psycopg
import pytest

from tests.servers import HOST, QUEUECTL, Login, ServerError, is_gone
from tests.servers.install import PACKAGES, InstallError, find, main, no_services, program
from tests.servers.mariadb import MariaDB, MariaDBAccess
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import Postgres, PostgresAccess
from tests.servers.proxy import Moment, Proxy
from tests.servers.shared import CHECKOUT, Meeting, shared_port
from tests.support import PATIENCE, wait_for

WRONG = Login(QUEUECTL.name, "guess")


@pytest.fixture
def proxy(postgres_server: PostgresAccess) -> Iterator[Proxy]:
    """A proxy in front of PostgreSQL."""
    with Proxy(HOST, postgres_server.port) as proxy:
        yield proxy


def through(proxy: Proxy, server: PostgresAccess, database: str) -> "psycopg.Connection[object]":
    return psycopg.connect(server.url(database, port=proxy.port), autocommit=True)


@pytest.mark.parametrize("kind", [Postgres, MariaDB])
def test_a_server_lives_crashes_and_goes(kind: type[Postgres] | type[MariaDB]) -> None:
    with Proxy(HOST, 1) as squatter:
        server = kind(fast=True)
        server.port = squatter.port
        with server:
            assert server.port != squatter.port
            server.create_database("shop_1")
            it_leaves_a_port_in_use_alone(server, squatter.port)
            it_lives_and_crashes(server)
            it_goes(server)


def it_leaves_a_port_in_use_alone(server: Postgres | MariaDB, taken: int) -> None:
    server.stop()
    free, server.port = server.port, taken
    with pytest.raises(ServerError, match="in use"):
        server.start()
    server.port = free
    server.start()


def it_lives_and_crashes(server: Postgres | MariaDB) -> None:
    ask = "SELECT 6 * 7"
    assert server.sql(ask, "shop_1", login=QUEUECTL) == "42"
    with pytest.raises(ServerError, match=r"password|denied"):
        server.sql(ask, "shop_1", login=WRONG)

    server.sql("CREATE TABLE t (n int); INSERT INTO t VALUES (5)", "shop_1", login=QUEUECTL)
    pids = server.processes()
    server.kill()
    assert server.processes() == []
    assert all(map(is_gone, pids))
    server.restart()
    assert server.sql("SELECT n FROM t", "shop_1", login=QUEUECTL) == "5"
    server.stop()
    server.start()
    assert server.sql("SELECT n FROM t", "shop_1", login=QUEUECTL) == "5"


def it_goes(server: Postgres | MariaDB) -> None:
    server.drop_database("shop_1")
    with pytest.raises(ServerError, match="shop_1"):
        server.sql("SELECT 1", "shop_1", login=QUEUECTL)
    pids = server.processes()
    server.close()
    assert all(map(is_gone, pids))
    assert not server.folder.exists()


def test_a_server_ends_with_its_starter() -> None:
    script = """if True:
        import sys
        from tests.servers.mariadb import MariaDB
        from tests.servers.postgres import Postgres
        servers = Postgres(fast=True), MariaDB(fast=True)
        for server in servers:
            server.start()
        print(*(pid for server in servers for pid in server.processes()))
        print(*(server.folder for server in servers), flush=True)
        sys.stdin.read()
    """
    command = [sys.executable, "-c", script]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=CHECKOUT, stdin=pipe, stdout=pipe, text=True) as starter:
        assert starter.stdout is not None
        pids = [int(pid) for pid in starter.stdout.readline().split()]
        folders = starter.stdout.readline().split()
        assert len(pids) > 2
        starter.kill()
    wait_for(lambda: all(map(is_gone, pids)), "the orphans to end")
    for folder in folders:
        subprocess.run(["rm", "-r", folder], check=True)


def test_a_pooler_gives_a_session_to_a_transaction(
    postgres_server: PostgresAccess, postgres_database: str
) -> None:
    ask = "BEGIN; SELECT pg_backend_pid(); COMMIT"
    with PgBouncer(postgres_server) as pooler:
        assert pooler.sql(ask, postgres_database, login=QUEUECTL).isdigit()
        with pytest.raises(ServerError, match="auth"):
            pooler.sql(ask, postgres_database, login=WRONG)
        with (
            psycopg.connect(pooler.url(postgres_database), autocommit=True) as one,
            psycopg.connect(pooler.url(postgres_database), autocommit=True) as two,
        ):
            pid = "SELECT pg_backend_pid()"
            assert one.execute(pid).fetchone() == two.execute(pid).fetchone()
        pooler.kill()
        pooler.restart()
        assert pooler.sql(ask, postgres_database, login=QUEUECTL).isdigit()
        pids = pooler.processes()
    assert all(map(is_gone, pids))


@pytest.mark.parametrize("when", get_args(Moment))
def test_a_proxy_cuts_around_a_commit(
    when: Moment, proxy: Proxy, postgres_server: PostgresAccess, postgres_database: str
) -> None:
    table = f"cut_{when}"
    postgres_server.sql(f"CREATE TABLE {table} (n int)", postgres_database, login=QUEUECTL)
    client = postgres_server.client(postgres_database, port=proxy.port)
    script = f"BEGIN;\nINSERT INTO {table} VALUES (1);\nCOMMIT;\n"
    subprocess.run(client, input=script, text=True, check=True)

    proxy.cut_when(b"COMMIT", when=when)
    cut = subprocess.run(client, input=script, text=True, capture_output=True, check=False)
    assert cut.returncode != 0
    assert "closed the connection" in cut.stderr or "reset" in cut.stderr
    assert proxy.fired == 1
    wait_for(lambda: proxy.connections == 0, "the cut link to go")
    count = f"LOCK TABLE {table}; SELECT count(*) FROM {table}"
    rows = int(postgres_server.sql(f"BEGIN; {count}; COMMIT", postgres_database))
    assert rows in {"before": {1}, "during": {1, 2}, "after": {2}}[when]

    subprocess.run(client, input=script, text=True, check=True)
    assert proxy.fired == 1, "once is enough"


@pytest.mark.parametrize("when", get_args(Moment))
def test_a_proxy_knows_statements_that_are_called_by_name(
    when: Moment, proxy: Proxy, postgres_server: PostgresAccess, postgres_database: str
) -> None:
    """The text of a statement is sent six times by psycopg, and then only its name."""
    make = "CREATE TABLE IF NOT EXISTS {0} (n int); TRUNCATE {0}".format(f"often_{when}")
    for cuts, before in enumerate(range(4, 9), 1):
        postgres_server.sql(make, postgres_database, login=QUEUECTL)
        add = f"INSERT INTO often_{when} VALUES (%s)"
        with through(proxy, postgres_server, postgres_database) as db:
            for n in range(before):
                db.execute(add, [n])
            proxy.cut_when(f"often_{when}".encode(), when=when)
            with pytest.raises(psycopg.OperationalError):
                db.execute(add, [before])
        assert proxy.fired == cuts
        count = f"BEGIN; LOCK TABLE often_{when}; SELECT count(*) FROM often_{when}; COMMIT"
        rows = int(postgres_server.sql(count, postgres_database))
        assert rows - before in {"before": {0}, "during": {0, 1}, "after": {1}}[when]


def test_a_proxy_cuts_and_refuses(
    proxy: Proxy, postgres_server: PostgresAccess, postgres_database: str
) -> None:
    with through(proxy, postgres_server, postgres_database) as old:
        proxy.refuse(True)
        with pytest.raises(psycopg.OperationalError, match="refused"):
            through(proxy, postgres_server, postgres_database)
        old.execute("SELECT 1")
        proxy.refuse(False)
        with through(proxy, postgres_server, postgres_database) as new:
            new.execute("SELECT 1")
            proxy.cut()
            for connection in (old, new):
                with pytest.raises(psycopg.OperationalError):
                    connection.execute("SELECT 1")
    through(proxy, postgres_server, postgres_database).close()


def test_a_frozen_proxy_says_nothing_until_it_thaws(proxy: Proxy) -> None:
    ask_for_tls = bytes.fromhex("00000008 04d2162f")
    address = (HOST, proxy.port)
    with socket.create_connection(address) as old:
        wait_for(lambda: proxy.connections == 1, "the link")
        proxy.freeze()
        with socket.create_connection(address) as new:
            for client in (old, new):
                client.sendall(ask_for_tls)
            assert select.select([old, new], [], [], 0.3) == ([], [], [])
            proxy.thaw()
            for client in (old, new):
                client.settimeout(PATIENCE)
                assert client.recv(1) == b"N"


@pytest.fixture
def empty_in_the_end(
    postgres_server: PostgresAccess,
    postgres_database: str,
    mariadb_server: MariaDBAccess,
    mariadb_database: str,
) -> Iterator[None]:
    """Ask for it before the places of the test, so that it looks when they are cleared."""
    schemas = r"SELECT nspname FROM pg_namespace WHERE nspname LIKE 'q\_%'"
    # Other tests of this process may have a place that lasts.
    tables = mariadb_server.sql("SHOW TABLES", mariadb_database)
    yield
    assert postgres_server.sql(schemas, postgres_database) == ""
    assert mariadb_server.sql("SHOW TABLES", mariadb_database) == tables


def test_each_test_has_a_place_that_is_cleared(
    empty_in_the_end: None,
    postgres_url: str,
    postgres_server: PostgresAccess,
    postgres_database: str,
    mariadb_url: str,
    mariadb_server: MariaDBAccess,
    mariadb_database: str,
) -> None:
    url, _, schema = postgres_url.partition("?schema=")
    assert url == postgres_server.url(postgres_database)
    postgres_server.sql(
        f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.t (n int)",
        postgres_database,
        login=QUEUECTL,
    )
    url, _, prefix = mariadb_url.partition("?prefix=")
    assert url == mariadb_server.url(mariadb_database)
    mariadb_server.sql(
        f"""
        CREATE TABLE {prefix}a (n int PRIMARY KEY);
        CREATE TABLE {prefix}b (n int, FOREIGN KEY (n) REFERENCES {prefix}a (n));
        CREATE TRIGGER {prefix}t AFTER INSERT ON {prefix}a FOR EACH ROW
            INSERT INTO {prefix}b VALUES (NEW.n);
        CREATE VIEW {prefix}v AS SELECT n FROM {prefix}b;
        """,
        mariadb_database,
        login=QUEUECTL,
    )


def user_of_a_shared_server(folder: Path) -> "subprocess.Popen[str]":
    """Start another process that shares a server, as a worker of pytest-xdist does."""
    script = """if True:
        import sys
        from pathlib import Path
        from tests.servers.shared import shared_port
        with shared_port("mariadb", Path(sys.argv[1])) as port:
            print(port, flush=True)
            sys.stdin.read()
    """
    return subprocess.Popen(
        [sys.executable, "-c", script, folder],
        cwd=CHECKOUT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_shared_server_stays_for_its_last_user(tmp_path: Path) -> None:
    meeting = Meeting("mariadb", tmp_path)
    with user_of_a_shared_server(tmp_path) as first, shared_port("mariadb", tmp_path) as port:
        assert first.stdout is not None
        assert int(first.stdout.readline()) == port
        keeper = meeting.read()["pid"]
        first.kill()
        first.wait()
        assert MariaDBAccess(port).sql("SELECT 1") == "1"
    assert is_gone(keeper)
    assert meeting.read() == {}
    with pytest.raises(ServerError):
        MariaDBAccess(port).sql("SELECT 1")


def test_a_shared_server_goes_if_all_its_users_are_killed(tmp_path: Path) -> None:
    meeting = Meeting("mariadb", tmp_path)
    with user_of_a_shared_server(tmp_path) as only:
        assert only.stdout is not None
        port = int(only.stdout.readline())
        keeper = meeting.read()["pid"]
        only.kill()
    wait_for(lambda: is_gone(keeper), "the keeper to end")
    assert meeting.read() == {}
    with pytest.raises(ServerError):
        MariaDBAccess(port).sql("SELECT 1")


def test_all_programs_are_found_or_missed_loudly(monkeypatch: pytest.MonkeyPatch) -> None:
    assert main() == 0
    assert all(map(find, PACKAGES))
    monkeypatch.setitem(PACKAGES, "no-such-program", "no-such-package")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(InstallError, match="apt-get install no-such-package"):
        program("no-such-program")


def test_services_stay_off_while_they_are_installed(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with no_services(policy):
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()
    policy.write_text("the host's own")
    with no_services(policy):
        pass
    assert policy.read_text() == "the host's own"
