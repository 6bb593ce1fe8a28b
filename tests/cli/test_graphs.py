"""Jobs that wait for jobs, on the command line: enqueueing, looking, cancelling, repairing."""

import json
import re
import sys
from pathlib import Path

import pytest

from queuectl import State
from tests.cli.conftest import Cli
from tests.cli.test_completion import complete
from tests.support import wait_for

OURS = Path(sys.executable).with_name("queuectl")


def states(cli: Cli) -> dict[str, str]:
    return {job.id: job.state.value for job in cli.queue.list(limit=None)}


def fill(cli: Cli, *links: str) -> None:
    """Enqueue jobs, each with those that it waits for: `child parent parent:any`."""
    cli.queue.enqueue_many(
        [
            {"id": child, "command": f"echo {child}", "after": after, "max_retries": 0}
            for child, *after in map(str.split, links)
        ]
    )


def test_what_took_others_along_is_marked_and_they_stand_below_it(cli: Cli) -> None:
    jobs: list[dict[str, object]] = [
        {"id": "good", "command": "true"},
        {"id": "bad", "command": "false"},
        {"id": "load", "command": "load", "after": ["good", "bad"], "if_parent_fails": "cancel"},
        {"id": "told", "command": "told", "after": "load"},
    ]
    cli.queue.enqueue_many(jobs, max_retries=0)
    cli.ok("worker", "start", "--drain")
    assert cli.ok("graph", "load").lines == [
        "good completed  true",
        "└─ load cancelled  (see below)",
        "bad dead (root cause)  false",
        "└─ load cancelled  load",
        "   └─ told cancelled  told",
    ]
    told = {job["id"]: job["root_cause"] for job in cli.ok("graph", "load", "--json").json["jobs"]}
    assert [id for id, is_root in told.items() if is_root] == ["bad"]


class TestEnqueue:
    def test_it_says_what_is_waited_for(self, cli: Cli) -> None:
        first = cli.queue.enqueue("true").id
        told = cli.ok("enqueue", "echo b", "--id", "b", "--after", first[:6]).stdout
        assert told == f"Enqueued job b: echo b (blocked: it waits for {first})\n"
        assert cli.queue.get("b").after == (first,)
        told = cli.ok("enqueue", "c", "--id", "c", "-a", f"{first[:8]}:fail", "--after", "b").stdout
        assert told.endswith(f"(blocked: it waits for {first}:fail and b)\n")
        told = cli.ok("enqueue", "d", "--finally", first, "--after", "c", "--json").json
        assert (told["after"], told["state"], told["open_parents"]) == (
            ["c", f"{first}:any"],
            "blocked",
            2,
        )
        cli.ok("push", "order", "data", "--type", "mail", "--finally", "b")
        assert cli.queue.get("order").after == ("b:any",)

    def test_files_and_arrays_have_it_as_a_default(self, cli: Cli) -> None:
        first = cli.queue.enqueue("true").id
        cli.ok("enqueue", "--lines", "-", "--after", first[:6], input="one\ntwo\n")
        cli.ok("enqueue", "three {}", "--array", "1-2", "--after", first[:6])
        jobs = cli.queue.list(state="blocked")
        assert [job.after for job in jobs] == [(first,)] * 4

    def test_lines_of_json_may_name_those_that_come_later(self, cli: Cli) -> None:
        lines = [{"id": "b", "command": "b", "after": "a"}, {"id": "a", "command": "a"}]
        text = "\n".join(map(json.dumps, lines))
        assert cli.ok("enqueue", "-q", "--file", "-", input=text).lines == ["b", "a"]
        assert states(cli) == {"a": "pending", "b": "blocked"}

    @pytest.mark.parametrize(
        ("args", "code", "why"),
        [
            (("--after", "nobody"), 3, "There is no job 'nobody'"),
            (("--after", "a", "--after", "a:any"), 2, "after names 'a' twice, in two ways"),
            (("--id", "x", "--after", "x"), 3, "There is no job 'x'"),
            (("--after", "a:foo"), 2, "How job a has to end is ok, fail or any, not 'foo'."),
            (("--after", "b:foo"), 3, "There is no job 'b:foo'"),
            (("--finally", "a:x:y"), 3, "There is no job 'a:x:y'"),
            (("--after", "a", "--if-parent-fails", "wait"), 2, "block, cancel, run"),
        ],
    )
    def test_what_cannot_be(self, cli: Cli, args: tuple[str, ...], code: int, why: str) -> None:
        cli.add("true", "--id", "a")
        assert why in cli.refused("enqueue", "b", *args, code=code)
        assert states(cli) == {"a": "pending"}

    def test_one_whose_parent_is_cancelled_is_dropped(self, cli: Cli) -> None:
        fill(cli, "a")
        cli.ok("cancel", "a")
        told = cli.ok("enqueue", "b", "--id", "b", "--after", "a").stdout
        assert told == "Dropped job b, which is cancelled: its parent a was cancelled\n"

    def test_completion(self, cli: Cli) -> None:
        fill(cli, "first", "second")
        assert complete(cli, "queuectl enqueue true --after f") == ["first"]
        assert complete(cli, "queuectl enqueue true --after first:a") == ["first:any"]
        assert complete(cli, "queuectl enqueue true --finally s") == ["second"]
        assert complete(cli, "queuectl enqueue true --if-parent-fails c") == ["cancel"]
        assert complete(cli, "queuectl graph s") == ["second"]
        assert complete(cli, "queuectl graph s --format d") == ["dot"]
        assert complete(cli, "queuectl result --of f") == ["first"]


class TestLooking:
    def test_show_tells_parents_and_children(self, cli: Cli) -> None:
        fill(cli, "gone", "a", "b a:any gone:any", "c b")
        cli.ok("cancel", "gone")
        cli.ok("rm", "gone")
        told = cli.ok("show", "b").stdout
        assert "State:     blocked" in told
        assert "Waits:     it waits for a (pending); no worker is running" in told
        waits, _, waited_for = told.partition("--- Waited for by ---")
        rows = [line.split() for line in waits.partition("--- Waits for ---")[2].splitlines()]
        assert ["a", "pending", "any", "not", "yet", "echo", "a"] in rows
        assert ["gone", "gone", "(cancelled)", "any", "yes"] in rows
        assert ["c", "blocked", "ok", "not", "yet", "echo", "c"] in [
            line.split() for line in waited_for.splitlines()
        ]
        whole = cli.ok("show", "b", "--json").json
        assert whole["parents"] == [
            {
                "id": "a",
                "group": False,
                "wanted": "any",
                "state": "pending",
                "came_to": None,
                "met": False,
                "command": "echo a",
                "queue": "default",
            },
            {
                "id": "gone",
                "group": False,
                "wanted": "any",
                "state": None,
                "came_to": "cancelled",
                "met": True,
                "command": None,
                "queue": None,
            },
        ]
        assert [one["id"] for one in whole["children"]] == ["c"]
        assert cli.ok("show", "a", "--json").json["parents"] == []

    def test_lists_and_status_count_what_is_blocked(self, cli: Cli) -> None:
        fill(cli, "a", "b a", "c b:any")
        assert cli.ok("list", "--state", "blocked", "-q").lines == ["c", "b"]
        told = cli.ok("list", "--columns", "id,after").stdout
        assert [line.split() for line in told.splitlines()[1:]] == [
            ["c", "b:any"],
            ["b", "a"],
            ["a"],
        ]
        assert cli.ok("status", "--json").json["states"]["blocked"] == 2
        assert cli.ok("stats", "--json").json["states"]["blocked"] == 2

    def test_explain_names_the_root_cause_and_the_remedy(self, cli: Cli) -> None:
        cli.add("exit 3", "--id", "root", "--max-retries", "0")
        fill(cli, "a root", "b a", "c b a")
        assert cli.ok("explain", "c").lines[0] == (
            "It waits for b (blocked) and a (blocked), and so for root (pending)."
        )
        cli.ok("worker", "start", "--drain")
        first, second, *_ = cli.ok("explain", "c").lines
        assert first == "It waits for b (blocked) and a (blocked)."
        assert second == (
            "It waits in vain: job root is dead (exit code 3; no retries allowed);"
            " repair that with: queuectl retry root"
        )
        told = cli.ok("explain", "c", "--json").json[0]["waits_for"]
        assert [(one["cause"], one["remedy"]) for one in told[:2]] == [
            ("blocked", None),
            ("root_cause", "queuectl retry root"),
        ]

    def test_graphs(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "b r:any", "c a b", "alone")
        told = cli.ok("graph", "a").stdout
        assert told.splitlines() == [
            "r pending  echo r",
            "└─ a blocked  echo a",
            "   └─ c blocked  echo c",
        ]
        assert cli.ok("graph", "c").lines == [
            "r pending  echo r",
            "├─ a blocked  echo a",
            "│  └─ c blocked  echo c",
            "└─ b [any] blocked  echo b",
            "   └─ c blocked  (see above)",
        ]
        assert cli.ok("graph", "c", "--format", "dot").stdout.startswith("digraph jobs {\n")
        assert cli.ok("graph", "c", "--format", "mermaid").stdout.startswith("flowchart TD\n")
        whole = cli.ok("graph", "c", "--json").json
        assert whole == cli.ok("graph", "c", "--format", "json").json
        assert [job["id"] for job in whole["jobs"]] == ["r", "a", "b", "c"]
        assert whole["whole"]
        some = cli.ok("graph", "c", "-n", "2")
        assert len(some.lines) == 2
        assert (
            "There are more than 2 jobs; see them with: queuectl graph c --limit 0" in some.stderr
        )
        assert len(cli.ok("graph", "c", "--limit", "0").lines) == 5
        assert "not both" in cli.refused("graph", "c", "--json", "--format", "dot", code=2)
        assert "no job 'nobody'" in cli.refused("graph", "nobody", code=3)

    def test_groups(self, cli: Cli) -> None:
        cli.add("echo a", "--id", "a", "--group", "night")
        cli.add("echo b", "--id", "b", "--group", "night", "--after", "a")
        assert cli.ok("graph", "--group", "night").lines == [
            "a pending  echo a",
            "└─ b blocked  echo b",
        ]
        assert "No job is in group 'day'" in cli.refused("graph", "--group", "day", code=3)
        assert "either the id" in cli.refused("graph", "a", "--group", "night", code=2)
        assert "either the id" in cli.refused("graph", code=2)

    def test_the_root_cause_is_marked(self, cli: Cli) -> None:
        cli.add("true", "--id", "late", "--queue", "other")
        cli.add("exit 3", "--id", "root", "--max-retries", "0")
        fill(cli, "a late root", "b a")
        assert "root cause" not in cli.ok("graph", "b").stdout
        cli.ok("worker", "start", "--drain", "--queue", "default")
        assert cli.ok("graph", "b").lines == [
            "late pending  true",
            "└─ a blocked  (see below)",
            "root dead (root cause)  exit 3",
            "└─ a blocked  echo a",
            "   └─ b blocked  echo b",
        ]
        assert "\\ndead\\nroot cause" in cli.ok("graph", "b", "--format", "dot").stdout
        assert "dead<br/>root cause" in cli.ok("graph", "b", "--format", "mermaid").stdout
        told = cli.on_terminal("graph", "b").stdout
        assert "\x1b[31mdead\x1b[0m\x1b[1m (root cause)\x1b[0m" in told

    def test_states_have_their_colours_on_a_terminal(self, cli: Cli) -> None:
        fill(cli, "r", "a r")
        told = cli.on_terminal("graph", "a").stdout
        assert "\x1b[33mpending\x1b[0m" in told
        assert "\x1b[1ma\x1b[0m" in told


class TestCancel:
    def test_it_says_what_it_takes_along(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "b a", "c b", "d c", "last d:any")
        dry = cli.ok("cancel", "r", "--dry-run")
        assert dry.stderr == (
            "4 jobs that wait for that (a, b, c and 1 more) would be cancelled as well.\n"
        )
        assert cli.ok("cancel", "r", "--dry-run", "--json").json["along"] == {
            "jobs": 4,
            "ids": ["a", "b", "c", "d"],
            "whole": True,
        }
        assert set(states(cli).values()) == {"pending", "blocked"}
        told = cli.ok("cancel", "b")
        assert told.stdout == "Job b cancelled.\n"
        assert told.stderr == "2 jobs that wait for that (c and d) are cancelled as well.\n"
        assert states(cli) == {
            "r": "pending",
            "a": "blocked",
            **dict.fromkeys("bcd", "cancelled"),
            "last": "pending",
        }
        reason = cli.queue.get("c").reason
        assert reason == "its parent b was cancelled"

    def test_programs_are_told_which(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "b a", "other")
        told = cli.ok("cancel", "--text", "echo r", "--json").json
        assert (told["changed"], told["along"]["ids"]) == (1, ["a", "b"])
        told = cli.ok("cancel", "--all", "--json").json
        assert (told["changed"], told["along"]["ids"]) == (1, [])

    def test_it_asks_before_that(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "b a:fail")
        told = cli.on_terminal("cancel", "r", until="[y/N]", key=b"\r")
        assert "Cancel job r, and cancel 2 jobs that wait for that (a and b)? [y/N]" in told.stdout
        assert told.code == 1
        assert set(states(cli).values()) == {"pending", "blocked"}
        # Nobody waits for this one.
        assert "[y/N]" not in cli.on_terminal("cancel", "b").stdout
        assert cli.on_terminal("rm", "r", until="[y/N]", key=b"y\r").code == 0
        assert states(cli) == {"a": "cancelled", "b": "cancelled"}
        assert cli.queue.get("a").reason == "its parent r was removed"

    def test_yes_and_no_terminal_ask_nobody(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "s", "b s")
        assert cli.on_terminal("cancel", "r", "--yes").code == 0
        cli.ok("cancel", "s")
        assert set(states(cli).values()) == {"cancelled"}

    def test_it_never_goes_up(self, cli: Cli) -> None:
        fill(cli, "r", "a r")
        told = cli.ok("cancel", "a")
        assert (told.stderr, states(cli)) == ("", {"r": "pending", "a": "cancelled"})

    def test_undo_brings_all_of_them_back(self, cli: Cli) -> None:
        fill(cli, "r", "a r", "b a")
        cli.ok("cancel", "r")
        told = cli.ok("undo")
        assert "3 jobs brought back." in told.stderr
        assert states(cli) == {"r": "pending", "a": "blocked", "b": "blocked"}


class TestRepair:
    def test_a_retry_of_the_root_sets_all_going(self, cli: Cli) -> None:
        cli.add("test -e ready", "--id", "root", "--max-retries", "0")
        fill(cli, "a root", "b a")
        cli.ok("worker", "start", "--drain")
        assert states(cli) == {"root": "dead", "a": "blocked", "b": "blocked"}
        (cli.folder / "ready").touch()
        cli.ok("retry", "root")
        cli.ok("worker", "start", "--drain")
        assert set(states(cli).values()) == {"completed"}

    def test_what_waits_for_one_that_is_gone_is_edited(self, cli: Cli) -> None:
        cli.add("false", "--id", "root", "--max-retries", "0")
        fill(cli, "a root", "b a")
        cli.ok("worker", "start", "--drain")
        cli.ok("rm", "root")
        told = cli.ok("explain", "b").lines
        assert told[1] == (
            "It waits in vain: job root, which was dead, is gone;"
            " let it run all the same with: queuectl edit a --unset after"
        )
        told = cli.ok("edit", "a", "--unset", "after").lines
        assert told == ["Job a edited: after root -> none."]
        assert states(cli) == {"a": "pending", "b": "blocked"}
        undone = cli.run("undo")
        assert (undone.code, undone.stdout) == (4, "")
        assert "Job a: edit can't be undone where it changed variables, or parents" in undone.stderr

    def test_a_job_can_wait_for_less_and_not_for_more(self, cli: Cli) -> None:
        fill(cli, "x", "y", "a x y")
        cli.ok("edit", "a", "--after", "y")
        assert cli.queue.get("a").after == ("y",)
        told = cli.refused("edit", "a", "--after", "x", code=4)
        assert told == (
            "queuectl: Job a doesn't wait for x, and can only wait for less than it does."
        )

    def test_wait_says_that_it_waits_in_vain(self, cli: Cli) -> None:
        cli.add("false", "--id", "root", "--max-retries", "0")
        fill(cli, "a root")
        waiting = cli.start("wait", "a")
        cli.ok("worker", "start", "--drain")
        assert waiting.stderr is not None
        lines: list[bytes] = []

        def told() -> bool:
            assert waiting.stderr is not None
            lines.append(waiting.stderr.readline())
            return b"It waits in vain: job root is dead" in lines[-1]

        wait_for(told, "that to be said")
        cli.ok("retry", "root", "--with", "command=true")
        cli.ok("worker", "start", "--drain")
        assert waiting.wait() == 0


GRAPH = """\
{"name": "report", "command": "echo report", "after": ["parse", "check:any"]}
{"name": "fetch", "command": "echo fetch"}

{"name": "parse", "command": "echo parse", "after": "fetch"}
{"name": "check", "command": "exit 3", "after": ["fetch"], "max_retries": 0}
"""
YAML = """\
report: {command: echo report, after: [parse, "check:any"]}
fetch: echo fetch
parse:
  command: echo parse
  after: fetch
check: {command: exit 3, after: [fetch], max_retries: 0}
"""


class TestFiles:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("graph.jsonl", GRAPH),
            ("graph.json", f"[{','.join(filter(None, GRAPH.splitlines()))}]"),
            ("graph.yaml", YAML),
        ],
    )
    def test_a_graph_is_stored_and_runs(self, cli: Cli, name: str, text: str) -> None:
        (cli.folder / name).write_text(text)
        dry = cli.ok("enqueue", "--graph", name, "--dry-run")
        assert dry.lines == [
            "fetch  echo fetch",
            "├─ parse  echo parse",
            "│  └─ report  echo report",
            "└─ check  exit 3",
            "   └─ report [any]  (see above)",
        ]
        assert dry.stderr == "Would enqueue 4 jobs; nothing was stored.\n"
        assert not cli.db.exists()
        told = cli.ok("enqueue", "--graph", name, "--queue", "etl", "--json").json
        names = told["names"]
        assert set(names) == {"fetch", "parse", "check", "report"}
        assert told["ids"] == [names[one] for one in ("fetch", "parse", "check", "report")]
        again = cli.ok("enqueue", "--graph", name, "-q").lines
        assert len(set(again) & set(told["ids"])) == 0
        cli.ok("worker", "start", "--drain")
        assert cli.queue.get(names["report"]).state == State.COMPLETED
        assert cli.queue.get(names["check"]).state == State.DEAD
        assert cli.queue.get(names["report"]).queue == "etl"

    def test_a_dry_run_of_a_long_chain_is_short(self, cli: Cli) -> None:
        jobs = [{"name": f"j{n}", "command": "x"} for n in range(500)]
        chain = [jobs[0], *({**job, "after": f"j{n}"} for n, job in enumerate(jobs[1:]))]
        text = "\n".join(map(json.dumps, chain))
        told = cli.ok("enqueue", "--graph", "-", "--dry-run", input=text)
        assert len(told.lines) == 200
        assert told.lines[-1] == f"{' ' * 60}(199) j199  x"
        assert told.stderr == (
            "Only the first 200 jobs are shown; --json has all of them.\n"
            "Would enqueue 500 jobs; nothing was stored.\n"
        )
        told = cli.ok(
            "enqueue", "--graph", "-", "--dry-run", input="\n".join(text.split("\n")[:200])
        )
        assert (len(told.lines), "shown" in told.stderr) == (200, False)

    def test_it_is_said_which_is_which(self, cli: Cli) -> None:
        told = cli.ok("enqueue", "--graph", "-", input=GRAPH)
        assert re.fullmatch(r"Enqueued 4 jobs in group graph-[a-z2-7]{4}\.", told.lines[0])
        group = told.lines[0].split()[-1].rstrip(".")
        assert f"See it all with: queuectl graph --group {group}\n" in told.stderr
        told = cli.ok("enqueue", "--graph", "-", "--group", "all of it", input=GRAPH)
        assert "See it all with: queuectl graph --group 'all of it'\n" in told.stderr
        lines = GRAPH.replace('"echo fetch"', '"echo fetch", "group": "g"')
        told = cli.ok("enqueue", "--graph", "-", input=lines)
        assert told.lines[0] == "Enqueued 4 jobs."
        assert [line.partition(":")[0] for line in told.lines[1:]] == [
            "report",
            "fetch",
            "parse",
            "check",
        ]
        assert re.search(r"See it all with: queuectl graph [a-z2-7]+\n", told.stderr)

    def test_names_are_kept_as_parameters(self, cli: Cli) -> None:
        lines: list[dict[str, object]] = [
            {"name": "fetch", "command": 'echo "I am $name"'},
            {"name": "parse", "command": ": go", "after": "fetch", "parameters": {"seed": "3"}},
            {"name": "b", "command": "true", "after": "fetch", "parameters": {"name": "mine"}},
            {"name": "c", "command": "true", "after": "fetch", "env": {"name": "set"}},
            {"name": "d", "id": "d", "command": "true", "after": "fetch"},
            {"name": "e", "id": "other", "command": "true", "after": "fetch"},
            {"id": "f", "command": "true", "after": "fetch"},
        ]
        text = "\n".join(map(json.dumps, lines))
        dry = cli.ok("enqueue", "--graph", "-", "--dry-run", input=text).lines
        assert dry[:2] == ['fetch  echo "I am $name"', "├─ parse  : go [seed=3]"]
        told = cli.ok("enqueue", "--graph", "-", "--group", "night", "--json", input=text).json
        own = {name: cli.queue.get(id).parameters for name, id in told["names"].items()}
        assert own == {
            "fetch": {"name": "fetch"},
            "parse": {"name": "parse", "seed": "3"},
            "b": {"name": "mine"},
            "c": {},
            "d": {},
            "e": {"name": "e"},
        }
        assert cli.queue.get("f").parameters == {}
        assert ": go [name=parse, seed=3]" in cli.ok("list").stdout
        tree = cli.ok("graph", "--group", "night").lines
        assert tree[1] == f"├─ {told['names']['parse']} blocked  : go [name=parse, seed=3]"
        assert "Parameters: name=parse, seed=3" in cli.ok("show", told["names"]["parse"]).stdout
        cli.ok("worker", "start", "--drain")
        shown = cli.ok("results", "--group", "night").lines
        assert shown[0].split()[:3] == ["ID", "NAME", "SEED"]
        assert shown[1].split()[1] == "fetch"
        assert cli.ok("output", told["names"]["fetch"], "--stdout").stdout == "I am fetch\n"

    def test_it_may_wait_for_jobs_that_are_stored(self, cli: Cli) -> None:
        first = cli.queue.enqueue("true").id
        lines = [{"name": "a", "command": "a", "after": first}, {"command": "b", "after": "a"}]
        cli.ok("enqueue", "--graph", "-", input="\n".join(map(json.dumps, lines)))
        lines = [{"name": "c", "command": "c"}, {"command": "d", "after": "c"}]
        cli.ok(
            *("enqueue", "--graph", "-", "--after", first[:6]),
            input="\n".join(map(json.dumps, lines)),
        )
        after = {job.title: job.after for job in cli.queue.list()}
        assert (after["a"], after["c"]) == ((first,), (first,))
        assert len(after["b"]) == len(after["d"]) == 1

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ('{"name": "a", "after": "b"}\n{"name": "b", "after": "a"}', "a -> b -> a"),
            ('{"name": "a", "after": "b"}', "stdin, line 1: there is no job 'b'"),
            ('{"name": "a"}\n\n{"name": "a"}', "stdin, line 3: the name 'a' is taken by stdin, li"),
            ('{"name": "a", "after": "a"}', "stdin, line 1: 'a' can't wait for itself"),
            (
                '{"name": "a", "command": "x", "group": "G1", "after_group": "G2"}\n'
                '{"name": "b", "command": "y", "group": "G2", "after_group": "G1"}',
                "a -> group G1 -> b -> group G2 -> a",
            ),
            (
                '{"name": "a", "command": "x"}\n{"command": "y", "after": "a:foo"}',
                "stdin, line 2: How job a has to end is ok, fail or any, not 'foo'.",
            ),
            ('{"name": "a", "comand": "x"}', "stdin, line 1: Unknown field 'comand'"),
            ('{"name": "a", "command": ""}', "stdin, line 1: "),
            ("[1]", "stdin, element 1: a job must be a JSON object"),
            ("[{]", "Invalid JSON"),
            ("nothing", "stdin, line 1: Invalid JSON"),
            ("a: {command: x}", "at column 1; YAML is read from a file whose name ends in .yaml."),
        ],
    )
    def test_what_is_wrong_is_named_with_its_line(self, cli: Cli, text: str, why: str) -> None:
        assert why in cli.refused("enqueue", "--graph", "-", "--dry-run", code=2, input=text)
        result = cli.run("enqueue", "--graph", "-", input=text)
        assert (result.code, why in result.stderr) == (2, True)
        assert cli.queue.count() == 0

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("a: {command: x}\na: {command: y}", "graph.yml, line 2: the name 'a' comes twice."),
            ("- {command: x, command: y}", "graph.yml, line 1: the name 'command' comes twice."),
            ("a: [1", "graph.yml, line 1: invalid YAML"),
            ("a: 5", "graph.yml, line 1: a job must be a command, or fields"),
            ("just text", "graph.yml: it must be a list of jobs, or names with a job each."),
            ("a: {name: b, command: x}", "graph.yml, line 1: it has two names, 'a' and 'b'."),
            ("1: x\n0x1: y", "graph.yml, line 2: the name '0x1' comes twice."),
            ("true: x\nyes: y", "graph.yml, line 2: the name 'yes' comes twice."),
            ("'True': x\ntrue: y", "graph.yml, line 2: the name 'true' comes twice."),
            ("a:\n  env: {A: x,\n    A: y}", "graph.yml, line 3: the name 'A' comes twice."),
            ("b: x\na: !!int ''", "graph.yml, line 2: invalid YAML: '' can't be read as int."),
            ("a: !!timestamp abc", "graph.yml, line 1: invalid YAML: 'abc' can't be read as times"),
            ("a: {command:\n !!bool abc}", "graph.yml, line 2: invalid YAML: 'abc' can't be read"),
            ("!!bool abc: x", "graph.yml, line 1: invalid YAML: 'abc' can't be read as bool."),
            ("b: x\na: !!bool {=: abc}", "graph.yml, line 2: invalid YAML: a value isn't what it"),
            ("a: !!int [1]", "graph.yml, line 1: invalid YAML: expected a scalar node"),
            ("a: &a\n  after: [*a]", "graph.yml, line 1: it contains itself."),
            ("? [a]\n: x", "graph.yml, line 1: a name must be a text."),
        ],
    )
    def test_what_is_wrong_with_yaml(self, cli: Cli, text: str, why: str) -> None:
        (cli.folder / "graph.yml").write_text(text)
        assert why in cli.refused("enqueue", "--graph", "graph.yml", code=2)

    def test_what_a_job_says_itself_outranks_what_it_merges(self, cli: Cli) -> None:
        lines = [
            "d: &d {command: x, timeout: 5, priority: 2}",
            "a:",
            "  <<: *d",
            "  command: y",
            "b:",
            "  <<: [{priority: 3}, *d]",
            "  timeout: 6",
        ]
        (cli.folder / "graph.yml").write_text("\n".join(lines))
        jobs = cli.ok("enqueue", "--graph", "graph.yml", "--dry-run", "--json").json["jobs"]
        assert [(job["command"], job["timeout"], job["priority"]) for job in jobs] == [
            ("x", 5, 2),
            ("y", 5, 2),
            ("x", 6, 3),
        ]

    def test_names_of_templates_are_no_jobs(self, cli: Cli) -> None:
        lines = [
            "x-nightly: &nightly {timeout: 10m, retries: 0}",
            ".part: &part {<<: *nightly, command: ./part.py}",
            "a: *part",
            "b: {<<: *part, after: a}",
        ]
        (cli.folder / "graph.yml").write_text("\n".join(lines))
        told = cli.ok("enqueue", "--graph", "graph.yml", "--json").json
        assert set(told["names"]) == {"a", "b"}
        assert {cli.queue.get(id).timeout for id in told["ids"]} == {600_000}

    def test_few_lines_of_yaml_cannot_stand_for_more_than_fits(self, cli: Cli) -> None:
        merges = [f"a{n}: &a{n}\n  <<: [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
        lists = [f"a{n}: &a{n}\n  after: [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
        for lines, why in (
            (merges, "graph.yml, line 36: the file merges more than 1,000,000 fields."),
            (lists, "with its aliases, it has more than 100,000 values."),
        ):
            text = "\n".join(["a0: &a0 {command: x}", *lines])
            (cli.folder / "graph.yml").write_text(text)
            assert why in cli.refused("enqueue", "--graph", "graph.yml", "--dry-run", code=2)

    @pytest.mark.parametrize(
        ("args", "why"),
        [
            (("true", "--graph", "x"), "Give only one of"),
            (("--graph", "x", "--keep-going"), "whole or not at all"),
            (("--graph", "x", "--id", "y"), "--id is for a single job"),
            (("--graph", "missing.jsonl"), "missing.jsonl"),
            (("--graph", "missing.yaml"), "missing.yaml can't be read"),
        ],
    )
    def test_what_makes_no_sense(self, cli: Cli, args: tuple[str, ...], why: str) -> None:
        assert why in cli.refused("enqueue", *args, code=2)

    def test_an_empty_file_has_no_jobs(self, cli: Cli) -> None:
        assert cli.ok("enqueue", "--graph", "-", input="\n").lines == ["Enqueued 0 jobs."]


def test_inside_a_job_parents_and_their_results_are_at_hand(cli: Cli) -> None:
    cli.add(f"{OURS} result '{{\"rows\": 3}}'", "--id", "fetch")
    cli.add("true", "--id", "check")
    script = (
        f'echo "$QUEUECTL_PARENTS"; for id in $QUEUECTL_PARENTS; do {OURS} result --of $id; done'
    )
    cli.add(script, "--id", "report", "--after", "fetch", "--after", "check:any", "--max-retries=0")
    cli.add('echo "${QUEUECTL_PARENTS-none}"', "--id", "alone")
    cli.ok("worker", "start", "--drain")
    assert cli.queue.output("report").stdout.decode() == 'fetch check\n{"rows": 3}\n'
    assert "Job check has no result" in cli.queue.output("report").stderr.decode()
    assert cli.queue.output("alone").stdout == b"none\n"


def test_a_running_job_adds_children_of_its_own(cli: Cli) -> None:
    script = f'{OURS} enqueue "touch made" --after "$QUEUECTL_JOB_ID" --id child; test ! -e made'
    cli.add(script, "--id", "parent", "--max-retries", "0")
    cli.ok("worker", "start", "--drain")
    assert states(cli) == {"parent": "completed", "child": "completed"}
    assert (cli.folder / "made").exists()


def test_a_graph_with_a_unique_job_is_stored_again(cli: Cli) -> None:
    lines = (
        '{"name": "fetch", "command": "x", "unique": "nightly"}\n'
        '{"name": "report", "command": "y", "after": "fetch"}\n'
    )
    first = cli.ok("enqueue", "--graph", "-", "--json", input=lines).json
    again = cli.ok("enqueue", "--graph", "-", "--json", input=lines).json
    assert (first["enqueued"], again["enqueued"]) == (2, 1)
    assert again["existing"] == [first["names"]["fetch"]] == [again["names"]["fetch"]]
    assert cli.queue.get(again["names"]["report"]).after == (first["names"]["fetch"],)
    told = cli.ok("enqueue", "--graph", "-", input=lines).lines
    assert told[0].startswith("Enqueued 1 job in group ")
    assert told[0].endswith("; 1 was there already (unique).")
    assert told[1] == f"fetch: {first['names']['fetch']}"
    stored = cli.queue.enqueue_graph([json.loads(line) for line in lines.splitlines()])
    assert stored.names["fetch"] == first["names"]["fetch"]
