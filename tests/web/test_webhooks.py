"""Webhooks over HTTP: adding one once, who may, what is shown of it, and trying it."""

from collections.abc import Iterator
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from queuectl import State
from queuectl.access import Role
from queuectl.delivery import new_secret
from queuectl.values import replace
from queuectl.webhooks import MOST, read_webhook
from tests.receiver import Receiver, serving
from tests.support import Lab
from tests.web.conftest import Client, Serve, Server

URL = "https://hooks.example.com/T0/secret-part?b=c"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with serving(Receiver()) as server:
        yield server


def add(client: Client, name: str = "ops", /, **said: Any) -> str:
    """Add a webhook; returns its secret."""
    reply = client.put(f"/webhooks/{name}", {"url": URL, **said})
    assert reply.status == 201, reply.body
    return str(reply.json["secret"])


class TestAdd:
    def test_its_secret_is_told_once(self, lab: Lab, anyone: Client) -> None:
        reply = anyone.put("/webhooks/ops", {"url": URL, "on": ["dead", "completed"]})
        assert (reply.status, reply.headers["cache-control"]) == (201, "no-store")
        made = lab.queue.webhooks.get("ops")
        assert reply.json["secret"] == made.secret
        assert reply.json["webhook"]["on"] == ["completed", "dead"]
        for path in ("/webhooks", "/webhooks/ops"):
            assert made.secret.encode() not in anyone.get(path).body
        (event,) = (one for one in lab.queue.events() if one.kind == "webhook")
        assert event.detail == "ops: completed, dead"
        assert event.who.startswith("t0 (web)")

    def test_the_same_again_adds_nothing_and_tells_no_secret(
        self, lab: Lab, anyone: Client
    ) -> None:
        said = {"url": URL, "on": ["dead"], "queues": ["a", "b"], "via": "mine", "data": True}
        add(anyone, **said)
        made = lab.queue.webhooks.get("ops")
        anyone.post("/webhooks/ops/pause")
        again = anyone.put("/webhooks/ops", said)
        assert (again.status, again.json["secret"]) == (200, None)
        assert again.json["webhook"]["paused"] is True
        assert lab.queue.webhooks.get("ops").secret == made.secret
        for name, value in {
            "url": f"{URL}d",
            "on": ["failed"],
            "queues": ["a"],
            "via": "other",
            "data": False,
            "allow_private": True,
            "secret": new_secret(),
        }.items():
            assert anyone.put("/webhooks/ops", {**said, name: value}).problem == "other-request"

    def test_the_same_again_with_a_secret_that_was_brought_along(self, anyone: Client) -> None:
        secret = new_secret()
        assert add(anyone, secret=secret) == secret
        again = anyone.put("/webhooks/ops", {"url": URL, "secret": secret})
        assert (again.status, again.json["secret"]) == (200, None)

    def test_the_same_again_where_no_other_has_room(self, lab: Lab, anyone: Client) -> None:
        for number in range(MOST):
            lab.queue.webhooks.add(URL, name=f"w{number}")
        assert anyone.put("/webhooks/w0", {"url": URL}).status == 200
        assert anyone.put("/webhooks/new", {"url": URL}).problem == "state"

    @pytest.mark.parametrize(
        ("said", "word"),
        [
            ({}, "'url' is missing"),
            ({"url": 3}, "url must be text"),
            ({"url": "ftp://x"}, "needs a URL such as"),
            ({"url": URL, "on": "dead"}, "on is a list of names"),
            ({"url": URL, "on": ["dad"]}, "did you mean 'dead'?"),
            ({"url": URL, "on": []}, "Say what a webhook is told of"),
            ({"url": "http://127.0.0.1:8000/x"}, "no public address"),
            ({"url": "http://[::1]/x"}, "allow_private lets it be there"),
            ({"url": URL, "queues": [1]}, "queues is a list"),
            ({"url": URL, "secret": "whsec_ü"}, "A secret is whsec_"),
            ({"url": URL, "data": 1}, "data must be true or false"),
            ({"url": URL, "uri": 1}, "There is no field 'uri'"),
        ],
    )
    def test_what_cannot_be(self, lab: Lab, anyone: Client, said: object, word: str) -> None:
        reply = anyone.put("/webhooks/ops", said)
        assert reply.problem == "bad-request"
        assert word in reply.json["detail"]
        assert lab.queue.webhooks.all() == []


class TestRights:
    def test_to_add_one_is_to_submit_and_what_is_more_takes_more(
        self, lab: Lab, server: Server
    ) -> None:
        operator, submitter = server.client("operate", "admin"), server.client("submit")
        assert operator.put("/webhooks/ops", {"url": URL}).problem == "forbidden"
        assert submitter.put("/webhooks/ops", {"url": URL, "data": True}).status == 403
        assert submitter.put("/webhooks/ops", {"url": URL, "allow_private": True}).status == 403
        assert lab.queue.webhooks.all() == []
        add(submitter)
        both = server.client("submit", "admin")
        add(both, "inside", data=True, allow_private=True)

    def test_a_server_that_submits_nothing_adds_none(self, lab: Lab, serve: Serve) -> None:
        client = serve("--no-link").client(*Role)
        reply = client.put("/webhooks/ops", {"url": URL})
        assert reply.problem == "forbidden"
        assert "--allow-submit" in reply.json["detail"]
        lab.queue.webhooks.add(URL, name="ops")
        assert client.post("/webhooks/ops/pause").status == 200

    def test_a_token_for_some_queues_keeps_to_webhooks_of_these(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.webhooks.add(URL, name="all")
        lab.queue.webhooks.add(URL, name="other", queues=["other"])
        lab.queue.webhooks.add(URL, name="more", queues=["mail", "other"])
        lab.queue.webhooks.add(URL, name="mine", queues=["mail"])
        mail = server.client(*Role, queues=("mail",))
        assert [one["name"] for one in mail.get("/webhooks").json] == ["mine"]
        assert mail.get("/webhooks/mine").status == 200
        for name in ("all", "other", "more"):
            assert mail.get(f"/webhooks/{name}").status == 404
            assert mail.delete(f"/webhooks/{name}").status == 404
            for deed in ("pause", "resume", "test"):
                assert mail.post(f"/webhooks/{name}/{deed}").status == 404
            assert mail.put(f"/webhooks/{name}", {"url": URL}).status == 422
        assert mail.put("/webhooks/x", {"url": URL, "queues": ["other"]}).status == 403
        assert mail.put("/webhooks/x", {"url": URL, "via": "other"}).status == 403
        add(mail, "x")
        assert lab.queue.webhooks.get("x").queues == ("mail",)
        assert {one.name for one in lab.queue.webhooks.all()} >= {"all", "other", "more"}

    def test_what_is_removed_by_a_token_for_some_queues_takes_its_deliveries_along(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.webhooks.add(URL, ["cancelled"], name="mine", queues=["mail"])
        lab.queue.enqueue("true", id="j", queue="mail")
        lab.queue.cancel("j")
        (job,) = lab.queue.webhooks.deliveries("mine")
        assert job.queue == "webhooks"
        assert server.client(*Role, queues=("mail",)).delete("/webhooks/mine").status == 204
        assert lab.queue.get(job.id).state == State.CANCELLED

    def test_a_url_may_be_a_secret(self, lab: Lab, server: Server) -> None:
        lab.queue.webhooks.add(URL, name="ops")
        for role in Role:
            client = server.client(role)
            whole = role in (Role.SUBMIT, Role.ADMIN)
            for path in ("/api/v1/webhooks", "/api/v1/webhooks/ops", "/webhooks", "/webhooks/ops"):
                client.base = ""
                reply = client.get(path)
                assert (b"secret-part" in reply.body) == whole, (role, path)
                assert b"https://hooks.example.com/" in reply.body


class TestDelivering:
    def test_one_is_delivered_and_shown(self, lab: Lab, anyone: Client, receiver: Receiver) -> None:
        secret = add(anyone, url=receiver.url, on=["completed"], allow_private=True)
        lab.queue.enqueue("true", id="j")
        lab.node()
        lab.queue.wait("j", timeout=60)
        (job,) = lab.queue.webhooks.deliveries("ops")
        lab.wait_state(job.id, State.COMPLETED)
        ((_, headers, body),) = receiver.seen
        assert Verifier(secret).verify(body, headers)["type"] == "job.completed"
        (told,) = anyone.get("/webhooks/ops").json["deliveries"]
        assert (told["id"], told["job"], told["state"]) == (job.id, "j", "completed")
        assert anyone.get("/webhooks/ops?limit=0").status == 400

    def test_a_message_is_sent_to_see(
        self, lab: Lab, server: Server, anyone: Client, receiver: Receiver
    ) -> None:
        receiver.status, receiver.body = 418, b"inner words"
        lab.queue.webhooks.add(receiver.url, name="ops", private=True)
        told = anyone.post("/webhooks/ops/test").json
        assert (told["delivered"], told["status"], told["answer"]) == (False, 418, "inner words")
        plain = server.client("operate").post("/webhooks/ops/test").json
        assert (plain["status"], plain["answer"]) == (418, None)
        assert len(receiver.seen) == 2

    def test_an_address_that_is_not_public_is_refused_with_what_to_do(
        self, lab: Lab, anyone: Client, receiver: Receiver
    ) -> None:
        hook = read_webhook(receiver.url, "dead", name="ops", private=True)
        lab.queue.webhooks.add_read(replace(hook, private=False))
        told = anyone.post("/webhooks/ops/test").json
        assert (told["delivered"], told["status"]) == (False, None)
        assert "a webhook that was added with --allow-private" in told["error"]
        assert receiver.seen == []

    def test_pausing_and_removing(self, lab: Lab, anyone: Client) -> None:
        add(anyone)
        assert anyone.post("/webhooks/ops/pause").json["paused_by"].startswith("t0 (web)")
        assert anyone.post("/webhooks/ops/resume").json["paused"] is False
        assert anyone.delete("/webhooks/ops").status == 204
        assert anyone.delete("/webhooks/ops").problem == "not-found"
        assert lab.queue.webhooks.all() == []
