"""`dlq`: the dead letter queue."""

import shutil
from contextlib import closing
from pathlib import Path

import pytest

from queuectl import State
from queuectl.facts import Event
from queuectl.job import Exited
from tests.cli.conftest import Cli
from tests.contract.tools import a_node, ended, finish, take
from tests.support import wait_for


@pytest.fixture(scope="module")
def once_dead(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four dead jobs, d1 to d4, and one that is completed."""
    with closing(Cli(tmp_path_factory.mktemp("dead"))) as cli:
        for number in (1, 2, 3):
            command = f"echo trouble {number} >&2; exit {number}"
            queue = f"q{number % 2}"
            cli.add(command, "--id", f"d{number}", "--max-retries", "0", "--queue", queue)
        cli.add("sleep 60", "--id", "d4", "--timeout", "100ms", "--max-retries", "0")
        cli.add("true", "--id", "fine")
        cli.ok("worker", "start", "--drain", "--count", "5")
    return cli.db


@pytest.fixture
def dead(cli: Cli, once_dead: Path) -> Cli:
    """A copy of that queue for each test."""
    shutil.copy(once_dead, cli.db)
    return cli


def test_an_empty_dead_letter_queue(cli: Cli) -> None:
    cli.add("true")
    result = cli.ok("dlq", "list")
    assert (result.stdout, result.stderr) == ("", "The dead letter queue is empty.\n")
    assert cli.ok("dlq", "list", "--json").json == []
    assert cli.ok("dlq", "count").stdout == "0\n"
    assert cli.ok("dlq", "retry", "--all").stderr.startswith("0 jobs")


def test_list_tells_why_and_what(dead: Cli) -> None:
    result = dead.ok("dlq", "list")
    header, *rows = result.lines
    assert header.split() == ["ID", "ATTEMPTS", "DIED", "REASON", "COMMAND"]
    assert [row.split()[0] for row in rows] == ["d4", "d3", "d2", "d1"]
    assert "timed out after 100ms; no retries allowed   sleep 60" in rows[0]
    assert "trouble 1; no retries allowed" in rows[3]
    assert "exit code 1" in rows[3]
    assert " ago " in rows[3]
    assert result.stderr == "Total: 4 dead jobs.\n"


def test_on_a_wide_terminal_the_reason_takes_what_is_free(cli: Cli) -> None:
    cli.add("printf '%0100d' 7 >&2; exit 1", "--max-retries", "0")
    cli.ok("worker", "start", "--drain")
    assert "7; no retries allowed" in cli.on_terminal("dlq", "list", columns=240).stdout


def test_list_as_json_quiet_limited_and_filtered(dead: Cli) -> None:
    jobs = dead.ok("dlq", "list", "--json").json
    assert [job["id"] for job in jobs] == ["d4", "d3", "d2", "d1"]
    assert {job["state"] for job in jobs} == {"dead"}
    assert jobs[3]["error"].endswith("trouble 1")
    assert "exit code 1" in jobs[3]["reason"]
    assert dead.ok("dlq", "list", "-q").lines == ["d4", "d3", "d2", "d1"]
    assert dead.ok("dlq", "list", "-q", "--queue", "q1").lines == ["d3", "d1"]
    assert dead.ok("dlq", "list", "-q", "--text", "TROUBLE 2").lines == ["d2"]
    assert dead.ok("dlq", "list", "--text", "nothing").stderr == "No dead jobs fit.\n"
    limited = dead.ok("dlq", "list", "-n", "2")
    assert len(limited.lines) == 3
    assert "--limit 0" in limited.stderr
    assert len(dead.ok("dlq", "list", "-n", "4", "--json").json) == 4
    assert dead.ok("dlq", "list", "-n", "4").stderr.startswith("Total")
    assert len(dead.ok("dlq", "list", "-n", "0").lines) == 5


def test_count(dead: Cli) -> None:
    assert dead.ok("dlq", "count").stdout == "4\n"
    assert dead.ok("dlq", "count", "--json").json == 4
    assert dead.ok("dlq", "count", "--queue", "q1").stdout == "2\n"


def test_show(dead: Cli) -> None:
    assert "trouble 1" in dead.ok("dlq", "show", "d1").stdout
    assert dead.ok("dlq", "show", "d1", "--json").json == dead.ok("show", "d1", "--json").json
    assert "is completed, not dead" in dead.refused("dlq", "show", "fine", code=4)
    assert "no job 'nosuch'" in dead.refused("dlq", "show", "nosuch", code=3)


def test_retry_moves_a_job_back_and_it_runs_again(dead: Cli) -> None:
    assert dead.ok("dlq", "retry", "d1").stdout == (
        "Job d1 moved from the dead letter queue to 'pending'.\n"
    )
    job = dead.queue.get("d1")
    assert (job.state, job.attempts, job.failures, job.crashes) == (State.PENDING, 1, 0, 0)
    event, died = dead.queue.events("d1")
    assert died.kind == "dead"
    assert event.kind == "retry"
    dead.node()
    wait_for(lambda: dead.queue.get("d1").state == State.DEAD, "it to die again")
    assert [run.number for run in dead.queue.attempts("d1")] == [1, 2]


def test_retry_wakes_an_idle_worker(dead: Cli) -> None:
    dead.node()
    dead.ok("dlq", "retry", "d2")
    assert wait_for(lambda: len(dead.queue.attempts("d2")) == 2, "the retry to run")


def test_only_dead_jobs_are_retried(dead: Cli) -> None:
    result = dead.run("dlq", "retry", "fine", "nosuch", "d1")
    assert result.code == 4
    assert result.stdout == "Job d1 moved from the dead letter queue to 'pending'.\n"
    wrong, missing = result.stderr.splitlines()
    assert "Job fine is completed, not dead" in wrong
    assert "no job 'nosuch'" in missing
    assert dead.run("dlq", "retry", "nosuch").code == 3


def test_retry_by_filter_and_all(dead: Cli) -> None:
    dry = dead.ok("dlq", "retry", "--all", "--dry-run")
    assert len(dry.lines) == 4
    assert dead.queue.status().states[State.DEAD] == 4
    assert dead.ok("dlq", "retry", "--queue", "q1", "-q").lines == ["d3", "d1"]
    assert dead.ok("dlq", "retry", "--all").stderr == (
        "2 jobs moved from the dead letter queue to 'pending'.\n"
    )
    assert dead.queue.status().states[State.DEAD] == 0
    assert dead.queue.get("fine").state == State.COMPLETED


@pytest.mark.parametrize("command", ["retry", "purge"])
def test_it_must_be_said_which(dead: Cli, command: str) -> None:
    assert "--all" in dead.refused("dlq", command, code=2)
    assert "either ids" in dead.refused("dlq", command, "d1", "--all", code=2)
    assert "either ids" in dead.refused("dlq", command, "d1", "--queue", "q1", code=2)
    assert dead.queue.status().states[State.DEAD] == 4


def test_purge_by_id(dead: Cli) -> None:
    assert dead.ok("dlq", "purge", "d1").stdout == "Job d1 deleted from the dead letter queue.\n"
    dead.refused("show", "d1", code=3)
    assert "is completed, not dead" in dead.refused("dlq", "purge", "fine", code=4)
    assert "no job" in dead.refused("dlq", "purge", "nosuch", code=3)
    assert dead.queue.get("fine").state == State.COMPLETED


def test_purge_by_age_filter_and_all(dead: Cli) -> None:
    assert dead.ok("dlq", "purge", "--older-than", "1h").stderr.startswith("0 jobs")
    assert len(dead.ok("dlq", "purge", "--older-than", "0", "--dry-run").lines) == 4
    assert dead.ok("dlq", "purge", "--older-than", "0", "--queue", "q0", "-q").lines == ["d2"]
    assert len(dead.ok("dlq", "purge", "--all").lines) == 3
    assert [job.id for job in dead.queue.list()] == ["fine"]


def test_a_missing_database_is_not_made(cli: Cli) -> None:
    for args in (["list"], ["count"], ["show", "x"], ["retry", "--all"], ["purge", "--all"]):
        assert "no queue" in cli.refused("dlq", *args, code=5)
    assert not cli.db.exists()


def test_on_a_terminal_the_table_fits_and_shows_no_escapes(cli: Cli) -> None:
    cli.add("printf '\\033[31m%0200d' 0 >&2; exit 1 # and a comment", "--max-retries", "0")
    cli.ok("worker", "start", "--drain")
    shown = cli.on_terminal("dlq", "list", columns=80).stdout
    assert "\x1b[31m" not in shown
    plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "")
    assert all(len(line) <= 80 for line in plain.splitlines())


def test_what_programs_read_is_complete(cli: Cli) -> None:
    store = cli.queue.store
    a_node(store)
    cli.queue.enqueue_many({"command": "x", "max_retries": 0} for _ in range(70))
    now = store.clock.now()
    finish(store, [ended(job, Exited(1), now=now) for job in take(store, 70, now=now)])
    assert len(cli.ok("dlq", "list", "-q").lines) == 70
    assert len(cli.ok("dlq", "list", "--json").json) == 70
    assert len(cli.ok("dlq", "list", "--json", "-n", "60").json) == 60
    table = cli.ok("dlq", "list")
    assert len(table.lines) == 51
    assert table.stderr == "50 of 70 dead jobs shown; --limit 0 shows all.\n"
    assert cli.ok("dlq", "list", "--text", "x", "-n", "2").stderr.startswith("There are more than")
    shown = cli.on_terminal("dlq", "list", "-q").stdout.splitlines()
    assert shown[50:] == ["50 of 70 dead jobs shown; --limit 0 shows all."]
    assert cli.ok("dlq", "count", "--text", "x").stdout == "70\n"


def test_events_that_programs_read_are_complete(cli: Cli) -> None:
    cli.queue.enqueue_many(["true"] * 70)
    cli.queue.cancel_all(cli.queue.list(limit=None))
    assert len(cli.ok("events", "--json").json) == 70
    assert len(cli.ok("events", "--json", "-n", "60").json) == 60
    assert len(cli.ok("events", "-n", "0").lines) == 71
    table = cli.ok("events")
    assert len(table.lines) == 51
    assert table.stderr == "There are more than these 50; --limit 0 shows all.\n"


def test_a_long_history_is_shown_whole(cli: Cli) -> None:
    cli.add("true", "--id", "busy")
    event = Event(at=1, kind="note", job="busy", node=None, who="me", detail=None)
    cli.queue.store.history.record(*[event] * 120)
    assert len(cli.ok("show", "busy", "--json").json["events"]) == 120
