"""PgBouncer: a pooler in front of a PostgreSQL server, with a session per transaction."""

import signal
from typing import ClassVar

from tests.servers import ADMIN, HOST, QUEUECTL, Server, ServerError
from tests.servers.install import program
from tests.servers.postgres import PostgresAccess


class PgBouncer(PostgresAccess, Server):
    """A pooler of our own for all databases of a server, reached like the server itself."""

    NAME: ClassVar[str] = "pgbouncer"
    ACCOUNT: ClassVar[str] = "postgres"
    # It has nothing to lose, and whether SIGTERM waits for its clients depends on its version.
    STOP: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, server: PostgresAccess) -> None:
        program("pgbouncer")
        Server.__init__(self)
        self.server = server

    def _prepare(self) -> None:
        users = (f'"{login.name}" "{login.password}"' for login in (QUEUECTL, ADMIN))
        self._write("users.txt", *users)

    def _command(self) -> list[str]:
        settings = self._write(
            "pgbouncer.ini",
            "[databases]",
            f"* = host={HOST} port={self.server.port}",
            "[pgbouncer]",
            f"listen_addr = {HOST}",
            f"listen_port = {self.port}",
            "unix_socket_dir =",
            "auth_type = scram-sha-256",
            f"auth_file = {self.folder / 'users.txt'}",
            f"admin_users = {ADMIN.name}",
            "pool_mode = transaction",
            "max_client_conn = 200",
            "default_pool_size = 20",
        )
        return [program("pgbouncer"), str(settings)]

    def _answers(self) -> bool:
        try:
            return bool(self.sql("SHOW VERSION", "pgbouncer"))
        except ServerError:
            return False
