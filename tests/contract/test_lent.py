"""Connections of SQLAlchemy and Django, handed over as they are."""

from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy
from django.db import connections, transaction
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from queuectl import Queue, UsageError
from queuectl.store import Store
from tests.contract.tools import Engine
from tests.contrib import djangos

pytestmark = pytest.mark.needs("lending")
DRIVERS = {"postgresql": "postgresql+psycopg", "mysql": "mysql+pymysql"}
REFUSED = "A sqlite3.Connection can't be shared: Python's own copy of SQLite would undo"


@pytest.fixture
def queue(store: Store, url: str) -> Iterator[Queue]:
    with Queue(url) as queue:
        yield queue


class TestSqlAlchemy:
    @pytest.fixture
    def database(self, queue: Queue, url: str, engine: Engine) -> Iterator[sqlalchemy.Engine]:
        where = "sqlite://"  # Not the file of the queue, which that would unlock.
        if engine.name != "sqlite":
            where = url.partition("?")[0]
            scheme = where.partition(":")[0]
            where = where.replace(scheme, DRIVERS[scheme], 1)
        database = sqlalchemy.create_engine(where)
        yield database
        database.dispose()

    def test_a_session(self, queue: Queue, database: sqlalchemy.Engine, engine: Engine) -> None:
        if engine.name == "sqlite":
            with Session(database) as session, pytest.raises(UsageError, match=REFUSED):
                queue.enqueue("true", connection=session)
            assert queue.count() == 0
            return
        with Session(database) as session:
            queue.enqueue("true", id="undone", connection=session)
            assert queue.find("undone") is None
            session.rollback()
            queue.enqueue("true", id="done", connection=session)
            session.commit()
        with Session(database) as session, session.begin():
            queue.enqueue_many([{"command": "true", "id": "many"}], connection=session)
        assert {job.id for job in queue.list()} == {"done", "many"}

    def test_a_scoped_one(self, queue: Queue, database: sqlalchemy.Engine, engine: Engine) -> None:
        scoped = scoped_session(sessionmaker(database))
        if engine.name == "sqlite":
            with pytest.raises(UsageError, match=REFUSED):
                queue.enqueue("true", connection=scoped)
        else:
            queue.enqueue("true", id="done", connection=scoped)
            assert queue.count() == 0
            scoped.commit()
            assert queue.count() == 1
        scoped.remove()

    def test_a_connection(self, queue: Queue, database: sqlalchemy.Engine, engine: Engine) -> None:
        if engine.name == "sqlite":
            with database.connect() as connection, pytest.raises(UsageError, match=REFUSED):
                queue.enqueue("true", connection=connection)
            return
        with database.connect() as connection:
            queue.enqueue("true", id="undone", connection=connection)
            connection.rollback()
            queue.enqueue("true", id="done", connection=connection)
            connection.commit()
        with database.begin() as connection:
            task = queue.task(name="task")(print_it)
            task.using(connection=connection, id="task").enqueue("x")
            assert queue.find("task") is None
        assert {job.id for job in queue.list()} == {"done", "task"}

    def test_an_async_one_is_refused(self, queue: Queue) -> None:
        connection: Any = AsyncConnection.__new__(AsyncConnection)
        with pytest.raises(UsageError, match="of an async connection of SQLAlchemy"):
            queue.enqueue("true", connection=connection)


def print_it(text: str) -> None:
    print(text)


class TestDjango:
    @pytest.fixture
    def alias(self, queue: Queue, url: str, engine: Engine) -> Iterator[str]:
        if engine.name == "sqlite":
            yield "default"
            return
        self.namespace = djangos.add_database("shop", url)
        yield "shop"
        djangos.remove_database("shop")

    def test_a_connection(self, queue: Queue, alias: str, engine: Engine) -> None:
        connection = connections[alias]
        if engine.name == "sqlite":
            with pytest.raises(UsageError, match=REFUSED):
                queue.enqueue("true", connection=connection)
            return
        queue.enqueue("true", id="at-once", connection=connection)
        assert queue.find("at-once") is not None
        with transaction.atomic(using=alias):
            queue.enqueue("true", id="done", connection=connection)
            assert queue.find("done") is None
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
            queue.enqueue("true", id="undone", connection=connection)
            raise ZeroDivisionError
        assert {job.id for job in queue.list()} == {"at-once", "done"}

    def test_a_broken_transaction_takes_none(
        self, queue: Queue, alias: str, engine: Engine
    ) -> None:
        if engine.name == "sqlite":
            return
        with transaction.atomic(using=alias):
            transaction.set_rollback(True, using=alias)
            with pytest.raises(transaction.TransactionManagementError):
                queue.enqueue("true", connection=connections[alias])

    def test_its_tasks_are_part_of_its_transactions(
        self, queue: Queue, alias: str, engine: Engine
    ) -> None:
        if engine.name == "sqlite":
            return
        from tests.contrib.django_shop import tasks as shop

        backend = djangos.use_backend(database=alias, **self.namespace)
        with transaction.atomic(using=alias):
            done = shop.add.enqueue(1)
            assert queue.find(done.id) is None
        with pytest.raises(ZeroDivisionError), transaction.atomic(using=alias):
            shop.add.enqueue(2)
            raise ZeroDivisionError
        alone = shop.add.enqueue(3)
        assert {job.id for job in queue.list()} == {done.id, alone.id}
        backend.queue.close()
