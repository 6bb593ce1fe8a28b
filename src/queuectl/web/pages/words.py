"""How pages write numbers, durations and times: filters of the templates."""

import re
from collections.abc import Mapping
from typing import Any
from unicodedata import east_asian_width
from urllib.parse import quote, urlencode

from queuectl.resources import WHOLE, told_amount
from queuectl.when import human

_ESCAPES = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[@-Z\\-_])")
"""What terminals take for colours, titles and other orders."""


LONGEST = 300
"""Letters of a text in a list."""


def duration(ms: float | None) -> str:
    """Write a duration in milliseconds; none is a dash."""
    if ms is None:
        return "—"
    return f"{ms:.0f} ms" if ms < 1000 else human(ms)


def span(seconds: float) -> str:
    """Write seconds in words, in whole units: 30 minutes, 1 hour 5 minutes."""
    left = round(seconds)
    if left != seconds or not left:
        return human(seconds * 1000)
    parts = []
    for least, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute"), (1, "second")):
        many, left = divmod(left, least)
        if many:
            parts.append(f"{many} {unit}{'' if many == 1 else 's'}")
    return " ".join(parts)


def count(number: int | None) -> str:
    """Write a number with its thousands apart."""
    return "—" if number is None else f"{number:,}"


def short(number: float) -> str:
    """Write a number in three digits or so."""
    for least, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if number >= least:
            return f"{number / (1e3 if unit == 'k' else least):.3g}{unit}"
    return f"{number:.4g}"


def size(number: int | None) -> str:
    """Write how many bytes."""
    if number is None:
        return "—"
    for least, unit in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= least:
            return f"{number / least:.1f} {unit}"
    return f"{number} B"


def part(name: str) -> str:
    """Write a name as one part of a path."""
    return quote(str(name), safe="")


def query(said: Mapping[str, Any], **more: Any) -> str:
    """Write what a query says, with changes; what is None, or empty, is left out."""
    pairs = []
    for name, value in {**said, **more}.items():
        values = value if isinstance(value, list | tuple) else [value]
        pairs += [(name, one) for one in values if one not in (None, "", False)]
    return f"?{urlencode(pairs)}" if pairs else ""


def when(iso: str) -> str:
    """Write a time for who has no script that makes it local."""
    return f"{iso[:10]} {iso[11:19]} UTC"


def brief(text: str) -> str:
    """Return the beginning of a text for a list, as much as anybody reads of it there."""
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def cut(text: str, columns: int) -> str:
    """Write a text on one line of so many columns, without what can't be seen."""
    shown = text[: 4 * columns]
    line = " ".join("".join(c if c.isprintable() else " " for c in shown).split())
    width, kept = 0, 0
    for letter in line:
        width += 2 if east_asian_width(letter) in "WF" else 1
        if width > columns:
            return f"{line[:kept]}…"
        # As much as leaves room for the dots.
        kept += width < columns
    return line if shown == text else f"{line[:kept]}…"


def sentence(text: str) -> str:
    """Begin a text with a capital letter; the names in it stay as they are."""
    return text[:1].upper() + text[1:]


def plain(text: str) -> str:
    """Return what was written to a terminal as text: without orders, lines as they ended up."""
    lines = _ESCAPES.sub("", text).split("\n")
    return "\n".join(_overwritten(line) if "\r" in line else line for line in lines)


def _overwritten(line: str) -> str:
    shown = ""
    for part in line.rstrip("\r").split("\r"):
        shown = part + shown[len(part) :]
    return shown


def amount(many: float, name: str) -> str:
    """Write an amount of a resource."""
    return told_amount(name, round(many * WHOLE))
