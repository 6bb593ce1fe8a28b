"""Standard error of a node: whoever reads it, or doesn't, the jobs go on."""

import os
import pty
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from queuectl import State
from queuectl.node import console
from queuectl.node.console import Console
from tests.support import Lab


@pytest.fixture(params=[os.pipe, pty.openpty], ids=["pipe", "terminal"])
def ends(request: pytest.FixtureRequest) -> tuple[int, int]:
    """Where it is read, and where it is written."""
    make: Callable[[], tuple[int, int]] = request.param
    return make()


def lines(first: int, last: int) -> str:
    return "".join(f"{n:0100d}\n" for n in range(first, last))


def test_what_is_not_read_waits_and_then_is_left_out(
    ends: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "LAST_WORDS", 60.0)
    monkeypatch.setattr(console, "MOST_WAITING", 100_000)
    reader, writer = ends
    with open(writer, "w") as stream, open(reader, "rb") as source:
        written = Console(stream)
        for n in range(3_000):
            written.write(lines(n, n + 1))
        read = bytearray()
        while b"left out" not in read:
            written.push()
            read += os.read(source.fileno(), 4096)
        for n in range(3_000, 3_010):
            written.write(lines(n, n + 1))
        while not read.rstrip().endswith(b"3009"):
            written.push()
            read += os.read(source.fileno(), 65_536)
    first, rest = read.decode().replace("\r", "").split("[")
    known = first.count("\n")
    assert first == lines(0, known)
    left_out = 3_000 - known
    assert rest == f"{left_out} lines left out: nobody read them]\n{lines(3_000, 3_010)}"


def test_whoever_holds_the_other_end_too_still_waits_for_it(ends: tuple[int, int]) -> None:
    reader, writer = ends
    with open(writer, "w") as stream, open(reader, "rb"):
        Console(stream).write("said\n")
        assert os.get_blocking(writer)


def test_lines_go_where_a_file_ends(tmp_path: Path) -> None:
    path = tmp_path / "said"
    with path.open("w") as stream:
        written = Console(stream)
        written.write("one\n")
        print("by another", file=stream, flush=True)
        written.write("two \udcff\n")
        written.close()
    assert path.read_text() == "one\nby another\ntwo \\udcff\n"


def test_jobs_are_run_though_nobody_reads_what_is_said_of_them(lab: Lab) -> None:
    many = lab.queue.enqueue_many(["true"] * 300).ids
    with subprocess.Popen(
        lab.command("worker", "start", "--drain", "--count", "4", "--log-json"),
        env=lab.env,
        cwd=lab.folder,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    ) as node:
        try:
            assert node.wait(60) == 0
        finally:
            node.kill()
    assert {lab.queue.get(id).state for id in many} == {State.COMPLETED}
