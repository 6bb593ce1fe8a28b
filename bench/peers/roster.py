"""Who the peers are, and the ways in which each may be set up.

Nothing is switched off that a peer has on by default, and nothing is traded away: what is varied
is the number of processes and threads. The warm-up of the drain tries every setup of a peer, and
the quickest is the one that is measured.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

from bench.lab import POSTGRESQL, Lab


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A way to run the workers of a peer."""

    name: str
    commands: tuple[tuple[str, ...], ...]
    """Each is a program in the bench environment, with its arguments."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A queue in Python that could be used instead."""

    name: str
    title: str
    app: str
    """The module that enqueues, and holds the task."""
    broker: Callable[[Lab], AbstractContextManager[str]]
    setups: tuple[Setup, ...]
    plain: Setup
    """With four workers: for latency, and for what it takes when idle."""
    quick: tuple[Setup, ...] = ()
    """From which the best is chosen for tasks that do nothing."""
    apart: str = ""
    """The folder that its packages have for themselves, if they don't bear with the others."""
    prepare: tuple[str, ...] = ()
    """A command that makes the broker ready."""
    note: str = ""


@contextmanager
def redis(lab: Lab) -> Iterator[str]:
    """Lend an empty Redis."""
    yield lab.redis().url


@contextmanager
def postgres(lab: Lab) -> Iterator[str]:
    """Lend an empty database."""
    with lab.place(POSTGRESQL) as url:
        yield url


@contextmanager
def file(lab: Lab) -> Iterator[str]:
    """Lend the name of a file."""
    with lab.scratch() as folder:
        yield str(folder / "queue.db")


def _huey(app: str, kind: str, workers: int) -> Setup:
    command = ("huey_consumer", f"bench.peers.{app}.huey", "-k", kind, "-w", str(workers))
    return Setup(name=f"{workers} workers, -k {kind}", commands=(command,))


def _rq(workers: int, kind: str = "") -> Setup:
    options = ("-w", f"rq.worker.{kind}") if kind else ()
    command = ("rq", "worker-pool", "default", "-n", str(workers), "-u", "{broker}", *options)
    return Setup(name=f"worker-pool -n {workers}{f' -w {kind}' * bool(kind)}", commands=(command,))


def _dramatiq(processes: int, threads: int) -> Setup:
    command = ("dramatiq", "bench.peers.dramatiq_app", "-p", str(processes), "-t", str(threads))
    return Setup(name=f"-p {processes} -t {threads}", commands=(command,))


def _celery(pool: str, workers: int) -> Setup:
    command = ("celery", "-A", "bench.peers.celery_app", "worker", "-P", pool, "-c", str(workers))
    return Setup(name=f"-P {pool} -c {workers}, prefetch 4", commands=(command,))


def _procrastinate(processes: int, concurrency: int) -> Setup:
    app = "--app=bench.peers.procrastinate_app.app"
    command = ("procrastinate", app, "worker", "-c", str(concurrency))
    return Setup(name=f"{processes} x worker -c {concurrency}", commands=(command,) * processes)


def _saq(processes: int, concurrency: int) -> Setup:
    settings = "settings" if concurrency == 10 else f"settings_{concurrency}"
    command = ("saq", f"bench.peers.saq_app.{settings}", "--workers", str(processes))
    return Setup(name=f"--workers {processes}, concurrency {concurrency}", commands=(command,))


def _taskiq(processes: int) -> Setup:
    command = ("taskiq", "worker", "bench.peers.taskiq_app:broker", "-w", str(processes))
    return Setup(name=f"worker -w {processes}", commands=(command,))


def _arq(processes: int, jobs: int) -> Setup:
    settings = "WorkerSettings" if jobs == 10 else f"Settings{jobs}"
    command = ("arq", f"bench.peers.arq_app.{settings}")
    return Setup(name=f"{processes} x arq, max_jobs {jobs}", commands=(command,) * processes)


def _flexiq(workers: str, pool: str) -> Setup:
    command = ("flexiq", "worker", "--app", f"bench.peers.flexiq_app:{workers}", "--pool", pool)
    return Setup(name=f"{workers} workers, --pool {pool}", commands=(command,))


def _hueys(app: str, *setups: tuple[str, int]) -> tuple[Setup, ...]:
    return tuple(_huey(app, kind, workers) for kind, workers in setups)


_HUEYS = (("process", 2), ("process", 4), ("thread", 4), ("thread", 16))
_QUICK_HUEYS = (("process", 1), ("process", 2), ("process", 4), ("thread", 1), ("thread", 4))

PEERS = (
    Peer(
        name="huey-sqlite",
        title="huey (SQLite)",
        app="huey_sqlite_app",
        broker=file,
        setups=_hueys("huey_sqlite_app", *_HUEYS),
        plain=_huey("huey_sqlite_app", "process", 4),
        quick=_hueys("huey_sqlite_app", *_QUICK_HUEYS),
        note="Polls, every 0.1 s at first. No output kept, no fence.",
    ),
    Peer(
        name="huey-redis",
        title="huey (Redis)",
        app="huey_redis_app",
        broker=redis,
        setups=_hueys("huey_redis_app", *_HUEYS),
        plain=_huey("huey_redis_app", "process", 4),
        quick=_hueys("huey_redis_app", *_QUICK_HUEYS),
        note="A job that is running when its worker dies is lost.",
    ),
    Peer(
        name="rq",
        title="RQ",
        app="rq_app",
        broker=redis,
        setups=(_rq(2), _rq(4), _rq(8)),
        plain=_rq(4),
        quick=(
            _rq(2),
            _rq(4),
            _rq(1, "SimpleWorker"),
            _rq(2, "SimpleWorker"),
            _rq(4, "SimpleWorker"),
        ),
        note="Forks for every job, unless it is told to use its SimpleWorker.",
    ),
    Peer(
        name="dramatiq",
        title="dramatiq",
        app="dramatiq_app",
        broker=redis,
        setups=(_dramatiq(2, 1), _dramatiq(2, 2), _dramatiq(4, 1), _dramatiq(2, 8)),
        plain=_dramatiq(2, 2),
        quick=(_dramatiq(1, 1), _dramatiq(1, 8), _dramatiq(2, 1), _dramatiq(2, 8), _dramatiq(4, 1)),
        note="Prefetch as it comes: twice the number of threads.",
    ),
    Peer(
        name="celery",
        title="Celery",
        app="celery_app",
        broker=redis,
        setups=(
            _celery("prefork", 2),
            _celery("prefork", 4),
            _celery("prefork", 8),
            _celery("threads", 4),
        ),
        plain=_celery("prefork", 4),
        quick=(
            _celery("prefork", 1),
            _celery("prefork", 2),
            _celery("prefork", 4),
            _celery("threads", 1),
            _celery("threads", 4),
        ),
        note="Acknowledges before it runs a job, as it comes: a job in a dying worker is lost.",
    ),
    Peer(
        name="procrastinate",
        title="Procrastinate",
        app="procrastinate_app",
        broker=postgres,
        setups=(_procrastinate(1, 4), _procrastinate(2, 2), _procrastinate(2, 8)),
        plain=_procrastinate(1, 4),
        quick=(
            _procrastinate(1, 1),
            _procrastinate(1, 4),
            _procrastinate(2, 4),
            _procrastinate(2, 8),
            _procrastinate(4, 4),
        ),
        prepare=("procrastinate", "--app=bench.peers.procrastinate_app.app", "schema", "--apply"),
        note="The only one here that is as durable, on a PostgreSQL with fsync.",
    ),
)
"""Those that run commands, as well as tasks that do nothing."""

TASK_PEERS = (
    *PEERS,
    Peer(
        name="saq",
        title="SAQ",
        app="saq_app",
        apart="saq",
        broker=redis,
        setups=(),
        plain=_saq(1, 10),
        quick=(_saq(1, 10), _saq(1, 100), _saq(2, 10), _saq(2, 100), _saq(4, 10)),
    ),
    Peer(
        name="taskiq",
        title="taskiq",
        app="taskiq_app",
        apart="taskiq",
        broker=redis,
        setups=(),
        plain=_taskiq(2),
        quick=(_taskiq(1), _taskiq(2), _taskiq(4)),
        note="With a list as its queue: a task in a dying worker is lost.",
    ),
    Peer(
        name="arq",
        title="arq",
        app="arq_app",
        apart="arq",
        broker=redis,
        setups=(),
        plain=_arq(1, 10),
        quick=(_arq(1, 10), _arq(1, 100), _arq(2, 10), _arq(2, 100), _arq(4, 10)),
        note="Looks every half second, as it comes.",
    ),
    Peer(
        name="flexiq",
        title="FlexiQ (SQLite)",
        app="flexiq_app",
        broker=file,
        setups=(),
        plain=_flexiq("four", "thread"),
        quick=(
            _flexiq("one", "thread"),
            _flexiq("two", "thread"),
            _flexiq("four", "thread"),
        ),
        note="Looks every 0.05 s, as it comes. Its pool of processes ran nothing here.",
    ),
)
"""Those that run tasks that do nothing; some of them are for coroutines only."""
