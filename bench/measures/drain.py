"""Shell jobs per second: how fast a backlog of `true` is run, each as `/bin/sh -c true`.

Ours: the nodes are up and the queue is paused when the jobs are stored. The time is that from
`resume` until the store says that the last job is completed, its record and output kept.

The limit: `xargs -P`, which runs the same command and keeps nothing. Its time is that of the
whole pipeline.

Peers get fewer jobs, as some would take a minute for as many, and the rate is the same. All are
enqueued before the workers start. The first tenth isn't counted, so that the start of the workers
isn't either; which favours them a little. Each runs in the setup that was quickest in the warm-up.
task-spooler keeps a process for every waiting job, so it gets 800 jobs at most, held back by a
first job that sleeps. It and GNU parallel keep nothing that outlives them.
"""

import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from itertools import zip_longest
from pathlib import Path

from bench.clients import Asked, broker_of, check_all, done_of, workers_of
from bench.figures import Reading
from bench.lab import Lab
from bench.peers.roster import PEERS, Peer, Setup
from bench.processes import BenchError, time_of, watch
from bench.subject import Measure, Subject
from queuectl import Queue, State

UNIT = "jobs/s"
MOST_SPOOLED = 800


def subjects(lab: Lab) -> list[Subject]:
    """Return ours on each store, the limit and the peers."""
    groups: list[list[Subject]] = [[Xargs(lab, workers) for workers in lab.sizes.xargs_workers]]
    for store in lab.stores:
        counts = [(workers, 1) for workers in lab.sizes.drain_workers]
        # With more nodes, one count of workers is enough: the same in all.
        counts += [(4, nodes) for nodes in lab.sizes.drain_nodes if nodes > 1]
        groups.append([Ours(lab, store, workers, nodes) for workers, nodes in counts])
    if lab.peers:
        groups.append([*(_Peer(lab, peer) for peer in PEERS), _Spooler(lab), _Parallel(lab)])
    # One of each in turns: what disturbs the machine for a minute disturbs all of them.
    return [one for each in zip_longest(*groups) for one in each if one is not None]


class Timed(Subject):
    """Drains so many jobs, and says how fast."""

    def __init__(self, lab: Lab, name: str, id: str) -> None:
        super().__init__(name)
        self.lab = lab
        self.id = id

    def warm_up(self) -> None:
        """Drain a few."""
        self.rate(self.lab.sizes.warm_up_jobs)

    def measure(self) -> Iterable[Reading]:
        """Drain all."""
        yield Reading(id=self.id, value=self.rate(self.jobs), unit=UNIT)

    @property
    def jobs(self) -> int:
        """How many that are."""
        return self.lab.sizes.drain_jobs

    def rate(self, jobs: int) -> float:
        """Drain jobs, and return how many a second."""
        raise NotImplementedError


class Ours(Timed):
    """Nodes of ours with so many workers in all."""

    def __init__(self, lab: Lab, store: str, workers: int, nodes: int) -> None:
        several = f", {nodes} nodes" if nodes > 1 else ""
        id = f"drain/{store}/{workers}" + (f"/{nodes} nodes" if nodes > 1 else "")
        crew = "1 worker" if workers == 1 else f"{workers} workers"
        super().__init__(lab, f"queuectl on {store}, {crew}{several}", id)
        self._store, self._workers, self._nodes = store, workers, nodes

    def rate(self, jobs: int) -> float:
        """Drain jobs from `resume` until the last is completed."""
        # The workers are shared out among the nodes: the machine doesn't grow with them.
        each = max(1, self._workers // self._nodes)
        with self.lab.queue(self._store) as queue, ExitStack() as stack:
            stack.enter_context(self.beside(queue))
            groups = [stack.enter_context(self.lab.node(queue, each)) for _ in range(self._nodes)]
            queue.pause("default")
            queue.enqueue_many(["true"] * jobs)
            os.sync()
            began = time.monotonic()
            queue.resume("default")
            watch(lambda: completed(queue), jobs, lambda: check_all(groups))
            return jobs / (time.monotonic() - began)

    def beside(self, queue: Queue) -> AbstractContextManager[None]:
        """Have what goes on beside it; mostly nothing."""
        return nullcontext()


def completed(queue: Queue) -> int:
    """Count the completed jobs."""
    return sum(count.jobs for count in queue.store.jobs.counts() if count.state == State.COMPLETED)


class Xargs(Timed):
    """The limit, with so many processes at a time."""

    def __init__(self, lab: Lab, workers: int) -> None:
        super().__init__(lab, f"xargs -P {workers}", f"drain/xargs/{workers}")
        self._workers = workers

    def rate(self, jobs: int) -> float:
        """Run as many commands."""
        line = f"seq {jobs} | xargs -P {self._workers} -n 1 /bin/sh -c true"
        return jobs / time_of(["/bin/sh", "-c", line], self.lab.environment())


class _AnyPeer(Timed):
    @property
    def jobs(self) -> int:
        return self.lab.sizes.peer_jobs


class _Parallel(_AnyPeer):
    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, "GNU parallel", "drain/peer/parallel")
        self._workers = 4

    def warm_up(self) -> None:
        rates = {}
        for self._workers in (2, 4, 8):
            rates[self._workers] = self.rate(self.lab.sizes.warm_up_jobs)
        self._workers = max(rates, key=lambda workers: rates[workers])

    def configured(self) -> str:
        return f"-j {self._workers}, with /bin/sh as its shell"

    def rate(self, jobs: int) -> float:
        program = _program("parallel")
        line = f"seq {jobs} | {program} --will-cite -j {self._workers} -n 0 true"
        env = self.lab.environment(PARALLEL_SHELL="/bin/sh", HOME=str(self.lab.folder))
        return jobs / time_of(["/bin/sh", "-c", line], env)


class _Spooler(_AnyPeer):
    def __init__(self, lab: Lab) -> None:
        super().__init__(lab, "task-spooler", "drain/peer/task-spooler")
        self._slots = 4

    def warm_up(self) -> None:
        rates = {}
        for self._slots in (2, 4, 8):
            rates[self._slots] = self.rate(min(200, self.lab.sizes.warm_up_jobs))
        self._slots = max(rates, key=lambda slots: rates[slots])

    def configured(self) -> str:
        return f"{self._slots} slots"

    def rate(self, jobs: int) -> float:
        jobs = min(jobs, MOST_SPOOLED)
        with self.lab.scratch() as folder, _Spool(folder) as spool:
            spool("sleep", "3600")
            for _ in range(jobs):
                spool("/bin/sh", "-c", "true")
            # It stamps the time when it is its turn, after all others.
            spool("/bin/sh", "-c", f"date +%s%N > {folder}/last")
            os.sync()
            began = time.time_ns()
            spool("-S", str(self._slots))
            spool("-k", "0")
            watch(lambda: int((folder / "last").exists()), 1)
            spool("-w")
            seconds = (int((folder / "last").read_text()) - began) / 1e9
            listed = [line.split() for line in spool("-l").splitlines()]
            finished = sum(line[1] == "finished" and line[-1] == "true" for line in listed)
            if finished != jobs:
                raise BenchError(f"it ran {finished} of {jobs} jobs")
            return jobs / seconds


class _Spool:
    """A task-spooler of our own, with one slot at first."""

    def __init__(self, folder: Path) -> None:
        self._env = {
            **os.environ,
            "TS_SOCKET": str(folder / "socket"),
            "TMPDIR": str(folder),
            "TS_SLOTS": "1",
        }
        self._program = _program("tsp")

    def __call__(self, *args: str) -> str:
        done = subprocess.run(
            [self._program, *args],
            env=self._env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if done.returncode and args[0] != "-K":
            raise BenchError(f"tsp {args[0]} failed: {done.stderr.strip()}")
        return done.stdout

    def __enter__(self) -> "_Spool":
        return self

    def __exit__(self, *_: object) -> None:
        self("-K")


class _Peer(_AnyPeer):
    def __init__(self, lab: Lab, peer: Peer) -> None:
        super().__init__(lab, peer.title, f"drain/peer/{peer.name}")
        self._peer = peer
        self._setup = peer.plain

    def warm_up(self) -> None:
        rates = {}
        for setup in self._peer.setups:
            self._setup = setup
            rates[setup.name] = (self.rate(self.lab.sizes.warm_up_jobs), setup)
        _, self._setup = max(rates.values(), key=lambda pair: pair[0])

    def configured(self) -> str:
        return self._setup.name

    def rate(self, jobs: int) -> float:
        return drain_peer(self.lab, self._peer, self._setup, jobs)


def drain_peer(lab: Lab, peer: Peer, setup: Setup, jobs: int) -> float:
    """Return how many jobs a second a peer runs, the first tenth not counted."""
    with broker_of(lab, peer) as broker:
        with Asked(lab, peer.app, broker) as enqueue:
            enqueue("many", command="true", times=jobs)
        os.sync()
        done = done_of(lab)
        with workers_of(lab, setup, broker) as groups:
            watch(done.count, jobs, lambda: check_all(groups))
        times = done.times()
    if len(times) != jobs:
        raise BenchError(f"it ran {len(times)} jobs, and {jobs} were asked for")
    skipped = jobs // 10
    return (jobs - 1 - skipped) / ((times[-1] - times[skipped]) / 1e9)


def _program(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise BenchError(f"there is no {name} here")
    return found


MEASURE = Measure(
    name="drain",
    title="Drain of shell jobs",
    about=__doc__ or "",
    subjects=subjects,
)
