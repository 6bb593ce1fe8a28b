"""The `hook` commands."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from queuectl import State
from queuectl.delivery import new_secret
from queuectl.job_json import moment
from queuectl.values import replace
from queuectl.webhooks import read_webhook
from tests.cli.conftest import Cli
from tests.receiver import Receiver, serving

URL = "https://hooks.example.com/a?b=c"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving(Receiver()) as server:
        yield server


def add(cli: Cli, *args: str, url: str = URL) -> str:
    """Add a webhook; returns its secret."""
    secret: str = cli.ok("hook", "add", url, *args, "--json").json["secret"]
    return secret


class TestAdd:
    def test_the_usual(self, cli: Cli) -> None:
        told = cli.ok("hook", "add", URL)
        added, secret = told.lines
        assert added == f"Added webhook hooks.example.com: tells dead of all queues to {URL}"
        (made,) = cli.queue.webhooks.all()
        assert secret == f"Its secret is {made.secret}"
        assert "No worker is running" in told.stderr

    def test_with_all_there_is(self, cli: Cli) -> None:
        secret = new_secret()
        (cli.folder / "secret").write_text(f"{secret}\n")
        told = cli.ok(
            *("hook", "add", URL, "--on", "dead, completed", "--queue", "a", "--queue", "b ü"),
            *("--name", "ops", "--secret", "@secret", "--allow-private", "--data"),
            *("--via", "mine", "--json"),
        ).json
        assert {name: told[name] for name in told if not name.endswith("_at")} == {
            "name": "ops",
            "url": URL,
            "on": ["completed", "dead"],
            "queues": ["a", "b ü"],
            "via": "mine",
            "allow_private": True,
            "data": True,
            "paused": False,
            "paused_by": None,
            "secret": secret,
        }
        listed = cli.ok("hook", "list", "--json").json
        del told["secret"]
        assert listed == [told]

    def test_a_secret_from_stdin(self, cli: Cli) -> None:
        secret = new_secret()
        cli.ok("hook", "add", URL, "--name", "ops", "--secret", "-", input=secret)
        assert cli.queue.webhooks.get("ops").secret == secret

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            (("example.com",), "needs a URL such as"),
            (("https://user@example.com",), "user or password"),
            ((URL, "--on", "dad"), "did you mean 'dead'?"),
            ((URL, "--on", "started"), "there are completed, failed, dead, cancelled."),
            ((URL, "--on", ""), "Say what a webhook is told of"),
            (("http://127.1/x",), "127.1 is no public address"),
            (("https://localhost/x",), "--allow-private lets it be there"),
            ((URL, "--name", " "), "name of a webhook"),
            ((URL, "--name", "x" * 65), "at most 64"),
            ((URL, "--queue", ""), "queue is empty"),
            ((URL, "--via", " a"), "without spaces"),
            ((URL, "--secret", "whsec_AAAA"), "can be read by others"),
            ((URL, "--secret", "@nowhere"), "can't be read"),
            ((URL, "--secret", "-"), "A secret is whsec_"),
        ],
    )
    def test_what_can_not_be(self, cli: Cli, args: tuple[str, ...], said: str) -> None:
        assert said in cli.refused("hook", "add", *args, code=2)
        assert not cli.db.exists()

    def test_a_name_that_is_taken(self, cli: Cli) -> None:
        add(cli)
        said = cli.refused("hook", "add", URL, "--on", "completed", code=4)
        assert "There is a webhook 'hooks.example.com' already" in said
        assert [str(news) for news in cli.queue.webhooks.all()[0].news] == ["dead"]


class TestLooking:
    def test_a_list(self, cli: Cli) -> None:
        cli.ok("db", "init")
        assert cli.ok("hook", "list").stderr == "There are no webhooks.\n"
        assert cli.ok("hook", "list", "--json").json == []
        add(cli, "--name", "b", "--on", "completed,dead", "--queue", "mail")
        add(cli, "--name", "a")
        cli.ok("hook", "pause", "a")
        assert cli.ok("hook", "list", "-q").lines == ["a", "b"]
        head, one, other = cli.ok("hook", "list").lines
        assert head.split() == ["NAME", "TOLD", "OF", "QUEUES", "URL", "STATE"]
        assert one.split()[:5] == ["a", "dead", "all", "queues", URL]
        assert "paused by" in one
        assert other.split() == ["b", "completed,", "dead", "mail", URL, "active"]

    def test_one(self, cli: Cli) -> None:
        secret = add(cli, "--name", "ops")
        plain = cli.ok("hook", "show", "ops").stdout
        assert secret not in plain
        assert "(shown with --secret)" in plain
        assert secret in cli.ok("hook", "show", "ops", "--secret").stdout
        assert "secret" not in cli.ok("hook", "show", "ops", "--json").json
        assert cli.ok("hook", "show", "ops", "--secret", "--json").json["secret"] == secret

    def test_its_deliveries(self, cli: Cli, receiver: Receiver) -> None:
        add(cli, "--name", "ops", "--allow-private", "--on", "completed", url=receiver.url)
        cli.add("true", "--id", "a")
        cli.ok("worker", "start", "--drain")
        (job,) = cli.queue.webhooks.deliveries("ops")
        assert cli.ok("hook", "show", "ops", "--json").json["deliveries"] == [
            {
                "id": job.id,
                "job": "a",
                "state": "completed",
                "attempts": 1,
                "error": None,
                "created_at": moment(job.created_at),
                "finished_at": moment(job.finished_at),
            }
        ]
        assert job.id in cli.ok("hook", "show", "ops").stdout
        shown = cli.ok("show", job.id).stdout
        assert "webhook:ops" in shown
        assert "on completed of a, after run 1" in shown
        listed = cli.ok("list", "--tag", "webhook:ops", "--json").json
        assert [(one["id"], one["hook_of"]) for one in listed] == [(job.id, "a")]

    def test_one_that_there_is_not(self, cli: Cli) -> None:
        add(cli, "--name", "ops")
        for command in ("show", "test", "pause", "resume", "rm"):
            said = cli.refused("hook", command, "opps", code=3)
            assert said == "queuectl: There is no webhook 'opps'; did you mean 'ops'?"


class TestChanging:
    def test_pause_and_resume(self, cli: Cli) -> None:
        for name in "ab":
            add(cli, "--name", name)
        assert cli.ok("hook", "pause", "a").lines == ["Webhook 'a' is paused."]
        assert cli.ok("hook", "pause", "a", "b", "a", "--json").json == [
            {"name": "a", "paused": True, "changed": False},
            {"name": "b", "paused": True, "changed": True},
        ]
        assert cli.ok("hook", "resume", "a", "b").lines == [
            "Webhook 'a' is resumed.",
            "Webhook 'b' is resumed.",
        ]
        assert cli.ok("hook", "resume", "a").lines == ["Webhook 'a' wasn't paused."]
        events = [(e.kind, e.detail) for e in cli.queue.events()][::-1]
        assert events == [
            ("webhook", "a: dead"),
            ("webhook", "b: dead"),
            ("pause", "webhook a"),
            ("pause", "webhook b"),
            ("resume", "webhook a"),
            ("resume", "webhook b"),
        ]

    def test_one_that_is_removed_leaves_no_delivery_behind(self, cli: Cli) -> None:
        add(cli, "--name", "a", "--on", "completed")
        add(cli, "--name", "b", "--on", "completed")
        cli.add("true", "--id", "mine", "--tag", "webhook:a")
        cli.ok("worker", "start", "--drain", "--queue", "default")
        cli.add("true", "--id", "waits", "--tag", "webhook:a")
        assert cli.ok("hook", "rm", "a").lines == [
            "Webhook 'a' removed. Deliveries cancelled that waited: 1."
        ]
        states = {job.webhook or job.id: job.state for job in cli.queue.list()}
        assert states == {
            "mine": State.COMPLETED,
            "waits": State.PENDING,
            "a": State.CANCELLED,
            "b": State.PENDING,
        }
        assert cli.ok("hook", "rm", "b", "--json").json == [
            {"name": "b", "removed": True, "cancelled": 1}
        ]
        assert cli.queue.webhooks.all() == []


class TestTest:
    def test_what_came_back(self, cli: Cli, receiver: Receiver) -> None:
        secret = add(cli, "--name", "ops", "--allow-private", url=receiver.url)
        told = cli.ok("hook", "test", "ops").lines
        assert told[0].startswith("HTTP 204 No Content (")
        ((_, headers, body),) = receiver.seen
        message = Verifier(secret).verify(body, headers)
        assert (message["type"], message["data"]) == ("webhook.test", {"webhook": "ops"})
        assert cli.queue.list() == []

    def test_a_refusal(self, cli: Cli, receiver: Receiver) -> None:
        receiver.status, receiver.body = 403, "no\x1b[31m thanks ü".encode()
        add(cli, "--name", "ops", "--allow-private", url=receiver.url)
        done = cli.run("hook", "test", "ops")
        assert done.code == 1
        assert done.lines[0].startswith("HTTP 403 Forbidden (")
        assert done.lines[1] == "no\\x1b[31m thanks ü"
        told = cli.run("hook", "test", "ops", "--json")
        assert told.code == 1
        assert told.json | {"duration_ms": 0} == {
            "name": "ops",
            "delivered": False,
            "status": 403,
            "reason": "Forbidden",
            "answer": "no\x1b[31m thanks ü",
            "error": None,
            "duration_ms": 0,
        }

    def test_no_answer(self, cli: Cli, receiver: Receiver) -> None:
        hook = read_webhook(receiver.url, "dead", name="ops", private=True)
        cli.queue.webhooks.add_read(replace(hook, private=False))
        done = cli.run("hook", "test", "ops", "--json")
        assert done.code == 1
        assert (done.json["status"], done.json["delivered"]) == (None, False)
        assert "is no public address" in done.json["error"]
        assert "--allow-private may go there" in done.json["error"]
        assert receiver.seen == []


def test_completion(cli: Cli) -> None:
    add(cli, "--name", "ops")
    add(cli, "--name", "other")
    cli.ok("hook", "pause", "other")

    def offered(line: str) -> list[str]:
        words = line.split(" ")
        cli.variables = {
            "_QUEUECTL_COMPLETE": "bash_complete",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        }
        try:
            found = cli.run()
        finally:
            cli.variables = {}
        return sorted(one.partition(",")[2].split("\t")[0] for one in found.lines)

    assert offered("queuectl hook show o") == ["ops", "other"]
    assert offered("queuectl hook resume o") == ["other"]
    assert offered("queuectl hook pause o") == ["ops"]
    assert offered("queuectl hook add x --on dead,c") == ["dead,cancelled", "dead,completed"]


def test_a_reset_leaves_them(cli: Cli) -> None:
    add(cli, "--name", "ops")
    cli.ok("db", "reset", "--yes")
    assert [one.name for one in cli.queue.webhooks.all()] == ["ops"]
    cli.ok("db", "reset", "--yes", "--settings")
    assert cli.queue.webhooks.all() == []


def test_a_backup_has_them(cli: Cli) -> None:
    secret = add(cli, "--name", "ops")
    cli.ok("db", "backup", "copy.db")
    told = cli.ok("--db", str(Path(cli.folder, "copy.db")), "hook", "show", "ops", "--secret")
    assert secret in told.stdout
