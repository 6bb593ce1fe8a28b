"""`enqueue --array`, `--each-line`, `--each-json`, `--sweep` and `--dry-run`."""

import json
import os
import re
import signal
from pathlib import Path
from typing import Any

import pytest

from queuectl import Job
from tests.cli.conftest import Cli
from tests.support import PATIENCE, wait_for


def jobs(cli: Cli) -> list[Job]:
    return cli.queue.list(oldest=True, limit=None)


def commands(cli: Cli) -> list[str | None]:
    return [job.command for job in jobs(cli)]


# -- arrays and sweeps --------------------------------------------------------------------


def test_an_array_is_a_job_for_each_number(cli: Cli) -> None:
    done = cli.ok("enqueue", "convert page-{}.tif", "--array", "7,9-10%2", "-Q", "images")
    assert re.fullmatch(r"Enqueued 3 jobs in group array-[a-z2-7]{4}\.\n", done.stdout)
    assert [(job.command, job.parameters, job.queue) for job in jobs(cli)] == [
        (f"convert page-{n}.tif", {"index": n}, "images") for n in (7, 9, 10)
    ]
    (keys,) = {job.keys for job in jobs(cli)}
    assert keys[0].startswith("%2 ")


def test_a_sweep_is_a_job_for_each_combination(cli: Cli) -> None:
    done = cli.ok(
        *("enqueue", "--sweep", "lr=0.1,0.01", "--sweep", "seed=1..2", "--at-once", "3", "--json"),
        *("-T", "sweep", "--", "train", "--lr={lr}", "{seed}"),
    )
    found = jobs(cli)
    group = found[0].group
    told = {"enqueued": 4, "ids": [job.id for job in found], "errors": []}
    assert done.json == told | {"group": group}
    assert {job.group for job in found} == {group}
    assert [job.argv for job in found] == [
        ("train", f"--lr={lr}", seed) for lr in ("0.1", "0.01") for seed in ("1", "2")
    ]
    assert {job.tags for job in found} == {("sweep",)}
    assert cli.ok("enqueue", "-q", "true", "--array", "1-2").lines == [
        job.id for job in jobs(cli)[4:]
    ]


def test_those_of_a_sweep_are_told_apart_where_they_are_listed(cli: Cli) -> None:
    cli.ok(
        *("enqueue", 'exit 1 && train --lr {lr} "$seed"'),
        *("--sweep", "lr=1,2", "--sweep", "seed=1..2", "--max-retries", "0", "--group", "lab"),
    )
    whole = [f'exit 1 && train --lr {lr} "$seed" [seed={n}]' for lr in (2, 1) for n in (2, 1)]
    told = cli.ok("list").lines[1:]
    assert [line[line.index("exit") :] for line in told] == whole
    # Where a field is asked for, it is that field.
    assert cli.ok("list", "--columns", "command").lines[1:] == [
        one.partition(" [")[0] for one in whole
    ]
    assert cli.ok("list", "--columns", "title").lines[1:] == whole
    assert cli.ok("list", "--format", "{title}").lines == whole
    assert cli.ok("list", "--json").json[0]["command"] == 'exit 1 && train --lr 2 "$seed"'
    tree = cli.ok("graph", "--group", "lab").lines
    assert [line.partition("  ")[2] for line in tree] == whole[::-1]
    assert tree[0].split()[1] == "pending"
    mermaid = cli.ok("graph", "--group", "lab", "--format", "mermaid").stdout
    assert "seed=1#93;<br/>pending" in mermaid
    cli.ok("worker", "start", "--drain")
    told = cli.ok("dlq", "list").lines[1:]
    assert sorted(line[line.index("exit 1 &&") :] for line in told) == sorted(whole)
    would = cli.ok("retry", "--state", "dead", "--dry-run").lines
    assert sorted(line.partition(": ")[2] for line in would) == sorted(whole)


def test_a_json_job_may_be_expanded(cli: Cli) -> None:
    cli.ok("enqueue", '{"command": "run {}", "priority": 3, "queue": "q"}', "--array", "1-2")
    assert [(job.command, job.priority, job.queue) for job in jobs(cli)] == [
        ("run 1", 3, "q"),
        ("run 2", 3, "q"),
    ]


# -- lines and objects --------------------------------------------------------------------


def test_lines_come_from_a_file_or_from_stdin(cli: Cli) -> None:
    (cli.folder / "names").write_bytes(b"a b\n\n'c'\r\n-d")
    cli.ok("enqueue", "wc {} > {}.n", "--each-line", "names")
    cli.ok("enqueue", "wc", "--each-line", "-", input=b"x y")
    assert commands(cli) == [
        "wc 'a b' > 'a b'.n",
        "wc ''\"'\"'c'\"'\"'\r' > ''\"'\"'c'\"'\"'\r'.n",
        "wc -d > -d.n",
        "wc 'x y'",
    ]


def test_nuls_end_lines_if_that_is_said(cli: Cli) -> None:
    cli.ok("enqueue", "-0", "--each-line", "-", "--", "wc", input=b"a\nb\0\xff\0")
    first, second = jobs(cli)
    assert first.argv == ("wc", "a\nb")
    assert second.parameters == {"index": 2, "line": "\udcff"}
    assert second.argv == ("/bin/sh", "-c", 'exec wc "${QUEUECTL_LINE}"')
    told = cli.refused("enqueue", "wc", "--each-line", "-", code=2, input=b"a\0b\0\n")
    assert told == "queuectl: stdin has NULs in its lines; with --null, these end them."


def test_objects_are_lines_of_json(cli: Cli) -> None:
    (cli.folder / "runs.jsonl").write_text('{"name": "a b", "n": 1.5}\n\n{"n": 2, "name": "c"}\n')
    cli.ok("enqueue", "run {name} -n {n}", "--each-json", "runs.jsonl")
    assert [(job.command, job.parameters) for job in jobs(cli)] == [
        ("run 'a b' -n 1.5", {"index": 1, "name": "a b", "n": "1.5"}),
        ("run c -n 2", {"index": 2, "n": "2", "name": "c"}),
    ]


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        (b'{"a": 1}\n{"b": 1}\n', "Object 2: it has no 'a', for which the command has a place"),
        (b'{"a": 1}\n[1]\n', "lines, line 2: it must be a JSON object of names and values, such"),
        (b"a b\n", "lines, line 1: Invalid JSON: Expecting value at column 1; --each-line takes"),
        (b'{"a": 1}\n{"a": \n', "lines, line 2: Invalid JSON"),
        (b'{"a": 1}\n{"a b": 1, "a": 1}\n', "Object 2: 'a b' can't be the name of a parameter"),
    ],
)
def test_a_bad_object_is_named_and_nothing_is_stored(cli: Cli, lines: bytes, told: str) -> None:
    (cli.folder / "lines").write_bytes(lines)
    assert told in cli.refused("enqueue", "run {a}", "--each-json", "lines", code=2)
    assert not cli.db.exists()


def test_lines_that_end_as_on_windows_are_told_of_once(cli: Cli) -> None:
    done = cli.ok("enqueue", "wc", "--each-line", "-", input="a\r\nb\r\nc")
    assert (
        done.stderr.count("Note: stdin has lines that end as on Windows; the CR at their end") == 1
    )
    assert [job.parameters["line"] for job in jobs(cli)] == ["a\r", "b\r", "c"]
    for args, lines in (([], "a\rb\nc"), (["-0"], "a\r\0b\r\0")):
        assert (
            "Windows" not in cli.ok("enqueue", "wc", *args, "--each-line", "-", input=lines).stderr
        )


def test_what_looks_like_a_span_and_is_none_is_told(cli: Cli) -> None:
    done = cli.ok("enqueue", "train {seed}", "--sweep", "seed=1-5")
    assert (
        "Note: --sweep seed=1-5 is one value; a span of numbers is written seed=1..5."
        in done.stderr
    )
    assert commands(cli) == ["train 1-5"]
    for honest in ("2026-01-02", "2026-01", "5-1", "1-5,6-9", "1..5", "-5", "a1-5"):
        assert "Note: --sweep" not in cli.ok("enqueue", "x {d}", "--sweep", f"d={honest}").stderr


# -- what can't be ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("true", "--array", "9-1"), "must go up"),
        (("echo '{a}'", "--sweep", "a=1,2"), "{a} stands in single quotes"),
        (("train {}", "--sweep", "a=1,2"), "{} stands for nothing here; there are {#}, {a}"),
        (("true {x}", "--array", "1-3"), "Nothing called 'x' is there for {x}"),
        (("true", "--array", "1-3", "--sweep", "a=1,2"), "--array and --sweep can't be together"),
        (("true", "--array", "1", "--each-line", "x"), "--array and --each-line can't be together"),
        (("true", "--array", "1-3%2", "--at-once", "2"), "said twice"),
        (("true", "--array", "1-3", "--id", "x"), "--id is for a single job"),
        (("true", "--array", "1-3", "--unique", "x"), "One job at a time has a unique key"),
        (("true", "--array", "1-3", "--keep-going"), "--keep-going is for --file"),
        (("--file", "x", "--array", "1-3"), "make many jobs of one"),
        (('[{"command": "x"}]', "--array", "1-3"), "make many jobs of one"),
        (("--array", "1-3"), "Give a command"),
        (("true", "--at-once", "3"), "--at-once is for --array"),
        (("true", "--skip", "3"), "--skip is for --array"),
        (("true", "--null"), "--null is for --each-line"),
        (("true", "--array", "1", "-0"), "--null is for --each-line"),
        (("true", "--each-line", "nowhere"), "nowhere can't be read: No such file"),
        (("true", "--each-line", "."), ". can't be read: Is a directory"),
        (("true", "--sweep", "a"), "A sweep is a name and its values"),
        (("true", "--sweep", "a=1", "--sweep", "a=2"), "--sweep is given twice for a"),
        (("true", "--each-line", "-", "--stdin", "-"), "can't both come from our stdin"),
        (("true", "--dry-run", "--wait"), "nothing to wait for"),
        (("true", "--key", "%2 x"), "A key can't begin with %"),
        (("rm {}", "--array", ""), "--array is empty; give it a value, or leave it out"),
        (("rm {}", "--each-line", ""), "--each-line is empty"),
        (("rm {}", "--each-json", ""), "--each-json is empty"),
        (("rm {}", "--array", "1-3", "--after-each", " "), "--after-each is empty"),
        (("true", "--after-each", ""), "--after-each is empty"),
        (("true", "--at-once", ""), "--at-once is empty"),
        (("true", "--needs", ""), "--needs is empty; give it a value, or leave it out, or say no"),
        (("true", "--needs", "gpu=1", "--needs", ""), "--needs is empty"),
        (("true", "--requires", ""), "--requires is empty"),
        (("true", "--group", "g", "--on-done", ""), "--on-done is empty"),
        (("true", "--each-line", "a", "--each-line", "b"), "--each-line is given twice; pipe all"),
        (("true", "--each-json", "a", "--each-json", "b"), "--each-json is given twice; pipe all"),
        (("true", "--array", "1", "--array=2", "--array", "3"), "--array is given 3 times; put"),
        (("true", "--array", "1-3", "--at-once", "1", "--at-once", "2"), "--at-once is given"),
        (("true", "--array", "1-3", "--skip", "1", "--skip", "1"), "--skip is given twice"),
        (("--graph", "a", "--graph", "b"), "--graph is given twice; store each file by a call"),
        (("-F", "a", "--file", "b"), "--file is given twice; pipe all files into one"),
        (("--lines", "a", "--lines", "b"), "--lines is given twice"),
        (("--command", "a", "--command", "b"), "--command is given twice"),
        (("true", "--group", "a", "--group", "b"), "--group is given twice; a job is in one group"),
        (("true", "--on-dead", "a", "--on-dead", "b"), "--on-dead is given twice; put both"),
        (("true", "--stdin", "a", "--stdin", "b"), "--stdin is given twice"),
    ],
)
def test_what_makes_no_sense_is_told(cli: Cli, args: tuple[str, ...], told: str) -> None:
    assert told in cli.refused("enqueue", *args, code=2)
    assert not cli.db.exists()


def test_of_options_that_nobody_would_add_up_the_last_one_counts(cli: Cli) -> None:
    cli.ok("enqueue", "true", "--priority", "1", "-p", "2", "--timeout", "1m", "--timeout", "2m")
    (job,) = jobs(cli)
    assert (job.priority, job.timeout) == (2, 120_000)


# -- shown --------------------------------------------------------------------------------


def test_what_a_job_has_to_itself_is_shown(cli: Cli) -> None:
    cli.ok("enqueue", "--each-line", "-", "--at-once", "2", "--", "wc", input=b"caf\xe9\n")
    (job,) = jobs(cli)
    at_once = job.keys[0].removeprefix("%")
    name = at_once.removeprefix("2 ")
    shown = cli.ok("show", job.id).stdout
    assert "Parameters: index=1, line=caf\\xe9\n" in shown
    assert f"At once:    at most 2 with the others of {name}\n" in shown
    told = cli.ok("show", job.id, "--json").json
    assert told["parameters"] == {"index": 1, "line": "caf\\xe9"}
    assert (told["keys"], told["at_once"]) == ([], at_once)
    listed = cli.ok("list", "--columns", "id,parameters").stdout
    assert "index=1,line=caf\\xe9" in listed


def test_explain_names_the_array(cli: Cli) -> None:
    cli.ok("enqueue", "sleep 60", "--array", "1-2%1", "--queue", "q")
    first, second = jobs(cli)
    name = first.keys[0].partition(" ")[2]
    cli.start("worker", "start", "--count", "2")
    wait_for(lambda: cli.queue.get(first.id).state == "processing", "the first to run")
    wait_for(lambda: cli.queue.get(second.id).parked, "the second to wait for it")
    told = cli.ok("explain", second.id).stdout
    assert f"At most 1 at once with the others of {name}: job {first.id}" in told


# -- dry runs -----------------------------------------------------------------------------


def test_a_dry_run_shows_and_stores_nothing(cli: Cli) -> None:
    done = cli.ok(
        *("enqueue", "run {} {/}", "--each-line", "-", "--dry-run", "-p", "3", "-d", "5m"),
        input=b"a b\nc/\xff\n",
    )
    assert done.stdout == (
        "run 'a b' 'a b' [priority: 3] [index=1] (in 5m)\n"
        'run "${QUEUECTL_LINE}" "${QUEUECTL_LINE_NAME}" [priority: 3]'
        " [index=2, line_name=\\xff] (in 5m)\n"
    )
    assert done.stderr == "Would enqueue 2 jobs; nothing was stored.\n"
    assert not cli.db.exists()


def test_a_dry_run_as_json_has_whole_jobs(cli: Cli) -> None:
    done = cli.ok(
        *("enqueue", "--sweep", "lr=0.1,1", "--dry-run", "--json", "-t", "90s", "-e", "SECRET=x"),
        *("--", "train", "{lr}"),
    )
    found = done.json
    groups = {job.pop("group") for job in found["jobs"]}
    assert len(groups) == 1
    assert groups.pop().startswith("sweep-")
    assert found == {
        "dry_run": True,
        "would_enqueue": 2,
        "jobs": [
            {
                "queue": "default",
                "argv": ["train", lr],
                "timeout": 90,
                "env": ["SECRET"],
                "parameters": {"index": index, "lr": lr},
                "cwd": str(cli.folder),
            }
            for index, lr in enumerate(("0.1", "1"), 1)
        ],
    }


@pytest.mark.parametrize(
    ("args", "given", "shown"),
    [
        (("echo hi", "-Q", "night"), "", "echo hi [queue: night]\n"),
        (("--", "echo", "a b"), "", "echo 'a b'\n"),
        (('{"data": "x", "type": "mail"}',), "", "mail (data)\n"),
        (("--lines", "-"), "one\n# no\ntwo\n", "one\ntwo\n"),
        (("--file", "-", "-p", "2"), '{"command": "x"}\n', "x [priority: 2]\n"),
        (('[{"command": "x"}, {"command": "y", "timeout": 3}]',), "", "x\ny [timeout: 3s]\n"),
    ],
)
def test_every_request_has_a_dry_run(
    cli: Cli, args: tuple[str, ...], given: str, shown: str
) -> None:
    done = cli.ok("enqueue", "--dry-run", "-q", *args, input=given)
    assert (done.stdout, done.stderr) == (shown, "")
    assert not cli.db.exists()


def test_a_dry_run_refuses_what_would_be_refused(cli: Cli) -> None:
    assert "Priority" in cli.refused("enqueue", "x", "-p", "high", "--dry-run", code=2)
    done = cli.run(
        "enqueue", "--dry-run", "--keep-going", "--file", "-", input='{"command": "x"}\n['
    )
    assert (done.code, done.stdout) == (1, "x\n")


# -- very many ----------------------------------------------------------------------------


def test_what_stops_in_the_middle_says_where_and_can_go_on(cli: Cli, tmp_path: Path) -> None:
    """More than fit into one transaction are stored part by part, the first ones first."""
    good = [f"{n}\n" for n in range(250_500)]
    lines, mended = tmp_path / "lines", tmp_path / "mended"
    lines.write_text("".join([*good, "x" * 140_000]))
    done = cli.run("enqueue", "echo {}", "--each-line", str(lines), "--json")
    assert done.code == 2
    assert done.json["enqueued"] == len(done.json["ids"]) == cli.queue.count() == 250_001
    told = (
        "Line 250,501: The parameter line is 140,000 bytes long; at most 130,048 can be handed to"
        " a program: only the first 250,001 jobs are stored; the same command with"
        f" --group {done.json['group']} --skip 250001 goes on behind them."
    )
    assert done.json["errors"] == [{"error": told}]
    assert told in done.stderr
    mended.write_text("".join(good))
    group = done.json["group"]
    again = ("enqueue", "echo {}", "--each-line", str(mended), "--group", group, "--skip", "250001")
    assert cli.ok(*again).stdout == f"Enqueued 499 jobs in group {group}.\n"
    found = [job.parameters for job in cli.queue.list(limit=500)]
    assert found == [{"index": n, "line": str(n - 1)} for n in range(250_500, 250_000, -1)]


def test_an_interrupt_says_what_is_stored(cli: Cli, tmp_path: Path) -> None:
    """A pipe that stays open holds the rest back."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    process = cli.start("enqueue", "echo {}", "--each-line", str(fifo), "--json")
    with fifo.open("w") as pipe:
        pipe.writelines(f"{n}\n" for n in range(260_000))
        pipe.flush()
        wait_for(lambda: cli.db.exists() and cli.queue.count() > 250_000, "the first parts")
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    told: dict[str, Any] = json.loads(out)
    assert told["enqueued"] == len(told["ids"]) == cli.queue.count() == 250_001
    assert "Interrupted: only the first 250,001 jobs are stored" in err.decode()
    assert cli.queue.list(limit=1)[0].parameters == {"index": 250_001, "line": "250000"}


# -- one array after another --------------------------------------------------------------


def test_each_element_waits_for_its_own(cli: Cli) -> None:
    cli.ok("enqueue", "render {}", "--array", "1-3", "--group", "tiles")
    args = ("enqueue", "upload {}", "--array", "1-3", "--after-each", "tiles", "--group", "up")
    before = jobs(cli)
    shown = cli.ok(*args, "--dry-run").stdout
    assert f"upload 2 [index=2] [after: {before[1].id}]" in shown
    assert len(jobs(cli)) == 3
    assert cli.ok(*args, "--on-done", "true").stdout == "Enqueued 3 jobs in group up.\n"
    *_, last = jobs(cli)
    assert last.after_group == ("up:any",)
    assert [job.after for job in jobs(cli)[3:6]] == [(job.id,) for job in before]


def test_elements_that_dont_match_are_refused(cli: Cli) -> None:
    cli.ok("enqueue", "render {}", "--array", "1-3", "--group", "tiles")
    args = ("enqueue", "upload {}", "--after-each")
    why = cli.refused(*args, "tiles", "--array", "1-4", code=2)
    assert "Group tiles has 3 elements, and these are 4" in why
    assert "There is no group 'tyles'" in cli.refused(*args, "tyles", "--array", "1-3", code=3)
    assert "is for --array" in cli.refused(*args, "tiles", code=2)
    assert "no --skip" in cli.refused(*args, "tiles", "--array", "1-3", "--skip", "1", code=2)
    assert len(jobs(cli)) == 3
