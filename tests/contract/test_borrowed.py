"""Jobs as part of an application's own transaction: they exist if and only if it commits."""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw
import psycopg
import pymysql
import pytest

from queuectl import Queue
from queuectl.errors import DuplicateError, NotFoundError, StateError, StoreError, UsageError
from queuectl.store import Store
from tests.contract.foreign import MariaDBClient, PostgresClient
from tests.contract.tools import Engine, a_node, take
from tests.servers.mariadb import MariaDBAccess
from tests.servers.postgres import PostgresAccess

pytestmark = pytest.mark.needs("lending")

BEGIN = {"sqlite": "BEGIN", "postgresql": "BEGIN", "mariadb": "BEGIN"}


class Application:
    """A program with a database connection of its own, in a transaction."""

    def __init__(self, engine: Engine, url: str) -> None:
        self.connection: Any
        match engine.name:
            case "sqlite":
                self.connection = apsw.Connection(url.removeprefix("sqlite:"))
                self.connection.set_busy_timeout(10_000)
            case "postgresql":
                self.connection = PostgresClient(url).connect()
            case _:
                self.connection = MariaDBClient(url).connect()
        self.run(BEGIN[engine.name])

    def run(self, text: str) -> None:
        """Run a statement of the application's own."""
        self.connection.cursor().execute(text)

    def close(self) -> None:
        """End, with whatever is open."""
        with suppress(pymysql.Error):
            self.connection.close()

    def commit(self) -> None:
        """Keep it all."""
        self.run("COMMIT")

    def rollback(self) -> None:
        """Undo it all."""
        self.run("ROLLBACK")


@pytest.fixture
def queue(store: Store, url: str) -> Iterator[Queue]:
    """The queue, as an application opens it."""
    with Queue(url) as queue:
        yield queue


@pytest.fixture
def app(queue: Queue, engine: Engine, url: str) -> Iterator[Application]:
    """An application in the middle of a transaction."""
    app = Application(engine, url)
    yield app
    app.close()


class TestEnqueue:
    def test_after_the_commit_the_job_exists(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        job = queue.enqueue("echo hi", id="mine", tags=["a"], connection=app.connection)
        assert (job.id, job.command, job.tags) == ("mine", "echo hi", ("a",))
        assert store.jobs.get("mine") is None
        app.commit()
        assert store.jobs.get("mine") == job
        assert [c.jobs for c in store.jobs.counts()] == [1]

    def test_after_a_rollback_it_never_did(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        queue.enqueue("echo hi", id="mine", connection=app.connection)
        app.rollback()
        assert store.jobs.get("mine") is None
        assert store.jobs.counts() == []
        queue.enqueue("echo hi", id="mine")

    def test_after_a_crash_of_the_application_neither(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        queue.enqueue("echo hi", id="mine", connection=app.connection)
        app.connection.close()
        queue.enqueue("echo hi", id="other")
        assert store.jobs.get("mine") is None

    def test_what_the_application_writes_beside_it_is_one_with_it(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        app.rollback()
        app.run("CREATE TABLE IF NOT EXISTS orders_of_mine (id INTEGER)")
        app.run("DELETE FROM orders_of_mine")
        app.run("BEGIN")
        app.run("INSERT INTO orders_of_mine VALUES (7)")
        queue.enqueue("ship 7", id="ship-7", connection=app.connection)
        app.rollback()
        assert store.jobs.get("ship-7") is None
        cursor = app.connection.cursor()
        assert list(cursor.execute("SELECT * FROM orders_of_mine") or cursor.fetchall()) == []
        app.run("DROP TABLE orders_of_mine")

    def test_it_can_be_claimed_only_after_the_commit(
        self, queue: Queue, store: Store, app: Application, engine: Engine
    ) -> None:
        a_node(store)
        if engine.name == "sqlite":
            # Its one writer at a time is the application.
            assert take(store, now=store.clock.now()) == []
        queue.enqueue("echo hi", id="mine", connection=app.connection)
        if engine.name != "sqlite":
            assert take(store, now=store.clock.now()) == []
        app.commit()
        assert [job.id for job in take(store, now=store.clock.now())] == ["mine"]

    def test_a_taken_id_leaves_the_transaction_usable(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        queue.enqueue("echo hi", id="first", connection=app.connection)
        app.commit()
        app.run("BEGIN")
        with pytest.raises(DuplicateError):
            queue.enqueue("echo hi", id="first", connection=app.connection)
        queue.enqueue("echo hi", id="second", connection=app.connection)
        app.commit()
        assert {job.id for job in queue.list()} == {"first", "second"}

    @pytest.mark.parametrize("in_one", [True, False])
    def test_what_is_refused_half_way_leaves_nothing_behind(
        self, queue: Queue, app: Application, in_one: bool
    ) -> None:
        app.rollback()
        queue.enqueue("echo hi", id="holder", unique="k")
        if in_one:
            app.run("BEGIN")
        for asked in ({"after": ["nix"]}, {"after_group": ["nix"], "group": "g"}):
            with pytest.raises(NotFoundError):
                queue.enqueue(
                    "x", unique="k", on_duplicate="replace", connection=app.connection, **asked
                )
        queue.enqueue("echo hi", id="more", connection=app.connection)
        if in_one:
            app.commit()
        assert {job.id: str(job.state) for job in queue.list()} == {
            "holder": "pending",
            "more": "pending",
        }

    def test_the_queue_goes_on_with_its_own_connection(
        self, queue: Queue, app: Application
    ) -> None:
        queue.enqueue("echo hi", id="mine", connection=app.connection)
        app.commit()
        app.connection.close()
        queue.enqueue("echo hi", id="own")
        assert queue.status().total == 2

    def test_without_a_transaction_it_is_there_at_once(
        self, queue: Queue, store: Store, app: Application
    ) -> None:
        app.rollback()
        queue.enqueue("echo hi", id="mine", connection=app.connection)
        assert store.jobs.get("mine") is not None

    def test_a_broken_connection_stays_the_owners(
        self, queue: Queue, app: Application, engine: Engine
    ) -> None:
        app.connection.close()
        with pytest.raises((StoreError, StateError)):
            queue.enqueue("echo hi", id="mine", connection=app.connection)
        assert queue.enqueue("echo hi", id="mine").id == "mine"


ADRIFT: dict[str, list[str]] = {"a": [], "b": ["nix"], "c": ["a"]}
"""For whom jobs wait, one of them for a job that there isn't."""


class TestEnqueueMany:
    def test_all_of_them_or_none(self, queue: Queue, store: Store, app: Application) -> None:
        many = [{"command": "x", "id": f"job-{n}"} for n in range(50)]
        assert len(queue.enqueue_many(many, connection=app.connection).ids) == 50
        assert store.jobs.counts() == []
        app.rollback()
        assert store.jobs.counts() == []
        app.run("BEGIN")
        queue.enqueue_many(many, connection=app.connection)
        app.commit()
        assert [c.jobs for c in store.jobs.counts()] == [50]

    def test_about_which_more_is_decided(self, queue: Queue, app: Application) -> None:
        many = [{"command": "x", "id": f"u{n}", "unique": f"u{n}"} for n in range(200)]
        queue.enqueue_many(many, connection=app.connection)
        children = [{"command": "x", "after": ["u0"]} for _ in range(200)]
        queue.enqueue_many(children, connection=app.connection)
        app.commit()
        assert queue.status().total == 400

    def test_duplicates_can_be_skipped(self, queue: Queue, app: Application) -> None:
        queue.enqueue("x", id="a", connection=app.connection)
        batch = queue.enqueue_many(
            [{"command": "x", "id": "a"}, {"command": "x", "id": "b"}],
            keep_going=True,
            connection=app.connection,
        )
        app.commit()
        assert (batch.ids, batch.duplicates) == (("b",), ("a",))

    def test_those_that_are_refused_are_passed_over(self, queue: Queue, app: Application) -> None:
        batch = queue.enqueue_many(
            [{"id": id, "command": "x", "after": after} for id, after in ADRIFT.items()],
            keep_going=True,
            connection=app.connection,
        )
        app.commit()
        assert (batch.ids, batch.refused_at) == (("a", "c"), (1,))
        assert [job.id for job in queue.list()] == ["c", "a"]


class TestWhatCanBeBorrowed:
    def test_only_a_connection_of_the_right_kind(
        self, queue: Queue, engine: Engine, tmp_path: Path
    ) -> None:
        wrong: list[Any] = ["a url", sqlite3.connect(":memory:"), object()]
        if engine.name != "sqlite":
            wrong.append(apsw.Connection(":memory:"))
        if engine.name == "sqlite":
            wrong.append(apsw.Connection(str(tmp_path / "other.db")))
        for connection in wrong:
            with pytest.raises(UsageError, match=r"[Cc]onnection"):
                queue.enqueue("x", connection=connection)
        assert queue.status().total == 0

    def test_it_keeps_its_own_ways_of_making_rows(
        self, queue: Queue, store: Store, engine: Engine, url: str
    ) -> None:
        connection: Any
        match engine.name:
            case "postgresql":
                from psycopg.rows import dict_row

                connection = psycopg.connect(
                    PostgresClient(url)._parts._replace(query="").geturl(),
                    row_factory=dict_row,
                )
            case "mariadb":
                connection = MariaDBClient(url).connect()
                connection.cursorclass = pymysql.cursors.DictCursor
                connection.autocommit(False)
            case _:
                connection = apsw.Connection(url.removeprefix("sqlite:"))
                connection.row_trace = lambda cursor, row: {"row": row}
                connection.execute("BEGIN")
        queue.enqueue("x", id="mine", connection=connection)
        if engine.name == "sqlite":
            connection.execute("COMMIT")
        else:
            connection.commit()
        connection.close()
        assert store.jobs.get("mine") is not None

    def test_none_in_pipeline_mode(self, postgres_url: str) -> None:
        with Queue(postgres_url) as queue:
            connection = PostgresClient(postgres_url).connect()
            with connection.pipeline(), pytest.raises(UsageError, match="pipeline mode"):
                queue.enqueue("x", connection=connection)
            connection.close()

    def test_only_one_to_the_database_of_the_queue(
        self, postgres_url: str, postgres_server: PostgresAccess
    ) -> None:
        with Queue(postgres_url) as queue:
            elsewhere = psycopg.connect(postgres_server.url("postgres"))
            with pytest.raises(UsageError, match="to the database 'postgres'"):
                queue.enqueue("x", connection=elsewhere)
            elsewhere.close()

    def test_and_likewise_in_mariadb(self, mariadb_url: str, mariadb_server: MariaDBAccess) -> None:
        with Queue(mariadb_url) as queue:
            elsewhere = MariaDBClient(mariadb_url).connect()
            elsewhere.select_db("information_schema")
            with pytest.raises(UsageError, match="to the database 'information_schema'"):
                queue.enqueue("x", connection=elsewhere)
            elsewhere.close()
