"""Messages between a node and its guard, each kind with its fields, and the frames that carry them.

On the wire a message is a tuple: the word of its kind, then its fields. A frame is four bytes of
length, then a marshalled list of such tuples. Both ends are the same interpreter, or speak the same
`DIALECT`, so `marshal` fits: it is fast, needs no import, and carries any text or bytes.
"""

import marshal
from collections import namedtuple

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Sequence
    from dataclasses import dataclass as message
    from typing import Any, TypedDict

    from queuectl.bounds import Bounds

    class Spec(TypedDict):
        """What a run is made of."""

        argv: list[str]
        """The command; its first item is found as a shell would find it."""
        cwd: str | None
        """Where it starts; None is where the guard was started."""
        called: str | None
        """What to call the program when it can't be started; None is its name."""
        env: dict[str, str]
        """Variables laid over the guard's own."""
        whole: bool
        """Whether `env` takes the place of the guard's own instead."""
        told: dict[bytes, bytes]
        """More variables that are laid over these."""
        owner: str
        """Whose the run is: see `mark.py`."""
        token: str
        """Unique to the run; the job gets it as QUEUECTL_RUN."""
        worker: int
        """Which worker runs it: one run at a time, the next when it is over. 0 is none: it is a
        program that runs jobs itself, is started at once, and stands on no board."""
        stdout: str
        """Path of the file to append to, or to have in the end: see `files.py`."""
        stderr: str
        """The same."""
        stdin: str | None
        """Path of the file to read, or None for no input."""
        timeout: float | None
        """Seconds until it is stopped, or None."""
        grace: float
        """Seconds between SIGTERM and SIGKILL."""
        interval: float
        """Seconds after which SIGTERM is sent again, as long as that lasts."""
        output_limit: int
        """Bytes to keep of each stream."""
        bounds: Bounds | None
        """What it may use; None for all there is."""

    Used = tuple[int, int, int, int]
    """Bytes of memory at most, milliseconds of CPU time, bytes read from disks, and written."""

else:

    def message(*, frozen):
        """Make a named tuple of a class with annotations."""
        return lambda kind: namedtuple(kind.__name__, kind.__annotations__)


DIALECT = (5, marshal.version)
"""What both ends must speak alike. The first number goes up with every change of a message: a node
that is restarted in place may be of another release than the guards that it goes on with."""

EXITED = "exited"
TIMEOUT = "timeout"
LEASE = "lease"
CANCEL = "cancelled"
RELEASE = "released"
CPU_TIME = "cpu time"
MEMORY = "memory"
"""How a run comes to its end: by itself, by the guard's clocks, as the node wants it, or
as it used more than it may."""

_PER_FRAME = 64  # Keeps a frame of very long commands to a few megabytes.


# -- node to guard ----------------------------------------------------------------------


@message(frozen=True)
class Spawn:
    """Start a run, as soon as its worker is free."""

    run: int
    spec: "Spec"


@message(frozen=True)
class Release:
    """Don't start a run, unless it has been started."""

    run: int


@message(frozen=True)
class Stop:
    """Send SIGTERM to all of a run, and SIGKILL when its grace is over."""

    run: int
    how: str


@message(frozen=True)
class Kill:
    """Send SIGKILL to all of a run."""

    run: int
    how: str


@message(frozen=True)
class Pause:
    """Stop all processes of a run, and its timeout, until it is resumed; or don't start it."""

    run: int


@message(frozen=True)
class Resume:
    """Let a run that is paused go on."""

    run: int


@message(frozen=True)
class Extend:
    """Kill every run when that clock gets to the deadline; None: never."""

    clock: int
    deadline: float | None


@message(frozen=True)
class KeepBoard:
    """Keep what each worker runs on this board, which is one of so many: see `board.py`."""

    path: str
    boards: int
    first: bool
    more: int


# -- guard to node ----------------------------------------------------------------------


@message(frozen=True)
class Ready:
    """The guard serves."""

    pid: int


@message(frozen=True)
class Ended:
    """A run is over: no process of it is left.

    `status` is the wait status of its main process; `how` is `EXITED`, `TIMEOUT`, `LEASE` or the
    word of the stop or kill; the times are monotonic. A run that was stopped before it started
    never ran: then both times are equal, and nothing was `used`. What this host couldn't keep it
    to, and it ran all the same, is `noted`.
    """

    run: int
    status: int
    how: str
    began: float
    ended: float
    stdout_bytes: int
    stderr_bytes: int
    used: "Used | None"
    noted: str | None


@message(frozen=True)
class Released:
    """A run wasn't started, and won't be: as was asked for, or because the lease was over."""

    run: int


@message(frozen=True)
class NotStarted:
    """A run can't be started, for a reason that lies with the job."""

    run: int
    errno: int
    text: str


@message(frozen=True)
class Unable:
    """A run can't be started, as this host can't start anything now."""

    run: int
    errno: int
    text: str


@message(frozen=True)
class Trouble:
    """A run can't be ended, or paused; said again while that lasts."""

    run: int
    text: str


if TYPE_CHECKING:
    Instruction = Spawn | Release | Stop | Kill | Pause | Resume
    """What a node wants of one run."""
    Report = Ended | Released | NotStarted | Unable
    """What became of a run: the last that is heard of it."""
    Message = Instruction | Extend | KeepBoard | Ready | Report | Trouble

KINDS: "dict[str, Any]" = {
    "spawn": Spawn,
    "withdraw": Release,
    "stop": Stop,
    "kill": Kill,
    "pause": Pause,
    "resume": Resume,
    "lease": Extend,
    "board": KeepBoard,
    "ready": Ready,
    "ended": Ended,
    "withdrawn": Released,
    "not_started": NotStarted,
    "unable": Unable,
    "trouble": Trouble,
}
"""The words of the wire."""
_WORDS = {kind: word for word, kind in KINDS.items()}


def encode(messages: "Sequence[Message]") -> bytes:
    """Turn messages into frames."""
    frames = bytearray()
    for first in range(0, len(messages), _PER_FRAME):
        part: Sequence[Any] = messages[first : first + _PER_FRAME]
        body = marshal.dumps([(_WORDS[type(one)], *one) for one in part])
        frames += len(body).to_bytes(4, "little")
        frames += body
    return bytes(frames)


class Decoder:
    """Turns what arrives, cut anywhere, back into messages."""

    __slots__ = ("_buffer",)

    def __init__(self, unread: bytes = b"") -> None:
        self._buffer = bytearray(unread)

    @property
    def unread(self) -> bytes:
        """The beginning of a message whose end hasn't arrived."""
        return bytes(self._buffer)

    def feed(self, chunk: bytes) -> "list[Message]":
        """Take bytes in and return the messages that are now complete."""
        buffer = self._buffer
        buffer += chunk
        messages: list[Message] = []
        at = 0
        while len(buffer) - at >= 4:
            end = at + 4 + int.from_bytes(buffer[at : at + 4], "little")
            if end > len(buffer):
                break
            with memoryview(buffer) as view, view[at + 4 : end] as body:
                for word, *fields in marshal.loads(body):
                    messages.append(KINDS[word](*fields))
            at = end
        del buffer[:at]
        return messages
