"""`pause`, `resume` and `queues`."""

from queuectl import State
from tests.cli.conftest import Cli
from tests.support import wait_for


def test_a_paused_queue_gives_nothing_out_until_it_is_resumed(cli: Cli) -> None:
    assert cli.ok("pause").stdout == "Queue 'default' is paused; jobs that run go on.\n"
    id, other = cli.add("true"), cli.add("true", "--queue", "other")
    cli.node()
    wait_for(lambda: cli.queue.get(other).state == State.COMPLETED, "the other queue's job")
    assert cli.queue.get(id).state == State.PENDING
    assert cli.ok("resume").stdout == "Queue 'default' is resumed.\n"
    wait_for(lambda: cli.queue.get(id).state == State.COMPLETED, "the resumed queue's job")


def test_pausing_or_resuming_twice_says_so_and_is_no_error(cli: Cli) -> None:
    cli.ok("pause", "mail", "print", "mail")
    assert cli.ok("pause", "mail").stdout == "Queue 'mail' was paused already.\n"
    assert cli.ok("resume", "mail").stdout == "Queue 'mail' is resumed.\n"
    assert cli.ok("resume", "mail").stdout == "Queue 'mail' wasn't paused.\n"
    assert cli.ok("status", "--json").json["queues"][0]["name"] == "print"


def test_all_means_all_that_are_in_use(cli: Cli) -> None:
    cli.add("true")
    cli.add("true", "--queue", "mail")
    assert cli.ok("pause", "--all").lines == [
        "Queue 'default' is paused; jobs that run go on.",
        "Queue 'mail' is paused; jobs that run go on.",
    ]
    assert cli.ok("resume", "--all").lines == [
        "Queue 'default' is resumed.",
        "Queue 'mail' is resumed.",
    ]
    assert cli.ok("resume", "--all").stderr == "No queue is paused.\n"


def test_names_and_all_together_are_refused(cli: Cli) -> None:
    assert "--all" in cli.refused("pause", "mail", "--all", code=2)
    assert not cli.db.exists()


def test_a_name_that_makes_no_sense_is_refused(cli: Cli) -> None:
    assert "queue" in cli.refused("pause", "two\nlines", code=2)


def test_only_pause_makes_a_database(cli: Cli) -> None:
    cli.refused("resume", code=5)
    cli.refused("queues", code=5)
    assert not cli.db.exists()
    cli.ok("pause")
    assert cli.db.exists()


def test_queues_are_listed_with_what_is_in_them(cli: Cli) -> None:
    for command, queue in (("true", "a"), ("exit 1", "a"), ("true", "b"), ("true", "c")):
        cli.add(command, "--queue", queue, "--max-retries", "0")
    cli.ok("cancel", "--queue", "c")
    cli.ok("worker", "start", "--drain", "--queue", "a")
    cli.ok("pause", "b")
    rows = {row["name"]: row for row in cli.ok("queues", "--json").json}
    assert list(rows) == ["a", "b", "c"]
    assert (rows["a"]["completed"], rows["a"]["dead"], rows["a"]["paused"]) == (1, 1, False)
    assert (rows["b"]["waiting"], rows["b"]["running"], rows["b"]["paused"]) == (1, 0, True)
    assert (rows["c"]["cancelled"], rows["c"]["states"]["cancelled"]) == (1, 1)
    assert "@" in rows["b"]["paused_by"]
    assert rows["b"]["paused_at"].endswith("Z")
    header, first, second, _ = cli.ok("queues").lines
    assert header.split() == "QUEUE WAITING RUNNING COMPLETED DEAD CANCELLED PAUSED".split()
    assert first.split() == "a 0 0 1 1 0 no".split()
    assert second.split()[:2] == ["b", "1"]
    assert cli.ok("queues", "-q").lines == ["a", "b", "c"]


def test_no_queues_is_said_on_stderr(cli: Cli) -> None:
    cli.ok("config", "set", "workers", "2")
    result = cli.ok("queues")
    assert (result.stdout, result.stderr) == ("", "No queue has jobs.\n")
    assert cli.ok("queues", "--json").json == []
