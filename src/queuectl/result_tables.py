"""What the jobs of a group came to, as a table: which columns there are, and the cells of each row.

Jobs are read a few at a time, twice: first for the names of the parameters, which may differ.
"""

import csv
from collections.abc import Callable, Iterable, Iterator
from io import StringIO
from itertools import chain, islice
from json import dumps
from typing import Any

from queuectl.filter import Filter
from queuectl.groups import Asked, Row
from queuectl.report import parameters_dict, seconds
from queuectl.values import dataclass

ABSENT = ""
"""What stands where there is nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """The columns of a table."""

    parameters: tuple[str, ...]
    """The names of all that jobs of the group have to themselves, as they come."""
    jobs: int
    """How many rows there are: those that come meanwhile may have other parameters."""
    last_line: bool = False
    """Whether it tells the last lines that jobs without a result wrote."""

    @property
    def names(self) -> list[str]:
        """What stands above them."""
        known = ["id", *self.parameters, "state", "exit_code", "duration", "peak_memory", "result"]
        return [*known, "last_line"] if self.last_line else known

    def cells(self, row: Row, *, memory: Callable[[int], str] = str) -> list[str]:
        """Return what stands in a row; `memory` writes a number of bytes."""
        job, own = row.job, parameters_dict(row.job)
        cells = [
            job.id,
            *(str(own.get(name, ABSENT)) for name in self.parameters),
            job.state.value,
            _text(job.exit_code),
            _text(seconds(job.duration_ms)),
            ABSENT if row.peak_memory is None else memory(row.peak_memory),
            as_json(row.result) if row.has_result else ABSENT,
        ]
        return [*cells, row.last_line or ABSENT] if self.last_line else cells


def columns_of(queue: Asked, group: str, *, last_line: bool = False) -> Columns:
    """Return the columns of the table of a group: all its jobs are read for that."""
    names: dict[str, None] = {}
    count = 0
    for job in queue.iterate(Filter(groups=(group,)), oldest=True):
        count += 1
        names.update(dict.fromkeys(job.parameters))
    return Columns(parameters=tuple(names), jobs=count, last_line=last_line)


def csv_lines(columns: Columns, rows: Iterable[Row]) -> Iterator[str]:
    """Yield lines of a table as RFC 4180 has them, but for their ends, which are those of Unix."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for cells in chain([columns.names], map(columns.cells, islice(rows, columns.jobs))):
        writer.writerow(cells)
        yield text.getvalue()
        text.seek(0)
        text.truncate()


def as_json(value: Any) -> str:
    """Write a result in a cell."""
    return dumps(value, ensure_ascii=False)


def _text(value: Any) -> str:
    return ABSENT if value is None else str(value)
