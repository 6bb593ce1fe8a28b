"""Steps as part of an application's own transaction: they are done if and only if it commits."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy.orm import Session

from queuectl import Queue
from queuectl.job import Exited, Job, Lost
from queuectl.store import Store
from queuectl.store.contract import Over
from queuectl.tasks.current import CurrentJob
from queuectl.tasks.outcomes import LeaseLost
from tests.contract.test_borrowed import Application
from tests.contract.test_lent import DRIVERS
from tests.contract.tools import HOUR, Engine, a_node, ended, finish, take_one

pytestmark = pytest.mark.needs("lending")


class Own:
    """A connection of an application, of whatever kind, and a table of its own."""

    def __init__(self, connection: Any, run: Callable[[str], Any]) -> None:
        self.connection = connection
        self.run = run

    def begin(self) -> None:
        """Begin a transaction, where that isn't done by itself."""
        if isinstance(self.connection, sqlalchemy.Connection | Session):
            return
        self.run("BEGIN")

    def end(self, how: str) -> None:
        """Commit it, or roll it back."""
        if isinstance(self.connection, sqlalchemy.Connection | Session):
            getattr(self.connection, how)()
        else:
            self.run(how.upper())


def plainly(engine: Engine, url: str) -> Iterator[Own]:
    """Connect as the library of the database does: apsw, psycopg, PyMySQL."""
    app = Application(engine, url)
    app.rollback()
    yield Own(app.connection, app.run)
    app.close()


def by_sqlalchemy(kind: type[Any]) -> Callable[[Engine, str], Iterator[Own]]:
    """Connect by SQLAlchemy, which begins transactions by itself."""

    def connect(engine: Engine, url: str) -> Iterator[Own]:
        if engine.name == "sqlite":
            # It has Python's own sqlite3 there, which can't be shared.
            yield from plainly(engine, url)
            return
        where = url.partition("?")[0]
        scheme = where.partition(":")[0]
        database = sqlalchemy.create_engine(where.replace(scheme, DRIVERS[scheme], 1))
        connection = database.connect() if kind is sqlalchemy.Connection else Session(database)
        yield Own(connection, lambda text: connection.execute(sqlalchemy.text(text)))
        connection.close()
        database.dispose()

    return connect


WAYS: dict[str, Callable[[Engine, str], Iterator[Own]]] = {
    "plainly": plainly,
    "connection": by_sqlalchemy(sqlalchemy.Connection),
    "session": by_sqlalchemy(Session),
}


@pytest.fixture
def queue(store: Store, url: str) -> Iterator[Queue]:
    """The queue, as an application opens it; its only job runs."""
    with Queue(url) as queue:
        a_node(store)
        queue.enqueue("true", id="a")
        take_one(store, now=queue.now())
        yield queue


@pytest.fixture(params=list(WAYS))
def own(request: pytest.FixtureRequest, queue: Queue, engine: Engine, url: str) -> Iterator[Own]:
    """The application's own connection, to the queue's database."""
    made = WAYS[request.param](engine, url)
    own = next(made)
    for text in ("CREATE TABLE IF NOT EXISTS own_orders (id INTEGER)", "DELETE FROM own_orders"):
        own.begin()
        own.run(text)
        own.end("commit")
    yield own
    next(made, None)


def run_of(queue: Queue, attempt: int = 1, node: str = "node-1") -> CurrentJob:
    """Return the job as the code of one of its runs sees it."""
    message = {"job": 1, "id": "a", "type": "t", "queue": "default", "attempt": attempt}
    job = CurrentJob(message, lambda _: None, node)
    job.belongs_to(queue)
    return job


def order(queue: Queue, own: Own, attempt: int, *, end: str, called: list[int]) -> int:
    """Do a step that writes, in a transaction of its own; return what it came to."""

    def write() -> int:
        called.append(attempt)
        own.run(f"INSERT INTO own_orders VALUES ({attempt})")
        return 10 * attempt

    own.begin()
    with run_of(queue, attempt).step_in(own.connection) as step:
        done = step("write", write)
    own.end(end)
    return done


def test_it_is_done_if_and_only_if_the_transaction_is(queue: Queue, store: Store, own: Own) -> None:
    called: list[int] = []
    assert order(queue, own, 1, end="rollback", called=called) == 10
    assert queue.steps("a") == []
    # The same run may try again: nothing is left of the first time.
    assert order(queue, own, 1, end="rollback", called=called) == 10
    (running,) = queue.list(state="processing")
    finish(store, [ended(running, Exited(1), now=queue.now())])
    take_one(store, now=queue.now() + HOUR)
    assert order(queue, own, 2, end="commit", called=called) == 20
    [step] = queue.steps("a")
    assert (step.name, step.number, step.output) == ("write", 2, b"20")
    assert called == [1, 1, 2]
    (running,) = queue.list(state="processing")
    finish(store, [ended(running, Exited(1), now=queue.now())])
    take_one(store, now=queue.now() + HOUR)
    assert order(queue, own, 3, end="commit", called=called) == 20
    assert called == [1, 1, 2]


def test_until_then_nobody_else_sees_it(queue: Queue, own: Own) -> None:
    own.begin()
    with run_of(queue).step_in(own.connection) as step:
        assert step("one", len, "abc") == 3
        assert step("two", len, "ab") == 2
    assert queue.steps("a") == []
    own.end("commit")
    assert [step.name for step in queue.steps("a")] == ["one", "two"]


@pytest.mark.parametrize("how", ["another attempt", "another node", "rescued"])
def test_a_run_that_lost_its_lease_is_refused(
    queue: Queue, store: Store, own: Own, how: str
) -> None:
    attempt = 2 if how == "another attempt" else 1
    run = run_of(queue, attempt, "node-2" if how == "another node" else "node-1")
    if how == "rescued":
        store.runs.rescue("node-1", given_up)
    called: list[int] = []
    own.begin()
    with pytest.raises(LeaseLost, match="has lost its lease"), run.step_in(own.connection) as step:
        step("write", called.append, 1)
    # What else there is in the transaction is the application's.
    own.run("INSERT INTO own_orders VALUES (7)")
    own.end("commit")
    assert called == []
    assert queue.steps("a") == []


def given_up(held: Sequence[Job], now: int) -> Over:
    """Give up the runs of a node."""
    ends = [ended(job, Lost("gone"), now=now) for job in held]
    return Over(judge=lambda stuck, asked, at: ends)
