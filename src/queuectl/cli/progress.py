"""Progress of long work: a bar on stderr where that is a terminal, and nothing elsewhere."""

import sys
from time import monotonic
from typing import TYPE_CHECKING

from queuectl.cli.render import is_terminal

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 0.3
"""Seconds before a bar appears: what is done sooner needs none, nor the library that draws it."""


class Bar:
    """A progress bar. Call it with `done` and `total`; a total of 0 is one nobody knows.

    with Bar("Enqueueing") as bar:
        queue.enqueue_many(jobs, progress=bar, total=len(jobs))
    """

    def __init__(self, label: str) -> None:
        self._label = label
        self._due = monotonic() + PATIENCE if is_terminal(sys.stderr) else float("inf")
        self._drawn: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()

    def __call__(self, done: int, total: int, label: str | None = None) -> None:
        """Show how far it is, and if need be a new label."""
        if monotonic() < self._due:
            return
        if self._drawn is None:
            self._drawn = self._draw()
        progress, task = self._drawn
        progress.update(task, completed=done, total=total or None, description=label or self._label)

    def _draw(self) -> "tuple[Progress, TaskID]":
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            SpinnerColumn,
            TextColumn,
            TimeElapsedColumn,
        )

        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        progress.start()
        return progress, progress.add_task(self._label, total=None)
