"""Runs the command with a clock at the parts of a node: `python -m bench.clocked FILE ARGS...`.

Each part is a method that is called once for many tasks, so that the clock costs nothing. What a
part takes is what isn't spent in the parts that it calls. FILE gets the microseconds of each, those
that passed and those of the processor.
"""

import json
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from time import perf_counter_ns, thread_time_ns
from typing import Any

from queuectl.__main__ import main
from queuectl.node.crew import Crew
from queuectl.node.node import NodeLoop
from queuectl.node.turns import TurnTaker
from queuectl.store.idiom import Idiom
from queuectl.store.postgresql.idiom import PostgresIdiom
from queuectl.store.verbs.runs import SqlRuns

PARTS: tuple[tuple[str, type, str], ...] = (
    ("wait", NodeLoop, "_sleep"),
    ("commit", TurnTaker, "take"),
    ("judge", TurnTaker, "_ends"),
    ("end", SqlRuns, "_end"),
    ("claim", Idiom, "claim"),
    ("claim", PostgresIdiom, "claim"),
    ("hand", Crew, "begin"),
    ("hear", Crew, "hear"),
    ("settle", NodeLoop, "_settle"),
    ("rest", NodeLoop, "_loop"),
)
"""What is clocked: the name of the part, and its method."""


class Clock:
    """Knows what each part has taken."""

    def __init__(self) -> None:
        self.taken: dict[str, list[int]] = {}
        self._within: list[list[int]] = [[0, 0]]
        """What the calls of parts that go on have spent in other parts."""

    def watch(self, name: str, owner: type, method: str) -> None:
        """Clock a method."""
        setattr(owner, method, self._clocked(name, getattr(owner, method)))

    def _clocked(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        taken = self.taken.setdefault(name, [0, 0])

        @wraps(method)
        def clocked(*args: Any, **kwargs: Any) -> Any:
            began = perf_counter_ns(), thread_time_ns()
            self._within.append([0, 0])
            try:
                return method(*args, **kwargs)
            finally:
                inner = self._within.pop()
                whole = perf_counter_ns() - began[0], thread_time_ns() - began[1]
                for which in (0, 1):
                    taken[which] += whole[which] - inner[which]
                    self._within[-1][which] += whole[which]

        return clocked

    def write(self, path: Path) -> None:
        """Write what each part has taken."""
        found = {name: [each / 1000 for each in taken] for name, taken in self.taken.items()}
        path.write_text(json.dumps(found))


def run(path: str, *args: str) -> None:
    """Run the command, and write what the parts of its node took."""
    clock = Clock()
    for part in PARTS:
        clock.watch(*part)
    sys.argv = ["queuectl", *args]
    try:
        main()
    finally:
        clock.write(Path(path))


if __name__ == "__main__":
    run(*sys.argv[1:])
