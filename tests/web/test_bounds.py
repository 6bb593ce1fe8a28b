"""Bounds of runs over HTTP: asked for, told, and whose business they are."""

from tests.support import Lab
from tests.web.conftest import Client, Server


def test_they_are_asked_for_and_told_with_what_was_used(
    lab: Lab, server: Server, anyone: Client
) -> None:
    asked = {"id": "x", "command": "nice", "nice": 3, "cpu_time": "90s", "bounds": {"nofile": 64}}
    reply = anyone.post("/jobs", asked)
    assert reply.status == 201
    assert reply.json["bounds"] == {"cpu_time": 90, "nofile": 64, "nice": 3}
    lab.node()
    assert anyone.get("/jobs/x/wait").json["state"] == "completed"
    assert anyone.get("/jobs/x/output").json["stdout"] == "3\n"
    [run] = anyone.get("/jobs/x/attempts").json
    assert run["peak_memory"] > 0
    assert run["cpu_ms"] >= 0
    assert run["noted"] is None
    found = anyone.get("/stats").json
    assert found["peak_memory"] == {
        "count": 1,
        **dict.fromkeys(("median", "p95", "max"), run["peak_memory"]),
    }
    page = Client(server.port, server.client("view").headers, base="").get("/jobs/x")
    assert b'data-label="Memory"' in page.body
    assert b'data-label="CPU"' in page.body


def test_what_makes_no_sense_is_refused_by_its_name(anyone: Client) -> None:
    reply = anyone.post("/jobs", {"command": "true", "memory": "lots"})
    assert reply.status in (400, 422)
    assert reply.json["field"] == "memory"


def test_who_may_not_say_what_runs_may_not_say_as_whom_either(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="x", nice=5)
    for changes in ({"user": "root"}, {"memory": "1G"}, {"image": "i"}, {"bounds": {"nice": 1}}):
        assert server.client("operate").patch("/jobs/x", changes).status == 403
    assert lab.queue.get("x").bounds == {"nice": 5}
    assert server.client("operate", "submit").patch("/jobs/x", {"nice": 6}).status == 200
    assert lab.queue.get("x").bounds == {"nice": 6}
