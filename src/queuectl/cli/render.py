"""How things look: tables, blocks of facts, JSON, colours, and text that can't harm a terminal.

stdout is data, stderr is talk. Colour is for terminals only; what goes into a pipe is plain,
aligned and without trailing spaces. Nothing here knows what a job is, except the colour of states.
"""

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from queuectl.values import dataclass

# C0, DEL, C1, bidirectional controls, line separators, byte order mark, lone surrogates: what can
# move the cursor, recolour, reorder or hide. The list is in JSON's and Python's escapes alike.
_HARMFUL = "[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
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
LEAST_CUT = 20
"""Cells below which a column isn't cut while others can be left out."""
STATE_COLOURS = {
    "blocked": "magenta",
    "pending": "yellow",
    "processing": "cyan",
    "completed": "green",
    "failed": "magenta",
    "dead": "red",
    "cancelled": "dim",
}


def safe(text: str, *, keep: str = "") -> str:
    r"""Show control characters as escapes, such as `\x1b`; those in `keep` stay as they are."""
    if text.isprintable():
        return text
    import re

    return re.sub(_HARMFUL, lambda found: found[0] if found[0] in keep else _escape(found[0]), text)


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


def paint_state(state: str) -> str:
    """Colour the name of a state."""
    return paint(state, STATE_COLOURS.get(state, ""))


def write(text: str = "") -> None:
    """Print a line of data."""
    sys.stdout.write(text + "\n")


def say(text: str) -> None:
    """Print a line of talk, with control characters shown, on stderr."""
    print(safe(text), file=sys.stderr)


def complain(text: str) -> None:
    """Print an error: `queuectl: ` and one sentence."""
    print(paint("queuectl:", "red", stream=sys.stderr), safe(text), file=sys.stderr)


def write_json(value: Any) -> None:
    """Print one JSON value: indented on a terminal, on one line elsewhere."""
    write(_json(value, 2 if is_terminal() else None))


def write_json_array(values: Iterable[Any]) -> None:
    """Print one JSON array, an element per line, without holding all of it."""
    separator = "["
    for value in values:
        sys.stdout.write(f"{separator}\n{_json(value)}" if separator == "," else f"[{_json(value)}")
        separator = ","
    write("[]" if separator == "[" else "]")


def _json(value: Any, indent: int | None = None) -> str:
    text = json.dumps(value, ensure_ascii=False, indent=indent)
    if text.isprintable():
        return text
    import re

    harmful = _HARMFUL.replace("\x00-\x1f", "")  # json has escaped those; newlines are ours
    return re.sub(harmful, lambda found: f"\\u{ord(found[0]):04x}", text)


def heading(text: str) -> None:
    """Print the title of a block."""
    write(title(text))


def title(text: str) -> str:
    """Return the title of a block."""
    return paint(f"--- {safe(text)} ---", "bold")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, how it's aligned, and the one that gives way."""

    title: str
    right: bool = False
    cut: bool = False
    """Cut to what is left of a terminal's width. At most one, the last."""
    drop: int = 0
    """Left out, 1 first, where a narrow terminal has no room for the column that may be cut."""
    styles: Mapping[str, str] | None = None
    """Colour by value, as `STATE_COLOURS` does."""


def write_lines(lines: Iterable[str]) -> None:
    """Print lines of data."""
    for line in lines:
        write(line)


def write_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> None:
    """Print a table with a header. On a terminal the column that may be cut fits the width."""
    write_lines(table(columns, rows))


def table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return the lines of a table with a header."""
    cells = [[safe(cell) for cell in row] for row in rows]
    widths = [
        max([width(column.title), *(width(row[i]) for row in cells)])
        for i, column in enumerate(columns)
    ]
    kept = _kept(columns, widths)
    if len(kept) < len(columns):
        columns, widths = [columns[i] for i in kept], [widths[i] for i in kept]
        cells = [[row[i] for i in kept] for row in cells]
    limits = _limits(columns, widths)
    header = _line(columns, widths, [column.title for column in columns], None)
    return [paint(header, "bold"), *(_line(columns, widths, row, limits) for row in cells)]


def _limits(columns: Sequence[Column], widths: Sequence[int]) -> list[int | None]:
    """Return how wide each column may be at most."""
    if not is_terminal():
        return [None] * len(columns)
    left = room(columns, widths)
    return [max(left, 10) if column.cut else None for column in columns]


def _kept(columns: Sequence[Column], widths: Sequence[int]) -> list[int]:
    """Return which columns are shown: all but those a narrow terminal has no room for."""
    kept = list(range(len(columns)))
    if not is_terminal() or not any(column.cut for column in columns):
        return kept
    wish = min(LEAST_CUT, *(w for w, column in zip(widths, columns, strict=True) if column.cut))
    for i in sorted((i for i in kept if columns[i].drop), key=lambda i: columns[i].drop):
        if room([columns[i] for i in kept], [widths[i] for i in kept]) >= wish:
            break
        kept.remove(i)
    return kept


def room(columns: Sequence[Column], widths: Sequence[int]) -> int:
    """Return how many cells of a terminal's line are left for the column that may be cut."""
    taken = sum(w for w, column in zip(widths, columns, strict=True) if not column.cut)
    return terminal_width() - taken - 2 * (len(columns) - 1)


def _line(
    columns: Sequence[Column],
    widths: Sequence[int],
    row: Sequence[str],
    limits: Sequence[int | None] | None,
) -> str:
    parts: list[str] = []
    last = len(columns) - 1
    for i, (column, cell) in enumerate(zip(columns, row, strict=True)):
        limit = limits[i] if limits is not None else None
        text = cell if limit is None else cut(cell, limit)
        gap = " " * (widths[i] - width(text)) if column.right or i != last else ""
        shown = paint(text, column.styles.get(cell, "")) if limits and column.styles else text
        parts.append(gap + shown if column.right else shown + gap)
    return "  ".join(parts).rstrip()


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


def width(text: str) -> int:
    """Count the terminal cells of a text."""
    if text.isascii():
        return len(text)
    from unicodedata import combining, east_asian_width

    return sum(
        0 if combining(c) or c == "\u200d" else 2 if east_asian_width(c) in "WF" else 1
        for c in text
    )


def cut(text: str, limit: int, mark: str = "...") -> str:
    """Shorten a text to so many cells, ending in a mark where something was left out."""
    if width(text) <= limit:
        return text
    kept: list[str] = []
    left = limit - width(mark)
    for character in text:
        left -= width(character)
        if left < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + mark


def terminal_width() -> int:
    """Return how many cells a line has."""
    from shutil import get_terminal_size

    return get_terminal_size().columns


def terminal_height() -> int:
    """Return how many lines a terminal shows."""
    from shutil import get_terminal_size

    return get_terminal_size().lines


def plural(count: int, noun: str) -> str:
    """Write a count with its noun: `1 job`, `2 jobs`."""
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
