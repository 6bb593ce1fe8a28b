"""Runs that are paused: all their processes stand still, and their clock with them."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.guard.harness import Harness, alive, pids_in, until

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads /proc")

WAIT = "until [ -e go ]; do sleep 0.01; done"


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    harness.guard.close()


def stands(pid: int) -> bool:
    """Tell whether a process is stopped."""
    return psutil.Process(pid).status() == psutil.STATUS_STOPPED


def all_stand(guard: Harness) -> bool:
    """Tell whether everything that lives below a guard is stopped."""
    below = list(filter(alive, guard.below()))
    return bool(below) and all(map(stands, below))


class TestAWholeTree:
    def test_stops_and_goes_on(self, guard: Harness) -> None:
        run = guard.shell(f"({WAIT}; exit 3) & echo $! > pids; wait $!; exit $?")
        [child] = pids_in(guard.folder / "pids", 1)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        assert stands(child)
        (guard.folder / "go").touch()
        guard.tell("resume", run)
        assert guard.end(run).code == 3

    def test_a_session_and_an_orphan_of_its_own_belong_to_it(self, guard: Harness) -> None:
        script = "\n".join(
            [
                "setsid sh -c 'echo $$ >> pids; exec sleep 1000' &",
                # Its parent is gone at once, so the guard is its parent now.
                "(setsid sh -c 'echo $$ >> pids; exec sleep 1000' &)",
                "echo $$ >> pids; exec sleep 1000",
            ]
        )
        run = guard.shell(script)
        pids = pids_in(guard.folder / "pids", 3)
        guard.tell("pause", run)
        until(lambda: all(map(stands, pids)))
        guard.tell("resume", run)
        until(lambda: not any(map(stands, pids)))
        guard.tell("kill", run, "cancelled")
        guard.wait(run)

    def test_nobody_forks_his_way_out(self, guard: Harness) -> None:
        """Each makes another and goes: whoever stops only what he has seen first stops nothing."""
        flee = "import os\nfor _ in range(10**9):\n  if os.fork(): os._exit(0)\n  os.setsid()"
        run = guard.shell(f"touch begun; python3 -c '{flee}' & {WAIT}")
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        before = sorted(filter(alive, guard.below()))
        # The guard has looked at least once more by the time that it answers.
        guard.end(guard.shell("sleep 0.2"))
        assert sorted(filter(alive, guard.below())) == before
        guard.tell("kill", run, "cancelled")
        guard.wait(run)

    def test_a_parent_that_waits_for_its_child_to_become_a_program(self, guard: Harness) -> None:
        """It can't be stopped before: a shell does so for a moment whenever it starts something."""
        script = "while :; do /bin/true; done"
        runs = [guard.shell(f"echo $$ >> pids; {script}") for _ in range(8)]
        pids = pids_in(guard.folder / "pids", 8)
        for _ in range(10):
            for run in runs:
                guard.tell("pause", run)
            until(lambda: all(map(stands, pids)))
            for run in runs:
                guard.tell("resume", run)
            until(lambda: not any(map(stands, pids)))

    def test_others_go_on(self, guard: Harness) -> None:
        run = guard.shell("touch begun; sleep 1000")
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        assert guard.end(guard.shell("exit 4")).code == 4

    def test_pausing_and_resuming_twice_is_once(self, guard: Harness) -> None:
        run = guard.shell(f"touch begun; {WAIT}; exit 3", timeout=1000.0)
        until((guard.folder / "begun").exists)
        for what in ("pause", "pause", "resume", "resume", "pause", "pause"):
            guard.tell(what, run)
        until(lambda: all_stand(guard))
        (guard.folder / "go").touch()
        guard.tell("resume", run)
        assert guard.end(run).code == 3

    def test_what_is_over_or_was_never_there_is_ignored(self, guard: Harness) -> None:
        run = guard.shell("true")
        guard.wait(run)
        for what in ("pause", "resume"):
            guard.tell(what, run)
            guard.tell(what, 999)
        assert guard.end(guard.shell("exit 3")).code == 3


class TestTheClock:
    def test_stands_still(self, guard: Harness) -> None:
        """The timeout would be over many times while it is paused, and isn't."""
        run = guard.shell(f"touch begun; {WAIT}; exit 3", timeout=5.0)
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        witness = guard.shell("sleep 1000", timeout=5.2)
        assert guard.end(witness).how == "timeout"
        assert not guard.over(run)
        (guard.folder / "go").touch()
        guard.tell("resume", run)
        ended = guard.end(run)
        assert (ended.how, ended.code) == ("exited", 3)

    def test_goes_on_with_what_was_left(self, guard: Harness) -> None:
        run = guard.shell("touch begun; exec sleep 1000", timeout=1.0)
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        guard.tell("resume", run)
        assert guard.end(run).how == "timeout"


class TestTheEndOfAPausedRun:
    def test_a_stop_can_be_handled(self, guard: Harness) -> None:
        run = guard.shell("trap 'echo bye; exit 5' TERM; touch begun; while :; do sleep 0.01; done")
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        guard.tell("stop", run, "cancelled")
        ended = guard.end(run)
        assert (ended.how, ended.code, guard.output(run)) == ("cancelled", 5, b"bye\n")

    def test_the_grace_ends_even_so(self, guard: Harness) -> None:
        run = guard.shell("trap '' TERM; touch begun; while :; do sleep 0.01; done", grace=0.05)
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        guard.tell("stop", run, "cancelled")
        assert guard.end(run).code == -signal.SIGKILL

    def test_a_kill(self, guard: Harness) -> None:
        run = guard.shell("touch begun; exec sleep 1000")
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        guard.tell("kill", run, "released")
        ended = guard.end(run)
        assert (ended.how, ended.code) == ("released", -signal.SIGKILL)

    def test_the_lease(self, guard: Harness) -> None:
        run = guard.shell("touch begun; exec sleep 1000")
        until((guard.folder / "begun").exists)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        guard.tell("lease", 1, 0.0)
        assert guard.end(run).how == "lease"

    def test_somebody_kills_its_main_process(self, guard: Harness) -> None:
        run = guard.shell("echo $$ > pids; sleep 1000 & wait")
        [main] = pids_in(guard.folder / "pids", 1)
        guard.tell("pause", run)
        until(lambda: all_stand(guard))
        os.kill(main, signal.SIGKILL)
        assert guard.end(run).code == -signal.SIGKILL
        until(lambda: guard.below() == [])

    def test_its_node_is_gone(self, guard: Harness) -> None:
        run = guard.shell("echo $$ > pids; exec sleep 1000")
        [main] = pids_in(guard.folder / "pids", 1)
        guard.tell("pause", run)
        until(lambda: stands(main))
        guard.guard.close()
        assert not alive(main)


class TestInLine:
    def test_a_paused_one_is_not_started(self, guard: Harness) -> None:
        first = guard.shell(WAIT, worker=1)
        second = guard.shell("touch second", worker=1)
        guard.tell("pause", second)
        (guard.folder / "go").touch()
        guard.wait(first)
        # What is asked for later, and behind nobody, is started meanwhile.
        guard.wait(guard.shell("true", worker=2))
        assert not (guard.folder / "second").exists()
        guard.tell("resume", second)
        assert guard.end(second).code == 0
        assert (guard.folder / "second").exists()

    def test_it_is_resumed_before_its_turn(self, guard: Harness) -> None:
        guard.shell(WAIT, worker=1)
        second = guard.shell("exit 3", worker=1)
        guard.tell("pause", second)
        guard.tell("resume", second)
        (guard.folder / "go").touch()
        assert guard.end(second).code == 3

    @pytest.mark.parametrize("turn", ["before", "after"])
    def test_it_is_taken_back_or_ended(self, guard: Harness, turn: str) -> None:
        first = guard.shell(WAIT, worker=1)
        second = guard.shell("touch second", worker=1)
        third = guard.shell("touch third", worker=1)
        last = guard.shell("exit 3", worker=1)
        guard.tell("pause", second)
        guard.tell("pause", third)
        if turn == "after":
            (guard.folder / "go").touch()
            guard.wait(first)
        guard.tell("withdraw", second)
        guard.tell("stop", third, "cancelled")
        (guard.folder / "go").touch()
        assert guard.end(last).code == 3
        assert guard.released == [second]
        assert guard.ended[third].how == "cancelled"
        assert not (guard.folder / "second").exists()
        assert not (guard.folder / "third").exists()
