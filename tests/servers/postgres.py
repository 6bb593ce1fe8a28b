"""PostgreSQL: how to reach one, and one of our own."""

import signal
import subprocess
from pathlib import Path
from typing import ClassVar

from tests.servers import ADMIN, HOST, QUEUECTL, Login, Server, run
from tests.servers.install import program


class PostgresAccess:
    """A PostgreSQL server that somebody runs on this host: its databases and how to reach them."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str, *, login: Login = QUEUECTL, port: int | None = None) -> str:
        """Return the URL of a database, perhaps through the port of a proxy."""
        return f"postgresql://{login.name}:{login.password}@{HOST}:{port or self.port}/{database}"

    def client(
        self, database: str, *, login: Login = QUEUECTL, port: int | None = None
    ) -> list[str]:
        """Return a command line that runs the SQL of its input and prints bare rows."""
        url = self.url(database, login=login, port=port)
        return [program("psql"), "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", url]

    def sql(self, text: str, database: str = "postgres", *, login: Login = ADMIN) -> str:
        """Run SQL in a database and return the rows it prints."""
        return run(self.client(database, login=login), text).strip()

    def create_database(self, name: str) -> None:
        """Create an empty database that belongs to queuectl."""
        self.sql(f'CREATE DATABASE "{name}" OWNER "{QUEUECTL.name}"')

    def drop_database(self, name: str) -> None:
        """Drop a database and throw out who is connected to it."""
        self.sql(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')


class Postgres(PostgresAccess, Server):
    """A PostgreSQL server of our own. A fast one skips fsync: it survives a crash, no power cut."""

    NAME: ClassVar[str] = "postgres"
    ACCOUNT: ClassVar[str] = "postgres"
    STOP: ClassVar[signal.Signals] = signal.SIGINT
    # The postmaster takes its children along; killed, it would leave them to find out.
    ORPHANED: ClassVar[signal.Signals] = signal.SIGQUIT

    def __init__(self, *, fast: bool = False) -> None:
        # The package brings the account, which the folder is given to.
        program("postgres")
        Server.__init__(self)
        self.fast = fast

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    def _prepare(self) -> None:
        password = self._write("password", ADMIN.password)
        self._tool(
            program("initdb"),
            f"--pgdata={self._data}",
            f"--username={ADMIN.name}",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--encoding=UTF8",
            "--locale=C.UTF-8",
            "--wal-segsize=1",
            "--no-instructions",
            "--no-sync",
        )
        password.unlink()
        with (self._data / "postgresql.conf").open("a") as conf:
            conf.write("\n".join(self._settings()) + "\n")

    def _settings(self) -> list[str]:
        return [
            f"listen_addresses = '{HOST}'",
            "unix_socket_directories = ''",
            "max_connections = 200",
            "shared_buffers = 32MB",
            # In the data folder, where nothing is left behind after a kill.
            "dynamic_shared_memory_type = mmap",
            f"fsync = {'off' if self.fast else 'on'}",
        ]

    def _command(self) -> list[str]:
        return [program("postgres"), "-D", str(self._data), "-p", str(self.port)]

    def _answers(self) -> bool:
        """Read it off the postmaster's own file: first its pid, last its status."""
        try:
            lines = (self._data / "postmaster.pid").read_text().splitlines()
        except FileNotFoundError:
            return False
        ours = self._process is not None and lines[:1] == [str(self._process.pid)]
        return ours and len(lines) >= 8 and lines[7].strip() == "ready"

    def _introduce(self) -> None:
        self.sql(f"CREATE ROLE {QUEUECTL.name} LOGIN PASSWORD '{QUEUECTL.password}'")

    def close(self) -> None:
        """Kill it and remove its data, and the scrap of shared memory that marks it as running."""
        pid_file = self._data / "postmaster.pid"
        lines = pid_file.read_text().splitlines() if pid_file.exists() else []
        super().close()
        if len(lines) >= 7 and len(segment := lines[6].split()) == 2:
            subprocess.run(["ipcrm", "-m", segment[1]], capture_output=True, check=False)
