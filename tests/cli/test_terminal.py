"""What jobs print, on a terminal: progress bars and colours as they are meant, nothing else."""

import pytest

from tests.cli.conftest import Cli, Result
from tests.cli.screen import screen_of
from tests.support import PATIENCE

WIDTHS = (60, 80, 200)
TQDM = r"""
printf '\r  0%%|          | 0/3 [00:00<?, ?it/s]' >&2
printf '\r 33%%|###3      | 1/3 [00:00<00:00,  9.88it/s]' >&2
printf '\r100%%|##########| 3/3 [00:00<00:00, 9.88it/s] ' >&2
printf '\r100%%|##########| 3/3 [00:00<00:00, 9.88it/s]\n' >&2
"""
CURL = r"""
printf '  %% Total    %% Received\n' >&2
for n in 10 50 100; do printf '\r%3d  1024  %3d' $n $n >&2; done
printf '\n' >&2
"""
PYTEST = r"printf '\033[1mtest session\033[0m\n\033[32m.\033[0m\033[32m [100%%]\033[0m\n'"
CARGO = r"""
printf '\033[1m\033[36m    Building\033[0m [=>   ] 1/9\r' >&2
printf '\033[K\033[1m\033[32m   Compiling\033[0m libc v0.2\n' >&2
printf '\033[1m\033[36m    Building\033[0m [====>] 9/9\r\033[K\033[32mFinished\033[0m dev\n' >&2
"""
SEVERAL_BARS = r"""
for n in 1 2 3; do printf '\repoch %d\n\rbatch %d\033[A' $n $n >&2; done; printf '\n\n' >&2
"""


def run(cli: Cli, script: str) -> str:
    """Run a job to its end; returns its id."""
    id = cli.add(script)
    cli.queue.wait(id, timeout=PATIENCE)
    return id


def lines(shown: Result, columns: int) -> list[str]:
    return screen_of(shown.stdout, columns=columns)


@pytest.mark.parametrize("columns", WIDTHS)
def test_what_progress_bars_print_looks_as_it_is_meant(working: Cli, columns: int) -> None:
    for script, expected in (
        (TQDM, ["100%|##########| 3/3 [00:00<00:00, 9.88it/s]"]),
        (CURL, ["  % Total    % Received", "100  1024  100"]),
        (PYTEST, ["test session", ". [100%]"]),
        (CARGO, ["   Compiling libc v0.2", "Finished dev"]),
        (SEVERAL_BARS, ["epoch 3", "batch 3"]),
    ):
        id = run(working, script)
        assert lines(working.on_terminal("logs", id, columns=columns), columns) == expected
        output = lines(working.on_terminal("output", id, columns=columns), columns)
        assert output[-len(expected) :] == expected


@pytest.mark.parametrize("columns", WIDTHS)
def test_a_job_that_is_followed_while_it_prints(working: Cli, columns: int) -> None:
    shown = working.on_terminal("enqueue", "-f", TQDM + "printf unended", columns=columns)
    assert shown.code == 0
    *_, first, second, ended = lines(shown, columns)
    # Both streams are followed; which is read first is open, but neither overwrites the other.
    assert {first, second} == {"100%|##########| 3/3 [00:00<00:00, 9.88it/s]", "unended"}
    assert ended.startswith("Job ")
    assert " completed in " in ended


def test_real_tools_that_colour(working: Cli) -> None:
    (working.folder / "file").write_text("one\ntwo\n")
    id = run(working, "grep --color=always tw file; TERM=xterm tput sgr0; echo end")
    shown = working.on_terminal("logs", id)
    assert screen_of(shown.stdout) == ["two", "end"]
    assert "\x1b[" in shown.stdout


def test_colours_are_reset_at_the_end_of_what_is_shown(working: Cli) -> None:
    id = run(working, r"printf '\033[31mred'; printf '\033[1;32mgreen' >&2")
    assert working.on_terminal("logs", id, "--stdout").stdout == "\x1b[31mred\x1b[0m\n"
    assert working.on_terminal("logs", id, "--stderr").stdout == "\x1b[1;32mgreen\x1b[0m\n"
    assert working.on_terminal("output", id, "--stdout").stdout == "\x1b[31mred\x1b[0m\n"
    whole = working.on_terminal("output", id).stdout
    assert "\x1b[31mred\x1b[0m\n" in whole
    assert whole.endswith("\x1b[1;32mgreen\x1b[0m\n")


def test_colours_are_reset_when_interrupted(working: Cli) -> None:
    id = working.add(r"printf '\033[31mred'; sleep 60")
    shown = working.on_terminal("logs", "-f", id, until="red", key=b"\x03")
    assert shown.code == 130
    assert "\x1b[0m" in shown.stdout.partition("red")[2]
    followed = working.on_terminal(
        "enqueue", "-f", r"printf '\033[32mgreen'; sleep 60", until="\x1b[32mgreen", key=b"\x03"
    )
    before, _, _ = followed.stdout.partition("Nothing was stopped")
    assert "\x1b[0m" in before.partition("\x1b[32mgreen")[2]
    for job in working.queue.list(state="processing"):
        working.queue.cancel(job.id)


def test_colours_end_before_a_gap_and_between_runs(working: Cli) -> None:
    working.queue.set_setting("output_limit", "1000")
    id = run(working, r"printf '\033[31mred:'; seq 10000")
    shown = working.on_terminal("logs", id).stdout
    assert "\x1b[0m\n[... 47,903 bytes left out ...]\n" in shown
    script = r"printf '\033[31mrun %s' $QUEUECTL_ATTEMPT; test $QUEUECTL_ATTEMPT = 2"
    twice = working.on_terminal("enqueue", "-f", script, "--retry-delay", "0").stdout
    assert "\x1b[31mrun 1\x1b[0m\nJob " in twice
    assert "\x1b[31mrun 2\x1b[0m\nJob " in twice


@pytest.mark.parametrize(
    ("name", "value"), [("NO_COLOR", "1"), ("QUEUECTL_COLOR", "never"), ("TERM", "dumb")]
)
def test_no_colours_where_they_are_not_wanted(working: Cli, name: str, value: str) -> None:
    id = run(working, PYTEST)
    working.variables = {name: value}
    for args in (("logs", id), ("output", id), ("enqueue", "-f", PYTEST), ("logs", id, id)):
        shown = working.on_terminal(*args).stdout
        assert "\x1b" not in shown
        assert ". [100%]" in shown
    assert "\x1b[32m" in working.on_terminal("logs", id, "--raw").stdout
    assert b"\x1b[32m" in working.ok("logs", id).out, "off a terminal, bytes as they are"


def test_everything_else_is_shown_and_raw_lets_it_through(working: Cli) -> None:
    script = r"printf 'a\033]0;title\007b\033[2Jc\033[Hd\033[5Ae\033[?1049hf\033'"
    shown = r"a\x1b]0;title\x07b\x1b[2Jc\x1b[Hd\x1b[5Ae\x1b[?1049hf\x1b"
    id = run(working, script)
    assert shown in working.on_terminal("logs", id).stdout
    assert shown in working.on_terminal("output", id).stdout
    assert shown in working.on_terminal("enqueue", "-f", script, columns=200).stdout
    raw = "\x1b]0;title\x07b\x1b[2Jc\x1b[Hd\x1b[5Ae"
    for args in (("logs", id), ("output", id), ("enqueue", "-f", script)):
        assert raw in working.on_terminal(*args, "--raw").stdout
    assert "--raw is for --follow" in working.refused("enqueue", "true", "--raw", code=2)


def test_a_sequence_that_comes_in_two_parts(working: Cli) -> None:
    # The second part is written once the first has been read: what stands before it is shown.
    (working.folder / "go").unlink(missing_ok=True)
    script = r"printf 'red: \033[3'; until [ -e go ]; do sleep 0.02; done; printf '1mred\033[0m\n'"
    seen: list[bytes] = []

    def go(shown: bytes) -> None:
        if b"red: " in shown.rpartition(b"sleep")[2] and not seen:
            seen.append(shown)
            (working.folder / "go").touch()

    id = working.add(script)
    shown = working.on_terminal("logs", "-f", id, watch=go)
    assert seen
    assert not seen[0].endswith((b"[3", b"\\x1b")), "an unfinished sequence is held back"
    assert shown.stdout == "red: \x1b[31mred\x1b[0m\n"


@pytest.mark.parametrize("columns", WIDTHS)
def test_of_several_jobs_a_line_is_shown_as_it_ends(working: Cli, columns: int) -> None:
    for name in ("one", "two"):
        working.add(TQDM + PYTEST + r"; printf '\033[31mred\r\nstill red\n'", "--id", name)
    working.ok("wait", "one", "two")
    shown = working.on_terminal("logs", "one", "two", columns=columns)
    bar = "100%|##########| 3/3 [00:00<00:00, 9.88it/s]"
    assert sorted(lines(shown, columns)) == sorted(
        line
        for name in ("one", "two")
        for line in (
            f"{name} ! {bar}",
            f"{name} | test session",
            f"{name} | . [100%]",
            f"{name} | red",
            f"{name} | still red",
        )
    )
    assert shown.stdout.count("\x1b[31mred\x1b[0m\n") == 2, "reset at the end of each line"
    assert shown.stdout.count("\x1b[31mstill red\x1b[0m\n") == 2, "and taken up again"


def test_a_progress_bar_without_an_end_is_kept_short(working: Cli) -> None:
    bars = r"for n in $(seq 9000); do printf '\rbar %8d' $n; done; printf '\n'"
    for name in ("one", "two"):
        working.add(bars, "--id", name)
    working.ok("wait", "one", "two")
    shown = working.on_terminal("logs", "one", "two")
    assert lines(shown, 80) == ["one | bar     9000", "two | bar     9000"]
    piped = working.ok("logs", "one", "two").out
    assert piped.count(b"\r") == 18_000, "off a terminal, bytes as they are"


def test_the_last_word_of_a_job_has_no_colours(working: Cli) -> None:
    id = working.add(
        r"printf '\033[31;1mError: boom\033[0m\n\033[0m' >&2; exit 3", "--retries", "0"
    )
    job = working.queue.wait(id, timeout=PATIENCE)[0]
    assert job.error == "exit code 3: Error: boom"
