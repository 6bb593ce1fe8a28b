"""How a guard hears that a child has ended: with and without what only Linux has."""

import subprocess
import sys

import pytest

OWN = 0x180000000
"""Signals 32 and 33, which the C library has for itself and never lets a new program have."""

PROGRAM = """
import os, select, signal, sys
from queuectl.guard import signals

if sys.argv[2] == "ignored":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
signals.ignore()
if sys.argv[1] == "handled":
    signals._descriptor_of = lambda signum: -1
wake = signals.wake_on_child()
print("before", select.select([wake], [], [], 0)[0] == [wake])
for _ in range(2):
    pid = os.posix_spawn("/bin/true", ["true"], {}, setsigmask=(), setsigdef=signals.to_reset())
    print("woken", select.select([wake], [], [], 30)[0] == [wake])
    print("reaped", os.waitpid(-1, 0) == (pid, 0))
    os.read(wake, 512)
print("after", select.select([wake], [], [], 0)[0] == [wake])
mask = "grep -E 'Sig(Blk|Ign)' /proc/self/status; exit 0"
os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", mask], {"PATH": os.environ["PATH"]},
    setsigmask=(), setsigdef=signals.to_reset()), 0)
"""


@pytest.mark.parametrize("before", ["default", "ignored"])
@pytest.mark.parametrize("how", ["read", "handled"])
def test_the_end_of_a_child_wakes_the_guard(how: str, before: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, how, before],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    said = [line for line in done.stdout.splitlines() if not line.startswith("Sig")]
    assert said == [
        "before False",
        *["woken True", "reaped True"] * 2,
        "after False",
    ], done.stderr
    states = [line.split() for line in done.stdout.splitlines() if line.startswith("Sig")]
    assert all(int(bits, 16) & ~OWN == 0 for _, bits in states)
