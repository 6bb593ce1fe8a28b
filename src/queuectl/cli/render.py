"""How things look: tables, blocks of facts, JSON, colours, and text that can't harm a terminal.

stdout is data, stderr is talk. Colour is for terminals only; what goes into a pipe is plain,
aligned and without trailing spaces. Nothing here knows what a job is, except the colour of states.
"""

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, TextIO

from queuectl.cli.outlet import outlet
from queuectl.cli.widths import GAP, cut, cut_middle, fit, width
from queuectl.values import dataclass

# C0, DEL, C1, bidirectional controls, line separators, byte order mark, lone surrogates: what can
# move the cursor, recolour, reorder or hide. The list is in JSON's and Python's escapes alike.
HARMFUL = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_COLOURS = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
ALIGNED = 1_000
"""Rows of a long table that are aligned with each other: as many as are held at a time."""
STATE_COLOURS = {
    "blocked": "magenta",
    "pending": "yellow",
    "processing": "cyan",
    "completed": "green",
    "failed": "magenta",
    "dead": "red",
    "cancelled": "dim",
}


def safe(text: str) -> str:
    r"""Show control characters as escapes, such as `\x1b`."""
    if text.isprintable():
        return text
    import re

    return re.sub(HARMFUL, lambda found: _escape(found[0]), text)


def _escape(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def is_terminal(stream: TextIO | None = None) -> bool:
    """Tell whether a stream (stdout by default) is a terminal."""
    return (stream or sys.stdout).isatty()


def has_colour(stream: TextIO | None = None) -> bool:
    """Tell whether colour is wanted: on terminals, unless NO_COLOR or QUEUECTL_COLOR=never is set.

    `QUEUECTL_COLOR=always` wants it everywhere.
    """
    wish = os.environ.get("QUEUECTL_COLOR", "").lower()
    if wish in ("always", "never"):
        return wish == "always"
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return is_terminal(stream)


def paint(text: str, *styles: str, stream: TextIO | None = None) -> str:
    """Colour a text for a stream that has colour; unknown and empty styles are ignored."""
    codes = [_COLOURS[style] for style in styles if style in _COLOURS]
    if not codes or not text or not has_colour(stream):
        return text
    return f"\x1b[{';'.join(codes)}m{text}\x1b[0m"


def write(text: str = "") -> None:
    """Print a line of data."""
    outlet.put(text + "\n")


def say(text: str) -> None:
    """Print a line of talk, with control characters shown, on stderr."""
    print(safe(text), file=sys.stderr)


def complain(text: str) -> None:
    """Print an error: `queuectl: ` and one sentence."""
    print(paint("queuectl:", "red", stream=sys.stderr), safe(text), file=sys.stderr)


def write_json(value: Any) -> None:
    """Print one JSON value: indented on a terminal, on one line elsewhere."""
    write(_json(value, 2 if is_terminal() else None))


def write_result(value: Any, text: str, *, as_json: bool) -> None:
    """Print what came of a command: as one JSON value, or in a sentence."""
    if as_json:
        write_json(value)
    else:
        write(safe(text))


def write_json_line(value: Any) -> None:
    """Print one of many JSON values, on a line of its own."""
    write(_json(value))


def write_json_array(values: Iterable[Any]) -> None:
    """Print one JSON array, an element per line, without holding all of it."""
    separator = "["
    for value in values:
        outlet.put(f"{separator}\n{_json(value)}" if separator == "," else f"[{_json(value)}")
        separator = ","
    write("[]" if separator == "[" else "]")


class JsonStream:
    """One JSON object with a long array in it, printed as it grows, a line for each element."""

    def __init__(self, head: Mapping[str, Any], array: str) -> None:
        """Take what stands before the array, and the array's name."""
        self._opening = f'{_json(dict(head))[:-1]}, "{array}": ['
        self.is_begun = False
        """Whether anything was printed yet."""

    def add(self, value: Any) -> None:
        """Print an element."""
        outlet.put((",\n" if self.is_begun else self._opening) + _json(value))
        self.is_begun = True

    def end(self, **tail: Any) -> None:
        """Print what stands behind the array, and close the object."""
        opening = "" if self.is_begun else self._opening
        write(f"{opening}], {_json(tail)[1:]}")


def _json(value: Any, indent: int | None = None) -> str:
    import json

    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    import re

    harmful = HARMFUL.replace("\x00-\x1f", "")  # json has escaped those; newlines are ours
    return re.sub(harmful, lambda found: f"\\u{ord(found[0]):04x}", text)


def heading(text: str) -> None:
    """Print the title of a block."""
    write(title(text))


def title(text: str) -> str:
    """Return the title of a block."""
    return paint(f"--- {safe(text)} ---", "bold")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, how it's aligned, and how it gives way on a narrow terminal.

    Whatever is in it, no line of a table is wider than the terminal. What doesn't go to a terminal
    is whole.
    """

    title: str
    right: bool = False
    least: int | None = None
    """Cells to which it may be cut; those without are cut only if all must be."""
    is_sentence: bool = False
    """Whether it is cut at its end, and not in the middle as names and commands are."""
    wrap: bool = False
    """Whether what has no room goes on below, instead of being cut."""
    drop: int = 0
    """Left out, 1 first, where there is no room for all, even cut."""
    most: int | None = None
    """Cells to which it is cut where there is no terminal whose width would say so."""
    styles: Mapping[str, str] | None = None
    """Colour by value, as `STATE_COLOURS` does."""


def write_lines(lines: Iterable[str]) -> None:
    """Print lines of data."""
    for line in lines:
        write(line)


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with a header, which fits a terminal."""
    write_lines(table(columns, rows))


def write_long_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table of any length, `ALIGNED` rows at a time, each time with a header."""
    rest = iter(rows)
    while part := list(islice(rest, ALIGNED)):
        write_table(columns, part)


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table with a header."""
    cells = [[_encodable(safe(cell)) for cell in row] for row in rows]
    natural = [
        max([width(column.title), *(width(row[i]) for row in cells)])
        for i, column in enumerate(columns)
    ]
    widths = _widths(columns, natural)
    shown = [columns[i] for i in widths]
    wide = list(widths.values())
    header = _line(shown, wide, [column.title for column in shown], painted=False)
    return [
        paint(header, "bold"),
        *(
            _line(shown, wide, part, painted=True)
            for row in cells
            for part in _parts(shown, wide, [row[i] for i in widths])
        ),
    ]


def _encodable(text: str) -> str:
    """Write what a terminal can't show as it will be: as escapes, which are wider."""
    encoding = sys.stdout.encoding
    if text.isascii() or encoding.lower() in ("utf-8", "utf8"):
        return text
    return text.encode(encoding, "backslashreplace").decode(encoding)


def _widths(columns: Sequence[Column], natural: Sequence[int]) -> dict[int, int]:
    """Return the columns that are shown, by their number, and how wide they are."""
    if is_terminal():
        least = [
            size if column.least is None else min(size, max(column.least, width(column.title)))
            for column, size in zip(columns, natural, strict=True)
        ]
        return fit(natural, least, [column.drop for column in columns], terminal_width())
    return {
        i: size if column.most is None else min(size, max(column.most, width(column.title)))
        for i, (column, size) in enumerate(zip(columns, natural, strict=True))
    }


def _parts(
    columns: Sequence[Column], widths: Sequence[int], row: Sequence[str]
) -> Iterable[Sequence[str]]:
    """Yield a row, and rows below it for what has no room in a column that is wrapped."""
    if all(not c.wrap or width(cell) <= w for c, w, cell in zip(columns, widths, row, strict=True)):
        return [row]
    from textwrap import wrap

    stacks = [
        wrap(cell, w) if column.wrap else [cell]
        for column, w, cell in zip(columns, widths, row, strict=True)
    ]
    return zip_longest(*stacks, fillvalue="")


def _line(
    columns: Sequence[Column], widths: Sequence[int], row: Sequence[str], *, painted: bool
) -> str:
    parts: list[str] = []
    last = len(columns) - 1
    for i, (column, cell) in enumerate(zip(columns, row, strict=True)):
        text = cut(cell, widths[i], _ellipsis()) if column.is_sentence else shorten(cell, widths[i])
        gap = " " * (widths[i] - width(text)) if column.right or i != last else ""
        shown = paint(text, column.styles.get(cell, "")) if painted and column.styles else text
        parts.append(gap + shown if column.right else shown + gap)
    return (" " * GAP).join(parts).rstrip()


def shorten(text: str, limit: int) -> str:
    """Cut a name or command in the middle, so that it takes no more than so many cells."""
    return text if width(text) <= limit else cut_middle(text, limit, _ellipsis())


def _ellipsis() -> str:
    mark = "\N{HORIZONTAL ELLIPSIS}"
    return mark if _encodable(mark) == mark else "..."


def write_facts(facts: Iterable[tuple[str, str | None]], *, indent: int = 0) -> None:
    """Print `Name:  value` lines, aligned; a value of None is left out."""
    write_lines(fact_lines(facts, indent=indent))


def fact_lines(facts: Iterable[tuple[str, str | None]], *, indent: int = 0) -> list[str]:
    """Return `Name:  value` lines, aligned; a value of None is left out."""
    shown = [(name + ":", safe(value)) for name, value in facts if value is not None]
    column = max((width(name) for name, _ in shown), default=0)
    return [
        (" " * indent + paint(name, "dim") + " " * (column - width(name) + 1) + value).rstrip()
        for name, value in shown
    ]


def terminal_width() -> int:
    """Return how many cells a line has."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


def terminal_height() -> int:
    """Return how many lines a terminal shows."""
    from shutil import get_terminal_size

    return get_terminal_size().lines


UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def size(count: int) -> str:
    """Write a number of bytes for people: `512 bytes`, `1.5 MiB`."""
    amount, unit = float(count), 0
    while amount >= 1024 and unit < len(UNITS) - 1:
        amount, unit = amount / 1024, unit + 1
    return plural(count, "byte") if unit == 0 else f"{amount:.1f} {UNITS[unit]}"


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: `1 job`, `2 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
