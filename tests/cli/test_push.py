"""`push`, and `worker start --exec`: data jobs from the command line to the end of their runs."""

import json
import re
import sys
from base64 import b64decode
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.support import wait_for


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A program that says what it was given."""
    path = tmp_path / "handle it"
    path.write_text('#!/bin/sh\necho "type: $QUEUECTL_TYPE"\nprintf "<%s>" "$@"\ncat\n')
    path.chmod(0o755)
    return str(path)


def _facts(cli: Cli, id: str) -> set[tuple[str, ...]]:
    return {tuple(line.split(maxsplit=1)) for line in cli.ok("show", id).lines}


class TestPush:
    def test_from_an_argument_a_file_and_stdin(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"\0\xff")
        assert cli.ok("push", "a b", '{"x": 1}', "-q").lines == ["a b"]
        cli.ok("push", "file", f"@{tmp_path}/data", "--type", "t")
        cli.ok("push", "dash", "-", input="from stdin")
        cli.ok("push", "nothing", input="@text")
        jobs = {job.id: job for job in cli.queue.list()}
        assert {id: job.data for id, job in jobs.items()} == {
            "a b": b'{"x": 1}',
            "file": b"\0\xff",
            "dash": b"from stdin",
            "nothing": b"@text",
        }
        assert [jobs[id].type for id in ("file", "dash")] == ["t", ""]

    def test_it_is_shown(self, cli: Cli, tmp_path: Path) -> None:
        (tmp_path / "data").write_bytes(b"\0\xff")
        cli.ok("push", "text", "dätä", "--type", "t")
        cli.ok("push", "bytes", f"@{tmp_path}/data")
        told = cli.ok("show", "text", "--json").json
        assert (told["type"], told["data"], told["data_base64"]) == ("t", "dätä", None)
        assert {("Type:", "t"), ("Data:", "dätä")} <= _facts(cli, "text")
        told = cli.ok("show", "bytes", "--json").json
        assert (told["type"], told["data"]) == ("", None)
        assert b64decode(told["data_base64"]) == b"\0\xff"
        assert ("Data:", "2 bytes, which aren't text; --json has them") in _facts(cli, "bytes")

    def test_an_id_is_used_once(self, cli: Cli) -> None:
        cli.ok("push", "one", "first")
        assert "The id 'one' is taken" in cli.refused("push", "one", "second", code=4)
        assert [job.data for job in cli.queue.list()] == [b"first"]

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("x", "@/nowhere"), "/nowhere can't be read"),
            (("x", "d", "--type", "a=b"), "A type can't be * or contain '='"),
            (("x", "d", "--type", "*"), "A type can't be *"),
            (("x", "@/dev/zero"), "has more than 1MiB"),
        ],
    )
    def test_what_can_not_be(self, cli: Cli, arguments: tuple[str, ...], why: str) -> None:
        assert why in cli.refused("push", *arguments, code=2)

    def test_in_python(self, cli: Cli) -> None:
        job = cli.queue.push("one", "data", type="t", priority=3)
        assert (job.data, job.type, job.priority, job.cwd) == (b"data", "t", 3, None)
        assert cli.queue.submit("two", b"").type == ""


class TestExec:
    def test_the_program_gets_arguments_id_and_data(self, cli: Cli, program: str) -> None:
        data = "x" * 2**20
        cli.ok("push", "it's 1", "-", "--type", "t", input=data)
        cli.ok("worker", "start", "--drain", "--exec", program, "--", "a b", "--c")
        assert cli.ok("output", "it's 1", "--stdout").stdout.startswith(
            f"type: t\n<a b><--c><it's 1>{data[:1000]}"
        )

    def test_types_are_routed(self, cli: Cli, program: str) -> None:
        for type in ("mail", "mailbox", ""):
            cli.ok("push", f"of-{type}", "d", "--type", type)
        cli.ok("worker", "start", "--drain", "--exec", f"mail={program}")
        states = {job.id: job.state for job in cli.queue.list()}
        assert states == {"of-mail": "completed", "of-mailbox": "pending", "of-": "pending"}
        cli.ok("worker", "start", "--drain", "--exec", "mail=false", "--exec", program)
        assert {job.state.value for job in cli.queue.list()} == {"completed"}

    def test_types_are_a_filter(self, cli: Cli) -> None:
        for type in ("mail", "mailbox", ""):
            cli.ok("push", f"of-{type}", "d", "--type", type)
        cli.ok("enqueue", "true")
        assert cli.ok("list", "--type", "mail", "-q").lines == ["of-mail"]
        assert cli.ok("list", "--type", "mail", "--type", "", "-q").lines == ["of-", "of-mail"]
        (job,) = cli.ok("list", "--type", "mailbox", "--json").json
        assert (job["id"], job["type"]) == ("of-mailbox", "mailbox")
        assert cli.ok("list", "--type", "none").stderr == "No jobs found.\n"
        more = cli.ok("list", "--type", "mail", "--type", "mailbox", "-n", "1").stderr
        assert "queuectl list --type mail --type mailbox -n 1 --after of-mailbox" in more
        cli.ok("cancel", "--type", "mailbox")
        cli.ok("edit", "--where", "type=mail", "--priority", "7")
        found = {
            job.id: (job.state.value, job.priority)
            for job in cli.queue.list(type=["mail", "mailbox"])
        }
        assert found == {"of-mail": ("pending", 7), "of-mailbox": ("cancelled", 0)}
        assert cli.queue.count(type="mail", state="pending") == 1

    def test_a_failure_is_one(self, cli: Cli) -> None:
        cli.ok("push", "one", "d", "--max-retries", "0")
        cli.ok("worker", "start", "--drain", "--exec", "false")
        assert cli.queue.get("one").state == "dead"

    def test_commands_run_as_well(self, cli: Cli, program: str) -> None:
        id = cli.ok("enqueue", "true", "-q").lines[0]
        cli.ok("worker", "start", "--drain", "--exec", program)
        assert cli.queue.get(id).state == "completed"

    @pytest.mark.parametrize(
        ("arguments", "why"),
        [
            (("--exec", "no-such-program"), "There is no program 'no-such-program'"),
            (("--exec", "true", "--exec", "cat"), "--exec is given twice"),
            (("--exec", "a=true", "--exec", "a=cat"), "--exec is given twice for a"),
            (("word",), "Got unexpected extra argument (word)"),
        ],
    )
    def test_what_can_not_be(self, cli: Cli, arguments: tuple[str, ...], why: str) -> None:
        assert why in cli.refused("worker", "start", *arguments, code=2)


class TestOtherWord:
    def test_submit_is_push(self, cli: Cli) -> None:
        assert cli.ok("submit", "one", "d", "--type", "t", "-q").lines == ["one"]
        job = cli.queue.get("one")
        assert (job.data, job.type) == (b"d", "t")
        assert "The id 'one' is taken" in cli.refused("submit", "one", "d", code=4)

    def test_its_help_says_so(self, cli: Cli) -> None:
        page = cli.ok("submit", "--help").stdout
        assert page.startswith("Usage: queuectl submit [OPTIONS] ID")
        assert "another word for push" in page and "queuectl submit order-17" in page
        help = cli.ok("--help").stdout
        assert re.search(r"submit +Add a data job: another word for push\.", help)


class TestForceFinish:
    def test_one_that_waits(self, cli: Cli) -> None:
        cli.ok("push", "it's 1", "d")
        told = cli.ok("force-finish", "it's 1", "--result", '{"by": "hand"}')
        assert told.lines == ["Job it's 1 finished."]
        assert cli.ok("result", "--of", "it's 1").json == {"by": "hand"}
        assert str(cli.queue.get("it's 1").reason).startswith("finished by ")
        assert [event.kind for event in cli.queue.events("it's 1")] == ["force-finish"]
        why = cli.refused("force-finish", "it's 1", code=4)
        assert "Job it's 1 is completed already; it can't be finished." in why

    def test_one_that_runs_is_ended_first(self, cli: Cli, tmp_path: Path) -> None:
        handle = tmp_path / "handle"
        handle.write_text("#!/bin/sh\necho begun\nexec sleep 600\n")
        handle.chmod(0o755)
        cli.ok("push", "one", "d", "--on-success", "true")
        cli.node("--exec", str(handle))
        wait_for(lambda: cli.queue.get("one").state == "processing", "the run")
        told = cli.ok("force-finish", "one", "--wait", "--json", "--result", "7").json
        assert (told["changed"], told["jobs"][0]["state"]) == (1, "completed")
        assert cli.queue.result("one") == 7
        [attempt] = cli.queue.attempts("one")
        assert attempt.outcome == "cancelled"
        assert [job.id for job in cli.queue.hooks("one")] == ["on-success.one.1"]

    def test_by_a_filter(self, cli: Cli) -> None:
        for id in ("a", "b"):
            cli.ok("push", id, "d", "--tag", "x")
        cli.ok("push", "c", "d")
        assert "2 jobs would be finished." in cli.ok("force-finish", "-T", "x", "--dry-run").stderr
        assert "2 jobs finished." in cli.ok("force-finish", "--tag", "x").stderr
        assert [job.id for job in cli.queue.list(state="pending")] == ["c"]

    @pytest.mark.parametrize(
        ("arguments", "code", "why"),
        [
            (("a", "--result", "{"), 2, "The result is no JSON"),
            (("a", "--result", ""), 2, "The result is no JSON: it is empty."),
            (("nobody",), 3, "There is no job 'nobody'"),
            ((), 2, "Say which jobs"),
        ],
    )
    def test_what_can_not_be(
        self, cli: Cli, arguments: tuple[str, ...], code: int, why: str
    ) -> None:
        cli.ok("push", "a", "d")
        assert why in cli.refused("force-finish", *arguments, code=code)
        assert cli.queue.get("a").state == "pending"


class TestDataThatChanges:
    def test_a_later_run_is_given_what_a_run_has_made_of_it(self, cli: Cli, tmp_path: Path) -> None:
        handle = tmp_path / "handle"
        handle.write_text(
            f"""#!{sys.executable}
import json, sys
from queuectl import Queue

data = json.load(sys.stdin)
with Queue() as queue:
    assert queue.heartbeat().id == sys.argv[-1]
    queue.update_data({{"runs": data["runs"] + 1, "ü": "🎈"}})
sys.exit(data["runs"] < 2)
"""
        )
        handle.chmod(0o755)
        cli.ok("push", "one", '{"runs": 0, "kept": [1]}', "--retry-delay", "0")
        cli.ok("worker", "start", "--drain", "--exec", str(handle))
        job = cli.queue.get("one")
        assert (job.state, job.attempts) == ("completed", 3)
        assert json.loads(job.data or b"") == {"runs": 3, "kept": [1], "ü": "🎈"}


def test_what_follows_a_group_of_data_jobs(cli: Cli) -> None:
    cli.ok("push", "a", "1", "--group", "album", "--on-done", "echo over")
    cli.ok("push", "b", "2", "--group", "album", "--on-done", "echo over")
    (last,) = [job for job in cli.queue.list() if job.command is not None]
    assert (last.command, last.after_group, last.group) == ("echo over", ("album:any",), None)
    assert "--group NAME" in cli.refused("push", "c", "3", "--on-done", "echo over", code=2)
