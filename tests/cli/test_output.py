"""`output` and `logs`: what jobs wrote, exactly, safely, and while they write it."""

import json
import re
import signal
import subprocess
from base64 import b64decode, b64encode

import pytest

from queuectl import State
from tests.cli.conftest import COMMAND, Cli
from tests.support import PATIENCE, wait_for

NASTY = b"bell\x07 red\x1b[31m utf8 \xc3\xa9 c1\xc2\x9b bidi\xe2\x80\xae raw\xff\x00 tab\t\r\n"


def finish(cli: Cli, command: str, *args: str) -> str:
    """Run a job to its end; returns its id."""
    id = cli.add(command, *args)
    cli.queue.wait(id, timeout=PATIENCE)
    return id


def nasty(cli: Cli) -> str:
    """Run a job that writes what a terminal shouldn't get; returns its id."""
    (cli.folder / "nasty").write_bytes(NASTY)
    return finish(cli, "cat nasty; cat nasty >&2")


# -- output -------------------------------------------------------------------


def test_output_has_the_facts_and_both_streams(working: Cli) -> None:
    id = finish(working, "echo out; printf err >&2; exit 3", "--max-retries", "0", "-t", "30")
    shown = working.ok("output", id).stdout
    for text in (
        f"--- Job {id} ---\n",
        "Command:   echo out; printf err >&2; exit 3\n",
        "State:     dead\n",
        "Reason:    exit code 3; no retries allowed\n",
        "Exit code: 3\n",
        "Priority:  0\n",
        "Attempts:  1/1\n",
        "Timeout:   30s\n",
        "Started:   ",
        "Finished:  ",
        "Duration:  ",
        "Created:   ",
    ):
        assert text in shown
    assert shown.endswith("\n--- Output ---\nSTDOUT:\nout\nSTDERR:\nerr\n")


def test_output_of_several_jobs(working: Cli) -> None:
    first, second = finish(working, "echo one"), finish(working, "echo two")
    assert working.ok("output", second, first, "--stdout").stdout == "two\none\n"
    shown = working.ok("output", first, second).stdout
    assert shown.index(f"--- Job {first} ---") < shown.index(f"\n\n--- Job {second} ---")
    told = working.ok("output", first, second, "--json").json
    assert [each["stdout"] for each in told] == ["one\n", "two\n"]
    assert working.ok("output", first, "--json").json["stdout"] == "one\n"
    refused = working.refused("output", first, second, "--attempt", "1", code=2)
    assert "--attempt is for one job" in refused


def test_output_of_each_attempt(working: Cli) -> None:
    id = finish(
        working, 'echo "run $QUEUECTL_ATTEMPT"; exit 1', "--max-retries", "1", "--retry-delay", "0"
    )
    assert working.ok("output", id, "--stdout").stdout == "run 2\n"
    assert working.ok("output", id, "--stdout", "--attempt", "1").stdout == "run 1\n"
    first = working.ok("output", id, "--attempt", "1").stdout
    assert "--- Output of run 1 ---" in first
    assert re.search(r"^Run 1 of 2: exited with 1$", first, re.MULTILINE)
    assert "State:      dead\n" in first
    assert "Ended:" in first
    assert "Finished:" not in first
    assert "has no attempt 3; it has 2" in working.refused("output", id, "--attempt", "3", code=3)
    assert "has no attempt 3; it has 2" in working.refused("logs", id, "--attempt", "3", code=3)


def test_streams_are_byte_for_byte_into_a_pipe(working: Cli) -> None:
    id = nasty(working)
    assert working.ok("output", id, "--stdout").out == NASTY
    assert working.ok("output", id, "--stderr").out == NASTY
    logs = working.ok("logs", id)
    assert (logs.out, logs.err) == (NASTY, NASTY)
    assert NASTY in working.ok("output", id).out


@pytest.mark.parametrize("command", ["output", "logs"])
def test_control_characters_reach_a_terminal_only_when_asked(working: Cli, command: str) -> None:
    id = nasty(working)
    harmless = (
        b"bell\\x07 red\x1b[31m utf8 \xc3\xa9 c1\\x9b bidi\\u202e raw\\xff\\x00 tab\t\r\n\x1b[0m"
    )
    assert harmless in working.on_terminal(command, id, "--stdout").out
    assert working.on_terminal(command, id).out.count(harmless) == 2
    raw = working.on_terminal(command, id, "--stdout", "--raw").out
    assert NASTY.removesuffix(b"\n") in raw


def test_output_as_json(working: Cli) -> None:
    id = nasty(working)
    found = working.ok("output", id, "--json").json
    assert b64decode(found["stdout_base64"]) == NASTY
    assert found["stdout"] == NASTY.decode(errors="replace")
    assert (found["stdout_bytes"], found["attempt"], found["live"]) == (len(NASTY), 1, False)
    assert found["job"]["id"] == id
    plain = working.ok("output", finish(working, "echo hi"), "--json").json
    assert (plain["stdout"], plain["stdout_base64"], plain["stderr"]) == ("hi\n", None, "")


def test_no_output(cli: Cli) -> None:
    id = cli.add("true")
    assert cli.ok("output", id).stdout.endswith("--- Output ---\nNo output available yet.\n")
    assert cli.ok("output", id, "--stdout").out == b""
    assert cli.ok("output", id, "--json").json["attempt"] is None
    assert cli.ok("logs", id).out == b""
    cli.node("--drain")
    cli.ok("wait", id)
    assert cli.ok("output", id).stdout.endswith("--- Output ---\nNo output.\n")


def test_output_of_a_job_that_runs(working: Cli) -> None:
    id = working.add("echo so far; echo err >&2; touch there; sleep 60")
    wait_for((working.folder / "there").exists, "the job to write")
    shown = working.ok("output", id).stdout
    assert "State:    processing\n" in shown
    assert shown.endswith("STDOUT:\nso far\nSTDERR:\nerr\n")
    assert working.ok("output", id, "--json").json["live"] is True
    logs = working.ok("logs", id)
    assert (logs.stdout, logs.stderr) == ("so far\n", "err\n")
    working.queue.cancel(id)


def test_long_output_is_marked_where_it_is_cut(working: Cli) -> None:
    working.queue.set_setting("output_limit", "1000")
    id = finish(working, "echo first; seq 100000; echo last")
    told = working.ok("output", id, "--stdout")
    shown = told.stdout
    assert "587,906 bytes in the middle were not kept" in told.stderr
    assert not working.ok("output", id, "--stderr").stderr
    assert shown.startswith("first\n1\n2\n")
    assert shown.endswith("99999\n100000\nlast\n")
    assert "\n[... 587,906 bytes left out ...]\n" in shown
    assert working.ok("logs", id).stdout == shown


# -- logs ---------------------------------------------------------------------


def test_a_line_is_shown_while_the_run_waits_for_its_reader(working: Cli) -> None:
    """Each line is written only when the one before it was read here: nothing is held back."""
    script = "for n in 1 2 3 4 5; do echo $n; until [ -e seen$n ]; do sleep 0.05; done; done"
    id = working.add(script)
    following = working.start("logs", "-f", id)
    assert following.stdout is not None
    for n in range(1, 6):
        assert following.stdout.readline() == b"%d\n" % n
        (working.folder / f"seen{n}").touch()
    assert following.stdout.read() == b""
    assert following.wait(60) == 0


def test_following_never_loses_the_end(working: Cli) -> None:
    id = working.add("sleep 0.3; seq 200000; printf 'no newline'")
    expected = b"".join(b"%d\n" % n for n in range(1, 200_001)) + b"no newline"
    assert len(expected) > 2**20, "longer than is kept"
    shown = working.run("logs", "-f", id).out
    # Too fast to be followed whole, it may have a gap; its ends are there, and in order.
    assert shown.startswith(expected[: 2**19])
    assert shown.endswith(expected[-(2**19) :])
    short = working.add("sleep 0.3; seq 30000")
    assert working.run("logs", "-f", short).lines == [str(n) for n in range(1, 30_001)]


def test_slow_output_longer_than_the_limit_is_followed_whole(working: Cli) -> None:
    working.queue.set_setting("output_limit", "4096")
    await_reader = "until [ -e seen$i ]; do sleep 0.01; done"
    id = working.add(f"for i in 1 2 3 4 5 6; do seq 1000; {await_reader}; done")
    following = working.start("logs", "-f", id)
    assert following.stdout is not None
    shown = []
    for part in range(1, 7):
        shown += list(iter(following.stdout.readline, b"1000\n"))
        (working.folder / f"seen{part}").touch()
    assert shown == [b"%d\n" % n for _ in range(6) for n in range(1, 1000)]
    assert following.stdout.read() == b""
    assert following.wait(PATIENCE) == 0


def test_following_goes_on_through_retries(working: Cli) -> None:
    id = working.add(
        'echo "run $QUEUECTL_ATTEMPT"; echo "err $QUEUECTL_ATTEMPT" >&2; [ $QUEUECTL_ATTEMPT = 3 ]',
        "--retry-delay",
        "0.2",
    )
    result = working.ok("logs", "-f", "--all", id)
    assert result.stdout == "run 1\nrun 2\nrun 3\n"
    assert result.stderr == "err 1\nerr 2\nerr 3\n"
    assert working.ok("logs", id).stdout == "run 3\n"
    assert working.ok("logs", id, "--attempt", "2", "-f").stdout == "run 2\n"
    assert working.ok("logs", id, "--all", "--stderr").stderr == "err 1\nerr 2\nerr 3\n"


def test_several_jobs_are_prefixed(working: Cli) -> None:
    for name in ("one", "two"):
        working.add(f"echo {name} a; sleep 0.2; echo {name} b >&2; printf end", "--id", name)
    result = working.ok("logs", "-f", "one", "two")
    assert result.stderr == ""
    assert sorted(result.lines) == [
        "one ! one b",
        "one | end",
        "one | one a",
        "two ! two b",
        "two | end",
        "two | two a",
    ]


def test_the_jobs_of_a_tag(working: Cli) -> None:
    for name, tags in (("one", "ab"), ("two", "a"), ("three", "b")):
        queue = "q" if name == "two" else "default"
        options = [word for tag in tags for word in ("--tag", tag)]
        working.add(f"echo {name}; echo err >&2", "--id", name, "--queue", queue, *options)
    working.ok("wait", "one", "two", "three")
    assert sorted(working.ok("logs", "--tag", "a").lines) == [
        "one ! err",
        "one | one",
        "two ! err",
        "two | two",
    ]
    assert sorted(working.ok("logs", "-T", "a", "-f").lines) == [
        "one ! err",
        "one | one",
        "two ! err",
        "two | two",
    ]
    assert working.ok("logs", "-T", "a", "-T", "b", "--stdout").lines == ["one | one"]
    assert working.ok("logs", "-T", "a", "-Q", "q", "--stdout", "-f").lines == ["two | two"]
    assert "No job has the tag 'c'" in working.refused("logs", "--tag", "c", code=3)
    assert "No job has the tag 'c'" in working.refused("logs", "--tag", "c", "-f", code=3)


def test_a_tag_is_followed_until_all_its_jobs_are_finished(cli: Cli) -> None:
    count = 250  # more than a page
    lines = "".join(f"echo {n}\n" for n in range(count))
    cli.ok("enqueue", "--lines", "-", "--tag", "sweep", input=lines)
    cli.add("echo other")
    cli.node("--drain", count=4).wait(PATIENCE)
    cli.ok("enqueue", "--lines", "-", "--tag", "sweep", input=lines)
    gate = cli.add("until [ -e stop ]; do sleep 0.02; done; echo gate", "--tag", "sweep")
    following = cli.start("logs", "-f", "--tag", "sweep")
    assert following.stdout is not None
    shown = [following.stdout.readline() for _ in range(count)]
    cli.node(count=4)
    shown += [following.stdout.readline() for _ in range(count)]
    assert sorted(int(line.split()[-1]) for line in shown) == sorted([*range(count)] * 2)
    # One that joins while others go on is followed, too.
    cli.add("echo late", "--tag", "sweep", "--id", "late")
    assert following.stdout.readline() == b"late | late\n"
    (cli.folder / "stop").touch()
    assert following.stdout.read() == f"{gate} | gate\n".encode()
    assert following.wait(PATIENCE) == 0


def test_all_runs_of_a_tag(working: Cli) -> None:
    script = "echo run $QUEUECTL_ATTEMPT; test $QUEUECTL_ATTEMPT = 2"
    working.add(script, "--id", "twice", "--tag", "t", "--retry-delay", "0")
    working.ok("wait", "twice")
    assert working.ok("logs", "-T", "t").lines == ["twice | run 2"]
    assert working.ok("logs", "-T", "t", "--all").lines == ["twice | run 1", "twice | run 2"]
    assert working.ok("logs", "-T", "t", "-a", "-f").lines == ["twice | run 1", "twice | run 2"]


def test_lines_as_json(working: Cli) -> None:
    script = (
        r"printf 'one\n\ntail'; printf 'bad \377\n\033[31mred\n' >&2; test $QUEUECTL_ATTEMPT = 2"
    )
    id = finish(working, script, "--retry-delay", "0")
    for args in (("--all",), ("--all", "-f")):
        found = [json.loads(line) for line in working.ok("logs", id, "--json", *args).lines]
        assert [(line["id"], line["attempt"]) for line in found] == [(id, 1)] * 5 + [(id, 2)] * 5
        of_run = [
            (line["stream"], line["text"], line["text_base64"], line["newline"])
            for line in found[:5]
        ]
        assert sorted(of_run, key=str) == sorted(
            [
                ("stdout", "one", None, True),
                ("stdout", "", None, True),
                ("stdout", "tail", None, False),
                ("stderr", "bad \ufffd", b64encode(b"bad \xff").decode(), True),
                ("stderr", "\x1b[31mred", None, True),
            ],
            key=str,
        )
    only = working.ok("logs", id, "--json", "--stderr").lines
    assert {json.loads(line)["stream"] for line in only} == {"stderr"}
    on_terminal = working.on_terminal("logs", id, "--json").stdout
    assert len([json.loads(line) for line in on_terminal.splitlines()]) == 5
    assert "--raw" in working.refused("logs", id, "--json", "--raw", code=2)


def test_a_gap_as_json(working: Cli) -> None:
    working.queue.set_setting("output_limit", "1000")
    id = finish(working, "printf x; seq 100000")
    found = [json.loads(line) for line in working.ok("logs", id, "--json").lines]
    (gap,) = (line for line in found if "gap_bytes" in line)
    assert gap == {"id": id, "attempt": 1, "stream": "stdout", "gap_bytes": 587_896}
    before, after = found[found.index(gap) - 1], found[found.index(gap) + 1]
    assert (before["newline"], after["newline"]) == (False, True)
    text = "".join(
        line["text"] + "\n" * line["newline"] for line in found if "gap_bytes" not in line
    )
    assert text.encode() == working.queue.output(id).stdout


def test_a_very_long_line_as_json_comes_in_pieces(working: Cli) -> None:
    id = finish(working, "head -c 200000 /dev/zero | tr '\\0' x; echo")
    found = [json.loads(line) for line in working.ok("logs", id, "--json").lines]
    assert found[-1]["newline"] is True
    assert "".join(line["text"] for line in found) == "x" * 200_000


def test_everything_that_runs_as_json(working: Cli) -> None:
    following = working.start_reader("logs", "--json")
    assert following.stdout is not None
    working.queue.enqueue("echo hi", id="quick")
    line = json.loads(following.stdout.readline())
    assert (line["id"], line["attempt"], line["stream"]) == ("quick", 1, "stdout")
    assert line["text"] == "hi"


@pytest.mark.parametrize("args", [("job1",), ("--tag", "t"), ("job1", "job2"), ()])
def test_following_says_that_nobody_works(cli: Cli, args: tuple[str, ...]) -> None:
    for name in ("job1", "job2"):
        cli.add("true", "--id", name, "--tag", "t")
    following = cli.start("logs", "-f", *args)
    assert following.stderr is not None
    assert following.stderr.readline() == (
        b"No worker is running; start one with: queuectl worker start\n"
    )


def test_logs_of_a_job_that_has_not_run_say_why(cli: Cli) -> None:
    id = cli.add("true")
    told = f"Job {id} hasn't run yet: no worker is running.\n"
    assert cli.on_terminal("logs", id).stdout == told
    assert cli.ok("logs", id).stderr == told


def test_everything_is_followed_also_what_is_over_at_once(working: Cli) -> None:
    working.add("echo before", "--id", "old")
    working.ok("wait", "old")
    following = working.start_reader("logs")
    assert following.stdout is not None
    for n in range(5):
        working.queue.enqueue(f"echo quick {n}", id=f"q{n}")
    shown = sorted(following.stdout.readline() for _ in range(5))
    assert shown == [b"q%d | quick %d\n" % (n, n) for n in range(5)]
    working.ok("wait", "q3")  # its output is shown before its end is written
    working.queue.retry("q3")
    assert following.stdout.readline() == b"q3 | quick 3\n"
    working.queue.retry("old")
    assert following.stdout.readline() == b"old | before\n"
    following.send_signal(signal.SIGINT)
    assert following.wait(60) == 130
    assert following.stdout.read() == b""


def test_a_long_line_of_short_jobs_is_followed_whole(cli: Cli) -> None:
    many = 2_200  # more than a reader has in view at once
    cli.ok("enqueue", "--lines", "-", input="".join(f"echo {n}\n" for n in range(many)))
    following = cli.start_reader("logs")
    assert following.stdout is not None
    cli.node(count=4)
    shown = {int(following.stdout.readline().split()[-1]) for _ in range(many)}
    assert shown == set(range(many))


def test_a_job_that_is_removed_ends_the_following(cli: Cli) -> None:
    id = cli.add("true")
    following = cli.start_reader("logs", "-f", id)
    cli.queue.remove(id)
    assert following.wait(60) == 0


def test_logs_refuses_what_makes_no_sense(cli: Cli) -> None:
    cli.add("true", "--id", "abcd")
    assert "--attempt" in cli.refused("logs", "--attempt", "1", code=2)
    assert "--queue" in cli.refused("logs", "abcd", "--queue", "x", code=2)
    assert "--tag" in cli.refused("logs", "abcd", "--tag", "x", code=2)
    assert "Give only one of" in cli.refused("output", "abcd", "--stdout", "--json", code=2)
    assert "There is no job" in cli.refused("logs", "nope", code=3)


def test_output_survives_a_reader_that_leaves(working: Cli) -> None:
    id = finish(working, "seq 100000")
    done = subprocess.run(
        ["sh", "-c", f"{COMMAND} output --stdout {id} | head -1"],
        env=working.env,
        capture_output=True,
        check=False,
    )
    assert (done.stdout, done.stderr) == (b"1\n", b"")
    assert working.queue.get(id).state == State.COMPLETED


def test_a_job_without_output_is_told_of(cli: Cli) -> None:
    late = cli.add("true", "--delay", "1h")
    assert cli.ok("logs", late).stderr.startswith(f"Job {late} hasn't run yet: it isn't due until")
    dies = cli.add("exit 3", "--max-retries", "0")
    fine, talks = cli.add("true"), cli.add("echo no >&2; exit 3", "--max-retries", "0")
    cli.ok("cancel", late)
    cli.ok("worker", "start", "--drain")
    told = f"Job {dies} is dead: exit code 3; no retries allowed.\n"
    assert cli.ok("logs", "-f", dies).stderr == told
    assert cli.ok("logs", "-f", fine).stderr == ""
    assert cli.ok("logs", "-f", talks).stderr == "no\n"
