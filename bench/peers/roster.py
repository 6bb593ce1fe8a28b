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


def _rq(workers: int) -> Setup:
    command = ("rq", "worker-pool", "default", "-n", str(workers), "-u", "{broker}")
    return Setup(name=f"worker-pool -n {workers}", commands=(command,))


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


PEERS = (
    Peer(
        name="huey-sqlite",
        title="huey (SQLite)",
        app="huey_sqlite_app",
        broker=file,
        setups=tuple(
            _huey("huey_sqlite_app", kind, workers)
            for kind, workers in (("process", 2), ("process", 4), ("thread", 4), ("thread", 16))
        ),
        plain=_huey("huey_sqlite_app", "process", 4),
        note="Polls, every 0.1 s at first. No output kept, no fence.",
    ),
    Peer(
        name="huey-redis",
        title="huey (Redis)",
        app="huey_redis_app",
        broker=redis,
        setups=tuple(
            _huey("huey_redis_app", kind, workers)
            for kind, workers in (("process", 2), ("process", 4), ("thread", 4), ("thread", 16))
        ),
        plain=_huey("huey_redis_app", "process", 4),
        note="A job that is running when its worker dies is lost.",
    ),
    Peer(
        name="rq",
        title="RQ",
        app="rq_app",
        broker=redis,
        setups=(_rq(2), _rq(4), _rq(8)),
        plain=_rq(4),
        note="Forks for every job.",
    ),
    Peer(
        name="dramatiq",
        title="dramatiq",
        app="dramatiq_app",
        broker=redis,
        setups=(_dramatiq(2, 1), _dramatiq(2, 2), _dramatiq(4, 1), _dramatiq(2, 8)),
        plain=_dramatiq(2, 2),
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
        note="Acknowledges before it runs a job, as it comes: a job in a dying worker is lost.",
    ),
    Peer(
        name="procrastinate",
        title="Procrastinate",
        app="procrastinate_app",
        broker=postgres,
        setups=(_procrastinate(1, 4), _procrastinate(2, 2), _procrastinate(2, 8)),
        plain=_procrastinate(1, 4),
        prepare=("procrastinate", "--app=bench.peers.procrastinate_app.app", "schema", "--apply"),
        note="The only one here that is as durable, on a PostgreSQL with fsync.",
    ),
)
