"""The values everything else speaks in: jobs, attempts, outcomes and transitions.

Times are milliseconds since 1970 (UTC) by the store's clock; durations are milliseconds. For
programs, jobs and attempts have them as `datetime` and `timedelta` as well: `created_at` is the
number, `created` the time. Nothing here decides anything: `lifecycle` does.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import repeat
from operator import is_
from typing import TYPE_CHECKING, Any, Union

from queuectl.values import dataclass, field, fields, in_order, rowclass

if TYPE_CHECKING:
    from datetime import datetime, timedelta

    from queuectl.fields import Identified
    from queuectl.parameters import Parameters

DEFAULT_QUEUE = "default"
SHELL = "/bin/sh"
"""What reads the command of a job that names no other shell."""
TYPE = "type:"
"""What the handler of a data job begins with; its type follows."""
ANY_TYPE = "type:*"
"""What a node is said to handle that takes data jobs of all types."""
NEEDS = "needs:"
"""What the handler of a job begins with that needs resources or labels; its class of need follows,
and behind a space the handler that it would have without."""
ANY_HANDLER = "*"
"""All that there is, for whoever asks about jobs and runs none."""
WEBHOOK = "webhook:"
"""What the task of a delivery begins with; the name of its webhook follows."""


class State(StrEnum):
    """Where a job stands. The diagram is in docs/lifecycle.md."""

    BLOCKED = "blocked"
    """Waits for other jobs to complete."""
    PENDING = "pending"
    """Waits for a worker, or for its `run_at`."""
    PROCESSING = "processing"
    """A worker runs it now."""
    COMPLETED = "completed"
    """Its last run exited with 0."""
    FAILED = "failed"
    """Its last run failed; it waits for its retry at `run_at`."""
    DEAD = "dead"
    """Given up, with a reason: the dead letter queue."""
    CANCELLED = "cancelled"
    """Called off by somebody, before or while it ran."""


WAITING = (State.PENDING, State.FAILED, State.BLOCKED)
FINISHED = (State.COMPLETED, State.DEAD, State.CANCELLED)
OPEN = (*WAITING, State.PROCESSING)
"""The states of jobs that aren't finished."""
DUE = ("later", "now")
"""What jobs that wait may wait for: their time, or no longer for that."""


class Strategy(StrEnum):
    """How the wait grows from retry to retry."""

    EXPONENTIAL = "exponential"
    LINEAR = "linear"
    FIXED = "fixed"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A request for a job. `None` means: whatever the settings say when it is enqueued."""

    command: str | None = None
    argv: tuple[str, ...] | None = None
    type: str | None = None
    """What it is one of, if it is a data job: empty for none in particular."""
    data: bytes | None = field(default=None, repr=False)
    id: str | None = None
    queue: str = DEFAULT_QUEUE
    priority: int = 0
    run_at: int | None = None
    delay: int | None = None
    expires_at: int | None = None
    expire: int | None = None
    timeout: int | None = None
    max_retries: int | None = None
    backoff: Strategy | None = None
    backoff_base: float | None = None
    retry_delay: int | None = None
    max_backoff: int | None = None
    bounds: Mapping[str, Any] = field(default_factory=dict)
    """What a run may use, by the names of the fields; times are milliseconds."""
    cwd: str | None = None
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    env_all: bool | None = None
    shell: str | None = None
    stdin: bytes | None = field(default=None, repr=False)
    tags: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    after_group: tuple[str, ...] = ()
    if_parent_fails: str | None = None
    group: str | None = None
    max_fails: int | None = None
    """How many jobs of its group may be dead before those that wait are cancelled."""
    parameters: Mapping[str, str | int] | None = None
    at_once: str | None = None
    """How many of those with a name run at once, and the name: it becomes one of its keys."""
    needs: str | None = None
    """Amounts of resources, as `resources` writes them."""
    requires: tuple[str, ...] = ()
    unique: str | None = None
    unique_until: str | None = None
    unique_for: int | None = None
    on_duplicate: str | None = None
    max_wait: int | None = None
    on_success: str | None = None
    on_failure: str | None = None
    on_dead: str | None = None
    """Commands to run as jobs of their own then; an empty one is none, whatever the queue says."""
    traceparent: str | None = None
    tracestate: str | None = None
    tick: str | None = None
    """Set by a schedule only."""
    hook: str | None = None
    """Set by the end of another job only."""
    body_digest: str | None = None
    """Set by who takes requests over HTTP only."""
    is_limited: bool = False
    """Whether its queue has limits that a new job must keep; with a key, it has shares at least."""

    @property
    def has_limits(self) -> bool:
        """Whether its place in the line, or whether it gets one, is decided by more than itself."""
        return bool(self.keys or self.is_limited)


OneOfMany = tuple[str | None, str | None, tuple[str, ...] | None, str | None, NewJob]
"""One of many jobs that are enqueued at once: its own id, command, argv and parameters (as they are
stored), and what it shares.

The latter is a `NewJob` without these four, the same for all jobs that don't differ otherwise.
"""


def distinct(models: Iterable[NewJob]) -> Collection[NewJob]:
    """Return what many jobs share, each once."""
    known = list(models)
    if all(map(is_, known, repeat(known[0] if known else None))):
        return known[:1]
    return dict(zip(map(id, known), known, strict=True)).values()


@rowclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A stored job, one field per column. `from_row` stands next to the fields on purpose."""

    seq: int
    """Its place in the line: smaller came first."""
    id: str
    queue: str
    state: State
    priority: int
    command: str | None
    argv: tuple[str, ...] | None
    task: str | None
    data: bytes | None = field(repr=False)
    cwd: str | None
    env: Mapping[str, str] = field(repr=False)
    """Variables that are set for it. Their values are secrets, and nowhere shown."""
    env_all: bool
    """Whether `env` is its whole environment; else it lies over that of the worker."""
    bounds: Mapping[str, Any]
    """What a run may use, by the names of the fields; times are milliseconds."""
    shell: str | None
    """The program that reads its command; None is `SHELL`."""
    stdin_bytes: int | None
    """How many bytes its runs find on stdin, which the store keeps; None when there are none."""
    tags: tuple[str, ...]
    after: tuple[str, ...]
    """The jobs that it waits for, or did, and how these must end: `ID`, `ID:fail` or `ID:any`."""
    after_group: tuple[str, ...]
    """The groups that it waits for, or did: `NAME` or `NAME:any`."""
    group: str | None
    """What it is waited for together with."""
    if_parent_fails: str | None
    """What becomes of it if one that is to complete is dead; None is that it stays blocked."""
    parameters: Mapping[str, str | int]
    """What it has to itself of an array or a sweep, by names: its runs have it as variables."""
    unique_key: str | None
    """What only one job at a time can have."""
    run_at: int
    expires_at: int | None
    timeout: int | None
    """Milliseconds a run may take; 0 for ever; None when the settings decide at the run."""
    max_retries: int | None
    backoff: Strategy | None
    backoff_base: float | None
    retry_delay: int | None
    max_backoff: int | None
    attempts: int
    """Runs started. The number of the newest run, and the fence of its writes."""
    failures: int
    """Runs that failed since it was enqueued or retried by hand."""
    crashes: int
    """Runs lost with their worker since then."""
    node: str | None
    worker: int | None
    created_at: int
    updated_at: int
    started_at: int | None
    finished_at: int | None
    duration_ms: int | None
    exit_code: int | None
    error: str | None
    reason: str | None
    cancel_reason: str | None
    """Set while a running job is being cancelled."""
    tick: str | None
    """The tick of a schedule that made it: when that was planned, and the schedule's name."""
    keys: tuple[str, ...]
    """Whom it is for: what limits of its queue count by."""
    vtime: int
    """Where it stands among those of its priority: a virtual time, if its queue has keys."""
    parked: str | None
    """The key whose limit it waits for; empty if it is held by hand."""
    unique_until: str | None
    """Until when it has its unique key: `start`, or None for its end."""
    unique_for: int | None
    """Milliseconds for which it has that at least, from when it was enqueued."""
    on_success: str | None
    on_failure: str | None
    on_dead: str | None
    """Commands that are run, as jobs of their own, when it completes, fails or dies."""
    hook: str | None
    """What it tells of, if it is a hook: occasion, attempt, its exit code, and the other's id."""
    handler: str
    """What a node must have to run it; empty for commands, which every node can run."""
    forced: str | None
    """What it is to come to by hand, as JSON, or empty: it counts while `cancel_reason` is set."""
    body_digest: str | None
    """Of the HTTP request that made it, if one did: who sends the same again gets it as it is."""
    open_parents: int
    """How many of those don't allow it to run."""
    has_children: bool
    """Whether other jobs wait, or waited, for it."""
    needs: str | None
    """What it needs of its node for itself: `cpu=2,gpu=0.5,mem=8589934592`."""
    requires: tuple[str, ...]
    """Labels that its node must have."""
    devices: Mapping[str, tuple[int, ...]]
    """Which devices of each kind its newest run was given."""
    traceparent: str | None
    tracestate: str | None
    """The trace that it is a part of, in the words of W3C, if it was enqueued in one."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Job":
        """Build a job from a row that has `JOB_COLUMNS` in their order."""
        values = list(row)
        argv, tags, env, backoff = values[_ARGV], values[_TAGS], values[_ENV], values[_BACKOFF]
        values[_STATE] = _STATES.get(values[_STATE]) or State(values[_STATE])
        # Whatever a foreign client may have put there, one odd row must not stop the others.
        values[_ARGV] = None if argv is None else tuple(map(str, _loads(argv)))
        values[_TAGS] = () if tags is None else tuple(map(str, _loads(tags)))
        keys = values[_KEYS]
        values[_KEYS] = () if keys is None else tuple(map(str, _loads(keys)))
        values[_ENV] = {} if env is None else {k: str(v) for k, v in _loads(env).items()}
        values[_ENV_ALL] = bool(values[_ENV_ALL])
        values[_BACKOFF] = None if backoff is None else Strategy(backoff)
        after = values[_AFTER]
        values[_AFTER] = () if after is None else tuple(map(str, _loads(after)))
        groups = values[_AFTER_GROUP]
        values[_AFTER_GROUP] = () if groups is None else tuple(map(str, _loads(groups)))
        values[_HAS_CHILDREN] = bool(values[_HAS_CHILDREN])
        requires, devices = values[_REQUIRES], values[_DEVICES]
        values[_REQUIRES] = () if requires is None else tuple(map(str, _loads(requires)))
        values[_DEVICES] = {} if devices is None else read_devices(devices)
        bounds = values[_BOUNDS]
        values[_BOUNDS] = {} if bounds is None else dict(_loads(bounds))
        own = values[_PARAMETERS]
        values[_PARAMETERS] = {} if own is None else _read_parameters(own)
        return in_order(cls, values)

    @property
    def type(self) -> str | None:
        """What it is one of, if it is a data job; empty for none in particular."""
        handler = self.handler
        if not handler:
            return None
        return self.task if base_handler(handler).startswith(TYPE) else None

    @property
    def webhook(self) -> str | None:
        """The webhook that it delivers to, if that is what it does; every node can do that."""
        if self.task is None or not self.task.startswith(WEBHOOK) or base_handler(self.handler):
            return None
        # One that was made another job by hand is told no secret.
        is_command = self.command is not None or self.argv is not None
        return None if is_command else self.task.removeprefix(WEBHOOK)

    @property
    def is_forced(self) -> bool:
        """Whether somebody completes it by hand: it is that as soon as its run has ended."""
        return self.cancel_reason is not None and self.forced is not None

    @property
    def is_held(self) -> bool:
        """Whether somebody holds it: it waits until it is released."""
        return self.parked == ""

    @property
    def awaits(self) -> bool:
        """Whether it waits for others to end, or did."""
        return bool(self.after or self.after_group)

    @property
    def schedule(self) -> str | None:
        """The schedule that made it, if one did."""
        return None if self.tick is None else self.tick.partition(" ")[2]

    @property
    def planned(self) -> int | None:
        """When the tick that made it was planned, in milliseconds, if one did."""
        return None if self.tick is None else int(self.tick.partition(" ")[0])

    @property
    def scheduled_for(self) -> "datetime | None":
        """The same as a moment."""
        return None if (at := self.planned) is None else moment(at)

    @property
    def has_hooks(self) -> bool:
        """Whether anything is to be run when it completes, fails or dies; of a hook nothing is."""
        hooks = self.on_success or self.on_failure or self.on_dead
        return hooks is not None and self.hook is None

    @property
    def hook_of(self) -> str | None:
        """The id of the job whose end it tells of, if it is a hook."""
        return None if self.hook is None else self.hook.split(" ", 3)[-1]

    @property
    def trace_id(self) -> str | None:
        """The id of the trace that it is a part of, if it was enqueued in one."""
        if self.traceparent is None:
            return None
        from queuectl.tracecontext import read_parent

        parent = read_parent(self.traceparent)
        return None if parent is None else parent.trace

    @property
    def title(self) -> str:
        """What it runs, in one line of text."""
        if self.command is not None:
            return self.command
        if self.argv is not None:
            from shlex import join

            return join(self.argv)
        if self.type is None:
            return self.task or ""
        return f"{self.type} (data)".lstrip()

    @property
    def created(self) -> "datetime":
        """When it was enqueued."""
        return moment(self.created_at)

    @property
    def due(self) -> "datetime":
        """When it may run, or might have."""
        return moment(self.run_at)

    @property
    def expires(self) -> "datetime | None":
        """When it is dead if it hasn't started."""
        return None if self.expires_at is None else moment(self.expires_at)

    @property
    def updated(self) -> "datetime":
        """When it last changed."""
        return moment(self.updated_at)

    @property
    def started(self) -> "datetime | None":
        """When its newest run started."""
        return None if self.started_at is None else moment(self.started_at)

    @property
    def finished(self) -> "datetime | None":
        """When its newest run ended, or it was given up or called off."""
        return None if self.finished_at is None else moment(self.finished_at)

    @property
    def duration(self) -> "timedelta | None":
        """How long its newest run took."""
        return None if self.duration_ms is None else span(self.duration_ms)

    @property
    def max_attempts(self) -> int | None:
        """Runs it will have had when all retries that are left are used up.

        Runs that crashed, were released, or came before a retry by hand count on top.
        """
        if self.state == State.DEAD and self.attempts:
            return self.attempts
        if self.max_retries is None:
            return None
        left = max(0, self.max_retries - self.failures)
        if self.state in WAITING or not self.attempts:
            left += 1
        return self.attempts + left


def handler_of(type: str | None) -> str:
    """Return what a node must have to run a job of this type; that of commands has none."""
    return "" if type is None else TYPE + type


def base_handler(handler: str) -> str:
    """Return what would be enough for a job if it needed no resources and labels."""
    return handler.partition(" ")[2] if handler.startswith(NEEDS) else handler


def told_handler(handler: str) -> str:
    """Say in words what a node must have to run a job."""
    type = base_handler(handler).removeprefix(TYPE)
    return f"type {type}" if type else "data without a type"


def read_devices(text: str) -> dict[str, tuple[int, ...]]:
    """Read which devices a run was given, as they are stored."""
    return {name: tuple(map(int, found)) for name, found in _loads(text).items()}


def _loads(text: str) -> Any:
    # Most jobs have nothing to read so, and most commands read no others.
    import json

    return json.loads(text)


def _read_parameters(text: str) -> "Parameters":
    from queuectl.parameters import read

    return read(text)


_STATES: dict[str, State] = {state.value: state for state in State}
Named = Union[str, Job, "Identified"]
"""What says which job is meant: its id or, in place of that, the job, or what stands for it."""

JOB_COLUMNS = tuple(f.name for f in fields(Job))
(
    _STATE,
    _ARGV,
    _TAGS,
    _ENV,
    _ENV_ALL,
    _BACKOFF,
    _KEYS,
    _AFTER,
    _AFTER_GROUP,
    _HAS_CHILDREN,
    _PARAMETERS,
    _BOUNDS,
) = map(
    JOB_COLUMNS.index,
    (
        "state argv tags env env_all backoff keys after after_group has_children parameters bounds"
    ).split(),
)
_REQUIRES, _DEVICES = map(JOB_COLUMNS.index, ("requires", "devices"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """One run of a job, as it is kept. `outcome` is the name of how it ended."""

    job: str
    number: int
    node: str
    host: str
    worker: int
    started_at: int
    finished_at: int
    duration_ms: int
    outcome: str
    exit_code: int | None
    signal: int | None
    error: str | None
    stdout_bytes: int
    """Bytes the run wrote; more than is kept when the middle was left out."""
    stderr_bytes: int
    peak_memory: int | None = None
    """Bytes of memory that it had at most; None where nobody has counted, as with all of these."""
    cpu_ms: int | None = None
    """Milliseconds of CPU time that it used."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    """Bytes that it read from disks, and wrote to them."""
    noted: str | None = None
    """What it wasn't kept to, as its host can't."""

    @classmethod
    def from_row(cls, row: Sequence[Any]) -> "Attempt":
        """Build an attempt from a row that has `ATTEMPT_COLUMNS` in their order."""
        return cls(**dict(zip(ATTEMPT_COLUMNS, row, strict=True)))

    @property
    def started(self) -> "datetime":
        """When it started."""
        return moment(self.started_at)

    @property
    def finished(self) -> "datetime":
        """When it ended."""
        return moment(self.finished_at)

    @property
    def duration(self) -> "timedelta":
        """How long it took."""
        return span(self.duration_ms)


ATTEMPT_COLUMNS = tuple(f.name for f in fields(Attempt))


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """What a run wrote, within `output_limit`: head and tail, and how much there was in all."""

    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    stderr_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What a run has used, as far as that was counted."""

    peak_memory: int | None = None
    """Bytes of memory that it had at most."""
    cpu_ms: int | None = None
    """Milliseconds of CPU time."""
    read_bytes: int | None = None
    written_bytes: int | None = None
    """Bytes that it read from disks, and wrote to them."""


@dataclass(frozen=True, slots=True)
class Exited:
    """The command ended by itself with this exit code."""

    code: int

    name = "exited"

    def describe(self) -> str:
        """Say what happened."""
        match self.code:
            case 126:
                return "exit code 126 (found, but can't be executed)"
            case 127:
                return "exit code 127 (command not found)"
            case code if 128 < code <= 128 + 64:
                return f"exit code {code} (a child was killed by {signal_name(code - 128)})"
            case code:
                return f"exit code {code}"


@dataclass(frozen=True, slots=True)
class Signalled:
    """The command was killed by a signal that queuectl didn't send."""

    signal: int

    name = "signalled"

    def describe(self) -> str:
        """Say what happened."""
        return f"killed by {signal_name(self.signal)}"


@dataclass(frozen=True, slots=True)
class TimedOut:
    """The command ran longer than its timeout and was killed."""

    after: int

    name = "timed out"

    def describe(self) -> str:
        """Say what happened."""
        from queuectl.when import format_duration

        return f"timed out after {format_duration(self.after)}"


@dataclass(frozen=True, slots=True)
class OutOfMemory:
    """The run needed more memory than it may have, and was killed."""

    most: int | None
    """Bytes that it may have, if that is its own bound and not one around it."""

    name = "out of memory"

    def describe(self) -> str:
        """Say what happened."""
        if self.most is None:
            return "out of memory: killed"
        from queuectl.sizes import format_size

        return f"out of memory: killed, as it may have {format_size(self.most)}"


@dataclass(frozen=True, slots=True)
class OutOfTime:
    """The run has used up its CPU time, and was ended."""

    most: int
    """Milliseconds of it that it may use."""

    name = "out of CPU time"

    def describe(self) -> str:
        """Say what happened."""
        from queuectl.when import format_duration

        return f"out of CPU time: ended after {format_duration(self.most)} of it"


@dataclass(frozen=True, slots=True)
class Cancelled:
    """Somebody cancelled the job while it ran."""

    why: str

    name = "cancelled"

    def describe(self) -> str:
        """Say what happened."""
        return self.why


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The command could not be started at all."""

    why: str

    name = "not started"

    def describe(self) -> str:
        """Say what happened."""
        return f"could not start: {self.why}"


@dataclass(frozen=True, slots=True)
class Lost:
    """The worker died, or lost its lease, while the command ran."""

    why: str

    name = "lost"

    def describe(self) -> str:
        """Say what happened."""
        return f"lost: {self.why}"


@dataclass(frozen=True, slots=True)
class Released:
    """The node let go of the run, unharmed, because it was told to stop."""

    why: str = "its node was stopped"

    name = "released"

    def describe(self) -> str:
        """Say what happened."""
        return f"released: {self.why}"


@dataclass(frozen=True, slots=True)
class Raised:
    """A task failed; it may say itself when it wants to be tried again."""

    why: str
    retry_after: int | None = None
    """In how many milliseconds; None is what the job's backoff says."""

    name = "raised"

    def describe(self) -> str:
        """Say what happened."""
        return self.why


@dataclass(frozen=True, slots=True)
class Snoozed:
    """A task wants to run later; nothing counts as failed."""

    why: str
    wait: int
    """For how many milliseconds."""

    name = "snoozed"

    def describe(self) -> str:
        """Say what happened."""
        return self.why


@dataclass(frozen=True, slots=True)
class Expired:
    """The job was too old to be run by the node that had it."""

    oldest: int
    """Milliseconds that one can be old there."""

    name = "expired"

    def describe(self) -> str:
        """Say what happened."""
        from queuectl.when import format_duration

        return f"expired: its node runs nothing older than {format_duration(self.oldest)}"


Outcome = (
    Exited
    | Signalled
    | TimedOut
    | OutOfMemory
    | OutOfTime
    | Cancelled
    | NotStarted
    | Lost
    | Released
    | Raised
    | Snoozed
    | Expired
)


@rowclass(frozen=True, slots=True, kw_only=True)
class Transition:
    """What the store applies to a job because of an outcome: its new state, whole."""

    state: State
    failures: int
    crashes: int
    reason: str | None = None
    run_at: int | None = None
    """When it's due again; None keeps the time it has."""


def moment(ms: int) -> "datetime":
    """Return a stored time for programs: with its time zone, which is UTC."""
    from datetime import UTC, datetime

    return datetime(1970, 1, 1, tzinfo=UTC) + span(ms)


def span(ms: int) -> "timedelta":
    """Return a stored duration for programs."""
    from datetime import timedelta

    return timedelta(milliseconds=ms)


def signal_name(number: int) -> str:
    """Name a signal: `SIGKILL`, or `signal 99` where it has no name."""
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
