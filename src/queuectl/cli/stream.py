"""Where the output of jobs goes: byte for byte into pipes and files, harmless onto terminals.

What a `Sink` promises is said in `queuectl.following`.
"""

import codecs
import sys
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
        pass

    def write(self, stream: int, data: bytes) -> None:
        if stream in self._writers and data:
            self._turn_to(self._writers[stream]).write(data)

    def gap(self, stream: int, missing: int) -> None:
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
        for writer in self._writers.values():
            writer.end()

    close = end_run


class _Lines:
    """Takes what a job writes line by line, and very long lines in pieces."""

    def __init__(self, streams: tuple[int, ...], *, overwritten: bool = False) -> None:
        r"""Expect these streams; if lines may be `overwritten`, forget what was before a `\r`."""
        self._begun = dict.fromkeys(streams, b"")
        self._overwritten = overwritten
        self._number = 0

    def begin_run(self, number: int) -> None:
        self._number = number

    def write(self, stream: int, data: bytes) -> None:
        if stream not in self._begun or not data:
            return
        *lines, rest = (self._begun[stream] + data).split(b"\n")
        if len(rest) > LONGEST_LINE and self._overwritten:
            rest = rest[max(rest.rfind(b"\r", 0, -1), 0) :]
        whole = len(rest) <= LONGEST_LINE
        self._begun[stream] = rest if whole else b""
        for line in lines:
            self._print(stream, line, ended=True)
        if not whole:
            self._print(stream, rest, ended=False)

    def end_run(self) -> None:
        for stream, rest in self._begun.items():
            if rest:
                self._begun[stream] = b""
                self._print(stream, rest, ended=False)

    def close(self) -> None:
        self.end_run()

    def _print(self, stream: int, line: bytes, *, ended: bool) -> None:
        """Print a line, or a piece of one that isn't `ended`."""
        raise NotImplementedError


class Prefixed(_Lines):
    """Prints whole lines on stdout, each behind the job's id: `id | ` or, for stderr, `id ! `.

    On a terminal, a line that overwrites itself is printed as it is in the end.
    """

    def __init__(
        self, id: str, *, streams: tuple[int, ...] = (STDOUT, STDERR), raw: bool = False
    ) -> None:
        self._shown = is_terminal() and not raw
        super().__init__(streams, overwritten=self._shown)
        colour = _PREFIX_COLOURS[sum(id.encode()) % len(_PREFIX_COLOURS)]
        self._marks = {stream: paint(f"{safe(id)} {'|!'[stream]} ", colour) for stream in streams}
        self._controls = {stream: Controls(sys.stdout) for stream in streams}
        self._writer = Writer(sys.stdout, raw=True)

    def _print(self, stream: int, line: bytes, *, ended: bool) -> None:
        mark = self._marks[stream]
        if self._shown:
            text = line.removesuffix(b"\r").decode(errors="backslashreplace")
            sys.stdout.write(f"{mark}{self._controls[stream].line(settled(text))}\n")
        else:
            self._writer.write(mark.encode() + line + b"\n")

    def gap(self, stream: int, missing: int) -> None:
        self.end_run()
        self.write(stream, gap_line(missing))

    def end_run(self) -> None:
        super().end_run()
        for controls in self._controls.values():
            controls.end()


class Objects(_Lines):
    """Prints a JSON object per line on stdout, for programs."""

    def __init__(self, id: str, *, streams: tuple[int, ...] = (STDOUT, STDERR)) -> None:
        super().__init__(streams)
        self._id = id

    def _print(self, stream: int, line: bytes, *, ended: bool) -> None:
        text = line.decode(errors="replace")
        self._write_object(stream, text=text, text_base64=exact(line), newline=ended)

    def _write_object(self, stream: int, **fields: Any) -> None:
        about = {"id": self._id, "attempt": self._number, "stream": NAMES[stream]}
        write_json_line({**about, **fields})

    def gap(self, stream: int, missing: int) -> None:
        self.end_run()
        if stream in self._begun:
            self._write_object(stream, gap_bytes=missing)


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
