"""One run of a job, from claim to end: its record, and what the report on its end comes to."""

import os
import re
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, replace
from time import monotonic
from typing import NamedTuple

from queuectl.errors import UsageError
from queuectl.facts import Event, Sleep
from queuectl.guard import wire
from queuectl.guard.output import Captured, collect
from queuectl.job import (
    Cancelled,
    Exited,
    Expired,
    Job,
    Lost,
    NotStarted,
    Outcome,
    OutOfMemory,
    OutOfTime,
    Output,
    Raised,
    Released,
    Signalled,
    Snoozed,
    TimedOut,
    Usage,
)
from queuectl.lifecycle import decide
from queuectl.node.config import Config
from queuectl.settings import Settings
from queuectl.sharing import mode_in
from queuectl.sleeping import snoozed
from queuectl.spool import own_files, result_file, sleep_file, token_of
from queuectl.store.contract import Ended
from queuectl.telling import LONGEST_RESULT, check_result
from queuectl.tracecontext import Trace
from queuectl.values import in_order

LONGEST_ERROR = 1_000
SUCCESS = Exited(0)
NOTHING = Usage()
_SILENCE = Output()
_COLOURS = re.compile(rb"\x1b\[[0-9;:]*[mK]")
"""Sequences that colour text; some add the one that erases the rest of a line."""
_UNKNOWN_TO_SH = tuple(
    f": {word}: not found" for word in ("[[", "source", "pushd", "popd", "shopt", "declare")
)
"""How a plain shell complains about what is bash's own."""


@dataclass(slots=True, kw_only=True)
class Run:
    """A run that the guard has, or has reported on."""

    job: Job
    spool: str
    claimed: float
    """CLOCK_MONOTONIC seconds at which it was claimed, which was `job.started_at` by the store."""
    outcome: Outcome | None = None
    began: float | None = None
    ended: float | None = None
    stdout_bytes: int | None = None
    stderr_bytes: int | None = None
    """What it wrote, by the guard's count; None when the guard couldn't say."""
    prepared: tuple[str, ...] = ()
    """Files that were made for it to read: a long command, its stdin."""
    output: Output | None = None
    """What it wrote, if its program has said so."""
    result: str | None = None
    """What it came to, as JSON, if its program has said so."""
    unstarted: bool = False
    """Whether it was released before it was started."""
    logged: bool = False
    """Whether the log says that it was started."""
    paused: bool | None = False
    """Whether the guard was told to have it stand still; None if the program before us knew."""
    used: Usage = NOTHING
    """What it has used, as far as the guard knows."""
    noted: str | None = None
    """What it wasn't kept to, as this host can't."""
    trace: Trace | None = None
    """What it is told of the trace that it is a part of."""

    @property
    def files(self) -> tuple[str, str]:
        """Where its output is when it is over."""
        return own_files(self.spool, self.job)

    def prepare(self, ending: str, content: bytes) -> str:
        """Make a file for it to read, private and with its name, and return where it is."""
        path = self.files[0].removesuffix(".out") + ending
        self.prepared += (path,)
        with open(path, "wb", opener=_private) as file:
            file.write(content)
        return path


class Handled(NamedTuple):
    """What is heard of a run whose program says itself what became of it."""

    run: int
    outcome: Outcome
    began: float
    ended: float
    output: Output
    result: str | None
    """What it came to, as JSON."""


class TooOld(NamedTuple):
    """What is heard of a run that isn't started, as its job is older than this node runs any."""

    run: int
    oldest: int


class LostRun(NamedTuple):
    """What is heard of a run whose guard is gone; `begun` is off if it can't have begun."""

    run: int
    why: str
    begun: bool


def owner_of(node: str, queue: str) -> str:
    """Return what marks the processes of a node, in the queue that it serves.

    A copy of a database knows the same nodes, but must not lay hands on their processes.
    """
    return f"{node}@{queue}"


def _private(path: str, flags: int) -> int:
    mode = mode_in(os.path.dirname(path))
    fd = os.open(path, flags, mode)
    # Whatever the umask is, the run must read it.
    os.fchmod(fd, mode)
    return fd


def read_report(
    run: Run,
    report: "wire.Report | LostRun | Handled | TooOld",
    settings: Settings,
    *,
    outage: bool = False,
) -> None:
    """Note on a run what became of it.

    One that was ended for want of a lease was lost, as with a crash; but in an outage of the
    store that was nobody's fault here, and its job goes back in line unharmed.
    """
    if isinstance(report, Handled):
        run.began, run.ended = report.began, report.ended
        run.outcome, run.output, run.result = report.outcome, report.output, report.result
        return
    if isinstance(report, wire.Ended):
        run.began, run.ended = report.began, report.ended
        run.stdout_bytes, run.stderr_bytes = report.stdout_bytes, report.stderr_bytes
        run.noted = report.noted
        if report.used is not None:
            run.used = in_order(Usage, report.used)
        code = os.waitstatus_to_exitcode(report.status)
        run.outcome = outcome_of(run.job, code, report.how, settings)
        if report.how == wire.LEASE and outage:
            run.outcome = Released("the database was out of reach for too long")
        return
    if isinstance(report, LostRun):
        run.unstarted = not report.begun
        run.outcome = Lost(report.why) if report.begun else Released(report.why)
        if report.begun:
            run.began, run.ended = run.claimed, monotonic()
        return
    run.stdout_bytes = run.stderr_bytes = 0
    if isinstance(report, TooOld):
        run.outcome = Expired(report.oldest)
    elif isinstance(report, wire.Released):
        run.unstarted = True
        run.outcome = Released("it was not started yet")
    else:
        # It may name a program by letters that no database takes.
        why = report.text.encode("utf-8", "backslashreplace").decode()
        # What this host can't do isn't the fault of the job.
        run.outcome = Released(why) if isinstance(report, wire.Unable) else NotStarted(why)


def outcome_of(job: Job, code: int, how: str, settings: Settings) -> Outcome:
    """Say what a run came to that ended with this exit code, in this way."""
    match how:
        case wire.TIMEOUT:
            return TimedOut(settings.job_timeout if job.timeout is None else job.timeout)
        case wire.MEMORY:
            return OutOfMemory(job.bounds.get("memory"))
        case wire.CPU_TIME:
            return OutOfTime(job.bounds.get("cpu_time") or 0)
        case wire.CANCEL:
            return Cancelled(job.cancel_reason or "cancelled")
        case wire.RELEASE:
            return Released()
        case wire.LEASE:
            return Lost("its node could not renew its lease")
        case _ if code < 0:
            return Signalled(-code)
        case _:
            return Exited(code)


def finish(run: Run, config: Config, *, now: int, host: str) -> Ended:
    """Decide what becomes of the job of a run that is over, and gather what it wrote."""
    assert run.outcome is not None
    job, outcome = run.job, run.outcome
    if run.began is None or run.ended is None:
        started, duration = now if job.started_at is None else job.started_at, 0
    else:
        started = began_at(run)
        duration = max(0, round((run.ended - run.began) * 1000))
    output = gather(run, config.settings.output_limit)
    result, event = run.result, None
    if job.is_forced:
        result = job.forced or None
    elif outcome == SUCCESS and run.output is None:
        result, event = read_result(run, now)
    end = Ended(
        job=job,
        outcome=outcome,
        transition=decide(job, outcome, now, config.policy_of(job)),
        started_at=started,
        finished_at=started + duration,
        duration_ms=duration,
        host=host,
        error=None if outcome == SUCCESS else error_line(outcome, output),
        output=output,
        result=result,
        event=event,
        used=run.used,
        noted=run.noted,
    )
    return _tired(end, config, now) if may_sleep(run) else end


def may_sleep(run: Run) -> bool:
    """Tell whether a run may have said that its job sleeps, which the store knows for sure."""
    if isinstance(run.outcome, Snoozed):
        return True
    if not isinstance(run.outcome, Exited) or run.output is not None:
        return False
    path = sleep_file(run.spool, run.job)
    if not os.path.lexists(path):
        return False
    run.prepared += () if path in run.prepared else (path,)
    return True


def _tired(end: Ended, config: Config, now: int) -> Ended:
    """Describe the end of a run that, if its job sleeps, is no more than that."""

    def asleep(sleep: Sleep) -> Ended:
        outcome = snoozed(sleep, now)
        to = decide(end.job, outcome, now, config.policy)
        return replace(end, outcome=outcome, transition=to, error=None, result=None)

    return replace(end, if_asleep=asleep)


def read_result(run: Run, now: int) -> tuple[str | None, Event | None]:
    """Return what a run says that its job came to; or, if that can't be read, an event of it."""
    path = result_file(run.spool, run.job)
    try:
        # Whatever it is, it must not keep us waiting.
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return None, None
    except OSError as error:
        return None, _unread(run, str(error.strerror), now)
    run.prepared += () if path in run.prepared else (path,)
    try:
        with open(fd, "rb") as file:
            return check_result(file.read(LONGEST_RESULT + 1)), None
    except OSError as error:
        return None, _unread(run, str(error.strerror), now)
    except UsageError as error:
        return None, _unread(run, str(error), now)


def _unread(run: Run, why: str, now: int) -> Event:
    from queuectl.history import event_of

    detail = f"it wasn't kept: {why}"[:LONGEST_ERROR]
    return event_of(now, "result", job=run.job.id, node=run.job.node, detail=detail)


def began_at(run: Run) -> int:
    """Return when a run began, by the store's clock; if nobody has said so yet, now."""
    began = monotonic() if run.began is None else run.began
    return (run.job.started_at or 0) + max(0, round((began - run.claimed) * 1000))


def may_have_begun(job: Job, begun: Collection[str] | None) -> bool:
    """Tell whether the run that a node had claimed may have been started."""
    return begun is None or token_of(job) in begun


def gather(run: Run, limit: int) -> Output:
    """Read what a run wrote, within the limit. What can't be read doesn't change how it ended."""
    if run.output is not None:
        return run.output
    if run.stdout_bytes == 0 and run.stderr_bytes == 0:
        return _SILENCE
    stdout, stderr = run.files
    out = _gather_stream(stdout, limit, run.stdout_bytes or 0)
    err = _gather_stream(stderr, limit, run.stderr_bytes or 0)
    return Output(stdout=out.data, stderr=err.data, stdout_bytes=out.total, stderr_bytes=err.total)


def _gather_stream(path: str, limit: int, total: int) -> Captured:
    try:
        return collect(path, limit, total)
    except OSError:
        # That so many bytes are missing is seen wherever the output is shown.
        return Captured(b"", total)


def error_line(outcome: Outcome, output: Output) -> str:
    """Say in one line what went wrong: how it ended, and its last word on stderr."""
    # What a task raised is in words already; its traceback says them once more.
    said = "" if isinstance(outcome, Raised) else last_words(output)
    text = f"{outcome.describe()}: {said}" if said else outcome.describe()
    if said.endswith(_UNKNOWN_TO_SH):
        text += " (bash knows it: enqueue with --shell bash)"
    return text.replace("\0", "\ufffd")[:LONGEST_ERROR]


def last_words(output: Output) -> str:
    """Return the last line on stderr that says something."""
    # Colours are no words, and the last of them often stands on a line of its own.
    lines = reversed(_COLOURS.sub(b"", output.stderr[-4 * LONGEST_ERROR :]).splitlines())
    said = (line.decode("utf-8", "replace").strip() for line in lines if line.strip())
    return next(said, "")


def clean(run: Run) -> None:
    """Remove the files of a run whose end is stored; empty ones are the guard's to use again."""
    paths = [*run.prepared]
    if run.outcome != SUCCESS and run.began is not None:
        paths.append(result_file(run.spool, run.job))
    if run.output is None and (run.stdout_bytes != 0 or run.stderr_bytes != 0):
        sizes = run.stdout_bytes, run.stderr_bytes
        paths += [path for path, size in zip(run.files, sizes, strict=True) if size != 0]
    for path in paths:
        # What can't be removed now is swept when no node owns the folder any more.
        with suppress(OSError):
            os.unlink(path)


def with_cancel(run: Run, asked: Job) -> None:
    """Note that somebody wants this run ended, as its job says that it was read with now."""
    reason = asked.cancel_reason or "cancelled"
    run.job = replace(run.job, cancel_reason=reason, forced=asked.forced)
