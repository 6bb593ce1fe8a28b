"""What every command has in common: one shape of help, examples at its end, and `--db`."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

DB = "queuectl.cli.db"
"""Where `--db` is kept in the context, wherever on the line it stood."""

DELETING = ("rm", "prune", "purge")
"""Commands that are never suggested because they sound alike."""

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def db_option() -> click.Option:
    """Make the `--db` that every command and group takes; the rightmost one wins."""
    return click.Option(
        ["--db"],
        metavar="URL",
        help="The queue: a path, sqlite:PATH, postgresql://... or mysql://...",
        expose_value=False,
        callback=_remember_db,
    )


def _remember_db(ctx: click.Context, param: click.Parameter, value: str | None) -> None:
    if value is None:
        return
    if not value.strip():
        raise click.BadParameter("it is empty; give a path or URL", ctx=ctx, param=param)
    ctx.meta[DB] = value


class _Shaped(click.Command):
    """A command or group that takes `--db` and ends its help in examples."""

    def __init__(self, *args: Any, examples: str = "", **kwargs: Any) -> None:
        kwargs["context_settings"] = CONTEXT | (kwargs.get("context_settings") or {})
        super().__init__(*args, **kwargs)
        self.params.append(db_option())
        self.examples = examples

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments; an error says whose help to look at."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.ctx = error.ctx or ctx
            raise

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog, then the examples as they stand."""
        super().format_epilog(ctx, formatter)
        write_block(formatter, "Examples", self.examples.strip("\n").splitlines())


class Command(_Shaped):
    """A command. Pass `cls=Command` to `click.command`, with `examples` one per line."""


class Group(_Shaped, click.Group):
    """A group of commands, each a `Command`. Without a command it shows its help and exits 2."""

    command_class = Command

    meant: Mapping[str, str] = {"ls": "list"}
    """What people may call commands, and what is here for it; the first word must exist."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what stands before the command."""
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help(), file=sys.stderr)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, or name the one that looks most like it."""
        name = args[0]
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(self._no_such_command(ctx, name), ctx)
        return super().resolve_command(ctx, args)

    def _no_such_command(self, ctx: click.Context, name: str) -> str:
        from difflib import get_close_matches

        if name.startswith("-"):
            return f"There is no option {name}."
        known = self.list_commands(ctx)
        use = self.meant.get(name.lower(), "")
        if use.partition(" ")[0] in known:
            return f"There is no command {name!r}; use {use}."
        harmless = [other for other in known if other not in DELETING]
        near = get_close_matches(name, harmless, n=1, cutoff=0.6)
        hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}."
        return f"There is no command {name!r}; {hint}"


def no_such_option(error: click.NoSuchOption) -> str:
    """Say that there is no such option, and which one looks very much like it."""
    from difflib import get_close_matches

    near = get_close_matches(error.option_name, error.possibilities or (), n=1, cutoff=0.7)
    return f"There is no option {error.option_name}" + (
        f"; did you mean {near[0]}?" if near else ""
    )


def write_block(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Write a titled block of lines, unwrapped; nothing when there are none."""
    if not lines:
        return
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    with formatter.section(title):
        for line in lines:
            formatter.write(f"  {line[margin:]}".rstrip() + "\n")
