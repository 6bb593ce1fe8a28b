"""What a node left behind when it was killed together with its guard, with real processes."""

import os
import sys
from pathlib import Path

from queuectl.guard import mark
from queuectl.guard.left import kill_left
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
        harness.shell(f"{script}\nexec sleep 1000", env={mark.OWNER: owner})
        [pids[owner]] = pids_in(file, 1)
    os.kill(harness.guard.pid, 9)
    harness.guard.close()
    try:
        assert kill_left(mark.OWNER, {mine}, str(tmp_path / "spool")) == []
        assert not alive(pids[mine])
        assert alive(pids[other])
    finally:
        # It ends the runs, too: they still have their environment.
        assert kill_left(mark.OWNER, {mine, other}, str(tmp_path / "spool")) == []
    until(lambda: not alive(pids[other]))
