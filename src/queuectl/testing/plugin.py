"""The plugin for pytest: fixtures for those who name them. Nothing is imported for others.

`queuectl_app = "shop.tasks:queue"` in pytest's settings names the queue of the application.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from queuectl import Queue
    from queuectl.testing import MovedClock


def pytest_addoption(parser: pytest.Parser) -> None:
    """Take the name of the application's queue."""
    parser.addini("queuectl_app", "the queue that queuectl_queue empties, as module:name")


@pytest.fixture
def queuectl_queue(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[Queue]":
    """An empty queue: that of the application, if the setting `queuectl_app` names it."""
    from queuectl import Queue
    from queuectl.testing import emptied

    app: str = request.config.getini("queuectl_app")
    place = tmp_path / "queuectl.db"
    if not app:
        with Queue(place) as queue:
            yield queue
        return
    with emptied(_imported(app), place) as queue:
        yield queue


def _imported(app: str) -> "Queue":
    from importlib import import_module

    from queuectl import Queue

    module, _, name = app.partition(":")
    found: Any = import_module(module)
    for part in (name or "queue").split("."):
        found = getattr(found, part, None)
    if not isinstance(found, Queue):
        raise pytest.UsageError(f"queuectl_app: {app} is no Queue; write it as module:name.")
    return found


@pytest.fixture
def queuectl_inline(queuectl_queue: "Queue") -> "Iterator[Queue]":
    """The same queue; what is enqueued runs at once."""
    from queuectl.testing import inline

    with inline():
        yield queuectl_queue


@pytest.fixture
def queuectl_clock(queuectl_queue: "Queue") -> "Iterator[MovedClock]":
    """The clock of that queue, to be moved on by its `move`."""
    from queuectl.testing import moving

    with moving(queuectl_queue) as clock:
        yield clock
