"""`show` of a job that waits says why, and so do those who wait for it."""

import re

import pytest

from queuectl import State
from queuectl.explain import Cause
from tests.cli.conftest import Cli
from tests.support import wait_for


def waits(cli: Cli, id: str) -> str:
    """Return what `show` says about why a job waits."""
    found = re.search(r"^Waits: +(.*)$", cli.ok("show", id).stdout, re.MULTILINE)
    assert found is not None
    return found[1]


def test_nobody_works(cli: Cli) -> None:
    id = cli.add("true")
    assert waits(cli, id) == "no worker is running"
    (reason,) = cli.ok("show", id, "--json").json["waits_for"]
    assert reason == {
        "cause": "no_worker",
        "text": "no worker is running",
        "remedy": "queuectl worker start",
        "until": None,
        "jobs": [],
        "groups": [],
    }
    cli.node("--queue", "other")
    assert waits(cli, id) == "no worker serves default"
    assert [reason.cause for reason in cli.queue.explain(id)] == [Cause.NOT_SERVED]


def test_its_queue_is_paused_and_its_time_has_not_come(working: Cli) -> None:
    working.variables["TZ"] = "UTC"
    working.ok("pause", "mail")
    id = working.add("true", "--queue", "mail", "--delay", "2h")
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    due, paused = waits(working, id).split("; ")
    assert re.fullmatch(rf"it isn't due until {stamp} \(in (2h|1h5\dm)\)", due)
    assert re.fullmatch(rf"queue mail is paused by \S+ since {stamp}", paused)
    shown = working.ok("show", id, "--json").json
    assert [reason["cause"] for reason in shown["waits_for"]] == ["not_due", "paused"]
    assert [reason["until"] for reason in shown["waits_for"]] == [shown["run_at"], None]
    assert shown["waits_for"][1]["remedy"] == "queuectl resume mail"


def test_it_waits_for_its_retry(working: Cli) -> None:
    id = working.add("exit 1", "--retry-delay", "5m")
    wait_for(lambda: working.queue.get(id).state == State.FAILED, "the job to fail")
    assert re.match(r"its retry isn't due until .* \(in [45]m", waits(working, id))


def test_all_workers_are_busy(working: Cli) -> None:
    for _ in range(2):
        working.add("until [ -e stop ]; do sleep 0.02; done")
    wait_for(
        lambda: working.queue.status().states[State.PROCESSING] == 2, "both workers to be busy"
    )
    id = working.add("true")
    assert waits(working, id) == "both workers that serve it are busy (place 1 in line)"
    later = working.add("true")
    assert waits(working, later) == "both workers that serve it are busy (place 2 in line)"
    shown = working.on_terminal("wait", id, until="busy", key=b"\x03").stdout
    assert "Both workers that serve it are busy (place 1 in line)." in shown
    (working.folder / "stop").touch()
    working.ok("wait", id)
    assert "Waits" not in working.ok("show", id).stdout
    assert working.ok("show", id, "--json").json["waits_for"] == []


def test_its_node_is_gone(cli: Cli) -> None:
    """It doesn't run there any more, whatever its state says, until another node rescues it."""
    node = cli.node()
    id = cli.add("[ $QUEUECTL_ATTEMPT -gt 1 ] || while :; do sleep 0.05; done")
    wait_for(lambda: cli.queue.get(id).state == State.PROCESSING, "the job to run")
    name = cli.queue.get(id).node
    assert cli.ok("explain", id).stdout.startswith(f"It runs on node {name} since ")
    node.kill()
    node.wait()
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S+"
    told = rf"it was running on node {name}, which has shown no sign of life since {stamp}"
    told += ", and no other is running to rescue it"
    assert re.fullmatch(told, waits(cli, id))
    sentence = cli.ok("explain", id).stdout
    start = "; start one with: queuectl worker start\n"
    assert re.fullmatch(told[1:] + re.escape(start), sentence.removeprefix("I"))
    ((reason,),) = [each["waits_for"] for each in cli.ok("explain", id, "--json").json]
    assert (reason["cause"], reason["remedy"]) == ("node_gone", "queuectl worker start")
    cli.node()
    cli.ok("wait", id)
    assert cli.ok("explain", id).stdout.startswith("It is completed since ")


@pytest.mark.parametrize("command", [("wait",), ("logs", "-f")])
def test_who_waits_for_a_job_is_told_when_it_is_due(working: Cli, command: tuple[str, ...]) -> None:
    id = working.add("true", "--delay", "2h")
    waiting = working.start(*command, id)
    assert waiting.stderr is not None
    line = waiting.stderr.readline().decode()
    assert line.startswith("It isn't due until ")
    assert line.endswith(f"run it now with: queuectl retry {id}\n")
    working.ok("retry", id)
    assert waiting.wait(60) == 0


def test_a_paused_queue_is_said(working: Cli) -> None:
    working.ok("pause", "mail")
    id = working.add("true", "--queue", "mail")
    for args in (("wait", id), ("wait", "--all"), ("logs", "-f", id)):
        waiting = working.start(*args)
        assert waiting.stderr is not None
        line = waiting.stderr.readline().decode()
        assert line.startswith("Queue mail is paused by ")
        assert line.endswith("; go on with: queuectl resume mail\n")


def test_limits_are_said_with_who_holds_them(working: Cli) -> None:
    working.ok(*"queue set mail --limit 1 --key-limit 1".split())
    working.ok(*"queue set rare --rate 1/1h".split())
    first, second, third = (
        working.add("until [ -e stop ]; do sleep 0.02; done", "--queue", "mail", "--key", key)
        for key in "aab"
    )
    done, rare = (working.add("true", "--queue", "rare") for _ in range(2))
    wait_for(lambda: working.queue.get(first).state == State.PROCESSING, "the first to run")
    wait_for(
        lambda: [r.cause for r in working.queue.explain(rare)] == [Cause.RATE],
        "the rate to be used up",
    )
    limit = f"limit 1 of 1 of queue mail is held by job {first}"
    assert waits(working, third) == limit
    assert waits(working, second) == f"{limit}; key a runs 1 of 1: job {first}"
    text = waits(working, rare)
    assert text.startswith("rate 1/1h of queue rare allows the next run at ")
    working.ok("wait", done)
    told = working.ok("explain", third, rare, first, done).lines
    assert told[0] == f"{third}: {limit.capitalize()}."
    assert told[1].startswith(f"{rare}: Rate 1/1h of queue rare allows the next run at ")
    assert told[2].startswith(f"{first}: It runs on node ")
    assert told[3].startswith(f"{done}: It is completed since ")
    rows = working.ok("explain", second, first, "--json").json
    assert [row["id"] for row in rows] == [second, first]
    assert [reason["cause"] for reason in rows[0]["waits_for"]] == ["limit", "key"]
    assert (rows[1]["state"], rows[1]["waits_for"]) == ("processing", [])
    (working.folder / "stop").touch()
    working.ok("wait", first, second, third)


def test_explain_of_one_job_says_what_to_do(cli: Cli) -> None:
    id = cli.add("true")
    told = cli.ok("explain", id).stdout
    assert told == "No worker is running; start one with: queuectl worker start\n"
    assert "There is no job" in cli.refused("explain", "nosuchjob", code=3)


def test_jobs_that_no_worker_serves_are_counted(cli: Cli) -> None:
    cli.add("true", "--queue", "mail")
    cli.add("true", "--queue", "my mail")
    assert cli.ok("status", "--json").json["unserved"] == {"mail": 1, "my mail": 1}
    assert "can't run" not in cli.ok("status").stdout  # as no worker is running at all
    cli.node("--queue", "other")
    assert (
        "2 jobs can't run: no worker serves mail, my mail; start one with: queuectl worker start"
        " --queue mail --queue 'my mail'"
    ) in cli.ok("status").stdout
    (finding,) = [
        one for one in cli.ok("doctor", "--json").json["findings"] if one["subject"] == "queues"
    ]
    assert finding["level"] == "warning"
    assert finding["text"] == ("2 jobs are waiting in queues that no worker serves: mail, my mail.")
    cli.node()
    assert cli.ok("status", "--json").json["unserved"] == {}


def test_of_one_that_has_ended_in_vain_it_says_what_brings_it_back(cli: Cli) -> None:
    cli.add("exit 3", "--id", "a b", "--max-retries", "0")
    for id, group in (("c", ()), ("d", ("--group", "g"))):
        cli.add("true", "--id", id, "--after", "a b", "--if-parent-fails", "cancel", *group)
    cli.add("true", "--id", "e", "--after", "a b")
    cli.ok("worker", "start", "--drain")
    told = cli.ok("explain", "a b", "c", "d").stdout
    assert re.sub(r"since \S+:", "since then:", told).splitlines() == [
        "a b: It is dead since then: exit code 3; no retries allowed."
        " Repair it with: queuectl retry 'a b'",
        "c: It is cancelled since then: its parent a b is dead.",
        "d: It is cancelled since then: its parent a b is dead."
        " Repair what it was cancelled for with: queuectl retry --group g",
    ]
    told = cli.ok("retry", "a b").stdout
    assert told == (
        "Job a b moved from 'dead' to 'pending'."
        " Cancelled because of it: 2 jobs; bring back with: queuectl retry c d\n"
    )
    assert cli.ok("retry", "c").stdout == "Job c moved from 'cancelled' to 'blocked'.\n"
