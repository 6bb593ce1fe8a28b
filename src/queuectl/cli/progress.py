"""Progress of long work: a bar on stderr where that is a terminal, and nothing elsewhere."""

import os
import sys
from collections import deque
from time import monotonic
from typing import TYPE_CHECKING

from queuectl.cli.render import has_colour, is_terminal
from queuectl.when import human

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

PATIENCE = 0.3
"""Seconds before a bar appears: what is done sooner needs none, nor the library that draws it."""
WIDEST = 40
"""Cells of the bar itself; on a narrow terminal it gives way to the words beside it."""


ROOM = 3
"""Cells left free behind the bar: a terminal shows ^C there, which must not wrap."""


class Pace:
    """How fast work goes, by the last minutes of it, and so how long the rest takes.

    The last minutes, since workers come and go, and jobs differ. What was done before the first
    look tells nothing. While nothing is done the estimate grows: the work has slowed down.
    """

    WINDOW = 600.0
    """Seconds that count."""
    APART = 5.0
    """Seconds between two looks that are kept."""

    def __init__(self) -> None:
        self._looks: deque[tuple[float, int]] = deque()

    def left(self, done: int, total: int, now: float) -> float | None:
        """Return the seconds that the rest takes at this pace; None while nobody can know."""
        if not self._looks or now - self._looks[-1][0] >= self.APART:
            self._looks.append((now, done))
        while len(self._looks) > 1 and now - self._looks[0][0] > self.WINDOW:
            self._looks.popleft()
        since, before = self._looks[0]
        if done <= before or done >= total:
            return None
        return (now - since) / (done - before) * (total - done)


class Bar:
    """A progress bar. Call it with `done` and `total`; a total of 0 is one nobody knows.

    with Bar("Enqueueing") as bar:
        queue.enqueue_many(jobs, progress=bar, total=len(jobs))
    """

    def __init__(self, label: str) -> None:
        self._label = self._shown = label
        self._due = monotonic() + PATIENCE if is_terminal(sys.stderr) else float("inf")
        self._pace = Pace()
        self._drawn: tuple[Progress, TaskID] | None = None

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *exc: object) -> None:
        if self._drawn is not None:
            self._drawn[0].stop()

    def __call__(
        self,
        done: int,
        total: int,
        label: str | None = None,
        *,
        dead: int = 0,
        stuck: bool = False,
    ) -> None:
        """Show how far it is, how many were given up on the way, and if need be a new label.

        Of what is stuck nobody knows how long it takes.
        """
        now = monotonic()
        label = label or self._label
        if label != self._shown:  # other work, with a pace of its own
            self._shown, self._pace = label, Pace()
        left = self._pace.left(done, total, now)
        if now < self._due:
            return
        if self._drawn is None:
            self._drawn = self._draw()
        progress, task = self._drawn
        progress.console.width = max(_columns() - ROOM, 1)
        progress.update(
            task,
            completed=done,
            total=total or None,
            description=label,
            dead=f"{dead:,} dead" if dead else "",
            left="stuck"
            if stuck
            else ""
            if left is None
            else f"{human(max(round(left), 1) * 1000)} left",
        )

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
        from rich.table import Column

        def whole() -> Column:
            return Column(no_wrap=True)

        progress = Progress(
            SpinnerColumn(table_column=whole()),
            TextColumn("{task.description}", markup=False, table_column=whole()),
            # The only one that gives way: a line that wraps would be drawn again and again.
            BarColumn(bar_width=None, table_column=Column(max_width=WIDEST)),
            MofNCompleteColumn(table_column=whole()),
            TextColumn("{task.fields[dead]}", style="red", markup=False, table_column=whole()),
            TimeElapsedColumn(table_column=whole()),
            TextColumn("{task.fields[left]}", style="cyan", markup=False, table_column=whole()),
            console=Console(stderr=True, no_color=not has_colour(sys.stderr)),
            transient=True,
        )
        progress.start()
        return progress, progress.add_task(self._label, total=None, dead="", left="")


def _columns() -> int:
    """Return how many cells a line of the terminal behind stderr has; stdout may go elsewhere."""
    try:
        return os.get_terminal_size(2).columns or 80
    except OSError:
        return 80
