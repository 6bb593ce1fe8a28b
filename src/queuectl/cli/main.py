"""The `queuectl` command: finds the command that is meant, and turns errors into sentences.

A command's module is imported when the command is run and not before: starting up is most of
what a short command costs.
"""

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import click

from queuectl import SCHEMA_VERSION, __version__
from queuectl.cli.command import (
    ARGUMENTS,
    COMPLETE,
    HANDED_OVER,
    Group,
    no_such_option,
    write_block,
    write_text_block,
)
from queuectl.cli.interrupts import ignore_interrupts
from queuectl.cli.outlet import EXIT_BROKEN_PIPE, LostError, abandon
from queuectl.errors import EXIT_FAILED, EXIT_INTERRUPTED, QueuectlError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GARBAGE = 10_000
"""How many objects more than before there are when garbage is looked for."""

VERSION = f"queuectl {__version__} (schema {SCHEMA_VERSION})"


class Entry(NamedTuple):
    """Where a command lives, and the line that `queuectl --help` has for it."""

    section: str
    home: str
    help: str


_ADD, _RUN, _WATCH, _CHANGE, _SET_UP = "Add work", "Run it", "Watch", "Change", "Set up"

COMMANDS: dict[str, Entry] = {
    "enqueue": Entry(_ADD, "enqueue:enqueue", "Add jobs: a command, JSON, or a file of either."),
    "push": Entry(_ADD, "push:push", "Add a data job: an id, and bytes for a worker's program."),
    "submit": Entry(_ADD, "push:submit", "Add a data job: another word for push."),
    "schedule": Entry(
        _ADD,
        "schedule:schedule",
        "Make jobs at times: every night, every 15 minutes, as cron does.",
    ),
    "crontab": Entry(_ADD, "crontab:crontab", "Make schedules of a crontab, or a crontab of them."),
    "worker": Entry(_RUN, "worker:worker", "Start, stop, restart and list workers."),
    "queue": Entry(
        _RUN, "queue:queue", "Show queues, pause and rename them, and set what they allow."
    ),
    "pause": Entry(
        _RUN,
        "queues:pause",
        "Stop giving out jobs of a queue, or have a job stand still.",
    ),
    "resume": Entry(
        _RUN,
        "queues:resume",
        "Give out the jobs of a queue again, or let a job go on.",
    ),
    "queues": Entry(_RUN, "queues:queues", "List the queues: what is in them, what they allow."),
    "status": Entry(_WATCH, "status:status", "Show counts, queues and workers at a glance."),
    "list": Entry(_WATCH, "list:list_jobs", "List jobs, newest first, by any filter."),
    "show": Entry(_WATCH, "show:show", "Show everything about a job: fields, runs, history."),
    "graph": Entry(
        _WATCH, "graph:graph", "Show what a job waits for, and what waits for it, as a graph."
    ),
    "explain": Entry(_WATCH, "explain:explain", "Say why jobs don't run, and what to do about it."),
    "output": Entry(_WATCH, "output:output", "Show a job's facts and what it wrote."),
    "logs": Entry(_WATCH, "logs:logs", "Print or follow the output of jobs as they run."),
    "stats": Entry(_WATCH, "stats:stats", "Show success rate, run and wait times, slowest jobs."),
    "events": Entry(
        _WATCH, "events:events", "List what was done by hand, and which jobs died or were rescued."
    ),
    "result": Entry(_WATCH, "telling:result", "Set what a job came to, or print it."),
    "progress": Entry(
        _WATCH,
        "telling:progress",
        "Tell inside a job how far it is, or show how far a group is.",
    ),
    "groups": Entry(_WATCH, "groups:groups", "List groups: how many of their jobs ended how."),
    "results": Entry(_WATCH, "groups:results", "Show what the jobs of a group came to: a table."),
    "steps": Entry(_WATCH, "step:steps", "List the steps of a job that are done."),
    "step": Entry(_RUN, "step:step", "Run a part of a job once, however often the job runs."),
    "sleep": Entry(_RUN, "sleep:sleep", "Give the worker back inside a job, and go on later."),
    "await": Entry(
        _RUN, "sleep:await_", "Give the worker back inside a job until something is emitted."
    ),
    "emit": Entry(_RUN, "sleep:emit", "Tell something to all jobs that await it, or will."),
    "emitted": Entry(_WATCH, "sleep:emitted", "List what was emitted, newest first."),
    "wait": Entry(_WATCH, "wait:wait", "Wait until jobs are finished; exit as they did."),
    "cancel": Entry(_CHANGE, "change:cancel", "Call jobs off, also while they run."),
    "force-finish": Entry(
        _CHANGE, "change:force_finish", "Complete jobs from outside, as if they had succeeded."
    ),
    "retry": Entry(_CHANGE, "change:retry", "Put jobs back in line, to run now."),
    "edit": Entry(_CHANGE, "edit:edit", "Change jobs that wait: priority, queue, time, command."),
    "hold": Entry(
        _CHANGE, "edit:hold", "Keep jobs that wait from running, until they are released."
    ),
    "release": Entry(_CHANGE, "edit:release", "Let jobs run again that are held."),
    "top": Entry(_CHANGE, "edit:top", "Put jobs before all others of their queue and priority."),
    "swap": Entry(_CHANGE, "edit:swap", "Have two jobs take each other's place in the line."),
    "move": Entry(_CHANGE, "edit:move", "Have jobs that wait do so in another queue."),
    "undo": Entry(
        _CHANGE, "undo:undo", "Take back what was done to jobs by hand, within ten minutes."
    ),
    "rm": Entry(
        _CHANGE, "change:rm", "Delete jobs that don't run, with their attempts and output."
    ),
    "prune": Entry(
        _CHANGE, "change:prune", "Delete finished jobs by state and age, with their output."
    ),
    "dlq": Entry(_CHANGE, "dlq:dlq", "Look into the dead letter queue, retry or purge it."),
    "config": Entry(_SET_UP, "config:config", "Show and change settings."),
    "token": Entry(
        _SET_UP, "token:token", "Let programs and people in over HTTP, and see who is signed in."
    ),
    "login": Entry(
        _SET_UP, "login:login", "Keep a token for a server, so that --db with its URL finds it."
    ),
    "logout": Entry(_SET_UP, "login:logout", "Forget the token that is kept for a server."),
    "db": Entry(_SET_UP, "db:db", "Make, check, back up, copy, compact or empty the database."),
    "hook": Entry(_SET_UP, "hook:hook", "Tell others over HTTP what became of jobs: webhooks."),
    "doctor": Entry(
        _SET_UP, "doctor:doctor", "Check the queue, its database and this host; say what to do."
    ),
    "completion": Entry(_SET_UP, "completion:completion", "Print a shell completion script."),
    "web": Entry(_RUN, "web:web", "Serve an HTTP API and a dashboard."),
    "demo": Entry(_SET_UP, "demo:demo", "See it all work in a throw-away queue."),
}

QUICK_START = """\
queuectl enqueue "echo Hello World"  # add a job; this prints its id
queuectl worker start --drain        # run all that waits, then exit
queuectl list                        # see what became of it
queuectl output ID                   # read what it wrote (4 letters of ID do)
"""


class Root(Group):
    """The root group, which imports a command's module only when the command is wanted."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        module, _, attribute = entry.home.partition(":")
        found: click.Command = getattr(import_module(f"queuectl.cli.{module}"), attribute)
        if ctx.resilient_parsing:  # somebody pressed TAB
            from queuectl.cli.completers import teach

            teach(found)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that is meant; `version` is what `--version` is."""
        if args[0] == "version" and not ctx.resilient_parsing:
            click.echo(VERSION)
            ctx.exit()
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> "list[CompletionItem]":
        from click.shell_completion import CompletionItem

        return [
            *(
                CompletionItem(name, help=entry.help)
                for name, entry in COMMANDS.items()
                if name.startswith(incomplete)
            ),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]

    def format_help(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write all that a newcomer needs on one page."""
        self.format_usage(ctx, formatter)
        self.format_help_text(ctx, formatter)
        write_block(formatter, "Quick start", QUICK_START.splitlines())
        self.format_options(ctx, formatter)
        write_text_block(formatter, "The database", _where())
        write_text_block(
            formatter,
            "More help",
            ["queuectl COMMAND --help explains a command, its options and examples of it."],
        )

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by what one wants to do, without importing them."""
        for section in dict.fromkeys(entry.section for entry in COMMANDS.values()):
            with formatter.section(section):
                formatter.write_dl(
                    [(name, e.help) for name, e in COMMANDS.items() if e.section == section],
                    col_max=12,
                )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands first: they are what a reader came for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)


def _where() -> list[str]:
    """Say how the queue is found, and which one that is here and now."""
    from queuectl.address import without_secrets
    from queuectl.cli.render import safe
    from queuectl.place import find_place

    how = (
        "--db, else $QUEUECTL_DB, else db in the nearest queuectl.toml, else queue.db in your data"
        " directory. A file that isn't there yet is made when needed; on a server"
        " (postgresql://..., mysql://...) queuectl db init makes the tables."
    )
    try:
        place = find_place()
    except QueuectlError as error:
        return [how, f"Here and now: {error.advised}"]
    shown = without_secrets(place.url)
    return [how, safe(f"Here and now: {shown} (by {place.chosen_by}).")]


@click.group(cls=Root)
@click.version_option(__version__, "--version", "-V", message=VERSION)
def root() -> None:
    """Run shell commands from a durable queue.

    Jobs are kept in a single SQLite file, or on a database server for workers on many machines.
    Once enqueue has printed the id, the job survives a crash and a power cut. Workers run jobs by
    priority, kill those that take too long, retry those that fail, and keep exit code and output
    of every run.
    """


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the code its command returned (None is 0).

    The console script gets here by way of `queuectl.__main__`.
    """
    # What was imported is no garbage, and a short command leaves next to none: to look for it, now
    # and once more at exit, would be a fifth of what such a command costs.
    gc.freeze()
    gc.set_threshold(GARBAGE)
    gc.enable()
    code = run(sys.argv[1:] if args is None else args, _handed_over())
    gc.freeze()
    ignore_interrupts()
    sys.exit(code)


def _handed_over() -> Mapping[str, Any]:
    """Return what a node that was restarted in place has left for the one that it becomes."""
    if HANDED_OVER not in os.environ:
        return {}
    from queuectl.node.handover import receive

    return {HANDED_OVER: receive(os.environ)}


def run(args: Sequence[str], meta: Mapping[str, Any] | None = None) -> int:
    """Run one command line; returns the exit code. No error comes out as a traceback.

    Commands find what is in `meta` in their context.
    """
    _prepare_streams()
    try:
        code = _guarded(args, meta or {})
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away.
        abandon()
        return EXIT_BROKEN_PIPE
    except OSError as error:
        abandon()
        return _explain(error)
    return code


def _prepare_streams() -> None:
    """Make sure that there is somewhere to write, and that everything can be written."""
    for name in ("stdin", "stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller: print() would choose another stream
            setattr(sys, name, open(os.devnull, "r+", encoding="utf-8"))  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # what the locale can't show is better seen escaped
            stream.reconfigure(errors="backslashreplace")


def _guarded(args: Sequence[str], meta: Mapping[str, Any]) -> int:
    try:
        return _dispatch(args, meta)
    except BrokenPipeError:
        raise
    except (KeyboardInterrupt, click.Abort):
        if sys.stderr.isatty():
            print(file=sys.stderr)  # the terminal has just shown ^C
        return EXIT_INTERRUPTED
    except (click.exceptions.Exit, LostError) as exit:
        return exit.exit_code
    except Exception as error:  # noqa: BLE001 - the last place to make a sentence of it
        return _explain(error)


def _dispatch(args: Sequence[str], meta: Mapping[str, Any]) -> int:
    handover = meta.get(HANDED_OVER)
    if handover is not None:
        # What the list of processes shows of them may lack a password.
        args = sys.argv[1:] = handover.arguments
    if any("://" in argument for argument in sys.argv):
        from queuectl.cli.passwords import hide_passwords

        hide_passwords(sys.argv)
    if instruction := os.environ.get(COMPLETE):
        from queuectl.cli.completion import complete

        return complete(root, COMPLETE, instruction)
    with root.make_context("queuectl", list(args)) as ctx:
        ctx.meta.update({ARGUMENTS: list(args), **meta})
        code = root.invoke(ctx)
    return code if isinstance(code, int) else 0


def _explain(error: Exception) -> int:
    """Say in one sentence on stderr what went wrong; returns the exit code for it."""
    from queuectl.cli.render import complain

    if os.environ.get("QUEUECTL_DEBUG"):
        import traceback

        traceback.print_exception(error)
    match error:
        case QueuectlError():
            complain(_discreet(_sentence(error.advised)))
            return error.exit_code
        case click.UsageError():
            complain(_discreet(_usage(error)))
            return error.exit_code
        case click.ClickException():
            complain(_discreet(error.format_message()))
            return error.exit_code
        case OSError():
            complain(_system(error))
        case _:
            what = f"{type(error).__name__}: {error}"
            complain(f"Unexpected {what} (a bug; QUEUECTL_DEBUG=1 shows where it happened).")
    return EXIT_FAILED


def _discreet(text: str) -> str:
    """Leave passwords out that were among the arguments, which errors may repeat."""
    if any("://" in argument for argument in sys.argv):
        from queuectl.cli.passwords import passwords_in

        for secret in passwords_in(sys.argv):
            text = text.replace(f":{secret}@", ":***@").replace(f"={secret}", "=***")
    return text


def _usage(error: click.UsageError) -> str:
    path = error.ctx.command_path if error.ctx is not None else "queuectl"
    text = error.format_message()
    if isinstance(error, click.MissingParameter):  # click puts the choices on lines of their own
        text = " ".join(text.split())
    elif isinstance(error, click.NoSuchOption):
        text = no_such_option(error)
    return f"{_sentence(text)} See {path} --help."


def _sentence(text: str) -> str:
    word, _, rest = text.partition(" ")
    if word.isalpha() and rest.startswith("must "):  # the field of a job; settings keep their names
        text = text[0].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text.rstrip()}."


def _system(error: OSError) -> str:
    reason = error.strerror or str(error) or type(error).__name__
    if error.filename is None:
        return f"{reason}."
    return f"{os.fsdecode(error.filename)}: {reason}."


if __name__ == "__main__":
    main()
