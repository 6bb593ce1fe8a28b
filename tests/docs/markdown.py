"""Reads our own Markdown: sections, tables, fenced blocks and links, as far as we use it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], key=lambda page: page.as_posix()
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")


def name_of(page: Path) -> str:
    """Name a page for the report of a test."""
    return page.relative_to(ROOT).as_posix()


def read(name: str) -> str:
    """Return the text of a page, named from the root of the repository."""
    return (ROOT / name).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language and its lines."""

    language: str
    lines: list[str]


def blocks(text: str, language: str) -> list[Block]:
    """Return the fenced blocks of a language, in order."""
    return [
        Block(found[1], found[2].splitlines())
        for found in _FENCE.finditer(text)
        if found[1] == language
    ]


def prose(text: str) -> str:
    """Return a text without its fenced blocks."""
    return _FENCE.sub("", text)


def sections(text: str) -> dict[str, str]:
    """Return the sections of second-level headings: heading to body, with what is below it."""
    parts = re.split(r"^## (.+)$", text, flags=re.MULTILINE)
    return {heading.strip(): body for heading, body in zip(parts[1::2], parts[2::2], strict=True)}


def tables(text: str) -> Iterator[list[dict[str, str]]]:
    """Yield every table as a list of rows: heading to cell."""
    for found in re.finditer(r"(?:^\|.*\|\n)+", prose(text) + "\n", re.MULTILINE):
        lines = [_cells(line) for line in found[0].splitlines()]
        yield [dict(zip(lines[0], cells, strict=True)) for cells in lines[2:]]


def _cells(line: str) -> list[str]:
    inner = line.strip().removeprefix("|").removesuffix("|")
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", inner)]


def table_with(text: str, *headings: str) -> list[dict[str, str]]:
    """Return the one table that has these headings."""
    (found,) = [table for table in tables(text) if table and set(headings) <= set(table[0])]
    return found


def links(text: str) -> list[str]:
    """Return where the links of a text point to."""
    return _LINK.findall(prose(text))


def anchors(text: str) -> set[str]:
    """Return the anchors that a forge makes of the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", prose(text), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
