"""Data jobs on a real node by the command line: options of the node, files of options, odd data."""

import json
import os
import sqlite3
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from queuectl.when import parse_duration
from tests.cli.conftest import Cli
from tests.support import wait_for

MEGABYTE = bytes(range(256)) * 4096
ODD = ['it\'s "so"', "two  spaces", "\u00fc \U0001f388", "-n", "$(touch x) `y` ;", "a/b\\c", "%s"]


def program(folder: Path, text: str, name: str = "handle") -> str:
    """Make a program of a script, and return where it is."""
    path = folder / name
    path.write_text(text)
    path.chmod(0o755)
    return str(path)


@pytest.fixture
def echo(tmp_path: Path) -> str:
    """A program that writes its last argument to stderr, and its stdin to stdout."""
    return program(tmp_path, '#!/bin/sh\neval "last=\\${$#}"\nprintf %s "$last" >&2\ncat\n')


def _has_failed(cli: Cli, id: str) -> bool:
    return cli.queue.get(id).failures > 0


class TestWhatGoesIn:
    def test_a_megabyte_goes_in_and_out(self, cli: Cli, echo: str) -> None:
        (cli.folder / "big").write_bytes(MEGABYTE)
        cli.ok("push", "file", "@big")
        cli.ok("push", "stdin", "-", input=MEGABYTE)
        cli.ok("worker", "start", "--drain", "--exec", echo)
        for id in ("file", "stdin"):
            assert cli.ok("output", id, "--stdout").out == MEGABYTE
        assert "stdin has more than 1MiB" in cli.refused("push", "x", input=MEGABYTE + b"x", code=2)

    def test_bytes_that_are_no_text(self, cli: Cli, echo: str) -> None:
        data = b"\xff\xfe\0\n\x80"
        cli.ok("push", "stdin", input=data)
        # As an argument, but for the NUL that none can have.
        cli.ok("push", "argument", os.fsdecode(data.replace(b"\0", b"")))
        cli.ok("worker", "start", "--drain", "--exec", echo)
        assert cli.ok("output", "stdin", "--stdout").out == data
        assert cli.ok("output", "argument", "--stdout").out == data.replace(b"\0", b"")

    @pytest.mark.parametrize("id", ODD)
    def test_any_id_arrives_as_it_is(self, cli: Cli, echo: str, id: str) -> None:
        cli.ok("push", "-q", "--", id, "data")
        cli.ok("worker", "start", "--drain", "--exec", echo, "--", "first")
        job = cli.queue.get(id)
        assert (job.state, cli.queue.output(id).stderr.decode()) == ("completed", id)
        assert not (cli.folder / "x").exists()

    @pytest.mark.parametrize("id", ["", " ", "a\nb", "x" * 257, "\x1b[31m"])
    def test_what_is_no_id_is_one_sentence_and_nothing_is_stored(self, cli: Cli, id: str) -> None:
        cli.refused("push", "--", id, "data", code=2)
        assert cli.queue.list() == []

    def test_a_row_that_another_program_inserts(self, cli: Cli, echo: str) -> None:
        cli.ok("db", "init")
        row = """INSERT INTO jobs (id, task, data, handler)
            VALUES ('unique-task-id', '', CAST('{"any":"data"}' AS BLOB), 'type:')"""
        with closing(sqlite3.connect(cli.db)) as client:
            client.execute(row)
            client.commit()
        cli.ok("worker", "start", "--drain", "--exec", echo)
        assert cli.ok("output", "unique-task-id", "--stdout").json == {"any": "data"}

    def test_an_unknown_id_is_told(self, cli: Cli) -> None:
        cli.ok("push", "known", "x")
        for command in ("show", "cancel", "force-finish", "output"):
            assert "There is no job 'unknown'" in cli.refused(command, "unknown", code=3)


class TestHints:
    def test_who_could_handle_it_is_said(self, cli: Cli) -> None:
        start = "start one with: queuectl worker start --exec 'a b'=PROGRAM"
        assert start in cli.ok("push", "one", "x", "--type", "a b").stderr
        cli.node("--exec", "other=true")
        told = cli.ok("push", "two", "x", "--type", "a b").stderr
        assert "No worker handles type a b (by --exec, --serve or --app)" in told
        assert start in told
        assert "--exec, --serve or --app" in cli.ok("explain", "two").stdout
        assert cli.ok("push", "three", "x", "--type", "other").stderr == ""


class TestOptionsOfANode:
    def test_waits_are_up_to_the_worker_unless_the_job_says_them(self, cli: Cli) -> None:
        cli.ok("push", "open", "x")
        cli.ok("push", "own", "x", "--retry-delay", "5m")
        cli.ok("queue", "set", "q", "--retry-delay", "7m")
        cli.ok("push", "of queue", "x", "--queue", "q")
        failing = cli.add("false")
        cli.node("--exec", "false", "--retry-wait", "3h", count=4)
        waits = {"open": "3h", "own": "5m", "of queue": "7m", failing: "2s"}
        for id, wait in waits.items():
            wait_for(partial(_has_failed, cli, id), f"the failure of {id}")
            if id != failing:
                job = cli.queue.get(id)
                ended = (job.started_at or 0) + (job.duration_ms or 0)
                assert job.run_at - ended >= parse_duration(wait)
                assert job.run_at - ended < parse_duration(wait) + 60_000

    def test_a_run_that_takes_too_long_is_ended(self, cli: Cli, tmp_path: Path) -> None:
        slow = program(tmp_path, "#!/bin/sh\nexec sleep 600\n")
        cli.ok("push", "open", "x", "--max-retries", "0")
        cli.ok("worker", "start", "--drain", "--exec", slow, "--kill-timeout", "200ms")
        job = cli.queue.get("open")
        assert (job.state, job.error) == ("dead", "timed out after 200ms")

    def test_what_is_too_old_is_dead_and_not_run(self, cli: Cli, echo: str) -> None:
        cli.ok("push", "old", "x", "--on-dead", "true", "--on-failure", "true")
        cli.ok("push", "own", "x", "--expire", "1h")
        command = cli.add("true")
        wait_for(lambda: cli.queue.now() - cli.queue.get("old").created_at > 100, "some age")
        cli.ok("worker", "start", "--drain", "--exec", echo, "--expire", "100ms")
        job = cli.queue.get("old")
        assert job.state == "dead"
        assert job.reason == "expired: its node runs nothing older than 100ms"
        assert [attempt.outcome for attempt in cli.queue.attempts("old")] == ["expired"]
        assert [hook.id for hook in cli.queue.hooks("old")] == ["on-dead.old.1"]
        assert {cli.queue.get(id).state.value for id in ("own", command)} == {"completed"}

    def test_variables_are_set_for_all_that_it_runs(self, cli: Cli, tmp_path: Path) -> None:
        show = program(tmp_path, '#!/bin/sh\nprintf "$ONE,$TWO"\n')
        cli.ok("push", "data", "x", "--env", "TWO=of the job")
        command = cli.add('printf "$ONE,$TWO"')
        given = ("--env", "ONE=1 = a", "-e", "TWO=2")
        cli.ok("worker", "start", "--drain", "--exec", show, *given)
        assert cli.queue.output("data").stdout == b"1 = a,of the job"
        assert cli.queue.output(command).stdout == b"1 = a,2"

    def test_a_run_that_is_to_end_is_asked_again(self, cli: Cli, tmp_path: Path) -> None:
        script = "#!/bin/sh\ntrap 'n=$((n + 1)); [ $n = 3 ] && exit 0' TERM\necho begun\n"
        deaf = program(tmp_path, script + "while :; do sleep 0.01; done\n")
        cli.ok("push", "one", "x")
        cli.node("--exec", deaf, "--kill-interval", "100ms", "--kill-grace", "1h")
        wait_for(lambda: b"begun" in cli.queue.written("one").output.stdout, "the run")
        cli.ok("cancel", "one", "--wait")
        [attempt] = cli.queue.attempts("one")
        assert (attempt.outcome, attempt.signal) == ("cancelled", None)

    def test_a_verbose_log_has_settings_programs_and_commits(self, cli: Cli, echo: str) -> None:
        cli.ok("push", "one", "x")
        quiet = cli.ok("worker", "start", "--drain").stderr
        told = cli.ok("worker", "start", "--drain", "-v", "--exec", echo, "--expire", "1h").stderr
        assert "for data jobs expire = 1h" in told and f"all other data: {echo}" in told
        assert "A commit ended" in told and "A commit" not in quiet

    def test_a_poll_interval_is_taken(self, cli: Cli) -> None:
        id = cli.add("true")
        cli.ok("worker", "start", "--drain", "--poll-interval", "50ms")
        assert cli.queue.get(id).state == "completed"

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("--env", "X"), "--env takes NAME=VALUE, not 'X'"),
            (("--env", "=x"), "a name in env"),
            (("--env", "QUEUECTL_DB=x"), "QUEUECTL_DB is set by queuectl only"),
            (("--kill-interval", "1ms"), "--kill-interval takes a duration of at least 100ms"),
            (("--kill-grace", "2d"), "--kill-grace takes a duration of at most 1d"),
            (("--poll-interval", "2m"), "--poll-interval takes a duration from 10ms to 1m"),
            (("--retry-wait", "soon"), "soon"),
        ],
    )
    def test_what_can_not_be(self, cli: Cli, arguments: tuple[str, ...], why: str) -> None:
        assert why in cli.refused("worker", "start", *arguments, code=2)
        assert not cli.db.exists()


class TestFilesOfOptions:
    def test_what_is_written_is_read_again(self, cli: Cli, echo: str) -> None:
        given = ("-c", "3", "--exec", echo, "--retry-wait", "90.5s", "--env", "A=\x7f \u00fc")
        told = cli.ok("worker", "configure", "n.toml", *given, "--drain", "--", "x y", '"q"')
        assert told.lines == ["Wrote 6 options to n.toml."]
        assert (cli.folder / "n.toml").stat().st_mode & 0o777 == 0o600
        cli.ok("push", "one", "d")
        log = cli.ok("worker", "start", "-f", "n.toml", "--count", "2", "-v").stderr
        assert "starting 2 workers" in log and f'{echo} x y "q"' in log
        assert "retry_delay = 1m30.5s" in log
        assert cli.queue.get("one").state == "completed"

    def test_as_json_and_with_the_queue(self, cli: Cli) -> None:
        given = ("--daemon", "--queue", "a:3", "--queue", "b")
        told = cli.ok("worker", "configure", "n.toml", *given, "--json", "--db", "other.db").json
        wanted = {"queue": ["a:3", "b"], "daemon": True, "db": "other.db"}
        assert told == {"file": "n.toml", "options": wanted}
        assert not (cli.folder / "other.db").exists()

    def test_of_several_the_later_wins_and_the_command_line_over_all(self, cli: Cli) -> None:
        (cli.folder / "a").write_text("count = 2\ndrain = true\nlog_json = true\n")
        (cli.folder / "b").write_text("count = 3\nlog-json = false\n")
        log = cli.ok("worker", "start", "-f", "a", "-f", "b").stderr
        assert "starting 3 workers" in log and not log.startswith("{")

    @pytest.mark.parametrize(
        ("text", "why"),
        [
            ("drain = true\ncuont = 3", "n.toml, line 2: there is no option 'cuont'; did you mean"),
            ("[exec]\nx = 1", "n.toml, line 1: exec takes a list of texts."),
            ("\n\ncount = [1]", "n.toml, line 3: count takes one value."),
            ("drain = 1", "n.toml, line 1: drain takes true or false."),
            ("count = 1\ncount = 2", "n.toml is no TOML: Cannot overwrite a value"),
            ("log-json = true\nlog_json = true", "n.toml, line 2: log-json is there twice."),
            ("count", "n.toml is no TOML: Expected '='"),
            ("count = 0", "Invalid value for '--count'"),
            ('exec = ["nowhere"]', "There is no program 'nowhere'"),
            ("\udcff", "n.toml is no TOML: it isn't UTF-8."),
        ],
    )
    def test_what_a_file_can_not_say(self, cli: Cli, text: str, why: str) -> None:
        (cli.folder / "n.toml").write_bytes(os.fsencode(text))
        assert why in cli.refused("worker", "start", "-f", "n.toml", "--drain", code=2)

    def test_a_file_that_can_not_be_read_or_written(self, cli: Cli) -> None:
        assert "nowhere can't be read" in cli.refused("worker", "start", "-f", "nowhere", code=2)
        told = cli.refused("worker", "configure", "no/where", "--drain", code=1)
        assert "no/where" in told
        told = cli.refused("worker", "configure", "x", "--env", "A=\udcff", code=2)
        assert not (cli.folder / "x").exists()


def test_a_worked_example(cli: Cli, tmp_path: Path) -> None:
    """Orders that are billed: pushed, billed page by page, done in the end; one by hand."""
    bill = f"""#!{sys.executable}
import json, sys
from queuectl import Queue

order = json.load(sys.stdin)
with Queue() as queue:
    for page in range(order.get("done", 0), order["pages"]):
        print(sys.argv[-1], "page", page)
        queue.update_data({{"done": page + 1}})
        if page == 1 and "tried" not in order:
            queue.update_data({{"tried": True}})
            sys.exit("the printer is out of paper")
"""
    cli.ok("worker", "configure", "n.toml", "--exec", f"bill={program(tmp_path, bill)}", "--drain")
    cli.ok("push", "order-17", '{"pages": 3}', "--type", "bill", "--retry-delay", "0")
    cli.ok("push", "order-18", '{"pages": 9}', "--type", "bill")
    cli.ok("force-finish", "order-18", "--result", '"by fax"')
    cli.ok("worker", "start", "-f", "n.toml")
    job = cli.queue.get("order-17")
    assert (job.state, job.attempts) == ("completed", 2)
    assert json.loads(job.data or b"") == {"pages": 3, "done": 3, "tried": True}
    assert cli.ok("output", "order-17", "--stdout").lines == ["order-17 page 2"]
    assert cli.queue.result("order-18") == "by fax"
