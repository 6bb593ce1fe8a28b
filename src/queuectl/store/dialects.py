"""What databases say differently: one `Dialect` each, and nowhere an `if dialect ==`."""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from queuectl.job import JOB_COLUMNS
from queuectl.values import dataclass

TABLES = (
    "jobs attempts outputs inputs tags counts nodes queues rollups events config meta"
    " watches live receipts"
).split()
# Patterns stay text, compiled (and cached by re) when first needed: SQLite needs few.
_PARAMETER = r"(?<!:):([a-z_0-9]+)"
_OF_ROW = r"\{(?:row|each|each_ended)\[([a-z_,\s]+)\]\}"
_LETTER = r"[a-z]"
_PUNCTUATION = r"([^A-Za-z0-9_\s\x80-\U0010ffff])"
_TEXTS = frozenset(
    "id node state was error reason host outcome queue measure kind job who detail".split()
)
"""Values of rows that are texts; all others are whole numbers."""


class _Phrase:
    """A hole with something inside: `{contains_text[j.id]}`."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __getitem__(self, inside: str) -> str:
        return self._text.format(inside)


class _Each:
    """`{each[seq, node]}`: these values of each row, to be inserted."""

    def __init__(self, text: str, value: str, rows: str) -> None:
        self._text = text
        self._value = value
        self._rows = rows

    def __getitem__(self, names: str) -> str:
        values = ", ".join(self._value.format(name) for name in _listed(names))
        return self._text.format(values=values, rows=self._rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The words that fill the holes of a statement."""

    name: str
    """Also the name of its part of each migration."""
    prefix: str
    """What stands before each table name: a schema and a dot, or a prefix."""
    collation: str = ""
    """How texts are compared, for the schema: by their code points."""
    percent: bool
    """Whether the driver wants `%(name)s` for a value, `%s` for one without a name, and `%%` for a
    percent sign."""
    skip_locked: str
    """How a read for a claim passes over rows that others are claiming."""
    share_lock: str
    """How a read keeps a row from being deleted until the transaction is over."""
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
    row: str = ":{}"
    """A value of a row, in a statement that is about many. It runs once for each of them ..."""
    each: str = "VALUES ({values})"
    """Inserts such values."""
    rows: str = ""
    """... or once for all, on a table that is made of what is bound as `:rows`."""
    integer: str = ""
    text: str = ""
    """A whole number and a text of a row, as columns of that table."""
    from_rows: str = ""
    """Where an UPDATE names that table."""
    by_place: str = ""
    """How it finds the job of each row."""
    by_readiness: str = ""
    """How a claim finds the jobs that are ready, where that must be said."""
    returning_seq: str = ""
    """How an UPDATE says which rows it has changed."""
    returning_claimed: str = ""
    """The same of jobs that are claimed, where it may be all of them."""
    and_also: str = "AND "
    """Before what must hold of a row besides its place in the line, by which it is found."""
    least: str
    greatest: str
    by_urgency: str
    """The order of promise 5, in the words of an index."""
    expires: str
    """A column that says when a job that waits expires, with its index."""
    is_expiring: str
    """What must be said for that index to be used."""
    due: str = "run_at"
    is_due: str = "ready = 0 AND "
    """The same for when a job that waits becomes due ..."""
    slowness: str = "duration_ms"
    is_slow: str = "state = 'completed' AND "
    """... and for how long the run of a completed job took."""
    held_by: str = "state = 'processing' AND node"
    """The node that runs a job, if one does."""
    is_running: str = "j.state = 'processing'"
    by_holder: str = ""
    """How a listing finds the jobs that run."""
    settled: str = "state"
    """The state of a job that is final."""
    listed: str = "state"
    """Under which state an index has a job ..."""
    not_running: str = ""
    """... and how those that run are left out, if they are among the pending ones there."""
    lease_holds: str
    """Whether a node may still renew its lease."""
    clock: str = "NULL"
    """What a server's clock says, in milliseconds. A file has none."""
    advance: str = ""
    """Makes TABLE give out numbers behind the highest one; empty where inserting it is enough."""

    def render(self, statement: str, **more: str) -> str:
        """Fill the holes of a statement."""
        words: dict[str, Any] = {table: self.prefix + table for table in TABLES}
        words |= {
            "job_columns": ", ".join(JOB_COLUMNS),
            "texts": ", ".join(name for name in JOB_COLUMNS if name != "data"),
            "skip_locked": self.skip_locked,
            "share_lock": self.share_lock,
            "row_lock": self.row_lock,
            "in_ids": self.within.format("ids"),
            "in_seqs": self.within.format("seqs"),
            "contains_text": _Phrase(self.contains.format("{0}", "text")),
            "contains_quoted": _Phrase(self.contains.format("{0}", "quoted")),
            "on_conflict": _Phrase(self.on_conflict),
            "or_nothing": _Phrase(self.or_nothing),
            "excluded": _Phrase(self.excluded),
            "and_also": self.and_also,
            "least": self.least,
            "greatest": self.greatest,
            "by_urgency": self.by_urgency,
            "expires": self.expires,
            "is_expiring": self.is_expiring,
            "due": self.due,
            "is_due": self.is_due,
            "slowness": self.slowness,
            "is_slow": self.is_slow,
            "held_by": self.held_by,
            "is_running": self.is_running,
            "by_holder": self.by_holder,
            "settled": self.settled,
            "listed": self.listed,
            "not_running": self.not_running.format(self.prefix),
            "lease_holds": self.lease_holds,
            "clock": self.clock,
            "returning_seq": self.returning_seq,
            "returning_claimed": self.returning_claimed.format(", ".join(JOB_COLUMNS)),
        }
        rows = self._rows_of(statement)
        words |= {
            "row": _Phrase(self.row),
            "each": _Each(self.each, self.row, rows),
            "each_ended": _Each(self.each, self.row, "ended AS r"),
            "by_place": self.by_place,
            "by_readiness": self.by_readiness,
            "from_rows": self.from_rows.format(rows),
        }
        text = statement.format_map(words | more)
        if self.percent:
            text = re.sub(_PARAMETER, r"%(\1)s", text.replace("%", "%%"))
        return text

    def _rows_of(self, statement: str) -> str:
        """Return the table of the rows that a statement is about."""
        columns = (
            (self.text if name in _TEXTS else self.integer).format(name, collation=self.collation)
            for name in row_names(statement)
        )
        return self.rows.format(", ".join(columns))

    def render_schema(self, statement: str) -> str:
        """Fill in a statement of a migration: `@` stands before the names of tables."""
        return statement.replace("@", self.prefix).replace("COLLATION", self.collation)


def row_names(statement: str) -> tuple[str, ...]:
    """Return which values of rows a statement is about."""
    found = (name for names in re.findall(_OF_ROW, statement) for name in _listed(names))
    return tuple(dict.fromkeys(found))


def _listed(names: str) -> list[str]:
    return names.replace(",", " ").split()


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
    share_lock="",
    row_lock="",
    within="IN (SELECT value FROM json_each(:{}))",
    bind_list=json.dumps,
    contains="instr(lower({0}), :{1}) > 0",
    needle=_same,
    on_conflict="ON CONFLICT ({}) DO UPDATE SET",
    or_nothing="ON CONFLICT ({}) DO NOTHING",
    excluded="excluded.{}",
    least="min",
    greatest="max",
    # The store puts places for the values of as many rows as there are for `:rows`.
    row="r.{}_",
    each="VALUES :rows",
    rows="(WITH given ({}) AS (VALUES :rows) SELECT * FROM given) AS r",
    integer="{}_",
    text="{}_",
    from_rows="FROM {} ",
    # Whatever is known of its indexes: the rows come first, then the job at the place of each.
    and_also="AND +",
    returning_seq=" RETURNING seq",
    # Text that isn't valid UTF-8 would be noticed too late.
    returning_claimed=" RETURNING seq",
    by_urgency="priority DESC, seq",
    expires="expires_at",
    is_expiring="ready IS NOT NULL AND expires_at IS NOT NULL AND ",
    lease_holds="lease_until > :steady",
)

POSTGRESQL = Dialect(
    name="postgresql",
    prefix='"queuectl".',
    collation='COLLATE "C"',
    percent=True,
    skip_locked=" FOR UPDATE SKIP LOCKED",
    share_lock=" FOR KEY SHARE",
    row_lock=" FOR UPDATE",
    within="= ANY(:{})",
    bind_list=list,
    contains="strpos(lower({0}), :{1}) > 0",
    needle=_same,
    on_conflict="ON CONFLICT ({}) DO UPDATE SET",
    or_nothing="ON CONFLICT ({}) DO NOTHING",
    excluded="excluded.{}",
    # In words that don't fit its other indexes, and by which it expects most rows to pass: without
    # statistics it takes all ready jobs for fewer than the handful whose places are given.
    and_also="AND 0 <> int4",
    least="least",
    greatest="greatest",
    row="r.{}_",
    each="SELECT {values} FROM {rows}",
    rows="json_to_recordset(:rows) AS r({})",
    integer="{}_ bigint",
    text="{}_ text {collation}",
    from_rows="FROM {} ",
    returning_seq=" RETURNING seq",
    returning_claimed=" RETURNING {}",
    by_urgency="priority DESC, seq",
    expires="expires_at",
    is_expiring="ready IS NOT NULL AND expires_at IS NOT NULL AND ",
    # Whether it is over is for others to observe: the clocks of many machines can't be trusted.
    lease_holds="lease > 0",
    clock="floor(extract(epoch FROM clock_timestamp()) * 1000)",
    advance="SELECT setval(numbers, greatest(:highest, nextval(numbers)))"
    " FROM (SELECT pg_get_serial_sequence('TABLE', 'seq')::regclass AS numbers) AS of_table",
)

MYSQL = Dialect(
    name="mysql",
    prefix="queuectl_",
    collation="COLLATE utf8mb4_nopad_bin",
    percent=True,
    skip_locked=" FOR UPDATE SKIP LOCKED",
    share_lock=" LOCK IN SHARE MODE",
    row_lock=" FOR UPDATE",
    within="IN :{}",
    bind_list=tuple,
    # Its lower() knows more letters than ASCII's, unlike that of the others.
    contains="{0} REGEXP :{1}",
    needle=_pattern,
    on_conflict="ON DUPLICATE KEY UPDATE",
    or_nothing="ON DUPLICATE KEY UPDATE {0} = {0}",
    excluded="VALUES({})",
    # So that no other index is used: two who lock the entries of one row in another order deadlock.
    and_also="AND 1 = ",
    least="least",
    greatest="greatest",
    # Or it may read, and lock, all jobs to find a few.
    by_place=" FORCE INDEX (PRIMARY)",
    # Without statistics it would rather read all jobs of a queue.
    by_readiness=" FORCE INDEX (jobs_ready)",
    # Columns of the schema's own: it has no partial indexes, and none with a descending column.
    by_urgency="urgency, seq",
    expires="expiring",
    is_expiring="",
    due="due",
    is_due="",
    slowness="slowness",
    is_slow="",
    held_by="held_by",
    is_running="j.held_by >= ''",
    by_holder=" FORCE INDEX (jobs_held)",
    settled="settled",
    listed="listed",
    # In words that need nothing but indexes: with a look at each job, it reads more of them.
    not_running=" AND j.seq NOT IN (SELECT r.seq FROM {}jobs r WHERE r.held_by >= '')",
    lease_holds="lease > 0",
    clock="TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000",
)
