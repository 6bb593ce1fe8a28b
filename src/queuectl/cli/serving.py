"""The options of `worker start` that say which queues a node serves, and in which order."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from queuectl.admission import Serving
from queuectl.cli.options import with_options
from queuectl.request import check_name

HEAVIEST = 1_000

_OPTIONS = (
    click.option(
        "--queue",
        "-Q",
        "queues",
        multiple=True,
        metavar="NAME[:N]",
        help="Serve only this queue; repeatable. With :N behind some, each gets its share of the"
        " jobs that start: a:3 and b:1 are three to one.  [default: all]",
    ),
    click.option(
        "--in-order",
        is_flag=True,
        help="Start all that is ready in one --queue before anything of the next.",
    ),
    click.option(
        "--exclude",
        "excluded",
        multiple=True,
        metavar="NAME",
        help="Serve all queues but this one, also those that are still to come; repeatable.",
    ),
)


def serving_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; they arrive as one `serving`."""

    @wraps(command)
    def gather(
        *args: Any, queues: Sequence[str], in_order: bool, excluded: Sequence[str], **given: Any
    ) -> Any:
        return command(*args, serving=_serving(queues, excluded, in_order=in_order), **given)

    return with_options(gather, _OPTIONS)


def _serving(queues: Sequence[str], excluded: Sequence[str], *, in_order: bool) -> Serving:
    if queues and excluded:
        raise click.UsageError("Give either --queue, or --exclude, not both")
    if in_order and not queues:
        raise click.UsageError("--in-order is about several --queue; name them in their order")
    shares: dict[str, int | None] = {}
    for text in queues:
        name, share = _share(text)
        if shares.setdefault(name, share) != share:
            raise click.UsageError(f"--queue {name[:60]!r} is given twice, with different shares")
    weights = tuple(share or 1 for share in shares.values())
    if not any(shares.values()):
        weights = ()
    elif in_order:
        raise click.UsageError("With --in-order no queue has a share; write --queue NAME")
    return Serving(tuple(shares), tuple(dict.fromkeys(map(_name, excluded))), weights, in_order)


def _share(text: str) -> tuple[str, int | None]:
    """Return a queue, and its share if one is given: a whole number behind the last colon."""
    name, colon, number = text.rpartition(":")
    if not colon or not number.isascii() or not number.isdecimal():
        return _name(text), None
    if not 1 <= int(number[:20]) <= HEAVIEST:
        raise click.UsageError(
            f"A share is a whole number from 1 to {HEAVIEST:,}, not {number[:20]};"
            f" if that belongs to the name, write {text[:60]}:1"
        )
    return _name(name), int(number)


def _name(text: str) -> str:
    return check_name("A queue's name", text)
