"""Where the queue is: one that isn't there yet, one that was just made, names that are misspelt."""

import json
import os
import shutil
from contextlib import closing
from pathlib import Path

import pytest

from queuectl import Queue
from tests.cli.conftest import Cli
from tests.support import PATIENCE

READING = [
    ("status",),
    ("status", "--json"),
    ("list",),
    ("list", "--json"),
    ("dlq", "list"),
    ("dlq", "count"),
    ("queues",),
    ("stats",),
    ("events",),
    ("doctor",),
    ("worker", "list"),
    ("worker", "stop"),
    ("worker", "restart"),
    ("config", "list"),
    ("config", "get", "workers"),
    ("wait", "--all"),
    ("resume",),
    ("resume", "--all"),
    ("pause", "--all"),
    ("cancel", "--state", "pending"),
    ("prune", "--older-than", "1d"),
]
ABOUT_A_JOB = [
    ("show", "some"),
    ("output", "some"),
    ("logs", "some"),
    ("events", "some"),
    ("wait", "some"),
    ("cancel", "some"),
    ("retry", "some"),
    ("rm", "some"),
    ("dlq", "show", "some"),
]
ABOUT_THE_FILE = [
    ("db", "info"),
    ("db", "check"),
    ("db", "backup", "copy.db"),
    ("db", "vacuum"),
    ("db", "migrate"),
]
MAKING = [
    ("enqueue", "true"),
    ("pause",),
    ("config", "set", "workers", "2"),
    ("worker", "start", "--drain"),
    ("worker", "start", "--daemon"),
    ("db", "init"),
]
NOBODY = "No worker is running; start one with: queuectl worker start\n"


@pytest.fixture
def fresh(cli: Cli) -> Cli:
    """The command on a fresh machine, where nobody has named a queue."""
    cli.variables["QUEUECTL_DB"] = ""
    return cli


def default(cli: Cli) -> Path:
    """Where the queue of a fresh machine will be."""
    return cli.folder / "data" / "queuectl" / "queue.db"


class TestOnAFreshMachine:
    @pytest.mark.parametrize("args", READING, ids=" ".join)
    def test_the_default_queue_is_empty_to_whoever_reads(
        self, fresh: Cli, args: tuple[str, ...]
    ) -> None:
        fresh.ok(*args)
        assert list(fresh.folder.iterdir()) == []

    @pytest.mark.parametrize("args", ABOUT_A_JOB, ids=" ".join)
    def test_there_is_no_such_job(self, fresh: Cli, args: tuple[str, ...]) -> None:
        assert "There is no job 'some'" in fresh.refused(*args, code=3)
        assert list(fresh.folder.iterdir()) == []

    @pytest.mark.parametrize("args", ABOUT_THE_FILE, ids=" ".join)
    def test_what_is_about_the_file_needs_one(self, fresh: Cli, args: tuple[str, ...]) -> None:
        told = fresh.refused(*args, code=5)
        assert f"There is no queue at {default(fresh)} yet" in told
        assert list(fresh.folder.iterdir()) == []

    def test_the_documented_check_for_dead_jobs_holds(self, fresh: Cli) -> None:
        assert fresh.ok("dlq", "count").stdout == "0\n"
        assert fresh.ok("status", "--json").json["total"] == 0

    def test_doctor_notes_it_and_names_no_error(self, fresh: Cli) -> None:
        findings = fresh.ok("doctor", "--json").json["findings"]
        (found,) = [finding for finding in findings if finding["subject"] == "file"]
        assert found["level"] == "note"
        assert str(default(fresh)) in found["text"]
        assert {finding["level"] for finding in findings} == {"ok", "note"}

    def test_who_watches_sees_the_queue_once_it_is_made(self, fresh: Cli) -> None:
        reader = fresh.start("status", "--watch", "100ms")
        assert reader.stdout is not None
        assert b"pending        0\n" in (reader.stdout.readline() + reader.stdout.readline())
        fresh.ok("enqueue", "true")
        seen = iter(reader.stdout.readline, b"")
        assert next(line for line in seen if line == b"pending        1\n")

    def test_who_follows_sees_the_jobs_once_there_are_some(self, fresh: Cli) -> None:
        reader = fresh.start("logs")
        fresh.ok("enqueue", "while [ ! -e enough ]; do echo here; sleep 0.1; done", "--id", "late")
        worker = fresh.start("worker", "start", "--drain")
        assert reader.stdout is not None
        assert reader.stdout.readline().startswith(b"late")
        (fresh.folder / "enough").touch()
        assert worker.wait(PATIENCE) == 0


class TestAQueueThatWasNamed:
    @pytest.mark.parametrize("args", [*READING, *ABOUT_A_JOB, *ABOUT_THE_FILE], ids=" ".join)
    def test_it_must_be_there(self, cli: Cli, args: tuple[str, ...]) -> None:
        result = cli.run(*args)
        assert result.code == 5
        line = f"queuectl: There is no queue at {cli.db} yet; `queuectl enqueue` makes it.\n"
        assert result.stderr == line
        assert list(cli.folder.iterdir()) == []

    @pytest.mark.parametrize(
        "args",
        [*READING, *ABOUT_A_JOB, *ABOUT_THE_FILE, *MAKING],
        ids=" ".join,
    )
    def test_a_missing_folder_gets_the_same_word_from_all(
        self, cli: Cli, args: tuple[str, ...]
    ) -> None:
        folder = cli.folder / "typo"
        cli.variables["QUEUECTL_DB"] = str(folder / "queue.db")
        result = cli.run(*args)
        assert result.code == 5
        told = f"queuectl: The folder {folder} doesn't exist; make it first, or choose another.\n"
        assert result.stderr == told
        assert list(cli.folder.iterdir()) == []


class TestAQueueThatIsMade:
    @pytest.mark.parametrize(
        "args",
        MAKING[:4],
        ids=" ".join,
    )
    def test_that_is_said_once(self, cli: Cli, args: tuple[str, ...]) -> None:
        told = f"Made a new queue at sqlite:{cli.db}.\n"
        assert cli.ok(*args).stderr.count(told) == 1
        assert told not in cli.ok(*args).stderr

    def test_but_not_to_programs(self, cli: Cli) -> None:
        for number, args in enumerate((("-q",), ("--json",))):
            cli.variables["QUEUECTL_DB"] = str(cli.folder / f"{number}.db")
            assert cli.ok("enqueue", "true", *args).stderr == ""

    def test_one_in_the_data_directory(self, fresh: Cli) -> None:
        told = fresh.ok("enqueue", "true").stderr
        assert told == f"Made a new queue at sqlite:{default(fresh)}.\n{NOBODY}"

    def test_python_can_tell_too(self, tmp_path: Path) -> None:
        for new in (True, False):
            with Queue(tmp_path / "queue.db") as queue:
                assert queue.store.is_new == new


class TestNobodyWorks:
    def test_enqueue_says_so(self, cli: Cli) -> None:
        cli.ok("db", "init")
        assert cli.ok("enqueue", "true").stderr == NOBODY
        assert cli.ok("enqueue", "--lines", "-", input="true\ntrue\n").stderr == NOBODY
        assert cli.ok("enqueue", "true", "-q").stderr == ""
        assert cli.ok("enqueue", "true", "--json").stderr == ""

    def test_and_how_to_start_a_worker_for_the_same_queue(self, cli: Cli) -> None:
        (cli.folder / "my queues").mkdir()
        told = cli.ok("--db", "my queues/a.db", "enqueue", "true").stderr
        assert told.endswith("start one with: queuectl --db 'my queues/a.db' worker start\n")

    def test_with_a_worker_nothing_is_said(self, working: Cli) -> None:
        assert working.ok("enqueue", "true").stderr == ""

    def test_a_queue_that_no_worker_serves_is_named(self, cli: Cli) -> None:
        cli.node("--queue", "default")
        assert cli.ok("enqueue", "true").stderr == ""
        told = cli.ok("enqueue", "true", "--queue", "defualt").stderr
        assert told == (
            "Note: no job was in queue 'defualt' before; did you mean 'default'?\n"
            "No worker serves defualt; start one with: queuectl worker start --queue defualt\n"
        )


@pytest.fixture(scope="module")
def once_used(tmp_path_factory: pytest.TempPathFactory) -> Path:
    with closing(Cli(tmp_path_factory.mktemp("used"))) as cli:
        cli.add("true", "--queue", "mail")
        cli.ok("worker", "start", "--drain")
    return cli.db


class TestAQueueThatNobodyHasUsed:
    NOTE = "Note: no job is in queue 'mial', and none has ever run there; did you mean 'mail'?\n"

    @pytest.mark.parametrize(
        "args",
        [
            ("pause", "mial"),
            ("resume", "mial"),
            ("worker", "start", "--queue", "mial", "--drain"),
            ("wait", "--queue", "mial"),
            ("list", "--queue", "mial"),
            ("dlq", "list", "--queue", "mial"),
            ("dlq", "count", "--queue", "mial"),
            ("stats", "--queue", "mial"),
            ("cancel", "--queue", "mial"),
            ("retry", "--queue", "mial"),
            ("rm", "--queue", "mial"),
            ("dlq", "retry", "--queue", "mial"),
        ],
        ids=" ".join,
    )
    def test_the_nearest_is_named(self, cli: Cli, once_used: Path, args: tuple[str, ...]) -> None:
        shutil.copy(once_used, cli.db)
        assert self.NOTE in cli.ok(*args).stderr
        right = [word.replace("mial", "mail") for word in args]
        assert "Note" not in cli.ok(*right).stderr

    def test_who_follows_it_is_told(self, cli: Cli) -> None:
        cli.add("true", "--queue", "mail")
        reader = cli.start("logs", "--queue", "mial")
        assert reader.stderr is not None
        assert reader.stderr.readline().decode() == self.NOTE

    def test_what_was_asked_for_is_done_all_the_same(self, cli: Cli) -> None:
        told = cli.ok("pause", "defualt")
        assert told.stdout == "Queue 'defualt' is paused; jobs that run go on.\n"
        assert "did you mean 'default'?" in told.stderr
        # Who mends it need not hear of it again.
        assert cli.ok("resume", "defualt").stderr == ""

    def test_a_queue_whose_jobs_were_pruned_was_used(self, cli: Cli) -> None:
        cli.add("true", "--queue", "mail")
        cli.ok("worker", "start", "--drain")
        cli.ok("prune", "--older-than", "0")
        assert cli.ok("list", "--queue", "mail").stderr == "No jobs found.\n"
        assert cli.ok("list").stderr == "There are no jobs.\n"

    def test_nothing_is_said_to_programs(self, cli: Cli) -> None:
        cli.add("true", "--queue", "mail")
        assert cli.ok("list", "--queue", "mial", "--json").stderr == ""
        assert cli.ok("list", "--queue", "mial", "-q").stderr == ""
        assert json.loads(cli.ok("dlq", "count", "--queue", "mial", "--json").stdout) == 0

    def test_who_enqueues_is_told_once(self, working: Cli) -> None:
        working.add("true", "--queue", "mail")
        note = "Note: no job was in queue 'mial' before; did you mean 'mail'?\n"
        assert working.ok("enqueue", "true", "--queue", "mial").stderr == note
        assert working.ok("enqueue", "true", "--queue", "mial").stderr == ""
        lines = working.ok("enqueue", "--lines", "-", "--queue", "maill", input="true\n")
        assert "did you mean" in lines.stderr
        for silent in (("zzz",), ("mali", "-q"), ("maiil", "--json")):
            assert working.ok("enqueue", "true", "--queue", *silent).stderr == ""

    def test_a_name_that_looks_like_none(self, cli: Cli) -> None:
        cli.add("true")
        told = cli.ok("list", "--queue", "zzz").stderr
        assert told.startswith("Note: no job is in queue 'zzz', and none has ever run there.\n")


class TestATagThatNoJobHas:
    @pytest.mark.parametrize("command", ["list", "cancel", "retry", "rm"])
    def test_the_nearest_is_named(self, cli: Cli, command: str) -> None:
        cli.queue.enqueue("true", tags=["conv", "other"])
        note = "Note: no job has the tag 'cnov'; did you mean 'conv'?\n"
        assert note in cli.ok(command, "--tag", "cnov").stderr
        assert "Note: no job has the tag 'zzz'.\n" in cli.ok(command, "--tag", "zzz").stderr
        assert cli.ok(command, "--tag", "cnov", "-q").stderr == ""
        assert "Note" not in cli.ok(command, "--tag", "conv", "--tag", "other").stderr


def test_who_enqueues_into_a_paused_queue_is_told(working: Cli) -> None:
    working.ok("pause", "my mail")
    note = "Queue 'my mail' is paused; go on with: queuectl resume 'my mail'\n"
    assert working.ok("enqueue", "true", "--queue", "my mail").stderr == note
    lines = working.ok("enqueue", "--lines", "-", "--queue", "my mail", input="true\n")
    assert lines.stderr == note
    assert working.ok("enqueue", "true", "--queue", "my mail", "-q").stderr == ""
    assert working.ok("enqueue", "true").stderr == ""


def test_the_default_place_does_not_depend_on_where_one_is(fresh: Cli) -> None:
    fresh.ok("enqueue", "true")
    assert os.path.exists(default(fresh))
    assert sorted(path.name for path in fresh.folder.iterdir()) == ["data"]
