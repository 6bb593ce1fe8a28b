"""Webhooks with real nodes: deliveries on each database, retries, and where the secret is."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from standardwebhooks import Webhook as Verifier

from queuectl import State
from queuectl.job import Job
from queuectl.values import replace
from queuectl.webhooks import read_webhook
from tests.receiver import Receiver, serving
from tests.support import Lab, lab_in, wait_for


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving(Receiver()) as server:
        yield server


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A queue on each database; where a server wants a password, jobs don't see it."""
    url = None if request.param == "sqlite" else request.getfixturevalue(f"{request.param}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def over(lab: Lab, name: str = "ops") -> list[Job]:
    """Wait until a webhook has deliveries, and all of them have ended; returns them."""

    def there() -> list[Job]:
        jobs = lab.queue.webhooks.deliveries(name)
        states = {job.state for job in jobs}
        return jobs if states <= {State.COMPLETED, State.DEAD, State.FAILED} else []

    return wait_for(there, "deliveries that have ended")


def test_from_an_end_to_a_message(any_lab: Lab, receiver: Receiver) -> None:
    lab = any_lab
    hook = lab.queue.webhooks.add(receiver.url, "dead,completed", name="ops", private=True)
    lab.queue.enqueue("exit 3", id="a", env={"PASSWORD": "hidden"}, max_retries=0)
    lab.queue.enqueue("true", id="b")
    lab.node(count=2)
    for id in "ab":
        lab.wait_state(id, State.DEAD, State.COMPLETED)
    wait_for(lambda: len(receiver.seen) == 2, f"two messages; {lab.log()[-2000:]}")
    wait_for(
        lambda: (
            [job.state for job in lab.queue.webhooks.deliveries("ops")] == [State.COMPLETED] * 2
        ),
        "two deliveries",
    )
    messages = {}
    for _, headers, body in receiver.seen:
        message = Verifier(hook.secret).verify(body, headers)
        messages[message["data"]["id"]] = message
        assert headers["webhook-id"] in {job.id for job in lab.queue.webhooks.deliveries("ops")}
        assert b"hidden" not in body
    assert {id: one["type"] for id, one in messages.items()} == {
        "a": "job.dead",
        "b": "job.completed",
    }
    assert messages["a"]["data"]["env"] == ["PASSWORD"]
    assert messages["a"]["data"]["reason"] == "exit code 3; no retries allowed"


def test_a_node_needs_no_path_and_a_job_no_password(any_lab: Lab, receiver: Receiver) -> None:
    lab = any_lab
    lab.queue.webhooks.add(receiver.url, "completed", name="ops", private=True)
    # Nothing is found there, but for what the node itself needs.
    lab.extra_env["PATH"] = "/usr/bin:/bin"
    lab.queue.enqueue("true", id="a")
    lab.node()
    (job,) = over(lab)
    assert job.state == State.COMPLETED, lab.queue.attempts(job.id)
    (path, *_) = receiver.seen[0]
    assert path == "/hook?a=1"


def test_it_is_tried_again_under_the_same_id(lab: Lab, receiver: Receiver) -> None:
    receiver.first = [500, 302]
    receiver.headers = {"location": receiver.url}
    lab.queue.webhooks.add(receiver.url, "completed", name="ops", private=True)
    lab.queue.enqueue("true", id="a")
    lab.node()
    for times in (1, 2):
        wait_for(lambda: len(receiver.seen) == times, "a message")  # noqa: B023
        (job,) = over(lab)
        wait_for(lambda: lab.queue.get(job.id).state == State.FAILED, "a failure")  # noqa: B023
        lab.queue.retry(job.id)
    wait_for(lambda: lab.queue.get(job.id).state == State.COMPLETED, "a delivery")
    errors = [attempt.error for attempt in lab.queue.attempts(job.id)]
    assert errors == [
        "exit code 1: HTTP 500 Internal Server Error",
        "exit code 1: HTTP 302 Found (redirects aren't followed)",
        None,
    ]
    assert {headers["webhook-id"] for _, headers, _ in receiver.seen} == {job.id}
    assert len({body for *_, body in receiver.seen}) == 1


def test_one_that_is_gone_is_paused(lab: Lab, receiver: Receiver) -> None:
    receiver.status = 410
    lab.queue.webhooks.add(receiver.url, "completed", name="ops", private=True)
    lab.queue.enqueue("true", id="a")
    lab.node()
    wait_for(lambda: lab.queue.webhooks.get("ops").paused_at, "a webhook that is paused")
    (job,) = over(lab)
    assert job.state == State.FAILED
    assert job.error == "exit code 69: HTTP 410 Gone"
    lab.queue.retry(job.id)
    wait_for(lambda: len(lab.queue.attempts(job.id)) == 2, "another attempt")
    assert lab.queue.get(job.id).error == "could not start: webhook 'ops' is paused"
    assert len(receiver.seen) == 1
    lab.queue.enqueue("true", id="b")
    lab.wait_state("b", State.COMPLETED)
    assert len(lab.queue.webhooks.deliveries("ops")) == 1
    receiver.status = 200
    assert lab.queue.webhooks.resume("ops")
    lab.queue.retry(job.id)
    lab.wait_state(job.id, State.COMPLETED)


def test_private_addresses_are_refused(lab: Lab, receiver: Receiver) -> None:
    # One whose name means another address by now.
    hook = read_webhook(receiver.url, "completed", name="ops", private=True)
    lab.queue.webhooks.add_read(replace(hook, private=False))
    lab.queue.enqueue("true", id="a")
    lab.node()
    (job,) = over(lab)
    assert job.state == State.FAILED
    assert "127.0.0.1 is no public address, so nothing was sent" in str(job.error)
    assert receiver.seen == []


def test_a_change_holds_for_what_waits_already(lab: Lab, receiver: Receiver) -> None:
    """The secret and the URL are those of the moment at which it is sent."""
    webhooks = lab.queue.webhooks
    webhooks.add("http://127.0.0.1:1/", "completed", name="ops", private=True)
    lab.queue.enqueue("true", id="a")
    lab.node("--queue", "default")
    lab.wait_state("a", State.COMPLETED)
    (job,) = webhooks.deliveries("ops")
    assert job.state == State.PENDING
    lab.queue.store.webhooks.change("ops", lambda there, now: None)
    hook = webhooks.add(receiver.url, "completed", name="ops", private=True)
    lab.node("--queue", "webhooks")
    lab.wait_state(job.id, State.COMPLETED)
    (_, headers, body) = receiver.seen[0]
    Verifier(hook.secret).verify(body, headers)


def test_one_that_was_removed_meanwhile(lab: Lab) -> None:
    lab.queue.webhooks.add("https://example.com/", "completed", name="ops")
    lab.queue.enqueue("true", id="a")
    lab.node("--queue", "default")
    lab.wait_state("a", State.COMPLETED)
    lab.queue.store.webhooks.change("ops", lambda there, now: None)
    lab.node("--queue", "webhooks")
    (job,) = over(lab)
    assert job.error == "could not start: there is no webhook 'ops' any more"


def test_nobody_sees_the_secret(lab: Lab, receiver: Receiver) -> None:
    hook = lab.queue.webhooks.add(receiver.url, "completed", name="ops", private=True)
    seen: list[bytes] = []
    lab.queue.enqueue("true", id="a")
    lab.node()
    receiver.body = b"HTTP"
    (job,) = over(lab)
    lab.wait_state(job.id, State.COMPLETED)
    for command in (
        ("show", job.id),
        ("show", job.id, "--json"),
        ("output", job.id),
        ("list", "--json"),
        ("events", "--json"),
        ("hook", "list"),
        ("hook", "list", "--json"),
        ("hook", "show", "ops"),
        ("hook", "show", "ops", "--json"),
        ("hook", "test", "ops", "--json"),
    ):
        done = lab.run(*command)
        assert done.returncode == 0, done
        seen.append((done.stdout + done.stderr).encode())
    seen += [path.read_bytes() for path in lab.folder.rglob("*.log")]
    assert hook.secret.encode() not in b"\n".join(seen)
    # Nor is anything left where the node wrote it for the process that sent.
    spool = [path for path in lab.folder.rglob("*.in") if path.is_file()]
    assert [path for path in spool if hook.secret.encode() in path.read_bytes()] == []
    assert json.loads(lab.run("hook", "show", "ops", "--secret", "--json").stdout)["secret"]


def test_neither_arguments_nor_environment_have_it(lab: Lab) -> None:
    """While it is sent, to somebody who takes his time."""
    from socket import create_server

    with create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        hook = lab.queue.webhooks.add(url, "completed", name="ops", private=True)
        lab.queue.enqueue("true", id="a")
        lab.node()
        connection, _ = server.accept()
        with connection:
            pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()]
            told = [(pid, _told(pid)) for pid in pids]
            assert any(b"queuectl.delivery" in text for _, text in told)
            assert [pid for pid, text in told if hook.secret.encode() in text] == []


def _told(pid: int) -> bytes:
    found = b""
    for name in ("cmdline", "environ"):
        try:
            found += Path(f"/proc/{pid}/{name}").read_bytes()
        except OSError:
            continue
    return found


def test_what_a_delivery_is_told_names_no_database(any_lab: Lab) -> None:
    from queuectl.webhook import order_of

    hook = any_lab.queue.webhooks.add("https://example.com/", "completed", name="ops")
    job = any_lab.queue.enqueue("true")
    order = order_of(hook, job)
    assert json.loads(order).keys() == {"url", "secret", "private", "id", "body"}
    assert any_lab.url.encode() not in order
