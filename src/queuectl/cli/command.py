"""What every command has in common: one shape of help, examples at its end, and `--db`."""

import sys
from collections.abc import Sequence
from typing import Any

import click

from queuectl.errors import did_you_mean, nearest

DB = "queuectl.cli.db"
"""Where `--db` is kept in the context, wherever on the line it stood."""

ARGUMENTS = "queuectl.cli.arguments"
"""Where all arguments are kept in the context, as they were given."""

HANDED_OVER = "_QUEUECTL_HANDOVER"
"""The variable of `queuectl.node.handover`; in the context, what it has led to."""

COMPLETE = "_QUEUECTL_COMPLETE"
"""The variable by which a shell asks for completions."""

DELETING = ("rm", "prune", "purge")
"""Commands that are never suggested because they sound alike."""

UNBROKEN: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
"""How text is wrapped: words stay whole, so that paths and options can be copied."""
INDENT = 2
"""Spaces in front of the lines of a block of the help."""

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}


def db_option() -> click.Option:
    """Make the `--db` that every command and group takes; the rightmost one wins."""
    return click.Option(
        ["--db"],
        metavar="URL",
        help="The queue: a path, sqlite:PATH, postgresql://..., mysql://... or, behind a"
        " queuectl web, https://...",
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

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the first sentence of the help, whole: lists of commands wrap it."""
        return (self.help or "").strip().partition("\n")[0]

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the epilog, then the examples as they stand."""
        super().format_epilog(ctx, formatter)
        write_block(formatter, "Examples", self.examples.strip("\n").splitlines())


class Command(_Shaped):
    """A command. Pass `cls=Command` to `click.command`, with `examples` one per line."""


class Group(_Shaped, click.Group):
    """A group of commands, each a `Command`. Without a command it shows its help and exits 2."""

    command_class = Command

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not args and not ctx.resilient_parsing:
            print(ctx.get_help(), file=sys.stderr)
            ctx.exit(2)
        return super().parse_args(ctx, args)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant, or name the one that looks most like it.

        `help COMMAND` is what `COMMAND --help` is.
        """
        name = args[0]
        if name == "help" and not ctx.resilient_parsing:
            if len(args) == 1:
                click.echo(ctx.get_help())
                ctx.exit()
            return self.resolve_command(ctx, [*args[1:], "--help"])
        if self.get_command(ctx, name) is None and not ctx.resilient_parsing:
            raise click.UsageError(self._no_such_command(ctx, name), ctx)
        return super().resolve_command(ctx, args)

    def _no_such_command(self, ctx: click.Context, name: str) -> str:
        from queuectl.cli.synonyms import command_for

        if name.startswith("-"):
            return f"There is no option {name}."
        known = self.list_commands(ctx)
        group = ctx.command_path.partition(" ")[2]
        if (advice := command_for(group, name, known)) is not None:
            return f"There is no command {name!r}; {advice}."
        harmless = [other for other in known if other not in DELETING]
        hint = did_you_mean(name, harmless, f"there are {', '.join(known)}.")
        return f"There is no command {name!r}; {hint}"


def no_such_option(error: click.NoSuchOption) -> str:
    """Say that there is no such option, and which one is meant, if that can be told."""
    meant = meant_option(error)
    return f"There is no option {error.option_name}" + (f"; {meant}" if meant else "")


def meant_option(error: click.NoSuchOption) -> str | None:
    """Say what does the work of an option that isn't there, or which one looks like it."""
    from queuectl.cli.synonyms import option_for

    if error.ctx is not None:
        command = error.ctx.command
        known = [name for param in command.params for name in param.opts]
        path = error.ctx.command_path.partition(" ")[2]
        if (advice := option_for(path, error.option_name, known)) is not None:
            return f"{advice}."
    near = nearest(error.option_name, error.possibilities or (), cutoff=0.7)
    return None if near is None else f"did you mean {near}?"


def write_block(formatter: click.HelpFormatter, title: str, lines: Sequence[str]) -> None:
    """Write a titled block of command lines; nothing when there are none.

    One that is too long has its comment above it, and goes on in the next line as a shell reads it.
    """
    if not lines:
        return
    margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
    with formatter.section(title):
        for line in lines:
            for part in _folded(line[margin:].rstrip(), formatter.width):
                formatter.write(f"{'':{INDENT}}{part}".rstrip() + "\n")


def write_text_block(formatter: click.HelpFormatter, title: str, sentences: Sequence[str]) -> None:
    """Write a titled block of sentences, each wrapped by itself; words are never broken."""
    from textwrap import wrap

    with formatter.section(title):
        for text in sentences:
            for line in wrap(text, formatter.width, **UNBROKEN):
                formatter.write(f"{'':{INDENT}}{line}\n")


def _folded(line: str, room: int) -> list[str]:
    """Return a command line in parts that have room, with its comment in front of it."""
    if len(line) <= room:
        return [line]
    command, mark, comment = _uncommented(line)
    parts = _comment_lines(comment, room) if mark else []
    for word in _words(command):
        longer = f"{parts[-1]} {word}" if parts else word
        if not parts or parts[-1].startswith("#"):
            parts.append(word)
        elif len(longer) + len(" \\") <= room:
            parts[-1] = longer
        else:
            parts[-1] += " \\"
            parts.append(f"    {word}")
    return parts


def _comment_lines(text: str, room: int) -> list[str]:
    from textwrap import wrap

    return wrap(text, room, initial_indent="# ", subsequent_indent="# ", **UNBROKEN)


def _uncommented(line: str) -> tuple[str, str, str]:
    command, mark, comment = line.partition("  # ")
    return command.rstrip(), mark, comment.strip()


def _words(command: str) -> list[str]:
    """Split a command line where a shell lets it be broken: at spaces outside of quotes."""
    import re

    return re.findall(r"""(?:[^\s"']|"[^"]*"|'[^']*')+""", command)
