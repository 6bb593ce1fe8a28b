"""`sleep`, `await`, `emit` and `emitted`: through the command line, and with real workers."""

import json

import pytest

from queuectl import State
from tests.cli.conftest import COMMAND, Cli
from tests.support import wait_for

ORDER = """set -e
queuectl step one -- sh -c 'echo one >>ledger'
queuectl sleep 1ms
queuectl step two -- sh -c 'echo two >>ledger'
queuectl await paid >got
queuectl step three -- sh -c 'echo three >>ledger'
"""


def enqueue(cli: Cli, script: str, *options: str) -> str:
    """Enqueue a job whose failures are final."""
    return cli.add(script.replace("queuectl ", f"{COMMAND} "), "--max-retries", "0", *options)


def drain(cli: Cli) -> None:
    """Run all that is due."""
    cli.run("worker", "start", "--drain")


def asleep(cli: Cli, id: str) -> bool:
    """Tell whether a job has given its worker back."""
    job = cli.queue.get(id)
    return job.seq in cli.queue.sleeps([job])


class TestSleeping:
    def test_a_job_goes_on_where_it_was(self, cli: Cli) -> None:
        id = enqueue(cli, ORDER)
        cli.node()
        wait_for(lambda: asleep(cli, id))
        assert (cli.folder / "ledger").read_text().split() == ["one", "two"]
        job = cli.queue.get(id)
        assert (job.state, job.failures, job.crashes) == (State.PENDING, 0, 0)
        assert {run.outcome for run in cli.queue.attempts(id)} == {"snoozed"}
        said = cli.ok("emit", "paid", '{"ü": 3}').stdout
        assert said == "Emitted paid; 1 job was waiting for it.\n"
        wait_for(lambda: cli.queue.get(id).state == State.COMPLETED)
        assert (cli.folder / "ledger").read_text().split() == ["one", "two", "three"]
        assert json.loads((cli.folder / "got").read_text()) == {"ü": 3}
        names = [step.name for step in cli.queue.steps(id)]
        assert names == ["one", "sleep 1ms", "two", "await paid", "three"]

    def test_whatever_its_exit_code_is(self, cli: Cli) -> None:
        script = "queuectl sleep 1h; test $? = 75 && queuectl step x -- true; echo $?"
        ids = [enqueue(cli, f"{script}; exit {code}") for code in (0, 7)]
        cli.node()
        wait_for(lambda: all(asleep(cli, id) for id in ids))
        # A run that sleeps does nothing else.
        assert cli.queue.output(ids[0]).stdout == b"4\n"
        assert b"should have ended there" in cli.queue.output(ids[0]).stderr

    def test_what_it_waits_for_is_said(self, cli: Cli) -> None:
        sleeps = enqueue(cli, "queuectl sleep 2d")
        awaits = enqueue(cli, "queuectl await paid-4711 --timeout 3d")
        cli.node()
        wait_for(lambda: asleep(cli, sleeps) and asleep(cli, awaits))
        [told] = cli.ok("explain", sleeps, "--json").json
        [reason] = told["waits_for"]
        assert (reason["cause"], reason["remedy"]) == ("asleep", None)
        assert "it sleeps until 20" in reason["text"]
        [told] = cli.ok("explain", awaits, "--json").json
        [reason] = told["waits_for"]
        assert (reason["cause"], reason["remedy"]) == ("awaits", "queuectl emit paid-4711")
        assert "it waits for paid-4711 to be emitted, until 20" in reason["text"]
        assert "waits for paid-4711" in cli.ok("show", awaits).stdout
        assert "let it go on with: queuectl emit paid-4711" in cli.ok("explain", awaits).stdout
        told = cli.ok("show", awaits, "--json").json["sleep"]
        assert (told["awaits"], told["step"]) == ("paid-4711", "await paid-4711")
        assert told["until"] > told["since"]
        listed = cli.ok("list").stdout
        assert "pending (sleeps)" in listed
        assert "pending (awaits paid-4711)" in listed

    def test_an_await_that_was_in_vain(self, cli: Cli) -> None:
        script = (
            "queuectl await never --timeout 1ms; code=$?; test $code = 75 && exit 1; exit $code"
        )
        id = enqueue(cli, script)
        drain(cli)
        job = cli.queue.get(id)
        assert (job.state, job.exit_code) == (State.DEAD, 124)
        cli.queue.emit("never")
        cli.queue.retry(id)
        drain(cli)
        assert cli.queue.get(id).exit_code == 124

    def test_names(self, cli: Cli) -> None:
        script = """set -e
        for n in 1 2; do queuectl sleep 1ms; done
        queuectl sleep 1ms --name mine
        queuectl sleep 1ms --name mine
        """
        id = enqueue(cli, script)
        drain(cli)
        assert [one.name for one in cli.queue.steps(id)] == ["sleep 1ms", "sleep 1ms #2", "mine"]
        assert b"comes twice in one run" in cli.queue.output(id).stderr

    def test_json(self, cli: Cli) -> None:
        script = """set -e
        queuectl sleep 1ms --json >>told || { echo >>told; exit 75; }
        queuectl await paid --json >>told
        """
        cli.queue.emit("paid", [1])
        id = enqueue(cli, script)
        drain(cli)
        assert cli.queue.get(id).state == State.COMPLETED
        lines = (cli.folder / "told").read_text().split("\n")
        first, over, came = map(json.loads, filter(None, lines))
        assert (first["name"], first["asleep"]) == ("sleep 1ms", True)
        assert (over["name"], over["asleep"], over["attempt"]) == ("sleep 1ms", False, 2)
        assert (came["emitted"], came["payload"]) == (True, [1])

    def test_a_run_that_lost_its_lease_stops_there(self, cli: Cli) -> None:
        id = enqueue(cli, "true")
        drain(cli)
        cli.variables |= {
            "QUEUECTL_JOB_ID": id,
            "QUEUECTL_ATTEMPT": "1",
            "QUEUECTL_NODE": str(cli.queue.get(id).node),
            "QUEUECTL_RESULT": str(cli.folder / "1.result"),
        }
        assert "has lost its lease" in cli.refused("sleep", "2d", code=4)
        assert "has lost its lease" in cli.refused("await", "paid", code=4)

    def test_refusals(self, cli: Cli) -> None:
        cli.queue.emit("x")
        assert "only inside a job" in cli.refused("sleep", "2d", code=4)
        assert "only inside a job" in cli.refused("await", "x", code=4)
        assert "is not a duration" in cli.refused("sleep", "soon-ish", code=2)
        assert "name of what is emitted" in cli.refused("await", "x" * 201, code=2)
        assert "name of a step" in cli.refused("sleep", "1s", "--name", "x" * 257, code=2)


class TestEmitting:
    def test_the_first_one_wins(self, cli: Cli) -> None:
        cli.queue.emit("other")
        cli.ok("emit", "paid", "1")
        said = cli.refused("emit", "paid", "2", code=4)
        assert "'paid' was emitted by" in said
        again = cli.run("emit", "paid", "2", "--json")
        assert again.code == 4
        assert (again.json["payload"], again.json["is_first"]) == (1, False)
        [one] = cli.queue.emitted("paid")
        assert one.value == 1

    def test_json_in_many_ways(self, cli: Cli) -> None:
        cli.queue.emit("zero", 0)
        (cli.folder / "told.json").write_text('{"a": "ü"}')
        cli.ok("emit", "file", "@told.json")
        cli.ok("emit", "stdin", "-", input=b"[2]")
        told = cli.ok("emit", "nothing", "--json").json
        assert (told["name"], told["payload"], told["is_first"], told["waiting"]) == (
            *("nothing", None, True),
            0,
        )
        found = {one.name: one.value for one in cli.queue.emitted()}
        assert found == {"zero": 0, "file": {"a": "ü"}, "stdin": [2], "nothing": None}

    @pytest.mark.parametrize("text", ["nonsense", "", "[1e999]", '"' + "x" * (1 << 20) + '"'])
    def test_anything_else_is_refused(self, cli: Cli, text: str) -> None:
        (cli.folder / "told").write_text(text)
        cli.queue.emit("other")
        assert "What is emitted" in cli.refused("emit", "x", "@told", code=2)
        assert [one.name for one in cli.queue.emitted()] == ["other"]

    def test_are_listed(self, cli: Cli) -> None:
        cli.queue.emit("other")
        assert "Nothing was emitted as x" in cli.ok("emitted", "x").stderr
        cli.ok("emit", "paid", '{"amount": 30}')
        assert [line.split()[0] for line in cli.ok("emitted").lines] == ["NAME", "paid", "other"]
        assert [one["name"] for one in cli.ok("emitted", "--json").json] == ["paid", "other"]
        [one] = cli.ok("emitted", "paid", "--json").json
        assert (one["payload"], one["name"]) == ({"amount": 30}, "paid")
        assert set(one) == {"name", "payload", "emitted_at", "who"}
