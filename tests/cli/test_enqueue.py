"""`enqueue`: every way to say what to run, and what becomes of bad input."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from queuectl import State
from tests.cli.conftest import COMMAND, Cli
from tests.support import wait_for


def test_plain_text_is_a_shell_command(cli: Cli) -> None:
    result = cli.ok("enqueue", "echo 'Hello World' && exit 3")
    (job,) = cli.queue.list()
    assert result.stdout == f"Enqueued job {job.id}: echo 'Hello World' && exit 3\n"
    assert result.stderr == (
        f"Made a new queue at sqlite:{cli.db}.\n"
        "No worker is running; start one with: queuectl worker start\n"
    )
    assert (job.command, job.argv) == ("echo 'Hello World' && exit 3", None)
    assert job.cwd == str(cli.folder)
    assert job.env == {}


def test_what_is_unusual_is_told(cli: Cli) -> None:
    cli.variables["TZ"] = "Europe/Berlin"
    told = cli.ok(
        *("enqueue", "backup.sh", "--priority", "10", "--timeout", "300", "--queue", "night"),
        *("--run-at", "2031-05-04T03:02:01Z"),
    ).stdout
    _, told, rest = told.partition(
        ": backup.sh [queue: night] [priority: 10] [timeout: 5m]"
        " (scheduled for 2031-05-04T05:02:01+02:00, in "
    )
    assert told
    assert re.fullmatch(r"\d+d(\d+h)?\)\n", rest)


def test_what_looks_like_a_slip_is_noted_and_stored_all_the_same(cli: Cli) -> None:
    missing = cli.ok("enqueue", "true", "--id", "lost", "--cwd", "/no/such/place")
    assert "there is no directory /no/such/place here" in missing.stderr
    assert cli.queue.get("lost").cwd == "/no/such/place"
    late = cli.ok("enqueue", "true", "--id", "late", "--run-at", "2020-01-01T00:00:00Z")
    assert "is in the past, so the job is due at once" in late.stderr
    assert cli.queue.get("late").state == State.PENDING
    assert "Note" not in cli.ok("enqueue", "true", "--cwd", "/", "--run-at", "+1h").stderr


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        (
            ("ls", "-la"),
            "-l; if it is the command's own, put -- before the command: queuectl enqueue -- ls",
        ),
        (
            ("--id", "x", "ls", "--color"),
            "put -- before the command: queuectl enqueue -- ls --color",
        ),
        (("ls", "/", "--color"), "There is no option --color; put the command in quotes"),
        (("ls", "--priorty", "5"), "There is no option --priorty; did you mean --priority?"),
        (("--id", "x", "--zzz"), "There is no option --zzz. See"),
    ],
)
def test_options_of_the_command_itself(cli: Cli, args: tuple[str, ...], hint: str) -> None:
    assert hint in cli.refused("enqueue", *args, code=2)
    assert not cli.db.exists()


def test_every_option_reaches_the_job(cli: Cli) -> None:
    cli.variables["COPIED"] = "from here"
    result = cli.ok(
        *("enqueue", "true", "--json", "--id", "all options", "-Q", "q1", "-p", "-5", "-t", "90s"),
        *("--delay", "2m", "--max-attempts", "8", "--backoff", "linear", "--backoff-base", "3"),
        *("--retry-delay", "7", "--max-backoff", "11m", "--expire", "1h", "-e", "A=b=c"),
        *("-e", "COPIED", "--cwd", "sub", "-T", "t1", "--tag", "t2"),
    )
    job = cli.queue.get("all options")
    assert (job.queue, job.priority, job.timeout, job.max_retries) == ("q1", -5, 90_000, 7)
    assert (job.backoff, job.backoff_base, job.retry_delay) == ("linear", 3.0, 7_000)
    assert (job.max_backoff, job.run_at - job.created_at) == (660_000, 120_000)
    assert job.expires_at == job.run_at + 3_600_000
    assert job.env == {"A": "b=c", "COPIED": "from here"}
    assert (job.cwd, job.tags) == (str(cli.folder / "sub"), ("t1", "t2"))
    assert result.json["id"] == "all options"
    assert result.json["env"] == ["A", "COPIED"]


def test_json_and_flags_that_override_it(cli: Cli) -> None:
    text = json.dumps(
        {
            "id": "job1",
            "command": 'bash -c "exit 1"',
            "max_attempts": 9,
            "timeout_ms": 1500,
            "run_at": "2031-01-01T00:00:00Z",
            "tags": ["a"],
            "env": {"A": "1", "B": "1"},
        }
    )
    cli.ok("enqueue", f"  {text}", "--max-retries", "2", "--delay", "5", "-T", "b", "-e", "B=2")
    job = cli.queue.get("job1")
    assert (job.command, job.max_retries, job.timeout) == ('bash -c "exit 1"', 2, 1500)
    assert job.run_at - job.created_at == 5_000
    assert (job.tags, job.env) == (("a", "b"), {"A": "1", "B": "2"})


def test_command_option_is_literal(cli: Cli) -> None:
    cli.ok("enqueue", "--command", "{ echo hi; }")
    assert cli.queue.list()[0].command == "{ echo hi; }"


@pytest.mark.parametrize(
    "words", [("printf", "%s", "a b", "--id", "", "$HOME"), ("true",), ("{}",), ("--", "--")]
)
def test_words_behind_dashes_are_kept_exactly(cli: Cli, words: tuple[str, ...]) -> None:
    cli.ok("enqueue", "--id", "exact", "--", *words)
    job = cli.queue.get("exact")
    assert (job.argv, job.command) == (words, None)


@pytest.mark.parametrize(
    ("args", "hint"),
    [
        ((), "Give a command"),
        (("echo", "a"), "put the command in quotes"),
        (("echo a", "--command", "echo b"), "Give only one of"),
        (("echo a", "--", "b"), "Give only one of"),
        (("--",), "Nothing stands behind --"),
        (("--file", "-", "--lines", "-"), "Give only one of"),
        (("--lines", "-", "--id", "x"), "--id is for a single job"),
        (("true", "--keep-going"), "--keep-going is for"),
        (("-",), "use --lines - for commands, or --file - for JSON jobs"),
        (("true", "--follow", "--json"), "--follow"),
        (("",), "command is empty"),
        (("{",), "Invalid JSON"),
        (('{"command": "a", "command": "b"}',), "'command' comes twice"),
        (('{"command": NaN}',), "NaN is not a number"),
        (('{"type": "x", "data": {"y": -1e999}}',), "-1e999 is too large a number"),
        (('{"command": "a", "priority": ' + "9" * 5000 + "}",), "number of thousands of digits."),
        (('{"a":' * 20_000,), "nested too deeply"),
        (("[{",), "Invalid JSON"),
        ((' [ {command: "x"}]',), "Invalid JSON"),
        (("[{'command': 'x'}]",), "Invalid JSON"),
        (("[\n  {\n  'command': 'x'}]",), "Invalid JSON"),
        (("{}",), "needs a command"),
        (('{"command": 1}',), "Command must be text"),
        (('{"comand": "x"}',), "did you mean 'command'?"),
        (('{"command": "x", "state": "completed"}',), "'state' is set by queuectl only"),
        (('{"command": "a\\u0000b"}',), "NUL"),
        (('{"command": "\\ud800"}',), "UTF-8"),
        (("x", "--priority", "high"), "Priority must be a whole number"),
        (("x", "--priority", "99999999999"), "Priority must be from"),
        (("x", "--timeout", "soon"), "'soon' is not a duration"),
        (("x", "--run-at", "whenever"), "'whenever' is not a time"),
        (("x", "--run-at", "+5m", "--delay", "5m"), "run_at and delay"),
        (("x", "--max-retries", "-1"), "max_retries must be from 0"),
        (("x", "--max-attempts", "0"), "max_attempts must be from 1"),
        (("x", "--max-retries", "1", "--max-attempts", "2"), "say the same thing twice"),
        (("x", "--backoff", "random"), "one of exponential, linear, fixed"),
        (("x", "--env", "MISSING"), "MISSING isn't set here"),
        (("x", "--env", "=x"), "empty"),
        (("x", "--env", "QUEUECTL_DB=x"), "set by queuectl only"),
        (("x", "--queue", "a\nb"), "Queue must be printable"),
        (("x", "--tag", "a,b"), "can't contain a comma: 'a,b'; give --tag twice"),
        (('{"command": "x", "tags": ["a,b"]}',), "can't contain a comma"),
        (("--lines", "missing.txt"), "missing.txt can't be read"),
        (("--lines", "."), "can't be read"),
    ],
)
def test_bad_input_is_one_sentence_and_changes_nothing(
    cli: Cli, args: tuple[str, ...], hint: str
) -> None:
    assert hint in cli.refused("enqueue", *args, code=2)
    assert not cli.db.exists()


def test_invalid_bytes_in_a_command_are_refused(cli: Cli) -> None:
    command = [COMMAND.encode(), b"enqueue", b"echo \xff"]
    done = subprocess.run(command, env=cli.env, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"valid UTF-8" in done.stderr


def test_longest_command(cli: Cli) -> None:
    big = "true #" + "x" * 1_100_000
    assert "at most 1,048,576" in cli.refused("enqueue", "--lines", "-", input=big, code=2)
    cli.ok("enqueue", "--lines", "-", input=big[: 2**20])
    (job,) = cli.queue.list()
    assert len(job.command or "") == 2**20


def test_a_taken_id_is_refused_and_the_first_job_left_alone(cli: Cli) -> None:
    cli.add("echo first", "--id", "one")
    cli.refused("enqueue", "echo second", "--id", "one", code=4)
    assert cli.queue.get("one").command == "echo first"


def test_a_deleted_directory_is_named(cli: Cli) -> None:
    gone = cli.folder / "gone"
    gone.mkdir()
    script = f'rmdir "$PWD"; exec {COMMAND} enqueue true'
    done = subprocess.run(
        ["sh", "-c", script], cwd=gone, env=cli.env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, "This directory is gone" in done.stderr) == (2, True)


# -- files --------------------------------------------------------------------


def test_lines(cli: Cli) -> None:
    text = "\ufeffecho 1\r\n\n   \n# a comment\n  # another\n  echo 2 # kept\nlast"
    result = cli.ok("enqueue", "--lines", "-", "--priority", "3", input=text)
    assert result.stdout == "Enqueued 3 jobs.\n"
    jobs = cli.queue.list(oldest=True)
    assert [job.command for job in jobs] == ["echo 1", "  echo 2 # kept", "last"]
    assert {job.priority for job in jobs} == {3}


def test_an_option_overrides_a_field_by_whatever_name(cli: Cli) -> None:
    cli.ok("enqueue", '{"command": "true", "max_backoff_seconds": 60}', "--max-backoff", "10")
    (job,) = cli.queue.list()
    assert job.max_backoff == 10_000


def test_json_lines_with_options_as_defaults(cli: Cli) -> None:
    (cli.folder / "jobs.jsonl").write_text(
        '{"id": "a", "command": "x", "max_attempts": 5, "timeout_seconds": 2, "tag": "own"}\n\n'
        '{"id": "b", "argv": ["x", "y z"], "env": {"A": "2"}}\n'
    )
    args = ("--max-retries", "1", "-t", "9s", "-T", "all", "-e", "A=1", "-e", "B=1")
    result = cli.ok("enqueue", "-F", "jobs.jsonl", *args, "--json")
    assert result.json == {"enqueued": 2, "ids": ["a", "b"], "errors": []}
    a, b = cli.queue.get("a"), cli.queue.get("b")
    assert (a.max_retries, a.timeout, a.tags, a.env) == (
        4,
        2_000,
        ("all", "own"),
        {"A": "1", "B": "1"},
    )
    assert (b.max_retries, b.timeout, b.tags, b.env) == (1, 9_000, ("all",), {"A": "2", "B": "1"})
    assert b.argv == ("x", "y z")


def test_a_file_is_stored_whole_or_not_at_all(cli: Cli) -> None:
    cli.add("first", "--id", "taken")
    bad = cli.folder / "bad.jsonl"
    for line, code, hint in (
        ('{"command": "x", "priority": "high"}', 2, "line 3: priority"),
        ("[]", 2, "line 3: A job must be a JSON object"),
        ('{"id": "good", "command": "x"}', 2, "line 3: the id 'good' is that of line 1 already"),
        ('{"id": "taken", "command": "x"}', 4, "line 3: the id 'taken' is taken"),
    ):
        bad.write_text(f'{{"id": "good", "command": "x"}}\n\n{line}\n')
        assert hint in cli.refused("enqueue", "--file", str(bad), code=code)
        assert [job.id for job in cli.queue.list()] == ["taken"]


def test_keep_going_stores_the_good_lines(cli: Cli) -> None:
    cli.add("first", "--id", "taken")
    text = b'{"id":"a","command":"x"}\n{bad\n\xff\n{"id":"taken","command":"x"}\n{"command":"y"}\n'
    result = cli.run("enqueue", "--file", "-", "--keep-going", "--json", input=text)
    assert result.code == 1
    assert result.json["enqueued"] == len(result.json["ids"]) == 2
    assert [error["line"] for error in result.json["errors"]] == [2, 3, 4]
    assert [line.split(":")[1] for line in result.stderr.splitlines()] == [
        " stdin, line 2",
        " stdin, line 3",
        " stdin, line 4",
    ]
    assert [job.command for job in cli.queue.list()] == ["y", "x", "first"]
    plain = cli.run("enqueue", "--file", "-", "--keep-going", input=text)
    assert plain.stdout == "Enqueued 1 job; 4 lines could not be.\n"


def test_keep_going_passes_over_what_the_queue_refuses(cli: Cli) -> None:
    cli.add("first", "--id", "held", "--unique", "k")
    cli.queue.limits.set("small", max_waiting=2)
    asked: list[dict[str, Any]] = [
        {"id": "a"},
        {"id": "lost", "after": ["nix"]},
        {"id": "b", "after": ["a"]},
        {"id": "c", "queue": "small"},
        {"id": "twice", "unique": "k", "on_duplicate": "reject"},
        {"id": "d", "queue": "small"},
        {"id": "e", "queue": "small"},
        {"id": "f"},
        {"id": "behind", "after": ["lost"]},
        {"id": "g"},
    ]
    text = "\n".join(json.dumps({"command": "true", **one}) for one in asked)
    result = cli.run("enqueue", "--file", "-", "--keep-going", "--json", input=text)
    assert (result.code, result.json["enqueued"]) == (1, 6)
    assert result.json["ids"] == list("abcdfg")
    assert result.json["errors"] == [
        {"line": 2, "error": "stdin, line 2: There is no job 'nix' for lost to wait for."},
        {"line": 5, "error": "stdin, line 5: Job held has the unique key 'k', and waits."},
        {"line": 7, "error": "stdin, line 7: Queue small is full."},
        {"line": 9, "error": "stdin, line 9: There is no job 'lost' for behind to wait for."},
    ]
    assert "nothing was enqueued" not in result.stderr
    assert [job.id for job in cli.queue.list()] == [*"gfdcba", "held"]


def test_keep_going_follows_with_many_that_are_refused(cli: Cli) -> None:
    cli.queue.limits.set("small", max_waiting=150)
    lines = "true\n" * 400
    how = ("--lines", "-", "--keep-going", "--queue", "small", "--json")
    result = cli.run("enqueue", *how, input=lines)
    assert (result.code, result.json["enqueued"]) == (1, 150)
    assert [one["line"] for one in result.json["errors"]] == [*range(151, 401)]


def test_an_empty_file_is_no_error(cli: Cli) -> None:
    assert cli.ok("enqueue", "--lines", "-").stdout == "Enqueued 0 jobs.\n"


def test_quiet_prints_bare_ids(cli: Cli) -> None:
    assert cli.ok("enqueue", "x", "--id", "a", "-q").stdout == "a\n"
    text = '{"id":"b","command":"x"}\n{"id":"c","command":"x"}\n'
    assert cli.ok("enqueue", "--file", "-", "-q", input=text).stdout == "b\nc\n"


def test_many_lines_show_progress_on_a_terminal_only(cli: Cli, tmp_path: Path) -> None:
    file = tmp_path / "many.txt"
    file.write_text("true\n" * 60_000)
    assert "Enqueueing" not in cli.ok("enqueue", "--lines", str(file)).stderr
    shown = cli.on_terminal("enqueue", "--lines", str(file)).stdout
    assert "Enqueueing" in shown
    assert "Enqueued 60,000 jobs." in shown
    assert cli.queue.status().total == 120_000


# -- staying ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "code", "end"),
    [
        ("exit 0", 0, "completed"),
        ("exit 7", 7, "is dead: exit code 7"),
        ("kill -TERM $$", 143, "is dead: killed by SIGTERM"),
        ("sleep 60", 124, "is dead: timed out after 200ms"),
    ],
)
def test_wait_exits_as_the_job_did(working: Cli, command: str, code: int, end: str) -> None:
    args = ("enqueue", command, "--max-retries", "0", "--timeout", "0.2", "--wait")
    result = working.run(*args)
    assert result.code == code
    assert result.stdout.startswith("Enqueued job ")
    assert end in result.stderr
    quiet = working.run(*args, "-q")
    assert (quiet.code, quiet.stderr, len(quiet.lines)) == (code, "", 1)


def test_wait_for_a_program_that_is_missing_or_a_cancelled_job(working: Cli) -> None:
    assert working.run("enqueue", "--max-retries", "0", "-w", "--", "no-such-program").code == 1
    waiting = working.start("enqueue", "sleep 60", "--id", "doomed", "-w")
    wait_for(lambda: working.queue.store.jobs.get("doomed"), "the job")
    working.queue.cancel("doomed")
    assert waiting.wait(60) == 1


def test_wait_with_json_prints_the_finished_job(working: Cli) -> None:
    result = working.run("enqueue", "exit 3", "--max-retries", "0", "--wait", "--json")
    assert result.code == 3
    assert (result.json["state"], result.json["exit_code"]) == ("dead", 3)


def test_wait_for_a_file(working: Cli) -> None:
    assert working.ok("enqueue", "--lines", "-", "-w", input="true\ntrue\n").stderr == (
        "2 jobs completed.\n"
    )
    failed = working.run(
        "enqueue", "--lines", "-", "-w", "--max-retries", "0", input="true\nfalse\n"
    )
    assert failed.code == 1
    assert failed.stderr.splitlines()[-1] == "1 job completed, 1 did not: 1 dead."


def test_follow_streams_both_outputs_through_retries(working: Cli) -> None:
    script = (
        'echo "out $QUEUECTL_ATTEMPT"; echo "err $QUEUECTL_ATTEMPT" >&2; sleep 0.2; printf tail;'
        ' test "$QUEUECTL_ATTEMPT" = 2'
    )
    result = working.run("enqueue", script, "--retry-delay", "0.1", "--follow", "-q")
    assert result.code == 0
    assert result.stdout == "out 1\ntailout 2\ntail"
    assert result.stderr == "err 1\nerr 2\n"
    talking = working.run("enqueue", "echo hi", "--follow")
    assert talking.stdout == "hi\n"
    assert "Enqueued job" in talking.stderr


def test_nobody_works_is_said_once(cli: Cli) -> None:
    cli.ok("db", "init")
    process = cli.start("enqueue", "true", "--id", "lonely", "--wait")
    assert process.stderr is not None
    line = process.stderr.readline()
    assert line == b"No worker is running; start one with: queuectl worker start\n"
    cli.node("--drain")
    assert process.wait(60) == 0
    assert cli.queue.get("lonely").state == State.COMPLETED


def test_a_queue_that_no_worker_serves_is_said(cli: Cli) -> None:
    cli.node("--queue", "other")
    process = cli.start("enqueue", "true", "--id", "lonely", "--queue", "my mail", "--wait")
    assert process.stderr is not None
    assert process.stderr.readline() == (
        b"No worker serves my mail; start one with: queuectl worker start --queue 'my mail'\n"
    )
    cli.node("--queue", "my mail")
    assert process.wait(60) == 0


def test_who_gives_a_file_of_commands_as_json_is_told_what_reads_it(cli: Cli) -> None:
    told = cli.refused("enqueue", "--file", "-", input="echo hi\n", code=2)
    assert told.endswith("at column 1; --lines reads a command per line.")
    for bad in ('{"command": 1}', "{", '["true"]'):
        assert "--lines" not in cli.refused("enqueue", "--file", "-", input=bad, code=2)
