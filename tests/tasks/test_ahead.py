"""Jobs that a warm program was handed ahead, and somebody wants something else with them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Eager, wait_for
from tests.tasks.conftest import Works

TAKES_AHEAD = """
import json, os, sys, time
from pathlib import Path
from threading import Thread

waiting, dropped = {}, []

def say(**message):
    os.write(1, json.dumps(message).encode() + b"\\n")

def listen():
    for line in sys.stdin:
        message = json.loads(line)
        if "hello" in message:
            say(ready=1, ahead=8)
        elif "job" in message:
            waiting[message["job"]] = message
        elif waiting.pop(message.get("drop"), None):
            Path("asked").touch()
            dropped.append(message["drop"])

Thread(target=listen, daemon=True).start()
while True:
    time.sleep(0.01)
    while dropped and Path("heed").exists():
        say(dropped=dropped.pop())
    if not waiting:
        continue
    run = next(iter(waiting))
    message = waiting.pop(run)
    say(began=run)
    while message["data"] == "hold" and not Path("go").exists():
        Path("pid").write_text(str(os.getpid()))
        time.sleep(0.01)
        while dropped and Path("heed").exists():
            say(dropped=dropped.pop())
    say(done=run, result=message["data"])
"""
"""It heeds what it is to drop only when there is a file `heed`."""


class EagerWorks(Eager, Works):
    """Nodes with programs, which claim ahead as soon as one run is over."""


@pytest.fixture
def works(tmp_path: Path) -> Iterator[EagerWorks]:
    works = EagerWorks(tmp_path)
    program = works.folder / "program"
    program.write_text(f"#!{sys.executable}\n{TAKES_AHEAD}")
    program.chmod(0o755)
    works.node("--serve", "./program")
    works.result(works.queue.enqueue(type="x", data="first").id)
    yield works
    works.close()


def test_one_that_is_resumed_before_it_was_dropped_runs_later(works: EagerWorks) -> None:
    hold, behind = works.queue.enqueue_many(
        [{"type": "x", "data": data} for data in ("hold", "behind")]
    ).ids
    pid = works.pid_in("pid")
    assert works.run("pause", "--job", behind).returncode == 0
    wait_for((works.folder / "asked").exists, "the node to want it back")
    assert works.run("resume", "--job", behind).returncode == 0
    # Whoever has seen to this has seen to that.
    assert works.run("pause", "--job", hold).returncode == 0
    state = Path(f"/proc/{pid}/stat")
    wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it to stand still")
    assert works.run("resume", "--job", hold).returncode == 0
    (works.folder / "heed").touch()
    (works.folder / "go").touch()
    assert works.result(hold) == "hold"
    assert works.result(behind) == "behind"
