"""The options of `worker start` that say what a node has for jobs that need something."""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any

import click

from queuectl.cli.options import with_options
from queuectl.errors import UsageError
from queuectl.values import replace

_OPTIONS = (
    click.option(
        "--resources",
        multiple=True,
        metavar="NAME=AMOUNT,...",
        help="What it has for jobs that say what they need, such as cpu=8,mem=32G,gpu=4,license=2;"
        " gpu=[0,2] names devices. auto is what is found: cores, memory and NVIDIA GPUs."
        "  [default: nothing, and no such jobs]",
    ),
    click.option(
        "--label",
        "labels",
        multiple=True,
        metavar="LABEL",
        help="Say of it what jobs may require, such as ssd; repeatable.",
    ),
)


def having_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options; what they say is in its `serving`."""

    @wraps(command)
    def gather(
        *args: Any, serving: Any, resources: Sequence[str], labels: Sequence[str], **given: Any
    ) -> Any:
        if resources or labels:
            said = _having(resources, labels)
            serving = replace(serving, **said)
        return command(*args, serving=serving, **given)

    return with_options(gather, _OPTIONS)


def _having(resources: Sequence[str], labels: Sequence[str]) -> dict[str, Any]:
    from queuectl.inventory import with_found
    from queuectl.resources import AmountError, read_labels, read_resources

    try:
        has = read_resources(with_found(",".join(resources))) if resources else ""
    except AmountError as error:
        raise UsageError(f"--resources can't be {error}.") from None
    try:
        return {"resources": has, "labels": read_labels([*labels])}
    except AmountError as error:
        raise UsageError(f"--label can't be {error}.") from None
