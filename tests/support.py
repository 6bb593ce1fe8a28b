"""A lab for tests with real processes: a queue of its own, nodes started by the real command."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from queuectl import Job, Queue, State
from tests import forks

T = TypeVar("T")
PATIENCE = 60.0
"""Seconds a condition may take. Long, because machines are slow; a test that passes is quick."""


def wait_for(condition: Callable[[], T | None], what: str = "", within: float = PATIENCE) -> T:
    """Return the first true value of a condition, asked again and again."""
    deadline = time.monotonic() + within
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"never came: {what or condition}")
        time.sleep(0.02)


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; a zombie has."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return True


def is_asleep(pid: int) -> bool:
    """Tell whether a process or a thread waits for something just now."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "S"


def children_of(pid: int) -> Sequence[int]:
    """Return the processes that a process has started: a node's guard, a guard's jobs."""
    path = Path(f"/proc/{pid}/task/{pid}/children")
    try:
        return [int(child) for child in path.read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []


def processes_with(text: str) -> list[int]:
    """Return the processes whose command line contains a text, this one aside."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit() or int(folder.name) == os.getpid():
            continue
        try:
            line = (folder / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if text.encode() in line and not is_gone(int(folder.name)):
            found.append(int(folder.name))
    return found


class Lab:
    """One queue, in a folder or on a server, with as many nodes as a test likes."""

    def __init__(self, folder: Path, url: str | None = None) -> None:
        self.folder = folder
        self.db = folder / "queue.db"
        self.url = url or str(self.db)
        self.nodes: list[subprocess.Popen[bytes]] = []
        self.queue = Queue(self.url)
        self.extra_env: dict[str, str] = {}

    @property
    def env(self) -> dict[str, str]:
        """The environment of the commands: nothing of the outer queue shines through."""
        outer = {k: v for k, v in os.environ.items() if not k.startswith("QUEUECTL_")}
        own = {"QUEUECTL_DB": self.url, "HOME": str(self.folder)}
        return outer | own | self.extra_env

    def command(self, *args: str) -> list[str]:
        """Return the installed command with arguments."""
        return [str(Path(sys.executable).with_name("queuectl")), *args]

    def run(self, *args: str, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
        """Run the command to its end."""
        done = forks.run(args, env=self.env, cwd=self.folder, timeout=timeout)
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    def run_shell(self, script: str) -> str:
        """Run a line of shell and return what it prints."""
        done = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=True)
        return done.stdout

    def start_node(self, *args: str, count: int | None = 1) -> subprocess.Popen[bytes]:
        """Start a node and don't wait for it; what it says is in its log.

        With None it has as many workers as the settings say.
        """
        own = [] if count is None else ["--count", str(count)]
        with (self.folder / f"node{len(self.nodes)}.log").open("wb") as log:
            process = subprocess.Popen(
                self.command("worker", "start", *own, *args),
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.nodes.append(process)
        return process

    def node(self, *args: str, count: int = 1) -> subprocess.Popen[bytes]:
        """Start a node and return once it is registered."""
        known = {node["id"] for node in self.queue.nodes()}
        process = self.start_node(*args, count=count)
        wait_for(
            lambda: (
                {node["id"] for node in self.queue.nodes()} - known or process.poll() is not None
            ),
            "a node that registers",
        )
        return process

    def log(self, number: int = 0) -> str:
        """Return what a node has said so far."""
        return (self.folder / f"node{number}.log").read_text(errors="replace")

    def wait_state(self, id: str, *states: State) -> Job:
        """Wait until a job is in one of these states."""

        def there() -> Job | None:
            job = self.queue.get(id)
            return job if job.state in states else None

        return wait_for(there, f"{id} in {states}, now {self.queue.get(id)}; {self.log()[-2000:]}")

    def lines(self, name: str) -> list[str]:
        """Return the lines that jobs appended to a file of the lab."""
        path = self.folder / name
        return path.read_text().splitlines() if path.exists() else []

    def pid_in(self, name: str) -> int:
        """Wait for a job to write a pid into a file of the lab."""
        path = self.folder / name
        text = wait_for(lambda: path.exists() and path.read_text().strip(), f"a pid in {name}")
        return int(str(text).split()[0])

    def close(self) -> None:
        """End everything that is left, by its pid."""
        for process in self.nodes:
            if process.poll() is None:
                # A guard that stands still would end nothing.
                for pid in (process.pid, *children_of(process.pid)):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGCONT)
                process.kill()
            process.wait(PATIENCE)
        wait_for(lambda: not processes_with(str(self.folder)), "all processes of the lab to end")
        self.queue.close()


@contextmanager
def lab_in(folder: Path, url: str | None = None) -> Iterator[Lab]:
    """Run a lab in a folder, or with its queue on a server, and clean up after it."""
    lab = Lab(folder, url)
    try:
        yield lab
    finally:
        lab.close()


EAGER = """
import sys
from queuectl.node import workers
workers.AHEAD_FOR = workers.LONGEST_AHEAD = 1000.0
workers.BEHIND_FOR = float(sys.argv.pop(1))
from queuectl.cli.main import main
main()
"""
"""A node that takes all jobs for short ones, however slow this machine is."""


class Eager:
    """What a lab is besides whose nodes claim ahead as soon as one run is over."""

    behind_for = "1000"
    """Seconds after which those behind a long one are released."""

    def command(self, *args: str) -> list[str]:
        if args[:2] == ("worker", "start"):
            return [sys.executable, "-c", EAGER, self.behind_for, *args]
        return super().command(*args)  # type: ignore[misc, no-any-return]
