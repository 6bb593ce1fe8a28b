"""The disk fails once: the n-th write, sync or open of a queue's files gets an error."""

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count, islice, product
from pathlib import Path
from threading import Lock

from queuectl import Queue
from queuectl.errors import QueuectlError
from tests.faults import checker
from tests.faults.arena import OPEN, SETTINGS, Arena
from tests.faults.campaign import SQLITE, Report, campaign
from tests.faults.ledger import Ledger
from tests.servers.install import program
from tests.support import children_of, wait_for

ERRORS = ("EIO", "ENOSPC")
CALLS = (
    "pwrite64", "write", "pwritev", "writev", "fsync", "fdatasync", "openat", "ftruncate",
    "fallocate", "mkdir", "unlink", "rename",
)  # fmt: skip
"""The calls that fail. Some aren't made today; the long form would notice if they were."""
ANYWHERE = ("mkdir", "unlink")
"""Calls that nobody makes but for the queue, so that they needn't be limited to known paths."""
TOLD = ("enqueues_refused", "refused_though_there", "nodes_stopped", "runs_failed", "outputs_lost")
"""What is counted, though it breaks no promise."""
JOBS = 2
OUTPUT = b"something\n"
AT_ONCE = 4
WITHIN = 120.0
"""Seconds after which a command hangs. Far more than any of them takes."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One call that fails, of one command."""

    scene: str
    call: str
    error: str
    n: int

    def __str__(self) -> str:
        return f"{self.scene}, {self.call} #{self.n} gets {self.error}"


@dataclass(slots=True)
class Verdict:
    """What came of a fault."""

    hit: bool
    """Whether there was such a call."""
    wrong: list[str] = field(default_factory=list)
    said: Counter[str] = field(default_factory=Counter)
    """How often each of `TOLD` was seen."""


@campaign(
    row=8,
    about="the n-th write, sync or open of the queue's files fails with EIO or ENOSPC, for every n"
    " in an enqueue-claim-finish cycle",
    goal="0 false acknowledgements; the node goes on or stops with a clear message",
    trials="faults",
    stores=[SQLITE],
    short={"series": 5, "longest": 1},
    long={"series": 0, "longest": 10_000},
)
def io_errors(arena: Arena, *, series: int, longest: int) -> None:
    """Let each call of each kind fail in turn, until a command makes no more of them.

    With `series`, only so many kinds are taken, and of each `longest` calls from a random one on.
    """
    kinds = list(product(SCENES, CALLS, ERRORS))
    starts = dict.fromkeys(kinds, 1)
    if series:
        usual = [kind for kind in kinds if kind[1] in USUALLY[kind[0]]]
        kinds = arena.random.sample(usual, series)
        starts = {(s, c, e): arena.random.randint(1, USUALLY[s][c]) for s, c, e in kinds}
    tally = Tally(arena.report)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for done in [
            pool.submit(_series, arena, kind, islice(count(starts[kind]), longest), tally)
            for kind in kinds
        ]:
            done.result()
    tally.close(each_scene=not series)


class Tally:
    """Adds up what came of many faults, from several threads."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._lock = Lock()
        self._hits: Counter[str] = Counter({f"{scene}_faults": 0 for scene in SCENES})
        self._said: Counter[str] = Counter(dict.fromkeys(TOLD, 0))

    def add(self, fault: Fault, verdict: Verdict) -> None:
        """Take down a verdict."""
        with self._lock:
            self._hits[f"{fault.scene}_faults"] += verdict.hit
            self._said.update(verdict.said)
            self._report.broken += [f"{fault}: {text}" for text in verdict.wrong]

    def close(self, *, each_scene: bool) -> None:
        """Write all into the report."""
        self._report.note(faults=self._hits.total(), **self._hits, **self._said)
        for scene, hits in self._hits.items():
            self._report.expect(hits or not each_scene, f"there were no {scene}")


def _series(arena: Arena, kind: tuple[str, str, str], ns: Iterator[int], tally: Tally) -> None:
    scene, call, error = kind
    for n in ns:
        fault = Fault(scene, call, error, n)
        folder = arena.folder / f"{scene}-{call}-{error}-{n}"
        folder.mkdir()
        verdict = SCENES[scene](Stage(arena, folder), fault)
        tally.add(fault, verdict)
        if not verdict.hit:
            break


class Stage:
    """A queue of its own for one fault."""

    def __init__(self, arena: Arena, folder: Path) -> None:
        self._arena = arena
        self.folder = folder
        # A folder of this name is made by queuectl.
        self.db = folder / "data" / "queuectl" / "queue.db"
        self.db.parent.parent.mkdir()
        self.ledger = Ledger(folder / "ledger")
        self._hits = folder / "hits"
        self.log = folder / "log"

    @property
    def env(self) -> dict[str, str]:
        """The environment of the commands."""
        data = str(self.db.parent.parent)
        return self._arena.env | {"QUEUECTL_DB": str(self.db), "XDG_DATA_HOME": data}

    def prepare(self, jobs: int = JOBS) -> None:
        """Make the queue, with jobs in it that bear witness and write something."""
        self.db.parent.mkdir(mode=0o700)
        with Queue(str(self.db)) as queue:
            for name, value in SETTINGS.items():
                queue.set_setting(name, value)
            self.enqueue(queue, jobs)

    def enqueue(self, queue: Queue, jobs: int = JOBS) -> None:
        """Enqueue jobs that bear witness."""
        with self.ledger.orders_of("stage").open("a") as orders:
            for n in range(jobs):
                print("ask", f"j{n}", file=orders)
                queue.enqueue(self.ledger.command("echo", OUTPUT.decode().strip()), id=f"j{n}")
                print("ack", f"j{n}", file=orders)

    def strace(self, fault: Fault, *paths: Path) -> list[str]:
        """Return the strace that lets a call fail, the n-th of each thread on certain files."""
        files = [self.db, *(Path(f"{self.db}{end}") for end in ("-wal", "-shm", "-journal", ".d"))]
        only = (
            ()
            if fault.call in ANYWHERE
            else (self.db.parent.parent, self.db.parent, *files, *paths)
        )
        return [
            program("strace"), "--quiet=all", "--signal=none", f"--output={self._hits}",
            f"--trace={fault.call}", *(f"--trace-path={path}" for path in only),
            f"--inject={fault.call}:error={fault.error}:when={fault.n}",
        ]  # fmt: skip

    @property
    def was_hit(self) -> bool:
        """Whether the call was made, and failed."""
        return "(INJECTED)" in self._hits.read_text(errors="replace")

    def run(self, prefix: Sequence[str], *args: str) -> "subprocess.CompletedProcess[str]":
        """Run the command to its end."""
        try:
            return subprocess.run(
                [*prefix, *self._arena.command(*args)],
                env=self.env,
                cwd=self.folder,
                capture_output=True,
                text=True,
                timeout=WITHIN,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{' '.join(args)} hangs, in {self.folder}") from None

    @contextmanager
    def node(self, prefix: Sequence[str], *args: str) -> "Iterator[subprocess.Popen[bytes]]":
        """Run a node, and end it if it doesn't end by itself."""
        with self.log.open("wb") as log:
            process = subprocess.Popen(
                [*prefix, *self._arena.command("worker", "start", "--count", str(JOBS), *args)],
                env=self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _enqueue(stage: Stage, fault: Fault) -> Verdict:
    """The fault hits a command that enqueues."""
    done = stage.run([*stage.strace(fault), "--follow-forks"], "enqueue", "-q", "--id", "x", "true")
    verdict = Verdict(stage.was_hit)
    try:
        with Queue(str(stage.db)) as queue:
            there = any(job.id == "x" for job in queue.list(limit=None))
            wrong = queue.verify()
            queue.enqueue("true")
    except QueuectlError as error:
        verdict.wrong.append(f"afterwards the queue can't be used: {error}")
        return verdict
    verdict.wrong += [f"afterwards: {text}" for text in wrong]
    told = done.stdout == "x\n"
    if done.returncode == 0:
        if not told:
            verdict.wrong.append(f"exit code 0, but stdout was {done.stdout!r}")
        if not there:
            verdict.wrong.append("acknowledged, and not there")
    else:
        verdict.wrong += _unclear(done.stderr)
        verdict.said["enqueues_refused"] += 1
        verdict.said["refused_though_there"] += there
        if told and not there:
            verdict.wrong.append("its id was printed, and it isn't there")
    return verdict


def _first_enqueue(stage: Stage, fault: Fault) -> Verdict:
    return _enqueue(stage, fault)


def _next_enqueue(stage: Stage, fault: Fault) -> Verdict:
    stage.prepare(jobs=1)
    return _enqueue(stage, fault)


def _node(stage: Stage, fault: Fault) -> Verdict:
    """The fault hits a node: while it starts, claims, finishes or stops."""
    stage.prepare()
    with stage.node([*stage.strace(fault, stage.log), "--follow-forks"], "--drain") as node:
        return _verdict_on_node(stage, node)


def _output(stage: Stage, fault: Fault) -> Verdict:
    """The fault hits the output of runs, in the node or its guard."""
    stage.prepare(jobs=0)
    with stage.node([]) as node:
        name = wait_for(partial(_node_of, stage, node), "a node that registers")
        if name is True:
            return _verdict_on_node(stage, node, attached=False)
        spool = Path(f"{stage.db}.d/spool/{name}")
        files = [
            spool / f"{job}.{attempt}.{stream}"
            for job, attempt, stream in product(range(1, JOBS + 1), (1, 2), ("out", "err", "sh"))
        ]
        strace = _only(stage.strace(fault, spool, *files), spool, *files)
        with _attached(strace, node.pid):
            with Queue(str(stage.db)) as queue:
                stage.enqueue(queue)
                wait_for(
                    lambda: node.poll() is not None or not _is_open(queue),
                    "the jobs to be over",
                    within=WITHIN,
                )
            if node.poll() is None:
                node.terminate()
            return _verdict_on_node(stage, node)


def _only(strace: Sequence[str], *paths: Path) -> list[str]:
    """Leave out the files of the database."""
    kept = {f"--trace-path={path}" for path in paths}
    return [arg for arg in strace if not arg.startswith("--trace-path=") or arg in kept]


def _node_of(stage: Stage, node: "subprocess.Popen[bytes]") -> str | bool | None:
    """Return the name of a node that is registered, or True when it ended first."""
    if node.poll() is not None:
        return True
    with Queue(str(stage.db)) as queue:
        names = [str(one["id"]) for one in queue.nodes()]
    return names[0] if names and children_of(node.pid) else None


@contextmanager
def _attached(strace: Sequence[str], node: int) -> Iterator[None]:
    """Attach strace to the threads of a node and its guard, but not to the jobs."""
    tasks = [*map(int, os.listdir(f"/proc/{node}/task")), *children_of(node)]
    process = subprocess.Popen([*strace, *(f"--attach={task}" for task in tasks)])
    try:
        wait_for(lambda: all(map(_is_traced, tasks)), "strace to be attached")
        yield
    finally:
        process.terminate()
        process.wait()


def _is_traced(task: int) -> bool:
    return "TracerPid:\t0\n" not in Path(f"/proc/{task}/status").read_text()


def _is_open(queue: Queue) -> bool:
    states = queue.status().states
    return any(states.get(state) for state in OPEN)


def _verdict_on_node(
    stage: Stage, node: "subprocess.Popen[bytes]", *, attached: bool = True
) -> Verdict:
    """Judge how a node ended, and whether a healthy one can go on from there."""
    verdict = Verdict(hit=False)
    try:
        code = node.wait(WITHIN)
    except subprocess.TimeoutExpired:
        verdict.wrong.append(f"it hangs: {stage.log.read_text()[-1000:]}")
        return verdict
    verdict.hit = attached and stage.was_hit
    log = stage.log.read_text(errors="replace")
    if code:
        verdict.wrong += _unclear(log)
        verdict.said["nodes_stopped"] += 1
    elif "Traceback" in log or "a bug" in log:
        verdict.wrong.append(f"it said: {log[-1000:]}")
    verdict.wrong += _afterwards(stage, must_be_done=code == 0)
    verdict.said.update(_losses(stage))
    return verdict


def _unclear(said: str) -> list[str]:
    """Tell what is wrong with the last words of a command that failed."""
    lines = said.splitlines() or [""]
    clear = lines[-1].startswith("queuectl: ") and lines[-1].endswith(".")
    if clear and "a bug" not in lines[-1] and "Traceback" not in said:
        return []
    return [f"no clear message: {said[-1000:]!r}"]


def _afterwards(stage: Stage, *, must_be_done: bool) -> list[str]:
    """Let a healthy node complete what is left, and compare the queue with the ledger."""
    with Queue(str(stage.db)) as queue:
        wrong = queue.verify()
        left = _is_open(queue)
    if left and must_be_done:
        wrong.append("it said that nothing is left to do, and there is")
    if left:
        done = stage.run([], "worker", "start", "--drain")
        if done.returncode:
            wrong.append(f"a healthy node can't go on: {done.stderr[-1000:]}")
    with Queue(str(stage.db)) as queue:
        return [*wrong, *queue.verify(), *checker.check(queue, stage.ledger)]


def _losses(stage: Stage) -> dict[str, int]:
    """Count runs that failed because of the fault, and completed jobs without their output."""
    with Queue(str(stage.db)) as queue:
        jobs = queue.list(limit=None)
        outputs = [queue.output(job.id).stdout for job in jobs]
    return {
        "runs_failed": sum(job.failures for job in jobs),
        "outputs_lost": sum(output != OUTPUT for output in outputs),
    }


SCENES: Mapping[str, Callable[[Stage, Fault], Verdict]] = {
    "first_enqueue": _first_enqueue,
    "next_enqueue": _next_enqueue,
    "node": _node,
    "output": _output,
}
"""What is hit: a command that makes the queue, one that finds it, a node, the output of runs."""
_BY_COMMANDS = {"pwrite64": 25, "fdatasync": 5, "openat": 4, "ftruncate": 2, "unlink": 2}
USUALLY: Mapping[str, Mapping[str, int]] = {
    "first_enqueue": {**_BY_COMMANDS, "pwrite64": 120, "fdatasync": 9, "openat": 7, "mkdir": 2},
    "next_enqueue": _BY_COMMANDS,
    "node": {**_BY_COMMANDS, "pwrite64": 60, "fdatasync": 8, "write": 3, "mkdir": 2},
    "output": {"openat": 4, "unlink": 4},
}
"""About how often each call is made; the short form chooses among these."""
