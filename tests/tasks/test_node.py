"""Tasks on real nodes: what they come to, and that no trouble of one is another's."""

import json
import os
import signal
import subprocess
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from queuectl import Queue, State
from queuectl.node.programs import Handler
from queuectl.node.runs import Run
from queuectl.node.warm import job_line
from queuectl.tasks.current import CurrentJob
from queuectl.values import replace
from tests.support import Lab, is_asleep, is_gone, processes_with, wait_for
from tests.tasks.conftest import Works

ENDS = {
    "killed": "killed by SIGKILL",
    "segfault": "killed by SIGSEGV",
    "exits": "its process ended by itself, with exit code 7",
    "exits well": "its process ended by itself, with exit code 0",
    "sys.exit": "SystemExit: 3",
    "unprintable": "UnprintableError (which can't be printed)",
    "long result": "TypeError: trouble.trouble: its result takes more than 1,048,576 bytes",
}


def test_tasks_and_commands_share_a_node(works: Works) -> None:
    calls = [works.call("add", a=n) for n in range(20)]
    command = works.queue.enqueue("echo shell").id
    more = [works.call("add", a=n, b=0) for n in range(20)]
    works.app_node(count=2)
    assert [works.result(id) for id in calls] == list(range(1, 21))
    assert [works.result(id) for id in more] == list(range(20))
    assert works.over(command).state == State.COMPLETED
    assert works.said(calls[3]) == "adding 3 1\n"
    assert works.said(command) == "shell\n"


def test_a_worker_has_one_run_whoever_runs_it(works: Works) -> None:
    inside = works.folder / "inside"
    ids = []
    for _ in range(20):
        ids += [works.call("mark", path=str(inside)) for _ in range(2)]
        # It fails if a task is at work.
        ids.append(works.queue.enqueue(f"test ! -e {inside}", max_retries=0).id)
    works.app_node()
    assert [works.over(id).state for id in ids] == [State.COMPLETED] * 60


@pytest.mark.parametrize("kind", ENDS)
def test_how_one_ends_harms_no_other(works: Works, kind: str) -> None:
    before = works.call("add", a=1)
    bad = works.call("trouble", kind=kind)
    after = [works.call("add", a=n) for n in range(5)]
    works.app_node()
    assert works.over(bad).state == State.DEAD
    assert ENDS[kind] in (works.queue.get(bad).reason or "")
    assert works.said(bad).startswith(f"in {kind}\n")
    assert [works.result(id) for id in (before, *after)] == [2, 1, 2, 3, 4, 5]
    assert all(works.queue.get(id).failures == 0 for id in after)


def test_one_that_hangs_in_c_is_ended_in_time(works: Works) -> None:
    bad = works.call("trouble", kind="hangs in C", with_={"timeout": "500ms"})
    after = works.call("add", a=1)
    works.app_node()
    assert works.over(bad).reason == "timed out after 500ms; no retries allowed"
    assert works.result(after) == 2


def test_one_that_takes_all_memory_is_ended(works: Works) -> None:
    bad, after = works.call("trouble", kind="much memory"), works.call("add", a=1)
    works.app_node("--max-memory-per-child", "100M")
    assert "MiB of memory, of 100 MiB" in (works.over(bad).reason or "")
    assert works.result(after) == 2


def test_one_that_closes_all_it_finds_is_its_own_loss(works: Works) -> None:
    bad, after = works.call("trouble", kind="closes"), works.call("add", a=1)
    works.app_node()
    assert works.result(after) == 2
    assert works.over(bad).state == State.DEAD


def test_who_grew_is_replaced_when_its_job_is_over(works: Works) -> None:
    works.app_node("--max-memory-per-child", "150M")
    first = works.result(works.call("grow", size=130 << 20))
    wait_for(lambda: is_gone(first), "the end of one that has grown")
    assert works.result(works.call("pid")) != first


def test_a_program_is_replaced_after_so_many_jobs(works: Works) -> None:
    ids = [works.call("pid") for _ in range(10)]
    works.app_node("--max-jobs-per-child", "4")
    pids = [works.result(id) for id in ids]
    counts = [pids.count(pid) for pid in dict.fromkeys(pids)]
    # One that was to get more, but took too long to start, may have had fewer.
    assert max(counts) <= 4
    assert len(counts) >= 3
    wait_for(lambda: is_gone(pids[0]), "the end of the first one")


def test_what_forks_comes_to_one_end(works: Works) -> None:
    id, after = works.call("fork"), works.call("add", a=1)
    works.app_node()
    assert works.result(id) == "parent"
    assert works.result(after) == 2
    assert len(works.queue.attempts(id)) == 1


def test_processes_that_are_left_are_ended(works: Works) -> None:
    id = works.call("leave_process", pid_file=str(works.folder / "left"))
    after = works.call("add", a=1)
    works.app_node()
    works.over(id)
    left = works.pid_in("left")
    wait_for(lambda: is_gone(left), "the end of what was left")
    assert works.result(after) == 2


def test_threads_that_are_left_dont_keep_a_node(works: Works) -> None:
    node = works.app_node("--max-jobs-per-child", "1")
    works.over(works.call("leave_thread"))
    assert works.result(works.call("add", a=1)) == 2
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0


def test_a_million_lines_are_bounded(works: Works) -> None:
    id, after = works.call("many_lines", count=1_000_000), works.call("add", a=1)
    works.app_node()
    assert works.over(id).state == State.COMPLETED
    attempt = works.queue.output(id)
    assert attempt.stdout_bytes == sum(len(f"{n}\n") for n in range(1_000_000))
    assert attempt.stdout.startswith(b"0\n1\n")
    assert attempt.stdout.endswith(b"999999\n")
    assert len(attempt.stdout) <= 1 << 20
    assert works.said(after) or works.result(after) == 2


def test_closed_streams_are_there_for_the_next(works: Works) -> None:
    closes, after = works.call("close_streams"), works.call("add", a=4)
    works.app_node()
    assert works.over(closes).state == State.COMPLETED
    assert works.result(after) == 5
    assert works.said(after) == "adding 4 1\n"


def test_a_task_says_what_becomes_of_its_job(works: Works) -> None:
    retry, discard, snooze = (
        works.call("fate", kind=k, with_={"max_retries": 3}) for k in ("retry", "discard", "snooze")
    )
    works.app_node()
    assert works.result(retry) == 2
    assert works.queue.get(retry).failures == 1
    assert works.over(discard).state == State.CANCELLED
    assert works.queue.get(discard).reason == "of no use"
    assert works.result(snooze) == 2
    assert works.queue.get(snooze).failures == 0


def test_arguments_that_somebody_pushed_are_read_or_refused(works: Works) -> None:
    good = b'{\n  "a": 1,\r\n  "b": 2\n}\n'
    bad = [
        *(b"no JSON\n", b'"text"', b"\xef\xbb\xbf{}", '{"a": 1}'.encode("utf-16-le")),
        *(b'"\xed\xa0\x80"', b"[" * 100_000, b"\xff"),
    ]
    ids = [
        works.queue.enqueue(type="trouble.add", data=data, max_retries=0).id
        for data in (good, b"", *bad)
    ]
    works.app_node()
    assert works.result(ids[0]) == 3
    assert "a is missing" in (works.over(ids[1]).reason or "")
    for id in ids[2:]:
        assert "the arguments must be an object" in (works.over(id).reason or "")


def test_no_letter_of_an_error_stops_a_node(works: Works) -> None:
    bad = [works.call("say_oddly", how=how) for how in ("raise", "discard", "progress", "print")]
    after = works.call("add", a=1)
    works.app_node()
    assert works.result(after) == 2
    assert "\\udcff" in (works.over(bad[0]).reason or "")
    assert "\\udcff" in (works.over(bad[1]).reason or "")
    assert works.result(bad[2]) == "told"
    assert works.result(bad[3]) == "printed"
    assert works.queue.output(bad[3]).stdout == b"\0" * (1 << 20)


def test_a_stream_whose_buffer_was_taken_is_there_again(works: Works) -> None:
    taken, after = works.call("take_buffer"), works.call("add", a=1)
    works.app_node()
    assert works.result(taken) == "taken"
    assert works.said(taken) == "wrapped\n"
    assert works.result(after) == 2
    assert works.said(after) == "adding 1 1\n"


# -- ends that somebody wants ------------------------------------------------------------


def test_a_cancelled_task_is_told(works: Works) -> None:
    id = works.call("hold", flag=str(works.folder / "flag"))
    works.app_node()
    works.pid_in("flag.pid")
    works.queue.cancel(id, reason="not needed")
    assert works.over(id).state == State.CANCELLED
    assert (works.folder / "flag.why").read_text() == "cancelled"


@pytest.mark.parametrize("how", ["cancelled", "timed out", "given back"])
def test_one_that_heeds_it_is_ended_as_was_asked(works: Works, how: str) -> None:
    more = {"timeout": "1s"} if how == "timed out" else {}
    id = works.call("heed", flag=str(works.folder / "flag"), with_=more)
    works.app_node()
    works.pid_in("flag.pid")
    if how == "cancelled":
        works.queue.cancel(id)
        assert works.over(id).state == State.CANCELLED
    elif how == "timed out":
        assert works.over(id).reason == "timed out after 1s; no retries allowed"
    else:
        assert works.run("worker", "stop", "--force").returncode == 0
        assert works.queue.get(id).state == State.PENDING


def test_what_sleeps_sleeps_whatever_it_catches(works: Works) -> None:
    id = works.call("sleep_badly")
    works.app_node()
    assert works.result(id) == 2
    assert [run.outcome for run in works.queue.attempts(id)] == ["snoozed", "exited"]


def test_an_async_task_is_cancelled_when_its_time_is_over(works: Works) -> None:
    id = works.call("wait_long", flag=str(works.folder / "flag"), with_={"timeout": "1s"})
    works.app_node()
    assert works.over(id).reason == "timed out after 1s; no retries allowed"
    assert (works.folder / "flag").read_text() == "cleaned up"


def test_those_behind_one_that_is_cancelled_go_on(works: Works) -> None:
    flag = works.folder / "flag"
    held = works.call("hold", flag=str(flag))
    works.app_node()
    works.pid_in("flag.pid")
    behind = [works.call("add", a=n) for n in range(3)]
    works.queue.cancel(behind[1])
    flag.touch()
    assert works.result(held) == "held"
    assert works.result(behind[0]) == 1
    assert works.result(behind[2]) == 3
    assert works.queue.get(behind[1]).state == State.CANCELLED


def test_a_stop_by_force_gives_them_back(works: Works) -> None:
    flag = works.folder / "flag"
    held = works.call("hold", flag=str(flag))
    node = works.app_node()
    pid = works.pid_in("flag.pid")
    assert works.run("worker", "stop", "--force").returncode == 0
    assert node.wait(60) == 0
    assert is_gone(pid)
    job = works.queue.get(held)
    assert job.state == State.PENDING
    assert job.failures == 0
    flag.touch()
    works.app_node()
    assert works.result(held) == "held"


def test_a_task_is_paused_and_goes_on(works: Works) -> None:
    flag = works.folder / "flag"
    held = works.call("hold", flag=str(flag), with_={"timeout": "20s"})
    works.app_node()
    pid = works.pid_in("flag.pid")
    assert works.run("pause", "--job", held).returncode == 0
    state = Path(f"/proc/{pid}/stat")
    wait_for(lambda: state.read_text().rpartition(")")[2].split()[0] == "T", "it to stand still")
    assert works.run("resume", "--job", held).returncode == 0
    flag.touch()
    assert works.result(held) == "held"


def test_a_node_that_dies_has_begun_only_what_ran(works: Works) -> None:
    flag = works.folder / "flag"
    short = [works.call("add", a=n) for n in range(50)]
    held = works.call("hold", flag=str(flag))
    behind = [works.call("add", a=n) for n in range(20)]
    node = works.app_node()
    pid = works.pid_in("flag.pid")
    node.kill()
    node.wait()
    wait_for(lambda: is_gone(pid), "the end of its task")
    flag.touch()
    works.app_node()
    assert works.result(held) == "held"
    assert works.queue.get(held).crashes == 1
    assert [works.result(id) for id in (*short, *behind)] == [*range(1, 51), *range(1, 21)]
    assert all(works.queue.get(id).crashes == 0 for id in behind)


def test_a_node_that_starts_again_waits_for_its_tasks(works: Works) -> None:
    flag = works.folder / "flag"
    held = works.call("hold", flag=str(flag))
    node = works.app_node()
    works.pid_in("flag.pid")
    node.send_signal(signal.SIGUSR1)
    wait_for(lambda: "Handing" in works.log(), "the new program's answer")
    flag.touch()
    assert works.result(held) == "held"
    wait_for(lambda: "goes on" in works.log(), "the new program")
    assert works.result(works.call("add", a=1)) == 2
    assert len(works.queue.attempts(held)) == 1


# -- what is seen of them ------------------------------------------------------------------


def test_progress_and_output_are_seen_while_it_runs(works: Works) -> None:
    flag = works.folder / "flag"
    told = works.call("tell", flag=str(flag))
    works.app_node()

    def last_said() -> bool:
        known = works.queue.running_progress().values()
        return any(one.note == "rows 99" and one.percent == 50 for one in known)

    wait_for(last_said, "the last that it said of its progress")
    flag.touch()
    works.over(told)
    other = works.folder / "other"
    held = works.call("hold", flag=str(other))
    wait_for(lambda: "holding" in works.run("logs", held).stdout, "what it writes")
    other.touch()
    assert works.result(held) == "held"
    assert works.said(held) == "holding\n"
    assert works.result(works.call("add", a=1)) == 2


def test_what_it_keeps_waits_for_who_has_locked_the_store(works: Works) -> None:
    flag = works.folder / "flag"
    keeps = works.call("keep", flag=str(flag))
    works.app_node()
    pid = works.pid_in("flag.pid")
    with closing(apsw.Connection(str(works.db))) as other:
        other.set_busy_timeout(10_000)
        other.execute("BEGIN IMMEDIATE")
        flag.touch()
        wait_for((works.folder / "flag.tries").exists, "it to try")
        wait_for(lambda: is_asleep(pid), "it to wait")
        assert works.queue.steps(keeps) == []
        other.execute("ROLLBACK")
    assert works.result(keeps) == 3
    assert [step.name for step in works.queue.steps(keeps)] == ["one", "two"]
    assert len(works.queue.attempts(keeps)) == 1


def test_async_tasks_run_many_at_once_in_one_process(works: Works) -> None:
    meeting = works.folder / "meeting"
    meeting.mkdir()
    ids = [works.call("meet", folder=str(meeting), name=f"n{n}", others=30) for n in range(30)]
    left = works.call("add", a=1), works.queue.enqueue("true").id
    works.app_node("--async-concurrency", "30")
    results = [works.result(id).split() for id in ids]
    assert [name for name, _ in results] == [f"n{n}" for n in range(30)]
    assert len({pid for _, pid in results}) == 1
    assert works.said(ids[7]) == "here is n7\n"
    slow = works.call("wait_long", flag=str(works.folder / "flag"), with_={"timeout": "1s"})
    assert works.over(slow).reason == "timed out after 1s; no retries allowed"
    assert [works.queue.get(id).state for id in left] == [State.PENDING] * 2


def test_changed_files_are_read_again(works: Works) -> None:
    app = works.folder / "trouble.py"
    works.app_node("--reload")
    assert works.result(works.call("add", a=1)) == 2
    app.write_text(app.read_text().replace("return a + b", "return a + 1000"))
    wait_for(lambda: "trouble.py has changed" in works.log(), "the change to be seen")
    wait_for(lambda: "goes on" in works.log(), "the new program")
    assert works.result(works.call("add", a=1)) == 1001
    app.write_text("broken(")
    wait_for(lambda: "Can't start again" in works.log(), "a refusal")
    assert works.result(works.call("add", a=2)) == 1002


def test_an_application_that_cant_be_imported_is_refused(works: Works) -> None:
    done = works.run("worker", "start", "--app", "nowhere:queue")
    assert done.returncode == 2
    why = "ModuleNotFoundError: No module named 'nowhere'"
    assert done.stderr == f"queuectl: The application nowhere:queue can't be used: {why}.\n"
    (works.folder / "broken.py").write_text("\nbroken(\n")
    done = works.run("worker", "start", "--app", "broken")
    assert "SyntaxError: '(' was never closed (" in done.stderr
    assert done.stderr.endswith("broken.py, line 2).\n")
    done = works.run("worker", "start", "--app", "os:path")
    assert "os:path is no Queue, but module" in done.stderr


def test_an_application_may_print_what_it_likes(works: Works) -> None:
    text = (works.folder / "trouble.py").read_text()
    (works.folder / "trouble.py").write_text(
        "import atexit\nprint('x', end='')\natexit.register(print, 'bye')\n" + text
    )
    works.app_node()
    assert works.result(works.call("add", a=1)) == 2
    (works.folder / "ends.py").write_text("import os\nos._exit(0)\n")
    done = works.run("worker", "start", "--app", "ends")
    assert done.stderr == (
        "queuectl: The application ends can't be used: it ended while it was imported.\n"
    )


def test_a_node_serves_the_queue_of_its_application(works: Works) -> None:
    (works.folder / "own.py").write_text(
        "from queuectl import Queue\n"
        "print('hello from own')\n"
        "queue = Queue('own.db')\n"
        "@queue.task\n"
        "def answer() -> int:\n"
        "    print('answering')\n"
        "    return 42\n"
    )
    env = {name: value for name, value in works.env.items() if name != "QUEUECTL_DB"}
    with Queue(works.folder / "own.db") as queue:
        id = queue.enqueue(type="own.answer", data="{}").id
        subprocess.run(
            works.command("worker", "start", "--app", "own", "--drain"),
            env=env,
            cwd=works.folder,
            check=True,
            timeout=60,
        )
        assert queue.result(id) == 42
        assert queue.output(id).stdout == b"answering\n"


def test_what_becomes_unimportable_waits(works: Works) -> None:
    works.app_node("--max-jobs-per-child", "1")
    assert works.result(works.call("add", a=1)) == 2
    app = works.folder / "trouble.py"
    good = app.read_text()
    app.write_text("raise RuntimeError('broken')")
    ids = [works.call("add", a=n) for n in range(3)]
    wait_for(lambda: "can't be imported: RuntimeError: broken" in works.log(), "the error")
    app.write_text(good)
    assert [works.result(id) for id in ids] == [1, 2, 3]
    assert all(works.queue.get(id).failures == 0 for id in ids)


def test_no_process_outlives_its_node(works: Works) -> None:
    node = works.app_node(count=2)
    pids = [works.result(works.call("pid")) for _ in range(4)]
    os.kill(node.pid, signal.SIGKILL)
    node.wait()
    wait_for(lambda: all(map(is_gone, pids)), "the end of its programs")
    assert not processes_with(str(works.folder))


def test_a_task_knows_what_its_job_has_to_itself(works: Works) -> None:
    own: dict[str, str | int] = {"index": 7, "lr": "a 'b'"}
    works.app_node()
    assert works.result(works.call("own", with_={"parameters": own})) == own
    assert works.result(works.call("own")) == {}


def test_a_task_knows_its_group_and_its_schedule(works: Works) -> None:
    """As commands find them in variables."""
    works.app_node("--resources", "gpu=1")
    first = works.call("around", with_={"group": "night"})
    assert works.result(first)["group"] == "night"
    after = works.call("around", with_={"after_group": ["night:any"], "after": [first]})
    told = works.result(after)
    assert (told["group"], told["schedule"], told["planned"]) == ("night", None, None)
    assert works.result(works.call("around", with_={"needs": "gpu=1"}))["given"] == [
        "CUDA_VISIBLE_DEVICES",
        "QUEUECTL_GPU",
    ]


def test_handlers_are_told_what_commands_find_in_variables(lab: Lab) -> None:
    job = lab.queue.enqueue("true", id="a")
    job = replace(
        job, after=("b:any", "c"), after_group=("night:any",), tick="1762610400000 hourly"
    )
    run = Run(job=job, spool=".", claimed=0)
    line = json.loads(job_line(7, run, Handler(name="x", argv=["x"])))
    assert (line["group"], line["parents"], line["schedule"], line["scheduled_for"]) == (
        "night",
        ["b", "c"],
        "hourly",
        "2025-11-08T14:00:00.000Z",
    )
    told = CurrentJob(line, lambda _: None)
    assert (told.group, told.schedule) == ("night", "hourly")
    assert told.scheduled_for == job.scheduled_for
