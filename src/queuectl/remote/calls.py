"""All that a `Queue` asks over HTTP: names, and what goes there and back, by their annotations.

A client sends the arguments as a JSON object to `/api/v1/calls/NAME`, and reads what comes back by
what is said here; `web.api.calls` answers. What yields comes as lines of JSON.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from inspect import signature
from typing import Any, NamedTuple, Protocol, TypeVar, get_origin, get_type_hints

from queuectl.access import Grant
from queuectl.awaiting import Emission
from queuectl.changes import Asked
from queuectl.errors import QueuectlError
from queuectl.explain import Reason
from queuectl.facts import (
    Batch,
    Count,
    Emitted,
    Event,
    Group,
    Node,
    Pause,
    QueueInfo,
    QueueUse,
    RunProgress,
    Sleep,
    Step,
)
from queuectl.filter import EventFilter, Filter
from queuectl.job import Attempt, Job, Output, State, Usage
from queuectl.limits import Limits
from queuectl.lineage import Along, Graph, Relative, Roots
from queuectl.outputs import Written
from queuectl.queue_limits import KeyUse
from queuectl.remote.wire import Form, form_of
from queuectl.report import Part, Stats, Status
from queuectl.schedule import Schedule
from queuectl.store.contract import Tick
from queuectl.values import dataclass
from queuectl.webhook import Webhook
from queuectl.webhooks import Tested

F = TypeVar("F", bound=Callable[..., Any])
_KIND = "queuectl_kind"


def reads(call: F) -> F:
    """Mark what changes nothing."""
    setattr(call, _KIND, "reads")
    return call


def again(call: F) -> F:
    """Mark what changes something, and may be asked again without harm."""
    setattr(call, _KIND, "again")
    return call


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What became of a job that was to be changed, or would."""

    before: Job | None = None
    after: Job | None = None
    name: str | None = None
    """By what it was named, if it couldn't be changed."""
    error: QueuectlError | None = None


class Calls(Protocol):
    """What can be asked."""

    # -- jobs -----------------------------------------------------------------------------

    @reads
    def now(self) -> int:
        """Return the clock of the queue."""

    @reads
    def get(self, id: str) -> Job:
        """Return a job by its id, or the beginning of one."""

    @reads
    def meant(self, id: str) -> Job:
        """Return a job by its id, or by the beginning of one that was made for it."""

    @reads
    def find(self, id: str) -> Job | None:
        """Return the job with exactly this id, if there is one."""

    @reads
    def jobs(
        self, which: Filter, limit: int, after: str | None, oldest: bool, sort: str | None
    ) -> list[Job]:
        """List jobs, up to 1,000."""

    @reads
    def all_jobs(self, which: Filter, sort: str | None) -> Iterator[Job]:
        """List all jobs that fit, as they come."""

    @reads
    def count(self, which: Filter) -> int:
        """Count the jobs that fit."""

    @reads
    def counted(self, which: Filter) -> int | None:
        """Count them, if the counters can tell."""

    @reads
    def counts(self) -> list[Count]:
        """Count jobs by queue, state and priority."""

    @reads
    def states(self, ids: list[str]) -> dict[str, State]:
        """Return the states of jobs."""

    @reads
    def jobs_like(self, prefix: str, states: list[State], limit: int) -> list[Job]:
        """List jobs whose ids begin so."""

    @reads
    def tags_like(self, prefix: str, limit: int) -> list[str]:
        """List tags that begin so."""

    @reads
    def types_like(self, prefix: str, limit: int) -> list[str]:
        """List types that begin so."""

    @reads
    def attempts(self, id: str) -> list[Attempt]:
        """List the runs of a job that are over."""

    @reads
    def hooks(self, id: str) -> list[Job]:
        """List the jobs that a job's hooks have made."""

    @reads
    def parents(self, id: str) -> list[Relative]:
        """List the jobs that a job waits for, or did."""

    @reads
    def children(self, id: str, limit: int) -> list[Relative]:
        """List jobs that wait for a job, or did."""

    @reads
    def count_children(self, id: str, limit: int) -> int:
        """Count the jobs that wait for a job, or did."""

    @reads
    def graph_of(self, id: str, limit: int) -> Graph:
        """Return a job with all that must end before it, and all that waits for it."""

    @reads
    def graph_of_group(self, name: str, limit: int) -> Graph:
        """Return the jobs of a group, and who of them waits for whom."""

    @reads
    def taken_along(self, ids: list[str], limit: int) -> Along:
        """Say which jobs are cancelled with these."""

    @reads
    def output(self, id: str, attempt: int | None) -> Output:
        """Return what a finished run of a job wrote."""

    @reads
    def written(self, id: str, attempt: int | None) -> Written:
        """Return what a run of a job wrote, also while it goes on."""

    @reads
    def result(self, id: str) -> Any:
        """Return what a completed job came to."""

    @reads
    def results(self, ids: list[str]) -> dict[int, Any]:
        """Return the results of jobs that have one, by their places."""

    @reads
    def usages(self, ids: list[str]) -> dict[int, Usage]:
        """Return what the newest runs of jobs have used, by their places."""

    @reads
    def progress(self, ids: list[str]) -> dict[int, RunProgress]:
        """Return how far jobs have come, by their places."""

    @reads
    def running_progress(self) -> dict[int, RunProgress]:
        """Return how far all jobs that run have come."""

    @reads
    def pauses(self) -> dict[int, Pause]:
        """Return which runs stand still."""

    @reads
    def sleeps(self, ids: list[str]) -> dict[int, Sleep]:
        """Return which of these jobs sleep."""

    @reads
    def steps(self, id: str) -> list[Step]:
        """List the steps of a job that are done."""

    @reads
    def is_left_behind(self, id: str) -> bool:
        """Tell whether nobody runs a job that is said to run."""

    # -- groups ---------------------------------------------------------------------------

    @reads
    def groups_named(self, names: list[str]) -> list[Group]:
        """Return the groups of these names."""

    @reads
    def newest_groups(self, limit: int, before: str | None) -> list[Group]:
        """List groups, the newest first, up to 1,000."""

    @reads
    def groups_like(self, prefix: str, limit: int) -> list[str]:
        """List names of groups that begin so."""

    @reads
    def unknown_groups(self, names: list[str]) -> list[str]:
        """Say which of these names no group has."""

    @reads
    def why_group(self, name: str) -> list[Reason]:
        """Say why a group isn't over."""

    @reads
    def running_groups(self) -> dict[str, int]:
        """Count the jobs of groups that run."""

    @reads
    def stuck_groups(self, names: list[str]) -> list[str]:
        """Say of which of these groups all that is left waits in vain."""

    @reads
    def roots_of_group(self, name: str) -> Roots:
        """Say what keeps blocked jobs of a group from running."""

    @reads
    def children_of_group(self, name: str, limit: int) -> list[Relative]:
        """List jobs that wait for a group, or did."""

    @reads
    def along_with_group(self, name: str, limit: int) -> Along:
        """Say which other jobs are cancelled with a group."""

    # -- new jobs -------------------------------------------------------------------------

    @again
    def enqueue(self, asked: dict[str, Any], key: str) -> Job:
        """Add a job under the id that is asked for, once for each key."""

    @again
    def enqueue_many(self, keep_going: bool, lines: Iterable[Any]) -> Batch:
        """Add jobs, a line of JSON each: all or none, or those that can be."""

    # -- changing jobs --------------------------------------------------------------------

    def change_all(self, ids: list[str], asked: Asked) -> list[Job]:
        """Change jobs: all of them or, if one can't be, none."""

    def change_named(self, ids: list[str], asked: Asked, dry_run: bool) -> Iterator[list[Result]]:
        """Change each of these jobs, whatever becomes of the others."""

    def change_matching(self, which: Filter, asked: Asked, dry_run: bool) -> Iterator[list[Result]]:
        """Change all jobs that fit."""

    @reads
    def last_action(self, since: int | None) -> str:
        """Return the last action of who asks, since a time, also if it can't be undone."""

    def undo(self, action: str, may_change_work: bool, dry_run: bool) -> Iterator[list[Result]]:
        """Take back what an action did to jobs."""

    def swap(self, one: str, other: str) -> tuple[Job, Job]:
        """Have two jobs that wait take each other's place."""

    @again
    def pause_jobs(self, ids: list[str]) -> dict[str, bool]:
        """Have running jobs stand still."""

    @again
    def resume_jobs(self, ids: list[str]) -> dict[str, bool]:
        """Let running jobs go on."""

    @again
    def prune(self, states: list[State], older_than: int, dry_run: bool) -> dict[State, int]:
        """Delete finished jobs that are older than so many milliseconds."""

    # -- reports --------------------------------------------------------------------------

    @reads
    def events(
        self,
        id: str | None,
        action: str | None,
        which: EventFilter | None,
        before: int | None,
        limit: int,
    ) -> list[Event]:
        """List events, newest first, up to 1,000."""

    @reads
    def all_events(
        self, id: str | None, action: str | None, which: EventFilter | None, before: int | None
    ) -> Iterator[Event]:
        """List all events, as they come."""

    @reads
    def explain(self, id: str) -> list[Reason]:
        """Say why a job waits."""

    @reads
    def explain_some(self, ids: list[str] | None, which: Filter | None) -> list[Reason]:
        """Say why these jobs wait, or those that fit."""

    @reads
    def are_in_vain(self, ids: list[str] | None, which: Filter | None) -> bool:
        """Say whether all that is left of these jobs, or of those that fit, waits in vain."""

    @reads
    def explain_open(self, queues: list[str]) -> list[Reason]:
        """Say why the jobs of queues wait that aren't finished."""

    @reads
    def hindrances(self, queues: list[str]) -> list[Reason]:
        """Say what keeps all jobs of queues."""

    @reads
    def hindrances_of_each(self, queues: list[str]) -> dict[str, list[Reason]]:
        """Say it of each queue by itself, and which of its jobs no node can run."""

    @reads
    def status(self) -> Status:
        """Return counts per state and queue, and who works."""

    @reads
    def stats(self, since: int | None, queue: str | None, tags: list[str]) -> Stats:
        """Return run and wait times, the slowest jobs and the spread of priorities."""

    @reads
    def series(self, choices: list[list[str]], since: int, span: int) -> list[list[Part]]:
        """Return times part by part, for charts."""

    # -- queues and settings ----------------------------------------------------------------

    @reads
    def queues(self) -> list[QueueInfo]:
        """List the queues on which something was set."""

    @reads
    def unused(self, names: list[str]) -> dict[str, str | None]:
        """Return those of these queues that nobody has used, with a name that is like it."""

    @reads
    def unknown_tags(self, tags: list[str]) -> dict[str, str | None]:
        """Return those of these tags that no job has, with one that is like it."""

    @again
    def pause(self, queue: str) -> bool:
        """Stop giving out jobs of a queue."""

    @again
    def resume(self, queue: str) -> bool:
        """Give out jobs of a queue again."""

    def rename_queue(self, old: str, new: str) -> QueueUse:
        """Call a queue otherwise."""

    def remove_queue(self, name: str) -> None:
        """Remove a queue without jobs."""

    @reads
    def limits(self) -> dict[str, Limits]:
        """Return what queues allow."""

    @reads
    def keys(self, name: str) -> list[KeyUse]:
        """List what goes on of the keys of a queue."""

    @again
    def set_limits(self, name: str, changes: dict[str, Any]) -> Limits:
        """Set what a queue allows."""

    @again
    def clear_limits(self, name: str) -> None:
        """Take away what is set on a queue."""

    @reads
    def config(self) -> dict[str, str]:
        """Return the settings that all share."""

    @again
    def set_setting(self, name: str, value: str | int | float | bool) -> tuple[str, str]:
        """Set a setting for all."""

    @again
    def unset_setting(self, name: str) -> str:
        """Forget a setting."""

    # -- nodes ------------------------------------------------------------------------------

    @reads
    def living_nodes(self) -> list[Node]:
        """List the nodes that live."""

    @reads
    def registered_nodes(self) -> list[Node]:
        """List the nodes that have signed on."""

    @reads
    def nodes(self) -> list[dict[str, Any]]:
        """List the nodes, with how many jobs they run."""

    @reads
    def held(self, node: str) -> list[Job]:
        """List the jobs that a node runs."""

    @reads
    def followers(self, within: float) -> tuple[list[Node], list[Node]]:
        """Return the nodes that follow the setting `workers`, and the others."""

    @again
    def stop_nodes(self, nodes: list[str], force: bool) -> list[str]:
        """Ask nodes to stop."""

    @reads
    def info(self) -> dict[str, Any]:
        """Describe the store."""

    # -- schedules --------------------------------------------------------------------------

    @reads
    def schedules(self) -> list[Schedule]:
        """List the schedules."""

    @reads
    def next_ticks(self, name: str, count: int) -> list[int]:
        """List the next times of a schedule."""

    @reads
    def ticks(self, name: str, limit: int) -> list[Tick]:
        """List the newest ticks that made jobs."""

    def add_schedule(
        self, name: str, rule: str, job: dict[str, Any], policy: dict[str, Any], draft: bool
    ) -> Schedule:
        """Add a schedule, or only say what it would be."""

    @again
    def edit_schedule(self, name: str, changes: dict[str, Any]) -> Schedule:
        """Change a schedule."""

    @again
    def pause_schedule(self, name: str) -> bool:
        """Let no tick come."""

    @again
    def resume_schedule(self, name: str) -> bool:
        """Let ticks come again."""

    def remove_schedule(self, name: str) -> None:
        """Remove a schedule."""

    def run_schedule(self, name: str) -> Job:
        """Make a job of a schedule now."""

    def backfill(self, name: str, begin: str | int, end: str | int, dry_run: bool) -> list[int]:
        """Make the jobs of ticks of the past."""

    # -- webhooks ---------------------------------------------------------------------------

    @reads
    def webhooks(self) -> list[Webhook]:
        """List the webhooks, by name, without their secrets."""

    @reads
    def deliveries(self, name: str, limit: int) -> list[Job]:
        """List the newest deliveries of a webhook."""

    def add_webhook(self, name: str, asked: dict[str, Any]) -> Webhook:
        """Tell a URL of the ends of jobs; its secret comes along."""

    @again
    def pause_webhook(self, name: str) -> bool:
        """Tell a webhook nothing."""

    @again
    def resume_webhook(self, name: str) -> bool:
        """Tell a webhook again of what ends."""

    def remove_webhook(self, name: str) -> int:
        """Remove a webhook, and cancel its deliveries that wait."""

    def test_webhook(self, name: str) -> Tested:
        """Send a message to see, from the host of the server."""

    # -- what is emitted ----------------------------------------------------------------------

    @again
    def emit(self, name: str, payload: str) -> Emission:
        """Tell something, as JSON, to all jobs that wait for it."""

    @reads
    def emitted(self, name: str | None, limit: int) -> list[Emitted]:
        """List what was emitted."""

    @reads
    def emitted_like(self, prefix: str, came: bool | None, limit: int) -> list[str]:
        """List names that begin so."""

    # -- who may come in ----------------------------------------------------------------------

    @reads
    def whoami(self) -> Grant:
        """Say who asks, and what that may do."""

    @reads
    def tokens(self) -> list[Grant]:
        """List the tokens, without their secrets."""

    def add_token(
        self, name: str, roles: list[str], queues: list[str], expires: str | int | float | None
    ) -> tuple[Grant, str]:
        """Add a token, and return its secret."""

    def remove_token(self, name: str) -> list[Grant]:
        """Remove a token."""

    @reads
    def sessions(self) -> list[Grant]:
        """List who is signed in."""

    def remove_session(self, id: str) -> Grant:
        """Sign somebody out."""

    def remove_sessions(self, of: str | None) -> list[Grant]:
        """Sign several out."""


class Shape(NamedTuple):
    """What a call takes and gives."""

    takes: Mapping[str, Form]
    gives: Form
    """Of what yields, the form of one."""
    yields: bool
    takes_lines: bool
    reads: bool
    again: bool
    """Whether it can be asked again if nobody knows whether it was heard."""


LINES = "lines"
"""The argument that is sent as lines of JSON, if there is one; others are in the query then."""


@cache
def shape_of(name: str) -> Shape:
    """Return the shape of a call."""
    call = getattr(Calls, name)
    hints = get_type_hints(call)
    gives = hints.pop("return")
    yields = get_origin(gives) is Iterator
    kind = getattr(call, _KIND, "")
    named = [word for word in signature(call).parameters if word not in ("self", LINES)]
    return Shape(
        takes={word: form_of(hints[word]) for word in named},
        gives=form_of(gives.__args__[0] if yields else gives),
        yields=yields,
        takes_lines=LINES in hints,
        reads=kind == "reads",
        again=kind in ("reads", "again"),
    )


NAMES = tuple(name for name in vars(Calls) if not name.startswith("_"))
