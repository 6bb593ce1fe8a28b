"""Nodes, guards and warm programs are killed while Python tasks run.

Each task bears witness in a ledger when it begins and when it ends, under a lock that no other run
of its job can have meanwhile. What began must be known to the queue as a run of its own; what was
only handed to a program goes to another, unharmed.
"""

import os
import signal
import time
from collections import Counter
from subprocess import Popen

from queuectl.job import State
from tests.faults.arena import Arena
from tests.faults.campaign import campaign
from tests.support import children_of

NODES, WORKERS = 2, 3
AT_ONCE = 400
"""Jobs that are enqueued when fewer than half as many are left."""
MODULE = "witness_app"
APP = """\
import fcntl
import os
import time

from queuectl import Queue
from queuectl.tasks.current import current_job

queue = Queue({url!r})
ledger = os.open({ledger!r}, os.O_WRONLY | os.O_APPEND)


@queue.task(name="witness")
def witness(seconds: float) -> int:
    job = current_job()
    lock = os.open(f"{locks}/{{job.id}}", os.O_CREAT | os.O_WRONLY)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.write(ledger, f"overlap {{job.id}} {{job.attempt}}\\n".encode())
        os.write(ledger, f"began {{job.id}} {{job.attempt}}\\n".encode())
        time.sleep(seconds)
        os.write(ledger, f"ended {{job.id}} {{job.attempt}}\\n".encode())
    finally:
        os.close(lock)
    return job.attempt
"""


@campaign(
    row=25,
    about="SIGKILLs of nodes, guards and warm programs while Python tasks run, and others wait in"
    " the same programs",
    goal="every task completes; what began is a run that the queue knows, what hadn't begun goes to"
    " another unharmed; no job runs twice at once",
    trials="kills",
    short={"kills": 6},
    long={"kills": 500},
)
def tasks(arena: Arena, *, kills: int) -> None:
    """Kill at random while tasks run, and compare the ledger with the store."""
    Witnessed(arena).fight(kills)


class Witnessed:
    """Tasks that bear witness, and who kills what runs them."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._random = arena.random
        self._ledger = arena.folder / "tasks.txt"
        self._ledger.touch()
        locks = arena.folder / "locks"
        locks.mkdir()
        app = APP.format(url=arena.url, ledger=str(self._ledger), locks=locks)
        (arena.folder / f"{MODULE}.py").write_text(app)
        arena.queue.set_setting("max_crashes", 1000)
        self._many = 0
        self._done: Counter[str] = Counter()
        self._nodes = [self._start() for _ in range(NODES)]

    def _start(self) -> "Popen[bytes]":
        return self._arena.start_node("--app", f"{MODULE}:queue", count=WORKERS)

    def fight(self, kills: int) -> None:
        """Kill so often, and judge."""
        while self._done.total() < kills:
            self._await_some()
            time.sleep(self._random.expovariate(10))
            self._strike()
            self._nodes = [node if node.poll() is None else self._start() for node in self._nodes]
        self._arena.wait_until_drained()
        self._judge()
        self._arena.stop_nodes()

    def _await_some(self) -> None:
        """Wait until one more task has begun, so that kills hit nodes that are at work."""
        before = self._ledger.stat().st_size
        while self._ledger.stat().st_size == before:
            left = sum(c.jobs for c in self._arena.queue.counts() if c.state == State.PENDING)
            if left < AT_ONCE / 2:
                self._enqueue()
            time.sleep(0.01)

    def _enqueue(self) -> None:
        jobs = []
        for _ in range(AT_ONCE):
            self._many += 1
            # Most are short, so that many of them are in a program at once.
            seconds = self._random.choice((0, 0, 0, 0, 0.001, 0.003, 0.05))
            job = {"id": f"t{self._many}", "type": "witness", "data": f'{{"seconds":{seconds}}}'}
            jobs.append({**job, "max_retries": 1000, "retry_delay": "0s"})
        self._arena.queue.enqueue_many(jobs)

    def _strike(self) -> None:
        """Kill a node, a guard or a program."""
        node = self._random.choice(self._nodes).pid
        way = self._random.choice(["node"] * 3 + ["guard"] + ["program"] * 6)
        guards = children_of(node)
        programs = [program for guard in guards for program in children_of(guard)]
        victims = {"node": [node], "guard": guards, "program": programs}[way]
        if victims:
            try:
                os.kill(self._random.choice(victims), signal.SIGKILL)
            except ProcessLookupError:
                return
            self._done[f"{way}s_killed"] += 1

    def _judge(self) -> None:
        """Compare what bore witness with the runs that the queue knows."""
        report, queue = self._arena.report, self._arena.queue
        said: Counter[tuple[str, str, int]] = Counter()
        for line in self._ledger.read_text().splitlines():
            what, id, attempt = line.split()
            said[what, id, int(attempt)] += 1
        jobs = list(queue.list(limit=None))
        report.expect(len(jobs) == self._many, f"{self._many} jobs became {len(jobs)}")
        bad = [f"{job.id} is {job.state}" for job in jobs if job.state != State.COMPLETED]
        runs = {(job.id, run.number): run for job in jobs for run in queue.attempts(job)}
        results = queue.results(jobs)
        bad += [f"{id} ran twice at once" for what, id, _ in said if what == "overlap"]
        bad += [
            f"run {number} of {id} began {times} times"
            for (what, id, number), times in said.items()
            if what == "began" and times > 1
        ]
        bad += [
            f"run {number} of {id} began, and the queue knows of none"
            for what, id, number in said
            if what == "began" and (id, number) not in runs
        ]
        bad += [
            f"{job.id} came to {results.get(job.seq)}, which never ended"
            for job in jobs
            if not said["ended", job.id, results.get(job.seq, 0)]
        ]
        blamed = sum(
            run.outcome != "released" and not said["began", id, number]
            for (id, number), run in runs.items()
        )
        report.expect(not bad, f"{len(bad)} broken: {'; '.join(bad[:5])}")
        # One may be killed between its note on the board and its first line in the ledger.
        report.expect(blamed <= self._done.total() * WORKERS, f"{blamed} were blamed for nothing")
        report.note(kills=self._done.total(), jobs=len(jobs), runs=len(runs), blamed=blamed)
        report.note(**self._done)
