"""Traces on the command line: what a job is a part of, by its environment or by hand."""

import json
import os

import pytest

from tests.cli.conftest import COMMAND, Cli
from tests.spans import PARENT, TRACE, without_opentelemetry

OTHER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"


def traces(cli: Cli) -> dict[str, tuple[str | None, str | None]]:
    return {job.id: (job.traceparent, job.tracestate) for job in cli.queue.list()}


class TestEnvironment:
    def test_what_is_enqueued_in_a_trace_is_a_part_of_it(self, cli: Cli) -> None:
        cli.ok("enqueue", "true", "--id", "before")
        cli.variables |= {"TRACEPARENT": PARENT, "TRACESTATE": "a=1, b=2"}
        cli.ok("enqueue", "true", "--id", "one")
        cli.ok("enqueue", '{"command": "true", "id": "json"}')
        cli.ok("enqueue", "--file", "-", input='{"command": "true", "id": "file"}')
        cli.ok("enqueue", '[{"command": "true", "id": "array"}]')
        cli.ok("push", "pushed", "data")
        told = (PARENT, "a=1,b=2")
        assert traces(cli) == {
            "before": (None, None),
            **dict.fromkeys(("one", "json", "file", "array", "pushed"), told),
        }

    @pytest.mark.parametrize("wrong", ["", "x", PARENT.upper(), PARENT + "-", f"ff{PARENT[2:]}"])
    def test_what_is_wrong_is_ignored(self, cli: Cli, wrong: str) -> None:
        cli.variables |= {"TRACEPARENT": wrong, "TRACESTATE": "a=1"}
        assert cli.ok("enqueue", "true", "--id", "a").stderr.count("trace") == 0
        assert traces(cli) == {"a": (None, None)}

    @pytest.mark.parametrize("wrong", ["x", "a=" + "x" * 600, "a=1,a=2"])
    def test_a_wrong_state_is_left_out(self, cli: Cli, wrong: str) -> None:
        cli.variables |= {"TRACEPARENT": PARENT, "TRACESTATE": wrong}
        cli.ok("enqueue", "true", "--id", "a")
        assert traces(cli) == {"a": (PARENT, None)}

    def test_what_is_given_by_hand_wins_and_says_all(self, cli: Cli) -> None:
        cli.variables |= {"TRACEPARENT": PARENT, "TRACESTATE": "a=1"}
        cli.ok("enqueue", "true", "--id", "option", "--traceparent", OTHER)
        line: dict[str, str | None] = {"command": "true", "traceparent": OTHER}
        cli.ok("enqueue", json.dumps(line | {"id": "json"}))
        lines = [line | {"id": "file"}, {"command": "true", "id": "none", "traceparent": None}]
        cli.ok("enqueue", "--file", "-", input="\n".join(map(json.dumps, lines)))
        cli.ok("enqueue", json.dumps(lines[1] | {"id": "one none"}))
        nothing = (None, None)
        assert traces(cli) == {
            **dict.fromkeys(("option", "json", "file"), (OTHER, None)),
            **dict.fromkeys(("none", "one none"), nothing),
        }

    def test_it_is_no_part_of_a_whole_environment(self, cli: Cli) -> None:
        cli.variables |= {"TRACEPARENT": "wrong", "TRACESTATE": "a=1", "OTHER": "x"}
        cli.ok("enqueue", "true", "--id", "a", "--env-all")
        cli.ok("schedule", "add", "s", "@daily", "true", "--env-all")
        env = cli.queue.get("a").env
        assert env["OTHER"] == "x"
        assert env.keys().isdisjoint({"TRACEPARENT", "TRACESTATE"})
        kept = cli.queue.schedules.get("s").request["env"]
        assert kept["OTHER"] == "x"
        assert kept.keys().isdisjoint({"TRACEPARENT", "TRACESTATE"})


class TestByHand:
    def test_what_is_wrong_is_refused(self, cli: Cli) -> None:
        said = cli.refused("enqueue", "true", "--traceparent", "x", code=2)
        assert "raceparent must be as W3C Trace Context has it" in said
        said = cli.refused("enqueue", "true", "--tracestate", "a=1", code=2)
        assert "A tracestate goes with a trace; give its traceparent, too." in said
        both = ("--traceparent", PARENT, "--tracestate", "A=1")
        said = cli.refused("enqueue", "true", *both, code=2)
        assert "racestate must be a list of NAME=VALUE" in said
        assert not cli.db.exists()

    def test_it_is_shown(self, cli: Cli) -> None:
        given = ("--traceparent", PARENT, "--tracestate", "a=1")
        told = cli.ok("enqueue", "true", "--id", "a", *given, "--json").json
        shown = {"traceparent": PARENT, "tracestate": "a=1", "trace_id": TRACE}
        assert told.items() >= shown.items()
        assert cli.ok("show", "a", "--json").json.items() >= shown.items()
        assert ["Trace:", TRACE] in [line.split() for line in cli.ok("show", "a").lines]
        assert cli.ok("list", "--format", "{trace_id}").lines == [TRACE]
        cli.ok("enqueue", "true", "--id", "b")
        assert "Trace:" not in cli.ok("show", "b").stdout
        assert cli.ok("show", "b", "--json").json["trace_id"] is None

    def test_it_stays_as_it_is(self, cli: Cli) -> None:
        cli.ok("enqueue", "true", "--id", "a", "--traceparent", PARENT)
        cli.ok("edit", "a", "--priority", "3")
        assert traces(cli) == {"a": (PARENT, None)}
        with pytest.raises(Exception, match="The traceparent of a job can't be changed"):
            cli.queue.edit("a", traceparent=OTHER)
        cli.refused("schedule", "add", "s", "@daily", json.dumps(job()), code=2)


def job() -> dict[str, str]:
    return {"command": "true", "traceparent": PARENT}


class TestWithoutOpenTelemetry:
    @pytest.fixture
    def bare(self, cli: Cli) -> Cli:
        folder = without_opentelemetry(cli.folder / "bare")
        cli.variables["PYTHONPATH"] = os.pathsep.join(
            filter(None, (folder, os.environ.get("PYTHONPATH")))
        )
        return cli

    def test_traces_say_what_to_install(self, bare: Cli) -> None:
        said = bare.refused("worker", "start", "--traces", code=2)
        assert said == (
            "queuectl: --traces needs OpenTelemetry: pip install opentelemetry-sdk"
            " opentelemetry-exporter-otlp."
        )
        assert bare.refused("worker", "start", "--traces", "--daemon", code=2) == said

    def test_a_trace_is_handed_on(self, bare: Cli) -> None:
        bare.variables["TRACEPARENT"] = PARENT
        id = bare.add(f"echo $TRACEPARENT; {COMMAND} enqueue --id inner true")
        bare.variables["TRACEPARENT"] = OTHER
        bare.ok("worker", "start", "--drain")
        assert bare.ok("output", id, "--stdout").lines[0] == PARENT
        assert bare.queue.get("inner").traceparent == PARENT

    def test_a_node_keeps_its_own_trace_to_itself(self, bare: Cli) -> None:
        bare.ok("enqueue", "env", "--id", "a")
        bare.variables |= {"TRACEPARENT": OTHER, "TRACESTATE": "a=1"}
        bare.ok("worker", "start", "--drain")
        names = {line.partition("=")[0] for line in bare.ok("output", "a", "--stdout").lines}
        assert names.isdisjoint({"TRACEPARENT", "TRACESTATE"})


def test_an_exporter_that_is_not_there_is_named(cli: Cli) -> None:
    cli.variables["OTEL_TRACES_EXPORTER"] = "console,pigeon"
    said = cli.refused("worker", "start", "--traces", code=2)
    assert "No exporter of traces is installed that is called 'pigeon'" in said
    assert "opentelemetry-exporter-otlp" in said
