"""What the toy remembers: all that a store has, and what follows from changes of it."""

from dataclasses import replace
from time import CLOCK_MONOTONIC, clock_gettime_ns, time_ns
from typing import TYPE_CHECKING

from queuectl.access import Grant
from queuectl.facts import (
    Emitted,
    Event,
    Group,
    Node,
    Pause,
    QueueInfo,
    Reservation,
    RunProgress,
    Sleep,
    Step,
)
from queuectl.host import whoami
from queuectl.job import FINISHED, Attempt, Job, Output, State, Transition
from queuectl.limits import Limits, Meters
from queuectl.schedule import Schedule, after_end
from queuectl.store.contract import Tick
from queuectl.uniqueness import Holding
from queuectl.webhook import Webhook

if TYPE_CHECKING:
    from tests.contract.toy.edges import Tie

RollupKey = tuple[int, str, str, str, int]
Cell = tuple[int, int, int, int]


class Memory:
    """Everything a queue holds. Nothing in it is ever changed in place."""

    def __init__(self) -> None:
        self.places = 0
        self.line: dict[str, Job] = {}
        """Jobs, in the order of the line."""
        self.ready: dict[str, int] = {}
        """Waiting jobs: 1 if they may be claimed, 0 if they have yet to become due."""
        self.attempts: dict[int, list[Attempt]] = {}
        self.outputs: dict[tuple[int, int], Output] = {}
        self.inputs: dict[int, bytes] = {}
        self.cells: dict[RollupKey, Cell] = {}
        self.events: list[Event] = []
        self.config: dict[str, str] = {}
        self.queues: dict[str, QueueInfo] = {}
        self.nodes: dict[str, Node] = {}
        self.watches: dict[tuple[int, int], int] = {}
        self.live: dict[tuple[int, int, str, int], bytes] = {}
        self.pauses: dict[int, Pause] = {}
        self.reservations: dict[str, Reservation] = {}
        """For which job each node keeps room."""
        """By the places of their jobs: the newest of each, also of runs that are over."""
        self.results: dict[str, tuple[int, str]] = {}
        self.progress: dict[str, RunProgress] = {}
        self.steps: dict[str, tuple[Step, ...]] = {}
        self.sleeps: dict[str, Sleep] = {}
        """By the ids of their jobs, as what follows them wherever they go."""
        self.ties: dict[tuple[str, str], Tie] = {}
        """Who waits for whom: a child and a parent, by their ids."""
        self.groups: dict[str, Group] = {}
        self.emitted: dict[str, Emitted] = {}
        self.schedules: dict[str, Schedule] = {}
        self.ticks: dict[tuple[str, int], Tick] = {}
        self.grants: dict[str, Grant] = {}
        self.webhooks: dict[str, Webhook] = {}
        self.shares: dict[str, dict[str, int]] = {}
        self.vtimes: dict[str, int] = {}
        """How far the keys of a queue, and the queue, have come."""
        self.meters: dict[str, dict[str, Meters]] = {}
        self.names: dict[str, Holding] = {}
        """Who took unique keys last."""

    def holder(self, key: str, now: int) -> Job | None:
        """Return the job that has a unique key, if one does."""
        holding = self.names.get(key)
        job = None if holding is None else self.line.get(holding.job)
        return job if holding is not None and holding.holds(job, key, now) else None

    def limits(self, queue: str) -> Limits | None:
        """Return the limits of a queue, if it has any."""
        info = self.queues.get(queue)
        return None if info is None else info.limits

    def set_limits(self, queue: str, limits: Limits) -> None:
        """Set them."""
        info = self.queues.get(queue) or QueueInfo(name=queue, paused_at=None, paused_by=None)
        self.queues[queue] = replace(info, limits=limits)

    def by_seq(self, seq: int) -> Job | None:
        """Return the job at a place in the line."""
        return next((job for job in self.line.values() if job.seq == seq), None)

    def running(self) -> list[Job]:
        """Return the jobs in processing."""
        return [job for job in self.line.values() if job.state == State.PROCESSING]

    def is_same(self, job: Job | None, seen: Job, state: State) -> bool:
        """Tell whether a job is still as somebody has seen it, and in this state."""
        return (
            job is not None
            and (job.seq, job.attempts) == (seen.seq, seen.attempts)
            and job.state == state
        )

    def moved(self, job: Job, to: Transition, now: int) -> Job:
        """Apply a transition, readiness included."""
        state = to.state
        self.ready.pop(job.id, None)
        if state in (State.PENDING, State.FAILED):
            ready = to.run_at is None or to.run_at <= now
            self.ready[job.id] = int(ready)
            state = State.PENDING if ready else state
        return replace(
            job,
            state=state,
            run_at=job.run_at if to.run_at is None else to.run_at,
            failures=to.failures,
            crashes=to.crashes,
            reason=to.reason,
            parked=None,
            updated_at=now,
            finished_at=now if state in FINISHED else None,
        )

    def remove(self, job: Job) -> None:
        """Delete a job, with all that belongs to it."""
        del self.line[job.id]
        self.ready.pop(job.id, None)
        self.inputs.pop(job.seq, None)
        self.attempts.pop(job.seq, None)
        self.results.pop(job.id, None)
        self.progress.pop(job.id, None)
        self.steps.pop(job.id, None)
        self.sleeps.pop(job.id, None)

    def merge(self, key: RollupKey, cell: Cell) -> None:
        """Add durations to a rollup."""
        found = self.cells.get(key)
        if found is not None:
            count, total, least, most = found
            more, sum_, low, high = cell
            cell = (count + more, total + sum_, min(least, low), max(most, high))
        self.cells[key] = cell

    def keep(self, event: Event | None) -> None:
        """Keep an event, if there is one."""
        if event is not None:
            self.events.append(event)

    def over(self, job: Job, state: State | None) -> None:
        """Have the schedule go on that made a job which is over, or gone."""
        schedule = self.schedules.get(job.schedule or "")
        if schedule is None or not (state is None or state in FINISHED):
            return
        now = wall()
        after = after_end(schedule, job.seq, state, now)
        self.schedules[schedule.name] = after
        if after.paused_at != schedule.paused_at:
            detail = f"schedule {schedule.name}: {after.failures} jobs in a row died"
            self.keep(
                Event(at=now, kind="pause", job=None, node=None, who="queuectl", detail=detail)
            )

    def died(self, job: Job, at: int, node: str | None) -> None:
        """Keep the event that a job is dead."""
        self.events.append(
            Event(at=at, kind="dead", job=job.id, node=node, who=whoami(), detail=job.reason)
        )


def wall() -> int:
    return time_ns() // 1_000_000


def steady() -> int:
    return clock_gettime_ns(CLOCK_MONOTONIC) // 1_000_000
