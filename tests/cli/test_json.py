"""`--json` of what changes something other than jobs: exactly one value, with stable names."""

import os
import signal

import pytest

from queuectl.host import is_running, process_start
from tests.cli.conftest import Cli
from tests.support import wait_for

LONG = "while :; do sleep 0.05; done"


def test_queues_that_are_paused_and_resumed(cli: Cli) -> None:
    cli.add("true", "--queue", "mail")
    assert cli.ok("pause", "mail", "default", "mail", "--json").json == [
        {"name": "mail", "paused": True, "changed": True},
        {"name": "default", "paused": True, "changed": True},
    ]
    assert cli.ok("pause", "mail", "--json").json == [
        {"name": "mail", "paused": True, "changed": False}
    ]
    resumed = cli.ok("resume", "--all", "--json")
    assert resumed.stderr == ""
    assert resumed.json == [
        {"name": "default", "paused": False, "changed": True},
        {"name": "mail", "paused": False, "changed": True},
    ]
    assert cli.ok("resume", "--all", "--json").json == []


def test_a_wrong_name_pauses_no_other(cli: Cli) -> None:
    cli.add("true")
    cli.refused("pause", "mail", "no\nname", "--json", code=2)
    assert cli.queue.status().paused == ()


def test_settings_that_are_set_and_unset(cli: Cli) -> None:
    told = cli.ok("config", "set", "max-retries", "5", "--json").json
    assert told["stored"] == "5"
    assert told == cli.ok("config", "get", "max_retries", "--json").json | {"stored": "5"}
    gone = cli.ok("config", "unset", "max_retries", "--json").json
    assert gone["stored"] is None
    assert (gone["value"], gone["source"]) == (3, "default")
    assert "takes" in cli.refused("config", "set", "max_retries", "many", "--json", code=2)


def test_a_setting_that_something_outranks_says_so(cli: Cli) -> None:
    cli.variables["QUEUECTL_MAX_RETRIES"] = "7"
    told = cli.ok("config", "set", "max_retries", "5", "--json").json
    assert (told["stored"], told["value"], told["source"]) == ("5", 7, "the environment")


def test_the_database_itself(cli: Cli) -> None:
    made = cli.ok("db", "init", "--json").json
    assert made["made"] is True
    assert made["database"].endswith("queue.db")
    assert cli.ok("db", "init", "--json").json == made | {"made": False}
    version = made["schema_version"]
    assert cli.ok("db", "migrate", "--json").json == {
        "database": made["database"],
        "from_version": version,
        "to_version": version,
    }
    assert cli.ok("db", "backup", "copy.db", "--json").json == {
        "database": made["database"],
        "file": str(cli.folder / "copy.db"),
        "size_bytes": os.path.getsize(cli.folder / "copy.db"),
    }
    assert "exists already" in cli.refused("db", "backup", "copy.db", "--json", code=4)
    shrunk = cli.ok("db", "vacuum", "--json").json
    assert shrunk["database"] == made["database"]
    assert shrunk["before_bytes"] >= shrunk["after_bytes"] > 0
    assert cli.ok("db", "check", "--json").json["ok"] is True
    assert cli.ok("db", "info", "--json").json["schema_version"] == version
    copied = cli.ok("db", "copy", str(cli.db), "other.db", "--json").json
    assert (copied["target"], copied["tables"]["jobs"]["rows"]) == ("other.db", 0)


def test_a_node_in_the_background(cli: Cli) -> None:
    started = cli.ok("worker", "start", "--daemon", "--log", "n.log", "--json")
    told = started.json
    try:
        assert sorted(told) == ["log", "node", "pid"]
        assert started.stderr == ""
        (node,) = cli.ok("worker", "list", "--json").json
        assert (node["id"], node["pid"]) == (told["node"], told["pid"])
        assert told["log"] == str(cli.folder / "n.log")
        assert cli.ok("worker", "stop", "--json").json == {
            "stopped": [{"id": told["node"], "host": node["host"], "pid": told["pid"]}],
            "stopping": [],
        }
    finally:
        if is_running(told["pid"], process_start(told["pid"]) or 0):
            os.kill(told["pid"], signal.SIGKILL)


def test_json_in_the_foreground_is_refused(cli: Cli) -> None:
    assert "--log-json" in cli.refused("worker", "start", "--json", code=2)


def test_nodes_that_take_longer_to_stop(working: Cli) -> None:
    id = working.add(LONG)
    wait_for(lambda: working.queue.get(id).state == "processing", "the job to run")
    (node,) = working.queue.nodes()
    result = working.run("worker", "stop", "--timeout", "100ms", "--json")
    assert result.code == 1
    assert result.json == {
        "stopped": [],
        "stopping": [{"id": node["id"], "host": node["host"], "pid": node["pid"], "jobs": [id]}],
    }
    (line,) = result.stderr.splitlines()
    assert "Still there after 100ms" in line
    assert len(working.ok("worker", "stop", "--force", "--json").json["stopped"]) == 1
    assert working.ok("worker", "stop", "--json").json == {"stopped": [], "stopping": []}


@pytest.mark.parametrize(
    "args",
    [
        ["pause", "--json"],
        ["config", "set", "max_retries", "1", "--json"],
        ["cancel", "x", "--json"],
        ["db", "vacuum", "--json"],
    ],
)
def test_in_a_pipe_it_is_one_line(cli: Cli, args: list[str]) -> None:
    cli.add("true", "--id", "x")
    assert cli.ok(*args).stdout.count("\n") == 1
