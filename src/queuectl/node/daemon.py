"""Puts a node into the background: a process without a terminal that tells when it is up.

The process that was asked stays until the node has started, so that it can pass on the reason
when it can't. What the daemon has to say goes through a pipe, one line of JSON each: first its
pid, then whether it is up.
"""

import json
import os
import signal
import stat
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, NoReturn

from queuectl import errors
from queuectl.errors import EXIT_FAILED, QueuectlError, StateError
from queuectl.host import process_start

Work = Callable[["Daemon"], int]
"""What a daemon does: `log_to` first, then `ready` when it is up; returns the exit code."""

CLOCK_SLACK = 2.0
"""How far apart, in seconds, a process and its pidfile may seem to start: boot time is rough."""


def detach(work: Work) -> int:
    """Run `work` in a process of its own, away from this terminal; returns its pid once it is up.

    If it fails before that, its error is raised here. Open no store before calling this: a
    connection must not be carried across a fork.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _leave(work, writer)
    os.close(writer)
    os.waitpid(child, 0)
    with open(reader, "rb") as pipe:
        return _listen(pipe)


def go_on(work: Work) -> int:
    """Run `work` in this process, which is a daemon already, started again; returns its exit code.

    Nobody waits for it to be up, so what keeps it from that is said in its log.
    """
    return _serve(work, None)


def _listen(pipe: IO[bytes]) -> int:
    pid = 0
    try:
        pid = int(_message(pipe)["pid"])
        heard = _message(pipe)
    except KeyboardInterrupt:
        if pid:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        raise
    if "error" not in heard:
        return pid
    kind = getattr(errors, heard["error"], QueuectlError)
    raise kind(heard["text"])


def _message(pipe: IO[bytes]) -> dict[str, Any]:
    line = pipe.readline()
    if not line:
        raise QueuectlError(
            "The node ended before it was up; start it without --daemon to see what happens."
        )
    message: dict[str, Any] = json.loads(line)
    return message


def _leave(work: Work, writer: int) -> NoReturn:
    """Become the daemon: not a session leader, so that no terminal can become its own."""
    code = EXIT_FAILED
    try:
        os.setsid()
        if os.fork() > 0:
            os._exit(0)
        os.closerange(3, writer)
        os.closerange(writer + 1, os.sysconf("SC_OPEN_MAX"))
        _redirect(os.open(os.devnull, os.O_RDWR), 0, 1)
        code = _serve(work, writer)
    finally:
        # Not sys.exit: the frames of the command line above are those of the process that asked.
        with suppress(OSError):
            sys.stderr.flush()
        os._exit(code)


class Daemon:
    """The process in the background, as it sees itself."""

    def __init__(self, writer: int | None) -> None:
        """`writer` leads to whoever asked for it; None if nobody waits to hear from it."""
        self._writer = writer

    def log_to(self, path: str) -> None:
        """Send what goes wrong unforeseen to a log file, and let go of the terminal.

        Before any process is started: it would keep the terminal, or whatever reads the output.
        """
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        _redirect(os.open(path, flags, 0o600), 2)

    def ready(self) -> None:
        """Tell whoever asked that the node is up."""
        if self._writer is not None:
            _tell(self._writer, {"up": True})
            os.close(self._writer)
            self._writer = None

    def fail(self, kind: str, text: str) -> None:
        """Tell why it ends: whoever asked, or the log when nobody listens any more."""
        if self._writer is None:
            print(f"queuectl: {text}", file=sys.stderr)
        else:
            _tell(self._writer, {"error": kind, "text": text})


def _serve(work: Work, writer: int | None) -> int:
    daemon = Daemon(writer)
    try:
        if writer is not None:
            _tell(writer, {"pid": os.getpid()})
        return work(daemon)
    except QueuectlError as error:
        daemon.fail(type(error).__name__, error.advised)
        return error.exit_code
    except OSError as error:
        daemon.fail("QueuectlError", _sentence(error))
    except BaseException as error:  # noqa: BLE001 - nobody above is left to see it
        import traceback

        traceback.print_exc()
        daemon.fail("QueuectlError", f"Unexpected {type(error).__name__}: {error}.")
    return EXIT_FAILED


def _tell(writer: int, message: dict[str, Any]) -> None:
    with suppress(BrokenPipeError):  # whoever asked was interrupted and has sent SIGTERM
        os.write(writer, json.dumps(message).encode() + b"\n")


def _redirect(source: int, *targets: int) -> None:
    for target in targets:
        os.dup2(source, target)
    if source not in targets:
        os.close(source)


def _sentence(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{reason}." if error.filename is None else f"{error.filename}: {reason}."


@contextmanager
def pidfile(path: str | None) -> Iterator[None]:
    """Keep this process's pid in a file while the block runs; None keeps none.

    A file that names a living process is left alone, and that is a `StateError`. One that was
    left by a dead process, or names a pid that was given to another one since, is replaced.
    """
    if path is None:
        yield
        return
    path = os.path.abspath(path)
    _write_pidfile(path)
    try:
        yield
    finally:
        with suppress(OSError, StateError):  # somebody took it away, or put something else there
            if _read_pid(path) == os.getpid():
                os.unlink(path)


def _write_pidfile(path: str) -> None:
    with _locked(os.path.dirname(path)):
        if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):
            raise StateError(f"{path} isn't a plain file; name another one for the pid.")
        other = _owner(path)
        if other is not None:
            raise StateError(
                f"{path} belongs to the running process {other}; "
                "stop that first, or name another file."
            )
        new = f"{path}.{os.getpid()}"
        file = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
        try:
            os.fchmod(file, 0o600)
            os.write(file, b"%d\n" % os.getpid())
            os.fsync(file)
            os.rename(new, path)
        except OSError:
            os.unlink(new)
            raise
        finally:
            os.close(file)


@contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Keep two starts with one pidfile from both finding it free."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network filesystems can't; the check still helps
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _owner(path: str) -> int | None:
    """Return the living process a pidfile belongs to, if there is one."""
    pid = _read_pid(path)
    if pid is None or pid == os.getpid() or process_start(pid) is None:
        return None
    import psutil

    try:
        started = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        return None
    # A process younger than the file isn't the one that wrote it: the pid was recycled.
    return None if started > os.stat(path).st_mtime + CLOCK_SLACK else pid


def _read_pid(path: str) -> int | None:
    try:
        with open(path, "rb") as file:
            text = file.read(64).strip()
    except FileNotFoundError:
        return None
    if not text:
        return None
    if not text.isdigit():
        raise StateError(f"{path} holds something else than a pid; name another file.")
    return int(text)
