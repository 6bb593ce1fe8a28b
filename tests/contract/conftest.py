"""One store per test, on every database there is. A new database is one entry in `ENGINES`."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl.store import Store, open_store
from tests.contract.actors import SqliteClient
from tests.contract.tools import Client, Engine, assert_counts_are_right

ENGINES = (
    Engine(name="sqlite", url=lambda folder: f"sqlite:{folder}/queue.db", client=SqliteClient),
)


@pytest.fixture(params=ENGINES, ids=lambda engine: engine.name)
def engine(request: pytest.FixtureRequest) -> Engine:
    """The database under test."""
    found: Engine = request.param
    return found


@pytest.fixture
def url(engine: Engine, tmp_path: Path) -> str:
    """A place where there is no store yet."""
    return engine.url(tmp_path)


@pytest.fixture
def store(url: str, engine: Engine) -> Iterator[Store]:
    """An empty store. Whatever a test does with it, its counters must be right in the end."""
    store = open_store(url, create=True)
    yield store
    client = engine.client(url)
    try:
        assert_counts_are_right(store, client)
    finally:
        client.close()
        store.close()


@pytest.fixture
def other(store: Store, url: str) -> Iterator[Store]:
    """The same store, opened once more: what another process would see and do."""
    other = open_store(url)
    yield other
    other.close()


@pytest.fixture
def client(store: Store, url: str, engine: Engine) -> Iterator[Client]:
    """A program that knows nothing of queuectl and speaks SQL to its tables."""
    client = engine.client(url)
    yield client
    client.close()
