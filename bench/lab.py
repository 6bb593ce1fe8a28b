"""Where subjects are run: fresh queues, nodes started as a user would, and the servers they need.

Everything is on loopback and in temporary folders, and gone in the end.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Self, TypeVar

from bench.processes import BenchError, Group, wait_for
from bench.servers import FullMariaDB, FullPostgres, Redis
from bench.sizes import Sizes
from queuectl import Queue
from tests.servers import ServerError
from tests.servers.install import InstallError

SQLITE, POSTGRESQL, MARIADB = "sqlite", "postgresql", "mariadb"
STORES = (SQLITE, POSTGRESQL, MARIADB)
CHECKOUT = Path(__file__).parents[1]
S = TypeVar("S", FullPostgres, FullMariaDB, Redis)


@contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of our environment for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


class Lab:
    """The place of a run of benchmarks, with all that subjects share."""

    def __init__(self, sizes: Sizes, *, stores: Sequence[str], peers: bool) -> None:
        self.sizes = sizes
        self.stores = tuple(stores)
        self.peers = peers
        self.folder = Path(tempfile.mkdtemp(prefix="queuectl-bench-"))
        self._stack = ExitStack()
        self._stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
        # What queues on servers keep on this host is ours, too.
        self._stack.enter_context(_variable("XDG_DATA_HOME", str(self.folder / "data")))
        self._numbers = count(1)
        self._postgres: FullPostgres | None = None
        self._mariadb: FullMariaDB | None = None
        self._redis: Redis | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self._stack.close()

    # -- servers ------------------------------------------------------------------

    def postgres(self) -> FullPostgres:
        """Return our PostgreSQL, which is started for the first who asks."""
        if self._postgres is None:
            self._postgres = self._run(FullPostgres)
        return self._postgres

    def mariadb(self) -> FullMariaDB:
        """Return our MariaDB, likewise."""
        if self._mariadb is None:
            self._mariadb = self._run(FullMariaDB)
        return self._mariadb

    def redis(self) -> Redis:
        """Return our Redis, likewise, without anything in it."""
        if self._redis is None:
            self._redis = self._run(Redis)
        self._redis.flush()
        return self._redis

    def _run(self, kind: type[S]) -> S:
        try:
            return self._stack.enter_context(kind())
        except (InstallError, ServerError, KeyError) as error:
            raise BenchError(f"there is no {kind.NAME} here: {error}") from error

    # -- places -------------------------------------------------------------------

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Lend a folder."""
        folder = self.folder / f"scratch{next(self._numbers)}"
        folder.mkdir()
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    @contextmanager
    def place(self, store: str) -> Iterator[str]:
        """Lend the URL of an empty place for a queue: a file, or a database on our server."""
        if store == SQLITE:
            with self.scratch() as folder:
                yield f"sqlite:{folder / 'queue.db'}"
            return
        server = self.postgres() if store == POSTGRESQL else self.mariadb()
        name = f"bench{next(self._numbers)}"
        server.create_database(name)
        try:
            yield server.url(name)
        finally:
            server.drop_database(name)

    @contextmanager
    def queue(self, store: str) -> Iterator[Queue]:
        """Lend an empty queue."""
        with self.place(store) as url, Queue(url) as queue:
            yield queue

    # -- programs -----------------------------------------------------------------

    def environment(self, **more: str) -> dict[str, str]:
        """Return an environment in which no setting of whoever runs this shines through.

        One that keeps Python from storing what it has compiled would make every start slow.
        """
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("QUEUECTL_", "PYTHON"))}
        if path := os.environ.get("PYTHONPATH"):
            kept["PYTHONPATH"] = path
        return kept | more

    def log(self) -> Path:
        """Return a new file for what a program says."""
        return self.folder / f"log{next(self._numbers)}"

    @contextmanager
    def node(
        self, queue: Queue, workers: int, *options: str, env: Mapping[str, str] | None = None
    ) -> Iterator[Group]:
        """Run a node on a queue, as a user would, and wait until it is there."""
        known = len(queue.nodes())
        with Group(
            queuectl("worker", "start", "--count", str(workers), *options),
            env={**(env or self.environment()), "QUEUECTL_DB": queue.place.url},
            cwd=self.folder,
            log=self.log(),
        ) as group:
            wait_for(lambda: len(queue.nodes()) > known, "the node", group.check)
            yield group


def queuectl(*args: str) -> list[str]:
    """Return the installed command with arguments."""
    return [str(Path(sys.executable).with_name("queuectl")), *args]
