"""`config`: reading and changing settings, and where values come from."""

import pytest

from queuectl import State
from queuectl.settings import NAMES, Settings
from tests.cli.conftest import Cli
from tests.support import wait_for


def test_set_get_and_unset(cli: Cli) -> None:
    assert cli.ok("config", "set", "max_retries", "5").stdout == "Config updated: max_retries = 5\n"
    assert cli.ok("config", "get", "max_retries").stdout == "max_retries = 5\n"
    assert cli.ok("config", "get", "max-retries", "-q").stdout == "5\n"
    assert cli.ok("config", "unset", "MAX-RETRIES").stdout == (
        "Config updated: max_retries unset, its default is 3\n"
    )
    assert cli.ok("config", "get", "max_retries", "-q").stdout == "3\n"


def test_new_jobs_take_what_was_set(cli: Cli) -> None:
    before = cli.add("true")
    cli.ok("config", "set", "max_retries", "7")
    after = cli.add("true")
    assert (cli.queue.get(before).max_retries, cli.queue.get(after).max_retries) == (3, 7)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("backoff_base", "2", "backoff_base = 2"),
        ("backoff-base", "1.5", "backoff_base = 1.5"),
        ("default_max_tries", "4", "max_retries = 3"),
        ("max_attempts", "1", "max_retries = 0"),
        ("backoff_strategy", "linear", "backoff = linear"),
        ("max_backoff_seconds", "600", "max_backoff = 10m"),
        ("lock_lease_seconds", "300", "lease = 5m"),
        ("worker_heartbeat_interval", "2", "heartbeat = 2s"),
        ("job_retry_delay", "1m30s", "retry_delay = 1m30s"),
        ("max_concurrent_jobs", "8", "workers = 8"),
        ("output_limit", "64k", "output_limit = 64KiB"),
    ],
)
def test_aliases_and_units(cli: Cli, name: str, value: str, told: str) -> None:
    assert cli.ok("config", "set", name, value).stdout == f"Config updated: {told}\n"


def test_an_alias_is_answered_under_the_true_name(cli: Cli) -> None:
    cli.ok("config", "set", "max_retries", "4")
    assert cli.ok("config", "get", "lock_lease_seconds").stdout == "lease = 15s\n"
    assert cli.ok("config", "get", "default_max_tries").stdout == "max_attempts = 5\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_retries", "-1"),
        ("max_retries", "many"),
        ("max_retries", "99999999999999999999"),
        ("backoff_base", "0.5"),
        ("backoff_base", "nan"),
        ("jitter", "-1"),
        ("kill_grace", "soon"),
        ("backoff", "random"),
        ("heartbeat", "14s"),
        ("lease", ""),
    ],
)
def test_a_value_the_setting_cannot_take_is_refused(cli: Cli, name: str, value: str) -> None:
    cli.ok("config", "set", "workers", "3")
    assert name in cli.refused("config", "set", name, value, code=2)
    for row in cli.ok("config", "list", "--json").json:
        assert row["text"] == ("3" if row["name"] == "workers" else Settings().text(row["name"]))


@pytest.mark.parametrize("command", [["get"], ["set"], ["unset"]])
def test_an_unknown_name_is_refused_with_the_nearest(cli: Cli, command: list[str]) -> None:
    cli.ok("config", "set", "workers", "3")
    value = ["1"] if command == ["set"] else []
    refusal = cli.refused("config", *command, "max_retry", *value, code=2)
    assert "max_retries" in refusal


def test_the_environment_and_the_file_outrank_and_that_is_told(cli: Cli) -> None:
    cli.variables["QUEUECTL_MAX_RETRIES"] = "9"
    (cli.folder / "queuectl.toml").write_text("kill_grace = '1s'\n")
    result = cli.ok("config", "set", "max_retries", "1")
    assert result.stdout == "Config updated: max_retries = 1\n"
    assert "max_retries is 9 all the same, because the environment says so" in result.stderr
    result = cli.ok("config", "set", "kill_grace", "3s")
    assert "kill_grace is 1s all the same" in result.stderr
    assert "queuectl.toml" in result.stderr
    assert cli.ok("config", "set", "workers", "2").stderr == ""
    rows = {row["name"]: row for row in cli.ok("config", "list", "--json").json}
    assert (rows["max_retries"]["value"], rows["max_retries"]["source"]) == (9, "the environment")
    assert rows["kill_grace"]["source"].endswith("queuectl.toml")
    assert (rows["workers"]["value"], rows["workers"]["source"]) == (2, "config set")
    assert (rows["lease"]["value"], rows["lease"]["source"]) == ("15s", "default")


def test_list_shows_every_setting_with_its_meaning(cli: Cli) -> None:
    cli.ok("config", "set", "max_retries", "2")
    header, *rows = cli.ok("config", "list").lines
    assert header.split() == ["NAME", "VALUE", "SOURCE", "MEANING"]
    assert [row.split()[0] for row in rows] == list(NAMES)
    assert rows[0].split()[1] == "2"
    assert not any(row.endswith(" ") for row in rows)


def test_on_a_terminal_meanings_are_wrapped_not_cut(cli: Cli) -> None:
    cli.ok("config", "set", "max_retries", "2")
    cli.variables["NO_COLOR"] = "1"
    shown = cli.on_terminal("config", "list", columns=80).stdout.splitlines()
    assert max(map(len, shown)) <= 80
    assert not any(line.endswith("...") for line in shown)
    assert shown[1].split()[:4] == ["max_retries", "2", "config", "set"]
    words = " ".join(" ".join(shown).split())
    assert "the config table" not in words


def test_worker_pids_are_computed(cli: Cli) -> None:
    cli.ok("config", "set", "workers", "1")
    assert cli.ok("config", "get", "worker_pids").stdout == "worker_pids =\n"
    first, second = cli.node(), cli.node()
    assert cli.ok("config", "get", "worker-pids").stdout == (
        f"worker_pids = {first.pid}, {second.pid}\n"
    )
    assert cli.ok("config", "get", "worker_pids", "--json").json["value"] == [first.pid, second.pid]
    assert "worker_pids" in cli.refused("config", "set", "worker_pids", "1", code=2)


def test_get_as_json_is_one_object(cli: Cli) -> None:
    cli.ok("config", "set", "job_timeout", "90")
    found = cli.ok("config", "get", "timeout", "--json").json
    assert (found["name"], found["value"], found["default"]) == ("job_timeout", "1m30s", "0s")


def test_only_set_makes_a_database(cli: Cli) -> None:
    for args in (("get", "workers"), ("get", "worker_pids"), ("list",), ("unset", "workers")):
        assert "no queue" in cli.refused("config", *args, code=5)
    cli.variables["QUEUECTL_DB"] = ""
    assert cli.ok("config", "get", "workers").stdout == "workers = 1\n"
    assert cli.ok("config", "get", "worker_pids").stdout == "worker_pids =\n"
    for row in cli.ok("config", "list", "--json").json:
        assert (row["text"], row["source"]) == (row["default"], "default")
    assert list(cli.folder.iterdir()) == []
    cli.ok("config", "set", "workers", "2")
    assert (cli.folder / "data/queuectl/queue.db").exists()


def test_a_running_node_takes_a_new_setting_up(cli: Cli) -> None:
    cli.ok("config", "set", "kill_grace", "1h")
    cli.node()
    cli.ok("config", "set", "kill_grace", "100ms")
    id = cli.add("trap '' TERM; touch deaf; while :; do sleep 0.05; done")
    wait_for((cli.folder / "deaf").exists, "the job to ignore SIGTERM")
    cli.ok("cancel", id, "--wait")
    assert cli.queue.get(id).state == State.CANCELLED


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_retries", "5", "It holds for jobs that are enqueued from now on; all others keep"),
        ("job_timeout", "5m", "It holds for jobs that are enqueued from now on; all others keep"),
        ("kill_grace", "3s", "It holds for runs that start from now on."),
        ("retention", "7d", "Running nodes take it up at once."),
        ("jitter", "0.5", "Running nodes take it up at once."),
    ],
)
def test_what_takes_a_change_up_is_said(working: Cli, name: str, value: str, said: str) -> None:
    assert said in working.ok("config", "set", name, value).stderr
    assert said in working.ok("config", "unset", name).stderr


def test_every_setting_says_what_takes_it_up(cli: Cli) -> None:
    cli.ok("db", "init")
    found = {row["name"]: row["takes_effect"] for row in cli.ok("config", "list", "--json").json}
    assert set(found.values()) == {"at once", "new runs", "new jobs"}
    assert found["workers"] == "at once"
