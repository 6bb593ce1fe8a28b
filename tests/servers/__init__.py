"""Real database servers for tests. Here is what all of them share: a program, a folder, a port.

Only the standard library is imported here, so that `python3 -m tests.servers.install` works
before anything is installed.
"""

import atexit
import os
import pwd
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, NamedTuple, Self

HOST = "127.0.0.1"
PATIENCE = 60.0
"""Seconds a server may take to start or to stop. Long, because machines are slow."""
PORTS = range(20_000, 30_000)
"""Below the ports that the kernel gives to clients, so that nobody takes a stopped server's."""


class Login(NamedTuple):
    """A name and a password that a server knows."""

    name: str
    password: str


QUEUECTL = Login("queuectl", "secret")
"""The owner of the databases: what an application has, and no more."""
ADMIN = Login("admin", "more-secret")
"""The one who may do everything."""


class ServerError(Exception):
    """A server, or a client of it, didn't do what a test needs; holds what it said."""


class Server(ABC):
    """A server on loopback with a folder of its own. It ends with the process that started it.

    Start it in the main thread: for Linux, a parent that dies is the thread that started a child.
    """

    NAME: ClassVar[str]
    ACCOUNT: ClassVar[str]
    """Who it runs as if the tests run as root."""
    STOP: ClassVar[signal.Signals]
    """Asks it to stop now, without waiting for its clients."""
    ORPHANED: ClassVar[signal.Signals] = signal.SIGKILL
    """Sent to it by the kernel when its parent dies."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=f"queuectl-{self.NAME}-"))
        self.port = free_port()
        self.env: dict[str, str] = {}
        """What is added to its environment when it starts."""
        self._process: subprocess.Popen[bytes] | None = None
        self._prepared = False
        if os.geteuid() == 0:
            os.chown(self.folder, *_ids(self.ACCOUNT))
        self._owner = os.getpid()
        atexit.register(self.close)

    @abstractmethod
    def _prepare(self) -> None:
        """Make the files that the server needs before its first start."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command line that runs it in the foreground."""

    @abstractmethod
    def _answers(self) -> bool:
        """Tell whether it is this server that serves on the port."""

    def _introduce(self) -> None:  # noqa: B027 - a server may have no users of its own
        """Tell a server, right after its first start, who its users are."""

    def start(self) -> None:
        """Start it and return once it serves. A server that runs already is left alone."""
        if self.processes():
            return
        if self._prepared:
            self._launch()
            return
        self._prepare()
        self._launch_on_a_free_port()
        self._introduce()
        self._prepared = True

    def stop(self) -> None:
        """Stop it in order, and keep its data. Its clients are thrown out."""
        if self._process is None:
            return
        self._process.send_signal(self.STOP)
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            said = self.log()
            self.kill()
            raise ServerError(f"{self.NAME} didn't stop, so it was killed:\n{said}") from None
        self._process = None

    def kill(self) -> None:
        """Kill it with all its processes at once, and keep its data as they are: a crash."""
        if self._process is None:
            return
        # A stopped parent starts no more children while we count them, nor tidies up after them.
        self._process.send_signal(signal.SIGSTOP)
        pids = self.processes()
        for pid in pids:
            _kill(pid)
        self._process.wait(PATIENCE)
        self._process = None
        wait_until(lambda: all(map(is_gone, pids)), f"the processes of {self.NAME} to end")

    def restart(self) -> None:
        """Stop it if it runs, and start it with the same data on the same port."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Kill it and remove its data."""
        if os.getpid() != self._owner:
            return  # a fork of the tests that exits
        atexit.unregister(self.close)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def processes(self) -> list[int]:
        """Return its living processes, the first of them first."""
        if self._process is None or self._process.poll() is not None:
            return []
        return [self._process.pid, *_descendants(self._process.pid)]

    def log(self) -> str:
        """Return the last of what it has said."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-4000:] if path.exists() else ""

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch_on_a_free_port(self) -> None:
        """Start it on another port if somebody was quicker to take the one that was free."""
        for _ in range(4):
            try:
                return self._launch()
            except ServerError as error:
                if "in use" not in str(error):
                    raise
                self.port = free_port()
        return self._launch()

    def _launch(self) -> None:
        settings = [f"{name}={value}" for name, value in self.env.items()]
        with (self.folder / "log").open("ab") as log:
            process = subprocess.Popen(
                # Its own environment, not that of the program which changes the user before.
                self._as_account("env", *settings, *self._command(), orphaned=self.ORPHANED),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
                env=_environment(),
                start_new_session=True,
            )
        self._process = process
        try:
            wait_until(lambda: process.poll() is not None or self._answers(), f"{self.NAME}")
        except BaseException:
            self.kill()
            raise
        if process.poll() is not None:
            self._process = None
            raise ServerError(f"{self.NAME} didn't start:\n{self.log()}")

    def _tool(self, *command: str) -> None:
        """Run a program that prepares the server, as the user the server runs as."""
        run(self._as_account(*command), cwd=self.folder)

    def _write(self, name: str, *lines: str) -> Path:
        """Write a file into the folder that the server can read."""
        path = self.folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return path

    def _as_account(self, *command: str, orphaned: signal.Signals | None = None) -> list[str]:
        setpriv = ["setpriv"]
        if os.geteuid() == 0:
            user, group = _ids(self.ACCOUNT)
            setpriv += [f"--reuid={user}", f"--regid={group}", "--init-groups"]
        if orphaned is not None:
            setpriv += [f"--pdeathsig={orphaned.name.removeprefix('SIG')}"]
        return [*setpriv, "--", *command]


def free_port() -> int:
    """Return a port of loopback that nobody uses."""
    while True:
        port = random.choice(PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((HOST, port))
            except OSError:
                continue
            return port


def run(command: list[str], text: str = "", cwd: Path | None = None) -> str:
    """Run a program with a text as its input, and return what it prints."""
    done = subprocess.run(
        command,
        input=text,
        capture_output=True,
        text=True,
        cwd=cwd,
        env=_environment(),
        timeout=PATIENCE,
        check=False,
    )
    if done.returncode:
        raise ServerError(f"{Path(command[0]).name} failed: {done.stderr or done.stdout}")
    return done.stdout


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when a condition is true, asked again and again."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise ServerError(f"never came: {what}")
        time.sleep(0.01)


def _environment() -> dict[str, str]:
    """An environment in which no setting of whoever runs the tests shines through."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}


def _ids(account: str) -> tuple[int, int]:
    entry = pwd.getpwnam(account)
    return entry.pw_uid, entry.pw_gid


def _kill(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _stat(pid: int | str) -> list[str]:
    """Return the fields of a process from its state on; none if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_gone(pid: int) -> bool:
    """Tell whether a process has ended; a zombie has."""
    stat = _stat(pid)
    return not stat or stat[0] in "ZX"


def _descendants(pid: int) -> list[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _stat(folder.name)) and stat[0] not in "ZX":
            parents.setdefault(int(stat[1]), []).append(int(folder.name))
    found = []
    waiting = [pid]
    while waiting:
        children = parents.get(waiting.pop(), [])
        found += children
        waiting += children
    return found
