"""Ctrl+C: commands end with 130 and without a traceback, and what is stored is said.

The random moments are in `tests/faults/campaigns/interrupts.py`; here are those that can be chosen.
"""

import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import IO

import apsw
import psutil
import pytest

from queuectl import State
from tests.cli.conftest import COMMAND, Cli
from tests.support import wait_for

MANY = 20_000
"""Jobs whose ids don't fit into a pipe, and no more than are stored at once."""


def ids_in(cli: Cli) -> list[str]:
    return [job.id for job in cli.queue.list(limit=None, oldest=True)]


def input_of(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdin is not None
    return process.stdin


def test_who_waits_for_the_lock_ends_at_once_and_stores_nothing(cli: Cli) -> None:
    cli.add("true", "--id", "first")
    with closing(apsw.Connection(str(cli.db))) as other:
        other.execute("BEGIN IMMEDIATE")
        for args in (("enqueue", "true"), ("cancel", "first"), ("pause", "default")):
            waiting = cli.start_reader(*args)
            waiting.send_signal(signal.SIGINT)
            assert waiting.communicate(timeout=60) == (b"", b"")
            assert waiting.returncode == 130
    assert ids_in(cli) == ["first"]
    assert cli.queue.get("first").state == State.PENDING
    assert cli.queue.status().paused == ()


def test_what_was_stored_is_said_before_the_command_ends(cli: Cli) -> None:
    jobs = cli.folder / "jobs.txt"
    jobs.write_text("true\n" * MANY)
    # It can't say it all, as nobody reads: so the signal comes between storing and saying.
    process = cli.start("enqueue", "--lines", str(jobs), "-q")
    wait_for(lambda: cli.queue.status().total == MANY, "the jobs to be stored")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, b"")
    assert out.decode().split() == ids_in(cli)


@pytest.mark.parametrize("quietly", [(), ("-q",)], ids=["told", "quiet"])
def test_keep_going_says_what_it_stored_from_a_pipe(cli: Cli, quietly: tuple[str, ...]) -> None:
    command = ("enqueue", "--lines", "-", "--keep-going", *quietly)
    process = cli.start(*command, stdin=subprocess.PIPE)
    # One more than is stored at once; then the pipe is silent.
    input_of(process).write(b"true\n" * (MANY + 1))
    input_of(process).flush()
    wait_for(lambda: cli.queue.status().total == MANY, "the first jobs to be stored")
    wait_for(lambda: psutil.Process(process.pid).status() == "sleeping", "it to read on")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == b"Interrupted: the rest of stdin wasn't stored."
    if quietly:
        assert out.decode().split() == ids_in(cli)
    else:
        assert out == b"Enqueued 20,000 jobs.\n"
    assert len(ids_in(cli)) == MANY


@pytest.mark.parametrize("how", [("--wait", "--json"), ("--follow", "-q")], ids=" ".join)
def test_who_waits_in_silence_is_told_which_job_goes_on(cli: Cli, how: tuple[str, ...]) -> None:
    process = cli.start_reader("enqueue", "true", "--id", "mine", *how)
    wait_for(lambda: ids_in(cli) == ["mine"], "the job to be stored")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, b"")
    *hint, line = err.decode().splitlines()
    assert line == "Nothing was stopped; go on with: queuectl wait mine."
    assert all("No worker" in text for text in hint)  # if that took a second


def test_on_a_terminal_the_prompt_gets_a_line_of_its_own(cli: Cli) -> None:
    id = cli.add("true")
    shown = cli.on_terminal("wait", id, until="No worker is running", key=b"\x03")
    assert shown.code == 130
    *_, echo, last = shown.stdout.splitlines()
    # The hint may not have ended its line yet when the terminal echoes the key.
    assert echo.endswith("^C")
    assert last == f"Nothing was stopped; go on with: queuectl wait {id}."


def test_an_ignored_interrupt_stays_ignored(cli: Cli) -> None:
    """As for what a shell starts in the background, or under nohup."""
    id = cli.add("true")
    waiting = subprocess.Popen(
        ["sh", "-c", f"trap '' INT; exec {COMMAND} wait {id} 2>/dev/null"], env=cli.env
    )
    wait_for(lambda: "wait" in psutil.Process(waiting.pid).cmdline(), "the command to start")
    waiting.send_signal(signal.SIGINT)
    cli.ok("cancel", id)
    assert waiting.wait(60) == 1  # that of a cancelled job


def test_a_program_that_imports_queuectl_keeps_its_signals(tmp_path: Path) -> None:
    program = (
        "import signal, queuectl, queuectl.cli.main\n"
        f"queuectl.Queue({str(tmp_path / 'queue.db')!r}).enqueue('true')\n"
        "queuectl.cli.main.run(['--version'])\n"
        "assert signal.getsignal(signal.SIGINT) is signal.default_int_handler\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
