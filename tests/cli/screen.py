"""An emulated terminal, to see what a person sees: what is overwritten or erased is gone."""

import pyte
from pyte.modes import LNM


def screen_of(text: str, *, columns: int = 80, rows: int = 24) -> list[str]:
    """Return the lines that a terminal shows in the end.

    Without blanks behind them, and without empty lines at the end.
    """
    screen = pyte.Screen(columns, rows)
    screen.set_mode(LNM)  # a new line begins at its first column, as a tty makes it
    pyte.Stream(screen).feed(text)
    return "\n".join(line.rstrip() for line in screen.display).rstrip("\n").split("\n")
