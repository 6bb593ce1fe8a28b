"""Why a job waits: facts about it and about who works in, reasons out. No clock, no store."""

from collections.abc import Collection, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from queuectl.facts import QueueInfo
from queuectl.job import WAITING, Job, State, moment
from queuectl.values import dataclass
from queuectl.when import ahead, iso, local

if TYPE_CHECKING:
    from datetime import datetime


class Cause(StrEnum):
    """What kind of reason it is. More may be added."""

    BLOCKED = "blocked"
    """Other jobs must complete first."""
    EXPIRED = "expired"
    """Its time to start is over; the next claim of any node buries it."""
    NOT_DUE = "not_due"
    """Its `run_at` hasn't come."""
    RETRY = "retry"
    """It failed, and the time of its retry hasn't come."""
    PAUSED = "paused"
    """Its queue is paused."""
    NO_WORKER = "no_worker"
    """No node lives that takes jobs."""
    NOT_SERVED = "not_served"
    """Nodes live, but none of them serves its queue."""
    ALONE = "alone"
    """It is a suspect: a node makes room so that it can run alone."""
    BUSY = "busy"
    """All workers that serve its queue have something to do."""
    ITS_TURN = "its_turn"
    """Nothing keeps it: a worker is free, and takes it as soon as it is first in line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """One reason for which a job waits."""

    cause: Cause
    text: str
    """A clause for people, such as `no worker is running`."""
    remedy: str | None = None
    """The command of queuectl that ends it, such as `worker start`, where there is one."""
    ends_at: int | None = None
    """When it ends by itself, in milliseconds, where that is known."""

    @property
    def until(self) -> "datetime | None":
        """When it ends by itself, where that is known."""
        return None if self.ends_at is None else moment(self.ends_at)

    def as_dict(self) -> dict[str, Any]:
        """Describe it for `--json`."""
        return {
            "cause": self.cause.value,
            "text": self.text,
            "remedy": None if self.remedy is None else f"queuectl {self.remedy}",
            "until": None if self.ends_at is None else iso(self.ends_at),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """The workers of a node that lives."""

    queues: tuple[str, ...]
    """The queues it serves; empty for all."""
    workers: int
    busy: int
    stopping: bool = False

    def serves(self, queue: str) -> bool:
        """Tell whether it takes jobs of this queue."""
        return not self.queues or queue in self.queues


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a job's turn hangs on, besides the job itself."""

    now: int
    crews: tuple[Crew, ...]
    queues: tuple[QueueInfo, ...]
    suspicious: int
    """From so many crashes on, a job is a suspect."""


def explain(job: Job, around: Surroundings) -> list[Reason]:
    """Say why a job waits, all of it; nothing for one that doesn't wait.

    First comes what lies in the job itself, then what keeps its whole queue.
    """
    if job.state not in WAITING:
        return []
    reasons = [*_in_itself(job, around.now), *hindrances([job.queue], around.crews, around.queues)]
    return reasons or [_its_turn(job, around)]


def explain_all(jobs: Collection[Job], now: int) -> list[Reason]:
    """Say that none of these jobs, which aren't finished, runs or is due yet, if that is so."""
    if not jobs or any(job.state not in WAITING or job.run_at <= now for job in jobs):
        return []
    first = min(jobs, key=lambda job: job.run_at)
    when = ahead(first.run_at, now)
    if len(jobs) == 1:
        remedy = f"retry {_quoted(first.id)}"
        text = f"job {first.id} isn't due until {when}"
        return [_reason(Cause.NOT_DUE, text, remedy, ends_at=first.run_at)]
    return [_reason(Cause.NOT_DUE, f"none of them is due before {when}", ends_at=first.run_at)]


def hindrances(
    names: Collection[str], crews: Sequence[Crew], queues: Sequence[QueueInfo]
) -> list[Reason]:
    """Say what keeps all jobs of these queues from being started, and how to end it.

    Without a queue, for whoever waits for jobs that run: whether anybody lives who could end them.
    """
    reasons = []
    if paused := [queue for queue in queues if queue.paused_at and queue.name in names]:
        reasons.append(_paused(paused))
    taking = [crew for crew in crews if not crew.stopping]
    if not crews:
        reasons.append(_reason(Cause.NO_WORKER, "no worker is running", "worker start"))
    elif names and not taking:
        reasons.append(_reason(Cause.NO_WORKER, "all workers are stopping", "worker start"))
    elif unserved := sorted(q for q in names if not any(crew.serves(q) for crew in taking)):
        options = " ".join(f"--queue {_quoted(name)}" for name in unserved)
        text = f"no worker serves {', '.join(unserved)}"
        reasons.append(_reason(Cause.NOT_SERVED, text, f"worker start {options}"))
    return reasons


def _in_itself(job: Job, now: int) -> list[Reason]:
    if job.state == State.BLOCKED:
        return [_reason(Cause.BLOCKED, "other jobs must complete before it")]
    if job.expires_at is not None and job.expires_at <= now:
        text = f"it had to start by {local(job.expires_at)}; it is dead as soon as a worker looks"
        return [_reason(Cause.EXPIRED, text)]
    if job.run_at <= now:
        return []
    retry = job.state == State.FAILED
    when = ahead(job.run_at, now)
    text = f"its retry isn't due until {when}" if retry else f"it isn't due until {when}"
    cause = Cause.RETRY if retry else Cause.NOT_DUE
    return [_reason(cause, text, f"retry {_quoted(job.id)}", ends_at=job.run_at)]


def _paused(queues: Sequence[QueueInfo]) -> Reason:
    names = [queue.name for queue in queues]
    text = f"queues {', '.join(names)} are paused"
    if len(queues) == 1:
        [queue] = queues
        text = f"queue {queue.name} is paused"
        text += f" by {queue.paused_by}" if queue.paused_by else ""
        text += f" since {local(queue.paused_at)}" if queue.paused_at else ""
    return _reason(Cause.PAUSED, text, f"resume {_quoted(*names)}")


def _its_turn(job: Job, around: Surroundings) -> Reason:
    """Say how its turn comes, when nothing keeps it."""
    serving = [crew for crew in around.crews if crew.serves(job.queue) and not crew.stopping]
    from queuectl.lifecycle import ROOM_WITHIN

    alone_until = job.run_at + ROOM_WITHIN
    if (
        job.crashes >= around.suspicious
        and around.now < alone_until
        and all(crew.busy for crew in serving)
    ):
        text = "after its crashes it is to run alone, and a node makes room for it"
        return _reason(Cause.ALONE, text, ends_at=alone_until)
    workers = sum(crew.workers for crew in serving)
    if sum(crew.busy for crew in serving) >= workers:
        who = {1: "the one worker that serves it is", 2: "both workers that serve it are"}
        return _reason(
            Cause.BUSY, who.get(workers, f"all {workers} workers that serve it are") + " busy"
        )
    return _reason(Cause.ITS_TURN, "a worker is free and takes it when it is first in line")


def _reason(
    cause: Cause, text: str, remedy: str | None = None, *, ends_at: int | None = None
) -> Reason:
    return Reason(cause=cause, text=text, remedy=remedy, ends_at=ends_at)


def _quoted(*words: str) -> str:
    """Write words as a shell reads them."""
    import shlex

    return shlex.join(words)
