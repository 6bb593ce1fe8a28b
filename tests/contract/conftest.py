"""One store per test, on every database there is. A new database is one entry in `ENGINES`.

A toy store is driven through what it is capable of: a test that needs more says so
(`pytest.mark.needs`), or by asking for a client of the database, or its URL.
"""

import inspect
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from queuectl.store import Store, open_store
from tests.contract.actors import SqliteClient
from tests.contract.foreign import MariaDBClient, PostgresClient, ServerClient
from tests.contract.tools import (
    DAY,
    Client,
    Engine,
    a_node,
    assert_counts_are_right,
    no_client,
)
from tests.contract.toy.store import Toy

ENGINES = (
    Engine(name="sqlite", client=SqliteClient),
    Engine(name="postgresql", client=PostgresClient, knows=False),
    Engine(name="mariadb", client=MariaDBClient, tells=False, knows=False),
)
TOY = Engine(name="toy", client=no_client, capabilities=frozenset())
SQL = "sql"
"""What a test needs that uses the tables of a store, besides the capabilities of the contract."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run each test on all databases that are capable of what it needs."""
    chosen = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "engine" not in metafunc.fixturenames or "engine" in chosen:
        return
    needed = {need for mark in metafunc.definition.iter_markers("needs") for need in mark.args}
    own = inspect.signature(metafunc.function).parameters
    if "client" in metafunc.fixturenames or {"url", "place", "engine"} & set(own):
        needed.add(SQL)
    engines = [*ENGINES, *([TOY] if needed <= TOY.capabilities else [])]
    metafunc.parametrize("engine", engines, ids=lambda engine: engine.name, indirect=True)


@pytest.fixture
def engine(request: pytest.FixtureRequest) -> Engine:
    """The database under test."""
    found: Engine = request.param
    return found


@pytest.fixture
def place(engine: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[], str]:
    """Gives a place for an empty store, again and again; the last one is gone then."""
    if engine == TOY:
        return lambda: "toy:"
    if engine.name == "sqlite":
        return lambda: f"sqlite:{tmp_path}/{secrets.token_hex(4)}.db"
    broom: ServerClient = request.getfixturevalue(f"{engine.name}_broom")

    def wiped() -> str:
        broom.wipe()
        return broom.url

    return wiped


@pytest.fixture(scope="session")
def postgresql_broom(request: pytest.FixtureRequest) -> Iterator[ServerClient]:
    """Of one schema for all tests of this process, emptied between them: making one takes long."""
    server = request.getfixturevalue("postgres_server")
    database = request.getfixturevalue("postgres_database")
    with closing(PostgresClient(f"{server.url(database)}?schema=queue")) as broom:
        open_store(broom.url, create=True).close()
        yield broom


@pytest.fixture(scope="session")
def mariadb_broom(request: pytest.FixtureRequest) -> Iterator[ServerClient]:
    """The same for MariaDB."""
    server = request.getfixturevalue("mariadb_server")
    database = request.getfixturevalue("mariadb_database")
    with closing(MariaDBClient(f"{server.url(database)}?prefix=q_")) as broom:
        open_store(broom.url, create=True).close()
        yield broom


@pytest.fixture(scope="session")
def new_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite file with nothing in its tables, to be copied: making them takes long."""
    path = tmp_path_factory.mktemp("new") / "queue.db"
    open_store(str(path), create=True).close()
    return path


@pytest.fixture
def url(place: Callable[[], str]) -> str:
    """A place for an empty store."""
    return place()


@pytest.fixture
def store(url: str, engine: Engine, request: pytest.FixtureRequest) -> Iterator[Store]:
    """An empty store. Whatever a test does with it, its counters must be right in the end."""
    if engine == TOY:
        yield Toy()
        return
    if engine.name == "sqlite":
        shutil.copy(request.getfixturevalue("new_file"), url.removeprefix("sqlite:"))
    with closing(open_store(url, create=True)) as store:
        yield store
        if engine.name == "sqlite":
            with closing(SqliteClient(url)) as client:
                assert_counts_are_right(store, client)
        else:
            assert_counts_are_right(store, request.getfixturevalue(f"{engine.name}_broom"))


@pytest.fixture
def other(store: Store, url: str) -> Iterator[Store]:
    """The same store, opened once more: what another process would see and do."""
    if isinstance(store, Toy):
        yield Toy(store.memory)
        return
    other = open_store(url)
    yield other
    other.close()


@pytest.fixture
def client(store: Store, url: str, engine: Engine) -> Iterator[Client]:
    """A program that knows nothing of queuectl and speaks SQL to its tables."""
    client = engine.client(url)
    yield client
    client.close()


@pytest.fixture
def two_nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1", lease=10 * DAY)
    a_node(store, "node-2", lease=10 * DAY)
