"""`wait` with many failures, and the progress bar that is shown meanwhile."""

import re

import pytest

from tests.cli.conftest import Cli
from tests.cli.screen import screen_of
from tests.support import PATIENCE, wait_for

FAILED, FINE = 27, 3
JOBS = "".join(f"echo no {n} >&2; exit 3\n" for n in range(FAILED)) + "true\n" * FINE
SUMMARY = "3 jobs completed, 27 did not: 27 dead."
OPTIONS = ("--tag", "big sweep", "--queue", "q", "--max-retries", "0")


def told(stderr: str) -> tuple[list[str], str, str]:
    """Check the lines about each failed job; returns them, and the two that follow them."""
    lines = [line for line in stderr.splitlines() if not line.startswith("No worker is running")]
    *failed, more, summary = lines
    assert len(failed) == 20
    dead = (
        r"Job \S+ \(echo no (\d+) >&2; exit 3\) is dead: exit code 3: no \1; no retries allowed\."
    )
    for line in failed:
        assert re.fullmatch(dead, line), line
    return failed, more, summary


def test_enqueue_and_wait_for_many_that_fail(working: Cli) -> None:
    result = working.run("enqueue", "--lines", "-", "--wait", *OPTIONS, input=JOBS)
    assert result.code == 1
    _, more, summary = told(result.stderr)
    assert more == "... and 7 more; see all with: queuectl dlq list --limit 0"
    assert summary == SUMMARY


@pytest.mark.parametrize(
    ("args", "command"),
    [
        (("--tag", "big sweep"), "queuectl dlq list --limit 0 --tag 'big sweep'"),
        (("--queue", "q"), "queuectl dlq list --limit 0 --queue q"),
        (("--all",), "queuectl dlq list --limit 0"),
    ],
)
def test_wait_for_many_that_fail(cli: Cli, args: tuple[str, ...], command: str) -> None:
    # Those that died before the waiting began are others' business, but for a tag.
    cli.add("exit 4", "--queue", "q", "--max-retries", "0")
    cli.node("--drain").wait(PATIENCE)
    cli.ok("enqueue", "--lines", "-", *OPTIONS, input=JOBS)
    waiting = cli.start("wait", *args)
    assert waiting.stderr is not None
    assert waiting.stderr.readline().startswith(b"No worker is running")
    cli.node("--drain", count=4)
    assert waiting.wait(PATIENCE) == 1
    failed, more, summary = told(waiting.stderr.read().decode())
    assert len(set(failed)) == 20
    assert more == f"... and 7 more; see all with: {command}"
    assert summary == SUMMARY


def test_the_command_that_shows_all_does_so(working: Cli) -> None:
    working.run("enqueue", "--lines", "-", *OPTIONS, input=JOBS)
    result = working.run("wait", "--tag", "big sweep")
    _, more, _ = told(result.stderr)
    assert more.endswith("queuectl dlq list --limit 0 --tag 'big sweep'")
    listed = working.ok("dlq", "list", "--limit", "0", "--tag", "big sweep").lines
    assert len([line for line in listed if "no retries allowed" in line]) == FAILED


def test_cancelled_and_removed_jobs_are_told_apart(cli: Cli) -> None:
    ids = [cli.add("true", "--id", f"job{n}") for n in range(30)]
    for id in ids[5:]:
        cli.queue.cancel(id)
    cli.queue.remove(ids[29])
    cli.queue.remove(ids[28])
    cli.node("--drain").wait(PATIENCE)
    waiting = cli.run("wait", *ids[:28])
    *failed, more, summary = waiting.stderr.splitlines()
    assert len(failed) == 20
    assert more == "... and 3 more; see all with: queuectl list --state dead,cancelled --limit 0"
    assert summary == "5 jobs completed, 23 did not: 23 cancelled."


@pytest.mark.parametrize(
    "args", [("--all",), ("--queue", "q"), ("--tag", "t"), ("one", "two")], ids=" ".join
)
def test_what_is_not_due_is_told(cli: Cli, args: tuple[str, ...]) -> None:
    cli.node("--queue", "q")
    cli.add("true", "--id", "one", "--tag", "t", "--queue", "q", "--delay", "1h")
    if args == ("--all",):
        waiting = cli.start("wait", *args)
        assert waiting.stderr is not None
        line = waiting.stderr.readline().decode()
        assert re.fullmatch(
            r"Job one isn't due until \S+ \(in \S+\); run it now with: queuectl retry one\n", line
        )
    cli.add("true", "--id", "two", "--tag", "t", "--queue", "q", "--delay", "2h")
    waiting = cli.start("wait", *args)
    assert waiting.stderr is not None
    line = waiting.stderr.readline().decode()
    assert re.fullmatch(r"None of them is due before \S+ \(in \S+\)\.\n", line), line


def test_what_runs_is_not_told_to_be_late(cli: Cli) -> None:
    cli.node()
    cli.add("until [ -e go ]; do sleep 0.02; done", "--id", "runs")
    cli.add("true", "--id", "late", "--delay", "1h")
    wait_for(lambda: cli.queue.get("runs").state == "processing", "the job to run")
    result = cli.run("wait", "--all", "--timeout", "1.5")
    assert result.stderr == "queuectl: 2 jobs not finished after 1.5s; see queuectl list.\n"
    (cli.folder / "go").touch()


def test_a_single_job_says_its_last_word(working: Cli) -> None:
    result = working.run("enqueue", "echo oh no >&2; exit 3", "--wait", "--max-retries", "0")
    assert result.code == 3
    assert result.stderr.endswith("is dead: exit code 3: oh no; no retries allowed.\n")


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_the_bar_has_failures_and_time_left_on_one_line(working: Cli, columns: int) -> None:
    gate = "until [ -e {} ]; do sleep 0.02; done\n"
    jobs = "exit 1\n" * 12 + gate.format("go") + gate.format("never") * 500
    working.ok("enqueue", "--lines", "-", "--max-retries", "0", "--tag", "t", input=jobs)
    bars: list[str] = []

    def watch(shown: bytes) -> None:
        text = shown.decode(errors="ignore")
        bars.extend(line for line in screen_of(text, columns=columns) if "/513" in line)
        if bars and "12 dead" in bars[-1]:
            (working.folder / "go").touch()

    args = ("wait", "--tag", "t")
    result = working.on_terminal(*args, columns=columns, watch=watch, until=" left", key=b"\x03")
    assert result.code == 130
    bar = next(bar for bar in reversed(bars) if " left" in bar)
    assert re.search(r"Waiting .* \d+/513 \d+ dead \d+:\d\d:\d\d \S+ left", bar), bar
    assert "\x1b[31m" in result.stdout, "the dead are red"
    # Had it wrapped, pieces of it would be left.
    assert screen_of(result.stdout, columns=columns)[-1].startswith("Nothing was stopped")
    assert not [line for line in screen_of(result.stdout, columns=columns) if "/513" in line]
    (working.folder / "never").touch()


def test_the_bar_has_no_colours_where_they_are_not_wanted(cli: Cli) -> None:
    cli.add("true")
    cli.variables = {"QUEUECTL_COLOR": "never"}
    shown = cli.on_terminal("wait", "--all", until="0/1", key=b"\x03").stdout
    assert "0/1" in shown
    assert not re.search(r"\x1b\[[0-9;]*3[0-9]", shown)
