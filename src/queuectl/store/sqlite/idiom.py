"""How SQLite does what is hot: many rows in one statement, and what isn't text put aside."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import chain
from typing import TYPE_CHECKING

from queuectl.job import DEFAULT_QUEUE, Job
from queuectl.store.contract import Turned
from queuectl.store.idiom import Idiom
from queuectl.store.ids import new_ids
from queuectl.store.rows import NewRow, all_columns
from queuectl.store.sqlite.driver import UnreadableError

if TYPE_CHECKING:
    from queuectl.admission import Offer
    from queuectl.store.sqlite.rows import Alike

READ_AT_ONCE = 5_000
"""Jobs whose text is looked at in one go."""
ROWS_AT_ONCE = 100
"""New jobs in one statement of a bulk enqueue. Their values must be fewer than 32,767."""


class SqliteIdiom(Idiom):
    """The way of SQLite."""

    # -- storing ------------------------------------------------------------------------

    def insert_job(self, row: NewRow) -> int:
        # Cheaper than to have it returned. Triggers don't change what this says.
        session = self.db.here
        session.change(self.enqueue_row, all_columns(row))
        seq: int = session.db.last_insert_rowid()
        return seq

    def insert_jobs(self, rows: Sequence[NewRow]) -> None:
        # A statement that writes one row costs as much as the row: so it writes many at once.
        full = len(rows) - len(rows) % ROWS_AT_ONCE
        for start in range(0, full, ROWS_AT_ONCE):
            self._insert_block(rows[start : start + ROWS_AT_ONCE])
        super().insert_jobs(rows[full:])

    def _insert_block(self, rows: Sequence[NewRow]) -> None:
        """Write as many jobs as go into one statement."""
        *own, rests = zip(*rows, strict=True)
        rest = rests[0]
        if rests.count(rest) == len(rows):
            text, values = self._alike.statement(own, rest)
            self.db.each(text, [values])
        else:
            every = chain.from_iterable(map(all_columns, rows))
            self.db.each(self._enqueue_block, [tuple(every)])

    @cached_property
    def _enqueue_block(self) -> str:
        return self.enqueue_rows(ROWS_AT_ONCE)

    @cached_property
    def _alike(self) -> "Alike":
        from queuectl.store.sqlite.rows import Alike

        return Alike(self.sql.ENQUEUE, self.sql.NEW_JOB)

    # -- claiming -----------------------------------------------------------------------

    def claim_within(self, node: str, offer: "Offer", now: int) -> Turned:
        try:
            return super().claim_within(node, offer, now)
        except UnreadableError:
            # Another program wrote it. One odd job must not stop the others.
            aside = self._put_aside(now)
            turned = super().claim_within(node, offer, now)
            return turned._replace(buried=[*aside, *turned.buried])

    def _put_aside(self, now: int) -> list[Job]:
        """Bury the waiting jobs that hold what isn't text; it stays in their rows."""
        unreadable = list(self.unreadable())
        for seq, id, queue in unreadable:
            name = _decoded(id) or self._free_id(f"unreadable-{seq}")
            where = _decoded(queue) or DEFAULT_QUEUE
            params = {"seq": seq, "id": name, "queue": where, "now": now}
            self.db.change(self.sql.PUT_ASIDE, params)
        # The name of a queue may have been what couldn't be read.
        self.db.change(self.sql.DROP_EMPTY_COUNTS, {})
        seqs = self.bind([seq for seq, _, _ in unreadable])
        buried = self.jobs(self.sql.JOBS_AT, seqs=seqs)
        self.after_burial(buried, now, None)
        return buried

    def unreadable(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield places in the line, ids and queues of waiting jobs that hold what isn't text."""
        after = -(2**63)
        while rows := self.db.rows(self.sql.TEXTS, after=after, limit=READ_AT_ONCE):
            yield from ((row[0], row[2], row[3]) for row in rows if _decoded(row[1]) is None)
            after = rows[-1][0]

    def _free_id(self, wanted: str) -> str:
        taken = self.db.rows(self.sql.STATES, ids=self.bind([wanted]))
        return f"{wanted}-{new_ids(1, 6)[0]}" if taken else wanted


def _decoded(text: bytes) -> str | None:
    """Return text, or None for bytes that aren't."""
    try:
        return text.decode()
    except UnicodeDecodeError:
        return None
