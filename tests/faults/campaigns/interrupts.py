"""Commands get SIGINT at random moments, from their very start on.

Whatever the moment, a command exits with 130, or it was faster; it prints no traceback, and one
line of talk at most. And no half-told truth: what is stored is said, and what is said is stored.

Before the first line of queuectl runs, Python itself is starting, and answers as it always does:
it is killed, or it prints a traceback in which nothing of queuectl stands. Those are counted apart;
what they leave behind is judged like everything else.
"""

import json
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

import queuectl
from queuectl import QueuectlError, State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.support import PATIENCE, processes_with, wait_for

INTERRUPTED = 130
OURS = rf'File "{re.escape(str(Path(queuectl.__file__).parent))}/(?!__(init|main)__\.py)'
"""A line of ours in a traceback; but for the files by which Python gets to our first line."""
FIRST = 1.0
"""Seconds in which the signal comes; for a command that is done sooner, the time that it takes."""
MANY = 300


@campaign(
    row=19,
    about="SIGINT at random moments in the first second of commands",
    goal="exit code 130, no traceback, what is stored is said and what is said is stored",
    trials="interrupts",
    short={"interrupts": 20},
    long={"interrupts": 500},
)
def interrupts(arena: Arena, *, interrupts: int) -> None:
    """Interrupt one command after the other, and compare what it said with the queue."""
    kinds = [kind for kind in KINDS if arena.store == SQLITE or not kind.files_only]
    spans = {kind.name: _span(arena, kind) for kind in kinds}
    ends: list[str] = []
    for number in range(interrupts):
        kind = kinds[number % len(kinds)]
        moment = arena.random.uniform(0, spans[kind.name])
        ends.append(_judge(arena, _Try(arena, kind, f"t{number}", moment)))
    arena.report.note(
        interrupts=interrupts,
        commands=len(kinds),
        ended_by_it=ends.count("interrupted"),
        faster=ends.count("done"),
        killed_while_python_started=ends.count("killed"),
        traceback_of_python_starting=ends.count("starting"),
    )
    done = arena.run("db", "check", timeout=600)
    arena.report.expect(done.returncode == 0, f"db check: {done.stdout}{done.stderr}")


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A command, what it needs, and how to tell whether it spoke the truth."""

    name: str
    args: Callable[[Arena, str], list[str]]
    """Prepares a try of this name, and returns the arguments."""
    truth: Callable[[Arena, "_Try"], tuple[object, object]]
    """Returns what the command said was done, and what was done."""
    ends: bool = True
    """Whether it ends by itself."""
    files_only: bool = False


class _Try:
    """A command that was interrupted."""

    def __init__(self, arena: Arena, kind: Kind, name: str, moment: float | None) -> None:
        self.kind, self.name, self.moment = kind, name, moment
        args = kind.args(arena, name)
        began = time.monotonic()
        process = subprocess.Popen(
            arena.command(*args),
            env=arena.env,
            cwd=arena.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        if moment is not None:
            time.sleep(max(0.0, began + moment - time.monotonic()))
            process.send_signal(signal.SIGINT)
        self.out, self.err = self._wait(process)
        self.took = time.monotonic() - began
        self.code = process.returncode

    def _wait(self, process: "subprocess.Popen[str]") -> tuple[str, str]:
        """Return what the command says. Python, as it starts, may drop a signal, and says so."""
        try:
            return process.communicate(timeout=PATIENCE / 6)
        except subprocess.TimeoutExpired:
            if not self.kind.ends:
                process.send_signal(signal.SIGINT)
        try:
            return process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            return process.communicate()

    @property
    def end(self) -> str:
        """How it ended: interrupted, done, or while Python was starting."""
        if "KeyboardInterrupt" in self.err and not re.search(OURS, self.err):
            return "starting"
        if self.code == -signal.SIGINT and not self.err:
            return "killed"
        return "interrupted" if self.code == INTERRUPTED else "done"

    def __str__(self) -> str:
        at = f"{1000 * (self.moment or 0):.0f} ms"
        said = f"{self.out[-300:]!r} {self.err[-1500:]!r}"
        return f"{self.kind.name} at {at} ({self.name}), exit code {self.code}: {said}"


def _span(arena: Arena, kind: Kind) -> float:
    """Return the time in which a signal can reach a command."""
    if not kind.ends:
        return FIRST
    whole = _Try(arena, kind, f"{kind.name}-whole", None)
    _judge(arena, whole)  # which also ends what it has started
    return min(FIRST, whole.took)


def _judge(arena: Arena, seen: _Try) -> str:
    """Take down every promise that a command has broken; returns how it ended."""
    expect, end = arena.report.expect, seen.end
    if end in ("interrupted", "done"):
        expect("Traceback" not in seen.err, f"a traceback: {seen}")
        expect("KeyboardInterrupt" not in seen.err, f"an interrupt was dropped: {seen}")
    if end == "interrupted":
        # Notes on what was asked for are made in any case.
        told = [line for line in seen.err.splitlines() if not line.startswith("Note: ")]
        expect(len(told) <= 1, f"more than a line: {seen}")
    if end == "done":
        expect(seen.code == 0, f"another exit code: {seen}")
        expect(seen.kind.ends, f"it ended by itself: {seen}")
    said, done = seen.kind.truth(arena, seen)
    expect(said == done, f"said {said!r}, but done is {done!r}: {seen}")
    return end


# -- what is stored, and what is said --------------------------------------------------------


def _is_there(arena: Arena, id: str) -> bool:
    try:
        return arena.queue.get(id).id == id
    except QueuectlError:
        return False


def _changed(seen: "_Try") -> list[str]:
    """Return the jobs that a command says to have changed: one whole JSON object, or none."""
    told = json.loads(seen.out) if seen.out else {"jobs": []}
    return sorted(job["id"] for job in told["jobs"] if job["error"] is None)


def _tagged(arena: Arena, tag: str, *states: State) -> list[str]:
    jobs = arena.queue.list(tag=tag, limit=None, oldest=True)
    return [job.id for job in jobs if not states or job.state in states]


def _three(arena: Arena, name: str, *, cancelled: bool = False) -> list[str]:
    """Enqueue three jobs that never run, and cancel them if asked to."""
    ids = [f"{name}-{letter}" for letter in "abc"]
    for id in ids:
        arena.queue.enqueue("true", id=id, tags=[name], delay="1d")
        if cancelled:
            arena.queue.cancel(id)
    return ids


def _lines(arena: Arena, name: str) -> str:
    path = arena.folder / f"{name}.txt"
    path.write_text("true\n" * MANY)
    return str(path)


def _days(name: str) -> str:
    return f"{1 + crc32(name.encode()) % 36_000}d"


def _paused(arena: Arena, name: str) -> list[str]:
    arena.queue.pause(name)
    return ["resume", name]


def _backed_up(arena: Arena, seen: _Try) -> tuple[object, object]:
    left = [path.name for path in arena.folder.glob(f"{seen.name}.bak*")]
    return [f"{seen.name}.bak"] if "Backed up" in seen.out else [], left


def _daemon(arena: Arena, seen: _Try) -> tuple[object, object]:
    said = "Started" in seen.out
    pidfile = _pidfile(arena, seen.name)
    running = bool(processes_with(pidfile))
    if running:
        arena.queue.stop_nodes()
        wait_for(lambda: not processes_with(pidfile), "the daemon to end")
    return said, running


def _pidfile(arena: Arena, name: str) -> str:
    return str(arena.folder / f"{name}.pid")


def _pruned(arena: Arena, seen: _Try) -> tuple[object, object]:
    said = json.loads(seen.out)["total"] if seen.out else 0
    left = _tagged(arena, seen.name)
    return min(said, 3), 3 - len(left)


def _nothing(arena: Arena, seen: _Try) -> tuple[object, object]:
    return None, None


def _named(seen: _Try, pattern: str) -> list[str]:
    return re.findall(pattern, seen.out)


KINDS = (
    Kind(
        name="enqueue",
        args=lambda _, name: ["enqueue", "-q", "true", "--id", name],
        truth=lambda arena, seen: (seen.name in seen.out.split(), _is_there(arena, seen.name)),
    ),
    Kind(
        name="enqueue --wait --json",
        args=lambda _, name: ["enqueue", "true", "--id", name, "--json", "--wait"],
        truth=lambda arena, seen: (seen.name in seen.err, _is_there(arena, seen.name)),
        ends=False,
    ),
    Kind(
        name="enqueue --lines",
        args=lambda arena, name: ["enqueue", "--lines", _lines(arena, name), "--tag", name],
        truth=lambda arena, seen: (
            MANY if f"Enqueued {MANY} jobs" in seen.out else 0,
            len(_tagged(arena, seen.name)),
        ),
    ),
    Kind(
        name="enqueue --keep-going",
        args=lambda arena, name: [
            *("enqueue", "--lines", _lines(arena, name)),
            *("--keep-going", "-q", "--tag", name),
        ],
        truth=lambda arena, seen: (seen.out.split(), _tagged(arena, seen.name)),
    ),
    Kind(
        name="cancel",
        args=lambda arena, name: ["cancel", *_three(arena, name)],
        truth=lambda arena, seen: (
            _named(seen, r"Job (\S+) cancelled"),
            _tagged(arena, seen.name, State.CANCELLED),
        ),
    ),
    Kind(
        name="cancel --json",
        args=lambda arena, name: ["cancel", "--json", "--tag", (_three(arena, name), name)[1]],
        truth=lambda arena, seen: (
            _changed(seen),
            sorted(_tagged(arena, seen.name, State.CANCELLED)),
        ),
    ),
    Kind(
        name="retry",
        args=lambda arena, name: ["retry", "-q", *_three(arena, name, cancelled=True)],
        truth=lambda arena, seen: (seen.out.split(), _tagged(arena, seen.name, State.PENDING)),
    ),
    Kind(
        name="rm",
        args=lambda arena, name: ["rm", "-q", "--tag", (_three(arena, name), name)[1]],
        truth=lambda arena, seen: (3 - len(seen.out.split()), len(_tagged(arena, seen.name))),
    ),
    Kind(
        name="prune",
        args=lambda arena, name: (
            _three(arena, name, cancelled=True)
            and ["prune", "--state", "cancelled", "--older-than", "0", "--json"]
        ),
        truth=_pruned,
    ),
    Kind(
        name="pause",
        args=lambda _, name: ["pause", name],
        truth=lambda arena, seen: (
            "is paused" in seen.out,
            seen.name in arena.queue.status().paused,
        ),
    ),
    Kind(
        name="resume",
        args=_paused,
        truth=lambda arena, seen: (
            "is resumed" in seen.out,
            seen.name not in arena.queue.status().paused,
        ),
    ),
    Kind(
        name="config set",
        args=lambda _, name: ["config", "set", "retention", _days(name)],
        truth=lambda arena, seen: (
            f"retention = {_days(seen.name)}" in seen.out,
            arena.queue.settings.text("retention") == _days(seen.name),
        ),
    ),
    Kind(
        name="db backup",
        args=lambda _, name: ["db", "backup", f"{name}.bak"],
        truth=_backed_up,
        files_only=True,
    ),
    Kind(
        name="worker start --daemon",
        args=lambda arena, name: [
            *("worker", "start", "--queue", name),
            *("--daemon", _pidfile(arena, name)),
        ],
        truth=_daemon,
    ),
    Kind(name="list", args=lambda *_: ["list", "--json"], truth=_nothing),
    Kind(name="status", args=lambda *_: ["status"], truth=_nothing),
    Kind(
        name="wait",
        args=lambda arena, name: ["wait", _three(arena, name)[0]],
        truth=_nothing,
        ends=False,
    ),
    Kind(
        name="logs -f",
        args=lambda arena, name: ["logs", "-f", _three(arena, name)[0]],
        truth=_nothing,
        ends=False,
    ),
)
