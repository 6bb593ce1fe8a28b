"""`worker start --metrics`: addresses that it takes, and what it says without its package."""

import subprocess
import sys

import click
import pytest

from queuectl.cli.metrics import read_address
from tests.cli.conftest import Cli

WITHOUT = """
import sys
sys.modules["prometheus_client"] = None
from queuectl.cli.main import main
main()
"""
"""The command, where the package isn't installed."""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9464", ("127.0.0.1", 9464)),
        ("0", ("127.0.0.1", 0)),
        ("0.0.0.0:9464", ("0.0.0.0", 9464)),
        ("web1.example:65535", ("web1.example", 65535)),
        ("[::1]:9464", ("::1", 9464)),
        ("[::]:9464", ("::", 9464)),
    ],
)
def test_addresses(text: str, address: tuple[str, int]) -> None:
    assert read_address(text) == address


@pytest.mark.parametrize(
    "text",
    [
        *("", ":", ":9464", "9464:", "x", "-1", "65536", "0000080", "9" * 5_000, "\uff11"),
        *("::1", "::1:80", "[::1]", "[]:80", "http://localhost:80", "localhost:http"),
    ],
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(click.UsageError, match="takes PORT or HOST:PORT"):
        read_address(text)


def test_the_command_says_so(cli: Cli) -> None:
    cli.add("true")
    line = cli.refused("worker", "start", "--metrics", "http", code=2)
    assert line.startswith("queuectl: --metrics takes PORT or HOST:PORT, such as 9464")
    line = cli.refused("worker", "start", "--metrics", "nowhere.invalid:80", code=2)
    assert line == "queuectl: 'nowhere.invalid' is no address of this host; check --metrics."
    assert cli.queue.registered_nodes() == []


def test_without_the_package_it_says_what_to_install(cli: Cli) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, "worker", "start", "--metrics", "0"],
        env=cli.env,
        cwd=cli.folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "queuectl: Metrics need the package prometheus-client, which isn't installed; in a clone of"
        " queuectl: pip install '.[web]'.\n"
    )
    # Nobody else needs it.
    cli.add("true")
    args = [sys.executable, "-c", WITHOUT, "worker", "start", "--drain"]
    assert subprocess.run(args, env=cli.env, cwd=cli.folder, check=False).returncode == 0


def test_it_can_be_kept_in_a_file_of_options(cli: Cli) -> None:
    cli.ok("worker", "configure", "node.toml", "--metrics", "[::1]:9464")
    assert 'metrics = "[::1]:9464"' in (cli.folder / "node.toml").read_text()
    (cli.folder / "node.toml").write_text("metrics = 0\n")
    cli.ok("worker", "start", "-f", "node.toml", "--drain")
