"""What the host says of processes."""

import os
import subprocess
import sys

import pytest

from queuectl.host import is_running, process_start

ASK = """
import os, sys
from queuectl.host import is_running
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
print(is_running(*map(int, sys.argv[1:])))
"""


def test_a_process_runs_until_it_is_over() -> None:
    with subprocess.Popen(["sleep", "1000"]) as process:
        start = process_start(process.pid)
        assert start
        assert is_running(process.pid, start)
        assert not is_running(process.pid, start + 1)
        process.kill()
        # Nobody has asked for its exit code yet: it is there, and runs nothing.
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not is_running(process.pid, start)
    assert not is_running(process.pid, start)


@pytest.mark.parametrize("pid", [0, -1, 2**22 + 1, 2**40, 2**70])
def test_what_is_no_process_does_not_run(pid: int) -> None:
    assert not is_running(pid, 1)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount another /proc")
@pytest.mark.parametrize("hidden", [1, 2])
def test_what_is_hidden_may_run(hidden: int) -> None:
    mount = f'mount -t proc -o hidepid={hidden} proc /proc && exec "$@"'
    start = process_start(os.getpid())

    def answer(pid: int, start: int) -> str:
        command = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, "-c", ASK]
        return subprocess.check_output([*command, str(pid), str(start)], text=True).strip()

    assert answer(os.getpid(), start or 0) == "True"
    with subprocess.Popen(["true"]) as gone:
        pass
    assert answer(gone.pid, 1) == "False"
