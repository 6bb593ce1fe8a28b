"""Nodes, guards, jobs and the database server are killed while jobs with hooks come to their ends.

The runs that the queue keeps of a job say how often it ended, and how; for each end there must be
exactly one job of its hook, which has run: it bears witness in a file, by what it was told.
And exactly one delivery of a webhook, which isn't sent: how that ends is another matter.
"""

import os
import signal
import time
from collections import Counter
from typing import Any

from queuectl import Job, State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.support import children_of, wait_for

WORKERS = 4
NODES = 3
AT_ONCE = 60
"""Jobs that are enqueued when fewer than half as many are left."""
PAUSED = "paused"
"""A queue whose jobs expire, and whose hooks wait until it is resumed."""
MESSAGES = "messages"
"""A queue of deliveries, which is paused for good: they are only counted."""
PATIENCE = 600.0
COMMANDS = ("true", "true", "exit 3", "sleep 0.05", "sleep 0.1; exit 4", "kill -9 $$", "sleep 0.3")
FAILED = ("signalled", "timed out", "not started", "lost")
OPEN = (State.PENDING, State.FAILED, State.PROCESSING)


@campaign(
    row=23,
    about="SIGKILLs of nodes, guards, jobs and the database server while jobs with hooks end:"
    " well, badly, by a crash, or because they expire in a paused queue",
    goal="every end has exactly one job of its hook, and each of those has run",
    trials="kills",
    short={"kills": 8},
    long={"kills": 500},
    owns_server=True,
)
def hooks(arena: Arena, *, kills: int) -> None:
    """Kill around the ends of runs, and compare them with the hooks in the end."""
    Hooked(arena).fight(kills)


class Hooked:
    """Jobs with hooks, and who kills what runs them."""

    def __init__(self, arena: Arena) -> None:
        self._arena = arena
        self._random = arena.random
        self._witness = arena.folder / "hooks"
        self._witness.touch()
        self._many = 0
        self._done: Counter[str] = Counter()
        arena.queue.pause(PAUSED)
        arena.queue.pause(MESSAGES)
        arena.queue.webhooks.add(
            "https://example.com/", "completed,failed,dead", name="all", via=MESSAGES
        )
        self._nodes = [arena.start_node(count=WORKERS) for _ in range(NODES)]

    def fight(self, kills: int) -> None:
        """Kill so often, and judge."""
        while self._done.total() < kills:
            self._await_an_end()
            time.sleep(self._random.expovariate(20))
            self._strike()
            self._nodes = [
                node if node.poll() is None else self._arena.start_node(count=WORKERS)
                for node in self._nodes
            ]
        self._arena.queue.resume(PAUSED)
        wait_for(lambda: not self._left(MESSAGES), "all jobs to end", PATIENCE)
        done = self._arena.run("db", "check", timeout=600)
        self._arena.report.expect(done.returncode == 0, f"db check: {done.stdout}{done.stderr}")
        self._judge()
        self._arena.stop_nodes()

    def _left(self, *but: str) -> int:
        """Count the jobs that haven't ended, in all queues but some."""
        counts = self._arena.queue.counts()
        return sum(c.jobs for c in counts if c.state in OPEN and c.queue not in but)

    def _await_an_end(self) -> None:
        """Wait until one more job is over, so that kills hit nodes that are at work."""
        before = -1
        while True:
            counts = self._arena.queue.counts()
            # What waits in a paused queue, such as its hooks, comes to no end for now.
            left = self._left(PAUSED, MESSAGES)
            over = sum(c.jobs for c in counts if c.state not in OPEN)
            if -1 < before < over:
                return
            before = over if before < 0 else before
            if left < AT_ONCE / 2:
                self._enqueue()
            time.sleep(0.02)

    def _enqueue(self) -> None:
        told = '"$QUEUECTL_HOOK" "$QUEUECTL_HOOK_ATTEMPT" "$QUEUECTL_HOOK_OF"'
        # The job comes as JSON on stdin, or else there is nothing to bear witness of.
        witness = f"grep -q '\"ended\"' && printf '%s %s %s\\n' {told} >> '{self._witness}'"
        occasions = ("on_success", "on_failure", "on_dead")
        jobs = []
        for _ in range(AT_ONCE):
            self._many += 1
            job: dict[str, Any] = {"id": f"j{self._many}", "cwd": "/", "timeout": "200ms"}
            job["command"] = self._random.choice(COMMANDS)
            job["max_retries"] = self._random.choice((0, 0, 1, 2))
            job |= {name: witness for name in occasions if self._random.random() < 0.9}
            if self._random.random() < 0.1:
                job |= {"queue": PAUSED, "expire": "500ms"}
            jobs.append(job)
        self._arena.queue.enqueue_many(jobs)

    def _strike(self) -> None:
        """Kill a node, a guard, a job or the server."""
        node = self._random.choice(self._nodes).pid
        ways = ["node"] * 14 + ["guard"] * 3 + ["job"] * 4
        way = self._random.choice(ways + ["server"] * (self._arena.store != SQLITE))
        if way == "server":
            self._arena.own_server.kill()
            self._arena.own_server.start()
            self._done["servers_killed"] += 1
            return
        guards = children_of(node)
        runs = [run for guard in guards for run in children_of(guard)]
        victims = {"node": [node], "guard": guards, "job": runs[:1]}[way]
        for victim in victims[:1]:
            try:
                os.kill(victim, signal.SIGKILL)
            except ProcessLookupError:
                continue
            self._done[f"{way}s_killed"] += 1

    def _judge(self) -> None:
        """Compare what ended with the hooks that there are, and with what they have written."""
        report = self._arena.report
        all_jobs = self._arena.queue.list(limit=None)
        jobs = [job for job in all_jobs if job.webhook is None]
        told = Counter(told_by(job) for job in all_jobs if job.webhook is not None)
        news = Counter(end for job in jobs for end in self._news(job))
        report.expect(not news - told, f"ends that nobody was told: {sorted(news - told)[:5]}")
        report.expect(not told - news, f"messages without an end: {sorted(told - news)[:5]}")
        asked = [job for job in jobs if job.hook is None]
        made = Counter(told_by(job) for job in jobs if job.hook is not None)
        wanted = Counter(end for job in asked for end in self._ends(job))
        report.expect(not wanted - made, f"ends without a hook: {sorted(wanted - made)[:5]}")
        report.expect(not made - wanted, f"hooks without an end: {sorted(made - wanted)[:5]}")
        lazy = [job.id for job in jobs if job.hook is not None and job.state != State.COMPLETED]
        report.expect(not lazy, f"hooks that didn't complete: {lazy[:5]}")
        ran = {tuple(line.split(" ", 2)) for line in self._witness.read_text().splitlines()}
        report.expect(
            set(made) == ran,
            f"hooks that bore no witness, or too much: {sorted(set(made) ^ ran)[:5]}",
        )
        report.expect(len(asked) == self._many, f"{self._many} jobs became {len(asked)}")
        kinds = Counter(f"on_{occasion}" for occasion, _, _ in made.elements())
        report.note(kills=self._done.total(), jobs=len(asked), hooks=made.total())
        report.note(messages=told.total())
        report.note(**self._done, **kinds)

    def _ends(self, job: Job) -> list[tuple[str, str, str]]:
        """Return what there is to tell of a job that has hooks for it, by the runs it had."""
        found = []
        for run in self._arena.queue.attempts(job):
            if run.outcome == "exited" and run.exit_code == 0 and job.on_success:
                found.append(("success", str(run.number), job.id))
            bad = run.outcome in FAILED or (run.outcome == "exited" and run.exit_code != 0)
            if bad and job.on_failure:
                found.append(("failure", str(run.number), job.id))
        if job.state == State.DEAD and job.on_dead:
            found.append(("dead", str(job.attempts), job.id))
        return found

    def _news(self, job: Job) -> list[tuple[str, str, str]]:
        """Return what a webhook is told of a job, by the runs it had."""
        found = []
        runs = self._arena.queue.attempts(job)
        died_waiting = (job.reason or "").startswith("expired")
        for place, run in enumerate(runs, 1):
            is_last = place == len(runs) and job.state == State.DEAD and not died_waiting
            bad = run.outcome in FAILED or (run.outcome == "exited" and run.exit_code != 0)
            if run.outcome == "exited" and run.exit_code == 0:
                found.append(("completed", str(run.number), job.id))
            elif bad and not is_last:
                found.append(("failed", str(run.number), job.id))
        if job.state == State.DEAD:
            found.append(("dead", str(job.attempts), job.id))
        return found


def told_by(job: Job) -> tuple[str, str, str]:
    """Return what a hook or delivery tells of: the occasion, the attempt, and the id."""
    assert job.hook is not None
    occasion, attempt, _, id = job.hook.split(" ", 3)
    return occasion, attempt, id
