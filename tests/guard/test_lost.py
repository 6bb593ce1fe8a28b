"""Guards that are gone, or say nothing: what their node makes of that."""

import math
import os
import resource
import signal
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from queuectl.guard.board import Board, board_at, last_of, read_board
from queuectl.guard.wire import Spawn
from queuectl.node import guards as guarding
from queuectl.node.guards import GuardLostError, Guards
from tests.guard.harness import Harness, alive, until


def test_a_guard_that_takes_nothing_is_killed_so_that_everybody_sees_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    harness = Harness(tmp_path)
    guard = harness.guard
    os.kill(guard.pid, signal.SIGSTOP)
    _, spec = harness.spec("true", env={"PAD": "x" * 100_000})
    assert guard.stalls_in() == math.inf
    for run in range(10):
        guard.send([Spawn(run, spec)])
    assert guard.has_unsent
    assert 0 < guard.stalls_in() <= guarding.STALLED_AFTER
    assert guard.receive() == []
    assert alive(guard.pid)
    monkeypatch.setattr(guarding, "STALLED_AFTER", 0.0)
    with suppress(GuardLostError):
        assert guard.receive() == []
    until(lambda: not alive(guard.pid), "the guard to be gone")
    with pytest.raises(GuardLostError):
        guard.receive()
    guard.close()


def test_what_a_guard_takes_late_it_gets_whole_and_in_order(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    os.kill(harness.guard.pid, signal.SIGSTOP)
    runs = [
        harness.shell(f"echo {n} >> order", worker=1, env={"PAD": "x" * 100_000}) for n in range(20)
    ]
    assert harness.guard.has_unsent
    os.kill(harness.guard.pid, signal.SIGCONT)
    harness.wait(*runs)
    assert not harness.guard.has_unsent
    assert harness.guard.close()
    assert (tmp_path / "order").read_text().split() == [str(n) for n in range(20)]


def test_a_guard_that_cannot_be_started_now_is_started_a_little_later() -> None:
    guards = Guards(())
    guards.start(workers=2)
    lost, *others = guards
    os.kill(lost.pid, signal.SIGKILL)
    lost.close()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Nothing can be opened at first.
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    later = threading.Timer(0.05, lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard)))
    try:
        later.start()
        new = guards.replace(lost)
    finally:
        later.join()
    assert new in list(guards)
    assert alive(new.pid) and all(alive(other.pid) for other in others)
    guards.close()


def test_a_guard_whose_node_is_gone_begins_nothing_any_more(tmp_path: Path) -> None:
    """Its node was killed before it read what to start: others go by the board from then on."""
    board = board_at(str(tmp_path), 1)
    reader, writer = os.pipe()
    if not (node := os.fork()):
        harness = Harness(tmp_path)
        harness.tell("board", board, 1, True, 0)
        harness.end(harness.shell("true", token="a.1.1"))
        os.kill(harness.guard.pid, signal.SIGSTOP)
        harness.shell("touch begun", token="a.2.1")
        os.write(writer, str(harness.guard.pid).encode())
        os.kill(os.getpid(), signal.SIGKILL)
    os.waitpid(node, 0)
    guard = int(os.read(reader, 100))
    os.kill(guard, signal.SIGCONT)
    until(lambda: not alive(guard), "the guard to be gone")
    assert read_board(board) == {"a.1.1"}
    assert not (tmp_path / "begun").exists()


class TestBoards:
    def test_the_next_guard_goes_on_with_it(self, tmp_path: Path) -> None:
        """What was begun under a guard that is gone may not be written down yet."""
        path = board_at(str(tmp_path), 1)
        before, after = Board(), Board()
        before.open(path, 1, first=True)
        for n in range(40):
            before.note(1, f"a.{n}.1", 5, 6)
        before.note(3, "a.100.1")
        after.open(path, 1, first=False)
        begun = {f"a.{n}.1" for n in range(8, 40)} | {"a.100.1"}
        assert read_board(path) == begun
        after.note(1, "b.1.1", 7, 8)
        assert read_board(path) == begun - {"a.8.1"} | {"b.1.1"}
        note = last_of(str(tmp_path), 1)
        assert note is not None and (note.number, note.token) == (40, "b.1.1")
        assert os.listdir(tmp_path) == ["board.1"]

    def test_one_that_is_missed_leaves_a_gap(self, tmp_path: Path) -> None:
        """Somebody removed it, or it could not be made: who was begun before is unknown."""
        path = board_at(str(tmp_path), 1)
        board = Board()
        board.open(path, 1, first=False)
        assert board.note(1, "a.1.1")
        assert read_board(path) is None
        after = Board()
        after.open(path, 1, first=False)
        assert read_board(path) is None

    def test_a_board_that_cannot_be_made_leaves_no_old_one(self, tmp_path: Path) -> None:
        path = board_at(str(tmp_path), 1)
        Path(path).write_bytes(b"?")
        Path(path + ".new").mkdir()
        board = Board()
        board.open(path, 1, first=True)
        assert not board.note(1, "a.1.1")
        assert not Path(path).exists()

    @pytest.mark.parametrize("umask", [0, 0o077, 0o400, 0o777])
    def test_its_owner_can_read_it_whatever_the_umask(self, tmp_path: Path, umask: int) -> None:
        before = os.umask(umask)
        try:
            Board().open(board_at(str(tmp_path), 1), 1, first=True)
        finally:
            os.umask(before)
        assert os.stat(board_at(str(tmp_path), 1)).st_mode & 0o777 == 0o600

    def test_with_a_gap_it_still_says_whose_the_files_are(self, tmp_path: Path) -> None:
        path = board_at(str(tmp_path), 1)
        board = Board()
        board.open(path, 1, first=True)
        assert board.note(1, "a.1.1", 5, 6)
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (os.stat(path).st_size, limits[1]))
        try:
            assert not board.note(9, "a.2.1", 7, 8)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert read_board(path) is None
        note = last_of(str(tmp_path), 1)
        assert note is not None and (note.token, note.inodes) == ("a.1.1", (5, 6))
        assert board.note(9, "a.3.1", 7, 8)
        assert read_board(path) is None
