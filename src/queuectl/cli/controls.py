r"""What the output of jobs may do to a terminal: colours, and what progress bars are made of.

Programs write these into pipes, too: tqdm and curl `\r`, tqdm with several bars the sequence that
moves the cursor up, grep, gcc and cargo the one that erases the rest of a line, and whoever is told
to (`--color=always`, FORCE_COLOR) colours. Let through, they reach nothing but what the job itself
has written. All other controls can do more, and are shown as escapes such as `\x1b`.
"""

import os
import re
from typing import TextIO

from queuectl.cli.render import HARMFUL, has_colour, safe, terminal_height
from queuectl.cli.widths import width

RESET = "\x1b[0m"
LONGEST_STYLE = 256
"""Colours that pile up without a reset are forgotten beyond this, but for the last."""

_CONTROL = re.compile(
    r"(?P<colour>\x1b\[[0-9;:]{0,64}m)"
    r"|(?P<erase>\x1b\[[012]?K)"
    r"|(?P<up>\x1b\[[0-9]{0,3}A)"
    # `tput sgr0` goes back to plain characters, which can't have been left, and rich hides the
    # cursor: without them everything looks the same.
    r"|(?P<idle>\x1b\(B|\x0f|\x1b\[\?25[hl])"
    rf"|(?P<other>{HARMFUL})"
)
_UNFINISHED = re.compile(r"\x1b(?:\[(?:[0-9;:]{0,64}|\?2?5?)|\()?\Z")
_LONGEST_SEQUENCE = 2 + 64 + 1
_HARMLESS = "\n\r\b\t"
_OVERWRITES = re.compile(r"[\r\b]|\x1b\[[012]?K|\x1b\[[0-9]{0,3}A")


class Controls:
    """Makes what one stream writes fit for a terminal, piece by piece.

    A sequence that is cut in two by the end of a piece is held back until the rest has come.
    """

    def __init__(self, stream: TextIO) -> None:
        """Know what the terminal that a stream goes to can do, and what its user wants."""
        self._colour = has_colour(stream)
        self._sequences = os.environ.get("TERM") != "dumb"
        self._height = terminal_height()
        self._held = ""
        self._row = self._lowest = 0
        """Rows below that in which this output began: where the cursor is, and has been."""
        self.style = ""
        """The sequences that make the colour in force; empty for none."""
        self._resume = ""
        """The same while it is interrupted: it is to be taken up again."""
        self.line_begun = False
        """Whether the line in which the cursor is has something in it."""

    def show(self, text: str, *, last: bool = False) -> str:
        """Return what to write for a piece of text; with `last` nothing is held back."""
        text = self._held + text
        self._held = ""
        if not last:
            found = _UNFINISHED.search(text, max(len(text) - _LONGEST_SEQUENCE, 0))
            if found is not None:
                self._held = found[0]
                text = text[: found.start()]
        shown = _CONTROL.sub(self._show_control, text)
        if shown:
            shown, self._resume = self._resume + shown, ""
        line = _CONTROL.sub("", shown[shown.rfind("\n") + 1 :])
        self.line_begun = bool(line) or (self.line_begun and "\n" not in shown)
        return shown

    def line(self, text: str) -> str:
        """Return what to write for a line of its own, in the colour that the one before it left."""
        shown = self.style + self.show(text, last=True)
        return shown + RESET if self.style else shown

    def pause(self) -> str:
        """Return what makes room for others: no colours, and a new line below all that there is.

        When this output goes on, it does so in the colour that it had.
        """
        shown = RESET if self.style and not self._resume else ""
        self._resume = self.style
        risen = self._lowest - self._row
        shown += "\n" * (risen + (self.line_begun or risen > 0))
        self._row = self._lowest
        self.line_begun = False
        return shown

    def end(self) -> str:
        """Return what ends this output, as `pause` does, once and for all."""
        shown = self.show("", last=True) + self.pause()
        self._row = self._lowest = 0
        self.style = self._resume = ""
        return shown

    def _show_control(self, found: re.Match[str]) -> str:
        control = found[0]
        match found.lastgroup:
            case "colour":
                return self._paint(control)
            case "erase":
                return control if self._sequences else ""
            case "up" if not self._sequences:
                return ""
            case "up" if self._rise(int(control[2:-1] or 1) or 1):
                return control
            case "idle":
                return ""
        if control == "\n":
            self._row += 1
            self._lowest = max(self._lowest, self._row)
        return control if control in _HARMLESS else safe(control)

    def _paint(self, sequence: str) -> str:
        if not self._colour:
            return ""
        self.style = _then(self.style, sequence)
        return sequence

    def _rise(self, rows: int) -> bool:
        """Move up, but not out of this output, nor of the screen; False if that is too far."""
        highest = max(0, self._lowest - self._height + 1)
        if self._row - rows < highest:
            return False
        self._row -= rows
        return True


def _then(style: str, sequence: str) -> str:
    """Return the style that a sequence makes of the one before."""
    first = re.split("[;:]", sequence[2:-1], maxsplit=1)[0]
    if not first.strip("0"):  # nothing is 0, and 0 is a reset
        style = ""
        if not sequence[2:-1].strip("0"):
            return ""
    return style + sequence if len(style) < LONGEST_STYLE else sequence


def settled(line: str) -> str:
    """Return a line as a terminal shows it in the end, when all that overwrites it has been done.

    Its colours are kept; the line is taken to be as wide as it likes.
    """
    if not _OVERWRITES.search(line):
        return line
    cells: list[tuple[str, str]] = []
    """What is seen, each with its style."""
    style, at = "", 0
    for found in re.finditer(f"{_CONTROL.pattern}|(?P<text>.)", line, re.DOTALL):
        control = found[0]
        match found.lastgroup:
            case "colour":
                style = _then(style, control)
            case "erase":
                _erase(cells, at, control[2:-1])
            case "up" | "idle":
                pass
            case "other" if control in "\r\b\t":
                at = {"\r": 0, "\b": max(at - 1, 0), "\t": (at // 8 + 1) * 8}[control]
            case _:
                for character in safe(control):
                    at = _put(cells, at, style, character)
    return _joined(cells, style)


def _erase(cells: list[tuple[str, str]], at: int, how: str) -> None:
    if how in ("", "0", "2"):
        del cells[at:]
    if how in ("1", "2"):
        blanked = min(at + 1, len(cells))
        cells[:blanked] = [("", " ")] * blanked


def _put(cells: list[tuple[str, str]], at: int, style: str, character: str) -> int:
    """Put a character into a cell, or two if it is wide; returns where the next one goes."""
    cells += [("", " ")] * (at - len(cells))
    taken = width(character)
    if not taken:  # it joins the one before it
        if at:
            before, text = cells[at - 1]
            cells[at - 1] = (before, text + character)
        return at
    cells[at : at + taken] = [(style, character), (style, "")][:taken]
    return at + taken


def _joined(cells: list[tuple[str, str]], last: str) -> str:
    """Return cells as text with its colours; `last` is in force behind it."""
    while cells and cells[-1] == ("", " "):
        cells.pop()
    parts: list[str] = []
    before = ""
    for style, text in [*cells, (last, "")]:
        if style != before:
            parts.append((RESET if before else "") + style)
            before = style
        parts.append(text)
    return "".join(parts)
