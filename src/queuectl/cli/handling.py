"""The options of `worker start` that say which programs handle data jobs and tasks."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import wraps
from shutil import which
from typing import Any

import click

from queuectl.cli.command import DB
from queuectl.cli.configure import ARGUMENTS_READ
from queuectl.cli.options import here, with_options
from queuectl.cli.render import say
from queuectl.errors import UsageError
from queuectl.node.programs import Handler, Programs
from queuectl.request import check_name, check_text
from queuectl.sizes import parse_size
from queuectl.values import replace

MOST_AT_ONCE = 1_000
ALL = "*"


class Size(click.ParamType):  # type: ignore[type-arg]
    """An amount of memory."""

    name = "size"

    def convert(self, value: Any, param: Any, ctx: Any) -> int:
        """Read it as the settings do."""
        try:
            return parse_size(value)
        except ValueError as error:
            self.fail(f"{value!r} isn't {error}", param, ctx)


_OPTIONS = (
    click.argument("arguments", nargs=-1, metavar="[-- ARG...]"),
    click.option(
        "--exec",
        multiple=True,
        metavar="[TYPE=]PROGRAM",
        help="Handle data jobs, of this type or of all: PROGRAM runs with ARGs, the job's id as the"
        " last argument and its data on stdin. Repeatable; =PROGRAM is for those without a type.",
    ),
    click.option(
        "--serve",
        multiple=True,
        metavar="[TYPE=]PROGRAM",
        help="Handle them by a PROGRAM that stays: it gets one job after the other on stdin, and"
        " says on stdout what became of it, as lines of JSON: see docs/handlers.md.",
    ),
    click.option(
        "--run",
        multiple=True,
        metavar="[TYPE=]FILE",
        help="Handle them by a class in this FILE of Python: Run(task), with run() and maybe"
        " kill(reason).",
    ),
    click.option(
        "--run-class", metavar="NAME", default="Run", help="What the class of --run is called."
    ),
    click.option(
        "--app",
        "apps",
        multiple=True,
        metavar="MODULE:QUEUE",
        help="Run the tasks of this Python application: the module, and the Queue in it."
        " Repeatable.",
    ),
    click.option(
        "--async-concurrency",
        type=click.IntRange(1, MOST_AT_ONCE),
        metavar="N",
        help="Run tasks that are async functions N at once for each of the workers, in one process;"
        " commands and other tasks are left to other nodes.",
    ),
    click.option(
        "--max-jobs-per-child",
        type=click.IntRange(1),
        metavar="N",
        help="Replace a program that stays after N jobs.",
    ),
    click.option(
        "--max-memory-per-child",
        type=Size(),
        metavar="SIZE",
        help="Replace a program that stays when it has more memory than this, as 512M; a job during"
        " which it comes to twice as much is ended, and has failed.",
    ),
)


def handling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; what they say is in its `serving`, and as `programs`."""

    @wraps(command)
    def gather(*args: Any, serving: Any, **given: Any) -> Any:
        given["arguments"] = given["arguments"] or click.get_current_context().meta.get(
            ARGUMENTS_READ, ()
        )
        said = _Given(**{field.name: given.pop(field.name) for field in fields(_Given)})
        programs = said.programs()
        serving = replace(serving, handlers=programs.handlers, no_commands=programs.shared_by > 1)
        return command(*args, serving=serving, programs=programs, **given)

    return with_options(gather, _OPTIONS)


@dataclass(kw_only=True)
class _Given:
    """What the options say."""

    arguments: Sequence[str]
    exec: Sequence[str]
    serve: Sequence[str]
    run: Sequence[str]
    run_class: str
    apps: Sequence[str]
    async_concurrency: int | None
    max_jobs_per_child: int | None
    max_memory_per_child: int | None

    @property
    def _limits(self) -> dict[str, Any]:
        return {"max_jobs": self.max_jobs_per_child, "max_memory": self.max_memory_per_child}

    def programs(self) -> Programs:
        """Return the programs; raises if they can't be had."""
        self._check()
        types: dict[str, str] = {}
        exec = _by_type("--exec", self.exec, types)
        serve = _by_type("--serve", self.serve, types)
        run = _by_type("--run", self.run, types)
        warm = [
            *(self._app(app) for app in self.apps),
            *(self._server(type, program) for type, program in serve.items()),
            *(self._runner(type, file) for type, file in run.items()),
        ]
        for_all = exec.pop(ALL, None)
        return Programs(
            by_type={type: _found("--exec", program) for type, program in exec.items()},
            for_all=None if for_all is None else _found("--exec", for_all),
            arguments=tuple(self.arguments),
            warm=tuple(warm),
        )

    def _check(self) -> None:
        if self.arguments and not (self.exec or self.serve):
            raise click.UsageError(
                f"Got unexpected extra argument ({self.arguments[0][:60]}); words behind -- are"
                " for --exec and --serve"
            )
        for word in self.arguments:
            check_text("an argument", word, longest=128 * 1024 - 1, blank=True)
        if self.async_concurrency and (not self.apps or self.exec or self.serve or self.run):
            raise click.UsageError("--async-concurrency is for --app alone")
        if any(self._limits.values()) and not (self.apps or self.serve or self.run):
            raise click.UsageError(
                "--max-jobs-per-child and --max-memory-per-child are for --app, --serve and --run"
            )

    def _app(self, app: str) -> Handler:
        from queuectl.handlers.application import PROGRAM, application
        from queuectl.handlers.lines import MOST_AHEAD

        place = here()
        found = application(app, None if place.is_default else place.url)
        tasks = found.tasks
        if place.is_default and found.db:
            # Whoever runs an application means its queue.
            click.get_current_context().meta[DB] = found.db
        elif found.db not in ("", place.url):
            say(f"Note: {app} uses another queue than this node: {found.shown}.")
        if self.async_concurrency:
            tasks = {name: is_async for name, is_async in tasks.items() if is_async}
            if not tasks:
                raise UsageError(f"{app} has no async tasks; leave out --async-concurrency.")
        return Handler(
            name=app,
            argv=(*PROGRAM, *(["many"] if self.async_concurrency else []), "app", app),
            types=frozenset(tasks),
            is_ours=True,
            ahead=MOST_AHEAD,
            shared_by=self.async_concurrency or 1,
            **self._limits,
        )

    def _server(self, type: str, program: str) -> Handler:
        argv = (_found("--serve", program), *self.arguments)
        return Handler(name=program, argv=argv, types=_types(type), **self._limits)

    def _runner(self, type: str, file: str) -> Handler:
        from queuectl.handlers.application import PROGRAM, check_class
        from queuectl.handlers.lines import MOST_AHEAD

        path = os.path.abspath(file)
        if not os.path.isfile(path):
            raise UsageError(f"There is no file {file!r}; check --run.")
        check_class(path, self.run_class)
        return Handler(
            name=file,
            argv=(*PROGRAM, "run", path, self.run_class),
            types=_types(type),
            is_ours=True,
            ahead=MOST_AHEAD,
            **self._limits,
        )


def _types(type: str) -> frozenset[str] | None:
    return None if type == ALL else frozenset([type])


def _by_type(option: str, given: Sequence[str], known: dict[str, str]) -> dict[str, str]:
    """Return what an option says for each type; `known` has those that others were given for."""
    found: dict[str, str] = {}
    for text in given:
        type, equals, program = text.partition("=")
        if not equals:
            type, program = ALL, text
        elif type not in ("", ALL):
            type = check_name("A type", type)
        if type in known:
            what = {"": "data without a type", ALL: "all types"}.get(type, type)
            first = known[type]
            twice = f"{option} is given twice" if first == option else f"{first} and {option} are"
            raise click.UsageError(f"{twice} {'given ' if first != option else ''}for {what}")
        known[type] = option
        found[type] = program
    return found


def _found(option: str, program: str) -> str:
    """Return where a program is, from wherever it is started."""
    path = which(check_text(f"the program of {option}", program, longest=4096))
    if path is None:
        raise UsageError(f"There is no program {program!r} that can be executed; check {option}.")
    return os.path.abspath(path)
