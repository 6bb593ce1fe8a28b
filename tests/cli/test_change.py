"""`cancel`, `retry`, `rm` and `prune`: by id, by filter, and what they leave alone."""

import pytest

from queuectl import State, changes
from tests.cli.conftest import Cli
from tests.support import wait_for

LONG = "while :; do sleep 0.05; done"


def state_of(cli: Cli, id: str) -> State:
    return cli.queue.get(id).state


def wait_state(cli: Cli, id: str, state: State) -> None:
    wait_for(lambda: state_of(cli, id) == state, f"{id} to be {state}")


def drain(cli: Cli) -> None:
    cli.ok("worker", "start", "--drain", "--count", "4")


# -- all of them ------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["cancel", "retry", "rm"])
def test_it_must_be_said_which_jobs(cli: Cli, command: str) -> None:
    cli.add("true", "--id", "safe")
    assert "which jobs" in cli.refused(command, code=2)
    assert "either ids" in cli.refused(command, "safe", "--queue", "default", code=2)
    assert state_of(cli, "safe") == State.PENDING


@pytest.mark.parametrize("command", ["cancel", "retry", "rm"])
def test_unknown_and_ambiguous_ids_are_refused(cli: Cli, command: str) -> None:
    cli.add("true", "--id", "night-1")
    cli.add("true", "--id", "night-2")
    assert "'nosuch'" in cli.refused(command, "nosuch", code=3)
    assert "several jobs" in cli.refused(command, "night", code=2)
    assert "give at least 4 characters" in cli.refused(command, "nig", code=3)
    assert state_of(cli, "night-1") == State.PENDING


@pytest.mark.parametrize("command", ["cancel", "retry", "rm"])
def test_a_name_that_people_gave_is_no_beginning_of_another(cli: Cli, command: str) -> None:
    cli.add("true", "--id", "job10", "--delay", "1h")
    assert "'job10' must be named in full" in cli.refused(command, "job1", code=3)
    assert state_of(cli, "job10") == State.PENDING
    # To look at it is harmless.
    assert "job10" in cli.ok("show", "job1").stdout
    made = cli.add("true", "--delay", "1h")
    assert made in cli.ok(command, made[:7]).stdout


def test_all_are_found_before_one_is_changed(cli: Cli) -> None:
    made = cli.add("true")
    assert cli.ok("rm", made[:6], made).lines == [f"Job {made} (pending) removed."]
    cli.add("true", "--id", "abcd1")
    cli.add("true", "--id", "abcd2")
    result = cli.run("rm", "abcd1", "abcd")
    assert (result.code, result.stdout) == (2, "Job abcd1 (pending) removed.\n")
    assert "several jobs" in result.stderr
    assert state_of(cli, "abcd2") == State.PENDING


@pytest.mark.parametrize("args", [["cancel", "x"], ["retry", "x"], ["rm", "x"], ["prune"]])
def test_a_missing_database_is_not_made(cli: Cli, args: list[str]) -> None:
    assert "no queue" in cli.refused(*args, code=5)
    assert not cli.db.exists()


def test_escape_sequences_of_jobs_are_shown_not_sent(cli: Cli) -> None:
    cli.queue.enqueue("echo \x1b[31mred\x9b\u202e")
    shown = cli.ok("rm", "--queue", "default", "--dry-run").stdout
    assert r"echo \x1b[31mred\x9b\u202e" in shown


@pytest.mark.parametrize(
    ("command", "ids"),
    [("cancel", "waits"), ("retry", "gone fine"), ("rm", "waits gone fine")],
)
def test_all_states_are_those_in_which_it_can_be_done(cli: Cli, command: str, ids: str) -> None:
    cli.add("true", "--id", "fine")
    cli.add("exit 1", "--id", "gone", "--max-retries", "0")
    drain(cli)
    cli.add("true", "--id", "waits")
    assert cli.ok(command, "--state", "all", "-q").lines == ids.split()


# -- cancel -----------------------------------------------------------------------------


def test_waiting_jobs_are_cancelled_at_once(cli: Cli) -> None:
    id = cli.add("true", "--delay", "1h")
    assert cli.ok("cancel", id[:6], "--reason", "no need").stdout == f"Job {id} cancelled.\n"
    job = cli.queue.get(id)
    assert job.state == State.CANCELLED
    assert job.reason is not None
    assert job.reason.startswith("cancelled by ")
    assert job.reason.endswith(": no need")
    assert "cancelled already" in cli.refused("cancel", id, code=4)


def test_several_ids_are_all_tried_and_the_worst_code_wins(cli: Cli) -> None:
    first, second = cli.add("true"), cli.add("true")
    cli.ok("cancel", second)
    result = cli.run("cancel", "nosuch", second, first, first)
    assert result.code == 4
    assert result.stdout == f"Job {first} cancelled.\n"
    missing, wrong = result.stderr.splitlines()
    assert missing.startswith("queuectl: There is no job 'nosuch'")
    assert wrong.startswith(f"queuectl: Job {second} is cancelled already")


def test_a_running_job_is_ended_by_its_node(working: Cli) -> None:
    id = working.add(LONG)
    wait_state(working, id, State.PROCESSING)
    (node,) = working.queue.nodes()
    told = working.ok("cancel", id).stdout
    assert told == f"Job {id} is running; asked node {node['id']} to end it.\n"
    wait_state(working, id, State.CANCELLED)
    (run,) = working.queue.attempts(id)
    assert run.outcome == "cancelled"


def test_wait_returns_when_it_is_cancelled(working: Cli) -> None:
    running, waiting = working.add(LONG), working.add("true", "--delay", "1h")
    wait_state(working, running, State.PROCESSING)
    lines = working.ok("cancel", running, waiting, "--wait").lines
    assert lines[1:] == [f"Job {waiting} cancelled.", f"Job {running} cancelled."]
    assert state_of(working, running) == State.CANCELLED


def test_who_waits_may_come_when_it_is_being_cancelled_already(working: Cli) -> None:
    ends = "while [ ! -e go ]; do sleep 0.02; done; exit 1"
    id = working.add(f"trap '{ends}' TERM; touch up; while :; do sleep 0.02; done")
    wait_for((working.folder / "up").exists, "the job to catch SIGTERM")
    working.ok("cancel", id)
    assert "is being cancelled already" in working.refused("cancel", id, code=4)
    waiting = working.start("cancel", id, "--wait")
    assert waiting.stdout is not None
    told = f"Job {id} is being cancelled already; waiting for its end.\n"
    assert waiting.stdout.readline().decode() == told
    (working.folder / "go").touch()
    assert waiting.stdout.read().decode() == f"Job {id} cancelled.\n"
    assert waiting.wait() == 0
    assert state_of(working, id) == State.CANCELLED


def test_filters_wait_for_what_is_being_cancelled_already(working: Cli) -> None:
    ends = "while [ ! -e go ]; do sleep 0.02; done; exit 1"
    id = working.add(f"trap '{ends}' TERM; touch up; while :; do sleep 0.02; done", "--tag", "x")
    wait_for((working.folder / "up").exists, "the job to catch SIGTERM")
    told = working.ok("cancel", "--tag", "x")
    assert told.stderr == "0 jobs cancelled, 1 asked to end.\n"
    assert working.ok("cancel", "--tag", "x").stderr == "0 jobs cancelled.\n"
    assert "remove it when that is done" in working.refused("rm", id, code=4)
    waiting = working.start("cancel", "--tag", "x", "--wait")
    assert waiting.stdout is not None
    assert b"is being cancelled already" in waiting.stdout.readline()
    (working.folder / "go").touch()
    out, err = waiting.communicate(timeout=60)
    assert out.decode() == f"Job {id} cancelled.\n"
    assert err.decode().splitlines()[-1] == "1 job cancelled."
    assert waiting.returncode == 0


def test_what_a_dead_node_left_is_told_with_the_way_out(cli: Cli) -> None:
    node = cli.node()
    id = cli.add(LONG)
    wait_state(cli, id, State.PROCESSING)
    node.kill()
    node.wait()
    way_out = "Its node is gone; `queuectl worker start` settles that."
    told = cli.ok("cancel", id).stdout
    assert told.startswith(f"Job {id} was running on node ")
    assert way_out in told
    for command in ("cancel", "rm", "retry"):
        assert way_out in cli.refused(command, id, code=4)
    waiting = cli.start("cancel", id, "--wait")
    assert waiting.stderr is not None
    assert b"No worker is running" in waiting.stderr.readline()
    cli.node()
    assert waiting.wait() == 0
    assert state_of(cli, id) == State.CANCELLED


def test_a_job_that_ends_well_while_it_is_cancelled_is_told(working: Cli) -> None:
    id = working.add("trap 'exit 0' TERM; touch up; while :; do sleep 0.02; done")
    wait_for((working.folder / "up").exists, "the job to catch SIGTERM")
    result = working.run("cancel", id, "--wait")
    # It exited with 0 when it was told to end; which of the two it came to is the node's to say.
    state = state_of(working, id)
    assert state in (State.CANCELLED, State.COMPLETED)
    assert result.code == (0 if state == State.CANCELLED else 1)


def test_filters_cancel_all_that_wait_or_run(working: Cli) -> None:
    running = working.add(LONG, "--queue", "a")
    wait_state(working, running, State.PROCESSING)
    waiting = working.add("true", "--queue", "a", "--delay", "1h")
    tagged = working.add("true", "--queue", "b", "--tag", "x", "--delay", "1h")
    dry = working.ok("cancel", "--queue", "a", "--dry-run")
    assert dry.lines == [
        f"Would cancel job {waiting} (pending): true",
        f"Would cancel job {running} (processing): {LONG}",
    ]
    assert dry.stderr == "2 jobs would be cancelled.\n"
    assert state_of(working, waiting) == State.PENDING
    result = working.ok("cancel", "--queue", "a", "-q", "--wait")
    assert (result.lines, result.stderr) == ([waiting, running], "")
    assert state_of(working, running) == State.CANCELLED
    assert state_of(working, tagged) == State.PENDING
    assert working.ok("cancel", "--tag", "x", "--text", "TRU").stderr == "1 job cancelled.\n"
    assert working.ok("cancel", "--queue", "a").stderr == "0 jobs cancelled.\n"


def test_finished_states_cannot_be_cancelled_by_filter(cli: Cli) -> None:
    cli.add("true")
    assert "completed" in cli.refused("cancel", "--state", "completed", code=2)


def test_more_jobs_than_a_page_are_cancelled(cli: Cli) -> None:
    cli.queue.enqueue_many(["true"] * 1203)
    assert cli.ok("cancel", "--state", "pending", "-q").stdout.count("\n") == 1203
    assert cli.queue.status().states[State.CANCELLED] == 1203


def test_on_a_terminal_many_are_only_counted(cli: Cli) -> None:
    cli.queue.enqueue_many(["true"] * 21)
    dry = cli.on_terminal("cancel", "--state", "pending", "--dry-run").stdout
    assert dry == "21 jobs would be cancelled; -q prints their ids.\n"
    assert cli.on_terminal("cancel", "--state", "pending").stdout == "21 jobs cancelled.\n"
    cli.queue.enqueue_many(["true"] * 20)
    assert cli.on_terminal("cancel", "--state", "pending").stdout.count("\n") == 21


def test_a_reason_may_be_as_long_as_in_python(cli: Cli) -> None:
    id = cli.add("true")
    reason = "x" * changes.LONGEST_REASON
    cli.ok("cancel", id, "--reason", reason)
    assert (cli.queue.get(id).reason or "").endswith(reason)


@pytest.mark.parametrize("reason", ["", "x" * (changes.LONGEST_REASON + 1)])
def test_a_reason_that_makes_no_sense_is_refused(cli: Cli, reason: str) -> None:
    id = cli.add("true")
    assert "reason" in cli.refused("cancel", id, "--reason", reason, code=2)
    assert state_of(cli, id) == State.PENDING


# -- retry ------------------------------------------------------------------------------


def test_every_finished_state_and_a_waiting_retry_can_be_retried(cli: Cli) -> None:
    done = cli.add("true")
    dead = cli.add("exit 1", "--max-retries", "0")
    gone = cli.add("true")
    cli.ok("cancel", gone)
    drain(cli)
    failed = cli.add("exit 1", "--retry-delay", "1h")
    node = cli.node()
    wait_state(cli, failed, State.FAILED)
    node.terminate()
    node.wait()
    told = cli.ok("retry", done, dead, gone, failed).lines
    assert told == [
        f"Job {done} moved from 'completed' to 'pending'.",
        f"Job {dead} moved from 'dead' to 'pending'.",
        f"Job {gone} moved from 'cancelled' to 'pending'.",
        f"Job {failed} moved from 'failed' to 'pending'.",
    ]
    job = cli.queue.get(dead)
    assert (job.state, job.attempts, job.failures) == (State.PENDING, 1, 0)
    assert "pending already" in cli.refused("retry", done, code=4)


def test_retry_makes_a_delayed_job_due_and_wakes_a_worker(working: Cli) -> None:
    id = working.add("true", "--delay", "1h")
    assert "Would retry" in working.ok("retry", id, "--dry-run").stdout
    would = working.ok("retry", id, "--with", "timeout=1m", "--dry-run").stdout
    assert would == f"Would retry job {id} (pending): timeout none -> 1m\n"
    would = working.ok("retry", id, "--with", "delay=1h", "--dry-run").stdout
    assert would.startswith(f"Would retry job {id} (pending): due ")
    told = working.ok("retry", id).stdout
    assert told == f"Job {id} no longer waits for its time; it is due now.\n"
    wait_state(working, id, State.COMPLETED)


def test_a_running_job_cannot_be_retried_or_removed(working: Cli) -> None:
    id = working.add(LONG)
    wait_state(working, id, State.PROCESSING)
    assert "is running" in working.refused("retry", id, code=4)
    assert "is running" in working.refused("rm", id, code=4)
    assert working.ok("rm", "--queue", "default").stderr == "0 jobs removed.\n"
    assert state_of(working, id) == State.PROCESSING


def test_filters_retry_what_did_not_end_well(cli: Cli) -> None:
    done, dead = cli.add("true"), cli.add("exit 1", "--max-retries", "0")
    drain(cli)
    assert cli.ok("retry", "--queue", "default", "-q").lines == [dead]
    assert state_of(cli, done) == State.COMPLETED
    assert cli.ok("retry", "--state", "completed", "-q").lines == [done]
    assert "pending" in cli.refused("retry", "--state", "pending", code=2)


# -- rm ---------------------------------------------------------------------------------


def test_rm_deletes_a_job_and_frees_its_id(cli: Cli) -> None:
    cli.add("echo first", "--id", "again")
    drain(cli)
    assert cli.ok("rm", "again").stdout == "Job again (completed) removed.\n"
    cli.refused("show", "again", code=3)
    cli.add("echo second", "--id", "again")
    assert cli.queue.attempts("again") == []


def test_rm_by_filter(cli: Cli) -> None:
    for number in range(3):
        cli.queue.enqueue("true", id=f"job{number}", tags=["odd" if number % 2 else "even"])
    assert cli.ok("rm", "--tag", "even", "--dry-run", "-q").lines == ["job2", "job0"]
    assert cli.queue.status().total == 3
    assert cli.ok("rm", "--tag", "even").lines == [
        "Job job2 (pending) removed.",
        "Job job0 (pending) removed.",
    ]
    assert [job.id for job in cli.queue.list()] == ["job1"]
    assert "processing" in cli.refused("rm", "--state", "processing", code=2)


def test_dry_run_with_ids_changes_nothing_but_says_the_truth(working: Cli) -> None:
    waiting, running = working.add("true", "--delay", "1h"), working.add(LONG)
    wait_state(working, running, State.PROCESSING)
    result = working.run("rm", waiting, running, "--dry-run")
    assert result.code == 4
    assert result.stdout == f"Would remove job {waiting} (pending): true\n"
    assert f"Job {running} is running; cancel it first" in result.stderr
    assert state_of(working, waiting) == State.PENDING


def test_a_dry_run_knows_what_is_being_cancelled(working: Cli) -> None:
    working.ok("config", "set", "kill_grace", "1h")
    id = working.add("trap '' TERM; touch up; " + LONG)
    wait_for((working.folder / "up").exists, "the job to ignore SIGTERM")
    assert "Would cancel" in working.ok("cancel", id, "--dry-run").stdout
    working.ok("cancel", id)
    for more in ([], ["--dry-run"]):
        assert "is being cancelled already" in working.refused("cancel", id, *more, code=4)
    assert "Would cancel" in working.ok("cancel", id, "--wait", "--dry-run").stdout


# -- prune ------------------------------------------------------------------------------


def finished(cli: Cli) -> dict[str, str]:
    ids = {
        "completed": cli.add("true"),
        "dead": cli.add("exit 1", "--max-retries", "0"),
        "cancelled": cli.add("true"),
        "pending": cli.add("true", "--queue", "idle"),
    }
    cli.ok("cancel", ids["cancelled"])
    cli.ok("worker", "start", "--drain", "--queue", "default")
    return ids


def test_prune_takes_completed_and_cancelled_by_default(cli: Cli) -> None:
    ids = finished(cli)
    assert cli.ok("prune", "--older-than", "1h").lines == [
        "0 completed jobs older than 1h pruned.",
        "0 cancelled jobs older than 1h pruned.",
    ]
    dry = cli.ok("prune", "--older-than", "0", "--dry-run", "--json").json
    assert (dry["dry_run"], dry["total"]) == (True, 2)
    assert cli.queue.status().total == 4
    pruned = cli.ok("prune", "--older-than", "0", "--json").json
    assert (pruned["dry_run"], pruned["total"]) == (False, 2)
    assert pruned["states"]["completed"] == {"jobs": 1, "older_than": 0}
    assert sorted(job.id for job in cli.queue.list()) == sorted([ids["dead"], ids["pending"]])


def test_prune_by_state(cli: Cli) -> None:
    ids = finished(cli)
    assert cli.ok("prune", "--state", "dead", "--older-than", "0").stdout == (
        "1 dead job older than 0s pruned.\n"
    )
    cli.refused("show", ids["dead"], code=3)
    assert cli.ok("prune", "-s", "all", "--older-than", "0", "--json").json["total"] == 2
    assert "pending" in cli.refused("prune", "--state", "pending", "--older-than", "0", code=2)
    assert state_of(cli, ids["pending"]) == State.PENDING


def test_without_an_age_prune_takes_the_settings(cli: Cli) -> None:
    finished(cli)
    assert "--older-than" in cli.refused("prune", code=2)
    cli.ok("config", "set", "retention", "1d")
    assert "older than 1d" in cli.ok("prune").stdout
    assert "dlq_retention" in cli.refused("prune", "--state", "dead", code=2)
    cli.ok("config", "set", "dlq_retention", "3d")
    told = cli.ok("prune", "--state", "all", "--dry-run").stdout
    assert "0 dead jobs older than 3d would be pruned" in told
    assert cli.queue.status().total == 4


def test_an_age_that_makes_no_sense_is_refused(cli: Cli) -> None:
    finished(cli)
    assert "--older-than" in cli.refused("prune", "--older-than", "soon", code=2)
