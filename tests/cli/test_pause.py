"""`pause` and `resume` of jobs that run, and what is said of those that are paused."""

import re
from collections.abc import Callable

import psutil
import pytest

from queuectl import State
from queuectl.explain import Cause
from tests.cli.conftest import Cli
from tests.cli.test_completion import complete
from tests.support import wait_for

Start = Callable[..., str]


@pytest.fixture
def start(working: Cli) -> Start:
    """Starts a job that runs on until the test is over, and returns its id."""

    def start(*options: str) -> str:
        id = working.add("echo begun; sleep 1000", *options)
        wait_for(lambda: working.queue.get(id).state == State.PROCESSING, "the job to run")
        return id

    return start


def test_a_running_job_is_paused_and_goes_on(working: Cli, start: Start) -> None:
    id = start()
    said = working.ok("pause", id).stdout
    assert said == f"Job {id} is paused; its processes stand still.\n"
    assert working.ok("pause", id).stdout == f"Job {id} was paused already.\n"
    assert working.ok("resume", id).stdout == f"Job {id} goes on.\n"
    assert working.ok("resume", id).stdout == f"Job {id} wasn't paused.\n"
    kinds = [event["kind"] for event in working.ok("events", id, "--json").json]
    assert kinds == ["resume", "pause"]


def test_the_start_of_an_id_will_do(working: Cli, start: Start) -> None:
    id = start()
    assert id in working.ok("pause", id[:6]).stdout
    assert working.ok("resume", "--job", id[:6], "--json").json == [
        {"id": id, "paused": False, "changed": True}
    ]


def test_queues_and_jobs_together(working: Cli, start: Start) -> None:
    id = start("--queue", "mail")
    assert working.ok("pause", "mail", id, "--json").json == [
        {"name": "mail", "paused": True, "changed": True},
        {"id": id, "paused": True, "changed": True},
    ]


def test_a_name_that_fits_both_is_refused(working: Cli, start: Start) -> None:
    start("--queue", "mail", "--id", "mail")
    said = working.refused("pause", "mail", code=2)
    assert "'mail' is a queue, and the id of a job that runs" in said
    assert "--queue mail or --job mail" in said
    assert working.queue.pauses() == {}
    assert working.queue.status().paused == ()
    assert working.ok("pause", "--job", "mail").stdout.startswith("Job mail is paused")
    assert working.ok("pause", "--queue", "mail").stdout.startswith("Queue 'mail' is paused")
    assert working.ok("queue", "resume", "mail").stdout == "Queue 'mail' is resumed.\n"
    assert working.ok("resume", "--job", "mail").stdout == "Job mail goes on.\n"


def test_only_jobs_that_run_can_be(cli: Cli) -> None:
    id = cli.add("true")
    for what in ("pause", "resume"):
        said = cli.refused(what, id, code=4)
        assert f"Job {id} doesn't run, it is pending; only jobs that run can be {what}d" in said
    assert cli.queue.events(id) == []
    assert cli.queue.queues() == []
    cli.ok("cancel", id)
    assert "is cancelled; only jobs that run" in cli.refused("pause", id, code=4)
    assert "There is no job 'nobody'" in cli.refused("pause", "--job", "nobody", code=3)


def test_all_of_them_or_none(working: Cli, start: Start) -> None:
    id = start()
    waits = working.add("true", "--delay", "1h")
    assert working.run("pause", id, waits, "mail").code == 4
    assert working.queue.pauses() == {}
    assert working.queue.status().paused == ()


def test_it_is_told_wherever_the_job_is_shown(working: Cli, start: Start) -> None:
    working.variables["TZ"] = "UTC"
    id, other = start(), working.add("true", "--delay", "1h")
    assert working.ok("list", "--json").json[1]["paused_at"] is None
    working.ok("pause", id)
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    assert f"{id}  processing (paused)" in working.ok("list").stdout
    found = {job["id"]: job for job in working.ok("list", "--json").json}
    who = found[id]["paused_by"]
    assert who and found[id]["paused_at"]
    assert (found[other]["paused_at"], found[other]["paused_by"]) == (None, None)
    assert working.ok("list", "--format", "{id} {state} {paused_by}").lines == [
        f"{other} pending ",
        f"{id} processing {who}",
    ]
    shown = working.ok("show", id).stdout
    assert re.search(rf"^Paused: +by {re.escape(who)} since {stamp}$", shown, re.MULTILINE)
    assert working.ok("show", id, "--json").json["paused_by"] == who
    assert working.ok("output", id, "--json").json["job"]["paused_by"] == who
    assert f"1 running job paused by {who} since" in working.ok("status").stdout
    assert working.ok("status", "--json").json["paused_jobs"] == [
        {"id": id, "paused_at": found[id]["paused_at"], "paused_by": who}
    ]
    text = rf"Job {id} is paused by {re.escape(who)} since {stamp}"
    explained = working.ok("explain", id).stdout
    assert re.match(text, explained)
    assert f"queuectl resume --job {id}" in explained
    (reason,) = working.ok("explain", id, "--json").json[0]["waits_for"]
    assert (reason["cause"], reason["remedy"]) == ("run_paused", f"queuectl resume --job {id}")
    assert [reason.cause for reason in working.queue.explain(id)] == [Cause.RUN_PAUSED]
    waited = working.run("wait", id, "--timeout", "2s")
    assert waited.code == 124
    assert re.search(text, waited.stderr)


def test_ids_complete(working: Cli, start: Start) -> None:
    still, goes_on = start("--id", "run-1"), start("--id", "run-2")
    working.add("true", "--id", "run-3", "--delay", "1h", "--queue", "run-4")
    working.ok("pause", still)
    assert complete(working, "queuectl pause run") == ["run-4", goes_on]
    assert complete(working, "queuectl pause --job run") == [goes_on]
    assert complete(working, "queuectl resume run") == [still]
    assert complete(working, "queuectl queue pause run") == ["run-4"]


def test_what_runs_unpaused_is_explained_as_before(working: Cli, start: Start) -> None:
    id = start()
    assert working.ok("explain", id).stdout.startswith("It runs on node")


def test_a_stop_says_what_it_waits_for(working: Cli, start: Start) -> None:
    id = start()
    working.ok("pause", id)
    stopped = working.run("worker", "stop", "--timeout", "1s")
    assert stopped.code == 1
    assert f"Paused, to be resumed first: {id}." in stopped.stderr
    working.ok("worker", "stop", "--force")


def test_its_processes_stand_still(working: Cli, start: Start) -> None:
    id = start()
    working.ok("pause", id)

    def stopped() -> bool:
        # Others on this host may run the same command.
        mine = [
            process.info["status"]
            for process in psutil.process_iter(["environ", "status"])
            if (process.info["environ"] or {}).get("QUEUECTL_JOB_ID") == id
        ]
        return bool(mine) and set(mine) == {psutil.STATUS_STOPPED}

    assert wait_for(stopped, "all processes of the job to be stopped")
