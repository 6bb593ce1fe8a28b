"""The guards of a node: processes to start, to send messages to, and to hear from.

To start a process takes a guard a moment in which it can do nothing else. With short jobs one
guard would be what all workers wait for, so two of them share the workers.
"""

import math
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from queuectl.errors import QueuectlError
from queuectl.guard import signals, tree
from queuectl.guard.board import number_of
from queuectl.guard.wire import Decoder, encode
from queuectl.node.handover import HandedGuard

if TYPE_CHECKING:
    from queuectl.guard.wire import Message

MOST = 2
"""More of them would each have less to do than they cost."""
RETRIES = (0.1, 0.5, 1.0, 2.0)
"""Seconds until a guard that didn't start is started again."""
STALLED_AFTER = 30.0
"""Seconds after which a guard that takes nothing, or doesn't answer, counts as lost."""
_CHUNK = 1 << 16
_READY_WITHIN = 20.0
_LOOK_EVERY = 0.005


class GuardLostError(QueuectlError):
    """The guard is gone or doesn't answer, and with it the runs it held."""


class _Inherited:
    """A child that the program before us in this process has started; as `Popen` would show it."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody has reaped it, and nobody will ever know how it ended.
                self.returncode = -1
            else:
                self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        deadline = math.inf if timeout is None else time.monotonic() + timeout
        while (code := self.poll()) is None:
            if time.monotonic() > deadline:
                raise subprocess.TimeoutExpired("queuectl.guard", timeout or 0.0)
            time.sleep(_LOOK_EVERY)
        return code

    def kill(self) -> None:
        # As long as it isn't reaped, the pid is its own.
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)


class Guard:
    """A guard process, as its node sees it.

    Any thread may send; one thread receives. When the guard is lost, what it ran may still be
    there: a node that called `tree.become_subreaper` before has it among its descendants, and
    `tree.kill_descendants` ends it.
    """

    def __init__(
        self,
        process: subprocess.Popen[bytes] | _Inherited,
        link: socket.socket,
        unread: bytes = b"",
    ) -> None:
        self._process = process
        self._link = link
        self._decoder = Decoder(unread)
        self._sending = threading.Lock()
        self._unsent = b""
        self._took_at = 0.0
        """When it last took something, as long as it doesn't take all."""
        self._lost = False
        self.pid = process.pid
        self.start_time = tree.process_start(process.pid) or 0

    @classmethod
    def start(cls, *, env: Mapping[str, str] | None = None, hidden: Collection[str] = ()) -> Self:
        """Start a guard, and wait until it is ready."""
        guard = cls.launch(env=env, hidden=hidden)
        guard.wait_until_ready()
        return guard

    @classmethod
    def launch(cls, *, env: Mapping[str, str] | None = None, hidden: Collection[str] = ()) -> Self:
        """Start a guard whose jobs inherit this environment with `env` laid over it.

        Variables in `hidden` they don't get to see.
        """
        inherited = {name: value for name, value in os.environ.items() if name not in hidden}
        link, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        link.setblocking(False)
        with theirs, _deaf():
            process = subprocess.Popen(
                # -P: a file in the current directory must not pass for a module.
                [sys.executable, "-P", "-m", "queuectl.guard", str(theirs.fileno())],
                env={**inherited, **(env or {})},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        return cls(process, link)

    @classmethod
    def inherit(cls, handed: HandedGuard) -> Self:
        """Go on with a guard that the program before us in this process has started."""
        link = socket.socket(fileno=handed.link)
        link.setblocking(False)
        return cls(_Inherited(handed.pid), link, bytes.fromhex(handed.unread))

    def hand_over(self) -> HandedGuard:
        """Describe it to the next program of this process; it has taken all that it was sent."""
        return HandedGuard(pid=self.pid, link=self.fileno(), unread=self._decoder.unread.hex())

    def wait_until_ready(self) -> None:
        """Wait until it serves; if that fails, it is closed."""
        deadline = time.monotonic() + _READY_WITHIN
        try:
            poll = select.poll()
            poll.register(self._link, select.POLLIN)
            while not poll.poll(max(0.0, deadline - time.monotonic()) * 1000):
                if time.monotonic() > deadline:
                    raise self._loss("does not start")
            # It reports only what it was asked for, so there is nothing else yet.
            self.receive()
        except GuardLostError:
            self.close()
            raise

    def fileno(self) -> int:
        """Return the descriptor that is readable when `receive` has something."""
        return self._link.fileno()

    def send(self, messages: "Sequence[Message]") -> None:
        """Hand messages to the guard, in order; what it doesn't take now is kept for later."""
        with self._sending:
            if not self._unsent:
                self._took_at = time.monotonic()
            self._unsent += encode(messages)
            self._push()

    @property
    def has_unsent(self) -> bool:
        """Whether there is something that it didn't take yet; `receive` tries again."""
        return bool(self._unsent)

    def stalls_in(self) -> float:
        """Return in how many seconds it counts as lost, if it takes nothing."""
        return self._took_at + STALLED_AFTER - time.monotonic() if self._unsent else math.inf

    def _push(self) -> None:
        """Send as much as its socket takes now."""
        try:
            while self._unsent:
                self._unsent = self._unsent[self._link.send(self._unsent) :]
                self._took_at = time.monotonic()
        except BlockingIOError:
            if self.stalls_in() <= 0:
                # Half a message may be under way. From here on it is gone for everybody.
                self.kill()
        except OSError as error:
            raise self._loss(f"is gone: {error}") from error

    def receive(self) -> "list[Message]":
        """Return the messages that have arrived, without waiting for any."""
        if self._unsent:
            with self._sending:
                self._push()
        try:
            chunk = self._link.recv(_CHUNK)
        except BlockingIOError:
            return []
        except OSError as error:
            raise self._loss(f"is gone: {error}") from error
        if not chunk:
            raise self._loss("is gone")
        return self._decoder.feed(chunk)

    def _loss(self, what: str) -> GuardLostError:
        self._lost = True
        return GuardLostError(f"the guard process {what}")

    def kill(self) -> None:
        """Kill it, so that it is gone for everybody."""
        self._process.kill()

    def hang_up(self) -> None:
        """Let the guard end, without waiting for that."""
        self._link.close()

    def close(self, within: float = 5.0) -> bool:
        """Let the guard kill what still runs, and end.

        False means that it was lost or had to be killed, so that something may be left.
        """
        self.hang_up()
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return self._process.returncode == 0 and not self._lost

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


class Guards:
    """All guards of a node; each worker has one of them, and keeps it."""

    def __init__(self, hidden: Collection[str], env: Mapping[str, str] | None = None) -> None:
        """There are none yet. Jobs find `env` laid over our environment, but no `hidden` names."""
        self._guards: list[Guard] = []
        self._hidden = hidden
        self._env = env

    def start(self, workers: int) -> None:
        """Start as many as these workers are worth."""
        count = min(MOST, workers, _cores())
        self._guards = [Guard.launch(env=self._env, hidden=self._hidden) for _ in range(count)]
        try:
            for guard in self:
                guard.wait_until_ready()
        except GuardLostError:
            self.close()
            raise

    def inherit(self, handed: Sequence[HandedGuard]) -> None:
        """Go on with those of the program before us in this process."""
        self._guards = [Guard.inherit(guard) for guard in handed]

    def __iter__(self) -> Iterator[Guard]:
        return iter(tuple(self._guards))

    def __len__(self) -> int:
        return len(self._guards)

    def of(self, worker: int) -> Guard:
        """Return the guard of a worker."""
        return self._guards[number_of(worker, len(self._guards)) - 1]

    def number(self, guard: Guard) -> int:
        """Return which of them this is, counted from one."""
        return 1 + self._guards.index(guard)

    def pids(self) -> set[int]:
        """Return their processes."""
        return {guard.pid for guard in self._guards}

    def tell_all(self, messages: "Sequence[Message]") -> None:
        """Tell all of them something. Who is gone has no runs; the node's loop notices."""
        for guard in self:
            with suppress(GuardLostError):
                guard.send(messages)

    def replace(self, lost: Guard) -> Guard:
        """Put a new guard in the place of one that is gone, and don't give up at once."""
        for pause in (*RETRIES, None):
            try:
                new = Guard.start(env=self._env, hidden=self._hidden)
                break
            except (GuardLostError, OSError):
                if pause is None:
                    raise
                # The runs of the other guards go on meanwhile.
                time.sleep(pause)
        self._guards[self._guards.index(lost)] = new
        return new

    def close(self) -> None:
        """Let them kill what still runs, all at once, and end."""
        for guard in self:
            guard.hang_up()
        for guard in self:
            guard.close()


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@contextmanager
def _deaf() -> Iterator[None]:
    """Hold all signals back from the process that is started here, until it sees to them itself."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signals.harmless())
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
