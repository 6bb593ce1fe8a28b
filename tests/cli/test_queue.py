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
