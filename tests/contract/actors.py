"""Starts the processes that play a part in a test, and talks to them."""

import ast
import atexit
import subprocess
import sys
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("actor.py")


class Actor:
    """One process of `actor.py`."""

    def __init__(self, part: str, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(SCRIPT), part, *args],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def say(self, words: str = "") -> None:
        """Say a line to it."""
        assert self.process.stdin is not None
        self.process.stdin.write(words + "\n")

    def hear(self) -> str:
        """Wait for the next line it says."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().rstrip("\n")

    def finish(self) -> str:
        """Let it go, wait for it to end well, and return what else it said."""
        said = self._rest()
        assert self.process.returncode == 0
        return said

    def kill(self) -> str:
        """End it with no chance to tidy up, and return what else it said."""
        self.process.kill()
        return self._rest()

    def _rest(self) -> str:
        """Read what it says to its end; `communicate` would miss what was read ahead."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()
        with self.process.stdout as stdout:
            said = stdout.read()
        self.process.wait()
        return said


Row = tuple[Any, ...]


class ForeignError(Exception):
    """What a foreign client was told instead of rows."""


class SqliteClient:
    """A connection of another process, through another copy of SQLite than ours."""

    TABLES = (
        "jobs attempts outputs inputs tags counts nodes queues rollups events config meta"
        " watches live receipts schedules ticks keys uniques pauses results progress steps"
        " sleeps emitted grants webhooks edges untold groups"
    ).split()

    def __init__(self, url: str) -> None:
        self._path = url.removeprefix("sqlite:")
        self._used = False

    def run(self, text: str, *params: object) -> list[Row]:
        """Run one statement, committed at once unless it begins a transaction."""
        self._used = True
        return self._ask(text.format_map({table: table for table in self.TABLES}), params)

    def close(self) -> None:
        """Disconnect."""
        if self._used:
            self._ask(None, ())
            self._used = False

    def _ask(self, text: str | None, params: tuple[object, ...]) -> list[Row]:
        actor = _foreign()
        actor.say(ascii((self._path, text, params)))
        good, answer = ast.literal_eval(actor.hear())
        if not good:
            raise ForeignError(answer)
        rows: list[Row] = answer
        return rows


@cache
def _foreign() -> Actor:
    """Start the process that all foreign clients share."""
    actor = Actor("client")
    atexit.register(actor.finish)
    return actor
