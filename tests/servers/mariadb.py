"""MariaDB: how to reach one, and one of our own."""

import signal
import socket
from pathlib import Path
from typing import ClassVar

from tests.servers import ADMIN, HOST, QUEUECTL, Login, Server, run
from tests.servers.install import program


class MariaDBAccess:
    """A MariaDB server that somebody runs on this host: its databases and how to reach them."""

    def __init__(self, port: int) -> None:
        self.port = port

    def url(self, database: str, *, login: Login = QUEUECTL, port: int | None = None) -> str:
        """Return the URL of a database, perhaps through the port of a proxy."""
        return f"mysql://{login.name}:{login.password}@{HOST}:{port or self.port}/{database}"

    def client(
        self, database: str, *, login: Login = QUEUECTL, port: int | None = None
    ) -> list[str]:
        """Return a command line that runs the SQL of its input and prints bare rows."""
        return [
            program("mariadb"),
            "--no-defaults",
            "--batch",
            "--skip-column-names",
            "--skip-ssl",
            "--protocol=tcp",
            f"--host={HOST}",
            f"--port={port or self.port}",
            f"--user={login.name}",
            f"--password={login.password}",
            database,
        ]

    def sql(self, text: str, database: str = "mysql", *, login: Login = ADMIN) -> str:
        """Run SQL in a database and return the rows it prints."""
        return run(self.client(database, login=login), text).strip()

    def create_database(self, name: str) -> None:
        """Create an empty database in which queuectl may do everything."""
        # In a grant, the underscore is a wildcard.
        pattern = name.replace("_", r"\_")
        self.sql(
            f"CREATE DATABASE `{name}`; GRANT ALL ON `{pattern}`.* TO '{QUEUECTL.name}'@'{HOST}'"
        )

    def drop_database(self, name: str) -> None:
        """Drop a database."""
        self.sql(f"DROP DATABASE IF EXISTS `{name}`")


class MariaDB(MariaDBAccess, Server):
    """A MariaDB server of our own. A fast one skips fsync: it survives a crash, no power cut."""

    NAME: ClassVar[str] = "mariadb"
    ACCOUNT: ClassVar[str] = "mysql"
    STOP: ClassVar[signal.Signals] = signal.SIGTERM

    def __init__(self, *, fast: bool = False, tls: bool = False) -> None:
        # The package brings the account, which the folder is given to.
        program("mariadbd")
        Server.__init__(self)
        self.fast = fast
        self.tls = tls

    @property
    def _socket(self) -> Path:
        return self.folder / "socket"

    def _prepare(self) -> None:
        if self.tls:
            self._make_certificate()
        settings = self._write("my.cnf", "[mariadbd]", *self._settings())
        self._tool(
            program("mariadb-install-db"),
            f"--defaults-file={settings}",
            "--auth-root-authentication-method=normal",
            "--skip-name-resolve",
            "--skip-test-db",
        )

    def _make_certificate(self) -> None:
        """Make a certificate that only it has signed itself, as servers do that come with TLS."""
        files = ["-keyout", str(self.folder / "key.pem"), "-out", str(self.folder / "cert.pem")]
        asked = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=db"]
        self._tool(program("openssl"), *asked, *files)

    def _settings(self) -> list[str]:
        """Return the settings. There is no character set: the product must cope with any."""
        return [
            f"datadir = {self.folder / 'data'}",
            # Servers that share a folder for temporary tables delete each other's.
            f"tmpdir = {self.folder}",
            f"socket = {self._socket}",
            f"pid_file = {self.folder / 'pid'}",
            f"bind_address = {HOST}",
            "skip_name_resolve",
            "skip_log_bin",
            # What the proxy looks for must be readable.
            *(
                [f"ssl_cert = {self.folder}/cert.pem", f"ssl_key = {self.folder}/key.pem"]
                if self.tls
                else ["skip_ssl"]
            ),
            "max_connections = 200",
            "innodb_buffer_pool_size = 64M",
            "innodb_log_file_size = 16M",
            "innodb_flush_log_at_trx_commit = 1",
            *(["innodb_flush_method = nosync"] if self.fast else []),
        ]

    def _command(self) -> list[str]:
        return [
            program("mariadbd"),
            f"--defaults-file={self.folder / 'my.cnf'}",
            f"--port={self.port}",
        ]

    def _answers(self) -> bool:
        """Wait for its greeting at the socket in our folder. By then the port is open as well."""
        with socket.socket(socket.AF_UNIX) as greeted:
            greeted.settimeout(1)
            try:
                greeted.connect(str(self._socket))
                return bool(greeted.recv(1))
            except OSError:
                return False

    def _introduce(self) -> None:
        """Create our users, and remove those who need no password."""
        client = [program("mariadb"), "--no-defaults", f"--socket={self._socket}", "--user=root"]
        run(
            client,
            f"""
            CREATE USER '{QUEUECTL.name}'@'{HOST}' IDENTIFIED BY '{QUEUECTL.password}';
            CREATE USER '{ADMIN.name}'@'{HOST}' IDENTIFIED BY '{ADMIN.password}';
            GRANT ALL ON *.* TO '{ADMIN.name}'@'{HOST}' WITH GRANT OPTION;
            DELETE FROM mysql.global_priv WHERE User IN ('', 'root');
            FLUSH PRIVILEGES;
            """,
        )
