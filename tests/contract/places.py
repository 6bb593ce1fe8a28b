"""Where the stores are that live through histories: emptied for each, and a way to cut them off."""

import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from queuectl.store import open_store
from tests.contract.foreign import TABLES, MariaDBClient, PostgresClient, ServerClient
from tests.servers import wait_until
from tests.servers.proxy import Proxy


class Place(ABC):
    """A place for one store after the other."""

    name: str
    url: str
    proxy: Proxy | None = None
    """What clients that are to be cut off go through; None where there is nothing to cut."""
    far_url: str
    """The same place through the proxy."""

    @abstractmethod
    def empty(self) -> None:
        """Make the place look as if nobody had ever been there."""

    @contextmanager
    def visited(self) -> Iterator[None]:
        """Wait in the end until every client is gone that has come in between."""
        yield

    def close(self) -> None:  # noqa: B027 - a file needs no farewell
        """Leave the place."""


class SqlitePlace(Place):
    """A file in a folder."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._path = folder / "history.db"
        self._new = folder / "new.db"
        self.url = self.far_url = f"sqlite:{self._path}"
        # To make the tables takes longer than to copy them.
        open_store(f"sqlite:{self._new}", create=True).close()

    def empty(self) -> None:
        for ending in ("-wal", "-shm"):
            self._path.with_name(self._path.name + ending).unlink(missing_ok=True)
        shutil.copy(self._new, self._path)


class ServerPlace(Place):
    """Tables on a server."""

    def __init__(self, name: str, url: str) -> None:
        """Make the tables. The URL says with `schema` or `prefix` what they are called."""
        self.name = name
        self.url = url
        open_store(url, create=True).close()
        client, self._sessions = KINDS[name]
        self._client = client(url)
        server = urlsplit(url)
        assert server.hostname is not None
        assert server.port is not None
        self.proxy = Proxy(server.hostname, server.port)
        self.far_url = url.replace(f":{server.port}/", f":{self.proxy.port}/")

    def empty(self) -> None:
        tables = [table for table in TABLES if table != "meta"]
        self._client.run("BEGIN")
        for table in tables:
            self._client.run(f"DELETE FROM {{{table}}}")
        self._client.run("COMMIT")

    @contextmanager
    def visited(self) -> Iterator[None]:
        # What a dead client has locked stays so until the server has noticed, and claims would
        # pass it over.
        before = set(self._client.run(self._sessions))
        yield
        wait_until(
            lambda: set(self._client.run(self._sessions)) <= before, "the dead clients to be gone"
        )

    def close(self) -> None:
        assert self.proxy is not None
        self.proxy.close()
        self._client.close()


KINDS: dict[str, tuple[type[ServerClient], str]] = {
    "postgres": (
        PostgresClient,
        "SELECT pid FROM pg_stat_activity"
        " WHERE datname = current_database() AND backend_type = 'client backend'",
    ),
    "mariadb": (
        MariaDBClient,
        "SELECT id FROM information_schema.processlist WHERE db = database()",
    ),
}
"""How to speak to a server, and whom it serves here."""
COMMIT = {"postgres": b"COMMIT\0", "mariadb": b"\x03COMMIT"}
"""How a client sends COMMIT, and nothing else that contains the word."""
