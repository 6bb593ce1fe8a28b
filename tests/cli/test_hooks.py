"""Hooks from the command line to their end: asked for, run as jobs of their own, shown."""

import json

import pytest

from queuectl import Queue, State
from queuectl.errors import UsageError
from tests.cli.conftest import Cli

WITNESS = "cat > told; env | grep ^QUEUECTL_HOOK | sort > env"


def test_from_the_command_line_to_its_end(cli: Cli) -> None:
    id = cli.ok(
        *("enqueue", "exit 3", "--id", "a b", "--max-retries", "0", "--on-dead", WITNESS, "-q")
    ).lines[0]
    cli.ok("worker", "start", "--drain")
    (hook,) = cli.queue.hooks(id)
    assert (hook.id, hook.state, hook.hook_of) == ("on-dead.a b.1", State.COMPLETED, "a b")
    told = json.loads((cli.folder / "told").read_text())
    assert (told["id"], told["state"], told["ended"]["exit_code"]) == ("a b", "dead", 3)
    assert (cli.folder / "env").read_text().splitlines() == [
        "QUEUECTL_HOOK=dead",
        "QUEUECTL_HOOK_ATTEMPT=1",
        "QUEUECTL_HOOK_EXIT_CODE=3",
        "QUEUECTL_HOOK_OF=a b",
    ]
    shown = cli.ok("show", "a b").stdout
    assert "On dead:" in shown
    assert "on-dead.a b.1" in shown
    of_hook = cli.ok("show", "on-dead.a b.1").stdout
    assert "on dead of a b, after run 1" in of_hook
    # It has retries by the settings: three.
    for text in (shown, of_hook, cli.ok("list").stdout, cli.ok("output", "on-dead.a b.1").stdout):
        assert "1/4" in text
    assert cli.ok("show", "a b", "--json").json["hooks"] == [
        {"id": "on-dead.a b.1", "state": "completed"}
    ]
    assert [event["kind"] for event in cli.ok("events", "a b", "--json").json] == ["hook", "dead"]
    listed = cli.ok("list", "--text", "on-dead.", "--json").json
    assert [(job["id"], job["hook"], job["hook_of"]) for job in listed] == [
        ("on-dead.a b.1", "dead", "a b")
    ]


def test_of_a_queue(cli: Cli) -> None:
    told = cli.ok("queue", "set", "mail", "--on-dead", "notify", "--on-success", "tidy")
    assert any(line.split() == ["On", "dead:", "notify"] for line in told.lines)
    cli.ok("enqueue", "true", "--queue", "mail", "--id", "a")
    cli.ok("enqueue", "true", "--queue", "mail", "--id", "b", "--on-dead", "none")
    cli.ok("enqueue", "--file", "-", input='{"command": "x", "id": "c", "on_dead": false}')
    cli.ok("queue", "set", "mail", "--on-dead", "none")
    cli.ok("enqueue", "true", "--queue", "mail", "--id", "d")
    hooks = {job.id: (job.on_success, job.on_dead) for job in cli.queue.list()}
    assert hooks == {
        "a": ("tidy", "notify"),
        "b": ("tidy", None),
        "c": (None, None),
        "d": ("tidy", None),
    }


def test_a_hook_takes_nothing_from_its_queue(cli: Cli) -> None:
    cli.queue.limits.set("default", on_success="true", max_retries=9, max_waiting=1)
    cli.queue.enqueue("true", id="a")
    cli.ok("worker", "start", "--drain")
    assert [job.id for job in cli.queue.list(limit=None)] == ["on-success.a.1", "a"]
    hook = cli.queue.get("on-success.a.1")
    assert (hook.on_success, hook.max_retries, hook.state) == (None, None, State.COMPLETED)


def test_edited(cli: Cli) -> None:
    cli.queue.enqueue("true", id="a", on_dead="x", on_failure="y")
    told = cli.ok("edit", "a", "--on-dead", "z", "--unset", "on_failure").lines[0]
    assert "on_dead x -> z" in told
    assert "on_failure y -> none" in told
    job = cli.queue.get("a")
    assert (job.on_dead, job.on_failure) == ("z", None)
    cli.ok("edit", "a", "--on-dead", "none")
    assert cli.queue.get("a").on_dead is None


def test_of_a_schedule(cli: Cli) -> None:
    cli.ok("schedule", "add", "often", "every 1h", "true", "--on-dead", "notify")
    cli.ok("schedule", "run", "often")
    (job,) = cli.queue.list()
    assert job.on_dead == "notify"


@pytest.mark.parametrize(
    ("hook", "said"),
    [
        ("", "on_dead is empty"),
        (" ", "on_dead is empty"),
        ("x" * (2**20 + 1), "on_dead is 1,048,577 bytes long"),
        ("a\0b", "on_dead contains a NUL byte"),
        (7, "on_dead must be text, not int"),
        (True, "on_dead must be text, not bool"),
    ],
)
def test_bad_ones_are_refused(cli: Cli, hook: object, said: str) -> None:
    line = json.dumps({"command": "true", "on_dead": hook})
    assert said in cli.refused("enqueue", "--file", "-", code=2, input=line)
    assert cli.queue.list() == []
    if isinstance(hook, str) and "\0" not in hook and len(hook) < 100_000:
        assert said in cli.refused("enqueue", "true", "--on-dead", hook, code=2)
        assert said in cli.refused("queue", "set", "mail", "--on-dead", hook, code=2)
    assert cli.queue.limits.all() == {}


def test_a_handler_as_a_hook(cli: Cli) -> None:
    cli.ok("enqueue", "exit 3", "--id", "a", "--max-retries", "0", "--on-dead", "type:mail")
    cli.ok("worker", "start", "--drain")
    (hook,) = cli.queue.hooks("a")
    assert (hook.type, hook.state) == ("mail", State.PENDING)
    program = "cat > told; env | grep ^QUEUECTL_HOOK | sort > env"
    cli.ok("worker", "start", "--drain", "--exec", "mail=sh", "--", "-c", program)
    told = json.loads((cli.folder / "told").read_text())
    assert (told["id"], told["state"], told["ended"]["hook"]) == ("a", "dead", "dead")
    assert "QUEUECTL_HOOK_OF=a\n" in (cli.folder / "env").read_text()
    assert cli.queue.get(hook.id).state == State.COMPLETED


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("type:", "on_dead needs the name of a type after type:, such as type:mail."),
        ("type:*", "A type of on_dead can't be * or contain '=': '*'."),
        ("type:a\nb", "type of on_dead must be printable"),
    ],
)
def test_types_that_there_can_not_be(cli: Cli, hook: str, why: str) -> None:
    assert why in cli.refused("enqueue", "true", "--on-dead", hook, code=2)
    assert list(cli.queue.list()) == []


APP = """
from typing import Any
from queuectl import Queue

queue = Queue("queue.db")

@queue.task
def notify(job: dict[str, Any]) -> str:
    print(f"{job['id']} is {job['state']}")
    return str(job["type"])

@queue.task(on_dead=notify, max_retries=0)
def fail(n: int) -> None:
    raise ValueError(n)
"""


def test_a_task_as_a_hook(cli: Cli) -> None:
    (cli.folder / "app.py").write_text(APP)
    path = str(cli.folder / "queue.db")
    with Queue(path) as queue:

        @queue.task(name="app.notify")
        def notify(job: dict[str, object]) -> None: ...

        @queue.task(name="app.fail", on_dead=notify, max_retries=0)
        def fail(n: int) -> None: ...

        @queue.task(name="no hook")
        def two(a: int, b: int) -> None: ...

        failed = fail.enqueue(7)
        queue.enqueue("exit 3", id="b", on_dead=notify, on_success=False, max_retries=0)
        queue.schedules.add("s", "every 1h", "true", on_failure=notify)
        assert queue.schedules.get("s").request["on_failure"] == "type:app.notify"
        queue.limits.set("mail", on_dead=notify)
        assert queue.enqueue("true", queue="other").on_dead is None
        with pytest.raises(UsageError, match="Task no hook can't be a hook"):
            queue.enqueue("true", on_dead=two)
        cli.ok("--db", path, "worker", "start", "--drain", "--app", "app:queue", "-Q", "default")
        results = [queue.result(hook.id) for id in (failed.id, "b") for hook in queue.hooks(id)]
        assert results == ["app.fail", "None"]
        (hook,) = queue.hooks("b")
        assert b"b is dead" in queue.output(hook.id).stdout
