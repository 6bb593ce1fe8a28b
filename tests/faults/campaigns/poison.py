"""A job that takes its worker down whenever it runs, in the middle of good ones."""

import time

from queuectl import State
from tests.faults import checker
from tests.faults.arena import Arena
from tests.faults.campaign import campaign

WORKERS = 4
NODES = 2
MAX_CRASHES = 3
POISONS = {
    "guard": "kill -9 $PPID",
    "node": "kill -9 $(cut -d' ' -f4 /proc/$PPID/stat)",
}
"""What each does: it kills who watches over it, or the whole node."""


@campaign(
    row=13,
    about="jobs that kill their guard or their node each time, among good ones",
    goal="dead after exactly max_crashes; the others unharmed",
    trials="good_jobs",
    short={"good": 60, "poisons": 1},
    long={"good": 1_000, "poisons": 4},
)
def poison(arena: Arena, *, good: int, poisons: int) -> None:
    """Run good jobs, some of them long, with poison of both kinds among them."""
    arena.queue.set_setting("max-crashes", MAX_CRASHES)
    places = sorted(arena.random.sample(range(good), poisons * len(POISONS)))
    kinds = list(POISONS) * poisons
    arena.random.shuffle(kinds)
    bad = {}
    for n in range(good):
        if places and places[0] == n:
            places.pop(0)
            kind = kinds.pop()
            bad[f"poison-{n}"] = kind
            # It lets its neighbours start before it strikes.
            arena.queue.enqueue(f"sleep 0.2; {POISONS[kind]}; sleep 60", id=f"poison-{n}")
        arena.enqueue(f"good-{n}", "sleep", str(round(arena.random.uniform(0, 0.4), 2)))
    nodes = [arena.start_node(count=WORKERS) for _ in range(NODES)]
    while not arena.is_drained():
        nodes = [node if node.poll() is None else arena.start_node(count=WORKERS) for node in nodes]
        time.sleep(0.02)
    judge(arena, good, bad)
    arena.stop_nodes()


def judge(arena: Arena, good: int, bad: dict[str, str]) -> None:
    """See that the bad are dead, and the good completed."""
    expect = arena.report.expect
    for id, kind in bad.items():
        job = arena.queue.get(id)
        expect(
            (job.state, job.crashes, job.attempts, job.failures)
            == (State.DEAD, MAX_CRASHES, MAX_CRASHES, 0),
            f"{id}, which kills its {kind}, is {job.state} with {job.crashes} crashes in"
            f" {job.attempts} runs: {job.reason}",
        )
    dead = {id: arena.queue.get(id) for id in bad}
    arena.report.broken += checker.none_dies_unheard(arena.queue, dead)
    harmed = charged = again = 0
    runs = arena.ledger.runs()
    for n in range(good):
        job = arena.queue.get(f"good-{n}")
        ends = [run for run in runs.get(job.id, ()) if run.ended is not None]
        if job.state != State.COMPLETED or job.failures or not ends:
            harmed += 1
        charged += bool(job.crashes)
        again += job.attempts - 1
    expect(harmed == 0, f"{harmed} good jobs were harmed")
    expect(not any(run.overlapped for all_ in runs.values() for run in all_), "runs overlapped")
    arena.report.note(
        good_jobs=good, poison_jobs=len(bad), good_jobs_run_again=again, with_a_crash=charged
    )
