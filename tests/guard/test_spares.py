"""Spool files that pass from a silent run to the next, and those that must not."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl.guard.output import open_spool
from queuectl.guard.spares import Spares
from tests.guard.harness import Harness


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


def empty(path: Path) -> int:
    """Make a file as a run gets it; return its inode."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    return path.stat().st_ino


class TestSpares:
    def test_a_file_passes_on_under_a_new_name(self, tmp_path: Path) -> None:
        spares, old, new = Spares(), tmp_path / "old", tmp_path / "new"
        inode = empty(old)
        spares.keep(str(old))
        fd = spares.take(str(new))
        os.write(fd, b"mine")
        os.close(fd)
        assert not old.exists()
        assert (new.stat().st_ino, new.read_bytes()) == (inode, b"mine")
        assert spares.take(str(tmp_path / "third")) == -1

    def test_it_is_written_at_its_end_and_waited_for(self, tmp_path: Path) -> None:
        spares, old = Spares(), tmp_path / "old"
        empty(old)
        spares.keep(str(old))
        fd = spares.take(str(tmp_path / "new"))
        (tmp_path / "new").write_bytes(b"before ")
        os.write(fd, b"after")
        assert os.get_blocking(fd) and not os.get_inheritable(fd)
        os.close(fd)
        assert (tmp_path / "new").read_bytes() == b"before after"

    @pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
    def test_what_somebody_has_open_does_not(self, tmp_path: Path, flags: int) -> None:
        spares, old, new = Spares(), tmp_path / "old", tmp_path / "new"
        empty(old)
        other = os.open(old, flags)
        spares.keep(str(old))
        assert spares.take(str(new)) == -1
        os.close(other)
        assert not old.exists() and not new.exists()

    def test_what_was_written_changed_or_replaced_does_not(self, tmp_path: Path) -> None:
        spares = Spares()
        written, linked, opened_up = tmp_path / "written", tmp_path / "linked", tmp_path / "mode"
        victim, pointer, pipe = tmp_path / "victim", tmp_path / "pointer", tmp_path / "pipe"
        written.write_bytes(b"late")
        empty(victim)
        os.link(victim, linked)
        empty(opened_up)
        opened_up.chmod(0o666)
        pointer.symlink_to(victim)
        os.mkfifo(pipe, 0o600)
        for path in (written, linked, opened_up, pointer, pipe, tmp_path / "gone"):
            spares.keep(str(path))
        assert spares.take(str(tmp_path / "new")) == -1
        assert [path.name for path in tmp_path.iterdir()] == ["victim"]
        assert victim.stat().st_size == 0

    def test_a_name_that_comes_again_is_not_spare(self, tmp_path: Path) -> None:
        spares, path = Spares(), tmp_path / "7.1.out"
        empty(path)
        spares.keep(str(path))
        assert spares.take(str(path)) == -1
        assert path.exists()
        assert spares.take(str(tmp_path / "other")) == -1
        assert path.exists()

    def test_all_are_removed_in_the_end(self, tmp_path: Path) -> None:
        spares = Spares()
        for name in "abc":
            empty(tmp_path / name)
            spares.keep(str(tmp_path / name))
        spares.clear()
        assert not list(tmp_path.iterdir())


class TestRuns:
    def test_silent_runs_use_the_same_files(self, guard: Harness, tmp_path: Path) -> None:
        inodes = set()
        for _ in range(20):
            run = guard.shell("true")
            guard.end(run)
            inodes |= {os.stat(tmp_path / f"{run}.{kind}").st_ino for kind in ("out", "err")}
        assert len(inodes) == 2
        assert sorted(path.name for path in tmp_path.iterdir()) == ["20.err", "20.out"]

    def test_each_run_has_its_own_words(self, guard: Harness) -> None:
        scripts = ["true", "echo a", "true", "echo b >&2", "false", "echo c; echo d >&2", "true"]
        runs = [guard.shell(script, worker=1 + n % 2) for n, script in enumerate(scripts * 5)]
        guard.wait(*runs)
        for n, run in enumerate(runs):
            ended = guard.end(run)
            out, err = [
                (b"", b""), (b"a\n", b""), (b"", b""), (b"", b"b\n"), (b"", b""), (b"c\n", b"d\n"),
                (b"", b""),
            ][n % 7]  # fmt: skip
            assert (ended.out, ended.err) == (len(out), len(err))
            if out:
                assert guard.output(run) == out
            if err:
                assert guard.errors(run) == err

    def test_a_reader_keeps_its_file(self, guard: Harness, tmp_path: Path) -> None:
        first = guard.shell("true")
        guard.end(first)
        reader = open_spool(str(tmp_path / f"{first}.out"))
        assert reader is not None
        second = guard.shell("echo not yours; echo not yours >&2")
        guard.end(second)
        assert os.read(reader, 100) == b""
        os.close(reader)
        assert guard.output(second) == guard.errors(second) == b"not yours\n"

    def test_a_run_that_could_not_start_leaves_its_files(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        guard.refusal(guard.spawn("no-such-program-anywhere"))
        run = guard.shell("true")
        guard.end(run)
        assert sorted(path.name for path in tmp_path.iterdir()) == [f"{run}.err", f"{run}.out"]

    def test_a_new_board_clears_them(self, guard: Harness, tmp_path: Path) -> None:
        guard.end(guard.shell("true"))
        guard.tell("board", str(tmp_path / "board"), 1)
        run = guard.shell("echo x; echo y >&2")
        guard.end(run)
        names = sorted(path.name for path in tmp_path.iterdir())
        assert names == [f"{run}.err", f"{run}.out", "board"]


def test_a_file_that_has_got_another_name_is_not_there(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    empty(old)
    os.rename(old, new)
    assert open_spool(str(old)) is None
    old.symlink_to(new)
    assert open_spool(str(old)) is None
