"""What a node left behind when it was killed together with its guard, with real processes."""

import os
import sys
from pathlib import Path

from queuectl.guard import leftovers, mark
from queuectl.guard.leftovers import kill_leftovers
from tests.guard.harness import Harness, alive, pids_in, until

HIDDEN = f"""
env -i {sys.executable} -c '
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
os.chdir("/")
with open("FILE", "w") as f: f.write(str(os.getpid()))
time.sleep(1000)
' >/dev/null 2>&1 </dev/null
"""


def test_what_hides_is_found_by_its_mark(tmp_path: Path) -> None:
    """It has neither parent, session, environment, directory nor output in common with its run."""
    mine, other = f"mine-{os.getpid()}", f"other-{os.getpid()}"
    pids = {}
    harness = Harness(tmp_path)
    for owner in (mine, other):
        file = tmp_path / owner
        script = HIDDEN.replace("FILE", str(file))
        harness.shell(f"{script}\nexec sleep 1000", env={mark.OWNER: owner}, owner=owner)
        [pids[owner]] = pids_in(file, 1)
    os.kill(harness.guard.pid, 9)
    harness.guard.close()
    try:
        assert kill_leftovers(mark.OWNER, {mine}, str(tmp_path / "spool")) == []
        assert not alive(pids[mine])
        assert alive(pids[other])
    finally:
        # It ends the runs, too: they still have their environment.
        assert kill_leftovers(mark.OWNER, {mine, other}, str(tmp_path / "spool")) == []
    until(lambda: not alive(pids[other]))


def test_what_belongs_to_another_user_is_not_waited_for() -> None:
    if os.geteuid() != 0:
        return  # Only root can start something that others may not end.
    other = 65534

    def see() -> bool:
        # As this user, in a process of its own.
        os.setuid(other)
        return leftovers._is_ours(os.getppid())

    reader, writer = os.pipe()
    if not (child := os.fork()):
        os.write(writer, b"ours" if see() else b"not ours")
        os._exit(0)
    os.waitpid(child, 0)
    assert os.read(reader, 100) == b"not ours"
    os.close(reader)
    os.close(writer)
    assert leftovers._is_ours(os.getpid())
