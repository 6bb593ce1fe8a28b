"""How much of a long list is shown: a page to a person, everything to a program."""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from queuectl.cli.render import is_terminal

F = TypeVar("F", bound=Callable[..., Any])

LIMIT = 50
"""Rows shown when nothing is said."""
LONGEST = 1_000_000_000


def limit_option(*bare: str) -> Callable[[F], F]:
    """Add --limit/-n, which `how_many` reads. The output of the `bare` options is for programs."""
    forms = f"{', '.join(bare[:-1])} or {bare[-1]}" if len(bare) > 1 else bare[0]
    return click.option(
        "--limit",
        "-n",
        type=click.IntRange(0, LONGEST),
        metavar="N",
        help=f"At most so many; 0 for all.  [default: {LIMIT}; all with {forms} in a pipe]",
    )


def how_many(limit: int | None, *, bare: bool) -> int | None:
    """Return how many are listed at most; None for all.

    What is bare goes to programs, unless a person reads it on a terminal: one that acts on ids must
    not be given some of them. A table is for people wherever it goes (`ssh`, `watch`, a log).
    """
    if limit is not None:
        return limit or None
    return None if bare and not is_terminal() else LIMIT
