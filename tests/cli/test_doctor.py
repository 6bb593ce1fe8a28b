"""`doctor`: what it finds on each database, what it says when there is none, and its exit codes."""

import os
import re
import signal
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

from queuectl import SCHEMA_VERSION, Queue, State, __version__
from queuectl.store import open_store
from tests.cli.conftest import Cli, Result
from tests.servers import ADMIN, HOST, QUEUECTL, Login
from tests.servers.mariadb import MariaDB, MariaDBAccess
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresAccess
from tests.support import wait_for

SECRETS = (QUEUECTL.password, ADMIN.password)
ADVICE = re.compile(r"^    \S", re.MULTILINE)


def examined(cli: Cli, *args: str, code: int = 0) -> list[dict[str, Any]]:
    """Run the doctor for programs; returns the findings."""
    told = proper(cli.run("doctor", "--json", *args), code)
    findings: list[dict[str, Any]] = told.json["findings"]
    assert told.json["ok"] == (code == 0)
    for finding in findings:
        assert set(finding) == {"level", "subject", "text", "advice"}
        assert (finding["advice"] is None) == (finding["level"] == "ok")
    check_opening(told, code)
    return findings


def examined_and_shown(cli: Cli, *args: str, code: int = 0) -> list[dict[str, Any]]:
    """Run the doctor for programs and for people, who are told the same; returns the findings."""
    findings = examined(cli, *args, code=code)
    shown = proper(cli.run("doctor", *args), code)
    assert len(ADVICE.findall(shown.stdout)) == sum(f["level"] != "ok" for f in findings)
    return findings


def proper(result: Result, code: int) -> Result:
    """Look at what holds whatever is wrong."""
    assert result.code == code, result
    assert "Traceback" not in result.stderr
    assert not any(secret in result.stdout + result.stderr for secret in SECRETS)
    return result


def make_queue(cli: Cli) -> None:
    """Make a queue with one job."""
    with Queue(str(cli.db)) as queue:
        queue.enqueue("true")


def check_opening(result: Result, code: int) -> None:
    """When the queue can't be opened, the usual sentence says so; else there is none."""
    if code == 5:
        (line,) = result.stderr.splitlines()
        assert line.startswith("queuectl: ")
    else:
        assert result.stderr == ""


def about(findings: list[dict[str, Any]], subject: str, level: str) -> list[dict[str, Any]]:
    """Return the findings about a subject, all of which must have this level."""
    found = [finding for finding in findings if finding["subject"] == subject]
    assert found, (subject, findings)
    assert {finding["level"] for finding in found} == {level}, found
    return found


def errors(findings: list[dict[str, Any]]) -> list[str]:
    """Return the subjects that are in error."""
    return [finding["subject"] for finding in findings if finding["level"] == "error"]


class TestSqlite:
    def test_a_healthy_queue(self, cli: Cli) -> None:
        make_queue(cli)
        findings = examined_and_shown(cli)
        assert errors(findings) == []
        (finding,) = about(findings, "version", "ok")
        assert f"queuectl {__version__}, for schema {SCHEMA_VERSION}." in finding["text"]
        for subject in ("place", "engine", "schema", "durability", "permissions"):
            about(findings, subject, "ok")
        (finding,) = about(findings, "nodes", "note")
        assert "1 job is waiting" in finding["text"]
        assert "clock" not in {finding["subject"] for finding in findings}

    def test_what_people_see(self, cli: Cli) -> None:
        make_queue(cli)
        result = cli.ok("doctor")
        assert result.lines[0] == "--- Notes ---"
        assert "--- OK ---" in result.lines
        assert re.search(r"^engine: +SQLite 3", result.stdout, re.MULTILINE)
        assert result.lines[-1].startswith("0 errors, ")
        assert "db check" in result.stderr

    def test_running_nodes_are_in_order(self, working: Cli) -> None:
        (finding,) = about(examined(working), "nodes", "ok")
        assert finding["text"] == "1 node is running, with 2 workers."

    def test_a_file_that_others_may_use(self, cli: Cli) -> None:
        make_queue(cli)
        for mode, level, code in (
            (0o640, "warning", 0),
            (0o644, "warning", 0),
            (0o666, "error", 1),
        ):
            cli.db.chmod(mode)
            found = about(examined_and_shown(cli, code=code), "permissions", level)
            assert f"Run: chmod 600 {cli.db}" in [finding["advice"] for finding in found]
            assert stat.S_IMODE(cli.db.stat().st_mode) == mode

    def test_a_folder_that_others_may_enter(self, cli: Cli) -> None:
        make_queue(cli)
        Path(f"{cli.db}.d").chmod(0o755)
        (finding,) = about(examined(cli), "permissions", "warning")
        assert finding["advice"] == f"Run: chmod 700 {cli.db}.d"

    def test_a_journal_that_was_lost_is_restored_by_opening(self, cli: Cli) -> None:
        make_queue(cli)
        db = apsw.Connection(str(cli.db))
        db.execute("PRAGMA journal_mode = DELETE").fetchall()
        db.close()
        (finding,) = about(examined(cli), "durability", "ok")
        assert "wal" in finding["text"]

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
    def test_a_disk_with_little_space_in_memory(self, cli: Cli, tmp_path: Path) -> None:
        folder = tmp_path / "disk"
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", folder], check=True)
        try:
            cli.variables["QUEUECTL_DB"] = str(folder / "queue.db")
            cli.add("true")
            findings = examined(cli, code=1)
            (finding,) = about(findings, "disk", "error")
            assert str(folder) in finding["text"]
            about(findings, "filesystem", "warning")
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)

    def test_a_node_that_was_killed(self, cli: Cli) -> None:
        id = cli.add("sleep 600")
        node = cli.node()
        wait_for(lambda: cli.queue.get(id).state == State.PROCESSING, "the job to run")
        node.send_signal(signal.SIGKILL)
        node.wait()
        (finding,) = about(examined(cli), "nodes", "warning")
        assert f"(pid {node.pid}) is gone" in finding["text"]
        assert "1 job is processing on it" in finding["text"]
        assert "worker start" in finding["advice"]

    def test_a_setting_that_cannot_be(self, cli: Cli) -> None:
        make_queue(cli)
        cli.variables["QUEUECTL_LEASE"] = "soon"
        (finding,) = about(examined(cli, code=1), "settings", "error")
        assert "lease" in finding["text"]

    def test_a_variable_that_means_nothing(self, cli: Cli) -> None:
        make_queue(cli)
        cli.variables["QUEUECTL_LEASES"] = "1m"
        result = cli.ok("doctor", "--json")
        (finding,) = about(result.json["findings"], "settings", "warning")
        assert "did you mean QUEUECTL_LEASE?" in finding["text"]


class TestAQueueThatCannotBeOpened:
    def test_a_missing_file_is_not_made(self, cli: Cli) -> None:
        findings = examined_and_shown(cli, code=5)
        (finding,) = about(findings, "file", "error")
        assert "no queue" in finding["text"]
        (finding,) = about(findings, "place", "ok")
        assert "chosen by the environment" in finding["text"]
        assert list(cli.folder.iterdir()) == []

    def test_a_file_that_is_no_database(self, cli: Cli) -> None:
        cli.db.write_text("these are my notes " * 100)
        cli.db.chmod(0o644)
        findings = examined_and_shown(cli, code=5)
        about(findings, "file", "error")
        about(findings, "permissions", "warning")
        assert cli.db.read_text().startswith("these are my notes")

    def test_a_file_of_a_newer_queuectl(self, cli: Cli) -> None:
        with Queue(str(cli.db)) as queue:
            queue.store.administration.set_meta("schema_version", "99")  # type: ignore[attr-defined]
        (finding,) = about(examined(cli, code=5), "file", "error")
        assert "Upgrade" in finding["advice"]

    def test_a_copy_that_was_cut_short(self, cli: Cli) -> None:
        with Queue(str(cli.db)) as queue:
            queue.store.administration.set_meta("copy", '{"source": "x"}')  # type: ignore[attr-defined]
        findings = examined(cli, code=5)
        assert len(about(findings, "copy", "error")) == 1
        assert len(about(findings, "durability", "ok")) == 1

    @pytest.mark.parametrize("scheme", ["postgresql", "mysql"])
    def test_nobody_answers(self, cli: Cli, scheme: str) -> None:
        with socket.socket() as free:
            free.bind((HOST, 0))
            port = free.getsockname()[1]
        cli.variables["QUEUECTL_DB"] = f"{scheme}://me:{QUEUECTL.password}@{HOST}:{port}/jobs"
        (finding,) = about(examined_and_shown(cli, code=5), "network", "error")
        assert f"Nothing answers at {HOST}, port {port}" in finding["text"]

    def test_a_host_that_is_not_known(self, cli: Cli) -> None:
        cli.variables["QUEUECTL_DB"] = "postgresql://me:secret@no-such-host.invalid/jobs"
        (finding,) = about(examined(cli, code=5), "network", "error")
        assert "no known host" in finding["text"]

    def test_a_wrong_url_is_a_matter_of_usage(self, cli: Cli) -> None:
        line = cli.refused("doctor", "--db", "postgresql://me:secret@localhost", code=2)
        assert "names no database" in line


@pytest.fixture(params=["postgres", "mariadb"])
def server(request: pytest.FixtureRequest) -> PostgresAccess | MariaDBAccess:
    """Each server in turn."""
    found: PostgresAccess | MariaDBAccess = request.getfixturevalue(f"{request.param}_server")
    return found


@pytest.fixture
def url(server: PostgresAccess | MariaDBAccess, request: pytest.FixtureRequest) -> str:
    """An empty place there."""
    kind = "postgres" if isinstance(server, PostgresAccess) else "mariadb"
    found: str = request.getfixturevalue(f"{kind}_url")
    return found


@pytest.fixture
def there(cli: Cli, url: str) -> Cli:
    """The command, with a queue on that server."""
    open_store(url, create=True).close()
    cli.variables["QUEUECTL_DB"] = url
    return cli


class TestServers:
    def test_a_server_that_does_not_keep_its_word(self, there: Cli) -> None:
        # The shared servers are set to be fast.
        findings = examined_and_shown(there, code=1)
        assert errors(findings) == ["durability"]
        for subject in ("engine", "schema", "isolation", "grants", "connections", "clock"):
            about(findings, subject, "ok")

    def test_no_tables_yet(self, cli: Cli, url: str) -> None:
        cli.variables["QUEUECTL_DB"] = url
        findings = examined(cli, code=5)
        (finding,) = about(findings, "schema", "error")
        assert finding["advice"] == "Run: queuectl db init"
        # The shared servers are set to be fast; besides that, one cause is named.
        assert set(errors(findings)) == {"durability", "schema"}
        assert "couldn't be checked" not in str(findings)
        about(findings, "isolation", "ok")

    @pytest.mark.parametrize(("version", "advice"), [("1", "a new queue"), ("99", "Upgrade")])
    def test_another_schema(self, there: Cli, url: str, version: str, advice: str) -> None:
        store = open_store(url)
        store.administration.set_meta("schema_version", version)
        store.close()
        findings = examined(there, code=5)
        (finding,) = about(findings, "schema", "error")
        assert advice in finding["advice"]
        about(findings, "clock", "ok")

    def test_a_wrong_password(self, there: Cli, url: str) -> None:
        there.variables["QUEUECTL_DB"] = url.replace(f":{QUEUECTL.password}@", ":wr0ng@")
        findings = examined_and_shown(there, code=5)
        about(findings, "network", "ok")
        (finding,) = about(findings, "login", "error")
        assert "refuses the password" in finding["text"]
        assert "wr0ng" not in str(findings)

    def test_a_missing_database(self, there: Cli, server: PostgresAccess | MariaDBAccess) -> None:
        there.variables["QUEUECTL_DB"] = server.url("nowhere", login=ADMIN)
        (finding,) = about(examined(there, code=5), "login", "error")
        assert "nowhere" in finding["text"]
        assert "nowhere" in finding["advice"]

    def test_a_password_on_the_command_line(self, there: Cli, url: str) -> None:
        (finding,) = about(examined_and_shown(there, "--db", url, code=1), "password", "note")
        assert "QUEUECTL_DB" in finding["advice"]

    def test_a_password_in_a_file_that_others_may_read(self, there: Cli, url: str) -> None:
        file = there.folder / "queuectl.toml"
        file.write_text(f'db = "{url}"\n')
        there.variables["QUEUECTL_DB"] = ""
        file.chmod(0o600)
        assert "password" not in {f["subject"] for f in examined(there, code=1)}
        file.chmod(0o644)
        (finding,) = about(examined_and_shown(there, code=1), "password", "warning")
        assert finding["advice"] == f"Run: chmod 600 {file}"

    def test_a_folder_on_this_host_that_others_may_enter(self, there: Cli, url: str) -> None:
        with Queue(url) as queue:
            queue.enqueue("true")
        there.ok("worker", "start", "--drain")
        folders = list((there.folder / "data" / "queuectl" / "servers").iterdir())
        assert "permissions" not in errors(examined(there, code=1))
        folders[0].chmod(0o755)
        (finding,) = about(examined(there, code=1), "permissions", "warning")
        assert finding["advice"] == f"Run: chmod 700 {folders[0]}"


class TestPostgres:
    def test_a_role_that_lacks_rights_and_gets_them(
        self, cli: Cli, postgres_server: PostgresAccess, postgres_url: str
    ) -> None:
        open_store(postgres_url, create=True).close()
        place, _, schema = postgres_url.partition("?schema=")
        database = place.rpartition("/")[2]
        clerk = Login(f"clerk_{schema}", "hush-hush")
        postgres_server.sql(f"CREATE ROLE {clerk.name} LOGIN PASSWORD '{clerk.password}'")
        try:
            there = postgres_server.url(database, login=clerk)
            cli.variables["QUEUECTL_DB"] = f"{there}?schema={schema}"
            findings = examined_and_shown(cli, code=5)
            assert clerk.password not in str(findings)
            assert f"may not use the schema {schema}" in findings_of_grants(findings)[0]["text"]
            for statement in granting(findings):
                postgres_server.sql(statement, database)
            findings = examined(cli, code=1)
            assert errors(findings) == ["durability"]
            about(findings, "grants", "ok")
            use_everything(cli)
            postgres_server.sql(f"REVOKE DELETE ON {schema}.nodes FROM {clerk.name}", database)
            (finding,) = about(examined(cli, code=1), "grants", "error")
            assert finding["text"] == f"{clerk.name} lacks DELETE on nodes."
            assert f'GRANT DELETE ON "{schema}".nodes TO "{clerk.name}";' in finding["advice"]
        finally:
            postgres_server.sql(f"DROP OWNED BY {clerk.name}; DROP ROLE {clerk.name}", database)

    def test_commits_that_are_not_waited_for(self, cli: Cli, postgres_url: str) -> None:
        open_store(postgres_url, create=True).close()
        lazy = "&options=-c%20synchronous_commit%3Doff"
        cli.variables["QUEUECTL_DB"] = postgres_url + lazy
        found = [f for f in examined(cli, code=1) if f["subject"] == "durability"]
        assert [finding["level"] for finding in found] == ["error", "note"]
        assert "for its own sessions" in found[1]["text"]

    def test_a_pooler_in_between(
        self, cli: Cli, postgres_server: PostgresAccess, postgres_url: str
    ) -> None:
        open_store(postgres_url, create=True).close()
        database, _, options = postgres_url.rpartition("/")[2].partition("?")
        with PgBouncer(postgres_server) as pooler:
            cli.variables["QUEUECTL_DB"] = f"{pooler.url(database)}?{options}"
            findings = examined(cli, code=1)
            assert errors(findings) == ["durability"]
            (finding,) = about(findings, "wake-up", "note")
            assert "poll" in finding["text"]
            role = f"ALTER ROLE {QUEUECTL.name} IN DATABASE {database}"
            postgres_server.sql(f"{role} SET synchronous_commit = off")
            try:
                pooler.sql("RECONNECT", "pgbouncer")
                found = about(examined(cli, code=1), "durability", "error")
            finally:
                postgres_server.sql(f"{role} RESET synchronous_commit")
            assert any("behind a pooler" in finding["text"] for finding in found)


@pytest.fixture(scope="module")
def own() -> Iterator[MariaDB]:
    """A MariaDB that keeps its word, until a test changes that."""
    with MariaDB() as server:
        server.create_database("jobs")
        open_store(server.url("jobs"), create=True).close()
        yield server


class TestMariaDB:
    def test_a_server_of_our_own(self, cli: Cli, own: MariaDB) -> None:
        cli.variables["QUEUECTL_DB"] = own.url("jobs")
        findings = examined_and_shown(cli)
        assert errors(findings) == []
        for subject in ("durability", "grants", "packets"):
            about(findings, subject, "ok")

    @pytest.mark.parametrize(
        ("setting", "value", "usual", "subject"),
        [
            ("innodb_flush_log_at_trx_commit", "2", "1", "durability"),
            ("innodb_flush_log_at_trx_commit", "0", "1", "durability"),
            ("max_allowed_packet", "2097152", "16777216", "packets"),
            ("read_only", "ON", "OFF", "read-only"),
        ],
    )
    def test_a_setting_that_breaks_a_promise(
        self, cli: Cli, own: MariaDB, setting: str, value: str, usual: str, subject: str
    ) -> None:
        cli.variables["QUEUECTL_DB"] = own.url("jobs")
        own.sql(f"SET GLOBAL {setting} = {value}")
        try:
            findings = examined(cli, code=1)
        finally:
            own.sql(f"SET GLOBAL {setting} = {usual}")
        assert errors(findings) == [subject]
        (finding,) = about(findings, subject, "error")
        assert setting in finding["text"]
        assert f"SET GLOBAL {setting} = " in finding["advice"]

    def test_few_connections_are_left(self, cli: Cli, own: MariaDB) -> None:
        cli.variables["QUEUECTL_DB"] = own.url("jobs")
        own.sql("SET GLOBAL max_connections = 10")
        stores = [open_store(own.url("jobs")) for _ in range(8)]
        try:
            (finding,) = about(examined(cli), "connections", "warning")
        finally:
            for store in stores:
                store.close()
            own.sql("SET GLOBAL max_connections = 200")
        assert finding["text"].startswith("9 of 10 connections are in use")

    def test_a_user_who_lacks_rights_and_gets_them(self, cli: Cli, own: MariaDB) -> None:
        clerk = Login("clerk", "hush-hush")
        own.sql(f"CREATE USER 'clerk'@'{HOST}' IDENTIFIED BY '{clerk.password}'")
        own.sql(f"GRANT SELECT ON jobs.queuectl_meta TO 'clerk'@'{HOST}'")
        cli.variables["QUEUECTL_DB"] = own.url("jobs", login=clerk)
        findings = examined_and_shown(cli, code=1)
        assert clerk.password not in str(findings)
        assert set(errors(findings)) == {"grants"}
        for statement in granting(findings):
            own.sql(statement)
        about(examined(cli), "grants", "ok")
        use_everything(cli)
        own.sql(f"REVOKE INSERT ON jobs.queuectl_events FROM 'clerk'@'{HOST}'")
        (finding,) = about(examined(cli, code=1), "grants", "error")
        assert finding["text"] == f"clerk@{HOST} lacks INSERT on events."


def findings_of_grants(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was said about missing rights."""
    return about(findings, "grants", "error")


def granting(findings: list[dict[str, Any]]) -> list[str]:
    """Return the statements that were advised."""
    return [
        statement
        for finding in findings_of_grants(findings)
        for statement in re.findall(r"GRANT [^;]+;", finding["advice"])
    ]


def use_everything(cli: Cli) -> None:
    """Do all that a node and the commands do, with the rights that were advised."""
    with Queue(cli.variables["QUEUECTL_DB"], create=False) as queue:
        for command in ("echo done", "exit 1", "sleep 600"):
            queue.enqueue(command, id=command.replace(" ", "-"), max_retries=0, tags=["t"])
        node = cli.start("worker", "start", "--count", "2")
        expected = {"sleep-600": "processing", "exit-1": "dead", "echo-done": "completed"}
        wait_for(lambda: queue.store.jobs.states(list(expected)) == expected, "the jobs to run")
        queue.cancel("sleep-600")
        queue.wait("echo-done")
        queue.retry_dead("exit-1")
        queue.pause("default")
        queue.resume("default")
        queue.set_setting("max_retries", 5)
        queue.unset_setting("max_retries")
        queue.stats()
        queue.status()
        assert len(queue.list(tag="t")) == len(expected)
        assert queue.events()
        cli.ok("logs", "echo-done")
        assert queue.stop_nodes()
        assert node.wait(60) == 0
        queue.prune([State.COMPLETED, State.CANCELLED], 0)
        queue.remove("exit-1")
