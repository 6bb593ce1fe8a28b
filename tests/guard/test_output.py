"""Output: bounded while it is written, exact at both ends afterwards."""

import hashlib
import os
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queuectl.guard import output
from queuectl.guard.output import Captured, Spools, collect, gap_at, render
from tests.guard.harness import Harness, until

MIB = 1 << 20


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


def blocks(path: Path) -> int:
    return path.stat().st_blocks * 512 if path.exists() else 0


class TestCollect:
    @given(data=st.binary(max_size=64), limit=st.integers(0, 40))
    def test_keeps_both_ends(
        self, tmp_path_factory: pytest.TempPathFactory, data: bytes, limit: int
    ) -> None:
        path = tmp_path_factory.getbasetemp() / "stream"
        path.write_bytes(data)
        kept, total = collect(str(path), limit)
        assert total == len(data)
        assert len(kept) == min(limit, len(data))
        gap = gap_at(len(kept))
        assert data.startswith(kept[:gap])
        assert data.endswith(kept[gap:])

    def test_missing_file_is_empty(self, tmp_path: Path) -> None:
        assert collect(str(tmp_path / "nothing"), 10) == Captured(b"", 0)

    def test_whatever_a_job_puts_there(self, tmp_path: Path) -> None:
        (tmp_path / "secret").write_text("secret")
        (tmp_path / "link").symlink_to("secret")
        os.mkfifo(tmp_path / "pipe")
        assert collect(str(tmp_path / "link"), 10, 7) == Captured(b"", 7)
        assert collect(str(tmp_path / "pipe"), 10) == Captured(b"", 0)

    def test_the_middle_is_not_read(self, tmp_path: Path) -> None:
        with (tmp_path / "sparse").open("wb") as file:
            file.write(b"begin")
            file.seek(1 << 40)
            file.write(b"end")
        kept, total = collect(str(tmp_path / "sparse"), 8)
        assert kept == b"begiend"
        assert total == (1 << 40) + 3

    def test_what_was_freed_by_a_lower_limit_is_left_out_by_a_higher_one(
        self, tmp_path: Path
    ) -> None:
        path = tmp_path / "out"
        lines = b"".join(b"%07d\n" % n for n in range(1 << 19))
        path.write_bytes(lines)
        spool = output.Spool(str(path), 1 << 16, 0.0)
        spool.trim()
        data, total = collect(str(path), 1 << 21)
        assert total == len(lines)
        assert 1 << 16 <= len(data) < 1 << 17
        gap = gap_at(len(data))
        assert data[:gap] == lines[:gap]
        assert data[gap:] == lines[gap - len(data) :]


class TestRender:
    def test_all_there(self) -> None:
        assert render(b"\xff\0", 2) == b"\xff\0"
        assert render(b"", 0) == b""

    @pytest.mark.parametrize(
        ("data", "total", "shown"),
        [
            (b"headtail", 199_000_008, b"head\n[... 199,000,000 bytes left out ...]\ntail"),
            (b"hea\ntail", 9, b"hea\n[... 1 bytes left out ...]\ntail"),
            (b"abc", 5, b"ab\n[... 2 bytes left out ...]\nc"),
            (b"", 5, b"[... 5 bytes left out ...]\n"),
        ],
    )
    def test_gap(self, data: bytes, total: int, shown: bytes) -> None:
        assert render(data, total) == shown


# Writes numbered blocks, so that every part of the stream is different.
WRITER = """
import os, sys, time, hashlib
fd, size, pause = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
noise = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(2048))
at = 0
while at < size:
    at += os.write(fd, (at.to_bytes(8, "big") + noise)[:min(65536, size - at)])
    if pause: time.sleep(pause)
"""


def written(size: int) -> bytes:
    """Return what the writer writes."""
    noise = b"".join(hashlib.sha256(b"%d" % i).digest() for i in range(2048))
    parts = []
    at = 0
    while at < size:
        parts.append((at.to_bytes(8, "big") + noise)[: min(65536, size - at)])
        at += len(parts[-1])
    return b"".join(parts)


class TestBounds:
    @pytest.mark.parametrize(
        ("fd", "limit", "pause"), [(1, MIB, 0.0), (1, MIB, 0.0002), (2, 1001, 0.0002), (1, 0, 0.0)]
    )
    def test_two_hundred_megabytes(self, guard: Harness, fd: int, limit: int, pause: float) -> None:
        size = 200_000_000
        argv = [sys.executable, "-c", WRITER, str(fd), str(size), str(pause)]
        run = guard.spawn(*argv, output_limit=limit)
        path = guard.folder / f"{run}.{('out', 'err')[fd - 1]}"
        samples = []
        while not guard.over(run):
            samples.append(blocks(path))
            guard.hear(0.001)
        ended = guard.ended[run]
        assert (ended.out, ended.err)[fd - 1] == size
        # At full speed all is over in a moment, of which a busy machine may give us nothing.
        if pause:
            samples.sort()
            assert samples[len(samples) * 9 // 10] < limit + 16 * MIB
            assert samples[-1] < size / 2
        assert blocks(path) < limit + 2 * MIB

        captured = collect(str(path), limit, size)
        gap = gap_at(len(captured.data))
        expected = written(size)
        assert captured.total == size
        assert len(captured.data) == limit
        assert expected.startswith(captured.data[:gap])
        assert expected.endswith(captured.data[gap:])

    def test_several_at_once(self, guard: Harness) -> None:
        size = 60_000_000
        runs = [guard.spawn(sys.executable, "-c", WRITER, "1", str(size), "0") for _ in range(4)]
        guard.wait(*runs)
        for run in runs:
            assert guard.ended[run].out == size
            assert blocks(guard.folder / f"{run}.out") < 3 * MIB
            data = collect(str(guard.folder / f"{run}.out"), MIB).data
            assert hashlib.sha256(data[gap_at(len(data)) :]).digest() == (
                hashlib.sha256(written(size)[-MIB // 2 :]).digest()
            )

    def test_a_long_quiet_run_that_begins_to_write(self, guard: Harness) -> None:
        run = guard.shell(
            f"while [ ! -e go ]; do sleep 0.05; done;"
            f"{sys.executable} -c '{WRITER}' 1 50000000 0; touch written;"
            f"while [ ! -e end ]; do sleep 0.05; done",
            output_limit=1000,
        )
        # By then the guard has stopped looking at the file and waits to be told.
        until(lambda: _watches(guard.guard.pid) == 2)
        (guard.folder / "go").touch()
        until((guard.folder / "written").exists)
        path = guard.folder / f"{run}.out"
        until(lambda: blocks(path) < 2 * MIB)
        (guard.folder / "end").touch()
        assert guard.end(run).out == 50_000_000

    def test_quiet_runs_cost_nothing(self, guard: Harness) -> None:
        runs = [guard.shell("echo begin; exec sleep 1000") for _ in range(8)]
        until(lambda: _watches(guard.guard.pid) == 16)
        process = psutil.Process(guard.guard.pid)
        before = process.num_ctx_switches().voluntary
        time.sleep(1.0)
        # It may be woken a time or two by what is still under way, not twenty times a second.
        assert process.num_ctx_switches().voluntary - before < 5
        for run in runs:
            guard.tell("kill", run, "enough")
        guard.wait(*runs)
        until(lambda: _watches(guard.guard.pid) == 0)

    def test_a_job_that_empties_its_output(self, guard: Harness) -> None:
        write = f"{sys.executable} -c '{WRITER}' 1 9000000 0.001"
        run = guard.shell(
            f"for i in 1 2 3; do {write}; : > 1.out; done; echo end", output_limit=100
        )
        assert guard.end(run).out == 4
        assert guard.output(run) == b"end\n"

    def test_a_job_that_replaces_its_output(self, guard: Harness) -> None:
        victim = guard.folder / "victim"
        victim.write_bytes(b"x" * 4 * MIB)
        runs = [
            guard.shell("rm 1.out; ln -s victim 1.out; sleep 0.3", output_limit=100),
            guard.shell("rm 2.out; mkfifo 2.out; sleep 0.3", output_limit=100),
            guard.shell("rm 3.out; mkdir 3.out; sleep 0.3", output_limit=100),
            guard.shell("rm 4.out; head -c 9000000 /dev/zero", output_limit=100),
        ]
        assert [guard.end(run).code for run in runs] == [0, 0, 0, 0]
        assert victim.read_bytes() == b"x" * 4 * MIB
        assert guard.end(guard.shell("true")).code == 0


class TestWithoutHoles:
    """A filesystem that can't free the middle of a file."""

    @pytest.fixture(autouse=True)
    def _no_holes(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(output, "_punch", lambda _fd, _offset, _length: False)

    @pytest.mark.parametrize("limit", [0, 1, 1001, MIB])
    @pytest.mark.parametrize("size", [3 * MIB, 20_000_003])
    def test_both_ends_are_kept(self, tmp_path: Path, limit: int, size: int) -> None:
        path = tmp_path / "stream"
        expected = written(size)
        spools = Spools()
        spool = spools.add(str(path), limit, time.monotonic())
        with path.open("ab", buffering=0) as file:
            for at in range(0, size, 300_000):
                file.write(expected[at : at + 300_000])
                spool.look(time.monotonic())
                assert blocks(path) < 2 * limit + 3 * MIB
        total = spools.remove(spool)
        assert total == size
        captured = collect(str(path), limit, total)
        gap = gap_at(len(captured.data))
        assert captured.total == size
        assert len(captured.data) == limit
        assert expected.startswith(captured.data[:gap])
        assert expected.endswith(captured.data[gap:])

    def test_short_output_is_left_alone(self, tmp_path: Path) -> None:
        path = tmp_path / "stream"
        spools = Spools()
        spool = spools.add(str(path), 100, time.monotonic())
        path.write_bytes(b"short")
        spool.look(time.monotonic())
        assert spools.remove(spool) == 5
        assert collect(str(path), 100, 5) == Captured(b"short", 5)


def _watches(pid: int) -> int:
    """Count the files a process is told about by the kernel."""
    total = 0
    for info in Path(f"/proc/{pid}/fdinfo").iterdir():
        with suppress(FileNotFoundError):
            total += info.read_text().count("inotify wd:")
    return total
