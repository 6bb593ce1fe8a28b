"""How much of everything is measured: in full, quickly, or just enough to see that it works."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How many rounds, and how much in each of them."""

    name: str
    rounds: Mapping[str, int]
    """By the name of the measure."""
    patience: float
    """Seconds to wait, in all, for others on the same host to leave us the processors."""
    drain_jobs: int
    peer_jobs: int
    """What peers drain: some would take a minute for as many."""
    drain_workers: tuple[int, ...]
    duel_workers: tuple[int, ...]
    """From which the best is chosen."""
    xargs_workers: tuple[int, ...]
    drain_nodes: tuple[int, ...]
    probes: int
    """Jobs whose start is awaited, one after the other, in a round."""
    load_rate: float
    """Other jobs per second while a node is under load."""
    backlog_beside_probes: int
    task_jobs: int
    task_workers: tuple[int, ...]
    """From which the best is chosen."""
    task_setups: int
    """Setups of a peer that are tried at most."""
    samples: int
    """Tasks whose start is awaited, one after the other, in a round."""
    enqueue_single: int
    enqueue_bulk: int
    startup_runs: int
    backlogs: tuple[int, ...]
    """So many jobs wait, so many are finished, and so many are delayed."""
    backlog_jobs: int
    """Jobs that are drained from the front of such a backlog."""
    backlog_calls: int
    idle_workers: tuple[int, ...]
    idle_seconds: float
    claim_jobs: int
    claim_batches: tuple[int, ...]
    size_jobs: int
    month_jobs: int
    """Jobs of a queue whose dashboard is looked at."""
    views: int
    """Looks at each of its pages, in a round."""
    streams: int
    """Dashboards that are open at once."""
    changes: int
    """Jobs that are enqueued while they listen."""

    @property
    def warm_up_jobs(self) -> int:
        """Jobs of a drain that isn't counted, and shows how a peer is best set up."""
        return max(20, self.drain_jobs // 5)


FULL = Sizes(
    name="full",
    patience=1_800,
    rounds={
        "drain": 3,
        "duel": 21,
        "latency": 3,
        "tasks": 5,
        "warm": 3,
        "parts": 3,
        "enqueue": 5,
        "api": 5,
        "web": 5,
        "startup": 3,
        "backlog": 6,
        "idle": 2,
        "claims": 2,
        "size": 1,
    },
    drain_jobs=5_000,
    peer_jobs=2_000,
    drain_workers=(1, 2, 4, 8, 16),
    duel_workers=(16, 32),
    xargs_workers=(1, 2, 4, 8, 16),
    drain_nodes=(1, 2),
    probes=100,
    load_rate=50,
    backlog_beside_probes=30_000,
    task_jobs=10_000,
    task_workers=(1, 2, 4, 8),
    task_setups=9,
    samples=200,
    enqueue_single=1_000,
    enqueue_bulk=100_000,
    startup_runs=10,
    backlogs=(1_000, 10_000, 100_000, 1_000_000),
    backlog_jobs=3_000,
    backlog_calls=40,
    idle_workers=(4, 64, 256),
    idle_seconds=10,
    claim_jobs=2_000,
    claim_batches=(1, 4, 16),
    size_jobs=2_000,
    month_jobs=1_000_000,
    views=100,
    streams=1_000,
    changes=100,
)

QUICK = Sizes(
    name="quick",
    patience=15,
    rounds={
        "drain": 1,
        "duel": 7,
        "latency": 1,
        "tasks": 1,
        "warm": 1,
        "enqueue": 2,
        "startup": 2,
        "backlog": 1,
        "idle": 1,
        "claims": 2,
        "size": 1,
    },
    drain_jobs=1_500,
    peer_jobs=1_500,
    drain_workers=(1, 2, 4, 16),
    duel_workers=(4, 16),
    xargs_workers=(1, 2, 4, 16),
    drain_nodes=(1,),
    probes=40,
    load_rate=50,
    backlog_beside_probes=15_000,
    task_jobs=3_000,
    task_workers=(1, 2, 4),
    task_setups=9,
    samples=60,
    enqueue_single=500,
    enqueue_bulk=50_000,
    startup_runs=5,
    backlogs=(1_000, 50_000),
    backlog_jobs=1_500,
    backlog_calls=20,
    idle_workers=(4, 64, 256),
    idle_seconds=3,
    claim_jobs=500,
    claim_batches=(1, 4, 16),
    size_jobs=500,
    month_jobs=50_000,
    views=40,
    streams=200,
    changes=40,
)

TINY = Sizes(
    name="tiny",
    patience=0,
    rounds={},
    drain_jobs=60,
    peer_jobs=60,
    drain_workers=(4,),
    duel_workers=(4,),
    xargs_workers=(4,),
    drain_nodes=(1,),
    probes=5,
    load_rate=20,
    backlog_beside_probes=2_000,
    task_jobs=60,
    task_workers=(2,),
    task_setups=1,
    samples=5,
    enqueue_single=20,
    enqueue_bulk=500,
    startup_runs=1,
    backlogs=(50, 500),
    backlog_jobs=50,
    backlog_calls=3,
    idle_workers=(4,),
    idle_seconds=1,
    claim_jobs=32,
    claim_batches=(1, 16),
    size_jobs=50,
    month_jobs=100,
    views=3,
    streams=5,
    changes=3,
)

SIZES = {sizes.name: sizes for sizes in (FULL, QUICK, TINY)}
