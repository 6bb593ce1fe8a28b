"""Server URLs: taken apart rightly, and shown without secrets."""

import pytest

from queuectl.address import is_server, read_address, without_secrets
from queuectl.cli.passwords import passwords_in
from queuectl.errors import UsageError


class TestReading:
    def test_a_whole_one(self) -> None:
        found = read_address("postgresql://me:p%40ss%2F@host:5433/jobs?schema=mine&sslmode=require")
        assert (found.user, found.password, found.host, found.port) == (
            "me",
            "p@ss/",
            "host",
            5433,
        )
        assert (found.database, found.namespace, found.options) == (
            "jobs",
            "mine",
            {"sslmode": "require"},
        )

    def test_several_hosts(self) -> None:
        found = read_address("postgresql://me@a:1,b:2/jobs?target_session_attrs=read-write")
        assert found.hosts == "a:1,b:2"

    @pytest.mark.parametrize("scheme", ["mysql", "mariadb", "postgres", "POSTGRESQL"])
    def test_schemes(self, scheme: str) -> None:
        assert is_server(f"{scheme}://h/d")
        assert read_address(f"{scheme}://h/d").dialect in ("mysql", "postgresql")

    @pytest.mark.parametrize("path", ["jobs.db", "sqlite:jobs.db", "/a/b", "oracle://h/d", "C://x"])
    def test_what_is_no_server(self, path: str) -> None:
        assert not is_server(path)

    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:sec?ret@host/jobs",
            "mysql://me:Tr0ub@dor/3@host/jobs",
            "postgresql://me:sec/ret@host/jobs",
            "postgresql://me:p@ss/word@host/jobs",
        ],
    )
    def test_an_odd_password_that_is_not_escaped(self, url: str) -> None:
        with pytest.raises(UsageError, match="%40 %2F") as error:
            read_address(url)
        for part in ("sec", "ret", "ub@", "dor", "ss/"):
            assert part not in str(error.value)

    @pytest.mark.parametrize("url", ["postgresql://host", "mysql://me:secret@host/"])
    def test_one_without_a_database(self, url: str) -> None:
        with pytest.raises(UsageError, match="names no database") as error:
            read_address(url)
        assert "secret" not in str(error.value)

    @pytest.mark.parametrize("name", ["", "a b", "1a", "a;b", "x" * 33, 'q"'])
    def test_a_name_for_the_tables_that_cannot_be(self, name: str) -> None:
        with pytest.raises(UsageError, match="prefix"):
            read_address(f"mysql://h/d?prefix={name}")


class TestSecrets:
    @pytest.mark.parametrize(
        "url",
        [
            "postgresql://me:secret@h/d",
            "mysql://me:se%40cret@h/d?password=secret",
            "postgresql://me@h/d?password=secret&sslpassword=secret&schema=a",
            "mariadb://me:secret@h/",
            "postgresql://me:secret@h@i/d/secret@x",
        ],
    )
    def test_are_never_shown(self, url: str) -> None:
        shown = without_secrets(url)
        assert "secret" not in shown
        assert "cret" not in shown

    def test_a_path_is_shown_as_it_is(self) -> None:
        assert without_secrets("/tmp/a:b@c.db") == "/tmp/a:b@c.db"

    def test_are_found_among_arguments(self) -> None:
        arguments = ["--db", "postgresql://me:a@b@h/d?password=c", "echo", "mysql://h/d"]
        assert passwords_in(arguments) == ["a@b", "c"]
