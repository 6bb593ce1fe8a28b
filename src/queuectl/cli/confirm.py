"""Asks before what can't be undone is done to all jobs at once.

One rule for all commands: what cancels or deletes *everything* asks on a terminal, unless `--yes`
is given. Where there is no terminal nobody can answer, and whoever wrote it into a script meant it.
"""

import sys
from collections.abc import Callable
from select import select

import click

from queuectl.cli.render import is_terminal, safe, say
from queuectl.errors import EXIT_FAILED

TURN = 0.2
"""Seconds after which Ctrl+C is noticed, at the latest."""


def confirm(question: Callable[[], str], *, yes: bool) -> None:
    """Ask, if there is somebody to ask; whoever says no ends the command with exit code 1.

    An empty question isn't asked: there is nothing to lose.
    """
    if yes or not can_ask():
        return
    text = question()
    if text and not _agreed(text):
        say("Nothing was changed.")
        raise click.exceptions.Exit(EXIT_FAILED)


def can_ask() -> bool:
    """Tell whether there is somebody to ask."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def _agreed(question: str) -> bool:
    sys.stderr.write(f"{safe(question)} [y/N]: ")
    sys.stderr.flush()
    # Ctrl+C just before a read would be noticed only after it; so the wait comes first, in turns.
    while not select([sys.stdin], [], [], TURN)[0]:
        pass
    answer = sys.stdin.readline()
    if not answer:  # Ctrl+D
        raise click.Abort
    return answer.strip().lower() in ("y", "yes")
