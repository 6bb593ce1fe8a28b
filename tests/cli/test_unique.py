"""`enqueue --unique`: what is said of jobs that are there already, and what can't be."""

import json

import pytest

from queuectl import State
from tests.cli.conftest import Cli


def test_a_second_request_is_told_of_the_first(cli: Cli) -> None:
    first = cli.ok("enqueue", "true", "--unique", "k", "--quiet").lines[0]
    told = cli.ok("enqueue", "false", "--unique", "k")
    assert told.lines == [f"Job {first} has the unique key 'k', and is pending: true"]
    assert cli.ok("enqueue", "false", "--unique", "k", "-q").lines == [first]
    again = cli.ok("enqueue", "false", "--unique", "k", "--json").json
    assert (again["id"], again["existing"], again["unique_key"]) == (first, True, "k")
    assert cli.ok("enqueue", "true", "--unique", "l", "--json").json["existing"] is False


def test_it_is_shown(cli: Cli) -> None:
    how = "--unique k --unique-until start --unique-for 1h".split()
    id = cli.ok("enqueue", "true", *how, "-q").lines[0]
    assert "Unique:    k, until its start, for 1h at least" in cli.ok("show", id).lines
    told = cli.ok("show", id, "--json").json
    assert (told["unique_key"], told["unique_until"], told["unique_for"]) == ("k", "start", 3600)


def test_one_that_is_refused_names_the_holder(cli: Cli) -> None:
    first = cli.ok("enqueue", "true", "--unique", "k", "--quiet").lines[0]
    how = ("--unique", "k", "--on-duplicate", "reject")
    refused = cli.refused("enqueue", "true", *how, code=4)
    told = f"queuectl: Job {first} has the unique key 'k', and waits; nothing was enqueued."
    assert told in refused
    assert len(cli.queue.list()) == 1


def test_of_a_file(cli: Cli) -> None:
    lines = "\n".join(json.dumps({"command": "true", "unique": key}) for key in "aabc")
    told = cli.ok("enqueue", "--file", "-", input=lines)
    assert told.lines == ["Enqueued 3 jobs; 1 was there already (unique)."]
    again = cli.run(*"enqueue --file - --keep-going --on-duplicate reject".split(), input=lines)
    assert again.code == 1
    assert again.lines == ["Enqueued 0 jobs; 4 lines could not be."]
    assert again.stderr.count("has the unique key") == 4
    counted = cli.ok("enqueue", "--file", "-", "--json", input=lines).json
    assert (counted["enqueued"], len(counted["existing"])) == (0, 4)


def test_debounced(cli: Cli) -> None:
    how = "--unique k --on-duplicate debounce --delay 1h --max-wait 2h".split()
    first = cli.ok("enqueue", "old", *how, "-q").lines[0]
    told = cli.ok("enqueue", "new", *how)
    assert told.lines[0].startswith(f"Job {first} has the unique key 'k', and is now: new (sch")
    (job,) = cli.queue.list()
    assert job.command == "new"


def test_a_retry_by_filter_passes_over_who_cannot_have_it(cli: Cli) -> None:
    first = cli.queue.enqueue("true", unique="k")
    other = cli.queue.enqueue("true")
    cli.queue.cancel(first)
    cli.queue.cancel(other)
    second = cli.queue.enqueue("true", unique="k")
    assert cli.ok("retry", "--state", "cancelled").stderr == "1 job retried.\n"
    assert cli.queue.get(first).state == State.CANCELLED
    assert cli.queue.get(other).state == State.PENDING
    refused = cli.refused("retry", first.id, code=4)
    assert f"Job {second.id} has the unique key 'k'" in refused


def test_a_schedule_names_who_has_it(cli: Cli) -> None:
    holder = cli.queue.enqueue("true", unique="k")
    cli.ok("schedule", "add", "nightly", "0 3 * * *", "true", "--unique", "k")
    refused = cli.refused("schedule", "run", "nightly", code=4)
    assert f"Job {holder.id} has the unique key 'k'" in refused


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--unique", ""], "unique is empty."),
        (["--unique", "a\nb"], "must be printable"),
        (["--unique", "x" * 257], "at most 256 are allowed"),
        (["--unique", "x" * 100_000], "at most"),
        (["--unique", "k", "--on-duplicate", "no"], "one of return, reject, replace, debounce"),
        (["--unique", "k", "--unique-until", "now"], "one of start, end"),
        (["--unique", "k", "--unique-for", "-1s"], "unique_for"),
        (["--unique", "k", "--max-wait", "1h"], "max_wait is for on_duplicate debounce"),
        (["--unique-for", "1h"], "unique_for is about a unique key"),
        (["--unique", "k", "--on-duplicate", "debounce", "--id", "x"], "leave id out"),
    ],
)
def test_what_can_not_be(cli: Cli, options: list[str], why: str) -> None:
    assert why in cli.refused("enqueue", "true", *options, code=2)
    assert cli.queue.list() == []
