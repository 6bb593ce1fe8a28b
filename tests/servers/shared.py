"""One PostgreSQL and one MariaDB for a whole test run, and the fixtures that lend them out.

`tests/conftest.py` loads it as a plugin.

A keeper process runs each server, because no worker of pytest-xdist outlives all others. Who
uses the server holds a shared lock, and the kernel takes it away from those who die. The keeper
waits for having the lock alone: then the last user has gone, or was killed.
"""

import fcntl
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

from tests.servers import PATIENCE, ServerError, is_gone, wait_until
from tests.servers.install import install_missing
from tests.servers.mariadb import MariaDB, MariaDBAccess
from tests.servers.postgres import Postgres, PostgresAccess

SERVERS: dict[str, type[Postgres] | type[MariaDB]] = {"postgres": Postgres, "mariadb": MariaDB}
CHECKOUT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def postgres_server(run_folder: Path) -> Iterator[PostgresAccess]:
    """The PostgreSQL server of this test run. Stop and kill only servers of your own."""
    with shared_port("postgres", run_folder) as port:
        yield PostgresAccess(port)


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresAccess) -> Iterator[str]:
    """A database of this test process, for tests that each keep to a schema."""
    name = f"w_{secrets.token_hex(6)}"
    postgres_server.create_database(name)
    yield name
    postgres_server.drop_database(name)


@pytest.fixture
def postgres_url(postgres_server: PostgresAccess, postgres_database: str) -> Iterator[str]:
    """A place in PostgreSQL with nothing in it: a schema that doesn't exist yet."""
    with postgres_schema(postgres_server, postgres_database) as url:
        yield url


@pytest.fixture(scope="module")
def lasting_postgres_url(postgres_server: PostgresAccess, postgres_database: str) -> Iterator[str]:
    """The same for the tests of a module that share one."""
    with postgres_schema(postgres_server, postgres_database) as url:
        yield url


@contextmanager
def postgres_schema(server: PostgresAccess, database: str) -> Iterator[str]:
    """Lend out a schema that doesn't exist yet, and drop it in the end."""
    schema = f"q_{secrets.token_hex(6)}"
    yield f"{server.url(database)}?schema={schema}"
    # Who still holds a lock here has left a transaction open, and that is worth a failure.
    server.sql(f"SET lock_timeout = '10s'; DROP SCHEMA IF EXISTS {schema} CASCADE", database)


@pytest.fixture(scope="session")
def mariadb_server(run_folder: Path) -> Iterator[MariaDBAccess]:
    """The MariaDB server of this test run. Stop and kill only servers of your own."""
    with shared_port("mariadb", run_folder) as port:
        yield MariaDBAccess(port)


@pytest.fixture(scope="session")
def mariadb_database(mariadb_server: MariaDBAccess) -> Iterator[str]:
    """A database of this test process, for tests that each keep to a prefix of table names."""
    name = f"w_{secrets.token_hex(6)}"
    mariadb_server.create_database(name)
    yield name
    mariadb_server.drop_database(name)


@pytest.fixture
def mariadb_url(mariadb_server: MariaDBAccess, mariadb_database: str) -> Iterator[str]:
    """A place in MariaDB with nothing in it: a prefix that no table has yet."""
    with mariadb_prefix(mariadb_server, mariadb_database) as url:
        yield url


@pytest.fixture(scope="module")
def lasting_mariadb_url(mariadb_server: MariaDBAccess, mariadb_database: str) -> Iterator[str]:
    """The same for the tests of a module that share one."""
    with mariadb_prefix(mariadb_server, mariadb_database) as url:
        yield url


@contextmanager
def mariadb_prefix(server: MariaDBAccess, database: str) -> Iterator[str]:
    """Lend out a prefix that no table has yet, and drop its tables in the end."""
    prefix = f"q{secrets.token_hex(6)}_"
    yield f"{server.url(database)}?prefix={prefix}"
    drops = server.sql(
        f"""
        SELECT CONCAT('DROP ', IF(table_type = 'VIEW', 'VIEW', 'TABLE'), ' `', table_name, '`;')
        FROM information_schema.tables
        WHERE table_schema = DATABASE() AND LEFT(table_name, {len(prefix)}) = '{prefix}'
        """,
        database,
    )
    # Who still holds a lock here has left a transaction open, and that is worth a failure.
    server.sql(f"SET foreign_key_checks = 0, lock_wait_timeout = 10; {drops}", database)


@pytest.fixture(scope="session")
def run_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that all processes of this test run have in common."""
    base = tmp_path_factory.getbasetemp()
    return base.parent if hasattr(request.config, "workerinput") else base


@contextmanager
def shared_port(kind: str, folder: Path) -> Iterator[int]:
    """Lend out the port of a server that all who name the same folder share."""
    meeting = Meeting(kind, folder)
    with meeting.users.open("a+") as users:
        port = meeting.join(users)
        try:
            yield port
        finally:
            meeting.leave(users)


class Meeting:
    """The files in a folder by which the users of a server and its keeper find each other."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.folder = folder
        self.users = folder / f"{kind}.users"
        """Locked by every user together, or by one who is alone."""
        self.door = folder / f"{kind}.door"
        """Locked by the one who comes or goes."""
        self.state = folder / f"{kind}.json"
        """Says where the server is, while there is one."""
        self.log = folder / f"{kind}.log"
        """What the keeper has to complain about."""

    def join(self, users: IO[str]) -> int:
        """Become a user of the server, which is started for the first one; return its port."""
        with self._through_the_door():
            # Waits here while a keeper clears up after users that were killed.
            fcntl.lockf(users, fcntl.LOCK_SH)
            state = self.read()
            if not state or is_gone(state["pid"]):
                state = self._start_keeper()
            return state["port"]

    def leave(self, users: IO[str]) -> None:
        """Stop being a user. The last one out waits for the server to be gone."""
        with self._through_the_door():
            try:
                fcntl.lockf(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            state = self.read()
            # Nobody can come in now, so it is the keeper who gets the lock next.
            fcntl.lockf(users, fcntl.LOCK_UN)
            if state:
                wait_until(lambda: is_gone(state["pid"]), f"the keeper of {self.kind} to end")

    def read(self) -> dict[str, int]:
        """Return where the server is and who keeps it; empty if there is none."""
        try:
            found: dict[str, int] = json.loads(self.state.read_text())
        except FileNotFoundError:
            return {}
        return found

    def write(self, **state: int) -> None:
        """Say where the server is."""
        draft = self.state.with_suffix(".draft")
        draft.write_text(json.dumps(state))
        draft.rename(self.state)

    @contextmanager
    def _through_the_door(self) -> Iterator[None]:
        with self.door.open("a") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            yield

    def _start_keeper(self) -> dict[str, int]:
        install_missing()
        self.state.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            # It is nobody's child, and a Ctrl-C at the tests doesn't reach it. It closes the
            # pipe, which we wait for, when the server serves, or by dying.
            subprocess.run(
                ["setsid", "--fork", sys.executable, "-m", __name__, self.kind, self.folder],
                cwd=CHECKOUT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                timeout=PATIENCE,
                check=True,
            )
        state = self.read()
        if not state:
            raise ServerError(f"there is no {self.kind} to share:\n{self.log.read_text()}")
        return state


def keep(kind: str, folder: Path) -> None:
    """Run a server as long as it has users."""
    meeting = Meeting(kind, folder)
    with meeting.users.open("a+") as users, SERVERS[kind](fast=True) as server:
        meeting.write(pid=os.getpid(), port=server.port)
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        fcntl.lockf(users, fcntl.LOCK_EX)
        meeting.state.unlink(missing_ok=True)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]))
