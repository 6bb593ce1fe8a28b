"""`undo`: what was done by hand is taken back, and what can't be is told."""

import json

from queuectl import State
from tests.cli.conftest import Cli
from tests.support import wait_for

LINGERS = "trap 'while [ ! -e go ]; do sleep 0.05; done; exit 1' TERM; touch up; sleep 60 & wait"
"""A job that catches SIGTERM, and ends when it may."""


def begin(cli: Cli, *args: str) -> str:
    """Have a job run that ends when it may, and return its id."""
    (cli.folder / "up").unlink(missing_ok=True)
    id = cli.add(LINGERS, *args)
    wait_for((cli.folder / "up").exists, "the job to run")
    return id


def end(cli: Cli, id: str) -> None:
    """Let it end, and wait until that is written down."""
    (cli.folder / "go").touch()
    wait_for(lambda: cli.queue.get(id).state == State.CANCELLED, f"{id} to be cancelled")


def test_the_last_thing_is_taken_back(cli: Cli) -> None:
    cli.add("true", "--id", "one")
    cli.add("true", "--id", "two")
    assert "nothing in the last 10 minutes" in cli.refused("undo", code=3)
    cli.ok("cancel", "--state", "pending")
    cli.ok("retry", "two")
    assert cli.ok("undo", "--dry-run").lines == ["Would bring back job two (pending): true"]
    assert cli.ok("undo").lines == ["Job two is again as it was: cancelled."]
    assert cli.queue.get("two").state == State.CANCELLED


def test_an_action_is_taken_back_as_far_as_it_can_be(cli: Cli) -> None:
    for id in ("one", "two"):
        cli.add("true", "--id", id)
    cli.ok("hold", "--queue", "default")
    cli.ok("release", "two")
    events = cli.ok("events", "--json").json
    [action] = {event["action"] for event in events if event["kind"] == "hold"}
    assert all(event["undo_until"] for event in events)
    done = cli.run("undo", action, "--json")
    assert done.code == 4
    told = json.loads(done.stdout)
    assert (told["changed"], told["failed"]) == (1, 1)
    assert {job["id"]: job["error"] for job in told["jobs"]} == {
        "one": None,
        "two": "Job two has changed since; it is pending.",
    }
    assert not cli.queue.get("one").is_held
    assert "no action 'nosuch'" in cli.refused("undo", "nosuch", code=3)


def test_nothing_older_is_undone_than_the_cancellation_of_what_ran(cli: Cli) -> None:
    cli.add("echo WRONG", "--id", "wrong", "--delay", "1h")
    cli.ok("cancel", "wrong")
    cli.node(count=1)
    begin(cli, "--id", "running")
    cli.add("true", "--id", "child", "--after", "running")
    cli.add("true", "--id", "grandchild", "--after", "child")
    told = cli.ok("cancel", "running")
    assert told.stderr == (
        "2 jobs that wait for that (child and grandchild) will be cancelled as well, when the run"
        " has ended.\n"
    )
    early = cli.run("undo")
    assert (early.code, early.stdout) == (4, "")
    assert early.stderr.startswith(
        "queuectl: Job running runs, and is being ended; that can't be taken back; what waits for"
        " it is cancelled when it has ended, and comes back then with: queuectl undo "
    )
    end(cli, "running")
    assert cli.queue.get("grandchild").state == State.CANCELLED
    done = cli.run("undo")
    assert done.code == 4
    assert done.lines == [
        f"Job {id} is again as it was: blocked." for id in ("grandchild", "child")
    ]
    assert done.stderr == (
        "queuectl: Job running stays cancelled: it ran, so that can't be taken back; run it again"
        " with: queuectl retry running\n"
        "2 jobs brought back.\n"
    )
    assert "queuectl retry running" in cli.ok("explain", "child").stdout
    assert "took something back" in cli.refused("undo", code=4)
    assert cli.queue.get("wrong").state == State.CANCELLED


def test_what_was_done_to_a_queue_is_the_last_thing_as_well(cli: Cli) -> None:
    cli.add("true", "--id", "one")
    cli.ok("hold", "one")
    cli.ok("queue", "pause", "default")
    assert "can't be undone: pause default" in cli.refused("undo", code=4)
    cli.add("true", "--id", "two")
    cli.ok("cancel", "two")
    cli.ok("prune", "--state", "cancelled", "--older-than", "0s")
    assert "can't be undone: prune 1 cancelled" in cli.refused("undo", code=4)
    assert cli.queue.get("one").is_held


def test_a_group_of_which_some_run_says_whom_it_takes_along_and_brings_that_back(cli: Cli) -> None:
    cli.node(count=1)
    begin(cli, "--id", "c1", "--group", "C")
    cli.add("true", "--id", "c2", "--group", "C", "--delay", "1h")
    cli.add("true", "--id", "follow", "--after-group", "C")
    cli.add("true", "--id", "after-c2", "--after", "c2")
    dry = cli.ok("cancel", "--group", "C", "--dry-run").stderr
    assert "2 jobs that wait for that (after-c2 and follow) would be cancelled as well." in dry
    told = cli.ok("cancel", "--group", "C").stderr
    assert told == (
        "2 jobs that wait for that (after-c2 and follow) are cancelled as well; follow when the run"
        " has ended.\n1 job cancelled, 1 asked to end.\n"
    )
    end(cli, "c1")
    done = cli.run("undo")
    assert done.code == 4
    assert done.lines == [
        "Job follow is again as it was: blocked.",
        "Job after-c2 is again as it was: blocked.",
        "Job c2 is again as it was: pending.",
    ]
    assert "Job c1 stays cancelled" in done.stderr


def test_programs_are_told_who_is_cancelled_when_runs_have_ended(cli: Cli) -> None:
    cli.node(count=1)
    id = begin(cli, "--group", "C")
    cli.add("true", "--id", "follow", "--after-group", "C")
    along = {"jobs": 1, "ids": ["follow"], "whole": True}
    assert cli.ok("cancel", "--group", "C", "--dry-run", "--json").json["along"] == along
    told = cli.ok("cancel", "--group", "C", "--json").json
    assert told["along"] == along | {"when_ended": ["follow"]}
    end(cli, id)
