"""Copies a queue from one store to another: every table, with history and output, and compares.

Rows go in the order of their keys, as many at a time as fit into memory. Each time is one
transaction at the target, which also notes there how far it is; so a copy that was cut short is
gone on with. While the note is there the target isn't a queue yet, and `open_store` refuses it.

Not copied is what belongs to the living or is kept by the target itself: receipts, watches, live
output, counters, tags, and the schema version. Of the nodes only those come along that hold jobs,
with a lease that is over: whoever works at the target first rescues their jobs.
"""

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from decimal import Decimal
from functools import partial
from hashlib import sha256
from itertools import zip_longest
from typing import Any

from queuectl.errors import QueuectlError, StateError, StoreError, UsageError
from queuectl.facts import Progress
from queuectl.store.ids import new_ids
from queuectl.store.records import COPY
from queuectl.store.sql import SqlStore
from queuectl.store.tables import TABLES, Table
from queuectl.store.transactions import Row
from queuectl.values import dataclass, replace

ROWS = 1_000
"""Rows in one transaction at most ..."""
BYTES = 4 * 2**20
"""... and bytes, unless a single row has more."""
SLACK = 2**16
"""Bytes of a statement besides its long values."""
PROBE = "probe"
"""Left in the target for a moment to see whether it turns up in the source."""
_NOTE = "INSERT INTO {meta} (name, value) VALUES (:name, :value) {or_nothing[name]}"
_MOVE_NOTE = "UPDATE {meta} SET value = :value WHERE name = :name AND value = :before"
_DROP_NOTE = "DELETE FROM {meta} WHERE name = :name AND value = :before"
_DROP_PROBE = "DELETE FROM {meta} WHERE name = :name"
_PLAIN = {type(None), int, float, str, bytes}
_HOLDERS = "SELECT DISTINCT node FROM {jobs} WHERE state = 'processing'"


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
    with source._snapshot():
        total = sum(_count(source, table) for table in TABLES)
        _fill(source, target, note, _steps(progress, total))
        copied, wrong = _compare(source, target, _steps(verifying, 2 * total))
        if wrong is not None:
            note.move(lambda: None, wrong=True)
            raise wrong
        note.finish(source)
    target.fold()
    return copied


def _refuse_same(source: SqlStore, target: SqlStore) -> None:
    """See whether both are one store, whatever their URLs say."""
    token = new_ids(1, 16)[0]
    target.set_meta(PROBE, token)
    try:
        same = source.meta(PROBE) == token
    finally:
        target._write_again(_DROP_PROBE, name=PROBE)
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
            if target.meta(COPY) is None and not overwrite:
                _refuse_rows(target)
            value = json.dumps(origin | {"wrong": False})
            target._change(target._text(_NOTE), {"name": COPY, "value": value})
            return target.meta(COPY) or value

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
            self._check(self.target._change(self.target._text(_MOVE_NOTE), moved))
            action()

        if text != self.text:
            self.target.transact(both)
            self.content, self.text = content, text

    def finish(self, source: SqlStore) -> None:
        """Make a queue of the target: take the note away."""
        holders = {id for (id,) in source._rows(_HOLDERS)}
        dead = [replace(node, lease_until=0) for node in source.nodes() if node.id in holders]

        def both() -> None:
            gone = {"name": COPY, "before": self.text}
            self._check(self.target._change(self.target._text(_DROP_NOTE), gone))
            known = {node.id for node in self.target.nodes()}
            for node in dead:
                if node.id not in known:
                    self.target.register(node)

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
            load = partial(target.load, table.name, table.columns, rows)
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
    if not table.numbered or not target.dialect.advance:
        return
    highest = source._value(f"SELECT max(seq) FROM {{{table.name}}}")
    if highest is not None:
        name = target.dialect.prefix + table.name
        target._rows(target.dialect.advance.replace("TABLE", name), highest=highest)


def _compare(
    source: SqlStore, target: SqlStore, step: Callable[[int], None]
) -> tuple[list[Copied], QueuectlError | None]:
    """Read both sides: what is alike, and what is wrong with the first table that isn't."""
    copied: list[Copied] = []
    with target._snapshot():
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
    size = " + ".join(f'coalesce(octet_length("{name}"), 0)' for name in table.wide)
    count = total = 0
    for (length,) in _page(store, table, size, after, ROWS):
        total += int(length)
        if count and total > BYTES:
            break
        count += 1
    return count


def _read(store: SqlStore, table: Table, after: Row | None, limit: int) -> list[Row]:
    rows = _page(store, table, _names(table.columns), after, limit)
    return [_plain(row) for row in rows]


def _page(store: SqlStore, table: Table, what: str, after: Row | None, limit: int) -> list[Row]:
    where = "" if after is None else f"WHERE {_behind(table.key)} "
    text = f"SELECT {what} FROM {{{table.name}}} {where}ORDER BY {_names(table.key)} LIMIT :limit"
    bounds = {f"key{n}": value for n, value in enumerate(after or ())}
    return store._rows(text, limit=limit, **bounds)


def _behind(key: Sequence[str]) -> str:
    """Say that a row comes after a key, in words for which every database uses the index."""
    condition = f'"{key[-1]}" > :key{len(key) - 1}'
    for n in reversed(range(len(key) - 1)):
        condition = f'("{key[n]}" > :key{n} OR ("{key[n]}" = :key{n} AND {condition}))'
    return condition if len(key) == 1 else f'"{key[0]}" >= :key0 AND {condition}'


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
        same = " AND ".join(f'"{name}" = :key{n}' for n, name in enumerate(table.key))
        text = store._text(f"DELETE FROM {{{table.name}}} WHERE {same}")
        while keys := _page(store, table, _names(table.key), None, ROWS):
            doomed = [{f"key{n}": value for n, value in enumerate(key)} for key in keys]
            store.transact(partial(store._change_many, text, doomed))
            if table is TABLES[0]:
                step(len(keys))


def _count(store: SqlStore, table: Table) -> int:
    return int(store._value(f"SELECT count(*) FROM {{{table.name}}}"))


def _names(columns: Sequence[str]) -> str:
    return ", ".join(f'"{name}"' for name in columns)
