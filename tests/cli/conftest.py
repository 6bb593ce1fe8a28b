"""The installed command, run as users run it: a process of its own, a home and queue of its own."""

import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import termios
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from queuectl import Queue
from tests import forks
from tests.support import PATIENCE, wait_for

COMMAND = forks.COMMAND
LEADER = """told=$1; shift; trap : INT QUIT; "$@"; code=$?
exec </dev/null >/dev/null 2>&1; read -r _ <"/proc/self/fd/$told"; exit $code"""
"""What leads the session on a terminal, as a shell does: when its leader ends, a terminal hangs up,
and what nobody has read yet may be gone. So it lets go of it, and ends when all has been read."""


@dataclass(frozen=True)
class Result:
    """What a command came to."""

    code: int
    out: bytes
    err: bytes

    @property
    def stdout(self) -> str:
        return self.out.decode()

    @property
    def stderr(self) -> str:
        return self.err.decode()

    @property
    def json(self) -> Any:
        """The one JSON value on stdout."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.stdout.splitlines()


class Cli:
    """One home with one queue that doesn't exist until a command makes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.db = folder / "queue.db"
        self.variables: dict[str, str] = {}
        self._started: list[subprocess.Popen[bytes]] = []
        self._queue: Queue | None = None

    @property
    def env(self) -> dict[str, str]:
        """The environment of the commands: nothing of the outer one's settings shines through."""
        own = ("QUEUECTL_", "_QUEUECTL_", "NO_COLOR", "XDG_", "COLUMNS", "TERM")
        outer = {k: v for k, v in os.environ.items() if not k.startswith(own)}
        return outer | {
            "QUEUECTL_DB": str(self.db),
            "HOME": str(self.folder),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "TERM": "xterm",
            **self.variables,
        }

    @property
    def queue(self) -> Queue:
        """The queue, opened once; makes it if no command has."""
        if self._queue is None:
            self._queue = Queue(str(self.db))
        return self._queue

    def run(self, *args: str, input: bytes | str = b"", timeout: float = PATIENCE) -> Result:
        """Run the command to its end."""
        given = input.encode() if isinstance(input, str) else input
        done = forks.run(args, env=self.env, cwd=self.folder, input=given, timeout=timeout)
        return Result(done.returncode, done.stdout, done.stderr)

    def ok(self, *args: str, input: bytes | str = b"") -> Result:
        """Run the command, which must succeed."""
        result = self.run(*args, input=input)
        assert result.code == 0, result
        return result

    def refused(self, *args: str, code: int, input: bytes | str = b"") -> str:
        """Run the command, which must fail with one sentence and print no data; returns it."""
        result = self.run(*args, input=input)
        assert result.code == code, result
        assert result.out == b""
        (line,) = result.stderr.splitlines()
        assert line.startswith("queuectl: ")
        assert line.endswith((".", "?", "!")), line
        return line

    def add(self, *args: str) -> str:
        """Enqueue a job; returns its id."""
        return self.ok("enqueue", "-q", *args).stdout.strip()

    def start(self, *args: str, **options: Any) -> "subprocess.Popen[bytes]":
        """Start the command and leave it running; it is ended with the test at the latest."""
        settings: dict[str, Any] = {
            "stdin": subprocess.DEVNULL,
            "stdout": subprocess.PIPE,
            "stderr": subprocess.PIPE,
        }
        process = subprocess.Popen(
            [COMMAND, *args],
            env=self.env,
            cwd=self.folder,
            **(settings | options),
        )
        self._started.append(process)
        return process

    def start_reader(self, *args: str) -> "subprocess.Popen[bytes]":
        """Start a command that goes on reading, and return when it has settled down to it."""
        process = self.start(*args, start_new_session=True)
        files = Path(f"/proc/{process.pid}/fd")

        def has_opened() -> bool:
            # What it opens only for a moment may be gone when we look at it.
            with suppress(FileNotFoundError):
                return any(os.path.realpath(fd) == str(self.db) for fd in files.iterdir())
            return False

        wait_for(has_opened, "the reader to open the queue")
        # It looks again and again: by now it has nothing else to do.
        looks = psutil.Process(process.pid)
        before = looks.num_ctx_switches().voluntary
        wait_for(lambda: looks.num_ctx_switches().voluntary > before + 5, "the reader to look")
        return process

    def node(self, *args: str, count: int = 2) -> "subprocess.Popen[bytes]":
        """Start workers and return once they are registered."""
        known = {node["id"] for node in self.queue.nodes()}
        with (self.folder / "node.log").open("ab") as log:
            command = ("worker", "start", "--count", str(count), *args)
            process = self.start(*command, stdout=log, stderr=log, start_new_session=True)
        wait_for(
            lambda: (
                {node["id"] for node in self.queue.nodes()} - known or process.poll() is not None
            ),
            "a node that registers",
        )
        return process

    def on_terminal(
        self,
        *args: str,
        columns: int = 80,
        until: str = "",
        key: bytes = b"",
        watch: Callable[[bytes], None] = lambda shown: None,
    ) -> Result:
        """Run the command on a terminal; when `until` has been shown, press a key.

        `watch` is told, whenever there is more, all that has been shown so far.

        What both streams showed comes back as `out`, with the terminal's own line ends undone.
        """
        master, slave = pty.openpty()
        mode = termios.tcgetattr(slave)
        mode[3] |= termios.NOFLSH  # Else Ctrl+C also drops what was written and not yet read.
        termios.tcsetattr(slave, termios.TCSANOW, mode)
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        told, until_read = os.pipe()
        process = subprocess.Popen(
            ["sh", "-c", LEADER, "sh", str(told), COMMAND, *args],
            env=self.env,
            cwd=self.folder,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
            pass_fds=[told],
        )
        self._started.append(process)
        os.close(slave)
        os.close(told)
        shown = b""
        while chunk := _read(master):
            shown += chunk
            watch(shown)
            if key and until.encode() in shown:
                os.write(master, key)
                key = b""
        os.close(until_read)
        code = process.wait(PATIENCE)
        os.close(master)
        return Result(code, shown.replace(b"\r\n", b"\n"), b"")

    def close(self) -> None:
        """End what is left, by its pid."""
        for process in self._started:
            # Workers drain, then they release what still runs.
            for ending, seconds in (
                (signal.SIGTERM, 0.05),
                (signal.SIGTERM, 4),
                (signal.SIGKILL, PATIENCE),
            ):
                if process.poll() is None:
                    process.send_signal(ending)
                    _wait(process, seconds)
            process.wait(PATIENCE)
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()
        if self._queue is not None:
            self._queue.close()


def _wait(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        return


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # All who had it open are gone.
        return b""


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    """The command in a home of its own."""
    cli = Cli(tmp_path)
    try:
        yield cli
    finally:
        cli.close()


@pytest.fixture
def working(cli: Cli) -> Cli:
    """The command, with two workers that run."""
    cli.node()
    return cli
