"""The power goes, at many moments of one and the same history of writes."""

import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from queuectl import Job, Queue, State
from queuectl.errors import QueuectlError
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.faults.trace import Disk, Event, Said, SyncEnded, Wrote, read_trace, traced
from tests.servers.shared import CHECKOUT

PLACE = Path(".local/share/queuectl/queue.db")
"""Where the queue is on the disk: in folders that queuectl has to make first, too."""
IGNORED = r"-shm$|\.db\.d(/|$)"
"""What is made anew after a crash: shared memory, and the output of runs that it cut short."""
WITNESS = "; ".join(
    f'echo "{what} $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT" >> "$WITNESS"' for what in ("start", "end")
)
"""What jobs do. Their lines needn't be synced: the trace tells when they were written."""
ENQUEUERS = 2


@campaign(
    row=7,
    about="simulated power loss: the trace of writes is replayed, and what wasn't synced is lost",
    goal="0 acknowledged jobs lost; integrity_check ok",
    trials="power_losses",
    stores=[SQLITE],
    short={"jobs": 20, "power_losses": 60, "resumed": 1},
    long={"jobs": 300, "power_losses": 300, "resumed": 20},
)
def power(arena: Arena, *, jobs: int, power_losses: int, resumed: int) -> None:
    """Enqueue and run jobs once, under strace; then see what each moment would have left."""
    history = History(arena, jobs)
    events = history.record()
    points = _points(arena.random, events, power_losses)
    to_resume = set(arena.random.sample(sorted(set(points)), resumed))
    disk, known = Disk(arena.folder / "disk"), Known()
    for number, event in enumerate(events, 1):
        disk.take(event)
        known.hear(event)
        for again in range(points.count(number)):
            image = arena.folder / f"image-{number}.{again}"
            disk.lose_power(arena.random, image)
            wrong = [*_judge(image / PLACE, known)]
            if number in to_resume:
                to_resume.remove(number)
                wrong += _resume(arena, image / PLACE, known)
            arena.report.broken += [f"power lost after event {number}: {text}" for text in wrong]
            if not wrong:
                shutil.rmtree(image)
    arena.report.note(
        jobs=len(known.acknowledged),
        power_losses=len(points),
        events=len(events),
        syncs=sum(isinstance(event, SyncEnded) for event in events),
        pages_checkpointed=_pages_checkpointed(events),
        logs_begun=_logs_begun(events),
        resumed=resumed,
    )
    arena.report.expect(len(known.acknowledged) >= jobs, "too few jobs were acknowledged")
    arena.report.expect(known.completed, "no job was completed under the trace")
    arena.report.expect(_pages_checkpointed(events), "there was no checkpoint in the trace")
    if not arena.report.broken:
        history.forget()


class History:
    """What happens on the disk: enqueuers, commands and nodes, under strace."""

    def __init__(self, arena: Arena, jobs: int) -> None:
        self._arena = arena
        self._jobs = jobs
        self._disk = arena.folder / "disk"
        self._said = arena.folder / "said"
        self._trace = arena.folder / "trace"
        for folder in (self._disk, self._said):
            folder.mkdir()

    def record(self) -> list[Event]:
        """Let it happen, and return it."""
        done = subprocess.run(
            traced(["sh", "-euc", self._script()], self._trace),
            env=environment(self._arena, self._disk / PLACE, self._said / "runs"),
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=1800,
            check=False,
        )
        if done.returncode:
            raise AssertionError(f"the history broke off: {done.stderr}")
        with self._trace.open(errors="surrogateescape") as lines:
            return read_trace(lines, disk=self._disk, heard=self._said, ignored=IGNORED)

    def forget(self) -> None:
        """Remove the trace, which is large."""
        self._trace.unlink()

    def _script(self) -> str:
        """Every queue begins with a first job, whose command closes it again."""
        each = self._jobs // ENQUEUERS
        enqueuers = "\n".join(f"{self._enqueuer(n, each)} & e{n}=$!" for n in range(ENQUEUERS))
        joins = "\n".join(f"wait $e{n}" for n in range(ENQUEUERS))
        node = shlex.join(self._arena.command("worker", "start", "--count", "3"))
        log = shlex.quote(str(self._said / "node"))
        vacuum = shlex.join(self._arena.command("db", "vacuum"))
        return "\n".join([
            self._enqueue("c0"),
            enqueuers,
            f"{node} 2>> {log} & node=$!",
            joins,
            f"{vacuum} > /dev/null",
            # A node that runs a job can be stopped in order.
            'until [ -s "$WITNESS" ]; do sleep 0.05; done',
            "kill $node",
            "wait $node",
            self._enqueue("c1"),
            f"{node} --drain 2>> {log}",
        ])  # fmt: skip

    def _enqueue(self, id: str) -> str:
        command = self._arena.command("enqueue", "-q", "--id", id, WITNESS)
        return f"{shlex.join(command)} >> {shlex.quote(str(self._said / 'ids'))}"

    def _enqueuer(self, number: int, many: int) -> str:
        orders = str(self._said / f"orders{number}")
        arguments = [f"e{number}", str(many), orders, WITNESS]
        return shlex.join([sys.executable, "-m", "tests.faults.enqueuer", *arguments])


def environment(arena: Arena, place: Path, witness: Path) -> dict[str, str]:
    """Return the environment of those whose own queue is at a place, in a folder yet to be made."""
    data = str(place.parent.parent)
    return arena.env | {"QUEUECTL_DB": str(place), "XDG_DATA_HOME": data, "WITNESS": str(witness)}


@dataclass(slots=True)
class Known:
    """What the world knows at a moment, from what enqueuers, jobs and nodes have said."""

    acknowledged: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=lambda: {"c0", "c1"})
    started: set[tuple[str, int]] = field(default_factory=set)
    ended: set[tuple[str, int]] = field(default_factory=set)
    completed: set[str] = field(default_factory=set)

    def hear(self, event: Event) -> None:
        """Take notice of what is said."""
        if not isinstance(event, Said):
            return
        source = Path(event.path).name
        for line in event.text.splitlines():
            words = line.split()
            if source == "ids":
                self.acknowledged.add(words[0])
            elif source == "node":
                if found := re.search(r"job (\S+) completed", line):
                    self.completed.add(found[1])
            elif words[0] == "ask":
                self.asked.add(words[1])
            elif words[0] == "ack":
                self.acknowledged.add(words[1])
            elif words[0] == "start":
                self.started.add((words[1], int(words[2])))
            elif words[0] == "end":
                self.ended.add((words[1], int(words[2])))


def _points(random: Random, events: Sequence[Event], many: int) -> list[int]:
    """Choose moments: half right after something was said or synced, half anywhere."""
    telling = [n for n, event in enumerate(events, 1) if isinstance(event, Said | SyncEnded)]
    half = random.choices(telling, k=many // 2)
    return half + [random.randint(1, len(events)) for _ in range(many - len(half))]


def _pages_checkpointed(events: Sequence[Event]) -> int:
    return sum(isinstance(event, Wrote) and event.path.endswith(".db") for event in events)


def _logs_begun(events: Sequence[Event]) -> int:
    """Count how often the log was begun from its start, anew or over what was checkpointed."""
    return sum(
        isinstance(event, Wrote) and event.path.endswith("-wal") and event.offset == 0
        for event in events
    )


def _judge(place: Path, known: Known) -> list[str]:
    """Open what is left, and compare it with what the world knows."""
    if not place.exists():
        return [f"the queue is gone, with {len(known.acknowledged)}"] if known.acknowledged else []
    try:
        with Queue(str(place)) as queue:
            jobs = {job.id: job for job in queue.list(limit=None)}
    except QueuectlError as error:
        return [f"the queue can't be opened: {error}"]
    return _integrity(place) + _differences(jobs, known)


def _integrity(place: Path) -> list[str]:
    """Have the library of Python look at it; nobody else has it open."""
    try:
        with closing(sqlite3.connect(place)) as db:
            found = "; ".join(str(row[0]) for row in db.execute("PRAGMA integrity_check"))
    except sqlite3.DatabaseError as error:
        found = str(error)
    return [] if found == "ok" else [f"integrity_check: {found}"]


def _differences(jobs: dict[str, Job], known: Known) -> list[str]:
    done = {id for id, job in jobs.items() if job.state == State.COMPLETED}
    attempts = {id: job.attempts for id, job in jobs.items()}
    all_ = {
        "acknowledged, and lost": known.acknowledged - jobs.keys(),
        "never asked for, and there": jobs.keys() - known.asked,
        "completed by its node's word, and not any more": known.completed - done,
        "completed, though its run hadn't come to its end":
            {id for id in done if (id, attempts[id]) not in known.ended},
        "ran, and the queue doesn't know of it":
            {id for id, attempt in known.started if attempts.get(id, 0) < attempt},
    }  # fmt: skip
    return [f"{what}: {', '.join(sorted(ids)[:5])}" for what, ids in all_.items() if ids]


def _resume(arena: Arena, place: Path, known: Known) -> list[str]:
    """Go on with what is left: check it, run what waits, and nothing under a number it had."""
    witness = place.with_name("runs")
    env = environment(arena, place, witness)
    if not place.exists():
        return []
    wrong = []
    for command in (["db", "check"], ["worker", "start", "--drain"]):
        done = subprocess.run(
            arena.command(*command), env=env, capture_output=True, text=True, timeout=300,
            cwd=arena.folder, check=False,
        )  # fmt: skip
        if done.returncode or "Traceback" in done.stderr:
            wrong.append(f"{' '.join(command)}: {done.stdout}{done.stderr}")
    with Queue(str(place)) as queue:
        left = {job.id for job in queue.list(limit=None) if job.state != State.COMPLETED}
    again = Known()
    if witness.exists():
        again.hear(Said(str(witness), witness.read_text()))
    wrong += _integrity(place)
    if left:
        wrong.append(f"not completed after all: {', '.join(sorted(left))}")
    if twice := again.started & known.started:
        wrong.append(f"ran twice under one number: {sorted(twice)}")
    return wrong
