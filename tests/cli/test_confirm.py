"""What cancels or deletes everything asks on a terminal, and nowhere else."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from queuectl import State
from tests.cli.conftest import Cli


@pytest.fixture(scope="module")
def once_full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with closing(Cli(tmp_path_factory.mktemp("full"))) as cli:
        cli.add("true", "--id", "fine")
        cli.add("exit 1", "--id", "gone", "--max-retries", "0")
        cli.ok("worker", "start", "--drain")
        cli.add("true", "--id", "one")
        cli.add("true", "--id", "two")
    return cli.db


@pytest.fixture
def full(cli: Cli, once_full: Path) -> Cli:
    """A queue with a completed, a dead and two waiting jobs."""
    shutil.copy(once_full, cli.db)
    return cli


def states(cli: Cli) -> dict[str, str]:
    return {job.id: job.state.value for job in cli.queue.list()}


ALL = [
    (["cancel", "--all"], "Cancel 2 jobs? [y/N]"),
    (["cancel", "--state", "all"], "Cancel 2 jobs? [y/N]"),
    (["rm", "--state", "all"], "Remove 4 jobs for good? [y/N]"),
    (["dlq", "purge", "--all"], "Delete 1 job for good? [y/N]"),
    (["prune", "--state", "all", "--older-than", "0"], "Delete 2 finished jobs for good? [y/N]"),
]


@pytest.mark.parametrize(("args", "question"), ALL)
def test_it_asks_and_no_changes_nothing(full: Cli, args: list[str], question: str) -> None:
    before = states(full)
    told = full.on_terminal(*args, until="[y/N]", key=b"\r")
    assert question in told.stdout
    assert told.stdout.endswith("Nothing was changed.\n")
    assert told.code == 1
    interrupted = full.on_terminal(*args, until="[y/N]", key=b"\x03")
    assert interrupted.code == 130
    assert "Traceback" not in interrupted.stdout
    assert full.on_terminal(*args, until="[y/N]", key=b"\x04").code == 130
    assert states(full) == before


@pytest.mark.parametrize(("args", "question"), ALL)
def test_yes_goes_on(full: Cli, args: list[str], question: str) -> None:
    before = states(full)
    assert full.on_terminal(*args, until="[y/N]", key=b"y\r").code == 0
    assert states(full) != before


@pytest.mark.parametrize(("args", "question"), ALL)
def test_it_is_not_asked_when_the_answer_is_given(
    full: Cli, args: list[str], question: str
) -> None:
    before = states(full)
    assert "[y/N]" not in full.on_terminal(*args, "--dry-run").stdout
    assert states(full) == before
    told = full.on_terminal(*args, "--yes")
    assert (told.code, "[y/N]" in told.stdout) == (0, False)
    assert states(full) != before
    # By now there is nothing left to lose.
    assert "[y/N]" not in full.on_terminal(*args).stdout


@pytest.mark.parametrize(("args", "question"), ALL)
def test_without_a_terminal_nobody_is_asked(full: Cli, args: list[str], question: str) -> None:
    before = states(full)
    assert "[y/N]" not in full.ok(*args, input=b"n\n").stderr
    assert states(full) != before


def test_what_is_narrowed_down_is_not_asked_about(full: Cli) -> None:
    for args in (["cancel", "--queue", "default"], ["rm", "--state", "completed"], ["rm", "gone"]):
        told = full.on_terminal(*args)
        assert (told.code, "[y/N]" in told.stdout) == (0, False)
    assert states(full) == {"one": "cancelled", "two": "cancelled"}


def test_cancel_all_takes_what_waits_and_what_runs(working: Cli) -> None:
    working.add("while :; do sleep 0.05; done", "--id", "runs")
    working.add("true", "--id", "later", "--delay", "1h", "--queue", "mail")
    assert "either ids" in working.refused("cancel", "--all", "later", code=2)
    assert "--all" in working.refused("cancel", code=2)
    working.ok("cancel", "--all", "--wait")
    assert states(working) == {"runs": "cancelled", "later": "cancelled"}
    assert working.queue.status().states[State.CANCELLED] == 2


def test_json_may_be_asked_about_as_well(full: Cli) -> None:
    told = full.on_terminal("rm", "--state", "all", "--json", until="[y/N]", key=b"y\r").stdout
    assert '"changed": 4' in told


def test_overwriting_a_copy_asks_first(full: Cli) -> None:
    copy = ["db", "copy", str(full.db), "copy.db", "--overwrite"]
    assert "[y/N]" not in full.on_terminal(*copy).stdout
    told = full.on_terminal(*copy, until="[y/N]", key=b"n\r")
    assert "copy.db holds 4 jobs; delete them? [y/N]" in told.stdout
    assert told.code == 1
    assert full.on_terminal(*copy, "--yes").code == 0
    assert full.on_terminal(*copy, until="[y/N]", key=b"y\r").code == 0
    assert full.ok(*copy).code == 0


def test_a_reset_asks_first(full: Cli) -> None:
    full.ok("config", "set", "max_retries", "7")
    question = f"Delete 4 jobs from sqlite:{full.db}, with all history? [y/N]"
    told = full.on_terminal("db", "reset", until="[y/N]", key=b"n\r")
    assert question in told.stdout.replace("\r\n", "\n")
    assert (told.code, len(states(full))) == (1, 4)
    assert full.ok("db", "reset").stdout.startswith(f"Deleted 4 jobs from sqlite:{full.db}; sett")
    assert states(full) == {}
    assert full.ok("config", "get", "max_retries").stdout == "max_retries = 7\n"
    told = full.ok("db", "reset", "--settings", "--yes", "--json")
    assert told.json == {"database": f"sqlite:{full.db}", "jobs": 0, "settings": True}
    assert full.ok("config", "get", "max_retries").stdout == "max_retries = 3\n"
    full.node()
    assert "Workers are at work" in full.refused("db", "reset", code=4)
