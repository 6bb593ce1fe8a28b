"""`queue`: what queues have, what they allow, and how much of that is used."""

import pytest

from queuectl import State
from tests.cli.conftest import Cli
from tests.support import wait_for


def test_what_is_set_is_told_and_stays(cli: Cli) -> None:
    told = cli.ok(
        *"queue set mail --limit 3 --rate 100/1m --rate 5/1s --key-limit 1".split(),
        *"--key-limit gpu=2 --key-limit tenant=a=4 --key-rate 10/1m:2".split(),
        *"--weight vip=5 --max-waiting 600".split(),
        *"--timeout 2h --retries 5 --priority -10 --backoff linear".split(),
    )
    assert told.lines == [
        "Queue 'mail' from now on:",
        "Limit:             3 at once",
        "Rates:             100/1m, 5/1s",
        "Each key:          1 at once",
        "Some keys:         gpu 2, tenant=a 4",
        "Rates of each key: 10/1m:2",
        "Weights:           vip 5",
        "Waiting:           600 at most",
        "When full:         reject (others are refused)",
        "Priority:          -10",
        "Timeout:           2h",
        "Max retries:       5",
        "Backoff:           linear",
    ]
    assert cli.ok(*"queue set mail --when-full drop-newest --json".split()).json == {
        "name": "mail",
        "limits": {
            "limit": 3,
            "rates": ["100/1m", "5/1s"],
            "key_limit": 1,
            "key_limits": {"gpu": 2, "tenant=a": 4},
            "key_rates": ["10/1m:2"],
            "weights": {"vip": 5},
            "max_waiting": 600,
            "when_full": "drop-newest",
            "defaults": {
                "priority": -10,
                "timeout": "2h",
                "max_retries": 5,
                "backoff": "linear",
            },
        },
    }


def test_none_takes_away(cli: Cli) -> None:
    cli.ok(
        *"queue set mail --limit 3 --rate 5/1s --key-limit 1 --key-limit gpu=2".split(),
        *"--key-limit a=3 --weight vip=5 --weight b=2 --timeout 2h".split(),
    )
    after = cli.ok(
        *"queue set mail --limit none --rate none --key-limit none --key-limit gpu=none".split(),
        *"--weight vip=none --timeout none --json".split(),
    ).json["limits"]
    assert (after["limit"], after["rates"], after["key_limit"]) == (None, [], None)
    assert (after["key_limits"], after["weights"], after["defaults"]) == ({"a": 3}, {"b": 2}, {})
    assert cli.ok(*"queue set mail --clear".split()).stdout == "Queue 'mail' has no limits.\n"
    assert cli.ok("queue", "list", "--json").json == []


def test_jobs_get_what_their_queue_says(cli: Cli) -> None:
    cli.ok(*"queue set mail --timeout 2h --retries 5 --priority 7".split())
    shown = cli.ok("show", cli.add("true", "--queue", "mail"), "--json").json
    assert (shown["timeout"], shown["max_retries"], shown["priority"]) == (7200, 5, 7)
    own = cli.add("true", "--queue", "mail", "--priority", "0", "--timeout", "5s")
    shown = cli.ok("show", own, "--json").json
    assert (shown["timeout"], shown["max_retries"], shown["priority"]) == (5, 5, 0)
    assert cli.ok("show", cli.add("true"), "--json").json["priority"] == 0


def test_how_much_is_used(working: Cli) -> None:
    working.ok(*"queue set mail --limit 1 --max-waiting 40 --weight a=3 --timeout 1h".split())
    ids = [
        working.add("until [ -e stop ]; do sleep 0.02; done", "--queue", "mail", "--key", key)
        for key in "aab"
    ]
    wait_for(
        lambda: working.queue.status().states[State.PROCESSING] == 1, "the first of them to run"
    )
    header, line = working.ok("queue", "list").lines
    assert header.split()[-1] == "LIMITS"
    assert line.endswith("1 of 1 run, 2 of 40 wait")
    shown = working.ok("queue", "show", "mail").stdout
    assert "Workers:    2 on 1 node" in shown
    assert "Limit:     1 of 1 at once" in shown
    assert "Waiting:   2 of 40 at most" in shown
    assert "Timeout: 1h" in shown
    told = working.ok("queue", "show", "mail", "--json").json
    assert (told["running"], told["waiting"], told["workers"]) == (1, 2, 2)
    assert told["keys"] == [
        {"key": "a", "running": 1, "waiting": 1, "limit": None, "weight": 3},
        {"key": "b", "running": 0, "waiting": 1, "limit": None, "weight": 1},
    ]
    (working.folder / "stop").touch()
    working.ok("wait", *ids)
    assert working.ok("queue", "show", "mail", "--json").json["keys"] == []


def test_each_change_is_an_event(cli: Cli) -> None:
    cli.ok(*"queue set mail --limit 3 --rate 5/1s".split())
    cli.ok(*"queue set mail --clear".split())
    cli.ok(*"queue pause mail".split())
    events = [(e["kind"], e["detail"], "@" in e["who"]) for e in cli.ok("events", "--json").json]
    assert events == [
        ("pause", "mail", True),
        ("limits", "mail: cleared", True),
        ("limits", "mail: limit 3, rates 5/1s", True),
    ]


def test_the_older_commands_are_in_the_group(cli: Cli) -> None:
    told = cli.ok("queue", "pause", "mail").stdout
    assert told == "Queue 'mail' is paused; jobs that run go on.\n"
    assert "Paused:  by " in cli.ok("queue", "show", "mail").stdout
    assert cli.ok("queue", "list", "-q").lines == cli.ok("queues", "-q").lines == ["mail"]
    assert cli.ok("queue", "resume", "--all").stdout == "Queue 'mail' is resumed.\n"


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("", "Say what to set, such as --limit 3"),
        ("--clear --limit 3", "Either clear all, or say what to set, not both"),
        ("--limit 0", "Limit must be a whole number from 1 to 1,000,000, not '0'."),
        ("--limit -3", "Limit must be a whole number from 1 to 1,000,000, not '-3'."),
        ("--limit many", "Limit must be a whole number"),
        ("--rate fast", "A rate is a number of jobs and a time, such as 100/1m or 5/1s"),
        ("--rate 5/1s --rate none", "Either --rate none, or rates, not both"),
        ("--key-limit 1 --key-limit 2", "--key-limit is given twice for all keys"),
        ("--key-limit =2", "a key is empty."),
        ("--weight vip", "--weight takes KEY=N, such as vip=5, not 'vip'"),
        ("--weight vip=0", "weights of vip must be a whole number from 1 to 1,000, not '0'."),
        ("--when-full explode", "'explode' is not one of 'wait', 'reject'"),
        ("--timeout soon", "Bad timeout: "),
        ("--priority high", "Priority must be a whole number, not 'high'."),
        ("--concurrency 3", "There is no option --concurrency; use --limit."),
    ],
)
def test_what_can_not_be_is_refused_and_nothing_is_made(
    cli: Cli, typed: str, sentence: str
) -> None:
    assert sentence in cli.refused("queue", "set", "mail", *typed.split(), code=2)
    assert not cli.db.exists()


def test_a_queue_that_nobody_uses_is_not_shown(cli: Cli) -> None:
    cli.ok(*"queue set mail --limit 3".split())
    assert cli.refused("queue", "show", "mial", code=3) == (
        "queuectl: Nothing is in queue 'mial', or set on it; did you mean 'mail'?"
    )
    assert cli.refused("queue", "set", "a\nb", "--limit", "3", code=2).startswith(
        "queuectl: Queue must be printable"
    )


# -- renaming and removing --------------------------------------------------------------------


def test_a_queue_is_called_otherwise_with_all_there_is_of_it(cli: Cli) -> None:
    cli.ok(*"queue set mail --limit 3".split())
    for _ in range(2):
        cli.add("true", "--queue", "mail")
    cli.ok("schedule", "add", "nightly", "@daily", "true", "--queue", "mail")
    told = cli.ok("queue", "rename", "mail", "post").lines
    assert told == [
        "Queue 'mail' is called 'post' from now on, with 2 jobs.",
        "Schedule 'nightly' makes its jobs there.",
    ]
    (row,) = cli.ok("queue", "list", "--json").json
    assert (row["name"], row["waiting"], row["limits"]["limit"]) == ("post", 2, 3)
    assert cli.ok("schedule", "show", "nightly", "--json").json["job"]["queue"] == "post"
    event = cli.ok("events", "--json").json[0]
    assert (event["kind"], event["detail"]) == ("rename", "queue mail to post")
    assert "@" in event["who"]


def test_what_a_renaming_came_to_as_json(cli: Cli) -> None:
    node = cli.node("--queue", "mail:2", "--queue", "other")
    cli.ok(*"queue pause mail".split())
    cli.add("true", "--queue", "mail")
    told = cli.ok(*"queue rename mail post --json".split()).json
    assert told == {
        "name": "post",
        "was": "mail",
        "jobs": 1,
        "schedules": [],
        "nodes": told["nodes"],
    }
    assert len(told["nodes"]) == 1
    cli.ok(*"queue rename post mail".split())
    said = cli.run(*"queue rename mail post".split()).stderr
    assert said == f"Node {told['nodes'][0]} was started for 'mail', and goes on with that name.\n"
    assert node.poll() is None


def test_no_queue_is_renamed_while_jobs_of_it_run(working: Cli) -> None:
    id = working.add("until [ -e stop ]; do sleep 0.02; done", "--queue", "mail")
    wait_for(lambda: working.queue.get(id).state == State.PROCESSING, "the job to run")
    assert working.refused("queue", "rename", "mail", "post", code=4) == (
        "queuectl: Queue 'mail' has running jobs (1); pause it, and rename it when they are over."
    )
    (working.folder / "stop").touch()
    working.ok("wait", id)
    working.ok("queue", "rename", "mail", "post")


@pytest.mark.parametrize(
    ("names", "code", "sentence"),
    [
        (
            "mail post",
            4,
            "Queue 'post' is in use: 1 job is in it (1 pending); choose another name.",
        ),
        ("mail set", 4, "Queue 'set' is in use: something is set on it; choose another name."),
        ("mail tick", 4, "Queue 'tick' is in use: schedule daily makes jobs for it; choose"),
        ("mail mail", 2, "Queue 'mail' is called so already; give another name."),
        ("mial new", 3, "Nothing is in queue 'mial', or set on it; did you mean 'mail'?"),
        ("mail a\x1bb", 2, "Queue must be printable"),
        (f"mail {'x' * 129}", 2, "at most 128 are allowed"),
    ],
)
def test_what_can_not_be_renamed_stays(cli: Cli, names: str, code: int, sentence: str) -> None:
    cli.add("true", "--queue", "mail")
    cli.add("true", "--queue", "post")
    cli.ok(*"queue set set --limit 3".split())
    cli.ok(*"schedule add daily @daily true --queue tick".split())
    before = cli.ok("queue", "list", "--json").json
    assert sentence in cli.refused("queue", "rename", *names.split(), code=code)
    assert cli.ok("queue", "list", "--json").json == before


def test_a_queue_without_jobs_is_removed(cli: Cli) -> None:
    cli.ok(*"queue set mail --limit 3".split())
    cli.ok(*"queue pause mail".split())
    assert cli.ok(*"queue rm mail".split()).stdout == "Queue 'mail' is removed.\n"
    assert cli.ok(*"queue list --json".split()).json == []
    event = cli.ok("events", "--json").json[0]
    assert (event["kind"], event["detail"]) == ("rm", "queue mail")
    cli.ok(*"queue pause mail".split())
    assert cli.ok(*"queue rm mail --json".split()).json == {"name": "mail", "removed": True}


def test_one_that_is_in_use_is_not(cli: Cli) -> None:
    cli.ok(*"queue set mail --limit 3".split())
    cli.ok(*"schedule add daily @daily true --queue mail".split())
    id = cli.add("true", "--queue", "mail")
    assert cli.refused("queue", "rm", "mail", code=4) == (
        "queuectl: Queue 'mail' is in use: 1 job is in it (1 pending); move those that wait, or"
        " remove them with queuectl rm --queue mail."
    )
    cli.ok("rm", id)
    assert cli.refused("queue", "rm", "mail", code=4) == (
        "queuectl: Queue 'mail' is in use: schedule daily makes jobs for it; change or remove that"
        " first."
    )
    cli.ok("schedule", "rm", "daily")
    cli.ok("queue", "rm", "mail")
    assert cli.refused("queue", "rm", "mail", code=3).startswith(
        "queuectl: Nothing is in queue 'mail', or set on it; "
    )
