"""A guard with real processes below it, and the patience to wait for what they do."""

import os
import select
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

from queuectl.guard import wire
from queuectl.node.guards import Guard

PATIENCE = 60.0


def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for something to come true, and fail when it doesn't."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what} didn't come true in {PATIENCE} seconds"
        time.sleep(0.005)


def alive(pid: int) -> bool:
    """Tell whether a process runs; a zombie doesn't."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def pids_in(path: Path, count: int) -> list[int]:
    """Wait until a file holds so many pids, and return them."""
    until(lambda: path.exists() and len(path.read_text().split()) >= count, f"{count} pids")
    return [int(pid) for pid in path.read_text().split()]


class Ended:
    """How a run ended."""

    def __init__(self, message: wire.Ended) -> None:
        self.status, self.how = message.status, message.how
        self.started, self.ended = message.began, message.ended
        self.out, self.err = message.stdout_bytes, message.stderr_bytes
        self.used: Any = message.used
        self.noted: str = message.noted or ""
        self.code = os.waitstatus_to_exitcode(self.status)


class Harness:
    """A guard under test and all that it has said."""

    def __init__(self, folder: Path, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.guard = Guard.start(env=env)
        self.ended: dict[int, Ended] = {}
        self.not_started: dict[int, tuple[int, str]] = {}
        self.trouble: list[tuple[int, str]] = []
        self.released: list[int] = []
        self._runs = 0

    def spec(self, *argv: str, **options: Any) -> tuple[int, Any]:
        self._runs += 1
        run = self._runs
        spec: dict[str, Any] = {
            "argv": list(argv),
            "called": None,
            "cwd": str(self.folder),
            "env": {},
            "whole": False,
            "told": {},
            "owner": "",
            "worker": run,
            "token": f"token-{os.getpid()}-{self.guard.pid}-{run}",
            "stdout": str(self.folder / f"{run}.out"),
            "stderr": str(self.folder / f"{run}.err"),
            "stdin": None,
            "timeout": None,
            "grace": 30.0,
            "interval": 60.0,
            "output_limit": 1 << 20,
            "bounds": None,
        }
        return run, {**spec, **options}

    def spawn(self, *argv: str, **options: Any) -> int:
        run, spec = self.spec(*argv, **options)
        self.guard.send([wire.Spawn(run, spec)])
        return run

    def shell(self, script: str, **options: Any) -> int:
        return self.spawn("/bin/sh", "-c", script, **options)

    def tell(self, kind: str, *fields: Any) -> None:
        self.guard.send([wire.KINDS[kind](*fields)])

    def hear(self, seconds: float = 0.0) -> None:
        poll = select.poll()
        poll.register(self.guard.fileno(), select.POLLIN)
        poll.poll(seconds * 1000)
        for message in self.guard.receive():
            match message:
                case wire.Ended(run):
                    assert run not in self.ended
                    self.ended[run] = Ended(message)
                case wire.NotStarted(run, errno, text) | wire.Unable(run, errno, text):
                    self.not_started[run] = (errno, text)
                case wire.Released(run):
                    self.released.append(run)
                case wire.Trouble(run, text):
                    self.trouble.append((run, text))
                case _:
                    raise AssertionError(message)

    def heard(self) -> list[int]:
        """Return which runs are known to have been taken back, by now."""
        self.hear()
        return self.released

    def over(self, run: int) -> bool:
        return run in self.ended or run in self.not_started

    def wait(self, *runs: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while not all(map(self.over, runs)):
            assert time.monotonic() < deadline, f"runs didn't end in {PATIENCE} seconds"
            self.hear(1.0)

    def end(self, run: int) -> Ended:
        """Wait for a run to end and return how."""
        self.wait(run)
        assert run not in self.not_started, self.not_started[run]
        return self.ended[run]

    def refusal(self, run: int) -> tuple[int, str]:
        """Wait for a run that can't be started and return why."""
        self.wait(run)
        return self.not_started[run]

    def output(self, run: int) -> bytes:
        return (self.folder / f"{run}.out").read_bytes()

    def errors(self, run: int) -> bytes:
        return (self.folder / f"{run}.err").read_bytes()

    def below(self) -> list[int]:
        """List all processes below the guard, zombies too."""
        return [p.pid for p in psutil.Process(self.guard.pid).children(recursive=True)]
