"""Connections to the servers that aren't ours, for clients that know nothing of queuectl."""

from typing import Any
from urllib.parse import parse_qs, urlsplit

import psycopg
import pymysql

from tests.contract.actors import ForeignError, Row, SqliteClient

TABLES = SqliteClient.TABLES
MUCH = 4 * 2**20
"""Bytes of a table that is better made anew than emptied."""


class ServerClient:
    """A connection to a server, with statements committed at once unless they begin one."""

    error: type[Exception]

    def __init__(self, url: str) -> None:
        self.url = url
        self._parts = urlsplit(url)
        self._options = parse_qs(self._parts.query)
        self._db: Any = None

    def run(self, text: str, *params: object) -> list[Row]:
        """Run one statement."""
        self._db = self._db or self.connect()
        words = text.format_map({table: self.prefix + table for table in TABLES})
        cursor = self._db.cursor()
        try:
            cursor.execute(words.replace("%", "%%").replace("?", "%s"), params)
            return [tuple(row) for row in cursor.fetchall()] if cursor.description else []
        except self.error as error:
            raise ForeignError(str(error)) from error
        finally:
            cursor.close()

    def wipe(self) -> None:
        """Empty every table."""
        tables = [table for table in TABLES if table != "meta"]
        asked = ", ".join(f"EXISTS (SELECT 1 FROM {{{table}}})" for table in tables)
        [found] = self.run(f"SELECT {asked}")
        for table, has_rows in zip(tables, found, strict=True):
            if has_rows:
                self.run(f"DELETE FROM {{{table}}}")

    def close(self) -> None:
        """Disconnect."""
        if self._db is not None:
            self._db.close()
            self._db = None

    @property
    def prefix(self) -> str:
        """What stands before the names of tables."""
        raise NotImplementedError

    def connect(self) -> Any:
        """Connect."""
        raise NotImplementedError


class PostgresClient(ServerClient):
    """A connection to PostgreSQL."""

    error = psycopg.Error

    @property
    def prefix(self) -> str:
        return f'"{self._options["schema"][0]}".'

    def connect(self) -> Any:
        url = self._parts._replace(query="").geturl()
        return psycopg.connect(url, autocommit=True)

    def wipe(self) -> None:
        [[size]] = self.run("SELECT pg_total_relation_size('{jobs}')")
        if size > MUCH:
            names = ", ".join(f"{{{table}}}" for table in TABLES if table != "meta")
            self.run(f"TRUNCATE {names} RESTART IDENTITY")
            return
        # Of a few rows, that takes a hundredth of the time.
        super().wipe()
        self.run(
            "SELECT setval(oid, 1, false) FROM pg_class WHERE relkind = 'S'"
            " AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{jobs}'::regclass)"
        )


class MariaDBClient(ServerClient):
    """A connection to MariaDB."""

    error = pymysql.MySQLError

    @property
    def prefix(self) -> str:
        return self._options["prefix"][0]

    def connect(self) -> Any:
        parts = self._parts
        return pymysql.connect(
            host=parts.hostname,
            port=parts.port or 3306,
            user=parts.username,
            password=parts.password or "",
            database=parts.path[1:],
            charset="utf8mb4",
            autocommit=True,
            # Reading the certificates of all the world takes longer than most tests.
            ssl_disabled=True,
        )
