"""Finding and killing processes, with real ones."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import psutil
import pytest

from queuectl import host
from queuectl.guard import tree
from tests.guard.harness import alive, pids_in, until

Started = list["subprocess.Popen[bytes]"]


@pytest.fixture
def started() -> Iterator[Started]:
    """Processes to be ended with all that is below them."""
    processes: Started = []
    yield processes
    for process in processes:
        # A shell may be about to fork; its group gets the child, too.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def shell(started: Started, script: str, folder: Path, **env: str) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen(
        ["/bin/sh", "-c", script],
        cwd=folder,
        env={**os.environ, **env},
        start_new_session=True,
    )
    started.append(process)
    return process


def python(started: Started, script: str, folder: Path) -> "subprocess.Popen[bytes]":
    process = subprocess.Popen([sys.executable, "-c", script], cwd=folder, start_new_session=True)
    started.append(process)
    return process


NESTED = "sh -c 'sleep 1000 & echo $! >> pids; echo $$ >> pids; wait' & echo $$ >> pids; wait"


@pytest.fixture(params=["children files", "scan of all processes"])
def _either_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Try both ways to find children: not every kernel lists them."""
    if request.param != "children files":
        monkeypatch.setattr(tree, "_has_children_files", lambda: False)


class TestFamily:
    @pytest.mark.usefixtures("_either_way")
    def test_finds_all_parents_first(self, started: Started, tmp_path: Path) -> None:
        root = shell(started, NESTED, tmp_path)
        pids = pids_in(tmp_path / "pids", 3)
        found = [process.pid for process in tree.family([root.pid])]
        assert sorted(found) == sorted(pids)
        for process in map(psutil.Process, found[1:]):
            parent = process.parent()
            assert parent is not None
            assert found.index(parent.pid) < found.index(process.pid)

    @pytest.mark.usefixtures("_either_way")
    def test_children_of_threads(self, started: Started, tmp_path: Path) -> None:
        root = python(
            started,
            "import subprocess, threading\n"
            "def work():\n"
            "    p = subprocess.Popen(['sleep', '1000'])\n"
            "    open('pids', 'w').write(str(p.pid))\n"
            "    p.wait()\n"
            "threading.Thread(target=work).start()\n",
            tmp_path,
        )
        [child] = pids_in(tmp_path / "pids", 1)
        assert [process.pid for process in tree.family([root.pid])] == [root.pid, child]

    def test_zombies_are_gone(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "exit", tmp_path)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        assert tree.family([process.pid]) == []
        assert tree.process_start(process.pid) is None

    def test_living_threads_keep_a_process_alive(self, started: Started, tmp_path: Path) -> None:
        process = python(
            started,
            "import ctypes, os, threading, time\n"
            "threading.Thread(target=time.sleep, args=(1000,)).start()\n"
            "open('pids', 'w').write('1')\n"
            "exit_thread = 60 if os.uname().machine == 'x86_64' else 93\n"
            "ctypes.CDLL(None).syscall(exit_thread, 0)\n",
            tmp_path,
        )
        pids_in(tmp_path / "pids", 1)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_ZOMBIE)
        assert [found.pid for found in tree.family([process.pid])] == [process.pid]

    def test_a_recycled_root_is_left_out(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "exec sleep 1000", tmp_path)
        start = tree.process_start(process.pid)
        assert start is not None
        assert tree.family([process.pid], {process.pid: start})
        assert tree.family([process.pid], {process.pid: start + 1}) == []


class TestIdentity:
    def test_start(self) -> None:
        start = tree.process_start(os.getpid())
        assert start is not None
        assert start == host.process_start(os.getpid())
        assert tree.same_process(os.getpid(), start)
        assert not tree.same_process(os.getpid(), start + 1)

    def test_no_such_process(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "exit", tmp_path)
        process.wait()
        assert tree.process_start(process.pid) is None

    def test_odd_names(self, tmp_path: Path, started: Started) -> None:
        odd = tmp_path / "a) R 1 (b"
        odd.symlink_to("/bin/sleep")
        process = subprocess.Popen([str(odd), "1000"], start_new_session=True)
        started.append(process)
        until(lambda: psutil.Process(process.pid).name() == odd.name)
        found = tree.stat(process.pid)
        assert found is not None
        assert found.parent == os.getpid()


class TestSignals:
    def test_reaches_the_process(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "exec sleep 1000", tmp_path)
        [found] = tree.family([process.pid])
        assert tree.send(found, signal.SIGTERM)
        assert process.wait() == -signal.SIGTERM
        assert not tree.send(found, signal.SIGTERM)

    @pytest.mark.parametrize("pidfd", [True, False])
    def test_spares_who_took_its_pid(
        self, started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pidfd: bool
    ) -> None:
        if not pidfd:
            monkeypatch.delattr(os, "pidfd_open")
        process = shell(started, "exec sleep 1000", tmp_path)
        [found] = tree.family([process.pid])
        assert not tree.send(tree.Proc(found.pid, found.start - 1), signal.SIGKILL)
        assert alive(process.pid)
        assert tree.send(found, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL

    def test_terminate_wakes_the_stopped(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "kill -STOP $$; sleep 1000", tmp_path)
        until(lambda: psutil.Process(process.pid).status() == psutil.STATUS_STOPPED)
        assert tree.terminate(tree.family([process.pid])) == set()
        assert process.wait() == -signal.SIGTERM


class TestKilling:
    def test_a_whole_family_is_killed(self, started: Started, tmp_path: Path) -> None:
        root = shell(started, f"trap '' TERM; {NESTED}", tmp_path)
        pids = pids_in(tmp_path / "pids", 3)
        assert tree.kill_until_gone(lambda: tree.family([root.pid]), 60.0) == []
        assert not any(map(alive, pids))

    def test_what_is_not_found_again_is_waited_for(self, started: Started, tmp_path: Path) -> None:
        # The kernel takes a while to take so much memory back.
        script = "import time; x = b'x' * (3 << 27); open('pids', 'w').write('1'); time.sleep(1e3)"
        process = python(started, script, tmp_path)
        pids_in(tmp_path / "pids", 1)
        finds = [tree.family([process.pid])]
        assert tree.kill_until_gone(lambda: finds.pop() if finds else [], 60.0) == []
        assert not alive(process.pid)

    def test_what_does_not_go_is_returned(self, started: Started, tmp_path: Path) -> None:
        process = shell(started, "exec sleep 1000", tmp_path)
        found = tree.family([process.pid])
        # Nobody can be given less time than none.
        assert tree.kill_until_gone(lambda: found, -1.0) == found

    def test_tagged_processes(self, started: Started, tmp_path: Path) -> None:
        mine, other = f"mine-{os.getpid()}", f"mine-{os.getpid()}-not"
        shell(started, f"({NESTED}) & exit", tmp_path, QUEUECTL_TEST=mine)
        spared = shell(started, "exec sleep 1000", tmp_path, QUEUECTL_TEST=other)
        pids = pids_in(tmp_path / "pids", 3)
        until(lambda: not alive(started[0].pid))
        found = {process.pid for process in tree.find_tagged("QUEUECTL_TEST", [mine, "nobody"])}
        # The shell in the pair of parentheses has the same pid in `$$` as the one that ended.
        assert found >= {pid for pid in pids if alive(pid)}
        tagged = partial(tree.find_tagged, "QUEUECTL_TEST", [mine])
        assert tree.kill_until_gone(tagged, 60.0) == []
        assert tree.find_tagged("QUEUECTL_TEST", [mine]) == []
        assert not any(map(alive, found))
        assert alive(spared.pid)

    def test_this_process_is_never_found(self, monkeypatch: pytest.MonkeyPatch) -> None:
        script = (
            "import os; from queuectl.guard import tree\n"
            "assert tree.environ(os.getpid(), 'QUEUECTL_TEST') == 'self'\n"
            "assert tree.find_tagged('QUEUECTL_TEST', ['self']) == []\n"
        )
        env = {**os.environ, "QUEUECTL_TEST": "self"}
        subprocess.run([sys.executable, "-c", script], env=env, check=True)

    def test_descendants_of_this_process(self, started: Started, tmp_path: Path) -> None:
        script = """
import os, subprocess, sys, time
from pathlib import Path
from queuectl.guard import tree
assert tree.become_subreaper()
spared = subprocess.Popen(["sleep", "1000"])
# A grandchild that lost its parent, a child that forked, and one in our own process group.
subprocess.run(["sh", "-c", "setsid sleep 1000 & echo $! >> pids"], check=True)
subprocess.Popen(["sh", "-c", "trap '' TERM; sleep 1000 & echo $! >> pids; echo $$ >> pids; wait"])
while len(Path("pids").read_text().split()) < 3: time.sleep(0.01)
assert tree.kill_descendants(spare=[spared.pid]) == []
assert tree.children(os.getpid()) == [spared.pid]
spared.kill()
"""
        process = python(started, script, tmp_path)
        assert process.wait() == 0
        assert not any(map(alive, pids_in(tmp_path / "pids", 3)))


def test_freezing_keeps_its_budget() -> None:
    """A search that always finds something new ends, too."""
    numbers = iter(range(10**9))
    begin = time.monotonic()
    found, refused = tree.freeze_and_kill(lambda: [tree.Proc(2**30, next(numbers))], budget=0.05)
    assert found
    assert not refused
    assert time.monotonic() - begin < 30
