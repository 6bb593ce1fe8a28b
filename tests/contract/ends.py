"""How jobs come to their ends, for the suites about those that wait for the ends of others."""

from collections.abc import Callable, Sequence
from threading import Thread

from queuectl.job import Job, Outcome
from queuectl.lifecycle import Policy
from queuectl.store import Store
from tests.contract.tools import HOUR, NOW, ended, finish, take_one, the

LATER = NOW + HOUR
GIVE_UP = Policy(max_retries=0, max_crashes=1)


def end(store: Store, id: str, outcome: Outcome | None = None, *, now: int = LATER) -> Job:
    """Claim the next job, which must have this id, and end its run."""
    job = take_one(store, now=now)
    assert job.id == id
    assert finish(store, [ended(job, outcome, now=now, policy=GIVE_UP)]) == []
    return the(store, id)


def finish_each(store: Store, jobs: Sequence[Job]) -> None:
    """End runs one after the other."""
    for job in jobs:
        assert finish(store, [ended(job, now=LATER)]) == []


def at_once(*does: Callable[[], object]) -> None:
    """Do several things at the same time, and wait for all of them."""
    threads = [Thread(target=do) for do in does]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
