"""The command line on a database server: what it says when it can't, and what it never says."""

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.servers.mariadb import MariaDBAccess
from tests.servers.postgres import PostgresAccess
from tests.support import Lab, lab_in, wait_for

SECRET = "secret"


@pytest.fixture(params=["postgres", "mariadb"])
def url(request: pytest.FixtureRequest) -> str:
    """An empty place on a server, with the password in its URL."""
    found: str = request.getfixturevalue(f"{request.param}_url")
    assert SECRET in found
    return found


@pytest.fixture
def server(url: str, tmp_path: Path) -> Iterator[Lab]:
    """A queue there."""
    with lab_in(tmp_path, url) as lab:
        yield lab


def run(lab: Lab, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run the command with other words in its environment."""
    return subprocess.run(
        lab.command(*args),
        env=lab.env | env,
        cwd=lab.folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def refused(done: subprocess.CompletedProcess[str]) -> str:
    """Check that a command failed with one sentence, and return it."""
    assert done.returncode == 5, (done.returncode, done.stderr)
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
    return done.stderr


class TestWhenItCannot:
    def test_nobody_answers(self, lab: Lab) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        for scheme in ("postgresql", "mysql", "mariadb"):
            url = f"{scheme}://me:{SECRET}@127.0.0.1:{port}/jobs"
            text = refused(run(lab, "enqueue", "true", QUEUECTL_DB=url))
            assert f"{scheme}://me@127.0.0.1:{port}/jobs can't be reached" in text

    @pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
    def test_somebody_answers_who_never_says_anything(self, lab: Lab, scheme: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            port = silent.getsockname()[1]
            url = f"{scheme}://me:{SECRET}@127.0.0.1:{port}/jobs?connect_timeout=2"
            assert "can't be reached" in refused(run(lab, "status", QUEUECTL_DB=url))

    @pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
    def test_no_such_host(self, lab: Lab, scheme: str) -> None:
        url = f"{scheme}://me:{SECRET}@no-such-host.invalid/jobs"
        assert "can't be reached" in refused(run(lab, "status", QUEUECTL_DB=url))

    def test_the_password_is_wrong(self, server: Lab) -> None:
        url = server.url.replace(f":{SECRET}@", ":wrong@")
        text = refused(run(server, "list", QUEUECTL_DB=url))
        assert "refuses the password of queuectl" in text
        assert "wrong" not in text

    def test_there_is_no_password(self, server: Lab) -> None:
        text = refused(run(server, "list", QUEUECTL_DB=server.url.replace(f":{SECRET}@", "@")))
        assert "password" in text

    def test_the_database_is_missing(self, server: Lab) -> None:
        base, _, rest = server.url.rpartition("/")
        url = f"{base}/no_such_database?{rest.partition('?')[2]}"
        text = refused(run(server, "list", QUEUECTL_DB=url))
        assert "no_such_database" in text

    def test_the_queue_is_missing(self, server: Lab) -> None:
        url = server.url.partition("?")[0] + (
            "?schema=nowhere" if server.url.startswith("postgres") else "?prefix=nowhere_"
        )
        text = refused(run(server, "list", QUEUECTL_DB=url))
        assert "no queue" in text
        assert "queuectl db init" in text

    def test_a_schema_that_is_too_old_or_too_new(self, server: Lab) -> None:
        store = server.queue.store
        store.administration.set_meta("schema_version", "1")  # type: ignore[attr-defined]
        assert "before the first release" in refused(run(server, "list"))
        store.administration.set_meta("schema_version", "99")  # type: ignore[attr-defined]
        assert "newer queuectl" in refused(run(server, "list"))

    def test_a_name_for_the_tables_that_cannot_be(self, server: Lab) -> None:
        option = "schema" if server.url.startswith("postgres") else "prefix"
        for name in ("my schema", "a;drop", "", "x" * 40, 'q"', "ä"):
            url = f"{server.url.partition('?')[0]}?{option}={name}"
            done = run(server, "list", QUEUECTL_DB=url)
            assert done.returncode == 2, name
            assert option in done.stderr

    def test_a_url_without_a_database(self, lab: Lab) -> None:
        done = run(lab, "list", QUEUECTL_DB=f"postgresql://me:{SECRET}@localhost")
        assert done.returncode == 2
        assert "names no database" in done.stderr
        assert SECRET not in done.stderr


class TestRights:
    def test_of_a_role_without_any_in_postgresql(
        self, postgres_url: str, postgres_server: PostgresAccess, tmp_path: Path
    ) -> None:
        database = postgres_url.rpartition("/")[2].partition("?")[0]
        with lab_in(tmp_path, postgres_url) as lab:
            postgres_server.sql("DROP ROLE IF EXISTS nobody_much", database)
            postgres_server.sql("CREATE ROLE nobody_much LOGIN PASSWORD 'secret'", database)
            url = postgres_url.replace("queuectl:", "nobody_much:")
            text = refused(run(lab, "enqueue", "true", QUEUECTL_DB=url))
            assert "denies a right" in text
            assert "permission denied for schema" in text
            postgres_server.sql("DROP ROLE nobody_much", database)

    def test_of_a_user_without_any_in_mariadb(
        self, mariadb_url: str, mariadb_server: MariaDBAccess, tmp_path: Path
    ) -> None:
        database = mariadb_url.rpartition("/")[2].partition("?")[0]
        with lab_in(tmp_path, mariadb_url) as lab:
            mariadb_server.sql("CREATE OR REPLACE USER nobody_much IDENTIFIED BY 'secret'")
            url = mariadb_url.replace("queuectl:", "nobody_much:")
            assert "doesn't let nobody_much into" in refused(run(lab, "list", QUEUECTL_DB=url))
            mariadb_server.sql(f"GRANT SELECT ON {database}.* TO nobody_much")
            text = refused(run(lab, "enqueue", "true", QUEUECTL_DB=url))
            assert "denies a right" in text
            assert "INSERT command denied" in text
            mariadb_server.sql("DROP USER nobody_much")


class TestOldServers:
    def test_an_old_mariadb_is_refused(self, lab: Lab) -> None:
        greeting = b"\x0a" + b"5.5.5-10.3.39-MariaDB\0" + b"\x01\0\0\0" + b"abcdefgh\0"
        greeting += b"\xfe\xf7\x08\x02\0\x0f\x80\x15" + b"\0" * 10 + b"ijklmnopqrst\0"
        greeting += b"mysql_native_password\0"
        okay = b"\0\0\0\x02\0\0\0"

        def serve(listening: socket.socket) -> None:
            peer, _ = listening.accept()
            with peer:
                peer.sendall(len(greeting).to_bytes(3, "little") + b"\0" + greeting)
                for number in (2, 1):
                    peer.recv(65536)
                    peer.sendall(len(okay).to_bytes(3, "little") + bytes([number]) + okay)
                peer.recv(65536)

        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = Thread(target=serve, args=[listening])
            thread.start()
            url = f"mysql://me:{SECRET}@127.0.0.1:{listening.getsockname()[1]}/jobs"
            text = refused(run(lab, "list", QUEUECTL_DB=url))
            thread.join(30)
        assert "is MariaDB 10.3.39; queuectl needs 10.6 or newer" in text

    def test_an_old_postgresql_is_refused(self, lab: Lab) -> None:
        def message(kind: bytes, body: bytes) -> bytes:
            return kind + (len(body) + 4).to_bytes(4, "big") + body

        hello = message(b"R", b"\0\0\0\0")
        for name, value in ((b"server_version", b"9.6.24"), (b"client_encoding", b"UTF8")):
            hello += message(b"S", name + b"\0" + value + b"\0")
        hello += message(b"K", b"\0\0\0\1\0\0\0\2") + message(b"Z", b"I")

        def serve(listening: socket.socket) -> None:
            peer, _ = listening.accept()
            with peer:
                while b"user" not in peer.recv(65536):
                    peer.sendall(b"N")  # no encryption
                peer.sendall(hello)
                peer.recv(65536)

        with socket.create_server(("127.0.0.1", 0)) as listening:
            thread = Thread(target=serve, args=[listening])
            thread.start()
            port = listening.getsockname()[1]
            url = f"postgresql://me:{SECRET}@127.0.0.1:{port}/jobs?gssencmode=disable"
            text = refused(run(lab, "list", QUEUECTL_DB=url))
            thread.join(30)
        assert "is PostgreSQL 9; queuectl needs 13 or newer" in text


class TestSecrets:
    def test_no_command_tells_the_password(self, server: Lab) -> None:
        server.queue.enqueue("false", id="one", max_retries=0)
        server.node()
        server.queue.wait("one")
        said = server.log()
        for words in (
            "--help",
            "status",
            "status --json",
            "list --json",
            "show one",
            "show one --json",
            "output one",
            "events --json",
            "stats --json",
            "worker list --json",
            "config list",
            "config list --json",
            "db info",
            "db info --json",
            "db check",
            "no-such-command",
            "show nothing",
            "enqueue",
        ):
            done = server.run(*words.split())
            said += done.stdout + done.stderr
        assert "queuectl@127.0.0.1" in said
        assert SECRET not in said

    def test_nor_does_the_list_of_processes(self, server: Lab) -> None:
        bare = {k: v for k, v in server.env.items() if k != "QUEUECTL_DB"}
        process = subprocess.Popen(
            server.command("--db", server.url, "worker", "start"),
            env=bare,
            cwd=server.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server.nodes.append(process)
        wait_for(lambda: server.queue.nodes(), "the node to register")
        family = [process.pid, *children(process.pid)]
        assert len(family) > 1
        for pid in family:
            line = Path(f"/proc/{pid}/cmdline").read_text()
            assert SECRET not in line
        assert "queuectl:******@" in Path(f"/proc/{process.pid}/cmdline").read_text()

    def test_nor_do_jobs_get_to_see_it(self, server: Lab) -> None:
        server.extra_env = {
            "QUEUECTL_DB_PATH": server.url,
            "PGPASSWORD": SECRET if server.url.startswith("postgres") else "",
            "MYSQL_PWD": SECRET if server.url.startswith("mysql") else "",
        }
        server.node()
        job = server.queue.enqueue("env")
        (done,) = server.queue.wait(job.id, timeout=60)
        seen = server.queue.output(done.id).stdout.decode()
        assert f"QUEUECTL_DB={server.queue.url}\n" in seen
        assert SECRET not in seen

    def test_nor_does_it_travel_with_a_whole_environment(self, server: Lab) -> None:
        server.extra_env = {
            "QUEUECTL_DB_PATH": server.url,
            "PGPASSWORD": SECRET if server.url.startswith("postgres") else "",
            "MYSQL_PWD": SECRET if server.url.startswith("mysql") else "",
            "MINE": "1",
        }
        id = server.run("enqueue", "-q", "--env-all", "env").stdout.strip()
        kept = server.queue.get(id).env
        assert kept["MINE"] == "1"
        assert SECRET not in str(kept)
        server.node()
        server.queue.wait(id, timeout=60)
        seen = server.queue.output(id).stdout.decode()
        assert f"QUEUECTL_DB={server.queue.url}\n" in seen
        assert SECRET not in seen

    def test_an_argument_that_is_repeated_in_an_error_is_repeated_without_it(
        self, server: Lab
    ) -> None:
        done = server.run("status", server.url)
        assert done.returncode == 2
        assert "***" in done.stderr
        assert SECRET not in done.stderr

    def test_nor_does_the_hint_how_to_go_on(self, server: Lab) -> None:
        server.queue.enqueue_many(["true"] * 3)
        done = server.run("--db", server.url, "list", "-n", "1")
        assert "go on with: queuectl list --db" in done.stderr
        assert SECRET not in done.stderr

    def test_json_stays_json(self, server: Lab) -> None:
        assert json.loads(server.run("db", "info", "--json").stdout)["database"] == server.queue.url


def children(pid: int) -> list[int]:
    """Return the processes that a process has started and that live."""
    tasks = Path(f"/proc/{pid}/task")
    return [
        int(child)
        for task in os.listdir(tasks)
        for child in (tasks / task / "children").read_text().split()
    ]
