"""What a queue looks like to a reader: jobs and attempts as plain dicts, status and statistics.

The table on the terminal and `--json` are made from the same dicts. Only ever extend them.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import heappush, heappushpop
from operator import attrgetter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from queuectl.admission import Serving
from queuectl.changes import Changed, Refused
from queuectl.facts import (
    Count,
    Event,
    Group,
    Node,
    Pause,
    QueueInfo,
    Rollup,
    RunProgress,
    Sleep,
    Step,
    count_unhandled,
    count_unserved,
    undo_until,
)
from queuectl.fields import REQUESTED
from queuectl.job import FINISHED, Attempt, Job, State
from queuectl.job_json import KINDS
from queuectl.job_json import job_dict as job_dict
from queuectl.job_json import moment as moment
from queuectl.job_json import seconds as seconds
from queuectl.parameters import legible
from queuectl.resources import WHOLE, Stock, as_number, room_of, told_amount
from queuectl.store.histogram import bucket_of, quantile
from queuectl.store.rollups import EVER, WAIT, Tally
from queuectl.values import dataclass, fields

if TYPE_CHECKING:
    from queuectl.access import Grant
    from queuectl.limits import Limits
    from queuectl.lineage import Along, Graph, Relative, Root
    from queuectl.store.health import Finding


def change_dict(result: Changed | Refused) -> dict[str, Any]:
    """Describe what became of a job that was to be changed by hand."""
    match result:
        case Changed(before=before, after=after):
            return _change_dict(before.id, before, after, None)
        case Refused(name=name, job=job, error=error):
            return _change_dict(name if job is None else job.id, job, job, str(error))


def _change_dict(
    id: str, before: Job | None, after: Job | None, error: str | None
) -> dict[str, Any]:
    running = after is not None and after.state == State.PROCESSING
    return {
        "id": id,
        "queue": None if before is None else before.queue,
        "command": None if before is None else before.title,
        "was": None if before is None else before.state.value,
        "state": None if after is None else after.state.value,
        "node": after.node if after is not None and running else None,
        "error": error,
        "changes": {} if before is None or after is None else _changes(before, after),
    }


def _changes(before: Job, after: Job) -> dict[str, Any]:
    """Return which fields that can be asked for were changed, with what they were and are."""
    if _asked(before) == _asked(after):
        return {}
    was, now = job_dict(before), job_dict(after)
    return {name: {"was": was[name], "is": now[name]} for name in _ASKED if was[name] != now[name]}


LONGEST_TITLE = 200
"""Letters of what a job runs, where it is told of another one."""
_ASKED = tuple({field.column: None for field in REQUESTED if field.column in KINDS})
_asked = attrgetter(*_ASKED)


def why_ended(job: Job) -> str:
    """Say why a job is dead or cancelled, with the last line of its stderr where there is one."""
    reason, error = job.reason or "", job.error or ""
    # The last part is why it was given up. What its run came to may have several, too.
    how, _, rest = reason.rpartition("; ")
    if how and error.startswith(how):
        return f"{error}; {rest}"
    if reason.startswith(error):
        return reason
    return ": ".join(part for part in (reason, error) if part)


def step_dict(step: Step) -> dict[str, Any]:
    """Describe a step that is done."""
    return {
        "name": step.name,
        "attempt": step.number,
        "done_at": moment(step.at),
        "output": step.output.decode("utf-8", "replace"),
    }


def sleep_dict(sleep: Sleep | None) -> dict[str, Any] | None:
    """Describe what a job sleeps for."""
    if sleep is None:
        return None
    return {
        "step": sleep.step,
        "awaits": sleep.awaits,
        "until": moment(sleep.until),
        "since": moment(sleep.at),
    }


def progress_dict(progress: RunProgress | None) -> dict[str, Any] | None:
    """Describe how far a run has come."""
    if progress is None:
        return None
    return {"percent": progress.percent, "note": progress.note, "at": moment(progress.at)}


def relative_dict(relative: "Relative") -> dict[str, Any]:
    """Describe a job, or a group, that another waits for, or that waits for it."""
    job = relative.job
    return {
        "id": relative.id,
        "group": relative.is_group,
        "wanted": relative.wanted,
        "state": None if relative.state is None else relative.state.value,
        "came_to": None if relative.came_to is None else relative.came_to.value,
        "met": relative.is_met,
        "command": None if job is None else job.title[:LONGEST_TITLE],
        "queue": None if job is None else job.queue,
    }


def root_dict(root: "Root") -> dict[str, Any]:
    """Describe what keeps jobs from running: a job, or a group."""
    return {
        "id": root.id,
        "group": root.is_group,
        "state": None if root.state is None else root.state.value,
        "stuck": root.is_stuck,
        "reason": None if root.job is None else root.job.reason or root.job.error,
        "child": root.child,
    }


def group_dict(group: Group, now: int | None = None, *, is_stuck: bool = False) -> dict[str, Any]:
    """Describe a group; if it is told what time it is, also how long the rest may take.

    Nobody knows that of one that is stuck, of which all that is left waits in vain.
    """
    told = {
        "name": group.name,
        "state": "open" if group.over_at is None else group.came_to.value,
        "jobs": group.jobs,
        "done": group.done,
        "open": group.open,
        "completed": group.completed,
        "dead": group.dead,
        "cancelled": group.cancelled,
        "not_needed": group.unneeded,
        "max_fails": group.max_fails,
        "stopped": group.stopped_at is not None,
        "stopped_at": moment(group.stopped_at),
        "made_at": moment(group.made_at),
        "over_at": moment(group.over_at),
        "rounds": group.rounds,
    }
    if now is None:
        return told
    return told | {"left": None if is_stuck else seconds(group.left(now)), "stuck": is_stuck}


def parameters_dict(job: Job) -> dict[str, str | int]:
    """Describe what a job has to itself; bytes that are no text are escapes."""
    own = job.parameters
    return {name: it if isinstance(it, int) else legible(it) for name, it in own.items()}


def graph_dict(graph: "Graph") -> dict[str, Any]:
    """Describe a job with those around it, and what of that waits in vain."""
    from queuectl.lineage import blockage

    found = blockage(graph)
    return {
        "id": graph.id,
        "jobs": [
            {
                "id": node.id,
                "group": node.is_group,
                "state": None if node.state is None else node.state.value,
                "command": node.title,
                "queue": node.queue,
                "reason": node.reason,
                "root_cause": node.id in found.roots,
            }
            for node in graph.nodes
        ],
        "edges": [
            {
                "parent": link.parent,
                "child": link.child,
                "wanted": link.wanted,
                "came_to": None if link.came_to is None else link.came_to.value,
                "met": link.is_met,
                "in_vain": (link.parent, link.child) in found.links,
            }
            for link in graph.links
        ],
        "whole": graph.is_whole,
    }


def along_dict(along: "Along") -> dict[str, Any]:
    """Describe which jobs others take along when they are cancelled, or removed."""
    return {"jobs": len(along.ids), "ids": list(along.ids), "whole": along.is_whole}


def attempt_dict(attempt: Attempt) -> dict[str, Any]:
    """Describe one run that is over."""
    return {
        "number": attempt.number,
        "node": attempt.node,
        "host": attempt.host,
        "worker": attempt.worker,
        "started_at": moment(attempt.started_at),
        "finished_at": moment(attempt.finished_at),
        "duration_ms": attempt.duration_ms,
        "outcome": attempt.outcome,
        "exit_code": attempt.exit_code,
        "signal": attempt.signal,
        "error": attempt.error,
        "stdout_bytes": attempt.stdout_bytes,
        "stderr_bytes": attempt.stderr_bytes,
        "peak_memory": attempt.peak_memory,
        "cpu_ms": attempt.cpu_ms,
        "read_bytes": attempt.read_bytes,
        "written_bytes": attempt.written_bytes,
        "noted": attempt.noted,
    }


def event_dict(event: Event) -> dict[str, Any]:
    """Describe something done by hand, a rescue or a death."""
    return {
        "seq": event.seq,
        "at": moment(event.at),
        "kind": event.kind,
        "job": event.job,
        "node": event.node,
        "who": event.who,
        "detail": event.detail,
        "action": event.action,
        "undo_until": moment(undo_until(event)),
    }


def grant_dict(grant: "Grant", now: int) -> dict[str, Any]:
    """Describe a token or a session; of its secret nothing is there."""
    return {
        "id": grant.id,
        "name": grant.name,
        "kind": grant.kind.value,
        "roles": [role.value for role in grant.roles],
        "queues": list(grant.queues),
        "created_at": moment(grant.created_at),
        "created_by": grant.created_by,
        "expires_at": moment(grant.expires_at),
        "expired": grant.is_over(now),
        "used_at": moment(grant.used_at),
    }


def node_dict(
    node: Node, *, alive: bool, running: int, stock: Stock | None = None
) -> dict[str, Any]:
    """Describe a node and how busy it is."""
    return {
        "id": node.id,
        "host": node.host,
        "pid": node.pid,
        "workers": node.workers,
        "running": running,
        "queues": list(node.queues.names),
        "excluded": list(node.queues.excluded),
        "weights": dict(zip(node.queues.names, node.queues.weights, strict=False)),
        "in_order": node.queues.in_order,
        "handlers": list(node.queues.handlers),
        "labels": list(node.queues.labels),
        "resources": resources_dict(stock or Stock(node.queues.resources)),
        "alive": alive,
        "stopping": None if node.stop is None else node.stop.value,
        "version": node.version,
        "started_at": moment(node.started_at),
        "seen_at": moment(node.seen_at),
    }


def resources_dict(stock: Stock) -> dict[str, dict[str, Any]]:
    """Describe what a node has of each resource, and how much of it is in use and free."""
    total, left = room_of(stock.resources), stock.room()
    free = left.totals()
    found: dict[str, dict[str, Any]] = {}
    for name, many in total.totals().items():
        found[name] = {
            "total": as_number(many),
            "used": as_number(many - free[name]),
            "free": as_number(free[name]),
        }
        if name in total.devices:
            found[name]["devices"] = {
                str(at): as_number(much) for at, much in left.devices[name].items()
            }
    return found


def used_text(node: dict[str, Any]) -> str:
    """Say how much of each resource of a described node is in use: `cpu 2/8, mem 4G/32G`."""
    return ", ".join(
        f"{name} {_amount(name, one['used'])}/{_amount(name, one['total'])}"
        for name, one in node.get("resources", {}).items()
    )


def _amount(name: str, many: float) -> str:
    return told_amount(name, round(many * WHOLE))


def serving_of(node: dict[str, Any]) -> Serving:
    """Return which queues a node serves that was described."""
    weights = tuple(node["weights"].values())
    handlers = tuple(node["handlers"])
    names, excluded = tuple(node["queues"]), tuple(node["excluded"])
    has = ",".join(
        f"{name}=[{','.join(one['devices'])}]" if "devices" in one else f"{name}={one['total']}"
        for name, one in node.get("resources", {}).items()
    )
    labels = tuple(node.get("labels", ()))
    return Serving(
        names, excluded, weights, node["in_order"], handlers, resources=has, labels=labels
    )


def limits_dict(limits: "Limits") -> dict[str, Any]:
    """Describe what a queue allows; what isn't set is null or empty."""
    said = limits.as_dict()
    nothing: dict[str, Any] = {"rates": [], "key_limits": {}, "key_rates": [], "weights": {}}
    nothing["defaults"] = {}
    return {f.name: said.get(f.name, nothing.get(f.name)) for f in fields(limits)}


def finding_dict(finding: "Finding") -> dict[str, Any]:
    """Describe what a checkup has found."""
    return {
        "level": finding.level.value,
        "subject": finding.subject,
        "text": finding.text,
        "advice": finding.advice or None,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """The queue at a glance."""

    url: str
    states: dict[State, int]
    queues: dict[str, dict[State, int]]
    paused: tuple[str, ...]
    nodes: tuple[dict[str, Any], ...]
    next_due: int | None
    unserved: dict[str, int]
    """How many jobs wait, by queue, where no node serves it: they can't run as things are."""
    paused_jobs: tuple[tuple[Job, Pause], ...] = ()
    """Those that run, but stand still."""
    held: Mapping[str, int] = MappingProxyType({})
    """How many jobs are held by hand, by queue."""
    unhandled: Mapping[str, int] = MappingProxyType({})
    """How many jobs are ready, by handler, that no node has: they can't run as things are. Of very
    many, some are counted."""
    handlers: tuple[str, ...] = ()
    """What nodes must have for jobs that are ready, where they need something."""

    @property
    def total(self) -> int:
        """All jobs in the store."""
        return sum(self.states.values())

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`."""
        return {
            "database": self.url,
            "total": self.total,
            "states": {state.value: count for state, count in self.states.items()},
            "queues": [
                {
                    "name": name,
                    "paused": name in self.paused,
                    "states": {state.value: count for state, count in states.items()},
                }
                for name, states in self.queues.items()
            ],
            "nodes": list(self.nodes),
            "workers": sum(node["workers"] for node in self.nodes if node["alive"]),
            "next_due": moment(self.next_due),
            "unserved": self.unserved,
            "paused_jobs": [
                {"id": job.id, "paused_at": moment(pause.at), "paused_by": pause.who}
                for job, pause in self.paused_jobs
            ],
            "held": dict(self.held),
            "unhandled": dict(self.unhandled),
        }


def build_status(
    url: str,
    counts: Iterable[Count],
    queues: Iterable[QueueInfo],
    nodes: Iterable[dict[str, Any]],
    next_due: int | None,
    paused_jobs: Iterable[tuple[Job, Pause]] = (),
    held: Mapping[str, int] = MappingProxyType({}),
    lines: Mapping[tuple[str, str], int] = MappingProxyType({}),
) -> Status:
    """Add counters up by state and by queue; every state is there, also with zero jobs."""
    counts, nodes = list(counts), tuple(nodes)
    serving = [serving_of(n) for n in nodes if n["alive"] and not n["stopping"]]
    totals = dict.fromkeys(State, 0)
    per_queue: dict[str, dict[State, int]] = defaultdict(lambda: dict.fromkeys(State, 0))
    for count in counts:
        totals[count.state] += count.jobs
        per_queue[count.queue][count.state] += count.jobs
    paused = tuple(sorted(queue.name for queue in queues if queue.paused_at is not None))
    for name in paused:
        per_queue[name] = per_queue[name]
    return Status(
        url=url,
        states=totals,
        queues={
            name: states
            for name, states in sorted(per_queue.items())
            if name in paused or any(states.values())
        },
        paused=paused,
        nodes=nodes,
        next_due=next_due,
        held=held,
        unserved=count_unserved(counts, serving),
        unhandled=count_unhandled(lines, serving),
        handlers=tuple(sorted({handler for _, handler in lines})),
        paused_jobs=tuple(paused_jobs),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations:
    """How long something took, over many times. Quantiles are within 1 %."""

    count: int
    average: float | None
    median: float | None
    p95: float | None
    p99: float | None
    least: int | None
    most: int | None

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`, in milliseconds."""
        return {
            "count": self.count,
            "average_ms": None if self.average is None else round(self.average, 2),
            "median_ms": _rounded(self.median),
            "p95_ms": _rounded(self.p95),
            "p99_ms": _rounded(self.p99),
            "min_ms": self.least,
            "max_ms": self.most,
        }


def _rounded(ms: float | None) -> float | int | None:
    if ms is None:
        return None
    return int(ms) if float(ms).is_integer() else round(ms, 2)


def durations(rollups: Sequence[Rollup]) -> Durations:
    """Sum rollups of one kind up."""
    count = sum(row.count for row in rollups)
    if not count:
        return Durations(
            count=0, average=None, median=None, p95=None, p99=None, least=None, most=None
        )
    least = min(row.least_ms for row in rollups)
    most = max(row.most_ms for row in rollups)
    buckets = [(row.bucket, row.count) for row in rollups]

    def at(share: float) -> float:
        value = quantile(buckets, share)
        assert value is not None
        return min(max(value, least), most)

    return Durations(
        count=count,
        average=sum(row.total_ms for row in rollups) / count,
        median=at(0.5),
        p95=at(0.95),
        p99=at(0.99),
        least=least,
        most=most,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What some runs have used of one thing."""

    count: int
    """How many runs; of others it isn't known."""
    median: int | None = None
    p95: int | None = None
    most: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`."""
        return {"count": self.count, "median": self.median, "p95": self.p95, "max": self.most}


def spread(amounts: Iterable[int | None]) -> Spread:
    """Describe how some amounts are spread; those that aren't known are left out."""
    known = sorted(amount for amount in amounts if amount is not None)
    if not known:
        return Spread(count=0)

    def at(share: float) -> int:
        return known[min(len(known) - 1, int(share * len(known)))]

    return Spread(count=len(known), median=at(0.5), p95=at(0.95), most=known[-1])


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """Totals of the jobs in the store, and times of their runs.

    Times come from the rollups, which survive pruning, or (`build_stats_of`) from the jobs.
    """

    states: dict[State, int]
    run: Durations
    """Runs that completed their job."""
    wait: Durations
    """From due to started."""
    runs: dict[str, int]
    """All runs ever, by what became of the job: completed, failed, dead, cancelled ..."""
    slowest: tuple[Job, ...]
    priorities: dict[int, int]
    timed: int
    memory: Spread = Spread(count=0)
    """Bytes of memory that the newest runs had at most."""
    cpu: Spread = Spread(count=0)
    """Milliseconds of CPU time that they used."""

    @property
    def total(self) -> int:
        """All jobs in the store."""
        return sum(self.states.values())

    @property
    def success_rate(self) -> float | None:
        """Completed jobs in percent of those that completed or died; None if there are none.

        What still waits, runs or is retried may yet do either, and to cancel isn't to fail.
        """
        completed = self.states[State.COMPLETED]
        ended = completed + self.states[State.DEAD]
        return 100 * completed / ended if ended else None

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`."""
        rate = self.success_rate
        return {
            "total": self.total,
            "states": {state.value: count for state, count in self.states.items()},
            "success_rate": None if rate is None else round(rate, 2),
            "run_time": self.run.as_dict(),
            "wait_time": self.wait.as_dict(),
            "runs": self.runs,
            "slowest": [
                {"id": job.id, "command": job.title, "duration_ms": job.duration_ms}
                for job in self.slowest
            ],
            "priorities": [
                {"priority": priority, "jobs": jobs} for priority, jobs in self.priorities.items()
            ],
            "with_timeout": self.timed,
            "peak_memory": self.memory.as_dict(),
            "cpu_ms": self.cpu.as_dict(),
        }


def build_stats(
    counts: Iterable[Count], rollups: Sequence[Rollup], slowest: Sequence[Job]
) -> Stats:
    """Add counters and rollups up."""
    states = dict.fromkeys(State, 0)
    priorities: dict[int, int] = defaultdict(int)
    timed = 0
    for count in counts:
        states[count.state] += count.jobs
        priorities[count.priority] += count.jobs
        timed += count.timed
    measures: dict[str, list[Rollup]] = defaultdict(list)
    for row in rollups:
        measures[row.measure].append(row)
    runs = {
        measure: sum(row.count for row in rows)
        for measure, rows in sorted(measures.items())
        if measure != "wait"
    }
    return Stats(
        states=states,
        run=durations(measures["completed"]),
        wait=durations(measures["wait"]),
        runs=runs,
        slowest=tuple(slowest),
        priorities={p: priorities[p] for p in sorted(priorities, reverse=True) if priorities[p]},
        timed=timed,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What ended in a part of time, and how long that took."""

    at: int
    """When it begins."""
    run: Durations
    """Runs that completed their job."""
    wait: Durations
    """From due to started."""
    runs: dict[str, int]
    """All runs, by what became of the job: completed, failed, dead, cancelled ..."""

    def as_dict(self) -> dict[str, Any]:
        """Describe it for JSON."""
        return {
            "at": moment(self.at),
            "run_time": self.run.as_dict(),
            "wait_time": self.wait.as_dict(),
            "runs": self.runs,
        }


def build_part(at: int, rollups: Iterable[Rollup]) -> Part:
    """Sum up what ended in a part of time."""
    measures: dict[str, list[Rollup]] = defaultdict(list)
    for row in rollups:
        measures[row.measure].append(row)
    runs = {name: sum(row.count for row in rows) for name, rows in sorted(measures.items())}
    return Part(
        at=at,
        run=durations(measures["completed"]),
        wait=durations(measures["wait"]),
        runs={name: count for name, count in runs.items() if name != WAIT},
    )


def build_stats_of(jobs: Iterable[Job], *, since: int | None, slowest: int) -> Stats:
    """Add up jobs, each with its last run, one by one: rollups know no tags.

    Those that ended before `since` are in the totals, but their times don't count.
    """
    counts: dict[tuple[State, int], list[int]] = defaultdict(lambda: [0, 0])
    tally = Tally()
    slow: list[tuple[int, int, Job]] = []
    for job in jobs:
        count = counts[job.state, job.priority]
        count[0] += 1
        count[1] += bool(job.timeout)
        if job.state == State.COMPLETED and job.duration_ms is not None:
            keep = heappush if len(slow) < slowest else heappushpop
            keep(slow, (job.duration_ms, job.seq, job))
        if since is None or (job.finished_at or 0) >= since:
            for measure, ms in _last_run(job):
                tally.merge((EVER, "", "", measure, bucket_of(ms)), (1, ms, ms, ms))
    return build_stats(
        (
            Count(queue="", state=state, priority=priority, jobs=number, timed=timed)
            for (state, priority), (number, timed) in counts.items()
        ),
        [_rollup(row) for row in tally.rows()],
        [job for _, _, job in sorted(slow, reverse=True)],
    )


def _last_run(job: Job) -> Iterator[tuple[str, int]]:
    """Yield how long a finished job ran last, by what became of it, and how long it had waited."""
    if job.state not in FINISHED or job.started_at is None or job.duration_ms is None:
        return
    if job.run_at > job.started_at:  # cancelled, or expired, while it waited for another run
        return
    yield job.state.value, job.duration_ms
    yield WAIT, max(0, job.started_at - job.run_at)


def _rollup(row: Mapping[str, Any]) -> Rollup:
    return Rollup(**{field.name: row[field.name] for field in fields(Rollup)})
