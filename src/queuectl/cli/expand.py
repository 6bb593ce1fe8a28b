"""The options of `enqueue` that make many jobs of one: arrays, lines, objects and sweeps."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from queuectl.cli.options import Once, check_not_empty
from queuectl.values import dataclass

F = TypeVar("F", bound=Callable[..., Any])
_OPTIONS = ("array", "each_line", "null", "each_json", "sweep", "at_once", "after_each", "skip")


def expansion_options(command: F) -> F:
    """Add the options that make many jobs of one."""
    options = (
        click.option(
            "--array",
            cls=Once,
            instead="put all numbers into one, with commas: --array 1-3,7",
            metavar="NUMBERS[%N]",
            help="One job for each number: 1-100, 1,3,7-9, 1-100:5; %N runs at most N at once.",
        ),
        click.option(
            "--each-line",
            cls=Once,
            instead="pipe all files into one: cat A B | queuectl enqueue ... --each-line -",
            metavar="FILE",
            type=click.Path(),
            help="One job for each line, which takes the place of {} {.} {/} {//} {/.}; - is"
            " stdin.",
        ),
        click.option(
            "--null", "-0", is_flag=True, help="With --each-line: NULs, not newlines, end lines."
        ),
        click.option(
            "--sweep",
            metavar="NAME=VALUES",
            multiple=True,
            help="One job for each value, such as lr=0.1,0.01 or seed=1..5, which takes the place"
            " of {NAME}; repeat it for all combinations.",
        ),
        click.option(
            "--each-json",
            cls=Once,
            instead="pipe all files into one: cat A B | queuectl enqueue ... --each-json -",
            metavar="FILE",
            type=click.Path(),
            help="One job for each line of JSON, an object whose values take the places of their"
            " {NAMES}; - is stdin.",
        ),
        click.option(
            "--at-once",
            cls=Once,
            metavar="N",
            help="With any of these: at most N of them run at once.",
        ),
        click.option(
            "--after-each",
            cls=Once,
            instead="name one group, and what else they wait for with --after or --after-group",
            metavar="GROUP[:WANTED]",
            help="With any of these: each waits for the one of that array or sweep that has the"
            " same number, or parameters.",
        ),
        click.option(
            "--skip",
            cls=Once,
            metavar="N",
            type=click.IntRange(min=0),
            default=0,
            help="With any of these: leave out the first N, which are stored already.",
        ),
    )
    for add in reversed(options):
        command = add(command)
    return command


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What the options say of the many jobs that one is to become."""

    array: str | None
    each_line: str | None
    null: bool
    each_json: str | None
    sweep: tuple[str, ...]
    at_once: str | None
    after_each: str | None
    skip: int

    @property
    def reads_stdin(self) -> bool:
        """Whether it takes our stdin for itself."""
        return "-" in (self.each_line, self.each_json)


def wanted(flags: dict[str, Any]) -> Wanted | None:
    """Take the options of an expansion out of all that were given; None if there is none."""
    asked = Wanted(**{name: flags.pop(name) for name in _OPTIONS})
    for name in ("array", "each_line", "each_json", "at_once", "after_each"):
        check_not_empty(f"--{name.replace('_', '-')}", getattr(asked, name))
    if not any((asked.array, asked.each_line, asked.each_json, asked.sweep)):
        _check_alone(asked)
        return None
    if asked.null and asked.each_line is None:
        raise click.UsageError("--null is for --each-line")
    sources = [
        f"--{name.replace('_', '-')}"
        for name in ("array", "each_line", "each_json")
        if getattr(asked, name) is not None
    ]
    if len(sources) > 1:
        raise click.UsageError(f"{' and '.join(sources)} can't be together; give one of them")
    if asked.array is not None and asked.sweep:
        raise click.UsageError(
            "--array and --sweep can't be together; --sweep n=1..100 does what an array does"
        )
    if asked.after_each is not None and asked.skip:
        raise click.UsageError("--after-each stores all of them or none, so there is no --skip")
    return asked


def _check_alone(asked: Wanted) -> None:
    """Refuse what says more of an expansion where there is none."""
    if asked.null:
        raise click.UsageError("--null is for --each-line")
    for option, value in (
        ("--at-once", asked.at_once),
        ("--after-each", asked.after_each),
        ("--skip", asked.skip),
    ):
        if value:
            raise click.UsageError(f"{option} is for --array, --each-line, --sweep and --each-json")
