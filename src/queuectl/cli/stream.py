"""Where the output of jobs goes: byte for byte into pipes and files, harmless onto terminals."""

import codecs
import sys
from typing import Protocol, TextIO

from queuectl.cli.render import is_terminal, paint, safe

LONGEST_LINE = 1 << 16
"""A line is printed in pieces when it is longer than this."""

STDOUT, STDERR = 0, 1
_PREFIX_COLOURS = ("cyan", "green", "yellow", "magenta", "blue")


class Sink(Protocol):
    """Takes what a job writes, stream by stream."""

    def write(self, stream: int, data: bytes) -> None:
        """Take bytes of stream 0 (stdout) or 1 (stderr)."""

    def gap(self, stream: int, missing: int) -> None:
        """Mark that so many bytes are missing here."""

    def end_run(self) -> None:
        """Finish what belongs to a run."""

    def close(self) -> None:
        """Finish."""


class Writer:
    """Writes bytes to a stream; control characters are shown when it is a terminal, unless raw."""

    def __init__(self, stream: TextIO, *, raw: bool = False) -> None:
        self._stream = stream
        self._decoder: codecs.IncrementalDecoder | None = None
        if is_terminal(stream) and not raw:
            self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._return = ""
        self._at_line_start = True

    def write(self, data: bytes, *, last: bool = False) -> None:
        """Write bytes; `last` also writes what looked like an unfinished character."""
        if data:
            self._at_line_start = data.endswith(b"\n")
        if self._decoder is None:
            self._stream.flush()
            self._stream.buffer.write(data)
            self._stream.buffer.flush()
            return
        text = self._return + self._decoder.decode(data, last)
        # A carriage return may be half of a line's end; the other half comes with the next bytes.
        self._return = "\r" if text.endswith("\r") and not last else ""
        text = text.removesuffix(self._return).replace("\r\n", "\n")
        self._stream.write(safe(text, keep="\n\t"))
        self._stream.flush()

    def finish_line(self) -> None:
        """End the line that is begun, if one is."""
        self.write(b"", last=True)
        if not self._at_line_start:
            self.write(b"\n")


class Plain:
    """Passes one job's stdout and stderr on to ours."""

    def __init__(self, *, streams: tuple[int, ...] = (STDOUT, STDERR), raw: bool = False) -> None:
        writers = (Writer(sys.stdout, raw=raw), Writer(sys.stderr, raw=raw))
        self._writers = {stream: writers[stream] for stream in streams}

    def write(self, stream: int, data: bytes) -> None:
        """Pass bytes on."""
        if stream in self._writers:
            self._writers[stream].write(data)

    def gap(self, stream: int, missing: int) -> None:
        """Mark a gap on a line of its own."""
        if stream in self._writers:
            self._writers[stream].finish_line()
            self._writers[stream].write(gap_line(missing))

    def end_run(self) -> None:
        """Let go of what looked like an unfinished character."""
        for writer in self._writers.values():
            writer.write(b"", last=True)

    close = end_run


class Prefixed:
    """Prints whole lines on stdout, each behind the job's id: `id | ` or, for stderr, `id ! `."""

    def __init__(
        self, id: str, *, streams: tuple[int, ...] = (STDOUT, STDERR), raw: bool = False
    ) -> None:
        colour = _PREFIX_COLOURS[sum(id.encode()) % len(_PREFIX_COLOURS)]
        self._marks = {
            stream: paint(f"{safe(id)} {'|!'[stream]} ", colour).encode() for stream in streams
        }
        self._pending = dict.fromkeys(streams, b"")
        self._writer = Writer(sys.stdout, raw=raw)
        self._raw_marks = not is_terminal() or raw

    def write(self, stream: int, data: bytes) -> None:
        """Print the lines that are complete."""
        if stream not in self._pending or not data:
            return
        *lines, rest = (self._pending[stream] + data).split(b"\n")
        if len(rest) > LONGEST_LINE:
            lines.append(rest)
            rest = b""
        self._pending[stream] = rest
        for line in lines:
            self._print(stream, line)

    def _print(self, stream: int, line: bytes) -> None:
        mark = self._marks[stream]
        if self._raw_marks:
            self._writer.write(mark + line + b"\n")
        else:
            sys.stdout.write(mark.decode())
            self._writer.write(line + b"\n", last=True)

    def gap(self, stream: int, missing: int) -> None:
        """Mark a gap on a line of its own."""
        self.end_run()
        self.write(stream, gap_line(missing))

    def end_run(self) -> None:
        """Print lines that have no end."""
        for stream, rest in self._pending.items():
            if rest:
                self._print(stream, rest)
            self._pending[stream] = b""

    close = end_run


def gap_line(missing: int) -> bytes:
    """Return the line that stands for what was left out."""
    return b"[... %s bytes left out ...]\n" % f"{missing:,}".encode()
