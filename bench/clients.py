"""Our end of the processes that enqueue, and of those that run what was enqueued by peers."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from bench.lab import CHECKOUT, Lab
from bench.peers.noop import MARKS, cells
from bench.peers.roster import Peer, Setup
from bench.peers.shell import DONE, MARK, marks
from bench.processes import PATIENCE, BenchError, Group, last_words, wait_for

LONGEST = 10 * PATIENCE
"""Seconds that an answer may take: a bulk enqueue of a slow peer takes long."""


class Asked:
    """A process that answers a line of JSON with a line of JSON."""

    def __init__(self, lab: Lab, app: str, broker: str, apart: str = "") -> None:
        self._log = lab.log()
        with self._log.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "bench.peers.client", app],
                env=peer_environment(lab, broker, apart),
                cwd=CHECKOUT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                start_new_session=True,
            )
        self._answer()

    def __call__(self, do: str, **asked: Any) -> dict[str, Any]:
        """Have something done, and return what it says of it."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"do": do, **asked}) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], LONGEST)
        line = self._process.stdout.readline() if ready else ""
        if not line:
            self._process.kill()
            self._process.wait()
            raise BenchError(f"it could not enqueue: {last_words(self._log)}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        try:
            self._process.communicate(timeout=PATIENCE if error is None else 1)
        except (subprocess.TimeoutExpired, BrokenPipeError):
            self._process.kill()
            self._process.wait()


def peer_environment(lab: Lab, broker: str, apart: str = "") -> dict[str, str]:
    """Return the environment of the apps; those whose packages are apart find them there."""
    own = str(packages_of(apart)) if apart else None
    path = os.pathsep.join(filter(None, (own, str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    files = {DONE: str(lab.folder / "done"), MARKS: str(lab.folder / "marks")}
    return lab.environment(BENCH_BROKER=broker, PYTHONPATH=path, **files)


def packages_of(apart: str) -> Path:
    """Return the folder of packages that a peer has for itself: see `bench/environment.py`."""
    return Path(sys.prefix) / "apart" / apart


@dataclass(frozen=True, slots=True)
class Done:
    """The file in which the tasks of peers leave their marks."""

    path: Path

    def count(self) -> int:
        """Say how many jobs were run."""
        return self.path.stat().st_size // MARK.size

    def times(self) -> list[int]:
        """Return when each was over, in order, by the monotonic clock in nanoseconds."""
        return marks(self.path.read_bytes())


class Marks:
    """The file in which tasks that do nothing leave their marks: see `bench/peers/noop.py`."""

    def __init__(self, lab: Lab, tasks: int) -> None:
        """Make it anew, for so many tasks."""
        path = lab.folder / "marks"
        path.unlink(missing_ok=True)
        path.write_bytes(bytes(8 * (1 + tasks)))
        cells.cache_clear()
        self._cells = cells(str(path))

    def count(self) -> int:
        """Say how many tasks were run."""
        return len(self._cells) - 1 - self._cells[1:].tolist().count(0)

    def of(self, number: int) -> int:
        """Return when it was the turn of a task, by the monotonic clock; 0 if it wasn't yet."""
        return self._cells[number]

    def times(self) -> list[int]:
        """Return when each was run, in order; that none was run twice is made sure."""
        if again := self._cells[0]:
            raise BenchError(f"it ran {again} tasks more than once")
        return sorted(self._cells[1:].tolist())


@contextmanager
def broker_of(lab: Lab, peer: Peer) -> Iterator[str]:
    """Lend an empty broker to a peer."""
    with peer.broker(lab) as broker:
        (lab.folder / "done").write_bytes(b"")
        if peer.prepare:
            run_once(lab, peer.prepare, peer_environment(lab, broker))
        yield broker


def done_of(lab: Lab) -> Done:
    """Return where the peers leave their marks."""
    return Done(lab.folder / "done")


@contextmanager
def workers_of(lab: Lab, setup: Setup, broker: str, apart: str = "") -> Iterator[list[Group]]:
    """Run the workers of a peer."""
    env = peer_environment(lab, broker, apart)
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                Group(in_environment(command, broker, apart), env=env, cwd=CHECKOUT, log=lab.log())
            )
            for command in setup.commands
        ]


def awake(lab: Lab, enqueue: Asked, groups: list[Group], jobs: int) -> None:
    """Have some jobs run, so that the workers are known to be there."""
    done = done_of(lab)
    before = done.count()
    for _ in range(jobs):
        enqueue("one", command="true")
    wait_for(lambda: done.count() >= before + jobs, "the first jobs", lambda: check_all(groups))


def check_all(groups: list[Group]) -> None:
    """Raise if any of them has ended by itself."""
    for group in groups:
        group.check()


def in_environment(command: tuple[str, ...], broker: str, apart: str = "") -> list[str]:
    """Return a command line with the program of the environment that we run in."""
    program, *args = command
    folder = packages_of(apart) / "bin" if apart else Path(sys.executable).parent
    return [
        str(folder / program),
        *(arg.replace("{broker}", broker) for arg in args),
    ]


def run_once(lab: Lab, command: tuple[str, ...], env: Mapping[str, str]) -> None:
    """Run a program of the environment to its end."""
    log = lab.log()
    with log.open("wb") as said:
        done = subprocess.run(
            in_environment(command, ""),
            env=env,
            cwd=CHECKOUT,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            timeout=PATIENCE,
            check=False,
        )
    if done.returncode:
        raise BenchError(f"{command[0]} failed: {last_words(log)}")
