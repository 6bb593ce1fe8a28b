"""What a job is to run, as a command line says it, and the options for its fields.

It is a command, JSON, or words behind `--`. What enqueues and what schedules share it.
"""

import os
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from queuectl.cli.command import Command, meant_option, no_such_option
from queuectl.cli.options import Once, check_not_empty
from queuectl.errors import NotFoundError, QueuectlError, UsageError
from queuectl.fields import REQUESTED

if TYPE_CHECKING:
    from queuectl.queue import Queue

F = TypeVar("F", bound=Callable[..., Any])

EXACT = "queuectl.cli.exact"
"""Where the words behind `--` are kept in the context."""
QUOTE = "put the command in quotes, or put -- before it to run exactly these words without a shell"
LITERAL = "; a command that begins with {} is given with --command"

command_option = click.option(
    "--command",
    cls=Once,
    instead="put both into one with &&, or enqueue each by a call of its own",
    metavar="TEXT",
    help="The shell command, even if it looks like JSON.",
)


class TakesProgram(Command):
    """Keeps what stands behind `--` apart: it is an argument vector, not a shell command."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--" in args and not ctx.resilient_parsing:
            at = args.index("--")
            ctx.meta[EXACT] = args[at + 1 :]
            args = args[:at]
        try:
            return super().parse_args(ctx, list(args))
        except click.NoSuchOption as error:
            places = [p for p in self.params if isinstance(p, click.Argument) and p.nargs == 1]
            words = self._words_before(args, error.option_name)[len(places) :]
            if meant_option(error) is not None or not words or " " in words[0]:
                raise
            # It may be the command's own.
            advice = QUOTE
            if len(words) == 1:
                path = " ".join([ctx.command_path, *(p.make_metavar(ctx) for p in places)])
                own = f"{path} -- {words[0]} {error.option_name} ..."
                advice = f"if it is the command's own, put -- before the command: {own}"
            raise click.UsageError(f"{no_such_option(error)}; {advice}", ctx) from None

    def _words_before(self, args: Sequence[str], option: str) -> list[str]:
        """Return the words, of a command say, that stand before an option."""
        takes_value = {
            name: not param.is_flag
            for param in self.params
            if isinstance(param, click.Option)
            for name in param.opts
        }
        words: list[str] = []
        is_value = False
        for arg in args:
            if arg.startswith(option):
                break
            if not is_value and not arg.startswith("-"):
                words.append(arg)
            is_value = not is_value and takes_value.get(arg, False)
        return words


_MORE: dict[str, dict[str, Any]] = {
    "bytes": {"type": click.Path()},
    "flag": {"default": None},
    "labels": {"multiple": True},
    "keys": {"multiple": True},
    "needs": {"multiple": True},
    "required": {"multiple": True},
    "parents": {"multiple": True},
    "groups": {"multiple": True},
    "variables": {"multiple": True},
    "bounds_list": {"multiple": True},
    "hook": {"cls": Once, "instead": "put both commands into one with &&"},
}
"""What the option of a field of these kinds takes besides one text."""
_ONCE = {
    "group": "a job is in one group, so name one",
    "stdin": "pipe all files into one: cat A B | queuectl ... --stdin -",
}
"""What to do in place of repeating the option of a field of which a job has one only."""


def field_options(*, but: Collection[str] = ()) -> Callable[[F], F]:
    """Add an option for each field of a job that has one, but for some."""

    def add_to(command: F) -> F:
        for field in reversed(REQUESTED):
            if field.flags and field.name not in but:
                more = _MORE.get("flag" if field.metavar is None else field.kind, {})
                if field.name in _ONCE:
                    more = {"cls": Once, "instead": _ONCE[field.name], **more}
                add = click.option(
                    *field.flags, field.name, metavar=field.metavar, help=field.help, **more
                )
                command = add(command)
        return command

    return add_to


finally_option = click.option(
    "--finally",
    "finals",
    multiple=True,
    metavar="ID",
    help="When this job has ended, however: --after ID:any. One that is blocked by a dead job"
    " hasn't; --if-parent-fails cancel has it end. Repeat it.",
)


on_done_option = click.option(
    "--on-done",
    cls=Once,
    instead="put both commands into one with &&",
    metavar="COMMAND",
    help="With --group: run this, once, when all jobs of the group have ended, however. Those"
    " that are blocked by a dead one haven't; --if-parent-fails cancel has them end.",
)
_OF_ITS_JOBS = ("queue", "cwd", "env", "env_all", "shell", "traceparent", "tracestate")
"""What the job that follows a group has in common with the jobs of it."""


def follower(command: str | None, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the request for what runs when the group of these jobs is over, if that is asked."""
    if command is None:
        return None
    check_not_empty("--on-done", command)
    if fields.get("group") is None:
        raise click.UsageError("--on-done is about a group; give --group NAME, too")
    from queuectl.groups import following

    return following(
        fields["group"], command, {name: fields[name] for name in _OF_ITS_JOBS if name in fields}
    )


def name_parents(queue: "Queue", fields: dict[str, Any]) -> None:
    """Replace beginnings of ids by the whole, in what a job is to wait for."""
    after = fields.get("after")
    if not after:
        return
    from queuectl.dependencies import parent_text, read_parent

    texts = [after] if isinstance(after, str) else after
    if isinstance(texts, list | tuple) and all(isinstance(text, str) for text in texts):
        named = map(read_parent, texts)
        fields["after"] = [parent_text(_parent(queue, id), wanted) for id, wanted in named]


def _parent(queue: "Queue", id: str) -> str:
    """Return the whole id of a job; if only what stands behind its colon is wrong, say that."""
    try:
        return queue.meant(id).id
    except NotFoundError as error:
        named, colon, wanted = id.rpartition(":")
        if not colon:
            raise
        try:
            found = queue.meant(named).id
        except QueuectlError:
            raise error from None
        from queuectl.dependencies import why_unwanted

        raise UsageError(why_unwanted(found, wanted)) from None


def exact_words() -> Sequence[str] | None:
    """Return the words behind `--`, if that was there."""
    exact: Sequence[str] | None = click.get_current_context().meta.get(EXACT)
    if exact is not None and not exact:
        raise click.UsageError("Nothing stands behind --; give a program and its arguments")
    return exact


def check_one_command(text: Sequence[str]) -> None:
    """Refuse a command that came as several words, as it does when quotes were forgotten."""
    if len(text) > 1:
        raise click.UsageError(f"A command is given as one argument: {QUOTE}")


def given_fields(flags: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that the options give."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    for name in ("needs", "requires"):
        for text in given.get(name, ()):
            check_not_empty(f"--{name}", text, "say none if there is to be none")
    if finals := given.pop("finals", ()):
        given["after"] = [*given.get("after", ()), *(f"{id}:any" for id in finals)]
    if "tags" in given:
        given["tags"] = list(given["tags"])
    if "env" in given:
        given["env"] = dict(_variable(text) for text in given["env"])
    if "stdin" in given:
        from queuectl.cli.feed import read_stdin

        given["stdin"] = read_stdin(given["stdin"])
    return given


def in_our_trace(given: dict[str, Any]) -> dict[str, Any]:
    """Add the trace that we are a part of by our environment, unless another one is given."""
    if "TRACEPARENT" not in os.environ or not {"traceparent", "tracestate"}.isdisjoint(given):
        return given
    from queuectl.tracecontext import trace_of

    trace = trace_of(os.environ)
    return given if trace is None else {**trace.named(), **given}


def _variable(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise UsageError(f"{name} isn't set here, so it can't be copied; write {name}=VALUE.")
    return name, os.environ[name]


def job_fields(
    text: Sequence[str], exact: Sequence[str] | None, command: str | None, given: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields of a single job: what to run, and what the options give."""
    if exact is not None:
        return {"argv": list(exact), **given}
    if command is None and text[0].lstrip().startswith("{"):
        from queuectl.cli.feed import read_json
        from queuectl.merging import merge_requests

        return merge_requests(read_json(text[0], LITERAL.format("{")), given)
    return {"command": text[0] if command is None else command, **given}
