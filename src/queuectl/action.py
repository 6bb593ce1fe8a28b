"""Which events belong together: what one command, request or call does is one action."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Action:
    """What somebody does, which may be to many jobs."""

    def __init__(self, id: str | None = None) -> None:
        self.id = os.urandom(8).hex() if id is None else id
        self.can_be_undone = False
        """Whether anything was done that can be undone."""


_action: "ContextVar[Action | None]" = ContextVar("action", default=None)


@contextmanager
def one_action(action: Action | None = None) -> Iterator[Action]:
    """Let what is done inside be one action, or part of the one that goes on already.

    It holds for this thread, or this task of asyncio, and what these start with a copy of their
    context.
    """
    current = _action.get() or action or Action()
    token = _action.set(current)
    try:
        yield current
    finally:
        _action.reset(token)


def current_action() -> Action | None:
    """Return the action that goes on, if there is one."""
    return _action.get()
