"""Copies a queue from one store to another: every table, with history and output, and compares.

Rows go in the order of their keys, as many at a time as fit into memory. Each time is one
transaction at the target, which also notes there how far it is; so a copy that was cut short is
gone on with. While the note is there the target isn't a queue yet, and `open_store` refuses it.

Not copied is what belongs to the living or is kept by the target itself: receipts, watches, live
output, counters, tags, and the schema version. Of the nodes only those come along that hold jobs,
with a lease that is over: whoever works at the target first rescues their jobs.
"""

import json
import os
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from queuectl.errors import QueuectlError, StateError, StoreError, UsageError
from queuectl.facts import Progress
from queuectl.store import files
from queuectl.store.driver import Row
from queuectl.store.ids import new_ids
from queuectl.store.migrate import COPY
from queuectl.store.sqlite.administration import copy_file, open_file
from queuectl.store.sqlstore import SqlStore
from queuectl.store.statements import whole
from queuectl.store.tables import TABLES, Table
from queuectl.values import dataclass, replace

ROWS = 1_000
"""Rows in one transaction at most ..."""
BYTES = 4 * 2**20
"""... and bytes, unless a single row has more."""
SLACK = 2**16
"""Bytes of a statement besides its long values."""
PROBE = "probe"
"""Left in the target for a moment to see whether it turns up in the source."""
_PLAIN = {type(None), int, float, str, bytes}


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """A table that is alike on both sides."""

    table: str
    rows: int
    sha256: str


def copy(
    source: SqlStore,
    target: SqlStore,
    progress: Progress | None = None,
    *,
    verifying: Progress | None = None,
    overwrite: bool = False,
) -> list[Copied]:
    """Copy everything, as it is at one moment, and compare; or go on with a copy cut short.

    A target that isn't empty is a `StateError`, unless it may be overwritten. When source and
    target differ in the end, that is a `QueuectlError`, and the target stays unfinished.
    """
    _refuse_same(source, target)
    note = _Note.begin(source, target, overwrite=overwrite)
    if note.emptying:
        empty(target)
        note.move(lambda: None, emptying=False)
    with source.db.snapshot():
        total = sum(_count(source, table) for table in TABLES)
        _fill(source, target, note, _steps(progress, total))
        copied, wrong = _compare(source, target, _steps(verifying, 2 * total))
        if wrong is not None:
            note.move(lambda: None, wrong=True)
            raise wrong
        note.finish(source)
    target.tidy()
    return copied


def backup(store: SqlStore, path: str, progress: Progress | None = None) -> None:
    """Write a consistent copy of a store to a new file, while everything goes on."""
    files.create_private(path)
    if store.one_host:
        copy_file(store.db, path, progress)
        return
    target = open_file(path, create=True)
    try:
        copy(store, target, progress)
    finally:
        target.close()
        with suppress(OSError):
            # Nobody has worked there.
            os.rmdir(target.db.driver.companion)


def _refuse_same(source: SqlStore, target: SqlStore) -> None:
    """See whether both are one store, whatever their URLs say."""
    token = new_ids(1, 16)[0]
    target.administration.set_meta(PROBE, token)
    try:
        same = source.administration.meta(PROBE) == token
    finally:
        target.db.again(target.db.sql.DROP_META, name=PROBE)
    if same:
        raise UsageError(f"{source.url} can't be copied to itself; name another target.")


def _steps(progress: Progress | None, total: int) -> Callable[[int], None]:
    """Return what adds up steps and tells how far it is."""
    done = 0

    def step(count: int) -> None:
        nonlocal done
        done += count
        if progress is not None:
            progress(done, total)

    return step


# -- how far it is ------------------------------------------------------------------------


class _Note:
    """The note in the target about how far the copy is. Only its writer can move it on."""

    def __init__(self, target: SqlStore, text: str) -> None:
        self.target = target
        self.text = text
        self.content: dict[str, Any] = json.loads(text)

    @classmethod
    def begin(cls, source: SqlStore, target: SqlStore, *, overwrite: bool) -> "_Note":
        """Put a note into an empty target, or find the one of the copy that was cut short."""
        origin = {"source": source.url, "emptying": overwrite, "table": None, "key": None}

        def put() -> str:
            if target.administration.meta(COPY) is None and not overwrite:
                _refuse_rows(target)
            value = json.dumps(origin | {"wrong": False})
            target.db.change(target.db.sql.NOTE_COPY, {"name": COPY, "value": value})
            return target.administration.meta(COPY) or value

        note = cls(target, target.transact(put))
        if overwrite and (note.wrong or note.content["source"] != source.url):
            note.move(lambda: None, **origin, wrong=False)
        if note.content["source"] != source.url:
            raise StateError(
                f"{target.url} holds an unfinished copy of {note.content['source']}.",
                advice="finish that one, or use --overwrite to start again with this one.",
            )
        return note

    @property
    def wrong(self) -> bool:
        """Whether the copy was complete, but not like the source."""
        return bool(self.content["wrong"])

    @property
    def emptying(self) -> bool:
        """Whether what was in the target before is still being deleted."""
        return bool(self.content["emptying"])

    def reached(self, table: Table) -> Row | None:
        """Return the last key of a table that is there already."""
        if self.content["table"] != table.name or self.content["key"] is None:
            return None
        return tuple(self.content["key"])

    def is_past(self, table: Table) -> bool:
        """Tell whether the copy has come to a later table."""
        names = [other.name for other in TABLES]
        at = self.content["table"]
        return at is not None and names.index(at) > names.index(table.name)

    def move(self, action: Callable[[], None], **changes: Any) -> None:
        """Do something at the target, and note that it is done, as one write."""
        content = self.content | changes
        text = json.dumps(content)
        moved = {"name": COPY, "value": text, "before": self.text}

        def both() -> None:
            # First, so that of two who copy at once the second waits here, and finds out.
            self._check(self.target.db.change(self.target.db.sql.MOVE_COPY_NOTE, moved))
            action()

        if text != self.text:
            self.target.transact(both)
            self.content, self.text = content, text

    def finish(self, source: SqlStore) -> None:
        """Make a queue of the target: take the note away."""
        holders = {id for (id,) in source.db.rows(source.db.sql.HOLDERS)}
        dead = [replace(node, lease_until=0) for node in source.nodes.all() if node.id in holders]

        def both() -> None:
            gone = {"name": COPY, "before": self.text}
            self._check(self.target.db.change(self.target.db.sql.DROP_COPY_NOTE, gone))
            known = {node.id for node in self.target.nodes.all()}
            for node in dead:
                if node.id not in known:
                    self.target.nodes.register(node)

        self.target.transact(both)

    def _check(self, found: int) -> None:
        if not found:
            raise StateError(f"Somebody else is copying to {self.target.url} at the same time.")


def _refuse_rows(target: SqlStore) -> None:
    if found := next((table.name for table in TABLES if _read(target, table, None, 1)), None):
        raise StateError(
            f"{target.url} isn't empty (it has {found}), and nothing is merged.",
            advice="use --overwrite to delete what is there.",
        )


# -- rows -----------------------------------------------------------------------------------


def _fill(source: SqlStore, target: SqlStore, note: _Note, step: Callable[[int], None]) -> None:
    limit = target.info().get("max_allowed_packet")
    for table in TABLES:
        if note.is_past(table):
            step(_count(target, table))
            continue
        _advance(source, target, table)
        reached = note.reached(table)
        if reached is not None:
            step(_count(target, table))
        for rows in _batches(source, table, reached):
            _refuse_too_large(target, table, rows, limit)
            key = list(table.key_of(rows[-1]))
            load = partial(target.db.load, table.name, table.columns, rows)
            note.move(load, table=table.name, key=key)
            step(len(rows))


def _refuse_too_large(
    target: SqlStore, table: Table, rows: Sequence[Row], limit: int | None
) -> None:
    """Say what is wrong before a server that is sent too much cuts the connection."""
    if limit is None:
        return
    for row in rows:
        texts = [value for value in row if isinstance(value, str | bytes)]
        if 4 * sum(map(len, texts)) + SLACK <= limit:
            continue
        size = sum(map(_escaped, texts))
        if size + SLACK > limit:
            raise StoreError(
                f"A row of {table.name} {table.key_of(row)} takes {size:,} bytes, but"
                f" {target.url} takes {limit:,} at once; raise its max_allowed_packet, and go on."
            )


def _escaped(value: str | bytes) -> int:
    """Say how long a value is in the text of a statement."""
    data = value.encode() if isinstance(value, str) else value
    return len(data) + sum(data.count(special) for special in b"\0\n\r\x1a\"'\\")


def _advance(source: SqlStore, target: SqlStore, table: Table) -> None:
    """Let the target give out numbers behind those that are copied, where it must be told."""
    if not table.numbered or not target.db.sql.ADVANCE:
        return
    highest = source.db.value(whole.highest(table))
    if highest is not None:
        name = target.db.driver.dialect.prefix + table.name
        target.db.rows(target.db.sql.ADVANCE, table=name, highest=highest)


def _compare(
    source: SqlStore, target: SqlStore, step: Callable[[int], None]
) -> tuple[list[Copied], QueuectlError | None]:
    """Read both sides: what is alike, and what is wrong with the first table that isn't."""
    copied: list[Copied] = []
    with target.db.snapshot():
        for table in TABLES:
            there, here = _sums(source, target, table, step)
            if there != here:
                return copied, _unlike(source, target, there, here)
            copied.append(here)
    return copied, None


def _unlike(source: SqlStore, target: SqlStore, there: Copied, here: Copied) -> QueuectlError:
    counts = f"{there.rows} rows there, {here.rows} here"
    what = counts if there.rows != here.rows else "as many rows, but other content"
    return QueuectlError(
        f"The table {here.table} of {target.url} isn't like that of {source.url} ({what}): one of"
        " them was changed meanwhile.",
        advice="copy it again with --overwrite.",
    )


def _sums(
    source: SqlStore, target: SqlStore, table: Table, step: Callable[[int], None]
) -> tuple[Copied, Copied]:
    """Add up the rows of a table on both sides, to numbers that are the same on every database.

    In turns: a server ends a transaction in which nothing happens for a minute.
    """
    both = (_Sum(table), _Sum(table))
    sides = (_batches(source, table, None), _batches(target, table, None))
    for batches in zip_longest(*sides, fillvalue=()):
        for sum_of, rows in zip(both, batches, strict=True):
            sum_of.add(rows)
            step(len(rows))
    return both[0].total(), both[1].total()


class _Sum:
    """Adds up the rows of a table."""

    def __init__(self, table: Table) -> None:
        self.table = table
        self.rows = 0
        self.digest = sha256()

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        self.rows += len(rows)
        for row in rows:
            # In Python's own words: no two rows look the same.
            self.digest.update(repr(row).encode())

    def total(self) -> Copied:
        """Return what it comes to."""
        return Copied(table=self.table.name, rows=self.rows, sha256=self.digest.hexdigest())


def _plain(row: Row) -> Row:
    """Return a row in which every value is of one of four types, whichever driver it came from."""
    return row if _PLAIN.issuperset(map(type, row)) else tuple(map(_plain_value, row))


def _plain_value(value: Any) -> Any:
    if type(value) in _PLAIN:
        return value
    return int(value) if isinstance(value, bool | Decimal) else bytes(value)


def _batches(store: SqlStore, table: Table, after: Row | None) -> Iterator[list[Row]]:
    """Read a table by its key, from behind one; each batch fits into memory."""
    while limit := _fitting(store, table, after):
        rows = _read(store, table, after, limit)
        if not rows:
            return
        yield rows
        after = table.key_of(rows[-1])


def _fitting(store: SqlStore, table: Table, after: Row | None) -> int:
    """Say how many of the next rows to read at once; at least one, if there are any."""
    if not table.wide:
        return ROWS
    text = whole.page_of_sizes(table, behind=after is not None)
    count = total = 0
    for (length,) in store.db.rows(text, limit=ROWS, **_key(after)):
        total += int(length)
        if count and total > BYTES:
            break
        count += 1
    return count


def _read(store: SqlStore, table: Table, after: Row | None, limit: int) -> list[Row]:
    text = whole.page(table, table.columns, behind=after is not None)
    return [_plain(row) for row in store.db.rows(text, limit=limit, **_key(after))]


def _key(key: Row | None) -> dict[str, Any]:
    return {f"key{n}": value for n, value in enumerate(key or ())}


def empty(
    store: SqlStore, *, spared: Collection[str] = (), progress: Progress | None = None
) -> None:
    """Delete what is in a store, a little at a time, but for some tables; `progress` hears of jobs.

    Jobs take along what belongs to them. When it was cut short, the next call goes on with it.
    """
    step = _steps(progress, _count(store, TABLES[0]))
    for table in TABLES:
        if table.name in spared:
            continue
        first, delete = whole.page(table, table.key, behind=False), whole.delete(table)
        while keys := store.db.rows(first, limit=ROWS):
            store.transact(partial(store.db.each, delete, list(map(_key, keys))))
            if table is TABLES[0]:
                step(len(keys))


def _count(store: SqlStore, table: Table) -> int:
    return int(store.db.value(whole.count(table)))
