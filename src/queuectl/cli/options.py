"""Options and argument types that several commands share, and the way they open the queue.

    @click.command(cls=Command, examples="queuectl status")
    @json_option
    def status(as_json: bool) -> int | None:
        with open_queue() as queue:
            ...

A command returns its exit code, or None for 0, and lets errors fly: `main` explains them.
`cls=Command` (and `cls=Group`) brings `--db`, `-h` and the examples at the end of the help.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar

import click

from queuectl.cli.command import DB
from queuectl.errors import BadTimeError, did_you_mean
from queuectl.job import DUE, State
from queuectl.values import dataclass
from queuectl.when import parse_duration, parse_moment

if TYPE_CHECKING:
    from queuectl.filter import Filter
    from queuectl.place import Place
    from queuectl.queue import Queue

F = TypeVar("F", bound=Callable[..., Any])


def open_queue(
    *, create: bool = False, must_exist: bool = False, for_others: bool = False
) -> "Queue":
    """Open the queue the command line, the environment and this directory mean.

    With `create` it is made if need be, and that is said. Without, one that was named must be
    there, and the default one is empty until somebody makes it, unless it `must_exist`. What is
    stored `for_others` has nothing to do with where we are.
    """
    from queuectl.cli.notes import note_new
    from queuectl.queue import Queue

    queue = Queue(place=here(), create=create, absent_ok=not must_exist, here=not for_others)
    note_new(queue)
    return queue


def here(url: str | None = None, *, check: bool = True) -> "Place":
    """Find the queue that is meant, without opening it; notes what is odd about the environment.

    With a URL, it is that of the queue. A setting that can't be is an error, unless `check` is off.
    """
    from queuectl.cli.notes import note_oddities
    from queuectl.place import find_place

    place = find_place(url or click.get_current_context().meta.get(DB), check=check)
    note_oddities(place)
    return place


def check_not_empty(option: str, text: str | None, or_else: str = "") -> None:
    """Refuse an empty value, as a variable that isn't set leaves it; None is an option not given.

    What else may be done than to leave it out is said as `or_else`.
    """
    if text is not None and not text.strip():
        also = f", or {or_else}" if or_else else ""
        raise click.UsageError(f"{option} is empty; give it a value, or leave it out{also}")


class Once(click.Option):
    """An option with one value that can't be given twice: who repeats it would have both.

    Of others, the last one counts, so that a shell's alias can be outranked.
    """

    def __init__(self, *args: Any, instead: str = "give it once", **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._instead = instead
        """What to do in place of repeating it."""

    def add_to_parser(self, parser: Any, ctx: click.Context) -> None:
        """Have the parser keep all values, not only the last."""
        parser.add_option(obj=self, opts=self.opts, dest=self.name, action="append", nargs=1)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> Any:
        """Take the one value, or raise what to do about several."""
        given = opts.get(self.name or "")
        if isinstance(given, list):
            if len(given) > 1 and not ctx.resilient_parsing:
                name = max(self.opts, key=len)
                many = "twice" if len(given) == 2 else f"{len(given)} times"
                raise click.UsageError(f"{name} is given {many}; {self._instead}", ctx)
            opts = {**opts, self.name or "": given[-1]}
        return super().consume_value(ctx, opts)


class Duration(click.ParamType):  # type: ignore[type-arg]
    """A duration such as `30`, `30s`, `5m` or `1h30m`; becomes milliseconds."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return parse_duration(str(value))
        except BadTimeError as error:
            self.fail(error.advised, param, ctx)


class Moment(click.ParamType):  # type: ignore[type-arg]
    """A time to look back to. It stays text: only the store's clock can say which time it is."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            parse_moment(str(value), now=0)
        except BadTimeError as error:
            what, _, _ = str(error).partition(";")
            if "outside the years" not in what:
                self.fail(f"{what}; write it like 1h, 2d, monday or 09:00.", param, ctx)
        return str(value)


_MEANT = {
    "active": "processing",
    "canceled": "cancelled",
    "done": "completed",
    "error": "failed (it is retried) or dead (it is not)",
    "errored": "failed (it is retried) or dead (it is not)",
    "finished": "completed, dead or cancelled",
    "queued": "pending",
    "running": "processing",
    "scheduled": "pending",
    "started": "processing",
    "succeeded": "completed",
    "success": "completed",
    "waiting": "pending",
}
"""What people call states elsewhere, and what they are here."""


def _advice(wrong: str) -> str:
    """Say which state is meant by a word that names none."""
    if wrong in _MEANT:
        return f"use {_MEANT[wrong]}."
    return did_you_mean(
        wrong, ["all", *map(str, State)], f"use all, {', '.join(State)}.", cutoff=0.7
    )


class States(click.ParamType):  # type: ignore[type-arg]
    """One or more states, separated by commas; `all` doesn't restrict."""

    name = "state"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[State, ...]:
        if isinstance(value, tuple):
            return value
        names = [name.strip().lower() for name in str(value).split(",")]
        if "all" in names:
            return tuple(State)
        try:
            return tuple(State(name) for name in names)
        except ValueError:
            wrong = next(name for name in names if name not in list(State))
            self.fail(f"there is no state {wrong!r}; {_advice(wrong)}", param, ctx)


class JobId(click.ParamType):  # type: ignore[type-arg]
    """The id of a job, or its first four or more characters."""

    name = "id"


DURATION = Duration()
MOMENT = Moment()
STATES = States()
JOB_ID = JobId()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which jobs the filter options of a command line mean."""

    states: tuple[State, ...] = ()
    queues: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    due: str | None = None
    text: str = ""
    since: str | None = None
    until: str | None = None
    older_than: int | None = None

    def __bool__(self) -> bool:
        """Tell whether anything restricts."""
        return self != Wanted()

    @property
    def all_states(self) -> bool:
        """Whether all states were asked for, as with `--state all`."""
        return len(self.states) == len(State)

    def filter(self, queue: "Queue") -> "Filter":
        """Make the store's filter of it, by the store's clock; notes names that nobody used."""
        from queuectl.cli.notes import note_unknown_groups, note_unknown_tags, note_unused
        from queuectl.filter import Filter, due_bounds

        note_unused(queue, self.queues)
        note_unknown_tags(queue, self.tags)
        note_unknown_groups(queue, self.groups)

        now = queue.now()
        return Filter(
            # All of them restrict nothing; the store needn't look at each.
            states=() if self.all_states else self.states,
            queues=self.queues,
            tags=self.tags,
            types=self.types,
            keys=self.keys,
            groups=self.groups,
            text=self.text,
            since=None if self.since is None else parse_moment(self.since, now=now),
            until=None if self.until is None else parse_moment(self.until, now=now),
            finished_before=None if self.older_than is None else now - self.older_than,
            **due_bounds(self.due, now),
        )


def with_options(
    command: Callable[..., Any], options: Sequence[Callable[[Any], Any]]
) -> Callable[..., Any]:
    """Return a command that has these options, which its help shows in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def filter_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --state, --queue and the other filter options; they arrive together as `wanted`."""
    return _STATES(filter_options_without_state(command))


def filter_options_without_state(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the filter options but for --state; an --older-than arrives in `wanted` as well."""

    @wraps(command)
    def gather(*args: Any, **given: Any) -> Any:
        wanted = Wanted(
            states=tuple(dict.fromkeys(s for states in given.pop("states", ()) for s in states)),
            queues=given.pop("queues"),
            tags=given.pop("tags"),
            types=given.pop("types"),
            keys=given.pop("keys"),
            groups=given.pop("groups"),
            due=given.pop("due"),
            text=given.pop("text") or "",
            since=given.pop("since"),
            until=given.pop("until"),
            older_than=given.pop("older_than", None),
        )
        return command(*args, wanted=wanted, **given)

    return with_options(gather, _FILTERS)


def queues_option(help: str) -> Callable[[F], F]:
    """Return the --queue/-Q that may be repeated; arrives as `queues`."""
    return click.option("--queue", "-Q", "queues", multiple=True, metavar="NAME", help=help)


def tags_option(help: str) -> Callable[[F], F]:
    """Return the --tag/-T that may be repeated; arrives as `tags`."""
    return click.option("--tag", "-T", "tags", multiple=True, metavar="TAG", help=help)


def groups_option(help: str) -> Callable[[F], F]:
    """Return the --group that may be repeated; arrives as `groups`."""
    return click.option("--group", "groups", multiple=True, metavar="NAME", help=help)


def states_option(help: str) -> Callable[[F], F]:
    """Return the --state/-s that may be repeated; arrives as `states`, a tuple for each."""
    return click.option(
        "--state", "-s", "states", type=STATES, multiple=True, metavar="STATE", help=help
    )


_STATES = states_option(
    f"Only jobs in this state: all, {', '.join(State)}. Repeat it, or use commas."
)
_FILTERS = (
    queues_option("Only this queue; repeatable."),
    tags_option("Only jobs with this tag; with several, those that have all of them."),
    click.option(
        "--type",
        "types",
        multiple=True,
        metavar="T",
        help="Only data jobs or Python tasks of this type; repeatable. '' for data without a type.",
    ),
    click.option(
        "--key",
        "keys",
        multiple=True,
        metavar="KEY",
        help="Only jobs with this key, by which limits count; with several, those that have all.",
    ),
    groups_option("Only jobs of this group; repeatable."),
    click.option(
        "--due",
        type=click.Choice(DUE),
        help="Only jobs that wait: for their time (later), or no longer for that (now).",
    ),
    click.option(
        "--text",
        "--search",
        "text",
        metavar="TEXT",
        help="Only jobs with this in their id, command, error or reason, in any letter case.",
    ),
    click.option(
        "--since",
        type=MOMENT,
        metavar="TIME",
        help="Only jobs enqueued since: 1h (ago), yesterday, 09:00, 2025-11-08T13:00:00Z.",
    ),
    click.option(
        "--until", type=MOMENT, metavar="TIME", help="Only jobs enqueued before; as --since."
    ),
)


json_option = click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON value for programs."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="Print bare ids, one per line.")
quiet_names_option = click.option(
    "--quiet", "-q", is_flag=True, help="Print bare names, one per line."
)
raw_option = click.option(
    "--raw", is_flag=True, help="Let all control characters through to the terminal."
)
wait_option = click.option(
    "--wait",
    "-w",
    is_flag=True,
    help="Wait until it is finished; exit as it did. What waits in vain is waited for: see "
    "--or-stuck.",
)
follow_option = click.option(
    "--follow", "-f", is_flag=True, help="Wait, and show its output as it comes."
)
or_stuck_option = click.option(
    "--or-stuck",
    is_flag=True,
    help="Wait no longer than something of that can go on by itself; then exit with 1.",
)
yes_option = click.option("--yes", "-y", is_flag=True, help="Don't ask first.")
