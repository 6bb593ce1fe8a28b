"""Files that pass from a silent run of a worker to the next, and those that must not."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from queuectl.guard.board import board_at, last_of, read_board
from queuectl.guard.files import Files, worker_files
from tests.guard.harness import Harness


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    harness.tell("board", board_at(str(tmp_path), 1), 1, True, 0)
    yield harness
    harness.guard.close()


def names(folder: Path) -> list[str]:
    """List what is there beside the board."""
    return sorted(path.name for path in folder.iterdir() if path.name != "board.1")


class Opened:
    """The files of a run, as its guard opens them."""

    def __init__(
        self, files: Files, folder: Path, *, token: str = "a.1.1", worker: int = 1
    ) -> None:
        own = str(folder / f"{token}.out"), str(folder / f"{token}.err")
        spec: Any = {"worker": worker, "token": token}
        spec["stdout"], spec["stderr"] = own
        self.fds: list[int] = []
        self.files = files
        self.own = own
        self.paths = files.open(spec, self.fds)

    def end(self, out: int = 0, err: int = 0) -> None:
        for fd in self.fds:
            os.close(fd)
        for path, own, written in zip(self.paths, self.own, (out, err), strict=True):
            self.files.close(path, own, written)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files()
    made.settle(board_at(str(tmp_path), 1), 1, first=True)
    return made


class TestFiles:
    def test_a_worker_keeps_those_that_stay_empty(self, files: Files, tmp_path: Path) -> None:
        inodes = set()
        for n in range(3):
            run = Opened(files, tmp_path, token=f"a.{n}.1")
            assert run.paths == worker_files(str(tmp_path), 1)
            inodes |= {os.fstat(fd).st_ino for fd in run.fds}
            run.end()
        assert len(inodes) == 2
        assert names(tmp_path) == ["1.err", "1.out"]

    def test_the_board_says_who_has_them(self, files: Files, tmp_path: Path) -> None:
        for n in range(40):
            run = Opened(files, tmp_path, token=f"a.{n}.1", worker=7)
            note = last_of(str(tmp_path), 7)
            assert note is not None and note.token == f"a.{n}.1"
            assert note.inodes == tuple(os.fstat(fd).st_ino for fd in run.fds)
            run.end(out=n % 3)
        assert last_of(str(tmp_path), 6) is None

    def test_what_was_written_gets_its_own_name(self, files: Files, tmp_path: Path) -> None:
        run = Opened(files, tmp_path)
        os.write(run.fds[1], b"words")
        run.end(err=5)
        assert names(tmp_path) == ["1.out", "a.1.1.err"]
        assert Path(run.own[1]).read_bytes() == b"words"
        after = Opened(files, tmp_path, token="a.2.1")
        assert Path(after.paths[1]).read_bytes() == b""
        after.end()

    def test_they_are_written_at_their_end_and_waited_for(
        self, files: Files, tmp_path: Path
    ) -> None:
        Opened(files, tmp_path).end()
        run = Opened(files, tmp_path, token="a.2.1")
        Path(run.paths[0]).write_bytes(b"before ")
        os.write(run.fds[0], b"after")
        assert all(os.get_blocking(fd) and not os.get_inheritable(fd) for fd in run.fds)
        assert Path(run.paths[0]).read_bytes() == b"before after"
        run.end(out=12)

    @pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY, os.O_RDWR])
    def test_what_somebody_has_open_stays_with_them(
        self, files: Files, tmp_path: Path, flags: int
    ) -> None:
        first = Opened(files, tmp_path)
        other = os.open(first.paths[0], flags)
        first.end()
        second = Opened(files, tmp_path, token="a.2.1")
        assert os.fstat(second.fds[0]).st_ino != os.fstat(other).st_ino
        assert second.paths == first.paths
        os.close(other)
        second.end()

    def test_what_was_changed_or_replaced_does_not_pass_on(
        self, files: Files, tmp_path: Path
    ) -> None:
        victim = tmp_path / "victim"
        victim.touch(0o600)
        out = Path(worker_files(str(tmp_path), 1)[0])

        def replaced(make: Callable[[], None]) -> None:
            out.unlink()
            make()

        spoils: list[Callable[[], object]] = [
            lambda: out.write_bytes(b"late"),
            lambda: out.chmod(0o666),
            lambda: replaced(lambda: os.link(victim, out)),
            lambda: replaced(lambda: out.symlink_to(victim)),
            lambda: replaced(lambda: os.mkfifo(out, 0o600)),
            out.unlink,
        ]
        for spoil in spoils:
            Opened(files, tmp_path).end()
            spoil()
            run = Opened(files, tmp_path, token="a.2.1")
            assert run.paths[0] == str(out)
            os.write(run.fds[0], b"mine")
            assert out.read_bytes() == b"mine"
            assert (out.stat().st_mode & 0o777, out.stat().st_nlink) == (0o600, 1)
            run.end(out=4)
            assert victim.stat().st_size == 0

    def test_where_they_cannot_be_had_each_run_has_its_own(
        self, files: Files, tmp_path: Path
    ) -> None:
        Path(worker_files(str(tmp_path), 1)[0]).mkdir()
        run = Opened(files, tmp_path)
        assert run.paths == run.own
        assert "a.1.1" in (read_board(board_at(str(tmp_path), 1)) or ())
        os.write(run.fds[0], b"words")
        run.end(out=5)
        assert Path(run.own[0]).read_bytes() == b"words"
        assert not Path(run.own[1]).exists()
        # Other workers aren't concerned.
        other = Opened(files, tmp_path, worker=2)
        assert other.paths == worker_files(str(tmp_path), 2)
        other.end()

    def test_without_a_board_each_run_has_its_own(self, tmp_path: Path) -> None:
        run = Opened(Files(), tmp_path)
        assert run.paths == run.own
        run.end()
        assert names(tmp_path) == []

    def test_a_board_that_cannot_be_made_is_done_without(self, tmp_path: Path) -> None:
        files = Files()
        files.settle(str(tmp_path / "no" / "board.1"), 1, first=True)
        run = Opened(files, tmp_path)
        assert run.paths == run.own
        run.end()


class TestRuns:
    def test_silent_runs_of_a_worker_use_the_same_files(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        inodes = set()
        for _ in range(20):
            guard.end(guard.shell("true", worker=103))
            inodes |= {os.stat(path).st_ino for path in worker_files(str(tmp_path), 103)}
        assert len(inodes) == 2
        assert names(tmp_path) == ["103.err", "103.out"]

    def test_each_run_has_its_own_words(self, guard: Harness) -> None:
        scripts = ["true", "echo a", "true", "echo b >&2", "false", "echo c; echo d >&2", "true"]
        # Their own names must not be those of a worker.
        runs = [guard.shell(script, worker=101 + n % 2) for n, script in enumerate(scripts * 5)]
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

    def test_who_still_has_its_files_writes_into_no_other_run(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        first = guard.shell("true", worker=101)
        guard.end(first)
        late = os.open(worker_files(str(tmp_path), 101)[0], os.O_WRONLY | os.O_APPEND)
        second = guard.shell("echo mine", worker=101)
        guard.end(second)
        os.write(late, b"not yours\n")
        os.close(late)
        assert guard.output(second) == b"mine\n"

    def test_a_run_that_could_not_start_leaves_no_files(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        guard.refusal(guard.spawn("no-such-program-anywhere", worker=5))
        assert names(tmp_path) == ["5.err", "5.out"]
        with_own = Harness(tmp_path)
        with_own.refusal(with_own.spawn("no-such-program-anywhere"))
        with_own.guard.close()
        assert names(tmp_path) == ["5.err", "5.out"]

    def test_one_file_for_both_streams_has_its_own_name(
        self, guard: Harness, tmp_path: Path
    ) -> None:
        both = str(tmp_path / "both")
        guard.end(guard.shell("echo a; echo b >&2", worker=101, stdout=both, stderr=both))
        assert Path(both).read_bytes() == b"a\nb\n"
