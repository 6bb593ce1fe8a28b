"""The servers of the benchmarks: PostgreSQL, MariaDB and Redis, set as they come.

They are those of the tests, with the memory and logs that packages give them by default, and
with fsync on.
"""

import signal
import socket
from typing import ClassVar

from tests.servers import HOST, Server
from tests.servers.install import find
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres


class FullPostgres(Postgres):
    """PostgreSQL with its own defaults; those of the tests are smaller."""

    def _settings(self) -> list[str]:
        return [
            *super()._settings(),
            "shared_buffers = 128MB",
            "max_wal_size = 1GB",
            "min_wal_size = 80MB",
        ]


class FullMariaDB(MariaDB):
    """MariaDB with its own defaults; those of the tests are smaller."""

    def _settings(self) -> list[str]:
        return [
            *super()._settings(),
            "innodb_buffer_pool_size = 128M",
            "innodb_log_file_size = 96M",
        ]


class Redis(Server):
    """Redis as it comes: in memory, with a snapshot on disk now and then."""

    NAME: ClassVar[str] = "redis"
    ACCOUNT: ClassVar[str] = "redis"
    STOP: ClassVar[signal.Signals] = signal.SIGTERM

    @property
    def url(self) -> str:
        """Where it is."""
        return f"redis://{HOST}:{self.port}/0"

    def flush(self) -> None:
        """Forget everything."""
        self._ask(b"FLUSHALL")

    def _prepare(self) -> None:
        """There is nothing to prepare."""

    def _command(self) -> list[str]:
        program = find("redis-server") or "redis-server"
        return [program, "--bind", HOST, "--port", str(self.port), "--dir", str(self.folder)]

    def _answers(self) -> bool:
        try:
            return self._ask(b"PING") == b"+PONG"
        except OSError:
            return False

    def _ask(self, command: bytes) -> bytes:
        with socket.create_connection((HOST, self.port), timeout=60) as link:
            link.sendall(command + b"\r\n")
            return link.recv(100).strip()
