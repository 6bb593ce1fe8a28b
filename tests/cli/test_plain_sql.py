"""The schema is public: what psql, mariadb and sqlite3 write is a job, and what they delete is not.

With the rights that the guide gives: owner, worker, and a program that may only insert.
"""

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from queuectl import State
from tests.servers.mariadb import MariaDBAccess
from tests.servers.postgres import PostgresAccess
from tests.support import Lab, lab_in, wait_for


@dataclass
class Place:
    """A queue on some database, and the client program of that database."""

    lab: Lab
    prefix: str
    program: list[str]

    def sql(self, text: str) -> str:
        """Run statements in the client and return what it prints."""
        done = self.ask(text)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def ask(self, text: str) -> "subprocess.CompletedProcess[str]":
        """Run statements in the client, which may refuse."""
        return subprocess.run(
            self.program,
            input=text.replace("@", self.prefix),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    """A queue on each database."""
    if request.param == "sqlite":
        with lab_in(tmp_path) as lab:
            client = ["sqlite3", "-bail", "-cmd", ".timeout 10000", str(lab.db)]
            yield Place(lab, "", client)
        return
    url: str = request.getfixturevalue(f"{request.param}_url")
    server = request.getfixturevalue(f"{request.param}_server")
    base, _, name = url.rpartition("=")
    client = server.client(base.rpartition("/")[2].partition("?")[0])
    if request.param == "mariadb":
        client.insert(2, "--default-character-set=utf8mb4")
    with lab_in(tmp_path, url) as lab:
        yield Place(lab, f"{name}." if request.param == "postgres" else name, client)


class TestInsert:
    def test_an_id_and_a_command_are_a_job(self, place: Place) -> None:
        place.lab.node()
        place.sql("INSERT INTO @jobs (id, command) VALUES ('from-sql', 'echo hello from sql');")
        job = place.lab.wait_state("from-sql", State.COMPLETED)
        assert place.lab.queue.output("from-sql").stdout == b"hello from sql\n"
        assert job.queue == "default"
        assert abs(job.created_at - place.lab.queue.store.clock.now()) < 600_000

    def test_a_command_alone_is_too(self, place: Place) -> None:
        for _ in range(2):
            place.sql("INSERT INTO @jobs (command) VALUES ('true');")
        one, two = place.lab.queue.list()
        assert one.id != two.id
        assert len(one.id) == len(two.id) == 12

    def test_arguments_tags_and_variables_are_json(self, place: Place) -> None:
        place.lab.node()
        place.sql(
            "INSERT INTO @jobs (id, argv, tags, env, priority) VALUES"
            """ ('x', '["sh", "-c", "echo $WORD ä日🦊"]', '["red", "blau ä"]',"""
            """ '{"WORD": "hi"}', 7);"""
        )
        place.lab.wait_state("x", State.COMPLETED)
        assert place.lab.queue.output("x").stdout.decode() == "hi ä日🦊\n"
        assert [job.id for job in place.lab.queue.list(tag="blau ä")] == ["x"]

    def test_what_is_rolled_back_never_was(self, place: Place) -> None:
        place.sql("BEGIN; INSERT INTO @jobs (id, command) VALUES ('x', 'true'); ROLLBACK;")
        assert place.lab.queue.status().total == 0

    def test_what_can_be_no_job_is_refused_by_the_database(self, place: Place) -> None:
        rows = (
            "(id) VALUES ('x')",
            "(command, state) VALUES ('x', 'happy')",
            "(command, argv) VALUES ('x', '[1]')",
            "(command, argv) VALUES ('x', '[]')",
            "(command, argv) VALUES ('x', 'nonsense')",
            "(command, tags) VALUES ('x', '{}')",
            "(command, tags) VALUES ('x', '[null]')",
            "(command, env) VALUES ('x', '[\"a\"]')",
            "(command, env) VALUES ('x', '{\"a\": 1}')",
            "(command, run_at) VALUES ('x', -1)",
            "(command, priority) VALUES ('x', 3000000000)",
            "(command, id) VALUES ('x', '')",
            "(command, ready) VALUES ('x', 7)",
            "(command, backoff) VALUES ('x', 'sideways')",
        )
        taken = [row for row in rows if place.ask(f"INSERT INTO @jobs {row};").returncode == 0]
        assert taken == []
        assert place.lab.queue.status().total == 0

    def test_a_taken_id_is_refused(self, place: Place) -> None:
        place.sql("INSERT INTO @jobs (id, command) VALUES ('x', 'true');")
        assert place.ask("INSERT INTO @jobs (id, command) VALUES ('x', 'false');").returncode != 0


class TestDelete:
    def test_a_waiting_row_that_is_deleted_never_runs(self, place: Place) -> None:
        place.sql("INSERT INTO @jobs (id, command, tags) VALUES ('gone', 'touch ran', '[\"a\"]');")
        place.sql("INSERT INTO @jobs (id, command) VALUES ('stays', 'true');")
        place.sql("DELETE FROM @jobs WHERE id = 'gone' AND state = 'pending';")
        place.lab.node()
        place.lab.wait_state("stays", State.COMPLETED)
        assert place.lab.queue.status().total == 1
        assert place.lab.queue.verify() == []
        assert not (place.lab.folder / "ran").exists()

    def test_many_at_once(self, place: Place) -> None:
        place.lab.queue.enqueue_many([{"command": "true", "tags": ["a"]} for _ in range(100)])
        place.sql("DELETE FROM @jobs WHERE seq > 0;")
        assert place.lab.queue.status().total == 0
        assert place.lab.queue.verify() == []


class TestUpdate:
    def test_counters_follow_whatever_is_changed(self, place: Place) -> None:
        place.lab.queue.enqueue_many([{"command": "true", "tags": ["a"]} for _ in range(20)])
        place.sql("UPDATE @jobs SET priority = 9, queue = 'other', timeout = 5 WHERE seq > 0;")
        place.sql("UPDATE @jobs SET tags = '[\"b\"]' WHERE seq > 0;")
        assert place.lab.queue.verify() == []
        (count,) = place.lab.queue.store.jobs.counts()
        assert (count.queue, count.priority, count.jobs, count.timed) == ("other", 9, 20, 20)
        assert len(place.lab.queue.list(tag="b")) == 20
        assert place.lab.queue.list(tag="a") == []


class TestRights:
    def test_of_the_guide_are_enough_in_postgresql(
        self, postgres_url: str, postgres_server: PostgresAccess, tmp_path: Path
    ) -> None:
        base, _, schema = postgres_url.rpartition("=")
        database = base.rpartition("/")[2].partition("?")[0]

        def admin(text: str) -> None:
            postgres_server.sql(text, database)

        (tmp_path / "owner").mkdir()
        with lab_in(tmp_path / "owner", postgres_url):
            self.make(admin, "CREATE ROLE {} LOGIN PASSWORD 'secret'", schema)
            admin(f"GRANT USAGE ON SCHEMA {schema} TO w_{schema}, i_{schema}")
            admin(
                "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA"
                f" {schema} TO w_{schema}"
            )
            admin(f"GRANT INSERT ON {schema}.jobs TO i_{schema}")
            self.work(postgres_url.replace("queuectl:", f"w_{schema}:"), tmp_path / "worker")
            insert = f"INSERT INTO {schema}.jobs (command) VALUES ('true')"
            url = base.partition("?")[0].replace("queuectl:", f"i_{schema}:")
            subprocess.run(["psql", "-X", url, "-c", insert], check=True, capture_output=True)
            for role in ("w", "i"):
                admin(f"DROP OWNED BY {role}_{schema}; DROP ROLE {role}_{schema}")

    def test_of_the_guide_are_enough_in_mariadb(
        self, mariadb_url: str, mariadb_server: MariaDBAccess, tmp_path: Path
    ) -> None:
        base, _, prefix = mariadb_url.rpartition("=")
        database = base.rpartition("/")[2].partition("?")[0]
        self.make(mariadb_server.sql, "CREATE USER {} IDENTIFIED BY 'secret'", prefix, "o")
        mariadb_server.sql(
            "GRANT SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, DROP, INDEX, REFERENCES,"
            f" TRIGGER ON {database}.* TO o_{prefix};"
            f" GRANT SELECT, INSERT, UPDATE, DELETE ON {database}.* TO w_{prefix}"
        )
        (tmp_path / "owner").mkdir()
        with lab_in(tmp_path / "owner", mariadb_url.replace("queuectl:", f"o_{prefix}:")):
            self.work(mariadb_url.replace("queuectl:", f"w_{prefix}:"), tmp_path / "worker")
            mariadb_server.sql(f"GRANT INSERT ON {database}.{prefix}jobs TO i_{prefix}")
            client = mariadb_server.client(database)
            words = [f"--user=i_{prefix}" if w.startswith("--user=") else w for w in client]
            insert = f"INSERT INTO {prefix}jobs (command) VALUES ('true')"
            subprocess.run(words, input=insert, text=True, check=True, capture_output=True)
        for role in ("o", "w", "i"):
            mariadb_server.sql(f"DROP USER {role}_{prefix}")

    def make(self, admin: Callable[[str], object], text: str, name: str, *more: str) -> None:
        for role in ("w", "i", *more):
            admin(text.format(f"{role}_{name}"))

    def work(self, url: str, folder: Path) -> None:
        """Do everything that a worker does."""
        folder.mkdir()
        with lab_in(folder, url) as lab:
            lab.node()
            for n, command in enumerate(["true", "false", "sleep 600", "echo hi"]):
                lab.queue.enqueue(command, id=f"job-{n}", max_retries=0, tags=["t"])
            lab.wait_state("job-2", State.PROCESSING)
            lab.queue.cancel("job-2")
            lab.wait_state("job-3", State.COMPLETED)
            lab.queue.pause("x")
            lab.queue.set_setting("jitter", "0.1")
            lab.queue.remove("job-0")
            assert lab.run("worker", "stop").returncode == 0
            wait_for(lambda: not lab.queue.nodes())
            lab.queue.store.tidy(now=lab.queue.store.clock.now())
            assert lab.queue.prune([State.DEAD], 0)
