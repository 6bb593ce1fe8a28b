"""The forks in which most commands are run here: they do what the installed command does."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests import forks
from tests.cli.conftest import COMMAND, Cli


def real(cli: Cli, *args: str, input: bytes = b"") -> "subprocess.CompletedProcess[bytes]":
    """Run the installed command itself."""
    return subprocess.run(
        [COMMAND, *args],
        env=cli.env,
        cwd=cli.folder,
        input=input,
        capture_output=True,
        check=False,
    )


@pytest.mark.parametrize(
    ("args", "given"),
    [
        (("--version",), b""),
        (("list", "--columns", "id,state,command"), b""),
        (("list", "--json"), b""),
        (("show", "one"), b""),
        (("show", "none"), b""),
        (("no-such-command",), b""),
        (("enqueue", "--dry-run", "echo {}", "--each-line", "-"), b"a\n\xff\n"),
        (("enqueue", "--no-such-option"), b""),
        (("status", "--db", "/no/such/folder/queue.db"), b""),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_comes_of_a_command_is_the_same(cli: Cli, args: tuple[str, ...], given: bytes) -> None:
    cli.ok("enqueue", "--id", "one", "echo \u20ac")
    for variables in ({"TZ": "Asia/Kolkata"}, {"TZ": "UTC", "COLUMNS": "40", "NO_COLOR": "1"}):
        cli.variables = variables
        installed, forked = real(cli, *args, input=given), cli.run(*args, input=given)
        assert (forked.code, forked.out, forked.err) == (
            installed.returncode,
            installed.stdout,
            installed.stderr,
        )


def test_one_that_takes_too_long_is_killed(cli: Cli) -> None:
    id = cli.add("true")
    with pytest.raises(subprocess.TimeoutExpired):
        cli.run("wait", id, timeout=0.5)
    assert cli.ok("list", "-q").lines == [id]


def test_they_share_nothing_but_what_was_imported(cli: Cli, tmp_path: Path) -> None:
    others = tmp_path / "others"
    others.mkdir()
    cli.add("true")
    cli.variables = {"QUEUECTL_DB": str(others / "queue.db")}
    assert cli.run("list", "-q").code == 5
    cli.variables = {}
    assert len(cli.ok("list", "-q").lines) == 1


def test_how_python_starts_is_heeded(cli: Cli) -> None:
    (cli.folder / "sitecustomize.py").write_text("raise SystemExit(17)")
    cli.variables = {"PYTHONPATH": str(cli.folder)}
    done = forks.run(["list"], env=cli.env, cwd=cli.folder, timeout=60)
    site = subprocess.run([sys.executable, "-c", ""], env=cli.env, check=False)
    assert done.returncode == site.returncode != 0
