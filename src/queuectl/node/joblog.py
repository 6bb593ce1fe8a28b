"""The lines of a node's log that are about jobs."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.job import FINISHED, Job, Snoozed, State
from queuectl.node import runs
from queuectl.node.log import Log, printable
from queuectl.node.runs import Run
from queuectl.node.turns import Turn
from queuectl.store.contract import Ended
from queuectl.when import human, iso, local

LONG = 5_000
"""Milliseconds until a job is due that are worth a word to who waits for the end of a drain."""


class JobLog:
    """Writes about jobs. For each worker in order: a run started, it ended, the next one started.

    How a run ended is told once it is stored, and the next one may have begun long before.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._untold: Counter[int | None] = Counter()
        """How many runs of each worker are over, and it wasn't told how they ended."""
        self._begun: dict[int | None, tuple[Run, int]] = {}
        """What a worker has begun meanwhile, and when."""
        self._told_due: int | None = None
        """The time that was told last as that of the next job."""
        self._finished: Counter[State] = Counter()
        """How many jobs this node has brought to which end."""

    def waits(self, now: int, waiting: int, due: int | None) -> None:
        """Say once what a node that drains is waiting for, if that takes a while."""
        if due is None or due == self._told_due or due - now < LONG:
            return
        self._told_due = due
        text = (
            f"{_waiting(waiting)} for later; the next is due {local(due)} (in {human(due - now)})."
        )
        self._log.say(now, text)
        self._log.flush()

    def nothing_left(self, now: int, left: Mapping[str, int]) -> None:
        """Say that all is done, and how many jobs aren't, by what keeps them."""
        done = ", ".join(f"{n} {state}" for state in FINISHED if (n := self._finished[state]))
        said = f"Nothing left to do: {done}" if done else "Nothing left to do"
        waits = [f"{_waiting(jobs)}, {why}" for why, jobs in left.items() if jobs > 0]
        self._log.say(now, f"{'; '.join([said, *waits])}.")

    def begun(self, run: Run) -> None:
        """Hear that a run has begun, or is about to."""
        at, worker = runs.began_at(run), run.job.worker
        if self._untold[worker]:
            self._begun[worker] = run, at
        else:
            self._start(run, at)

    def over(self, run: Run) -> None:
        """Hear that a run is over, which isn't stored yet."""
        self._untold[run.job.worker] += 1

    def settled(self, turn: Turn) -> None:
        """Tell how runs ended and what becomes of their jobs, now that it is stored."""
        lost = turn.result.lost
        ends = {(end.job.seq, end.job.attempts): end for end in turn.result.ends}
        for run in turn.over:
            if run.began is not None and not run.logged:
                self._start(run, runs.began_at(run))
            end = ends.pop((run.job.seq, run.job.attempts), None)
            if end is not None:
                at = turn.now if run.began is None else end.finished_at
                self._end(at, turn.now, end, lost=end in lost)
            elif run.unstarted:
                self._log.job(turn.now, "released", run.job, ", not started yet")
            self._settle(run.job.worker)
        for end in ends.values():
            self._end(turn.now, turn.now, end, lost=end in lost)

    def _settle(self, worker: int | None) -> None:
        self._untold[worker] -= 1
        if not self._untold[worker] and worker in self._begun:
            run, at = self._begun.pop(worker)
            if run.outcome is None:
                self._start(run, at)

    def _start(self, run: Run, at: int) -> None:
        run.logged = True
        self._log.job(at, "started", run.job, f"{_which(run.job)}: {printable(run.job.title)}")

    def _end(self, at: int, now: int, end: Ended, *, lost: bool) -> None:
        job, to = end.job, end.transition
        facts = _facts(end) if self._log.as_json else {}
        if lost:
            self._log.job(at, "ended too late", job, ": its lease was lost", level="warning")
        elif to.state == State.COMPLETED:
            self._finished[to.state] += 1
            self._log.job(at, "completed", job, f" in {human(end.duration_ms)}", **facts)
        elif to.state == State.FAILED and to.run_at is not None:
            wait = to.run_at - now
            facts |= {"retry_at": iso(to.run_at), "retry_in_ms": wait}
            again = f"retry at {local(to.run_at)} (in {human(wait)})"
            text = f"{_which(job)}: {printable(end.error or '')}; {again}"
            self._log.job(at, "failed", job, text, level="error", **facts)
        elif to.state in FINISHED:
            self._finish(at, end, **facts)
        elif isinstance(end.outcome, Snoozed):
            text = f"{_which(job)}: {printable(end.outcome.describe())}"
            self._log.job(at, "asleep", job, text, **facts)
        else:
            text = f"{_which(job)}: {printable(end.outcome.describe())}; it is pending again"
            self._log.job(at, "given back", job, text, level="warning", **facts)

    def _finish(self, at: int, end: Ended, gone: str | None = None, **facts: Any) -> None:
        """Tell that a job is dead or cancelled; `gone` says why its node can't tell, if so."""
        job, to = end.job, end.transition
        self._finished[to.state] += 1
        text = f"{_which(job)}: {printable(to.reason or '')}"
        level = "info"
        if to.state == State.DEAD:
            level = "error"
            if said := runs.last_words(end.output):
                text += f"; stderr: {printable(said)}"
            text += f"; command: {printable(job.title)}"
        elif gone:
            text += f"; {gone}"
        facts |= {"reason": to.reason}
        self._log.job(at, to.state.value, job, text, level=level, own=not gone, **facts)

    def buried(self, now: int, jobs: Sequence[Job]) -> None:
        """Tell of jobs that are dead without a run: they have expired, or can't be read."""
        self._finished[State.DEAD] += len(jobs)
        for job in jobs:
            text = f": {printable(job.reason or '')}; command: {printable(job.title)}"
            self._log.job(now, "dead", job, text, level="error", own=False, reason=job.reason)

    def rescued(self, now: int, job: Job, end: Ended | None, why: str) -> None:
        """Tell what became of a job whose node is gone; `end` is None if its run never began."""
        if end is not None and end.transition.state in FINISHED:
            self._finish(now, end, why, **(_facts(end) if self._log.as_json else {}))
            return
        text = f": {why}; it is pending again"
        self._log.job(now, "rescued", job, text, level="warning", own=False)


def _facts(end: Ended) -> dict[str, Any]:
    return {
        "duration_ms": end.duration_ms,
        "outcome": end.outcome.name,
        "exit_code": getattr(end.outcome, "code", None),
        "error": end.error,
    }


def finishing(running: Sequence[Run]) -> str:
    """Say that a node stops when what runs is over."""
    return f"finishing {name_runs(running)}" if running else "stopping; nothing is running"


def releasing(running: Sequence[Run]) -> str:
    """Say that a node stops now, and releases what runs."""
    return f"releasing {name_runs(running)}" if running else "stopping at once; nothing is running"


def name_runs(running: Sequence[Run]) -> str:
    """Name the jobs that run, the first few by id."""
    ids = [printable(run.job.id, 40) for run in running]
    more = len(ids) - 5
    return ", ".join(ids[:5]) + (f" and {more} more" if more > 0 else "")


def name_workers(count: int) -> str:
    """Say how many workers there are."""
    return f"{count} worker{'' if count == 1 else 's'}"


def _waiting(jobs: int) -> str:
    return "1 job waits" if jobs == 1 else f"{jobs} jobs wait"


def _which(job: Job) -> str:
    of = job.max_attempts
    return f" (attempt {job.attempts}/{of})" if of else f" (attempt {job.attempts})"
