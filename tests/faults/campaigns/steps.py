"""Nodes are killed while jobs of ten steps run: each step says in a ledger when it runs.

Half of them are shell scripts, half Python tasks. Some sleep in between, and wait for what
is emitted meanwhile.

A line before the command ends says that it runs; one after `queuectl step` says that it is done,
and what it printed: the run in which the command really ran.
"""

import shlex
import signal
import sys
import time
from collections import defaultdict
from pathlib import Path
from subprocess import Popen

from queuectl.job import State
from tests.faults.arena import Arena
from tests.faults.campaign import campaign

NODES, WORKERS, STEPS = 2, 3, 10
EMITTED = 0.05
"""How likely something is emitted in each look around."""
MODULE = "steps_app"
QUEUECTL = Path(sys.executable).with_name("queuectl")
SCRIPT = """\
set -e
ledger=$1
# What a worker says of it lacks the password.
export QUEUECTL_DB={url}
for n in {numbers}; do
    out=$({queuectl} step "s$n" -- sh -c '
        echo "ran $QUEUECTL_JOB_ID $0 $QUEUECTL_ATTEMPT" >>"$1"
        echo "$QUEUECTL_ATTEMPT"
    ' "s$n" "$ledger")
    echo "done $QUEUECTL_JOB_ID s$n $QUEUECTL_ATTEMPT $out" >>"$ledger"
    case $QUEUECTL_JOB_ID-$n in
        *[02468]-3) {queuectl} sleep 10ms ;;
        *[02468]-6) test "$({queuectl} await "go-$QUEUECTL_JOB_ID")" = "\\"$QUEUECTL_JOB_ID\\"" ;;
    esac
done
"""
APP = """\
from queuectl import Queue
from queuectl.tasks.current import current_job

queue = Queue({url!r})


def note(text: str) -> None:
    with open({ledger!r}, "a") as file:
        file.write(text + "\\n")


@queue.task(name="ten")
def ten() -> None:
    job = current_job()

    def work(name: str) -> int:
        note(f"ran {{job.id}} {{name}} {{job.attempt}}")
        return job.attempt

    for n in range({steps}):
        out = job.step(f"s{{n}}", work, f"s{{n}}")
        note(f"done {{job.id}} s{{n}} {{job.attempt}} {{out}}")
        if job.id[-1] in "02468" and n == 3:
            job.sleep("10ms")
        if job.id[-1] in "02468" and n == 6:
            assert job.wait_for(f"go-{{job.id}}") == job.id
"""


@campaign(
    row=24,
    about="nodes killed while jobs of ten steps run, each of which says so in a ledger",
    goal="no step that was done runs again, and none is skipped that wasn't; what a skipped one"
    " prints is what it wrote; one that lost its lease stores nothing",
    trials="kills",
    short={"jobs": 4, "kills": 3},
    long={"jobs": 200, "kills": 500},
)
def steps(arena: Arena, *, jobs: int, kills: int) -> None:
    """Kill nodes at random until all jobs have run, and compare the ledger with the store."""
    arena.queue.set_setting("lease", "10m")
    arena.queue.set_setting("max_crashes", 1000)
    script, ledger = arena.folder / "steps.sh", arena.folder / "steps.txt"
    numbers = " ".join(map(str, range(STEPS)))
    words = {"queuectl": shlex.quote(str(QUEUECTL)), "url": shlex.quote(arena.url)}
    script.write_text(SCRIPT.format(numbers=numbers, **words))
    app = APP.format(url=arena.url, ledger=str(ledger), steps=STEPS)
    (arena.folder / f"{MODULE}.py").write_text(app)
    ledger.touch()
    ids = [f"job-{n}" for n in range(jobs)]
    for n, id in enumerate(ids):
        if n % 4 < 2:
            arena.queue.enqueue(["sh", str(script), str(ledger)], id=id)
        else:
            arena.queue.push(id, "{}", type="ten")
    nodes = [_start(arena) for _ in range(NODES)]
    killed = 0
    waiting = ids[::2]
    while killed < kills and not arena.is_drained():
        done = sum(line.startswith("done") for line in ledger.read_text().splitlines())
        # Spread over the work that there is to do.
        if done * (kills + 1) >= jobs * STEPS * killed:
            time.sleep(arena.random.expovariate(5))
            place = arena.random.randrange(NODES)
            _kill(nodes[place])
            killed += 1
            nodes[place] = _start(arena)
        _emit(arena, waiting, some=True)
        time.sleep(0.02)
    _emit(arena, waiting, some=False)
    arena.wait_until_drained()
    broken, again = _compare(arena, ids, ledger)
    arena.report.note(jobs=jobs, kills=killed, steps=jobs * STEPS, begun_again=again)
    arena.report.broken += broken[:20]
    arena.stop_nodes()


def _start(arena: Arena) -> "Popen[bytes]":
    return arena.start_node("--app", f"{MODULE}:queue", count=WORKERS)


def _emit(arena: Arena, waiting: list[str], *, some: bool) -> None:
    """Emit what jobs wait for, or will: now and then one, or all that are left."""
    while waiting and (not some or arena.random.random() < EMITTED):
        id = waiting.pop(arena.random.randrange(len(waiting)))
        arena.queue.emit(f"go-{id}", id)


def _kill(node: "Popen[bytes]") -> None:
    node.send_signal(signal.SIGKILL)
    node.wait()


def _compare(arena: Arena, ids: list[str], ledger: Path) -> tuple[list[str], int]:
    """Return what was broken, and how many steps had to be begun again."""
    ran: dict[tuple[str, str], list[int]] = defaultdict(list)
    done: dict[tuple[str, str], int] = {}
    broken = []
    for line in ledger.read_text().splitlines():
        what, job, step, attempt, *out = line.split()
        key = job, step
        if what == "ran":
            if key in done:
                broken.append(f"{job} {step}: was done, and ran again in run {attempt}")
            ran[key].append(int(attempt))
        else:
            done.setdefault(key, int(attempt))
            if [*map(int, out)] != ran[key][-1:]:
                broken.append(f"{job} {step}: printed {out}, but ran in {ran[key]}")
    for id in ids:
        if (state := arena.queue.get(id).state) != State.COMPLETED:
            broken.append(f"{id} is {state}")
        kept = {s.name: s.number for s in arena.queue.steps(id) if s.name[1:].isdecimal()}
        said = {f"s{n}": (ran[id, f"s{n}"] or [0])[-1] for n in range(STEPS)}
        if kept != said:
            broken.append(f"{id}: the store has {kept}, the ledger {said}")
    return broken, sum(len(runs) - 1 for runs in ran.values() if runs)
