"""Makes many jobs of one for `enqueue`, from the files that its options name, and stores them."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from itertools import chain
from shlex import quote
from typing import Any, BinaryIO

from queuectl.cli.expand import Wanted
from queuectl.cli.feed import open_feed, open_file, our_stdin, read_json
from queuectl.cli.interrupts import raised
from queuectl.cli.progress import Bar
from queuectl.cli.render import plural, say
from queuectl.enqueueing import BATCH, MOST_AT_ONCE
from queuectl.errors import QueuectlError, UsageError
from queuectl.expansion import Expansion, check_at_once, expand, parse_sweep
from queuectl.facts import Batch
from queuectl.parameters import LONGEST
from queuectl.queue import Queue
from queuectl.values import dataclass

CHUNK = 64 * 1024
_LIKE_A_SPAN = re.compile(r"([0-9]{1,9})-([0-9]{1,9})").fullmatch


@contextmanager
def open_expansion(asked: Wanted, fields: Mapping[str, Any]) -> Iterator[Expansion]:
    """Make an expansion of a request, from the file that was named."""
    file, objects = asked.each_line, asked.each_json
    lines = nullcontext() if file is None else _open_lines(file, null=asked.null)
    with lines as each_line, nullcontext() if objects is None else _open_objects(objects) as each:
        expansion = expand(
            fields,
            array=asked.array,
            lines=each_line,
            each=each,
            sweep=_axes(asked.sweep),
            at_once=None if asked.at_once is None else check_at_once(asked.at_once),
            name=fields.get("group"),
        )
        expansion.skip(asked.skip)
        yield expansion


def _axes(sweeps: Iterable[str]) -> dict[str, Any]:
    axes: dict[str, Any] = {}
    for text in sweeps:
        name, values = parse_sweep(text)
        if name in axes:
            raise UsageError(f"--sweep is given twice for {name}; put its values into one.")
        _note_span(name, values)
        axes[name] = values
    return axes


def _note_span(name: str, values: Sequence[object]) -> None:
    """Say how a span is written, if the only value of a name looks like one."""
    ends = _LIKE_A_SPAN(str(values[0])) if len(values) == 1 else None
    if ends is not None and int(ends[1]) < int(ends[2]):
        span = f"{name}={ends[1]}..{ends[2]}"
        say(f"Note: --sweep {name}={ends[0]} is one value; a span of numbers is written {span}.")


@contextmanager
def _open_lines(path: str, *, null: bool) -> Iterator[Iterator[bytes]]:
    with nullcontext(our_stdin()) if path == "-" else open_file(path) as file:
        yield _lines(file, "stdin" if path == "-" else path, b"\0" if null else b"\n")


def _lines(file: BinaryIO, name: str, end: bytes) -> Iterator[bytes]:
    """Yield what stands before each end, whatever bytes it has."""
    rest = b""
    is_told = end == b"\0"
    while chunk := _read(file, name):
        *whole, rest = (rest + chunk).split(end)
        for line in whole:
            if not is_told and line.endswith(b"\r"):
                is_told = True
                say(
                    f"Note: {name} has lines that end as on Windows; the CR at their end is a part"
                    " of the value. To leave it out, pipe them through: tr -d '\\r'"
                )
            if end == b"\n" and b"\0" in line:
                raise UsageError(f"{name} has NULs in its lines; with --null, these end them.")
            yield line
        if len(rest) > 2 * LONGEST:
            raise UsageError(f"{name} has a line of more than {LONGEST:,} bytes.")
    if rest:
        yield rest


def _read(file: BinaryIO, name: str) -> bytes:
    try:
        return file.read1(CHUNK)  # type: ignore[attr-defined, no-any-return]
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror}.") from None


@contextmanager
def _open_objects(path: str) -> Iterator[Iterator[dict[str, Any]]]:
    with open_feed(path, plain=False, hold=False) as feed:
        feed.read = _read_object
        parsed = (feed.parse(number, line) for number, line in enumerate(feed.lines, 1))
        yield (fields for fields in parsed if fields is not None)


def _read_object(line: str) -> dict[str, Any] | None:
    """Read a line of names and values; blank ones are skipped."""
    text = line.strip()
    hint = "" if text[:1] == "{" else "; --each-line takes lines of plain text"
    return read_json(line, hint, no_object=_NO_OBJECT) if text else None


_NO_OBJECT = 'it must be a JSON object of names and values, such as {"name": "a b", "n": 3}.'


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """What was stored of an expansion, and why not all of it, if that is so."""

    batch: Batch
    interrupted: bool = False
    error: QueuectlError | None = None

    @property
    def is_whole(self) -> bool:
        """Whether all was stored."""
        return not self.interrupted and self.error is None

    def rest(self, skipped: int, group: str) -> str:
        """Say what isn't stored, and how to go on, in the same group."""
        stored = len(self.batch.ids)
        why = "Interrupted" if self.error is None else str(self.error).rstrip(".")
        skip = skipped + stored
        return (
            f"{why}: only the first {plural(stored, 'job')} are stored; the same command with"
            f" --group {quote(group)} --skip {skip} goes on behind them."
        )


def first_of(expansion: Expansion) -> Expansion:
    """Read as many as can be stored all at once, and one more."""
    return expansion.part(MOST_AT_ONCE + 1)


def store_all(
    queue: Queue, first: Expansion, rest: Expansion, last: Mapping[str, Any] | None = None
) -> Stored:
    """Store an expansion: all of it or nothing, or part after part if it is too long for that.

    What is stored are always the first of them; and behind all of them, one job that is the `last`.
    """
    with Bar("Enqueueing") as bar:
        if first.count + (last is not None) <= MOST_AT_ONCE:
            return Stored(batch=_store_whole(queue, first, last, bar))
        stored = _store_parts(queue, first, rest, bar)
        if last is not None and stored.is_whole:
            queue.enqueue_many([last])
        return stored


def _store_whole(queue: Queue, first: Expansion, last: Mapping[str, Any] | None, bar: Bar) -> Batch:
    if last is None or not first.count:
        return queue.enqueue_many(first, progress=bar, total=first.count)
    from queuectl.groups import without_following

    first.behind = [last]
    return without_following(queue.enqueue_many(first, progress=bar, total=first.count))


def _store_parts(queue: Queue, first: Expansion, rest: Expansion, bar: Bar) -> Stored:
    total = first.count + rest.count if rest.count else 0
    ids: list[str] = []
    dropped: list[str] = []
    interrupted, failed = False, None
    try:
        for part in _parts(first, rest):
            batch = queue.enqueue_many(part)
            ids += batch.ids
            dropped += batch.dropped
            bar(len(ids), total)
    except KeyboardInterrupt:
        interrupted = True
    except QueuectlError as error:
        if not ids:
            raise
        failed = error
    batch = Batch(ids=tuple(ids), dropped=tuple(dropped))
    return Stored(batch=batch, interrupted=interrupted, error=failed)


def _parts(first: Expansion, rest: Expansion) -> Iterator[Expansion]:
    for source in chain((first, rest)):
        while True:
            with raised():  # a pipe may be silent for long
                part = source.part(BATCH)
            if not part.count:
                break
            yield part
