"""Whose an orphan is that has no other sign than its mark."""

import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, os, sys, time
from types import SimpleNamespace
from queuectl.guard import tree
from queuectl.guard.mark import Marker
from queuectl.guard.orphans import Orphans
from queuectl.guard.run import RUNNING

ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
marker = Marker()

def start(*args):
    marker.put("node")
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", *args], {}, setsid=True)
    marker.remove()
    return pid

over = start("sleep 1000 >/dev/null 2>&1 & exit 0")
os.waitpid(over, 0)
(orphan,) = tree.children(os.getpid())
mark = marker.put(sys.argv[1])
marker.remove()
good = start("exec sleep 1000 >/dev/null 2>&1")

class Run:
    phase, sessions, known, token, mark = RUNNING, set(), set(), "t", mark
    out = err = SimpleNamespace(path="/nowhere")

run = Run()
orphans = Orphans()
orphans.scan({good: run}, [run])
print("of the other run" if orphans.of(run) else "of nobody", flush=True)
os.kill(good, 9)
if not orphans.of(run):
    print("killed by", os.waitpid(orphan, 0)[1])
else:
    os.kill(orphan, 9)
"""


@pytest.mark.parametrize(
    ("node", "whose"),
    [("node", ["of nobody", "killed by 9"]), ("nested", ["of the other run"])],
)
def test_one_of_a_run_that_is_over_is_given_to_no_other(node: str, whose: list[str]) -> None:
    """Unless it may be of a node that the other run had started, and that is gone."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, node], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == whose
