"""What warm programs say and leave behind, and what that comes to."""

import base64
import json
import os
from contextlib import suppress
from time import monotonic
from typing import Any

from queuectl.errors import QueuectlError
from queuectl.guard import tree, wire
from queuectl.guard.output import collect
from queuectl.handlers.lines import LONGEST_RESULT, NoLineError
from queuectl.job import Cancelled, Lost, Outcome, Output, Raised, Released, Signalled, Snoozed
from queuectl.node.runs import LostRun, Run, outcome_of
from queuectl.node.warm import Handed, Message, Warm
from queuectl.settings import Settings
from queuectl.spool import own_files, progress_file
from queuectl.when import parse_duration

SILENT = Output(stdout=b"", stderr=b"", stdout_bytes=0, stderr_bytes=0)
_ABOUT_RUNS = {"done", "failed", "began", "dropped", "progress", "update", "next"}
_OTHER_WORDS = {"ready", "unable", "leaves"}
_STREAMS = {"stdout", "stderr", "stdout64", "stderr64"}


def check_run(message: Message) -> bool:
    """See that a message which is about a run names it by a number, or raise `NoLineError`.

    False if it is about nothing that we know.
    """
    known = False
    for word, value in message.items():
        if word in _ABOUT_RUNS:
            known = True
            if type(value) is not int:
                raise NoLineError(f"what it says of {word!r} is no number of a run")
        elif word in _OTHER_WORDS:
            known = True
    return known


def result_of(value: Any) -> str:
    """Return a result as JSON to be stored; one that can't be is a `ValueError`."""
    try:
        text = json.dumps(value, allow_nan=False)
    except (ValueError, RecursionError):
        raise ValueError("can't be written as JSON") from None
    if len(text) > LONGEST_RESULT and _size(value) > LONGEST_RESULT:
        raise ValueError(f"takes more than {LONGEST_RESULT:,} bytes")
    return text


def _size(value: Any) -> int:
    return len(json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass"))


def failure(message: Message) -> Outcome:
    """Say what a run came to that failed, or wants to be called off or run later."""
    # No database takes letters that are none.
    why = str(message.get("error") or "failed").encode("utf-8", "backslashreplace").decode()[:500]
    if message.get("discard"):
        return Cancelled(why)
    if (snooze := message.get("snooze")) is not None:
        return Snoozed(why, _milliseconds(snooze))
    after = message.get("retry_after")
    return Raised(why, None if after is None else _milliseconds(after))


def _milliseconds(said: Any) -> int:
    """Read a time that a handler has named: seconds, or a duration as people write it."""
    try:
        return max(0, parse_duration(said))
    except (QueuectlError, ArithmeticError, TypeError, ValueError):
        return 0


def unbegun(number: int, how: str) -> "wire.Report":
    """Report a run that was to end before it began; if for no other reason, it is released."""
    if how in ("", wire.RELEASE):
        return wire.Released(number)
    now = monotonic()
    return wire.Ended(number, 9, how, now, now, 0, 0, None, None)


def tell_progress(run: Run, message: Message) -> None:
    """Have what a run says of its progress where others are looked for: see `progress.py`."""
    part, text = message.get("part"), str(message.get("text", ""))
    if not isinstance(part, int | float) or not 0 <= part <= 1:
        return
    said = f"{round(100 * part)} {' '.join(text.split())[:400]}".rstrip()
    with suppress(OSError), open(progress_file(run.spool, run.job), "wb") as file:
        file.write(f"{said}\n".encode("utf-8", "backslashreplace"))


def memory_of(pid: int) -> int:
    """Return how many bytes of memory a process has, with all that it has started."""
    pages = 0
    for process in tree.family([pid]):
        with suppress(OSError), open(f"/proc/{process.pid}/statm", "rb") as file:
            pages += int(file.read().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def output_of(message: Message) -> Output:
    """Return what a run has written, as the message on its end has it."""
    if not message.keys() & _STREAMS:
        return SILENT
    (out, out_bytes), (err, err_bytes) = _stream(message, "stdout"), _stream(message, "stderr")
    return Output(stdout=out, stderr=err, stdout_bytes=out_bytes, stderr_bytes=err_bytes)


def _stream(message: Message, name: str) -> tuple[bytes, int]:
    if f"{name}64" in message:
        data = base64.b64decode(message[f"{name}64"])
    else:
        data = str(message.get(name, "")).encode("utf-8", "backslashreplace")
    return data, int(message.get(f"{name}_bytes", len(data)))


def show(warm: Warm, run: Run) -> None:
    """Let what a run writes be read by its name."""
    with suppress(OSError):
        os.link(warm.files[1], own_files(run.spool, run.job)[1])


def hide(run: Run) -> None:
    """Have nothing by the name of a run any more."""
    for path in own_files(run.spool, run.job):
        with suppress(OSError):
            os.unlink(path)


def output_since(warm: Warm, limit: int) -> Output:
    """Return what a program has written to stderr since the end of the run before."""
    path = warm.files[1]
    try:
        if not os.stat(path).st_size:
            return SILENT
        data, total = collect(path, limit)
        os.truncate(path, 0)
    except OSError:
        return SILENT
    return Output(stdout=b"", stderr=data, stdout_bytes=0, stderr_bytes=total)


def output_left(warm: Warm, limit: int) -> Output:
    """Read what the last run of a program that is gone has written."""
    out, out_bytes = collect(warm.files[0], limit) if warm.handler.is_ours else (b"", 0)
    err, err_bytes = collect(warm.files[1], limit)
    return Output(stdout=out, stderr=err, stdout_bytes=out_bytes, stderr_bytes=err_bytes)


# -- the end of a program ---------------------------------------------------------------


def why_none(warm: Warm, report: object) -> str:
    """Say why another program would have no better luck than one that is gone; empty if it may."""
    name = warm.handler.name
    if warm.unable:
        return f"{name} can't be imported: {warm.unable}"
    if isinstance(report, wire.Unable | wire.NotStarted):
        return f"{name} can't be started: {report.text}"
    in_vain = not warm.retiring and not warm.over and not warm.begun
    if isinstance(report, wire.Ended) and report.how == wire.EXITED and in_vain:
        code = _exit_in_words(os.waitstatus_to_exitcode(report.status))
        when = "began anything" if warm.is_ready else "was ready"
        return f"{name} ended with {code} before it {when}"
    return ""


def end_of(
    warm: Warm, number: int, handed: Handed, report: object, settings: Settings, *, outage: bool
) -> Outcome:
    """Say how a run ended during which its program did; maybe in an outage of the store."""
    if isinstance(report, LostRun):
        return Lost(report.why)
    if not isinstance(report, wire.Ended):
        return Lost("its program couldn't be started")
    if report.how == wire.LEASE and outage:
        return Released("the database was out of reach for too long")
    if warm.ended_for not in (None, number):
        return Lost("its program was ended, because of another run in it")
    if warm.blame:
        return Raised(warm.blame)
    code = os.waitstatus_to_exitcode(report.status)
    if (how := handed.ending or report.how) != wire.EXITED:
        return outcome_of(handed.run.job, code, how, settings)
    if code < 0:
        return Signalled(-code)
    return Raised(f"its process ended by itself, with {_exit_in_words(code)}")


def _exit_in_words(code: int) -> str:
    """Say with which exit code, or by which signal, a process ended."""
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
