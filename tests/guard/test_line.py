"""Runs that wait for their worker: started one after the other, or taken back."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl.guard.board import Board, board_at, read_board, read_boards
from tests.guard.harness import Harness, until


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


class TestOneAtATime:
    def test_a_worker_runs_one_after_the_other(self, guard: Harness) -> None:
        script = "echo b $n >> order; sleep 0.05; echo e $n >> order"
        runs = [guard.shell(script, worker=1, env={"n": str(n)}) for n in range(4)]
        guard.wait(*runs)
        lines = (guard.folder / "order").read_text().splitlines()
        assert lines == [f"{what} {n}" for n in range(4) for what in "be"]

    def test_the_next_waits_for_all_processes_of_the_last(self, guard: Harness) -> None:
        first = guard.shell("(trap '' TERM; sleep 1000) & echo $! > left", worker=1)
        second = guard.shell('kill -0 "$(cat left)"', worker=1)
        guard.wait(first, second)
        assert guard.ended[second].code != 0

    def test_workers_go_on_beside_each_other(self, guard: Harness) -> None:
        guard.shell("until [ -e go ]; do sleep 0.01; done", worker=1)
        behind = guard.shell("true", worker=1)
        other = guard.shell("touch go", worker=2)
        guard.wait(other, behind)

    def test_one_that_cannot_be_started_makes_room(self, guard: Harness) -> None:
        broken = guard.spawn("no-such-program", worker=1)
        after = guard.shell("exit 3", worker=1)
        guard.wait(broken, after)
        assert guard.ended[after].code == 3


class TestWithdraw:
    def test_what_waits_is_taken_back_and_the_others_go_on(self, guard: Harness) -> None:
        first = guard.shell("until [ -e go ]; do sleep 0.01; done", worker=1)
        second = guard.shell("touch second", worker=1)
        third = guard.shell("exit 3", worker=1)
        guard.tell("withdraw", second)
        until(lambda: guard.heard() == [second])
        (guard.folder / "go").touch()
        assert guard.end(third).code == 3
        assert guard.over(first)
        assert not (guard.folder / "second").exists()

    def test_what_goes_on_stays(self, guard: Harness) -> None:
        run = guard.shell("touch begun; until [ -e go ]; do sleep 0.01; done", worker=1)
        until((guard.folder / "begun").exists)
        guard.tell("withdraw", run)
        (guard.folder / "go").touch()
        assert guard.end(run).code == 0
        assert guard.released == []

    def test_what_is_over_or_was_never_there_is_ignored(self, guard: Harness) -> None:
        run = guard.shell("true", worker=1)
        guard.wait(run)
        guard.tell("withdraw", run)
        guard.tell("withdraw", 999)
        assert guard.end(guard.shell("exit 3", worker=1)).code == 3
        assert guard.released == []

    def test_a_stop_of_one_that_waits_ends_it(self, guard: Harness) -> None:
        guard.shell("sleep 1000", worker=1)
        second = guard.shell("touch second", worker=1)
        guard.tell("stop", second, "cancelled")
        ended = guard.end(second)
        assert (ended.how, ended.started) == ("cancelled", ended.ended)


class TestBoard:
    def test_it_names_what_each_worker_has_begun(self, guard: Harness) -> None:
        board = str(guard.folder / "board")
        guard.tell("board", board, 1, True, 0)
        done = guard.shell("true", worker=1, token="a")
        going = guard.shell("touch begun; sleep 1000", worker=1, token="b")
        guard.shell("sleep 1000", worker=1, token="c")
        other = guard.shell("true", worker=300, token="d")
        guard.wait(done, other)
        until((guard.folder / "begun").exists)
        assert read_board(board) == {"a", "b", "d"}
        assert not guard.over(going)

    def test_the_oldest_make_room(self, guard: Harness) -> None:
        board = str(guard.folder / "board")
        guard.tell("board", board, 1, True, 0)
        guard.wait(*[guard.shell("true", worker=1, token=f"run {n}") for n in range(40)])
        assert read_board(board) == {f"run {n}" for n in range(8, 40)}

    def test_without_a_board_nothing_is_known(self, tmp_path: Path) -> None:
        assert read_board(str(tmp_path / "none")) is None

    def test_a_board_without_its_first_line_says_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "board"
        Board().note(1, "a")
        path.touch()
        assert read_board(str(path)) is None
        board = Board()
        board.open(str(path), 1, first=True)
        assert read_board(str(path)) == set()
        board.note(3, "a")
        assert read_board(str(path)) == {"a"}

    def test_only_all_boards_together_say_what_was_begun(self, tmp_path: Path) -> None:
        first, second = Board(), Board()
        assert read_boards(str(tmp_path)) is None
        first.open(board_at(str(tmp_path), 1), 2, first=True)
        first.note(1, "a")
        assert read_boards(str(tmp_path)) is None
        second.open(board_at(str(tmp_path), 2), 2, first=True)
        assert read_boards(str(tmp_path)) == {"a"}
        second.note(2, "b")
        assert read_boards(str(tmp_path)) == {"a", "b"}
        Path(board_at(str(tmp_path), 2)).write_bytes(b"")
        assert read_boards(str(tmp_path)) is None

    def test_a_board_that_cannot_be_made_is_done_without(self, guard: Harness) -> None:
        guard.tell("board", str(guard.folder / "no" / "such" / "folder"), 1, True, 0)
        assert guard.end(guard.shell("exit 3")).code == 3
