"""`result`, `progress`, `step` and `steps`: what jobs tell and keep, through the command line."""

import json
import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from queuectl import NotFoundError, State, StateError
from queuectl.job import Job, Lost
from queuectl.store.contract import Over
from tests.cli.conftest import COMMAND, Cli
from tests.contract.tools import DAY, a_node, ended, take_one
from tests.support import is_gone, wait_for

AT_ONCE = ("--backoff", "fixed", "--retry-delay", "0s")


def run(cli: Cli, script: str, *options: str) -> str:
    """Run a job to its end, and return its id."""
    id = cli.add(script.replace("queuectl ", f"{COMMAND} "), *options)
    cli.run("worker", "start", "--drain")
    return id


class TestResult:
    def test_is_that_of_the_run_that_completed_it(self, cli: Cli) -> None:
        script = "queuectl result $QUEUECTL_ATTEMPT; test $QUEUECTL_ATTEMPT = 2"
        id = run(cli, script, *AT_ONCE)
        assert cli.ok("result", "--of", id).json == 2
        assert cli.ok("result", "--of", id[:6], "--json").json == {"id": id, "result": 2}
        assert cli.ok("wait", id, "--json").json["results"] == {id: 2}
        assert cli.ok("show", id, "--json").json["result"] == 2
        assert "Result:    2" in " ".join(cli.ok("show", id).stdout.split("\n"))
        assert cli.queue.result(id) == 2

    def test_by_stdin_and_by_files(self, cli: Cli) -> None:
        told = {"ü": [1, None, "🎈"]}
        (cli.folder / "told.json").write_text(json.dumps(told, ensure_ascii=False))
        id = run(cli, "queuectl result 1; queuectl result @told.json")
        assert cli.queue.result(id) == told
        assert cli.queue.result(run(cli, "echo 7 | queuectl result -")) == 7
        assert cli.queue.result(run(cli, "echo [] >$QUEUECTL_RESULT")) == []

    @pytest.mark.parametrize("text", ["", "nonsense", "NaN", "1e999", "{", "'\\377'"])
    def test_a_file_that_is_no_json_changes_nothing(self, cli: Cli, text: str) -> None:
        id = run(cli, f"printf {text or '%s'} >$QUEUECTL_RESULT")
        assert cli.queue.get(id).state == State.COMPLETED
        [event] = cli.queue.events(id)
        assert event.kind == "result"
        assert str(event.detail).startswith("it wasn't kept: The result is no JSON")
        with pytest.raises(NotFoundError, match="has no result"):
            cli.queue.result(id)
        assert "has no result" in cli.refused("result", "--of", id, code=3)

    def test_the_command_refuses_what_is_no_json(self, cli: Cli) -> None:
        cli.variables["QUEUECTL_RESULT"] = str(cli.folder / "told")
        for text in ("nonsense", "", "Infinity", '"' + "x" * (1 << 20) + '"'):
            (cli.folder / "long").write_text(text)
            assert "result" in cli.refused("result", "@long", code=2)
        assert "can't be read" in cli.refused("result", "@missing", code=2)
        assert not (cli.folder / "told").exists()
        assert cli.ok("result", '{"a": 1}', "--json").json == {"id": None, "bytes": 8}

    def test_a_job_that_is_not_completed_has_none(self, cli: Cli) -> None:
        id = run(cli, "queuectl result 1; exit 3", "--max-retries", "0")
        with pytest.raises(StateError, match="is dead; only a completed job has a result"):
            cli.queue.result(id)
        cli.refused("result", "--of", id, code=4)
        assert cli.ok("show", id, "--json").json["result"] is None

    def test_outside_of_a_job_it_is_refused(self, cli: Cli) -> None:
        assert "only inside a job" in cli.refused("result", "1", code=4)
        assert "Give either JSON" in cli.refused("result", code=2)


class TestProgress:
    def test_is_shown_while_it_runs(self, working: Cli) -> None:
        id = working.add(f"{COMMAND} progress 12.5% 'rows 1'; sleep 1000")
        wait_for(lambda: working.queue.running_progress(), "some progress")
        [told] = working.ok("status", "--json").json["progress"]
        assert (told["id"], told["percent"], told["note"]) == (id, 12.5, "rows 1")
        for shown in (("list",), ("show", id), ("status",), ("list", "--format", "{progress}")):
            assert "12.5%" in working.ok(*shown).stdout
        assert working.ok("list", "--json").json[0]["progress"]["note"] == "rows 1"
        assert working.ok("show", id, "--json").json["progress"]["percent"] == 12.5

    def test_lines_in_the_file_do_the_same(self, working: Cli) -> None:
        script = 'echo 3 >>"$QUEUECTL_PROGRESS"; echo only words >>"$QUEUECTL_PROGRESS"; sleep 1000'
        id = working.add(script)
        wait_for(lambda: working.queue.running_progress(), "some progress")
        [told] = working.queue.running_progress().values()
        assert (told.percent, told.note) == (None, "only words")
        assert working.queue.get(id).state == State.PROCESSING

    @pytest.mark.parametrize("percent", ["", "x", "-1", "101", "1e1", "100.1", "nan"])
    def test_what_is_no_percentage_is_refused(self, cli: Cli, percent: str) -> None:
        cli.variables["QUEUECTL_PROGRESS"] = str(cli.folder / "told")
        assert "from 0 to 100" in cli.refused("progress", "--", percent, code=2)
        assert not (cli.folder / "told").exists()

    def test_outside_of_a_job_it_is_refused(self, cli: Cli) -> None:
        assert "only inside a job" in cli.refused("progress", "1", code=4)


class TestSteps:
    def test_what_is_done_is_not_done_again(self, cli: Cli) -> None:
        script = """set -e
        one=$(queuectl step one -- sh -c 'echo one >>ledger; echo "from $QUEUECTL_ATTEMPT"')
        queuectl step two -- sh -c 'echo two >>ledger; test $QUEUECTL_ATTEMPT = 2'
        echo "$one"
        """
        id = run(cli, script, *AT_ONCE)
        assert (cli.folder / "ledger").read_text().split() == ["one", "two", "two"]
        assert cli.queue.output(id).stdout == b"from 1\n"
        told = cli.ok("steps", id, "--json").json
        assert [(one["name"], one["attempt"], one["output"]) for one in told] == [
            ("one", 1, "from 1\n"),
            ("two", 2, ""),
        ]
        assert [line.split()[0] for line in cli.ok("steps", id).lines] == ["STEP", "one", "two"]

    def test_a_command_that_fails_passes_its_code_on(self, cli: Cli) -> None:
        script = """
        queuectl step a -- sh -c 'exit 7'; echo $?
        queuectl step b -- no-such-program; echo $?
        queuectl step c -- sh -c 'kill -9 $$'; echo $?
        queuectl step d -- true; queuectl step d -- true; echo $?
        queuectl step e -- yes >/dev/null; echo $?
        queuectl step f -- --help; echo $?
        """
        id = run(cli, script)
        assert cli.queue.output(id).stdout.split() == [b"7", b"127", b"137", b"4", b"4", b"127"]
        assert [one.name for one in cli.queue.steps(id)] == ["d"]

    def test_a_run_that_lost_its_lease_stores_nothing(self, cli: Cli, tmp_path: Path) -> None:
        id = run(cli, "queuectl step a -- true")
        cli.variables |= {
            "QUEUECTL_JOB_ID": id,
            "QUEUECTL_ATTEMPT": "1",
            "QUEUECTL_NODE": str(cli.queue.get(id).node),
        }
        said = cli.refused("step", "b", "--", "touch", "ran", code=4)
        assert f"Run 1 of job {id} has lost its lease" in said
        assert not (cli.folder / "ran").exists()
        assert [one.name for one in cli.queue.steps(id)] == ["a"]

    def test_one_that_stood_still_while_it_was_lost_stores_nothing(self, cli: Cli) -> None:
        """As after a suspend of its host: its command is done, but the job is another's by then."""
        store = cli.queue.store
        for node in ("node-1", "node-2"):
            a_node(store, node)
        id = cli.queue.enqueue("true").id
        take_one(store, now=cli.queue.now())
        cli.variables |= {
            "QUEUECTL_JOB_ID": id,
            "QUEUECTL_ATTEMPT": "1",
            "QUEUECTL_NODE": "node-1",
        }
        command = "echo $$ >began; until [ -e go ]; do sleep 0.02; done; echo late"
        step = cli.start("step", "one", "--", "sh", "-c", command)
        began = cli.folder / "began"
        wait_for(lambda: began.exists() and began.read_text().strip(), "the command to begin")
        step.send_signal(signal.SIGSTOP)
        (cli.folder / "go").touch()
        wait_for(lambda: is_gone(int(began.read_text())), "the end of the command")
        store.runs.rescue("node-1", given_up)
        take_one(store, node="node-2", now=cli.queue.now() + DAY)
        step.send_signal(signal.SIGCONT)
        assert step.wait(60) == 4
        assert step.stderr is not None
        assert f"Run 1 of job {id} has lost its lease" in step.stderr.read().decode()
        assert cli.queue.steps(id) == []

    def test_a_retry_from_a_step(self, cli: Cli) -> None:
        steps = "; ".join(f"queuectl step {n} -- sh -c 'echo {n} >>ledger'" for n in "abc")
        id = run(cli, f"{steps}; exit 1", "--max-retries", "0")
        assert "has no step 'x'" in cli.refused("retry", id, "--from", "x", code=3)
        assert cli.queue.get(id).state == State.DEAD
        cli.ok("retry", id, "--from", "b")
        cli.run("worker", "start", "--drain")
        assert (cli.folder / "ledger").read_text().split() == [*"abcbc"]
        cli.queue.retry(id)
        cli.run("worker", "start", "--drain")
        assert (cli.folder / "ledger").read_text().split() == [*"abcbc"]
        cli.queue.retry(id, from_step="c")
        assert [one.name for one in cli.queue.steps(id)] == ["a", "b"]

    def test_outside_of_a_job_it_is_refused(self, cli: Cli) -> None:
        assert "only inside a job" in cli.refused("step", "a", "--", "true", code=4)
        assert "which command" in cli.refused("step", "a", "--", code=2)
        cli.variables |= {
            "QUEUECTL_JOB_ID": "x",
            "QUEUECTL_ATTEMPT": "1",
            "QUEUECTL_NODE": "n",
        }
        assert "name of a step" in cli.refused("step", "x" * 257, "--", "true", code=2)


def given_up(held: Sequence[Job], now: int) -> Over:
    """Give up the runs of a node."""
    ends = [ended(job, Lost("gone"), now=now) for job in held]
    return Over(judge=lambda stuck, asked, at: ends)
