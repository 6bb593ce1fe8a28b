"""Clients of a store that are killed: in a transaction, while they commit, or right after it.

A helper process waits here for orders. For each it forks a client, which opens the store and does
what it is told in one transaction, and kills it with SIGKILL when it has come as far as wished.
"""

import os
import pickle
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from typing import IO, Any

from queuectl.store import open_store
from tests.contract.deeds import Deed, answer

CHECKOUT = Path(__file__).parents[2]


class Moment(StrEnum):
    """When a client dies."""

    INSIDE = "inside"
    """It has done everything, and doesn't commit."""
    COMMITTING = "committing"
    """Somewhere around its commit: nobody knows what became of it."""
    COMMITTED = "committed"
    """Right after its commit, before it could tell anybody."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """How a client dies."""

    moment: Moment
    delay: float
    """Seconds from the begin of its commit, if it is to die then."""
    alone: bool
    """Nobody else has the store open: whoever comes next must clear up."""


Order = tuple[str, Sequence[Deed], Death]
"""The URL of a store, what a client does there in one transaction, and how it dies."""


class Victims:
    """The helper that makes clients and kills them; it ends with the process that started it."""

    def __init__(self) -> None:
        self._helper = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=CHECKOUT,
        )

    def kill_one(self, url: str, deeds: Sequence[Deed], death: Death) -> list[Any]:
        """Let a client live and die, and return what it was answered until then."""
        assert self._helper.stdin is not None
        assert self._helper.stdout is not None
        pickle.dump((url, deeds, death), self._helper.stdin)
        self._helper.stdin.flush()
        good, said = pickle.load(self._helper.stdout)
        assert good, said
        answers: list[Any] = said
        return answers

    def close(self) -> None:
        """Let the helper go."""
        self._helper.communicate(timeout=60)


def serve() -> None:
    """Be the helper: take orders until nobody is there to give them."""
    for driver in ("sqlite", "postgresql", "mysql"):
        # So that no client has to do it.
        import_module(f"queuectl.store.{driver}")
    while True:
        try:
            order: Order = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        pickle.dump(_live_and_die(order), sys.stdout.buffer)
        sys.stdout.buffer.flush()


def _live_and_die(order: Order) -> tuple[bool, Any]:
    _, _, death = order
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reading)
        with open(writing, "wb", buffering=0) as pipe:
            _live(order, pipe)
    os.close(writing)
    with open(reading, "rb") as pipe:
        said: tuple[bool, Any] = pickle.load(pipe)
        if said[0] and death.moment == Moment.COMMITTING:
            time.sleep(death.delay)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        # More is said only by one whose commit was refused.
        more = pipe.read()
    return pickle.loads(more) if more else said


def _live(order: Order, pipe: IO[bytes]) -> None:
    """Do what is ordered, say what was answered, and wait for death."""
    url, deeds, death = order
    try:
        store = open_store(url)
        with store.db.transaction():
            said = pickle.dumps((True, [answer(deed, store) for deed in deeds]))
            if death.moment != Moment.COMMITTED:
                pipe.write(said)
            while death.moment == Moment.INSIDE:
                signal.pause()
        if death.moment == Moment.COMMITTED:
            pipe.write(said)
    except BaseException:  # noqa: BLE001 - whatever it is, the test must hear of it
        pipe.write(pickle.dumps((False, traceback.format_exc())))
    while True:
        signal.pause()
