"""What a checkup finds."""

from enum import StrEnum

from queuectl.values import dataclass


class Level(StrEnum):
    """How much a finding matters."""

    OK = "ok"
    NOTE = "note"
    """Good to know; nothing is wrong."""
    WARNING = "warning"
    """It works, but something may go wrong one day."""
    ERROR = "error"
    """It doesn't work, or a promise of the queue doesn't hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something a checkup looked at: how it is, and what to do about it."""

    level: Level
    subject: str
    """One or two words: `durability`, `grants`, `disk`."""
    text: str
    advice: str = ""
    """What to do; empty when there is nothing to do."""
