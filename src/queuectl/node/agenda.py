"""A node's agenda: what is to be done when. The loop sleeps by it, and runs what is due."""

from collections.abc import Callable
from math import inf
from time import monotonic
from typing import NamedTuple


class Timer:
    """A time that is set again and again; the first is now."""

    __slots__ = ("at",)

    def __init__(self) -> None:
        self.at = 0.0

    def set(self, seconds: float) -> None:
        """Be due in so many seconds."""
        self.at = monotonic() + seconds

    def hurry(self) -> None:
        """Be due at once."""
        self.at = 0.0

    def due_in(self) -> float:
        """Return in how many seconds it is due."""
        return self.at - monotonic()


class Entry(NamedTuple):
    """Something that is due at some time."""

    name: str
    due_in: Callable[[], float]
    """In how many seconds: the loop is awake by then."""
    do: Callable[[], None] | None = None
    """What is done then; None if being awake is all that it takes."""
    early: float = 0.0
    """Seconds by which that may be done early, if the loop is awake anyway; inf: in each round."""


def never() -> float:
    """Say that something wakes nobody."""
    return inf


class Agenda:
    """All entries, in the order in which they are done when several are due."""

    def __init__(self, *entries: Entry) -> None:
        self._times = [entry.due_in for entry in entries if entry.due_in is not never]
        self._steps = [
            (entry.due_in, entry.early, entry.do) for entry in entries if entry.do is not None
        ]

    def pause(self) -> float:
        """Return how many seconds may pass until the next entry is due."""
        pause = inf
        for due_in in self._times:
            left = due_in()
            if left <= 0:
                return 0.0
            if left < pause:
                pause = left
        return pause

    def run(self) -> None:
        """Do what is due."""
        for due_in, early, do in self._steps:
            if due_in() <= early:
                do()
