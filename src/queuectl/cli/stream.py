"""Where the output of jobs goes: byte for byte into pipes and files, harmless onto terminals."""

import codecs
import sys
from collections.abc import Iterator
from typing import Any, TextIO

from queuectl.cli.controls import Controls, settled
from queuectl.cli.render import is_terminal, paint, safe, write_json_line

LONGEST_LINE = 1 << 16
"""A line is printed in pieces when it is longer than this."""

STDOUT, STDERR = 0, 1
NAMES = ("stdout", "stderr")
_PREFIX_COLOURS = ("cyan", "green", "yellow", "magenta", "blue")


class Writer:
    """Writes bytes to a stream: as they are or, on a terminal that isn't raw, made harmless."""

    def __init__(self, stream: TextIO, *, raw: bool = False) -> None:
        self._stream = stream
        self._controls = Controls(stream) if is_terminal(stream) and not raw else None
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._at_line_start = True

    def write(self, data: bytes) -> None:
        """Write bytes; what may be an unfinished character or sequence waits for the next ones."""
        if not data:
            return
        if self._controls is not None:
            self._show(self._controls.show(self._decoder.decode(data)))
            return
        self._at_line_start = data.endswith(b"\n")
        self._stream.flush()
        self._stream.buffer.write(data)
        self._stream.buffer.flush()

    def pause(self) -> None:
        """On a terminal that isn't raw, make room for others: end the line, and for now colours."""
        if self._controls is not None:
            self._show(self._controls.pause())

    def end(self) -> None:
        """Write what waits. On a terminal that isn't raw, end the line and the colours as well."""
        if self._controls is not None:
            rest = self._controls.show(self._decoder.decode(b"", True))
            self._show(rest + self._controls.end())

    def finish_line(self) -> None:
        """End the line that is begun, if one is, wherever it goes."""
        self.end()
        if not self._at_line_start:
            self.write(b"\n")

    def _show(self, text: str) -> None:
        if text:
            self._stream.write(text)
            self._stream.flush()


class Plain:
    """Passes one job's stdout and stderr on to ours.

    On a terminal that shows both, what one of them writes begins on a line of its own: they may
    have been written in another order than they are read in, and must not overwrite each other.
    """

    def __init__(self, *, streams: tuple[int, ...] = (STDOUT, STDERR), raw: bool = False) -> None:
        writers = (Writer(sys.stdout, raw=raw), Writer(sys.stderr, raw=raw))
        self._writers = {stream: writers[stream] for stream in streams}
        self._last = self._writers[streams[0]]
        """The one that was written to last."""

    def begin_run(self, number: int) -> None:
        """Expect no more than what comes: it looks the same in all runs."""

    def write(self, stream: int, data: bytes) -> None:
        """Pass bytes on."""
        if stream in self._writers and data:
            self._turn_to(self._writers[stream]).write(data)

    def gap(self, stream: int, missing: int) -> None:
        """Mark a gap on a line of its own."""
        if stream in self._writers:
            writer = self._turn_to(self._writers[stream])
            writer.finish_line()
            writer.write(gap_line(missing))

    def _turn_to(self, writer: Writer) -> Writer:
        if writer is not self._last:
            self._last.pause()
            self._last = writer
        return writer

    def end_run(self) -> None:
        """Leave a terminal as it was before the run, but for what was written."""
        for writer in self._writers.values():
            writer.end()

    close = end_run


class _Lines:
    """Cuts what comes on several streams into lines, and very long ones into pieces."""

    def __init__(self, streams: tuple[int, ...], *, overwritten: bool = False) -> None:
        r"""Expect these streams; if lines may be `overwritten`, forget what was before a `\r`."""
        self._begun = dict.fromkeys(streams, b"")
        self._overwritten = overwritten

    def take(self, stream: int, data: bytes) -> Iterator[tuple[bytes, bool]]:
        """Return the lines that are complete now, each with whether that was its end."""
        if stream not in self._begun or not data:
            return
        *lines, rest = (self._begun[stream] + data).split(b"\n")
        if len(rest) > LONGEST_LINE and self._overwritten:
            rest = rest[max(rest.rfind(b"\r", 0, -1), 0) :]
        whole = len(rest) <= LONGEST_LINE
        self._begun[stream] = rest if whole else b""
        for line in lines:
            yield line, True
        if not whole:
            yield rest, False

    def rest(self) -> Iterator[tuple[int, bytes]]:
        """Return the lines that have no end, each with its stream."""
        for stream, rest in self._begun.items():
            if rest:
                self._begun[stream] = b""
                yield stream, rest


class Prefixed:
    """Prints whole lines on stdout, each behind the job's id: `id | ` or, for stderr, `id ! `.

    On a terminal, a line that overwrites itself is printed as it is in the end.
    """

    def __init__(
        self, id: str, *, streams: tuple[int, ...] = (STDOUT, STDERR), raw: bool = False
    ) -> None:
        colour = _PREFIX_COLOURS[sum(id.encode()) % len(_PREFIX_COLOURS)]
        self._marks = {stream: paint(f"{safe(id)} {'|!'[stream]} ", colour) for stream in streams}
        self._shown = is_terminal() and not raw
        self._controls = {stream: Controls(sys.stdout) for stream in streams}
        self._lines = _Lines(streams, overwritten=self._shown)
        self._writer = Writer(sys.stdout, raw=True)

    def begin_run(self, number: int) -> None:
        """Expect no more than what comes: it looks the same in all runs."""

    def write(self, stream: int, data: bytes) -> None:
        """Print the lines that are complete."""
        for line, _ in self._lines.take(stream, data):
            self._print(stream, line)

    def _print(self, stream: int, line: bytes) -> None:
        mark = self._marks[stream]
        if self._shown:
            text = line.removesuffix(b"\r").decode(errors="backslashreplace")
            sys.stdout.write(f"{mark}{self._controls[stream].line(settled(text))}\n")
        else:
            self._writer.write(mark.encode() + line + b"\n")

    def gap(self, stream: int, missing: int) -> None:
        """Mark a gap on a line of its own."""
        self.end_run()
        self.write(stream, gap_line(missing))

    def end_run(self) -> None:
        """Print lines that have no end, and forget colours."""
        for stream, rest in self._lines.rest():
            self._print(stream, rest)
        for controls in self._controls.values():
            controls.end()

    close = end_run


class Objects:
    """Prints a JSON object per line on stdout, for programs."""

    def __init__(self, id: str, *, streams: tuple[int, ...] = (STDOUT, STDERR)) -> None:
        self._id = id
        self._number = 0
        self._streams = streams
        self._lines = _Lines(streams)

    def begin_run(self, number: int) -> None:
        """Name this run from now on."""
        self._number = number

    def write(self, stream: int, data: bytes) -> None:
        """Print the lines that are complete."""
        for line, ended in self._lines.take(stream, data):
            self._print_line(stream, line, ended=ended)

    def _print_line(self, stream: int, line: bytes, *, ended: bool) -> None:
        self._print(
            stream,
            text=line.decode(errors="replace"),
            text_base64=exact(line),
            newline=ended,
        )

    def _print(self, stream: int, **fields: Any) -> None:
        about = {"id": self._id, "attempt": self._number, "stream": NAMES[stream]}
        write_json_line({**about, **fields})

    def gap(self, stream: int, missing: int) -> None:
        """Print an object that says how many bytes are missing."""
        self.end_run()
        if stream in self._streams:
            self._print(stream, gap_bytes=missing)

    def end_run(self) -> None:
        """Print lines that have no end."""
        for stream, rest in self._lines.rest():
            self._print_line(stream, rest, ended=False)

    close = end_run


def exact(data: bytes) -> str | None:
    """Return bytes that aren't text in base64, for JSON; None for those that are text."""
    try:
        data.decode()
        return None
    except UnicodeDecodeError:
        from base64 import b64encode

        return b64encode(data).decode()


def gap_line(missing: int) -> bytes:
    """Return the line that stands for what was left out."""
    return b"[... %s bytes left out ...]\n" % f"{missing:,}".encode()
