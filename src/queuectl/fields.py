"""The table of all fields of a job: how each is read, stored, shown and described.

Reading requests, filling them up from the settings, the columns of a new job, `--json` and the
options of `enqueue` are made from it. A new field is a line here, the same name with its type in
`Job` (and in `NewJob` and `Keywords`, if it can be asked for), and a migration.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Literal, Protocol, TypedDict


class Identified(Protocol):
    """What has the id of a job: a job, or what stands for one."""

    @property
    def id(self) -> str:
        """The id."""


class Several(Protocol):
    """What has the ids of jobs: a batch."""

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids."""


Kind = Literal[
    "text",
    "arguments",
    "id",
    "name",
    "integer",
    "count",
    "runs",  # a count of runs, which are one more than the retries
    "number",
    "time",
    "duration",
    "milliseconds",  # a duration that is given as such
    "limit",  # a duration; 0 is none
    "wait",  # a duration, between two runs
    "strategy",
    "folder",
    "program",
    "variables",
    "flag",
    "bytes",
    "base64",
    "type",
    "data",  # bytes that are kept in the row itself
    "data_base64",
    "size",
    "labels",
    "keys",
    "parents",
    "groups",
    "if_fails",
    "needs",  # amounts of resources, in the one form in which they are kept
    "required",  # labels of a node
    "devices",
    "parameters",
    "at_once",
    "until",
    "collision",
    "hook",  # a command or a type of data, or none at all, whatever the queue says
    "bounds",
    "bound",  # one of them
    "bounds_list",  # one of them of which there may be several
    "trace",  # in the words of W3C Trace Context
    "trace_state",
    "state",
]
"""What a field is. `request` knows how to read it, `store.rows` how to store it, and `report` how
to show it. A number, a wait, a strategy and a program are read as the setting of that name is."""


class Field:
    """One field of a job, or another way to give one in a request."""

    def __init__(
        self,
        name: str,
        kind: Kind,
        option: str = "",
        help: str = "",
        *,
        also: tuple[str, ...] = (),
        gives: str = "",
        stored: str = "",
        within: str = "",
        setting: str = "",
        at_least: str = "",
        is_hidden: bool = False,
        is_secret: bool = False,
        is_long: bool = False,
        is_order: bool = False,
        is_work: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.option = option
        """How `enqueue` takes it: flags and, unless it is a switch, a word for what follows."""
        self.help = help
        self.also = also
        """Other names that a request may use."""
        self.gives = gives
        """The field that it is another way to give; otherwise empty."""
        self.within = within
        """The field that it is a part of, under its name; otherwise empty."""
        self.column = "" if is_order else stored or gives or within or name
        """The column that it decides, most often one of its own name; none, if it says no more
        than what is to be done when the job is enqueued."""
        self.setting = setting
        """What it is taken from where a request doesn't say it."""
        self.at_least = at_least
        """The field that raises what the setting says, if a request has that and not this one."""
        self.is_shown = self.column == name and not is_hidden
        """Whether `--json` has it."""
        self.is_secret = is_secret
        """Whether what is in it is shown nowhere."""
        self.is_long = is_long
        """Whether it may be megabytes."""
        self.is_work = is_work
        """Whether it says what is run, or in which surroundings: to change it is to run others."""

    @property
    def flags(self) -> list[str]:
        """The names of its option, if it has one."""
        return [word for word in self.option.split() if word.startswith("-")]

    @property
    def metavar(self) -> str | None:
        """The word for what its option takes; a switch has none."""
        word = self.option.rpartition(" ")[2]
        return None if word.startswith("-") else word


REQUESTED = (
    Field("command", "text", is_long=True, also=("cmd",), is_work=True),
    Field("argv", "arguments", is_long=True, is_work=True),
    Field("type", "type", stored="task", is_work=True),
    Field("data", "data", is_secret=True, is_long=True, is_work=True),
    Field("data_base64", "data_base64", gives="data", is_work=True),
    Field("id", "id", "--id ID", "Its id, unique; random by default."),
    Field("queue", "name", "--queue -Q NAME", "The queue it waits in.  [default: default]"),
    Field("priority", "integer", "--priority -p N", "Higher runs first; may be negative."),
    Field(
        "timeout",
        "limit",
        "--timeout -t D",
        "Kill a run after this time; 0 for never.",
        setting="job_timeout",
    ),
    Field("timeout_ms", "milliseconds", gives="timeout"),
    Field("timeout_seconds", "limit", gives="timeout"),
    Field(
        "run_at",
        "time",
        "--run-at -r TIME",
        "Not before: +5m, 17:30, 'tomorrow 09:00', ISO-8601.",
        also=("run_after",),
    ),
    Field(
        "delay",
        "duration",
        "--delay -d D",
        "Not before this time has passed: 90, 30s, 1h30m.",
        stored="run_at",
    ),
    Field(
        "max_retries",
        "count",
        "--max-retries --retries N",
        "Retries after a failure: 2 means up to 3 runs.",
        setting="max_retries",
        also=("retries",),
    ),
    Field(
        "max_attempts",
        "runs",
        "--max-attempts N",
        "The same as runs: 3 means up to 2 retries.",
        gives="max_retries",
    ),
    Field(
        "backoff",
        "strategy",
        "--backoff HOW",
        "How waits grow: exponential, linear or fixed.",
        setting="backoff",
    ),
    Field(
        "backoff_base",
        "number",
        "--backoff-base B",
        "Exponential: the k-th retry waits B**k seconds.",
        setting="backoff_base",
    ),
    Field(
        "retry_delay",
        "wait",
        "--retry-delay D",
        "Linear and fixed: the step; alone it means fixed.",
        setting="retry_delay",
    ),
    Field(
        "max_backoff",
        "wait",
        "--max-backoff D",
        "No wait for a retry is longer.",
        also=("max_backoff_seconds",),
        setting="max_backoff",
        # Whoever asks for a long delay means it, whatever the general cap is.
        at_least="retry_delay",
    ),
    Field(
        "expire",
        "duration",
        "--expire D",
        "Dead if not started within this time.",
        stored="expires_at",
        setting="expire",
    ),
    Field("expires_at", "time"),
    Field(
        "env",
        "variables",
        "--env -e NAME[=VALUE]",
        "Set a variable for it; without a value, copy ours. Repeat it.",
        is_secret=True,
        is_long=True,
        is_work=True,
    ),
    Field(
        "env_all",
        "flag",
        "--env-all/--no-env-all",
        "Run it in our whole environment, kept with it, and not in the worker's.",
        setting="env_all",
        is_work=True,
    ),
    Field(
        "shell",
        "program",
        "--shell PROGRAM",
        "What reads the command, such as bash.  [default: /bin/sh]",
        setting="shell",
        is_work=True,
    ),
    Field(
        "stdin",
        "bytes",
        "--stdin FILE",
        "What each run finds on stdin, kept with the job; - is ours. 16 MiB at most.",
        stored="stdin_bytes",
        is_secret=True,
        is_work=True,
    ),
    Field("stdin_base64", "base64", gives="stdin", stored="stdin_bytes", is_work=True),
    Field("bounds", "bounds", is_work=True),
    Field(
        "memory",
        "bound",
        "--memory SIZE",
        "Memory that it may have, such as 512M; beyond it, all of it is killed.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "cpus",
        "bound",
        "--cpus N",
        "Cores that it may use, such as 1.5.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "cpu_time",
        "bound",
        "--cpu-time D",
        "CPU time that all its processes may use, such as 60 or 2h.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "nofile",
        "bound",
        "--nofile N",
        "Files that each of its processes can have open.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "nproc",
        "bound",
        "--nproc N",
        "Processes and threads that it can have at a time.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "nice",
        "bound",
        "--nice N",
        "How far it gives way to others for the CPU: 19 most of all; -20 not at all.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "user",
        "bound",
        "--user NAME",
        "Run it as this user, on a worker of root.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "read_only_root",
        "bound",
        "--read-only-root/--writable-root",
        "Let it write to no files but in /tmp, /var/tmp and /dev/shm.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "no_network",
        "bound",
        "--no-network/--network",
        "Run it without any network but a 127.0.0.1 of its own.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "best_effort",
        "bound",
        "--best-effort/--no-best-effort",
        "Run it even where these can't be enforced; that is noted.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "image",
        "bound",
        "--image IMAGE",
        "Run it in a container of this image, by podman or docker.",
        within="bounds",
        is_work=True,
    ),
    Field(
        "mounts",
        "bounds_list",
        "--mount SOURCE[:TARGET][:ro]",
        "A folder of the worker's host that the container has. Repeat it.",
        also=("mount",),
        within="bounds",
        is_work=True,
    ),
    Field("cwd", "folder", "--cwd DIR", "Where it runs.  [default: this directory]", is_work=True),
    Field("tags", "labels", "--tag -T TAG", "A label; repeat it.", also=("tag",), is_long=True),
    Field(
        "keys",
        "keys",
        "--key -k KEY",
        "Whom it is for: limits of its queue count by it, and keys share evenly. Repeat it.",
        also=("key",),
    ),
    Field(
        "after",
        "parents",
        "--after -a ID[:WANTED]",
        "Only when this job has ended ok, or as WANTED says: ok, fail or any. Repeat it.",
        also=("depends_on",),
    ),
    Field(
        "after_group",
        "groups",
        "--after-group NAME[:WANTED]",
        "The same for all jobs of a group: ok or any. Repeat it.",
    ),
    Field(
        "group",
        "name",
        "--group NAME",
        "The group that it is in: jobs that are waited for together.",
    ),
    Field(
        "max_fails",
        "count",
        "--max-fails N",
        "When so many jobs of its group are dead, cancel those that wait.",
        is_order=True,
    ),
    Field(
        "if_parent_fails",
        "if_fails",
        "--if-parent-fails HOW",
        "If a job that is to end ok is dead: block, cancel or run.  [default: block]",
    ),
    Field("parameters", "parameters", is_long=True, is_work=True),
    Field("at_once", "at_once", is_order=True),
    Field(
        "needs",
        "needs",
        "--needs NAME=AMOUNT,...",
        "What it needs of its node for itself, such as gpu=1,mem=8G,cpu=2.",
    ),
    Field(
        "requires",
        "required",
        "--requires LABEL",
        "A label that its node must have; repeat it.",
    ),
    Field(
        "unique",
        "id",
        "--unique KEY",
        "At most one job at a time has this key, in all queues.",
        stored="unique_key",
    ),
    Field(
        "unique_until",
        "until",
        "--unique-until WHEN",
        "It has the key until its start, or its end.  [default: end]",
    ),
    Field(
        "unique_for",
        "duration",
        "--unique-for D",
        "And for this time at least, from when it is enqueued.",
    ),
    Field(
        "on_duplicate",
        "collision",
        "--on-duplicate HOW",
        "If another job has the key: return, reject, replace or debounce.  [default: return]",
        is_order=True,
    ),
    Field(
        "max_wait",
        "duration",
        "--max-wait D",
        "How long debounce can put off what was asked for first.",
        is_order=True,
    ),
    Field(
        "on_success",
        "hook",
        "--on-success COMMAND",
        "Run this, as a job of its own, when it has completed; type:NAME has a handler do it,"
        " none is nothing.",
        is_long=True,
        is_work=True,
    ),
    Field(
        "on_failure",
        "hook",
        "--on-failure COMMAND",
        "The same after each run that failed, timed out or crashed.",
        is_long=True,
        is_work=True,
    ),
    Field(
        "on_dead",
        "hook",
        "--on-dead COMMAND",
        "The same when it is dead, whatever of.",
        is_long=True,
        is_work=True,
    ),
    Field(
        "traceparent",
        "trace",
        "--traceparent TRACE",
        "The trace that it is a part of, as W3C has it.  [default: that of TRACEPARENT]",
    ),
    Field("tracestate", "trace_state", "--tracestate LIST", "What goes with that trace."),
)
"""What a request may say, in the order of the options."""

KEPT = (
    Field("seq", "count", is_hidden=True),
    Field("state", "state"),
    Field("attempts", "count"),
    Field("failures", "count"),
    Field("crashes", "count"),
    Field("node", "text"),
    Field("worker", "count"),
    Field("created_at", "time"),
    Field("updated_at", "time"),
    Field("started_at", "time"),
    Field("finished_at", "time"),
    Field("duration_ms", "count"),
    Field("exit_code", "count"),
    Field("error", "text", is_long=True),
    Field("reason", "text", is_long=True),
    Field("stdin_bytes", "size"),
    Field("unique_key", "text"),
    Field("cancel_reason", "text", is_hidden=True),
    Field("tick", "text", is_hidden=True),
    Field("vtime", "count", is_hidden=True),
    Field("hook", "text", is_hidden=True),
    Field("parked", "text", is_hidden=True),
    Field("handler", "text", is_hidden=True),
    Field("forced", "text", is_hidden=True),
    Field("task", "text", is_hidden=True),
    Field("body_digest", "text", is_hidden=True),
    Field("open_parents", "count"),
    Field("has_children", "flag", is_hidden=True),
    Field("devices", "devices"),
)
"""What only queuectl sets."""

FIELDS = (*REQUESTED, *KEPT)

COPIED = tuple(
    field
    for field in REQUESTED
    if not (field.gives or field.within)
    and field.column not in ("", "id", "command", "argv", "parameters", "run_at", "expires_at")
)
"""What goes into a column as it was asked for. What the others come to, the store finds out."""


def by_column() -> dict[str, list[Field]]:
    """Return what a request may say by the column that it decides: alike, if that is the same."""
    found: dict[str, list[Field]] = {}
    for field in REQUESTED:
        # A part of one leaves the others as they are.
        name = field.name if field.within else field.column or field.name
        found.setdefault(name, []).append(field)
    return found


class Callee(Protocol):
    """What can be a hook and is no text: a task."""

    @property
    def as_hook(self) -> str:
        """The hook that calls it, as text: `type:NAME`."""


class Keywords(TypedDict, total=False):
    """The keywords of `Queue.enqueue`, which are the fields of a JSON job, with their types."""

    command: str
    argv: Sequence[str]
    type: str
    data: str | bytes
    data_base64: str
    id: str
    queue: str
    priority: int
    timeout: str | int | float | timedelta
    timeout_ms: int
    timeout_seconds: int | float
    run_at: str | int | datetime
    delay: str | int | float | timedelta
    max_retries: int
    max_attempts: int
    backoff: str
    backoff_base: float
    retry_delay: str | int | float | timedelta
    max_backoff: str | int | float | timedelta
    expire: str | int | float | timedelta
    expires_at: str | int | datetime
    env: Mapping[str, str]
    env_all: bool
    shell: str
    stdin: str | bytes
    stdin_base64: str
    bounds: Mapping[str, object]
    memory: str | int
    cpus: float
    cpu_time: str | int | float | timedelta
    nofile: int
    nproc: int
    nice: int
    user: str
    read_only_root: bool
    no_network: bool
    best_effort: bool
    image: str
    mounts: Sequence[str] | str
    cwd: str
    tags: Sequence[str] | str
    keys: Sequence[str] | str
    after: "Sequence[str | Identified | Several] | str | Identified | Several"
    after_group: Sequence[str] | str
    group: str
    max_fails: int
    if_parent_fails: str
    parameters: Mapping[str, str | int]
    at_once: str
    needs: Mapping[str, int | float | str] | str
    requires: Sequence[str] | str
    unique: str
    unique_until: str
    unique_for: str | int | float | timedelta
    on_duplicate: str
    max_wait: str | int | float | timedelta
    on_success: "str | Callee | Literal[False]"
    on_failure: "str | Callee | Literal[False]"
    on_dead: "str | Callee | Literal[False]"
    traceparent: str
    tracestate: str
