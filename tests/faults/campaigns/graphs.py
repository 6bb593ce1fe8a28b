"""Nodes are killed while a graph of jobs runs, parts of which fail, and are repaired.

The jobs write down when they begin and end, into one file: its order shows whether each began after
those that it waits for. What must become of every job is worked out by a few rules of its own here.
"""

import os
import re
import signal
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from queuectl import Job, State
from tests.faults.arena import Arena
from tests.faults.campaign import SQLITE, campaign
from tests.faults.checker import none_dies_unheard, none_finishes_twice
from tests.support import wait_for

NODES, WORKERS = 3, 4
EDGES = 3
"""How many others a job waits for, at most."""
NEAR = 60
"""How far before a job those are that it waits for: so there are always many that may run."""
GROUPS = 5
EXPLAINED = 200
"""Of so many that are blocked it is looked whom explain names."""
PATIENCE = 600.0
IF_FAILS = ("block",) * 7 + ("cancel", "run", "run")
COMMAND = """\
echo "begin $QUEUECTL_JOB_ID" >> '{witness}'
if [ -e '{folder}/'"$QUEUECTL_JOB_ID" ]; then exit 3; fi
echo "end $QUEUECTL_JOB_ID" >> '{witness}'
"""


@dataclass
class Node:
    """A job of the graph, and what must become of it."""

    id: str
    parents: dict[str, str] = field(default_factory=dict)
    """Whom it waits for, and how these have to end."""
    if_fails: str = "block"
    group: str = ""
    fails: bool = False
    is_repaired: bool = False
    state: State = State.BLOCKED
    is_unneeded: bool = False
    roots: set[str] = field(default_factory=set)
    """Because of whom it is blocked for good."""


@campaign(
    row=27,
    about="nodes and the database server killed while a random graph of jobs runs, some of which"
    " fail; of these, some are repaired",
    goal="each job begins after those that it waits for, ends as the rules say, or is blocked by"
    " whom explain names; what waits for a group runs once",
    trials="kills",
    short={"jobs": 120, "kills": 6},
    long={"jobs": 10_000, "kills": 100},
    owns_server=True,
)
def graphs(arena: Arena, *, jobs: int, kills: int) -> None:
    """Kill while the graph runs, repair what is to be repaired, and judge."""
    graph = Grown(arena, jobs)
    graph.enqueue()
    graph.fight(kills)
    graph.repair()
    graph.judge()
    arena.stop_nodes()


class Grown:
    """A random graph of jobs, what runs it, and who kills that."""

    def __init__(self, arena: Arena, many: int) -> None:
        self._arena = arena
        self._random = arena.random
        self._witness = arena.folder / "witness"
        self._witness.touch()
        self._fails = arena.folder / "fails"
        self._fails.mkdir()
        self._line: dict[str, Node] = {}
        for n in range(many):
            node = self._grow(n)
            self._line[node.id] = node
        self._killed: Counter[str] = Counter()
        self._nodes = [arena.start_node(count=WORKERS) for _ in range(NODES)]

    def _grow(self, n: int) -> Node:
        random, before = self._random, list(self._line)[-NEAR:]
        chosen = random.sample(before, min(len(before), random.randrange(EDGES + 1)))
        node = Node(id=f"j{n}", group=f"g{random.randrange(GROUPS)}")
        node.parents = {id: self._wanted(self._line[id]) for id in chosen}
        node.if_fails = random.choice(IF_FAILS)
        node.fails = random.random() < 0.06
        node.is_repaired = node.fails and random.random() < 0.7
        return node

    def _wanted(self, parent: Node) -> str:
        """Choose how a parent has to end; so that the greater part of the graph runs."""
        if self._random.random() < (0.3 if parent.fails else 0.005):
            return "fail"
        return "any" if self._random.random() < 0.2 else ""

    def enqueue(self) -> None:
        """Store the graph in one go, in an order of its own; and who waits for the groups."""
        for node in self._line.values():
            if node.fails:
                (self._fails / node.id).touch()
        command = COMMAND.format(witness=self._witness, folder=self._fails)
        requests = [
            {
                "id": node.id,
                "command": command,
                "cwd": "/",
                "group": node.group,
                "max_retries": 0,
                "if_parent_fails": node.if_fails,
                "after": [
                    f"{id}:{wanted}" if wanted else id for id, wanted in node.parents.items()
                ],
            }
            for node in self._line.values()
        ]
        self._random.shuffle(requests)
        self._arena.queue.enqueue_many(requests)
        for name in sorted({node.group for node in self._line.values()}):
            waits = f"echo 'begin {name}' >> '{self._witness}'"
            self._arena.queue.enqueue(waits, id=name, cwd="/", after_group=f"{name}:any")

    def fight(self, kills: int) -> None:
        """Kill so often, spread over the jobs that end."""
        while self._killed.total() < kills and not self._is_still():
            done = sum(c.jobs for c in self._arena.queue.counts() if c.state == State.COMPLETED)
            if done * (kills + 1) >= len(self._line) * self._killed.total() * 0.45:
                time.sleep(self._random.expovariate(20))
                self._strike()
            time.sleep(0.02)
        wait_for(self._is_still, "all that can to end", PATIENCE)

    def _is_still(self) -> bool:
        """Tell whether nothing waits for a worker, or runs."""
        states = (State.PENDING, State.FAILED, State.PROCESSING)
        return not any(c.jobs for c in self._arena.queue.counts() if c.state in states)

    def _strike(self) -> None:
        if self._arena.store != SQLITE and self._random.random() < 0.1:
            self._arena.own_server.kill()
            self._arena.own_server.start()
            self._killed["servers_killed"] += 1
            return
        victim = self._random.randrange(NODES)
        os.kill(self._nodes[victim].pid, signal.SIGKILL)
        self._nodes[victim].wait()
        self._nodes[victim] = self._arena.start_node(count=WORKERS)
        self._killed["nodes_killed"] += 1

    def repair(self) -> None:
        """Mend what fails, and have it run again, some of it while nodes are killed."""
        mended = [node for node in self._line.values() if node.is_repaired]
        ran = 1
        while ran:
            ran = 0
            for node in mended:
                path = self._fails / node.id
                if path.exists() and self._arena.queue.get(node.id).state == State.DEAD:
                    path.unlink()
                    self._arena.queue.retry(node.id)
                    ran += 1
            if ran:
                self._strike()
                wait_for(self._is_still, "what was mended to end", PATIENCE)

    # -- what must have become of it -----------------------------------------------------

    def judge(self) -> None:
        """Compare every job with what the rules say."""
        report, queue = self._arena.report, self._arena.queue
        for node in self._line.values():
            self._work_out(node)
        jobs = {job.id: job for job in queue.list(limit=None)}
        wrong = [
            f"{node.id} is {jobs[node.id].state}, not {node.state}"
            for node in self._line.values()
            if jobs[node.id].state != node.state
        ]
        report.expect(not wrong, f"jobs that ended otherwise: {wrong[:5]}")
        report.expect(not self._early(), f"began too early: {self._early()[:5]}")
        blocked = [node for node in self._line.values() if node.state == State.BLOCKED]
        blocked = self._random.sample(blocked, min(EXPLAINED, len(blocked)))
        astray = [node.id for node in blocked if self._named(jobs[node.id]) != node.roots]
        report.expect(not astray, f"blocked by others than explain names: {astray[:5]}")
        self._judge_groups(jobs)
        report.broken += [*none_finishes_twice(queue, jobs), *self._deaths(jobs)]
        checked = self._arena.run("db", "check", timeout=600)
        report.expect(checked.returncode == 0, f"db check: {checked.stdout}{checked.stderr}")
        ended = Counter(str(node.state) for node in self._line.values())
        report.note(kills=self._killed.total(), jobs=len(self._line), **self._killed, **ended)

    def _work_out(self, node: Node) -> None:
        """Say what becomes of a job by what became of those that it waits for."""
        met = True
        for id, wanted in node.parents.items():
            parent = self._line[id]
            ran = parent.state in (State.COMPLETED, State.DEAD)
            if parent.state == State.BLOCKED:
                met = False
                node.roots |= parent.roots
            elif wanted == "any":
                continue
            elif not ran or (wanted == "fail" and not parent.fails):
                node.state = State.CANCELLED
            elif wanted == "fail" or not parent.fails or node.if_fails == "run":
                continue
            elif node.if_fails == "cancel":
                node.state = State.CANCELLED
            elif not parent.is_repaired:
                met = False
                node.roots.add(id)
        if node.state == State.CANCELLED:
            node.roots = set()
        elif met:
            is_dead = node.fails and not node.is_repaired
            node.state = State.DEAD if is_dead else State.COMPLETED

    def _early(self) -> list[str]:
        """Return which jobs began before one that they wait for had come to its end."""
        ended: set[str] = set()
        begun: set[str] = set()
        early = []
        for line in self._witness.read_text().splitlines():
            what, _, id = line.partition(" ")
            if what == "end":
                ended.add(id)
            elif id in self._line:
                node = self._line[id]
                for parent, wanted in node.parents.items():
                    lax = wanted or node.if_fails == "run"
                    never_ran = self._line[parent].state == State.CANCELLED
                    if not never_ran and parent not in (begun if lax else ended):
                        early.append(f"{id} before {parent}")
            begun.add(id)
        return early

    def _named(self, job: Job) -> set[str]:
        """Return the dead jobs that explain names as those that keep one from running."""
        reasons = self._arena.queue.explain(job)
        remedies = " ".join(reason.remedy or "" for reason in reasons)
        named = set(re.findall(r"\bj\d+\b", remedies))
        roots = self._line[job.id].roots
        # Of many, a few are named.
        return roots if named and named <= roots and len(named) >= min(3, len(roots)) else named

    def _judge_groups(self, jobs: dict[str, Job]) -> None:
        """Compare the counts of groups with their jobs, and who waits for them."""
        report = self._arena.report
        begun = Counter(Path(self._witness).read_text().splitlines())
        names = sorted({node.group for node in self._line.values()})
        for group in self._arena.queue.store.groups.named(names):
            members = [job for job in jobs.values() if job.group == group.name]
            told = Counter(job.state for job in members)
            found = (group.jobs, group.open, group.completed, group.dead, group.cancelled)
            open_ = told[State.BLOCKED]
            ended = (told[State.COMPLETED], told[State.DEAD], told[State.CANCELLED])
            report.expect(
                found == (len(members), open_, *ended), f"group {group.name} counts {found}"
            )
            report.expect(
                (group.over_at is not None) == (not open_), f"group {group.name} is over, or isn't"
            )
            waits = jobs[group.name]
            # It may have been over, and open again when something was mended.
            was_over = group.rounds > 0
            report.expect(
                (waits.state == State.COMPLETED) == was_over,
                f"what waits for group {group.name} is {waits.state} after {group.rounds} ends",
            )
            report.expect(
                begun[f"begin {group.name}"] <= 1 + sum(self._killed.values()),
                f"what waits for group {group.name} ran {begun[f'begin {group.name}']} times",
            )

    def _deaths(self, jobs: dict[str, Job]) -> list[str]:
        """Check that each job that is dead, and was not mended, says so once."""
        dead = {id: job for id, job in jobs.items() if job.state == State.DEAD}
        return none_dies_unheard(self._arena.queue, dead)
