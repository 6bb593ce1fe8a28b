"""`--json` of what changes jobs: one object, with all that was done and all that couldn't be."""

import json
import resource
import subprocess

import pytest

from queuectl import State
from tests.cli.conftest import COMMAND, Cli
from tests.support import wait_for

LONG = "while :; do sleep 0.05; done"
FIELDS = ["id", "queue", "command", "was", "state", "node", "error", "changes"]


def running(cli: Cli, command: str = LONG) -> str:
    id = cli.add(command)
    wait_for(lambda: cli.queue.get(id).state == State.PROCESSING, f"{id} to run")
    return id


def test_every_job_has_its_state_before_and_after(cli: Cli) -> None:
    cli.add("true", "--id", "one", "--queue", "mail")
    cli.add("true", "--id", "two")
    result = cli.ok("cancel", "--state", "pending", "--json")
    assert result.stderr == ""
    told = result.json
    assert list(told) == ["dry_run", "jobs", "changed", "asked", "failed", "along"]
    assert told["along"] == {"jobs": 0, "ids": [], "whole": True, "when_ended": []}
    assert (told["dry_run"], told["changed"], told["asked"], told["failed"]) == (False, 2, 0, 0)
    assert [list(job) for job in told["jobs"]] == [FIELDS, FIELDS]
    assert told["jobs"][1] == {
        "id": "one",
        "queue": "mail",
        "command": "true",
        "was": "pending",
        "state": "cancelled",
        "node": None,
        "error": None,
        "changes": {},
    }
    (back,) = cli.ok("retry", "one", "--json").json["jobs"]
    assert (back["was"], back["state"]) == ("cancelled", "pending")
    (gone,) = cli.ok("rm", "one", "--json", "--quiet").json["jobs"]
    assert (gone["id"], gone["was"], gone["state"]) == ("one", "pending", None)


@pytest.mark.parametrize("command", [["cancel"], ["retry"], ["rm"], ["dlq", "retry"]])
def test_what_failed_is_in_it_and_the_exit_code_is_as_without(cli: Cli, command: list[str]) -> None:
    cli.add("exit 1", "--id", "gone", "--max-retries", "0", "--tag", "x")
    cli.ok("worker", "start", "--drain")
    if command == ["cancel"]:
        cli.ok("retry", "gone")
    result = cli.run(*command, "nosuch", "gone", "--json")
    plain = cli.run(*command, "nosuch", "gone")
    assert result.code == 3
    assert plain.code in (3, 4)
    missing, done = result.json["jobs"]
    assert missing["id"] == "nosuch"
    assert "There is no job 'nosuch'" in missing["error"]
    assert missing["was"] is missing["state"] is missing["queue"] is None
    assert f"queuectl: {missing['error']}\n" == result.stderr
    assert (done["id"], done["error"]) == ("gone", None)
    assert (result.json["changed"], result.json["failed"]) == (1, 1)


def test_nothing_to_do_is_an_object_as_well(cli: Cli) -> None:
    cli.add("true")
    for args in (["cancel", "--tag", "x"], ["dlq", "purge", "--all"], ["retry", "--tag", "x"]):
        told = cli.ok(*args, "--json").json
        told.pop("along", None)
        assert told == {"dry_run": False, "jobs": [], "changed": 0, "asked": 0, "failed": 0}


def test_a_dry_run_says_what_would_be_done(cli: Cli) -> None:
    cli.add("true", "--id", "one")
    told = cli.ok("rm", "one", "--dry-run", "--json").json
    assert (told["dry_run"], told["changed"]) == (True, 1)
    assert (told["jobs"][0]["was"], told["jobs"][0]["state"]) == ("pending", "pending")
    assert cli.queue.get("one").state == State.PENDING


def test_a_running_job_is_asked_to_end(working: Cli) -> None:
    id = running(working)
    told = working.ok("cancel", id, "--json").json
    assert (told["changed"], told["asked"], told["failed"]) == (0, 1, 0)
    (job,) = told["jobs"]
    (node,) = working.queue.nodes()
    assert (job["was"], job["state"], job["node"]) == ("processing", "processing", node["id"])


def test_who_waits_is_told_the_end(working: Cli) -> None:
    id, waiting = running(working), working.add("true", "--delay", "1h")
    told = working.ok("cancel", id, waiting, "--wait", "--json").json
    assert (told["changed"], told["asked"], told["failed"]) == (2, 0, 0)
    assert [(job["id"], job["was"], job["state"]) for job in told["jobs"]] == [
        (waiting, "pending", "cancelled"),
        (id, "processing", "cancelled"),
    ]


def test_dead_letters_are_told_like_all_others(cli: Cli) -> None:
    for id in ("d1", "d2"):
        cli.add("exit 1", "--id", id, "--max-retries", "0")
    cli.add("true", "--id", "fine")
    cli.ok("worker", "start", "--drain")
    (back,) = cli.ok("dlq", "retry", "d1", "--json").json["jobs"]
    assert (back["was"], back["state"]) == ("dead", "pending")
    result = cli.run("dlq", "purge", "fine", "d2", "--json")
    assert result.code == 4
    fine, gone = result.json["jobs"]
    assert (fine["was"], fine["state"]) == ("completed", "completed")
    assert "not dead" in fine["error"]
    assert (gone["id"], gone["state"], gone["error"]) == ("d2", None, None)


def test_a_usage_error_prints_no_json(cli: Cli) -> None:
    cli.add("true")
    assert "completed" in cli.refused("cancel", "--state", "completed", "--json", code=2)
    assert "which jobs" in cli.refused("rm", "--json", code=2)


def test_who_is_interrupted_still_gets_one_value(working: Cli) -> None:
    """What was done by then is in it, and why it ends."""
    working.ok("config", "set", "kill_grace", "1h")
    stubborn = "trap '' TERM; touch up; while :; do sleep 0.05; done"
    id, waiting = running(working, stubborn), working.add("true", "--delay", "1h")
    wait_for((working.folder / "up").exists, "the job to ignore SIGTERM")
    asking = working.start("cancel", waiting, id, "--wait", "--json")
    wait_for(lambda: working.queue.get(id).cancel_reason is not None, "the request to end it")
    wait_for(lambda: _sleeps(asking.pid), "the command to wait")
    asking.send_signal(2)
    assert asking.stdout is not None
    told = json.loads(asking.stdout.read())
    assert asking.wait() == 130
    assert (told["changed"], told["asked"], told["error"]) == (1, 1, "interrupted")
    assert [(job["id"], job["state"]) for job in told["jobs"]] == [
        (waiting, "cancelled"),
        (id, "processing"),
    ]


def _sleeps(pid: int) -> bool:
    import psutil

    process = psutil.Process(pid)
    before = process.num_ctx_switches().voluntary
    wait_for(lambda: process.num_ctx_switches().voluntary > before + 3, "it to look again")
    return True


def test_many_jobs_take_no_more_memory_than_few(cli: Cli) -> None:
    """The array is written as jobs are changed."""

    def peak(number: int) -> int:
        cli.queue.enqueue_many(["true"] * number)
        script = f"{COMMAND} cancel --state pending --json > out.json"
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        measured = subprocess.run(
            ["bash", "-c", f"ulimit -v 400000; {script}"], env=cli.env, cwd=cli.folder, check=False
        )
        assert measured.returncode == 0
        told = json.loads((cli.folder / "out.json").read_text())
        assert told["changed"] == len(told["jobs"]) == number
        return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss - before

    peak(500)
    assert peak(20_000) < 12_000  # KiB
