"""The log of a node: whose lines they are, what they say, and what becomes of the files."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from queuectl import State
from queuectl.node import logfiles
from queuectl.node.log import RotatingFile
from tests.support import PATIENCE, Lab, wait_for

DAY = 24 * 3600
STAMP = r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}(Z|[+-][0-9]{2}:[0-9]{2})"


def line_about(lab: Lab, words: str, node: int = 0) -> str:
    """Wait for a line of the log that contains these words."""

    def there() -> str | None:
        return next((line for line in lab.log(node).splitlines() if words in line), None)

    return wait_for(there, f"{words!r} in the log")


# -- what is said -------------------------------------------------------------------------


def test_every_line_says_when_and_whose_it_is(lab: Lab) -> None:
    for command in ("true", "false"):
        lab.queue.enqueue(command, max_retries=1, backoff="fixed", retry_delay="0s")
    lab.node("--drain", count=2).wait()
    lines = lab.log().splitlines()
    assert len(lines) == 8
    (node,) = {line.split(" ")[1] for line in lines}
    assert re.fullmatch("[a-z2-7]{8}", node)
    assert all(re.match(STAMP + " ", line) for line in lines)
    assert f" {node} worker 1: job " in lab.log()
    assert f" {node} ERROR: worker " in lab.log()


def test_a_dead_job_leaves_its_last_words_and_its_command(lab: Lab) -> None:
    script = "echo first >&2; echo 'no such thing' >&2; exit 7"
    id = lab.queue.enqueue(script, max_retries=1, backoff="fixed", retry_delay="0s").id
    lab.node("--drain").wait()
    line = line_about(lab, f"job {id} dead")
    assert line.endswith(
        f" ERROR: worker 1: job {id} dead (attempt 2/2): exit code 7; given up after 1 retry;"
        f" stderr: no such thing; command: {script}"
    )
    (event,) = lab.queue.events(id)
    assert (event.kind, event.detail) == ("dead", "exit code 7; given up after 1 retry")


@pytest.mark.parametrize("as_json", [False, True])
def test_an_expired_job_is_heard_of_like_any_other_dead_one(lab: Lab, as_json: bool) -> None:
    lab.queue.pause("later")
    id = lab.queue.enqueue("make cake", queue="later", expire="1ms").id
    lab.node("--drain", *(["--log-json"] if as_json else [])).wait()
    reason = "expired before it could start"
    line = line_about(lab, id)
    if as_json:
        told = json.loads(line)
        assert (told["event"], told["level"], told["reason"]) == ("dead", "error", reason)
        assert (told["worker"], told["command"], told["attempt"]) == (None, "make cake", 0)
    else:
        assert line.endswith(f" ERROR: job {id} dead: {reason}; command: make cake")
    (event,) = lab.queue.events(id)
    assert (event.kind, event.detail) == ("dead", reason)
    assert event.node == (told["node"] if as_json else line.split(" ")[1])


def test_one_that_failed_before_is_no_worker_s_when_it_expires(lab: Lab) -> None:
    id = lab.queue.enqueue("false", backoff="fixed", retry_delay="1h", expire="2h").id
    lab.node("--drain", "--queue", "other").wait()
    lab.start_node()
    lab.wait_state(id, State.FAILED)
    with closing(apsw.Connection(str(lab.db))) as db:
        db.set_busy_timeout(30_000)
        db.execute("UPDATE jobs SET expires_at = 1")
    lab.wait_state(id, State.DEAD)
    assert f" ERROR: job {id} dead: expired before it could start again;" in line_about(
        lab, f"job {id} dead", node=1
    )


def test_a_job_that_kills_its_workers_is_heard_of_when_it_is_given_up(lab: Lab) -> None:
    lab.queue.set_setting("max_crashes", "1")
    # The node is the parent of the job's parent.
    script = "echo 'bad idea' >&2; kill -9 $(cut -d' ' -f4 /proc/$PPID/stat); sleep 1000"
    id = lab.queue.enqueue(script, id="poison").id
    assert lab.node().wait(PATIENCE) == -signal.SIGKILL
    lab.node()
    job = lab.wait_state(id, State.DEAD)
    line = line_about(lab, f"job {id} dead", node=1)
    assert " ERROR: job poison dead (attempt 1/" in line
    assert f": {job.reason}; stderr: bad idea; command: echo 'bad idea'" in line
    assert [event.kind for event in lab.queue.events(id)] == ["dead"]
    assert "rescued" not in lab.log(1)


def test_a_job_that_was_being_cancelled_is_cancelled_and_not_rescued(lab: Lab) -> None:
    lab.queue.set_setting("kill_grace", "1h")
    script = f"trap '' TERM; touch {lab.folder}/begun; while :; do sleep 0.1; done"
    id = lab.queue.enqueue(script).id
    victim = lab.node()
    wait_for((lab.folder / "begun").exists, "the job")
    lab.queue.cancel(id, reason="not needed")
    victim.kill()
    victim.wait()
    lab.node()
    lab.wait_state(id, State.CANCELLED)
    line = line_about(lab, f"job {id} cancelled", node=1)
    assert re.search(r" job \w+ cancelled \(attempt 1/4\): .*: not needed; node \w+ .* died$", line)
    assert "rescued" not in lab.log(1)
    ended, asked = lab.queue.events(id)
    assert (asked.kind, ended.kind) == ("cancel", "cancelled")
    assert "died" in (ended.detail or "")


def test_a_rescued_job_is_named_with_why(lab: Lab) -> None:
    script = f"touch {lab.folder}/begun; [ $QUEUECTL_ATTEMPT -gt 1 ] || sleep 1000"
    id = lab.queue.enqueue(script).id
    victim = lab.node()
    wait_for((lab.folder / "begun").exists, "the job")
    victim.kill()
    victim.wait()
    lab.node("--log-json")
    lab.wait_state(id, State.COMPLETED)
    told = json.loads(line_about(lab, '"event": "rescued"', node=1))
    assert (told["job"], told["worker"], told["level"]) == (id, None, "warning")
    assert re.fullmatch(r"node \w+ on \S+ \(pid \d+\) died; it is pending again", told["message"])


def test_a_node_without_jobs_says_that_nothing_is_running(lab: Lab) -> None:
    node = lab.node()
    wait_for(lambda: "starting 1 worker" in lab.log(), "the greeting")
    node.terminate()
    assert node.wait() == 0
    assert " SIGTERM: stopping; nothing is running.\n" in lab.log()
    lab.node()
    lab.run("worker", "stop")
    assert " Stop requested: stopping; nothing is running.\n" in lab.log(1)


# -- files --------------------------------------------------------------------------------

WRITE = """
import sys
from queuectl.node.log import RotatingFile
log = RotatingFile("shared.log", size=2_000, keep=1_000)
print("ready", flush=True)
sys.stdin.readline()
for n in range(int(sys.argv[2])):
    log.write(f"{sys.argv[1]} {n} {'x' * 40}\\n")
"""


def test_those_who_share_a_file_lose_no_line_when_it_is_rotated(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITE, str(writer), "1500"],
            cwd=tmp_path,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for writer in range(4)
    ]
    for process in writers:
        assert process.stdout
        process.stdout.readline()
    # All of them begin before the first one is waited for.
    for process in writers:
        assert process.stdin
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in writers:
        process.communicate(timeout=60)
    files = [*tmp_path.iterdir()]
    lines = Counter(line for file in files for line in file.read_text().splitlines())
    wanted = {f"{writer} {n} {'x' * 40}" for writer in range(4) for n in range(1500)}
    assert lines.keys() == wanted
    assert set(lines.values()) == {1}
    assert len(files) > 5, "it was hardly ever rotated"


def test_a_rotation_that_somebody_else_is_at_is_left_to_them(tmp_path: Path) -> None:
    import fcntl

    log = RotatingFile(str(tmp_path / "node.log"), size=20, keep=2)
    log.write("a line of the log\n")
    handle = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    log.write("another\n")
    assert [path.name for path in tmp_path.iterdir()] == ["node.log"]
    os.close(handle)
    log.write("one more\n")
    assert (tmp_path / "node.log.1").read_text() == "a line of the log\nanother\n"
    assert (tmp_path / "node.log").read_text() == "one more\n"


def aged(path: Path, days: float) -> Path:
    """Make a log that was last written to so many days ago."""
    path.write_text("old\n")
    os.utime(path, (time.time() - days * DAY,) * 2)
    return path


@pytest.fixture
def folder(lab: Lab) -> Path:
    """Where nodes of the lab keep their logs."""
    logfiles.make_folders(lab.queue)
    return Path(logfiles.log_of(lab.queue, "x")).parent


def test_old_logs_are_deleted_with_all_that_was_rotated(lab: Lab, folder: Path) -> None:
    old = [aged(folder / name, 31) for name in ("aaa.log", "aaa.log.1", "bbb.log.2")]
    # As long as one of its files is young, a log is.
    young = [aged(folder / "ccc.log.1", 31), aged(folder / "ccc.log", 29)]
    foreign = [aged(folder / name, 99) for name in ("notes", "a.log.txt", "README.log")]
    logfiles.sweep(lab.queue, 30 * DAY * 1000)
    assert not any(path.exists() for path in old)
    assert all(path.exists() for path in young + foreign)
    logfiles.sweep(lab.queue, 0)
    assert all(path.exists() for path in young)


def test_of_very_many_logs_the_newest_stay(lab: Lab, folder: Path) -> None:
    paths = [aged(folder / f"node{n}.log", n / 1000) for n in range(logfiles.MOST_LEFT + 5)]
    logfiles.sweep(lab.queue, 30 * DAY * 1000)
    assert [path.exists() for path in paths] == [n < logfiles.MOST_LEFT for n in range(len(paths))]


def test_the_log_of_one_who_lives_stays(lab: Lab, folder: Path) -> None:
    held = RotatingFile(str(folder / "mine.log"), size=10**6, keep=1)
    held.write("hello\n")
    aged(folder / "mine.log", 99)
    aged(folder / "mine.log.1", 99)
    gone = aged(folder / "gone.log", 99)
    logfiles.sweep(lab.queue, 30 * DAY * 1000)
    assert not gone.exists()
    assert (folder / "mine.log").exists()
    assert (folder / "mine.log.1").exists()


def test_where_there_are_none_nothing_happens(lab: Lab) -> None:
    before = sorted(lab.folder.rglob("*"))
    logfiles.sweep(lab.queue, 1)
    assert sorted(lab.folder.rglob("*")) == before
