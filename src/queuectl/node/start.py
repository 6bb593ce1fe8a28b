"""Starting a node: its queue is opened, its loop run, and at its end a restart carried out."""

import signal
from time import sleep

from queuectl.errors import StoreBusyError, StoreFullError, StoreUnreachableError
from queuectl.node.config import NodeOptions
from queuectl.node.node import NodeLoop
from queuectl.node.restart import Way
from queuectl.node.signals import STOPS
from queuectl.queue import Queue

OPEN_AGAIN = 0.5
"""Seconds until a store is opened again that can't be reached, for runs that go on meanwhile."""


def run(options: NodeOptions) -> int:
    """Run a node until it is told to stop; returns the exit code."""
    with _open(options) as queue:
        loop = NodeLoop(queue, options)
        code = loop.serve()
    if loop.orders.restart.way is Way.ANEW:
        loop.orders.restart.execute(None)
    return code


def _open(options: NodeOptions) -> Queue:
    """Open the queue. For runs that go on, as long as it takes, unless somebody says stop."""
    while True:
        try:
            return Queue(place=options.place, create=options.handed is None)
        except (StoreUnreachableError, StoreBusyError, StoreFullError):
            if options.handed is None or signal.sigpending() & STOPS:
                raise
            sleep(OPEN_AGAIN)
