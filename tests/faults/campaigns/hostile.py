"""Commands that try to get away, to hang their node or to take it down.

The node lives in a process namespace of its own, below a first process that starts it again if it
dies. All that jobs start is below that one, however it hides: nothing can get away from the judge.
"""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from queuectl import Job, State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.support import children_of, wait_for

GRACE_MS = 300
OVER = (State.COMPLETED, State.DEAD, State.CANCELLED)
MOST_ON_DISK = 256 << 20
"""Bytes that gigabytes of output may take at once."""

FIRST_PROCESS = """
import os, signal, sys
os.chdir(sys.argv[1])
while True:
    node = os.spawnvp(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
    while (ended := os.wait())[0] != node:
        pass
    if ended[1] == 0:
        break
"""

DAEMON = """
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
os.closerange(0, 100)
time.sleep(1000)
"""

HYDRA = """
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
end = time.monotonic() + 30
for number in range(12):
    if os.fork() == 0:
        if number % 2: os.setsid()
        while time.monotonic() < end:
            if os.fork(): os._exit(0)
            time.sleep(0.001)
        os._exit(0)
time.sleep(1000)
"""

TITLE = """
import ctypes, os, sys, time
if os.fork(): os._exit(0)
os.setsid()
ctypes.CDLL(None).prctl(15, b"kworker/0:1", 0, 0, 0)
time.sleep(1000)
"""

SUBREAPER = """
import ctypes, os, subprocess, time
ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
subprocess.run(["sh", "-c", "setsid sleep 1000 & setsid sleep 1000 &"])
time.sleep(1000)
"""

TERMINAL = """
import os, pty, time
pid, terminal = pty.fork()
if not pid: os.execlp("sleep", "sleep", "1000")
time.sleep(0.1)
os._exit(0)
"""

TRACED = """
import ctypes, os, signal, time
if not os.fork():
    os.setsid()
    ctypes.CDLL(None).ptrace(0, 0, 0, 0)
    signal.raise_signal(signal.SIGSTOP)
time.sleep(1000)
"""

HEADLESS = """
import ctypes, os, threading, time
threading.Thread(target=time.sleep, args=(1000,)).start()
ctypes.CDLL(None).syscall(60 if os.uname().machine == "x86_64" else 93, 0)
"""

HOG = """
import os, resource, subprocess
subprocess.Popen(["setsid", "sleep", "1000"])
resource.setrlimit(resource.RLIMIT_AS, (1 << 28, 1 << 28))
held = []
while True: held.append(bytearray(1 << 20))
"""

PROGRAMS = {
    "daemon": DAEMON,
    "hydra": HYDRA,
    "title": TITLE,
    "subreaper": SUBREAPER,
    "terminal": TERMINAL,
    "traced": TRACED,
    "headless": HEADLESS,
    "hog": HOG,
}

HIDE = "env -i {python} {folder}/daemon.py >/dev/null 2>&1 </dev/null"
"""Starts what has no parent, session, environment, directory or output in common with its run."""

COMMANDS = {
    "tree": "sh -c 'sleep 1000 & sh -c \"sleep 1000 & wait\" & wait' & wait",
    "double fork": "(sleep 1000 &); (setsid sleep 1000 &); sleep 1000",
    "new session": "setsid sleep 1000 & exit 0",
    "daemon": "{python} {folder}/daemon.py",
    "hidden daemon": f"{HIDE}; sleep 0.2",
    "hidden daemon of a late run": f"{HIDE}; sleep 1000",
    "deaf": "trap '' TERM HUP INT QUIT; while :; do sleep 1; done",
    "nohup": "nohup sleep 1000 & nohup setsid nohup sleep 1000 & exit 0",
    "stops itself": "kill -STOP $$",
    "stopped child": "sleep 1000 & kill -STOP $!; exit 0",
    "stopped session": "setsid sh -c 'kill -STOP $$' & sleep 0.2",
    "flood": "yes & yes >&2 & wait",
    "gigabytes": "head -c 2G /dev/zero",
    "three hundred": "for i in $(seq 300); do sleep 1000 & done; wait",
    "fork bomb": "b() { [ $1 -gt 0 ] || exec sleep 1000; b $(($1-1)) & b $(($1-1)) & wait; }; b 5",
    "hydra": "{python} {folder}/hydra.py",
    "closes all": "setsid sleep 1000 & exec 0<&- 1>&- 2>&-; sleep 1000",
    "lost folder": "mkdir lost; cd lost; rmdir ../lost; setsid sleep 1000 & exit 0",
    "goes away": "cd /; setsid sleep 1000 & cd /proc/$!; exec sleep 1000",
    "kills its group": "setsid sleep 1000 & sleep 0.1; kill -9 0",
    "kills itself": "setsid sleep 1000 & sleep 0.1; kill -9 $$",
    "false title": "{python} {folder}/title.py",
    "no environment": "env -i setsid sh -c 'sleep 1000; :' & exit 0",
    "full device": "setsid sleep 1000 >/dev/full 2>&1 & cat /dev/zero >/dev/full",
    "terminal": "{python} {folder}/terminal.py",
    "missing program": "setsid sleep 1000 & exec /nowhere/program",
    "huge arguments": "setsid sleep 1000 & exec true $(head -c 300000 /dev/zero | tr '\\0' x)",
    "noise": "head -c 100000 /dev/urandom; head -c 100000 /dev/urandom >&2; setsid sleep 1000 &",
    "holds the output": "(exec env -i setsid sleep 1000) & sleep 0.1",
    "busy": "nice -n 19 setsid sh -c 'while :; do :; done' & sleep 0.1",
    "memory hog": "{python} {folder}/hog.py",
    "comes again": "trap 'setsid sleep 1000 & setsid sleep 1000 &' TERM EXIT; sleep 1000",
    "own subreaper": "{python} {folder}/subreaper.py",
    "traced": "{python} {folder}/traced.py",
    "headless": "{python} {folder}/headless.py",
    "own namespace": "unshare --pid --fork --mount-proc setsid sleep 1000 & sleep 0.3",
    "removes its output": "rm $(readlink /proc/$$/fd/1); echo lost; setsid sleep 1000 & exit 0",
}
"""What they do. They end by themselves, or are timed out or cancelled."""

NODE = "$(sed -n 's/^PPid:\\t//p' /proc/$PPID/status)"
KILLERS = {
    "kills its parent": f"{HIDE}; setsid sleep 1000 & sleep 0.1; kill -9 $PPID; sleep 1000",
    "kills the node": f"{HIDE}; setsid sleep 1000 & sleep 0.1; kill -9 {NODE}; sleep 1000",
    "kills both": f"{HIDE}; node={NODE}; kill -STOP $PPID $node; kill -9 $PPID $node; sleep 1000",
}
"""What takes down those who watch it, in its first attempt. The second one ends well."""


@campaign(
    row=14,
    about="hostile commands: they fork, hide, hang, flood, and kill those who watch them",
    goal="0 survivors, zombies or leaked descriptors at kill_grace + 1 s; the node is healthy",
    trials="commands",
    short={"rounds": 1, "at_once": len(COMMANDS), "killers": 1, "within_ms": 0},
    long={"rounds": 3, "at_once": 1, "killers": len(KILLERS), "within_ms": GRACE_MS + 1_000},
    stores=(SQLITE,),
)
def hostile(arena: Arena, *, rounds: int, at_once: int, killers: int, within_ms: int) -> None:
    """Run all of them, some at once, beside a good job; then those that kill."""
    cage = Cage(arena, within_ms)
    cage.begin(count=at_once + 1)
    for _ in range(rounds):
        names = arena.random.sample(list(COMMANDS), len(COMMANDS))
        for first in range(0, len(names), at_once):
            cage.run(*names[first : first + at_once])
    cage.check_the_good_one()
    for name in arena.random.sample(list(KILLERS), killers):
        cage.run_killer(name)
    arena.report.note(
        commands=cage.commands,
        longest_ms=round(cage.longest * 1000),
        most_mib_on_disk=round(cage.most_on_disk / (1 << 20)),
    )
    cage.stop()


@dataclass(frozen=True, slots=True)
class Process:
    """A process below the first one of the namespace."""

    pid: int
    state: str
    line: str

    def __str__(self) -> str:
        return f"{self.pid} {self.state} {self.line}"


class Cage:
    """A node in a namespace of its own, and what is seen of it from outside."""

    def __init__(self, arena: Arena, within_ms: int) -> None:
        self._arena = arena
        self._within_ms = within_ms
        self._over = arena.folder / "over"
        self._good: list[Process] = []
        """The processes of the good job that runs beside the others."""
        self._descriptors: dict[int, list[str]] = {}
        self.commands = 0
        self.longest = 0.0
        """Seconds until nothing was left of jobs that were over."""
        self.most_on_disk = 0

    def begin(self, count: int) -> None:
        """Start the node, and a good job."""
        arena = self._arena
        arena.queue.set_setting("kill_grace", f"{GRACE_MS}ms")
        arena.queue.set_setting("heartbeat", "200ms")
        for name, text in PROGRAMS.items():
            (arena.folder / f"{name}.py").write_text(text)
        self._first = start_first_process(arena, count)
        until_over = f"while [ ! -e {self._over} ]; do read -r line <{self._over}.pipe; done"
        os.mkfifo(f"{self._over}.pipe")
        arena.enqueue("good", "sh", "-c", until_over)
        arena.wait_state("good", State.PROCESSING)
        self._check_health()
        self._wait_for_a_renewal()
        # A shell that bears witness, and one that waits.
        wait_for(
            lambda: arena.ledger.runs_of("good") and len(self._left()) == 2, "the good job to run"
        )
        self._good = self._left()
        self._descriptors = self._open_files()

    def _wait_for_a_renewal(self) -> None:
        """Wait until the node has all open that it needs: the lease has a connection of its own."""
        [before] = self._arena.queue.nodes()
        wait_for(lambda: self._arena.queue.nodes()[0]["seen_at"] != before["seen_at"], "a renewal")

    def run(self, *names: str) -> None:
        """Run some of the commands at once until they are over; see what is left."""
        jobs = {f"{self.commands + n}-{name.replace(' ', '-')}": name
                for n, name in enumerate(names)}  # fmt: skip
        self.commands += len(jobs)
        for id, name in jobs.items():
            command = self._command(COMMANDS[name])
            self._arena.queue.enqueue(command, id=id, timeout="1s", max_retries=0)
        cancelled = [id for id in jobs if self._arena.random.random() < 0.2]
        for id in cancelled:
            self._arena.wait_state(id, State.PROCESSING, *OVER)
            self._arena.run("cancel", id)
        self._wait_until_over(list(jobs))
        self._expect_nobody(f"of {', '.join(names)}")
        self._check_health()
        self._expect_no_leak(f"after {', '.join(names)}")

    def check_the_good_one(self) -> None:
        """End the good job: it must have run all the time, and in one go."""
        self._over.touch()
        Path(f"{self._over}.pipe").write_text("\n")
        job = self._arena.wait_state("good", *OVER)
        good = job.state == State.COMPLETED and job.attempts == 1
        self._arena.report.expect(good, f"the good job beside them was harmed: {job}")
        self._good = []

    def run_killer(self, name: str) -> None:
        """Run one that kills the guard, the node or both: of its first attempt nothing is left.

        The node, or the one that is started in its place, goes on.
        """
        id = name.replace(" ", "-")
        self.commands += 1
        script = f"[ $QUEUECTL_ATTEMPT = 2 ] && exit 0; {KILLERS[name]}"
        self._arena.queue.enqueue(self._command(script), id=id)
        job = self._arena.wait_state(id, State.COMPLETED)
        self._arena.report.expect(job.crashes == 1, f"{name}: ran again, though not lost: {job}")
        self._expect_nobody(f"of what {name}")
        self._check_health()

    def stop(self) -> None:
        """Stop the node in order; the first process ends with it."""
        os.kill(self._node(), 15)
        code = self._arena.nodes[0].wait(120)
        self._arena.report.expect(code == 0, f"the node exited with {code}")
        said = self._arena.log()
        self._arena.report.expect("Traceback" not in said, f"a node said {said[-2000:]}")

    def _command(self, script: str) -> str:
        return script.replace("{python}", sys.executable).replace(
            "{folder}", str(self._arena.folder)
        )

    def _wait_until_over(self, ids: list[str]) -> None:
        def over() -> bool:
            self.most_on_disk = max(self.most_on_disk, _size(self._arena.folder))
            return all(job.state in OVER for job in self._jobs(ids))

        wait_for(over, f"the end of {ids}")
        self._arena.report.expect(
            not self._within_ms or self.most_on_disk <= MOST_ON_DISK,
            f"output took {self.most_on_disk} bytes on the disk",
        )

    def _jobs(self, ids: list[str]) -> list[Job]:
        return [self._arena.queue.get(id) for id in ids]

    def _expect_nobody(self, whose: str) -> None:
        """See that nothing is left of jobs that are over, and how long that takes."""
        began = time.monotonic()
        limit = self._within_ms / 1000 or 60.0
        while (left := self._left()) and time.monotonic() - began < limit:
            time.sleep(0.01)
        self.longest = max(self.longest, time.monotonic() - began)
        self._arena.report.expect(not left, f"left {whose}: {'; '.join(map(str, left))}")

    def _left(self) -> list[Process]:
        """Return what is there besides the node, its guard and the good job; zombies, too."""
        watchers = {*self._nodes(), *self._guards()}
        good = {process.pid for process in self._good}
        return [one for one in self._below() if one.pid not in watchers | good]

    def _check_health(self) -> None:
        """See that the node runs a job."""
        id = f"health-{time.monotonic_ns()}"
        self._arena.enqueue(id, "true")
        job = self._arena.wait_state(id, *OVER)
        self._arena.report.expect(
            job.state == State.COMPLETED and job.attempts == 1, f"the node isn't healthy: {job}"
        )

    def _expect_no_leak(self, when: str) -> None:
        try:
            wait_for(lambda: self._open_files() == self._descriptors, within=5)
        except AssertionError:
            now = self._open_files()
            self._arena.report.broken.append(f"{self._descriptors} became {now} {when}")

    def _open_files(self) -> dict[int, list[str]]:
        """Return what the node and its guard have open."""
        return {pid: sorted(_open_files(pid)) for pid in (self._node(), *self._guards())}

    def _node(self) -> int:
        return wait_for(lambda: next(iter(self._nodes()), None), "a node")

    def _nodes(self) -> list[int]:
        """Return the node, if it runs; what lost node and guard is beside it."""
        return [pid for pid in children_of(self._first) if "worker start" in _line(pid)]

    def _guards(self) -> list[int]:
        below = (pid for node in self._nodes() for pid in children_of(node))
        return [pid for pid in below if "queuectl.guard" in _line(pid)]

    def _below(self) -> list[Process]:
        return list(_descendants(self._first))


def start_first_process(arena: Arena, count: int) -> int:
    """Start the first process of a namespace, which starts a node; return its pid out here."""
    node = arena.command("worker", "start", "--count", str(count))
    with (arena.folder / "node0.log").open("wb") as log:
        outer = subprocess.Popen(
            [
                *("unshare", "--pid", "--fork", "--kill-child", "--mount-proc"),
                *(sys.executable, "-c", FIRST_PROCESS, str(arena.folder), *node),
            ],
            env=arena.env,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    arena.nodes.append(outer)
    return wait_for(lambda: next(iter(children_of(outer.pid)), None), "the first process")


def _descendants(first: int) -> Iterator[Process]:
    parents: dict[int, list[Process]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (stat := _stat(folder)):
            pid = int(folder.name)
            parents.setdefault(int(stat[1]), []).append(Process(pid, stat[0], _line(pid)))
    waiting = [first]
    while waiting:
        for process in parents.get(waiting.pop(), []):
            yield process
            waiting.append(process.pid)


def _stat(folder: Path) -> list[str]:
    try:
        return (folder / "stat").read_text(errors="replace").rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _line(pid: int) -> str:
    try:
        line = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return line.replace(b"\0", b" ").decode(errors="replace").strip()[:200]


def _open_files(pid: int) -> Iterator[str]:
    for number in os.listdir(f"/proc/{pid}/fd"):
        try:
            # Without the numbers that tell one socket or pipe from the next.
            yield os.readlink(f"/proc/{pid}/fd/{number}").partition(":[")[0]
        except FileNotFoundError:
            continue


def _size(folder: Path) -> int:
    """Return how many bytes the files of a folder take on the disk."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(path, name)).st_blocks * 512
            except FileNotFoundError:
                continue
    return total
