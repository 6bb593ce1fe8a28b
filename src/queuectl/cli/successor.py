"""`python -m queuectl.cli.successor`: says whether this queuectl can take over from a running node.

The node asks before it becomes this one, with its arguments on stdin: see `node/restart.py`. To
know that they are understood, `worker start` is called with them, and stops short of starting.
"""

import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from queuectl import __version__
from queuectl.cli.render import write

if TYPE_CHECKING:
    from queuectl.node.config import NodeOptions
    from queuectl.node.handover import Again
    from queuectl.place import Place

ASKED = "queuectl.cli.successor"
"""In the context of a command: it is only asked whether it could."""


def start_again(arguments: Sequence[str], *, daemon: bool) -> "Again":
    """Return how a node with these arguments is started again, by whatever is installed then."""
    from queuectl.cli.passwords import without_passwords
    from queuectl.node.handover import Again

    # -P: a file in the current directory must not pass for a module.
    python = (sys.executable, "-P", "-m")
    return Again(
        ask=(*python, __name__),
        start=(*python, "queuectl", *without_passwords(arguments)),
        arguments=tuple(arguments),
        daemon=daemon,
    )


def answer(options: "NodeOptions") -> int:
    """Say that a node with these options could be started, or raise what keeps it from that."""
    from queuectl.node.restart import answer

    options.place.settings({})
    if options.log is not None:
        os.close(os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600))
    _try_to_connect(options.place)
    write(answer(__version__))
    return 0


def _try_to_connect(place: "Place") -> None:
    """See that there is a driver for a server, whether or not the server can be reached."""
    from queuectl.address import is_server
    from queuectl.errors import StoreError
    from queuectl.queue import Queue

    if is_server(place.url):
        try:
            Queue(place=place, create=False).close()
        except StoreError:
            return


def main() -> None:
    """Answer the node that asks."""
    from queuectl.cli.main import run

    sys.exit(run(json.load(sys.stdin), {ASKED: True}))


if __name__ == "__main__":
    main()
