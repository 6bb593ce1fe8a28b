"""The document says what the API does: shapes of answers, refusals, and nothing that breaks it."""

import json
from collections import Counter
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from jsonschema import Draft202012Validator
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from queuectl.access import Role
from queuectl.web import openapi
from queuectl.web.api import routes
from tests.support import Lab
from tests.web.conftest import API, Client, Server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 5
"""Requests that are made up for each route."""
ENDS_US = ("DELETE /api/v1/tokens/{name}",)
"""What would take our own token away."""


def test_it_is_served_as_it_is_checked_in(server: Server) -> None:
    document = Client(server.port).get("/openapi.json").json
    assert document == openapi.document()
    assert document["openapi"] == "3.1.0"
    assert len(document["paths"]) == len({route.path for route in routes()})


def test_each_route_says_what_it_does() -> None:
    names = [route.name for route in routes()]
    assert len(set(names)) == len(names)
    for route in routes():
        assert route.about.strip().endswith("."), route
        assert (route.status == 204) == (route.answers is None), route


@schemathesis.serializer("application/jsonl")
def as_line(_: Any, value: Any) -> bytes:
    return json.dumps(value).encode() + b"\n"


@pytest.fixture
def filled(lab: Lab, server: Server) -> Client:
    """A queue with some of everything."""
    queue = lab.queue
    queue.enqueue("echo hi; exit 3", id="dead", max_retries=0, tags=["x"], env={"A": "b"})
    queue.enqueue("echo hi", id="done", stdin="in", priority=3, timeout="1m")
    queue.push("data", b"\xff\x00", type="img", keys=["k"])
    queue.enqueue("true", id="later", delay="1h", on_dead="true", unique="u", queue="mail")
    queue.schedules.add("nightly", "0 3 * * *", {"command": "true", "env": {"A": "b"}})
    queue.limits.set("mail", limit=3, rates="10/1m", weights={"vip": 2})
    queue.emit("paid", {"a": 1})
    queue.enqueue_many(["true", "false"], group="sweep", queue="mail")
    queue.enqueue("true", id="after", after_group="sweep")
    queue.webhooks.add(
        "http://127.0.0.1:1/x", ["completed"], name="ops", queues=["default"], private=True
    )
    lab.node()
    for id in ("dead", "done"):
        queue.wait(id, timeout=60)
    return server.client(*Role)


def test_answers_have_the_shape_that_it_says(filled: Client) -> None:
    document = openapi.document()
    for path in (
        "/jobs /jobs/dead /jobs/done /jobs/data /jobs/later /jobs/dead/attempts /jobs/dead/events"
        " /jobs/later/explain /jobs/done/output /jobs/dead/wait /jobs/dead/steps /jobs/dead/hooks"
        " /status /stats /events /queues /queues/mail /schedules /schedules/nightly"
        " /schedules/nightly/next /webhooks /webhooks/ops /emitted /emitted/paid /nodes /settings"
        " /info /checkup /me /tokens /sessions /groups /groups/sweep /groups/sweep/along"
    ).split():
        reply = filled.get(path)
        assert reply.status == 200, (path, reply.body)
        generic = path
        for name in ("dead", "done", "data", "later"):
            generic = generic.replace(f"/jobs/{name}", "/jobs/{id}")
        for group in (
            "queues/mail",
            "schedules/nightly",
            "webhooks/ops",
            "emitted/paid",
            "groups/sweep",
        ):
            generic = generic.replace(group, f"{group.partition('/')[0]}/{{name}}")
        said = document["paths"][API + generic]["get"]["responses"]["200"]
        schema = {**said["content"]["application/json"]["schema"]}
        schema["components"] = document["components"]
        problems = [error.message for error in Draft202012Validator(schema).iter_errors(reply.json)]
        assert problems == [], path


def test_all_that_is_told_of_a_job_is_in_its_schema(filled: Client) -> None:
    schemas = openapi.document()["components"]["schemas"]
    assert filled.get("/jobs/dead").json.keys() == schemas["JobWhole"]["properties"].keys()
    [job, *_] = filled.get("/bulk/jobs").lines
    assert job.keys() == schemas["Job"]["properties"].keys()


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_whatever_is_sent_nothing_breaks(filled: Client, mode: GenerationMode) -> None:
    """What fits the document, and what doesn't: each is answered as the document says."""
    schema = schemathesis.openapi.from_dict(openapi.document())
    sent: Counter[str] = Counter()
    for result in schema.get_all_operations():
        operation = result.ok()  # type: ignore[union-attr]
        if operation.path.endswith("/wait") or operation.label in ENDS_US:
            continue

        @settings(
            max_examples=EXAMPLES,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            derandomize=True,
            database=None,
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def try_it(case: Any) -> None:
            case.call_and_validate(
                base_url=f"http://127.0.0.1:{filled.port}", headers=filled.headers, checks=CHECKS
            )
            sent[case.operation.label] += 1

        try_it()
    assert len(sent) > (40 if mode is GenerationMode.POSITIVE else 20), sent
