"""`demo`: it shows the real thing, checks it, and leaves nothing behind."""

import os
import signal
from pathlib import Path

from tests.cli.conftest import Cli
from tests.support import processes_with, wait_for


def test_the_demo_keeps_its_promises_and_cleans_up(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    cli.variables["TMPDIR"] = str(place)
    cli.variables["QUEUECTL_MAX_RETRIES"] = "0"  # the user's settings must not shine through
    result = cli.run("demo", timeout=110)
    assert result.code == 0, result
    assert "Everything came out as promised." in result.stdout
    for command in (
        "config set",
        "enqueue",
        "worker start",
        "status",
        "list",
        "output",
        "dlq list",
    ):
        assert f"$ queuectl {command}" in result.stdout
    assert "$ queuectl dlq retry broken" in result.stdout
    assert "$ queuectl stats" in result.stdout
    assert "\x1b" not in result.stdout
    assert list(place.iterdir()) == []
    assert not cli.db.exists(), "the user's own queue isn't touched"


def test_an_interrupted_demo_cleans_up(cli: Cli, tmp_path: Path) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    cli.variables["TMPDIR"] = str(place)
    demo = cli.start("demo", start_new_session=True)
    stdout, stderr = demo.stdout, demo.stderr
    assert stdout is not None
    assert stderr is not None
    wait_for(lambda: b"worker start" in stdout.readline(), "the workers' scene")
    wait_for(lambda: b"job slow started" in stderr.readline(), "the slow job")
    os.killpg(demo.pid, signal.SIGINT)  # as Ctrl+C on a terminal does
    demo.communicate()
    assert demo.returncode == 130
    assert list(place.iterdir()) == []
    wait_for(lambda: not processes_with(str(place)), "all processes of the demo to end")
