"""The table of all metrics: what each is called, what it means, and what tells its values apart."""

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """The type of a family, in Prometheus's words."""

    GAUGE = "gauge"
    COUNTER = "counter"
    HISTOGRAM = "histogram"
    SUMMARY = "summary"


@dataclass(frozen=True, slots=True)
class Family:
    """Metrics of one name: what they mean, and what tells them apart."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    help: str

    @property
    def series(self) -> tuple[str, ...]:
        """The names under which its values are found."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "sum", "count"))
        if self.kind is Kind.SUMMARY:
            return tuple(f"{self.name}_{part}" for part in ("sum", "count"))
        return (self.name,)


# -- of the queue -----------------------------------------------------------------------

JOBS = Family("queuectl_jobs", Kind.GAUGE, ("queue", "state"), "Jobs in the store.")
OLDEST = Family(
    "queuectl_oldest_ready_age_seconds",
    Kind.GAUGE,
    ("queue",),
    "How long the ready job has been due that waits for a worker for longest; 0 if none is ready.",
)
UNSERVED = Family(
    "queuectl_jobs_unserved",
    Kind.GAUGE,
    ("queue",),
    "Jobs that wait in a queue which no living node serves.",
)
PAUSED = Family(
    "queuectl_queue_paused", Kind.GAUGE, ("queue",), "Whether the queue is paused: 1, or 0."
)
RUNS = Family(
    "queuectl_runs_total",
    Kind.COUNTER,
    ("queue", "state"),
    "Runs that are over, by the state to which they brought their job.",
)
FAILURES = Family(
    "queuectl_failures_total",
    Kind.COUNTER,
    ("queue", "kind"),
    "Runs that failed or crashed, by how: exited, signalled, timed out, lost and so on.",
)
RUN_TIME = Family(
    "queuectl_run_duration_seconds",
    Kind.HISTOGRAM,
    ("queue",),
    "How long the runs took that are over, whatever became of them.",
)
WAIT_TIME = Family(
    "queuectl_wait_duration_seconds",
    Kind.HISTOGRAM,
    ("queue",),
    "How long their jobs had waited for a worker, from due to started.",
)
NODES = Family(
    "queuectl_nodes",
    Kind.GAUGE,
    ("state",),
    "Registered nodes: alive, stopping, or gone and not rescued yet.",
)
WORKERS = Family(
    "queuectl_workers", Kind.GAUGE, ("node", "host"), "Workers of each node that lives."
)
BUSY = Family(
    "queuectl_workers_busy", Kind.GAUGE, ("node", "host"), "Those of them that have jobs."
)
SCHEDULES = Family("queuectl_schedules", Kind.GAUGE, ("state",), "Schedules: active, or paused.")
LAG = Family(
    "queuectl_schedule_lag_seconds",
    Kind.GAUGE,
    (),
    "How late the most overdue tick of all schedules is; 0 if none is.",
)
LAST_TICK = Family(
    "queuectl_schedule_last_tick_timestamp_seconds",
    Kind.GAUGE,
    ("schedule",),
    "When the newest tick that made a job was planned.",
)
NEXT_TICK = Family(
    "queuectl_schedule_next_tick_timestamp_seconds",
    Kind.GAUGE,
    ("schedule",),
    "When the next tick comes; missing while it is paused, or waits for the job of a tick.",
)
DIED = Family(
    "queuectl_schedule_failures",
    Kind.GAUGE,
    ("schedule",),
    "Jobs of the schedule that died in a row, up to the newest.",
)
UP = Family("queuectl_database_up", Kind.GAUGE, (), "Whether the database could be read: 1, or 0.")
SIZE = Family(
    "queuectl_database_size_bytes",
    Kind.GAUGE,
    (),
    "How large the database is, looked at each minute.",
)
DATABASE = Family(
    "queuectl_database_info", Kind.GAUGE, ("engine", "schema"), "Which database it is: always 1."
)
BUILD = Family(
    "queuectl_build_info", Kind.GAUGE, ("version",), "The queuectl that tells all this: always 1."
)

# -- of the node that tells them ---------------------------------------------------------

NODE = Family(
    "queuectl_node_info", Kind.GAUGE, ("node", "host"), "The node that tells this: always 1."
)
NODE_WORKERS = Family("queuectl_node_workers", Kind.GAUGE, (), "Its workers.")
NODE_BUSY = Family("queuectl_node_workers_busy", Kind.GAUGE, (), "Those of them that have jobs.")
NODE_RUNS = Family(
    "queuectl_node_runs_total",
    Kind.COUNTER,
    ("outcome",),
    "Its runs that are over since it was started or restarted, by what they came to.",
)
NODE_CLAIMS = Family(
    "queuectl_node_claims_total", Kind.COUNTER, (), "Jobs that it claimed since then."
)
NODE_COMMITS = Family(
    "queuectl_node_commit_duration_seconds",
    Kind.SUMMARY,
    (),
    "How long its commits took, each of which ends runs and claims jobs.",
)
NODE_REFUSALS = Family(
    "queuectl_node_commit_failures_total",
    Kind.COUNTER,
    (),
    "Commits that the database refused, or whose answer was lost; they are tried again.",
)
NODE_LEASE = Family(
    "queuectl_node_lease_seconds", Kind.GAUGE, (), "How long it may go without renewing its lease."
)
NODE_LEASE_AGE = Family(
    "queuectl_node_lease_age_seconds", Kind.GAUGE, (), "How long ago it has renewed its lease."
)
NODE_GUARDS = Family(
    "queuectl_node_guards", Kind.GAUGE, (), "Processes that look after what it runs."
)
NODE_PROGRAMS = Family(
    "queuectl_node_warm_programs", Kind.GAUGE, (), "Programs that stay, and are handed jobs."
)

FAMILIES = tuple(found for found in tuple(globals().values()) if isinstance(found, Family))
"""All of them, in this order."""
