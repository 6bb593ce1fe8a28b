"""Processes of the subjects: started in a session of their own, ended to the last, weighed."""

import os
import secrets
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

PATIENCE = 60.0
"""Seconds that anything may take to start, to stop, or to show that it goes on."""
GRACE = 5.0
"""Seconds that processes have which the first of their group has left behind."""
PROC = Path("/proc")
MARK = "BENCH_GROUP"
"""The environment variable by which the processes of a group are known."""


class BenchError(Exception):
    """Something couldn't be measured; the text says why."""


class Group:
    """A program with all that it starts. Ends with the `with` block, whatever happens in it."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
    ) -> None:
        self._log = log
        self._name = Path(command[0]).name
        # Whatever is started by it inherits this, wherever it goes.
        self._mark = f"{MARK}={secrets.token_hex(8)}"
        with log.open("ab") as said:
            self.process = subprocess.Popen(
                command,
                env={**env, MARK: self._mark.partition("=")[2]},
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                # A Ctrl-C is ours to deal with, in order.
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.end()

    @property
    def pid(self) -> int:
        """The process that was started first."""
        return self.process.pid

    def members(self) -> list[int]:
        """Return all its living processes."""
        return sorted({*descendants(self.pid), *marked(self._mark)})

    def check(self) -> None:
        """Raise if it has ended by itself."""
        if self.process.poll() is not None:
            raise BenchError(f"{self._name} ended by itself: {last_words(self._log)}")

    def end(self) -> None:
        """Ask it to stop, and return when none of its processes is left."""
        known = set(self.members())
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(PATIENCE)
        known |= set(self.members())
        began = time.monotonic()
        while left := [pid for pid in known if is_alive(pid)]:
            send = signal.SIGTERM if time.monotonic() < began + GRACE else signal.SIGKILL
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, send)
            time.sleep(0.02)
        self.process.wait()


def time_of(command: Sequence[str], env: Mapping[str, str]) -> float:
    """Run a program to its end, and return the seconds; what it has started ends with us."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        _, said = process.communicate()
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    took = time.monotonic() - began
    if process.returncode:
        raise BenchError(f"it failed: {said.decode(errors='replace').strip()}")
    return took


def last_words(log: Path) -> str:
    """Return the end of what a program has written, in one line."""
    lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
    return " / ".join(lines[-3:]) or "it said nothing"


def wait_for(
    condition: Callable[[], bool], what: str, alive: Callable[[], None] = lambda: None
) -> None:
    """Return when a condition is true."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        alive()
        if time.monotonic() > deadline:
            raise BenchError(f"never came: {what}")
        time.sleep(0.005)


def watch(count: Callable[[], int], total: int, alive: Callable[[], None] = lambda: None) -> float:
    """Return the seconds until a count reaches a total.

    To ask costs the subject time, so it is asked rarely, and more often towards the end.
    """
    began = moved = time.monotonic()
    before = 0
    while (done := count()) < total:
        now = time.monotonic()
        if done > before:
            before, moved = done, now
        elif now - moved > PATIENCE:
            raise BenchError(f"it stopped at {done} of {total} jobs")
        alive()
        left = (total - done) * (now - began) / done if done else 0.05
        time.sleep(min(max(left / 4, 0.001), 0.25))
    return time.monotonic() - began


def is_alive(pid: int) -> bool:
    """Tell whether a process is there and isn't a zombie."""
    stat = _stat(pid)
    return bool(stat) and stat[0] not in "ZX"


def marked(mark: str) -> list[int]:
    """Return the living processes that were started with this in their environment."""
    found = []
    for pid, stat in _all():
        with suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            environment = (PROC / str(pid) / "environ").read_bytes()
            if stat[0] not in "ZX" and mark.encode() in environment.split(b"\0"):
                found.append(pid)
    return found


def descendants(pid: int) -> list[int]:
    """Return the living children of a process, theirs, and so on."""
    children = defaultdict(list)
    for child, stat in _all():
        if stat[0] not in "ZX":
            children[int(stat[1])].append(child)
    found: list[int] = []
    waiting = [pid]
    while waiting:
        more = children[waiting.pop()]
        found += more
        waiting += more
    return found


def cpu_seconds(pids: Iterable[int]) -> float:
    """Return the CPU time that all threads of these processes have used, but for those gone."""
    total = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            for task in (PROC / str(pid) / "task").iterdir():
                with suppress(FileNotFoundError, ProcessLookupError):
                    total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def proportional_mb(pids: Iterable[int]) -> float:
    """Return the memory of these processes; a page shared by n processes counts 1/n for each."""
    total = 0
    for pid in pids:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def alone_mb(pids: Iterable[int]) -> float:
    """Return what they would take if nobody else shared a page with them.

    Proportional memory flatters whoever runs beside others with the same interpreter; this
    doesn't. What they share among each other counts once.
    """
    private = 0
    shared: dict[str, int] = {}
    for pid in pids:
        mapping = ""
        for line in (PROC / str(pid) / "smaps").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in ("Private_Clean", "Private_Dirty"):
                private += int(value.split()[0])
            elif name in ("Shared_Clean", "Shared_Dirty"):
                key = f"{mapping} {name}"
                shared[key] = max(shared.get(key, 0), int(value.split()[0]))
            elif "-" in line.split(" ", 1)[0]:
                mapping = _mapping(line)
    return (private + sum(shared.values())) / 1024


def _mapping(line: str) -> str:
    """Name a mapping so that two processes that share it give it the same name."""
    words = line.split(maxsplit=5)
    if len(words) == 6 and words[5].startswith("/"):
        return f"{words[5]} {words[2]}"
    return words[0]


def _all() -> list[tuple[int, list[str]]]:
    pids = [int(folder.name) for folder in PROC.iterdir() if folder.name.isdigit()]
    return [(pid, stat) for pid in pids if (stat := _stat(pid))]


def _stat(pid: int) -> list[str]:
    """Return what the kernel says of a process, from its state on; nothing if it is gone."""
    try:
        return (PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []
