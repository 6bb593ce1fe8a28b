"""Groups on the command line: how far they are, waiting, repairing, and tables of results."""

import csv
import json
from io import StringIO
from typing import Any

import pytest

from queuectl.errors import StuckError
from queuectl.job import State
from tests.cli.conftest import COMMAND, Cli
from tests.cli.test_completion import complete
from tests.support import wait_for


def states(cli: Cli, group: str = "g") -> dict[str, str]:
    """Return the states of the jobs of a group."""
    found = cli.ok("list", "--group", group, "--json").json
    return {job["id"]: job["state"] for job in found}


def run_all(cli: Cli) -> None:
    """Run all that can run."""
    cli.ok("worker", "start", "--drain", "--count", "2")


def fill(cli: Cli, **commands: str) -> None:
    """Enqueue jobs of the group g, by their ids."""
    jobs = [{"id": id, "command": command} for id, command in commands.items()]
    cli.queue.enqueue_many(jobs, group="g", max_retries=0)


class TestList:
    def test_the_newest_first_and_how_their_jobs_ended(self, cli: Cli) -> None:
        cli.queue.enqueue_many(["true", "true"], group="old")
        fill(cli, good="true", bad="false", off="true")
        cli.ok("cancel", "off")
        cli.ok("worker", "start", "--drain")
        assert [line.split()[:7] for line in cli.ok("groups").lines] == [
            ["GROUP", "STATE", "JOBS", "OPEN", "COMPLETED", "DEAD", "CANCELLED"],
            ["g", "dead", "3", "0", "1", "1", "1"],
            ["old", "completed", "2", "0", "2", "0", "0"],
        ]
        assert cli.ok("groups", "-q").lines == ["g", "old"]
        [told] = cli.ok("groups", "g", "--json").json
        numbers = ("jobs", "done", "open", "completed", "dead", "cancelled", "not_needed")
        assert [told[name] for name in numbers] == [3, 3, 0, 1, 1, 1, 0]
        assert (told["state"], told["stopped"], told["rounds"]) == ("dead", False, 1)
        more = cli.ok("groups", "--limit", "1")
        assert (len(more.lines), more.stderr) == (2, "There are more; --limit 0 shows all.\n")

    def test_there_are_none(self, cli: Cli) -> None:
        cli.add("true")
        assert cli.ok("groups").stderr == "There are no groups.\n"
        assert cli.ok("groups", "--json").json == []
        fill(cli, a="true")
        assert "did you mean 'g'" in cli.refused("groups", "gg", code=3)
        note = "Note: there is no group 'gg'; see queuectl groups\n"
        assert cli.ok("list", "--group", "gg").stderr.startswith(note)
        assert "Group:" in cli.ok("show", "a").stdout


class TestWait:
    def test_the_exit_code_is_that_of_all(self, cli: Cli) -> None:
        fill(cli, a="true", b="true")
        late = cli.run("wait", "--group", "g", "--timeout", "50ms")
        assert (late.code, "2 jobs not finished" in late.stderr) == (124, True)
        run_all(cli)
        assert cli.ok("wait", "--group", "g").stderr == "2 jobs completed.\n"
        fill(cli, c="false")
        cli.ok("enqueue", "true", "--id", "d", "--group", "g", "--after", "c:fail")
        cli.ok("enqueue", "true", "--id", "e", "--group", "g", "--after", "a:fail")
        run_all(cli)
        done = cli.run("wait", "--group", "g")
        assert (done.code, done.stderr.splitlines()) == (
            1,
            [
                "See what failed with: queuectl dlq list --limit 0 --group g",
                "3 jobs completed, 1 did not: 1 dead.",
            ],
        )
        [told] = cli.run("wait", "--group", "g", "--json").json["groups"]
        assert (told["dead"], told["cancelled"], told["not_needed"]) == (1, 1, 1)

    def test_who_waits_in_vain_is_told(self, cli: Cli) -> None:
        fill(cli, a="false")
        cli.ok("enqueue", "true", "--id", "b", "--group", "g", "--after", "a")
        run_all(cli)
        waiting = cli.start("wait", "--group", "g")
        told = b""
        while b"vain" not in told:
            assert waiting.stderr is not None
            told += waiting.stderr.readline()
        assert b"a is dead" in told
        cli.ok("retry", "a", "--with", "command=true")
        run_all(cli)
        assert waiting.wait(30) == 0

    def test_who_is_to_wait_no_longer_than_it_helps_ends_then(self, cli: Cli) -> None:
        fill(cli, a="false")
        cli.ok("enqueue", "true", "--id", "b", "--group", "g", "--after", "a", "--tag", "t")
        cli.ok("enqueue", "true", "--id", "c", "--group", "g", "--after", "b")
        waiting = cli.start("wait", "--group", "g", "--or-stuck")
        following = cli.start("progress", "--group", "g", "--or-stuck")
        run_all(cli)
        assert waiting.wait(30) == following.wait(30) == 1
        assert waiting.stderr is not None
        told = waiting.stderr.read().decode().splitlines()
        assert told[-1] == (
            "queuectl: 2 jobs wait in vain, and nothing of that goes on by itself; see queuectl"
            " list --group g."
        )
        why = "Some of them wait in vain: job a is dead (exit code 1; no retries allowed)"
        assert told.count(f"{why}; repair that with: queuectl retry a") == 1
        for what in (("b",), ("b", "c"), ("--tag", "t"), ("--all",), ("--queue", "default")):
            done = cli.run("wait", *what, "--or-stuck")
            assert (done.code, "retry a" in done.stderr) == (1, True)
        for how in ("--wait", "--follow"):
            done = cli.run("enqueue", "true", "--after", "c", how, "--or-stuck", "-q")
            assert (done.code, "retry a" in done.stderr) == (1, True)
        with pytest.raises(StuckError, match=r"1 job waits in vain.*job a is dead"):
            cli.queue.wait("b", or_stuck=True)
        with pytest.raises(StuckError, match="2 jobs wait in vain"):
            cli.queue.groups.wait("g", or_stuck=True)
        cli.ok("retry", "a", "--with", "command=true")
        assert not cli.queue.is_stuck(["b", "c"])
        late = cli.run("wait", "--group", "g", "--or-stuck", "--timeout", "2s")
        assert late.code == 124

    def test_for_what_nothing_is_waited_for_it_is_refused(self, cli: Cli) -> None:
        fill(cli, a="true")
        assert "--wait" in cli.refused("enqueue", "true", "--or-stuck", code=2)
        once = ("progress", "--group", "g", "--once", "--or-stuck")
        assert "--or-stuck is for" in cli.refused(*once, code=2)

    @pytest.mark.parametrize("more", [("a",), ("--all",), ("--tag", "t")])
    def test_only_one_way_to_say_for_what(self, cli: Cli, more: tuple[str, ...]) -> None:
        assert "can't be combined; wait for one, then for" in cli.refused(
            "wait", "--group", "g", *more, code=2
        )

    def test_no_such_group(self, cli: Cli) -> None:
        fill(cli, a="true")
        assert "no group 'x'" in cli.refused("wait", "--group", "x", code=3)


class TestProgress:
    def test_once_and_until_the_end(self, cli: Cli) -> None:
        fill(cli, a="true", b="false", c="true")
        assert cli.ok("progress", "--group", "g", "--once").lines == ["g: 0 of 3 jobs done"]
        assert cli.ok("progress", "--group", "g", "--json").json["open"] == 3
        following = cli.start("progress", "--group", "g")
        assert following.stdout is not None
        assert following.stdout.readline() == b"g: 0 of 3 jobs done\n"
        run_all(cli)
        assert following.wait(30) == 1
        assert following.stdout.read().splitlines()[-1] == b"g: 3 of 3 jobs done, 1 dead"
        cli.ok("retry", "b", "--with", "command=true")
        run_all(cli)
        assert cli.ok("progress", "--group", "g").lines == ["g: 3 of 3 jobs done"]

    def test_what_waits_in_vain_has_no_time_left(self, cli: Cli) -> None:
        fill(cli, good="true", bad="false")
        cli.ok("enqueue", "true", "--id", "kept", "--group", "g", "--after", "bad")
        cli.ok("enqueue", "true", "--id", "behind", "--group", "g", "--after", "kept")
        run_all(cli)
        told = "g: 2 of 4 jobs done, 1 dead, stuck: what is left waits in vain"
        assert cli.ok("progress", "--group", "g", "--once").lines == [told]
        for found in (
            cli.ok("progress", "--group", "g", "--json").json,
            *cli.ok("groups", "g", "--json").json,
        ):
            assert (found["state"], found["stuck"], found["left"]) == ("open", True, None)
        assert cli.ok("groups").lines[1].split()[:2] == ["g", "stuck"]
        following = cli.start("progress", "--group", "g")
        assert following.stdout is not None
        assert following.stdout.readline().decode().strip() == told
        cli.ok("retry", "bad", "--with", "command=true")
        [found] = cli.ok("groups", "g", "--json").json
        assert (found["stuck"], found["left"] is None) == (False, False)
        run_all(cli)
        assert following.wait(30) == 0

    def test_what_cannot_be(self, cli: Cli) -> None:
        assert "either a number" in cli.refused("progress", code=2)
        assert "either a number" in cli.refused("progress", "4", "--group", "g", code=2)
        assert "--once is for --group" in cli.refused("progress", "4", "--once", code=2)
        cli.add("true")
        assert "no group 'g'" in cli.refused("progress", "--group", "g", code=3)


class TestCancel:
    def test_it_says_who_goes_with_it_that_waits_for_the_group(self, cli: Cli) -> None:
        fill(cli, a="true", b="true")
        jobs: list[dict[str, Any]] = [
            {"id": "behind", "after_group": ["g"]},
            {"id": "outside", "after": ["b"]},
            {"id": "anyhow", "after_group": ["g:any"]},
        ]
        cli.queue.enqueue_many([{"command": "true", **job} for job in jobs])
        told = cli.ok("cancel", "--group", "g", "--dry-run", "--json").json
        assert (told["changed"], sorted(told["along"]["ids"])) == (2, ["behind", "outside"])
        cli.ok("cancel", "--group", "g")
        gone = {job.id for job in cli.queue.list(state=State.CANCELLED)}
        assert gone == {"a", "b", "behind", "outside"}
        told = cli.ok("cancel", "--all", "--dry-run", "--json").json
        assert (told["changed"], told["along"]["ids"]) == (1, [])


class TestRetry:
    def test_what_is_dead_and_what_that_took_along(self, cli: Cli) -> None:
        fill(cli, good="true", bad="false", byhand="true", root="true")
        jobs = [
            {"id": "child", "after": ["bad"], "if_parent_fails": "cancel"},
            {"id": "grandchild", "after": ["child"]},
            {"id": "blocked", "after": ["bad"]},
            {"id": "unneeded", "after": ["good:fail"]},
            {"id": "alone", "after": ["root"]},
        ]
        cli.queue.enqueue_many([{"command": "true", **job} for job in jobs], group="g")
        cli.ok("cancel", "byhand", "root", "--yes")
        run_all(cli)
        before = {
            "good": "completed",
            "bad": "dead",
            "byhand": "cancelled",
            "root": "cancelled",
            "child": "cancelled",
            "grandchild": "cancelled",
            "blocked": "blocked",
            "unneeded": "cancelled",
            "alone": "cancelled",
        }
        assert states(cli) == before
        would = cli.ok("retry", "--group", "g", "--dry-run", "-q").lines
        assert would == ["bad", "child", "grandchild"]
        assert cli.ok("retry", "--group", "g", "--with", "command=true", "-q").lines == would
        assert states(cli) == before | {
            "bad": "pending",
            "child": "blocked",
            "grandchild": "blocked",
        }
        run_all(cli)
        done = ("bad", "child", "grandchild", "blocked")
        assert states(cli) == before | dict.fromkeys(done, "completed")

    def test_only_what_failed_itself_is_changed(self, cli: Cli) -> None:
        jobs = [
            {"id": "parse", "command": "exit 3", "env": {"LANG": "C"}},
            {"id": "load", "command": "echo loaded", "after": "parse", "env": {"LANG": "C"}},
        ]
        cli.queue.enqueue_many(jobs, group="g", max_retries=0, if_parent_fails="cancel")
        run_all(cli)
        retry = ("retry", "--group", "g", "--with", "command=echo parsed")
        would = cli.ok(*retry, "--dry-run")
        assert would.lines == [
            "Would retry job parse (dead): command exit 3 -> echo parsed",
            "Would retry job load (cancelled): as it was: echo loaded",
        ]
        told = cli.ok(*retry, "--dry-run", "--json").json["jobs"]
        found = {job["id"]: job["changes"] for job in told}
        assert found["parse"]["command"] == {"was": "exit 3", "is": "echo parsed"}
        assert found["load"] == {}
        cli.ok(*retry)
        assert [cli.queue.get(id).command for id in ("parse", "load")] == [
            "echo parsed",
            "echo loaded",
        ]
        run_all(cli)
        assert set(states(cli).values()) == {"completed"}

    def test_a_group_that_was_stopped(self, cli: Cli) -> None:
        told = cli.ok(
            "enqueue", "false", "--array", "1-5", "--max-fails", "1", "--max-retries", "0"
        )
        name = told.stdout.split()[-1].rstrip(".")
        cli.ok("worker", "start", "--drain", "--count", "1")
        [group] = cli.ok("groups", name, "--json").json
        assert (group["dead"], group["cancelled"], group["stopped"]) == (1, 4, True)
        assert cli.ok("groups", name).lines[1].split()[1] == "stopped"
        assert f"stopped: {name}; start one again with: queuectl retry --group {name}" in (
            cli.ok("status").stdout
        )
        those = ("--state", "dead,cancelled")
        cli.ok("retry", "--group", name, *those, "--with", "command=true")
        assert set(states(cli, name).values()) == {"pending"}
        run_all(cli)
        assert cli.ok("wait", "--group", name).stderr == "5 jobs completed.\n"

    def test_states_that_are_said_are_what_is_meant(self, cli: Cli) -> None:
        fill(cli, a="true", b="true")
        cli.ok("cancel", "--group", "g")
        assert cli.ok("retry", "--group", "g").stderr == "0 jobs retried.\n"
        assert cli.ok("retry", "--group", "g", "--state", "cancelled", "-q").lines == ["b", "a"]


class TestWhatKeepsOne:
    def test_it_is_explained_root_causes_first(self, cli: Cli) -> None:
        fill(cli, bad="false")
        cli.ok("enqueue", "true", "--id", "kept", "--group", "g", "--after", "bad")
        cli.ok("worker", "start", "--drain")
        cli.ok("enqueue", "true", "--id", "later", "--group", "g", "--delay", "1h")
        lines = cli.ok("explain", "--group", "g").lines
        assert lines[0].endswith("repair that with: queuectl retry bad")
        assert [line.partition(":")[0] for line in lines if line.startswith(("kept", "later"))] == [
            *("kept", "kept"),
            *("later", "later"),
        ]
        told = cli.ok("explain", "--group", "g", "--json").json
        assert [job["id"] for job in told] == ["kept", "later"]
        assert "give ids, or --group" in cli.refused("explain", "kept", "--group", "g", code=2)
        assert "give ids, or --group" in cli.refused("explain", code=2)
        assert "no group 'x'" in cli.refused("explain", "--group", "x", code=3)

    def test_its_output_is_printed_and_followed(self, cli: Cli) -> None:
        fill(cli, a="echo one", b="echo two")
        cli.add("echo other")
        following = cli.start("logs", "--group", "g", "--follow")
        run_all(cli)
        assert following.wait(30) == 0
        assert following.stdout is not None
        told = {"a | one", "b | two"}
        assert set(following.stdout.read().decode().splitlines()) == told
        assert set(cli.ok("logs", "--group", "g").lines) == told
        assert "no group 'x'" in cli.refused("logs", "--group", "x", code=3)
        assert "leave them out" in cli.refused("logs", "a", "--group", "g", code=2)


class TestOnDone:
    def test_that_it_is_there_already_is_said(self, cli: Cli) -> None:
        once = ("enqueue", "true", "--group", "night", "--on-done")
        assert "Note: group" not in cli.ok(*once, "echo over").stderr
        assert "Note: group" not in cli.ok(*once, "echo over").stderr
        assert "this one is left out" in cli.ok(*once, "echo else").stderr
        run_all(cli)
        said = "Note: group night has its --on-done already; it won't run again.\n"
        assert said in cli.ok(*once, "echo over").stderr
        many = ("enqueue", "--group", "night", "--on-done", "echo over")
        assert said in cli.ok(*many, "--array", "1-2", "true").stderr
        assert said in cli.ok(*many, "--lines", "-", input="true\n").stderr
        graph = '{"name": "a", "command": "true"}\n'
        assert said in cli.ok(*many, "--graph", "-", input=graph).stderr

    def test_it_runs_once_when_all_have_ended(self, cli: Cli) -> None:
        fired = 'echo "$QUEUECTL_GROUP" >> fired'
        told = cli.ok(
            *("enqueue", "test {} = 1", "--array", "1-3", "--max-retries", "0"),
            *("--on-done", fired, "-q"),
        )
        assert len(told.lines) == 3
        [name] = cli.ok("groups", "-q").lines
        again = ("--group", name, "--on-done", fired)
        cli.ok("enqueue", "true", *again)
        cli.ok("enqueue", "--lines", "-", *again, input="true\ntrue\n")
        cli.ok("enqueue", "--lines", "-", "--keep-going", *again, input="true\n")
        cli.ok("enqueue", "--graph", "-", *again, input='{"name": "a", "command": "true"}\n')
        assert len(states(cli, name)) == 8
        run_all(cli)
        assert (cli.folder / "fired").read_text() == f"{name}\n"
        cli.ok("retry", "--group", name, "--with", "command=true")
        cli.ok("enqueue", "true", *again)
        run_all(cli)
        assert (cli.folder / "fired").read_text() == f"{name}\n"

    def test_it_needs_a_group(self, cli: Cli) -> None:
        told = cli.refused("enqueue", "true", "--on-done", "true", code=2)
        assert "--on-done is about a group" in told
        assert not cli.db.exists()

    def test_it_runs_where_the_jobs_run(self, cli: Cli) -> None:
        given = ("--group", "g", "-Q", "slow", "-e", "A=1", "--cwd", "/")
        cli.ok("enqueue", "true", "--id", "a", *given, "--on-done", "true")
        [hook] = cli.queue.list(state=State.BLOCKED)
        assert (hook.queue, hook.cwd, dict(hook.env), hook.group) == ("slow", "/", {"A": "1"}, None)
        assert hook.after_group == ("g:any",)


class TestResults:
    def test_a_table_of_parameters_and_results(self, cli: Cli) -> None:
        command = f'{COMMAND} result "[$x, $x]"; echo out {{x}}; test {{x}} != 2'
        cli.ok(
            *("enqueue", command, "--sweep", "x=1..2", "--sweep", "name=a b,c", "--group", "s"),
            *("--max-retries", "0"),
        )
        cli.queue.enqueue({"command": "echo a; echo b", "group": "s"})
        run_all(cli)
        rows = [*csv.reader(StringIO(cli.ok("results", "--group", "s", "--csv").stdout))]
        used = ["duration", "peak_memory"]
        assert rows[0] == ["id", "index", "x", "name", "state", "exit_code", *used, "result"]
        assert [[*row[1:6], row[8]] for row in rows[1:]] == [
            ["1", "1", "a b", "completed", "0", "[1, 1]"],
            ["2", "1", "c", "completed", "0", "[1, 1]"],
            ["3", "2", "a b", "dead", "1", ""],
            ["4", "2", "c", "dead", "1", ""],
            ["", "", "", "completed", "0", ""],
        ]
        found = cli.ok("results", "--group", "s", "--json", "--last-line").json
        assert [row["last_line"] for row in found] == [None, None, "out 2", "out 2", "b"]
        assert found[0]["result"] == [1, 1]
        assert [str(row["peak_memory"] or "") for row in found] == [row[7] for row in rows[1:]]
        usages = cli.queue.usages(cli.queue.list()).values()
        assert {row["peak_memory"] for row in found} == {one.peak_memory for one in usages}
        assert found[0]["parameters"] == {"index": 1, "x": "1", "name": "a b"}
        shown = cli.ok("results", "--group", "s", "--last-line").lines
        assert shown[0].split()[:4] == ["ID", "INDEX", "X", "NAME"]
        assert shown[5].split()[-1] == "b"

    def test_odd_values_stay_one_cell(self, cli: Cli) -> None:
        lines = b'a,b\n"q"\n=1\n-1\n@x\n\t+y\n\xff\n'
        cli.ok("enqueue", "true {}", "--each-line", "-", "--group", "g", input=lines)
        rows = [*csv.reader(StringIO(cli.ok("results", "--group", "g", "--csv").stdout))]
        # Letter for letter: nothing is put before what a spreadsheet would take for a formula.
        raw = ["=1", "-1", "@x", "\t+y"]
        assert [row[2] for row in rows] == ["line", "a,b", '"q"', *raw, "\\xff"]

    def test_what_cannot_be(self, cli: Cli) -> None:
        fill(cli, a="true")
        assert "no group 'x'" in cli.refused("results", "--group", "x", code=3)
        told = cli.refused("results", "--group", "g", "--csv", "--json", code=2)
        assert "either --csv or --json" in told


def test_names_complete(cli: Cli) -> None:
    cli.queue.enqueue("true", group="nightly")
    cli.queue.enqueue("true", group="night shift")
    for line in ("wait --group", "list --group", "enqueue x --after-group", "results --group"):
        assert complete(cli, f"queuectl {line} nightl") == ["nightly"]
    assert complete(cli, "queuectl groups nightl") == ["nightly"]
    assert complete(cli, "queuectl enqueue x --after-group nightly:a") == ["nightly:any"]
    assert complete(cli, "queuectl db init --group nig") == []


def test_a_graph_is_a_group(cli: Cli) -> None:
    text = "\n".join(
        json.dumps(job)
        for job in ({"name": "a", "command": "x"}, {"name": "b", "command": "y", "after": "a"})
    )
    told = cli.ok("enqueue", "--graph", "-", "--json", input=text).json
    assert set(states(cli, told["group"])) == set(told["ids"])
    own = text.replace('"command": "x"', '"command": "x", "group": "mine"')
    assert cli.ok("enqueue", "--graph", "-", input=own).lines[0] == "Enqueued 2 jobs."
    cli.ok("enqueue", "--graph", "-", "--group", "given", input=text)
    assert len(states(cli, "given")) == 2
    assert wait_for(lambda: len(cli.queue.groups.newest()), "three groups") == 3


def test_no_more_run_at_once_than_the_group_allows(cli: Cli) -> None:
    cli.ok("enqueue", "true", "--array", "1-2%1", "--group", "one")
    assert {job.keys for job in cli.queue.list()} == {("%1 one",)}


def test_the_key_of_what_follows_a_group_is_no_other_jobs(cli: Cli) -> None:
    told = cli.refused("enqueue", "true", "--unique", "on-done of night", code=2)
    assert "kept for what runs when a group is over; choose another" in told
    cli.add("true", "--unique", "on-done")
    cli.add("true", "--group", "night", "--on-done", "true")
    assert len(cli.ok("list", "--json").json) == 3
