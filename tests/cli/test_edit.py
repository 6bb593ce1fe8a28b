"""`edit`, `hold`, `release`, `top`, `swap`, `move` and `retry --with`: changing what waits."""

import json

import pytest

from queuectl import State
from tests.cli.conftest import Cli


def drain(cli: Cli, *args: str) -> None:
    cli.ok("worker", "start", "--drain", "--count", "1", *args)


def fill(cli: Cli, *ids: str) -> None:
    """Enqueue jobs that say their names, in this order."""
    lines = "".join(json.dumps({"command": f"echo {id} >> line", "id": id}) + "\n" for id in ids)
    cli.ok("enqueue", "--file", "-", input=lines)


def line(cli: Cli) -> list[str]:
    """Run all that waits, and return who ran, in their order."""
    drain(cli)
    return (cli.folder / "line").read_text().split()


class TestEdit:
    def test_what_is_named_is_changed(self, cli: Cli) -> None:
        cli.add("true", "--id", "one", "--tag", "old", "--env", "A=1")
        told = cli.ok(
            *("edit", "one", "--priority", "5", "--timeout", "5m", "--command", "echo new"),
            *("--tag", "new", "--env", "B=2", "--key", "k", "--max-attempts", "3"),
        )
        assert told.stdout == (
            "Job one edited: command true -> echo new; priority 0 -> 5; timeout none -> 5m;"
            " max_retries 3 -> 2; env: B; tags old -> new; keys none -> k.\n"
        )
        job = cli.queue.get("one")
        assert (job.command, job.priority, job.timeout) == ("echo new", 5, 300_000)
        assert (job.tags, job.keys, dict(job.env)) == (("new",), ("k",), {"A": "1", "B": "2"})
        [event] = cli.queue.events("one")
        assert (event.kind, event.who) == ("edit", event.who)
        assert "priority 0 -> 5" in (event.detail or "")
        assert cli.ok("edit", "one", "--priority", "5").stdout == (
            "Job one is so already; nothing was changed.\n"
        )
        assert len(cli.queue.events("one")) == 1

    def test_a_program_takes_the_place_of_a_command(self, cli: Cli) -> None:
        cli.add("true", "--id", "one", "--shell", "bash")
        cli.ok("edit", "one", "--", "echo", "a  b")
        job = cli.queue.get("one")
        assert (job.command, job.argv, job.shell) == (None, ("echo", "a  b"), None)
        assert "without a shell" in cli.refused("edit", "one", "--shell", "bash", code=2)
        drain(cli)
        assert cli.ok("output", "one", "--stdout").stdout == "a  b\n"

    def test_what_can_be_taken_away(self, cli: Cli) -> None:
        cli.add(
            "true", "--id", "one", "--tag", "t", "--key", "k", "--timeout", "9", "--expire", "1h"
        )
        gone = [
            word for name in ("tags", "keys", "timeout", "expire") for word in ("--unset", name)
        ]
        cli.ok("edit", "one", *gone)
        job = cli.queue.get("one")
        assert (job.tags, job.keys, job.timeout, job.expires_at) == ((), (), 0, None)
        assert "not both" in cli.refused("edit", "one", "--unset", "tags", "-T", "x", code=2)

    def test_by_filter(self, cli: Cli) -> None:
        fill(cli, "a", "b", "c")
        cli.ok("edit", "b", "--tag", "t")
        told = cli.ok("edit", "--where", "tag=t", "--where", "state=pending", "--priority", "9")
        assert told.stdout == "Job b edited: priority 0 -> 9.\n"
        assert told.stderr == "1 job edited.\n"
        told = cli.ok("edit", "--where", "queue=default", "--priority", "1", "--dry-run")
        assert told.lines == [
            "Would edit job a (pending): priority 0 -> 1",
            "Would edit job b (pending): priority 9 -> 1",
            "Would edit job c (pending): priority 0 -> 1",
        ]
        assert [cli.queue.get(id).priority for id in "abc"] == [0, 9, 0]
        assert line(cli) == ["b", "a", "c"]

    def test_json(self, cli: Cli) -> None:
        cli.add("true", "--id", "one")
        told = cli.ok("edit", "one", "--timeout", "1m", "--json").json
        assert told["changed"] == 1
        assert told["jobs"][0]["changes"] == {"timeout": {"was": None, "is": 60}}

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            (["one"], "Say what to change"),
            (["--priority", "5"], "give ids or --where NAME=VALUE"),
            (["one", "--where", "queue=x", "--priority", "5"], "not both"),
            (["--where", "queu=x", "--priority", "5"], "did you mean 'queue'"),
            (["--where", "queue", "--priority", "5"], "isn't NAME=VALUE"),
            (["--where", "state=odd", "--priority", "5"], "no state 'odd'"),
            (["--where", "state=dead", "--priority", "5"], "can't be edited"),
            (["--where", "since=odd", "--priority", "5"], "odd"),
            (["one", "--priority", "high"], "must be a whole number"),
            (["one", "--run-at", "someday"], "run_at"),
            (["one", "--id", "two"], "no option --id"),
            (["one", "--command", "x", "--", "y"], "only one of"),
            (["one", "--key", ""], "a key is empty"),
            (["one", "--key", "x" * 100_000], "at most"),
            (["one", "--queue", "a\nb"], "printable"),
        ],
    )
    def test_bad_input_is_one_sentence(self, cli: Cli, args: list[str], said: str) -> None:
        cli.queue.enqueue("true", id="one")
        before = cli.queue.get("one")
        assert said in cli.refused("edit", *args, code=2)
        assert cli.queue.get("one") == before
        assert cli.queue.events("one") == []

    def test_only_what_waits(self, cli: Cli) -> None:
        cli.add("true", "--id", "one")
        drain(cli)
        said = cli.refused("edit", "one", "--priority", "5", code=4)
        assert "completed; only jobs that wait can be changed; see queuectl retry --with" in said

    def test_it_has_to_have_time_to_start(self, cli: Cli) -> None:
        cli.add("true", "--id", "one", "--expire", "1h")
        assert "expire before it is due" in cli.refused("edit", "one", "--delay", "2h", code=4)
        cli.ok("edit", "one", "--delay", "2h", "--expire", "1h")
        job = cli.queue.get("one")
        assert job.expires_at == job.run_at + 3_600_000


class TestHold:
    def test_a_held_job_does_not_run(self, cli: Cli) -> None:
        fill(cli, "a", "b")
        assert cli.ok("hold", "a").stdout == (
            "Job a is held; release it with: queuectl release a\n"
        )
        assert "is held already" in cli.refused("hold", "a", code=4)
        listed = cli.ok("list").stdout
        assert "pending (held)" in listed
        assert cli.ok("list", "--format", "{id} {state} {held}").lines == [
            "b pending false",
            "a pending true",
        ]
        told = cli.ok("explain", "a").stdout
        assert "is held by" in told
        assert "let it run with: queuectl release a" in told
        assert cli.ok("show", "a", "--json").json["waits_for"][0]["cause"] == "held"
        assert "is held" in cli.refused("retry", "a", code=4)
        cli.ok("edit", "a", "--priority", "9")
        assert cli.queue.get("a").is_held
        assert "Held:" in cli.ok("status").stdout
        assert cli.ok("status", "--json").json["held"] == {"default": 1}
        drain(cli)
        assert cli.queue.get("a").state == State.PENDING
        cli.ok("release", "--queue", "default")
        assert "isn't held" in cli.refused("release", "a", code=4)
        assert line(cli) == ["b", "a"]
        assert [event.kind for event in cli.queue.events("a")] == ["release", "edit", "hold"]


class TestPlaces:
    def test_top(self, cli: Cli) -> None:
        fill(cli, "a", "b", "c", "d")
        told = cli.run("top", "d", "nosuch", "b")
        assert told.code == 3
        assert told.lines == [
            "Job d moved to the front of queue default (priority 0).",
            "Job b moved to the front of queue default (priority 0).",
        ]
        assert "'nosuch'" in told.stderr
        assert line(cli) == ["d", "b", "a", "c"]
        assert "is to be first" in cli.refused("top", code=2)
        assert "only jobs that wait" in cli.refused("top", "a", code=4)

    def test_swap(self, cli: Cli) -> None:
        fill(cli, "a", "b", "c", "d")
        cli.add("true", "--id", "far", "--queue", "other")
        assert cli.ok("swap", "a", "c").stdout == "Jobs a and c have swapped places.\n"
        assert [job["id"] for job in cli.ok("swap", "d", "b", "--json").json] == ["d", "b"]
        assert "waits in queue a" not in cli.refused("swap", "a", "far", code=4)
        assert "name two jobs" in cli.refused("swap", "a", "a", code=2)
        assert "'nosuch'" in cli.refused("swap", "a", "nosuch", code=3)
        assert cli.ok("list", "-q").lines == ["far", "b", "a", "d", "c"]
        assert line(cli) == ["c", "d", "a", "b"]
        assert "only jobs that wait" in cli.refused("swap", "a", "c", code=4)

    def test_move(self, cli: Cli) -> None:
        fill(cli, "a", "b", "c")
        assert cli.ok("move", "b", "--to", "slow").stdout == (
            "Job b moved from queue default to slow.\n"
        )
        assert "in queue slow already" in cli.refused("move", "b", "--to", "slow", code=4)
        assert "--to" in cli.refused("move", "b", code=2)
        assert "which jobs" in cli.refused("move", "--to", "slow", code=2)
        assert "printable" in cli.refused("move", "b", "--to", " x", code=2)
        told = cli.ok("move", "--text", "echo", "--to", "slow")
        assert told.lines == [f"Job {id} moved from queue default to slow." for id in "ac"]
        assert told.stderr == "2 jobs moved.\n"
        assert cli.ok("move", "--queue", "slow", "--to", "slow").stderr == "0 jobs moved.\n"
        assert line(cli) == ["a", "b", "c"]


class TestRetryWith:
    def test_it_runs_again_as_another(self, cli: Cli) -> None:
        cli.add("exit 3", "--id", "one", "--max-retries", "0", "--env", "A=1")
        drain(cli)
        changed = ("command=echo $A$B", "env.B=2", "tag=x", "tag=y", "timeout=1h")
        cli.ok("retry", "one", *(word for pair in changed for word in ("--with", pair)))
        job = cli.queue.get("one")
        assert (job.command, job.tags, job.timeout) == ("echo $A$B", ("x", "y"), 3_600_000)
        detail = cli.queue.events("one")[0].detail or ""
        assert detail == (
            "was dead: exit code 3; no retries allowed; with command exit 3 -> echo $A$B;"
            " timeout none -> 1h; env: B; tags none -> x, y"
        )
        drain(cli)
        assert cli.ok("output", "one", "--stdout").stdout == "12\n"
        cli.ok("retry", "one", "--with", 'argv=["echo", "x y"]', "--with", "delay=1h")
        job = cli.queue.get("one")
        assert (job.argv, job.state) == (("echo", "x y"), State.PENDING)
        assert job.run_at > cli.queue.now()

    @pytest.mark.parametrize(
        ("pair", "said"),
        [
            ("timeout", "isn't NAME=VALUE"),
            ("bogus=1", "Unknown field 'bogus'"),
            ("id=two", "The id of a job can't be changed"),
            ("stdin=x", "can't be changed"),
            ("priority=high", "must be a whole number"),
            ("env=A", "one by one"),
            ("env.QUEUECTL_X=1", "set by queuectl only"),
            ("argv=ls", "JSON array"),
            ("argv=[1]", "must be text"),
            ("state=pending", "set by queuectl only"),
        ],
    )
    def test_bad_input_is_one_sentence(self, cli: Cli, pair: str, said: str) -> None:
        cli.queue.enqueue("true", id="one")
        cli.queue.cancel("one")
        before = cli.queue.get("one")
        assert said in cli.refused("retry", "one", "--with", pair, code=2)
        assert cli.queue.get("one") == before
