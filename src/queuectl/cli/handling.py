"""The options of `worker start` that say which programs handle data jobs, and the words after."""

import os
from collections.abc import Callable, Sequence
from functools import wraps
from shutil import which
from typing import Any, TypeVar

import click

from queuectl.errors import UsageError
from queuectl.node.programs import Programs
from queuectl.request import check_name, check_text
from queuectl.values import replace

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.argument("arguments", nargs=-1, metavar="[-- ARG...]"),
    click.option(
        "--exec",
        "programs",
        multiple=True,
        metavar="[TYPE=]PROGRAM",
        help="Handle data jobs, of this type or of all: PROGRAM runs with ARGs, the job's id as the"
        " last argument and its data on stdin. Repeatable; =PROGRAM is for those without a type.",
    ),
)


def handling_options(command: F) -> F:
    """Give a command these options; what they say is in its `serving`, and as `programs`."""

    @wraps(command)
    def gather(
        *args: Any, programs: Sequence[str], arguments: Sequence[str], serving: Any, **given: Any
    ) -> Any:
        handled = _programs(programs, arguments)
        serving = replace(serving, handlers=handled.handlers)
        return command(*args, serving=serving, programs=handled, **given)

    decorated: Any = gather
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated  # type: ignore[no-any-return]


def _programs(given: Sequence[str], arguments: Sequence[str]) -> Programs:
    if arguments and not given:
        raise click.UsageError(
            f"Got unexpected extra argument ({arguments[0][:60]}); words behind -- are for --exec"
        )
    for word in arguments:
        check_text("an argument", word, longest=128 * 1024 - 1, blank=True)
    found: dict[str, str] = {}
    for text in given:
        type, equals, program = text.partition("=")
        if not equals:
            type, program = "*", text
        elif type not in ("", "*"):
            type = check_name("A type", type)
        if type in found:
            raise click.UsageError(f"--exec is given twice for {type or 'data without a type'}")
        found[type] = _found(program)
    for_all = found.pop("*", None)
    return Programs(by_type=found, for_all=for_all, arguments=tuple(arguments))


def _found(program: str) -> str:
    """Return where a program is, from wherever it is started."""
    path = which(check_text("the program of --exec", program, longest=4096))
    if path is None:
        raise UsageError(f"There is no program {program!r} that can be executed; check --exec.")
    return os.path.abspath(path)
