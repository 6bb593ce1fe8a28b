"""The one place that decides states: `(job, outcome, now) -> Transition`, and how long to back off.

Pure and total: no clock, no store, no randomness (jitter comes from the job's own id).
Stores apply what is decided here; they hold no policy of their own.
"""

from math import isfinite, log

from queuectl.job import (
    Cancelled,
    Exited,
    Expired,
    Job,
    Lost,
    Outcome,
    Raised,
    Released,
    Snoozed,
    State,
    Strategy,
    Transition,
)
from queuectl.values import dataclass

ROOM_WITHIN = 10_000
"""Milliseconds that a node makes room for a job that is to run alone; others wait meanwhile."""
LONGEST_WAIT = 366 * 24 * 3600 * 1000
"""No backoff waits longer than a year, whatever `max_backoff` says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """What the settings say where a job says nothing itself."""

    max_retries: int = 3
    max_crashes: int = 3
    backoff: Strategy = Strategy.EXPONENTIAL
    backoff_base: float = 2.0
    retry_delay: int = 2_000
    max_backoff: int = 300_000
    jitter: float = 0.0
    forced_base: float | None = None
    """`worker start --backoff-base`: this node's word, above the job's."""

    def retries(self, job: Job) -> int:
        """How many retries the job may have."""
        return self.max_retries if job.max_retries is None else job.max_retries

    @property
    def suspicious(self) -> int:
        """From so many crashes on, a job is a suspect: one more, and it is dead.

        All that run on a node count a crash when it goes down, since nobody knows which of them
        did it. A suspect gets a node for itself, so that no job dies of another's crashes.
        """
        return max(1, self.max_crashes - 1)


def decide(job: Job, outcome: Outcome, now: int, policy: Policy) -> Transition:
    """Say what becomes of a job whose run came to this outcome."""
    match outcome:
        case Exited(code=0):
            return _to(job, State.COMPLETED, reason=job.cancel_reason if job.is_forced else None)
        case _ if job.is_forced:
            return finished(job, job.cancel_reason)
        case Cancelled(why=why):
            return _to(job, State.CANCELLED, reason=why)
        case Released() | Lost() if job.cancel_reason is not None:
            return _to(job, State.CANCELLED, reason=job.cancel_reason)
        case Released():
            return _to(job, State.PENDING, run_at=now)
        case Lost() if job.crashes + 1 >= policy.max_crashes:
            crashes = job.crashes + 1
            return _to(job, State.DEAD, crashes=crashes, reason=_lost(crashes, outcome.why))
        case Lost():
            return _to(job, State.PENDING, crashes=job.crashes + 1, run_at=now)
        case _ if job.cancel_reason is not None:
            return _to(job, State.CANCELLED, reason=job.cancel_reason)
        case Expired():
            return _to(job, State.DEAD, reason=outcome.describe())
        case Snoozed(wait=wait):
            return _to(job, State.PENDING, run_at=now + min(wait, LONGEST_WAIT))
        case _ if job.failures < policy.retries(job):
            failures = job.failures + 1
            wait = backoff(job, failures, policy)
            if isinstance(outcome, Raised) and outcome.retry_after is not None:
                wait = min(outcome.retry_after, LONGEST_WAIT)
            due = now + wait
            return _to(job, State.FAILED, failures=failures, run_at=due)
        case _:
            failures = job.failures + 1
            reason = f"{outcome.describe()}; {_gave_up(failures)}"
            return _to(job, State.DEAD, failures=failures, reason=reason)


def has_failed(outcome: Outcome, state: State) -> bool:
    """Tell whether a run of this outcome, which brought its job into this state, was a failure.

    One that crashed its node was; one that somebody cancelled wasn't, however it ended then.
    """
    return state in (State.FAILED, State.DEAD) or isinstance(outcome, Lost)


def expired(job: Job) -> Transition:
    """Say what becomes of a job that was not started before its `expires_at`."""
    when = "again" if job.attempts else ""
    return _to(job, State.DEAD, reason=f"expired before it could start {when}".strip())


def cancelled(job: Job, reason: str) -> Transition:
    """Say what becomes of a waiting job that is cancelled."""
    return _to(job, State.CANCELLED, reason=reason)


def finished(job: Job, reason: str | None) -> Transition:
    """Say what becomes of a job that is completed by hand, once nothing of it runs any more."""
    return _to(job, State.COMPLETED, reason=reason)


def retried(run_at: int, state: State = State.PENDING) -> Transition:
    """Say what becomes of a finished or waiting job that is retried by hand, to run then.

    The state is the one in which it waits.
    """
    return Transition(state=state, failures=0, crashes=0, run_at=run_at)


def in_line(job: Job) -> State:
    """Say in which state a job waits: others may have to end before it."""
    return State.BLOCKED if job.open_parents else State.PENDING


def backoff(job: Job, failures: int, policy: Policy) -> int:
    """How many milliseconds to wait after failure number `failures` (1 is the first)."""
    longest = policy.max_backoff if job.max_backoff is None else job.max_backoff
    longest = min(longest, LONGEST_WAIT)
    step = policy.retry_delay if job.retry_delay is None else job.retry_delay
    match job.backoff or policy.backoff:
        case Strategy.EXPONENTIAL:
            wait = _power(_base(job, policy), failures, longest)
        case Strategy.LINEAR:
            wait = min(step * failures, longest)
        case Strategy.FIXED:
            wait = min(step, longest)
    return min(_jittered(wait, f"{job.id}:{failures}", policy.jitter), longest)


def first_wait(job: Job) -> int | None:
    """How many milliseconds a fixed or linear backoff begins with, if the job says so itself."""
    if job.retry_delay is None or job.max_backoff is None:
        return job.retry_delay
    return min(job.retry_delay, job.max_backoff)


def _to(
    job: Job,
    state: State,
    *,
    failures: int | None = None,
    crashes: int | None = None,
    reason: str | None = None,
    run_at: int | None = None,
) -> Transition:
    return Transition(
        state=state,
        failures=job.failures if failures is None else failures,
        crashes=job.crashes if crashes is None else crashes,
        reason=reason,
        run_at=run_at,
    )


def _base(job: Job, policy: Policy) -> float:
    if policy.forced_base is not None:
        return policy.forced_base
    return policy.backoff_base if job.backoff_base is None else job.backoff_base


def _power(base: float, exponent: int, longest: int) -> int:
    """`base ** exponent` seconds in milliseconds, capped before it can overflow."""
    if not isfinite(base):
        return longest
    if base <= 1:
        return min(1000, longest)
    if exponent * log(base) > log(LONGEST_WAIT):
        return longest
    return min(int(base**exponent * 1000), longest)


def _jittered(wait: int, key: str, jitter: float) -> int:
    """Spread the wait by up to that share of it either way; the same for the same key."""
    if not jitter:
        return wait
    from zlib import crc32

    share = crc32(key.encode("utf-8", "surrogatepass")) / 0xFFFFFFFF
    return max(0, int(wait * (1 + jitter * (2 * share - 1))))


def _gave_up(failures: int) -> str:
    match failures - 1:
        case 0:
            return "no retries allowed"
        case 1:
            return "given up after 1 retry"
        case retries:
            return f"given up after {retries} retries"


def _lost(runs: int, why: str) -> str:
    if runs == 1:
        return f"its run was lost with its worker ({why})"
    return f"{runs} runs were lost with their workers (last: {why})"
