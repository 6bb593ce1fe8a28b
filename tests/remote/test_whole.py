"""Which methods of a `Queue` a server is asked for, and which are done where the database is."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

from queuectl import Queue
from queuectl.errors import UsageError
from queuectl.filter import Filter
from queuectl.remote.queue import RemoteQueue
from queuectl.store.contract import RunId, Wish
from tests.remote.conftest import Pair

BY_OTHERS = """
    cancel chain edit enqueue_graph events graph hold is_dead move page page_events parallel release
    remove retry series settings task tasks top wait watch
""".split()
"""They ask by means of other methods, or needn't ask anybody."""

RUN = RunId("done", 1, "here")
WHERE_THE_DATABASE_IS: dict[str, Callable[[Queue], Any]] = {
    "backup": lambda queue: queue.backup("copy.db"),
    "begin_step": lambda queue: queue.begin_step(RUN, "first"),
    "check_place": lambda queue: queue.check_place(),
    "checkup": lambda queue: queue.checkup(),
    "clone": lambda queue: queue.clone("done"),
    "copy_to": lambda queue: queue.copy_to("copy.db"),
    "fall_asleep": lambda queue: queue.fall_asleep(RUN, Wish(step="nap", wait=0)),
    "figures": lambda queue: queue.figures(),
    "folder": lambda queue: queue.folder,
    "heartbeat": lambda queue: queue.heartbeat(RUN),
    "keep_step": lambda queue: queue.keep_step(RUN, "first", b""),
    "migrate": lambda queue: queue.migrate(),
    "reset": lambda queue: queue.reset(),
    "restart_nodes": lambda queue: queue.restart_nodes(),
    "search": lambda queue: queue.search(Filter()),
    "search_events": lambda queue: queue.search_events(),
    "share": lambda queue: queue.share("users"),
    "together": lambda queue: queue.together,
    "update_data": lambda queue: queue.update_data({}, run=RUN),
    "vacuum": lambda queue: queue.vacuum(),
    "verify": lambda queue: queue.verify(),
}


def test_every_method_is_asked_or_said_to_be_elsewhere() -> None:
    """One that is new would be refused by surprise."""
    methods = {name for name in vars(Queue) if not name.startswith("_")}
    inherited = methods - vars(RemoteQueue).keys()
    assert inherited == {*BY_OTHERS, *WHERE_THE_DATABASE_IS}


@pytest.mark.parametrize("method", WHERE_THE_DATABASE_IS)
def test_what_needs_the_database_says_so(method: str, pair: Pair) -> None:
    with pair.remote() as queue, pytest.raises(UsageError, match="can't be done through http"):
        begin(WHERE_THE_DATABASE_IS[method](queue))


def begin(called: object) -> None:
    """Do what a context manager or an iterator puts off."""
    if isinstance(called, AbstractContextManager):
        with called:
            pass
    elif isinstance(called, Iterator):
        next(called)
