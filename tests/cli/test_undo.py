"""`undo`: what was done by hand is taken back, and what can't be is told."""

import json

from queuectl import State
from tests.cli.conftest import Cli


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
