"""What databases say differently in shared statements: one `Dialect` each fills their holes."""

import re
from collections.abc import Callable, Sequence
from typing import Any

from queuectl.job import JOB_COLUMNS
from queuectl.store.statements import KEPT_WORDS, columns
from queuectl.values import dataclass

TABLES = (
    "jobs attempts outputs inputs tags counts nodes queues rollups events config meta"
    " watches live receipts schedules ticks keys uniques pauses results progress steps"
    " sleeps emitted grants webhooks edges untold groups reservations"
).split()
# Patterns stay text, compiled (and cached by re) when first needed: SQLite needs few.
_PARAMETER = r"(?<!:):([a-z_0-9]+)"
_LETTER = r"[a-z]"
_PUNCTUATION = r"([^A-Za-z0-9_\s\x80-\U0010ffff])"


class _Phrase:
    """A hole with something inside: `{contains_text[j.id]}`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, inside: str) -> str:
        return self._text.format(inside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The words that fill the holes of a statement."""

    name: str
    """Also the name of its part of each migration."""
    prefix: str
    """What stands before each table name: a schema and a dot, or a prefix."""
    collation: str = ""
    """How texts are compared, for the schema: by their code points."""
    quote: str = '"'
    """What stands around a column whose name is a word that some database keeps for itself. A
    connection of somebody else's may take no other."""
    percent: bool
    """Whether the driver wants `%(name)s` for `:name`, `%s` for `?`, and `%%` for `%`."""
    skip_locked: str
    """How a read for a claim passes over rows that others are claiming."""
    row_lock: str
    """How a read keeps rows from being changed until the transaction is over."""
    within: str
    """`column IN` a bound list."""
    bind_list: Callable[[Sequence[Any]], Any]
    """Makes a value of a list."""
    contains: str
    """Whether a column contains a text, ASCII letters in any case."""
    needle: Callable[[str], str]
    """Makes a value of the text, in lower case, that `contains` looks for."""
    on_conflict: str
    """What comes between an INSERT and what it does instead when the key is taken."""
    or_nothing: str
    """Insert, or leave the row with that key as it is."""
    excluded: str
    """The value that a taken key kept from being inserted."""
    least: str
    greatest: str
    each_handler: str
    """A table of the handlers that a node has."""
    lease_holds: str
    """Whether a node may still renew its lease."""

    def render(self, statement: str, **more: str) -> str:
        """Fill the holes of a statement."""
        words: dict[str, Any] = {table: self.prefix + table for table in TABLES}
        words |= {
            "job_columns": columns(JOB_COLUMNS),
            "texts": columns(name for name in JOB_COLUMNS if name != "data"),
            "skip_locked": self.skip_locked,
            "row_lock": self.row_lock,
            "in_ids": self.within.format("ids"),
            "in_seqs": self.within.format("seqs"),
            "contains_text": _Phrase(self.contains.format("{0}", "text")),
            "contains_who": _Phrase(self.contains.format("{0}", "who")),
            "contains_quoted": _Phrase(self.contains.format("{0}", "quoted")),
            "on_conflict": _Phrase(self.on_conflict),
            "or_nothing": _Phrase(self.or_nothing),
            "excluded": _Phrase(self.excluded),
            "least": self.least,
            "greatest": self.greatest,
            "each_handler": self.each_handler,
            "lease_holds": self.lease_holds,
        }
        text = statement.format_map(words | more)
        for word in KEPT_WORDS:
            text = text.replace(f'"{word}"', f"{self.quote}{word}{self.quote}")
        if self.percent:
            text = re.sub(_PARAMETER, r"%(\1)s", text.replace("%", "%%")).replace("?", "%s")
        return text

    def render_schema(self, statement: str) -> str:
        """Fill in a statement of a migration: `@` stands before the names of tables."""
        return statement.replace("@", self.prefix).replace("COLLATION", self.collation)


def _as_json(items: Sequence[Any]) -> str:
    import json

    return json.dumps(items)


def _same(text: str) -> str:
    return text


def _pattern(text: str) -> str:
    """Return a regular expression for a text in lower case whose ASCII letters may be in upper."""
    escaped = re.sub(_PUNCTUATION, r"\\\1", text)
    return re.sub(_LETTER, lambda letter: f"[{letter[0]}{letter[0].upper()}]", escaped)


SQLITE = Dialect(
    name="sqlite",
    prefix="",
    percent=False,
    # A claim runs under BEGIN IMMEDIATE: there are no others.
    skip_locked="",
    row_lock="",
    within="IN (SELECT value FROM json_each(:{}))",
    bind_list=_as_json,
    contains="instr(lower({0}), :{1}) > 0",
    needle=_same,
    on_conflict="ON CONFLICT ({}) DO UPDATE SET",
    or_nothing="ON CONFLICT ({}) DO NOTHING",
    excluded="excluded.{}",
    least="min",
    greatest="max",
    each_handler="json_each(:handlers)",
    lease_holds="lease_until > :steady",
)

POSTGRESQL = Dialect(
    name="postgresql",
    prefix='"queuectl".',
    collation='COLLATE "C"',
    percent=True,
    skip_locked=" FOR UPDATE SKIP LOCKED",
    row_lock=" FOR UPDATE",
    within="= ANY(:{})",
    bind_list=list,
    contains="strpos(lower({0}), :{1}) > 0",
    needle=_same,
    on_conflict="ON CONFLICT ({}) DO UPDATE SET",
    or_nothing="ON CONFLICT ({}) DO NOTHING",
    excluded="excluded.{}",
    least="least",
    greatest="greatest",
    each_handler="unnest(CAST(:handlers AS text[])) AS each_one (value)",
    # Whether it is over is for others to observe: the clocks of many machines can't be trusted.
    lease_holds="lease > 0",
)

MYSQL = Dialect(
    name="mysql",
    prefix="queuectl_",
    collation="COLLATE utf8mb4_nopad_bin",
    quote="`",
    percent=True,
    skip_locked=" FOR UPDATE SKIP LOCKED",
    row_lock=" FOR UPDATE",
    within="IN :{}",
    bind_list=tuple,
    # Its lower() knows more letters than ASCII's, unlike that of the others.
    contains="{0} REGEXP :{1}",
    needle=_pattern,
    on_conflict="ON DUPLICATE KEY UPDATE",
    or_nothing="ON DUPLICATE KEY UPDATE {0} = {0}",
    excluded="VALUES({})",
    least="least",
    greatest="greatest",
    # Its statements say it themselves.
    each_handler="",
    lease_holds="lease > 0",
)
