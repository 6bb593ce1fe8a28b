"""Who may: each route, each role, each way of not being let in. Only what this table says."""

import asyncio
import html
import json
import re
import sqlite3
from contextlib import closing
from datetime import timedelta

import pytest

from queuectl import __version__
from queuectl.access import Role
from queuectl.errors import StoreUnreachableError
from queuectl.web.api import routes
from queuectl.web.app import App
from queuectl.web.gate import Gate, Rules
from queuectl.web.route import LINES, Route
from tests.support import Lab, wait_for
from tests.web.conftest import Client, Serve, Server, asked

VIEW = {Role.VIEW, Role.OPERATE, Role.SUBMIT, Role.ADMIN}
OPERATE = {Role.OPERATE, Role.ADMIN}
SUBMIT = {Role.SUBMIT}
ADMIN = {Role.ADMIN}

TABLE: dict[str, tuple[set[Role], bool]] = {
    "GET /jobs": (VIEW, True),
    "POST /jobs": (SUBMIT, True),
    "PUT /jobs/{id}": (SUBMIT, True),
    "GET /jobs/{id}": (VIEW, True),
    "PATCH /jobs/{id}": (OPERATE, True),
    "DELETE /jobs/{id}": (OPERATE, True),
    "GET /jobs/{id}/attempts": (VIEW, True),
    "GET /jobs/{id}/events": (VIEW, True),
    "GET /jobs/{id}/explain": (VIEW, True),
    "GET /jobs/{id}/steps": (VIEW, True),
    "GET /jobs/{id}/hooks": (VIEW, True),
    "GET /jobs/{id}/result": (VIEW, True),
    "GET /jobs/{id}/output": (VIEW, True),
    "GET /jobs/{id}/wait": (VIEW, True),
    "POST /jobs/{id}/clone": (SUBMIT, True),
    "POST /jobs/{id}/cancel": (OPERATE, True),
    "POST /jobs/{id}/retry": (OPERATE, True),
    "POST /jobs/{id}/finish": (OPERATE, True),
    "POST /jobs/{id}/hold": (OPERATE, True),
    "POST /jobs/{id}/release": (OPERATE, True),
    "POST /jobs/{id}/top": (OPERATE, True),
    "POST /jobs/{id}/move": (OPERATE, True),
    "POST /jobs/{id}/swap": (OPERATE, True),
    "POST /jobs/{id}/pause": (OPERATE, True),
    "POST /jobs/{id}/resume": (OPERATE, True),
    "GET /bulk/jobs": (VIEW, True),
    "POST /bulk/jobs": (SUBMIT, True),
    "POST /bulk/changes": (OPERATE, True),
    "POST /actions/{id}/undo": (OPERATE, True),
    "GET /status": (VIEW, False),
    "GET /stats": (VIEW, True),
    "GET /events": (VIEW, False),
    "GET /queues": (VIEW, True),
    "GET /queues/{name}": (VIEW, True),
    "POST /queues/{name}/pause": (OPERATE, True),
    "POST /queues/{name}/resume": (OPERATE, True),
    "PATCH /queues/{name}/limits": (ADMIN, False),
    "DELETE /queues/{name}/limits": (ADMIN, False),
    "POST /queues/{name}/rename": (ADMIN, False),
    "DELETE /queues/{name}": (ADMIN, False),
    "GET /schedules": (VIEW, False),
    "GET /schedules/{name}": (VIEW, False),
    "PUT /schedules/{name}": (SUBMIT, False),
    "PATCH /schedules/{name}": (SUBMIT, False),
    "DELETE /schedules/{name}": (OPERATE, False),
    "POST /schedules/{name}/pause": (OPERATE, False),
    "POST /schedules/{name}/resume": (OPERATE, False),
    "POST /schedules/{name}/run": (OPERATE, False),
    "GET /schedules/{name}/next": (VIEW, False),
    "GET /rule": (VIEW, True),
    "POST /schedules/{name}/backfill": (OPERATE, False),
    "GET /webhooks": (VIEW, True),
    "GET /webhooks/{name}": (VIEW, True),
    "PUT /webhooks/{name}": (SUBMIT, True),
    "DELETE /webhooks/{name}": (OPERATE, True),
    "POST /webhooks/{name}/pause": (OPERATE, True),
    "POST /webhooks/{name}/resume": (OPERATE, True),
    "POST /webhooks/{name}/test": (OPERATE, True),
    "GET /groups": (VIEW, False),
    "GET /groups/{name}": (VIEW, False),
    "GET /groups/{name}/along": (VIEW, False),
    "GET /groups/{name}/results": (VIEW, False),
    "GET /groups/{name}/results.csv": (VIEW, False),
    "GET /emitted": (VIEW, False),
    "GET /emitted/{name}": (VIEW, False),
    "PUT /emitted/{name}": (OPERATE, False),
    "GET /nodes": (VIEW, False),
    "POST /nodes/{id}/stop": (ADMIN, False),
    "GET /settings": (ADMIN, False),
    "PUT /settings/{name}": (ADMIN, False),
    "DELETE /settings/{name}": (ADMIN, False),
    "GET /info": (VIEW, False),
    "GET /checkup": (ADMIN, False),
    "POST /prune": (OPERATE, False),
    "GET /me": (VIEW, True),
    "GET /tokens": (ADMIN, False),
    "POST /tokens": (ADMIN, False),
    "DELETE /tokens/{name}": (ADMIN, False),
    "GET /sessions": (ADMIN, False),
    "DELETE /sessions/{id}": (ADMIN, False),
    "POST /calls/now": (VIEW, True),
    "POST /calls/get": (VIEW, True),
    "POST /calls/meant": (VIEW, True),
    "POST /calls/find": (VIEW, True),
    "POST /calls/jobs": (VIEW, True),
    "POST /calls/all_jobs": (VIEW, True),
    "POST /calls/count": (VIEW, True),
    "POST /calls/counted": (VIEW, True),
    "POST /calls/counts": (VIEW, True),
    "POST /calls/states": (VIEW, True),
    "POST /calls/jobs_like": (VIEW, True),
    "POST /calls/attempts": (VIEW, True),
    "POST /calls/hooks": (VIEW, True),
    "POST /calls/output": (VIEW, True),
    "POST /calls/written": (VIEW, True),
    "POST /calls/result": (VIEW, True),
    "POST /calls/results": (VIEW, True),
    "POST /calls/progress": (VIEW, True),
    "POST /calls/running_progress": (VIEW, True),
    "POST /calls/pauses": (VIEW, True),
    "POST /calls/sleeps": (VIEW, True),
    "POST /calls/steps": (VIEW, True),
    "POST /calls/is_left_behind": (VIEW, True),
    "POST /calls/events": (VIEW, True),
    "POST /calls/all_events": (VIEW, True),
    "POST /calls/explain": (VIEW, True),
    "POST /calls/explain_some": (VIEW, True),
    "POST /calls/are_in_vain": (VIEW, True),
    "POST /calls/explain_open": (VIEW, True),
    "POST /calls/hindrances": (VIEW, True),
    "POST /calls/hindrances_of_each": (VIEW, True),
    "POST /calls/stats": (VIEW, True),
    "POST /calls/queues": (VIEW, True),
    "POST /calls/unused": (VIEW, True),
    "POST /calls/unknown_tags": (VIEW, True),
    "POST /calls/limits": (VIEW, True),
    "POST /calls/keys": (VIEW, True),
    "POST /calls/config": (VIEW, True),
    "POST /calls/tags_like": (VIEW, False),
    "POST /calls/types_like": (VIEW, False),
    "POST /calls/status": (VIEW, False),
    "POST /calls/series": (VIEW, False),
    "POST /calls/living_nodes": (VIEW, False),
    "POST /calls/registered_nodes": (VIEW, False),
    "POST /calls/nodes": (VIEW, False),
    "POST /calls/held": (VIEW, False),
    "POST /calls/followers": (VIEW, False),
    "POST /calls/info": (VIEW, False),
    "POST /calls/schedules": (VIEW, False),
    "POST /calls/next_ticks": (VIEW, False),
    "POST /calls/ticks": (VIEW, False),
    "POST /calls/emitted": (VIEW, False),
    "POST /calls/emitted_like": (VIEW, False),
    "GET /jobs/{id}/graph": (VIEW, True),
    "GET /jobs/{id}/parents": (VIEW, True),
    "GET /jobs/{id}/children": (VIEW, True),
    "GET /groups/{name}/graph": (VIEW, True),
    "POST /calls/parents": (VIEW, True),
    "POST /calls/children": (VIEW, True),
    "POST /calls/count_children": (VIEW, True),
    "POST /calls/graph_of": (VIEW, True),
    "POST /calls/graph_of_group": (VIEW, True),
    "POST /calls/taken_along": (VIEW, True),
    "POST /calls/usages": (VIEW, True),
    "POST /calls/groups_named": (VIEW, False),
    "POST /calls/newest_groups": (VIEW, False),
    "POST /calls/groups_like": (VIEW, False),
    "POST /calls/unknown_groups": (VIEW, True),
    "POST /calls/running_groups": (VIEW, False),
    "POST /calls/stuck_groups": (VIEW, False),
    "POST /calls/roots_of_group": (VIEW, False),
    "POST /calls/children_of_group": (VIEW, False),
    "POST /calls/along_with_group": (VIEW, False),
    "POST /calls/why_group": (VIEW, False),
    "POST /calls/enqueue": (SUBMIT, True),
    "POST /calls/enqueue_many": (SUBMIT, True),
    "POST /calls/add_schedule": (SUBMIT, False),
    "POST /calls/edit_schedule": (SUBMIT, False),
    "POST /calls/change_all": (OPERATE, True),
    "POST /calls/change_named": (OPERATE, True),
    "POST /calls/change_matching": (OPERATE, True),
    "POST /calls/last_action": (OPERATE, True),
    "POST /calls/undo": (OPERATE, True),
    "POST /calls/swap": (OPERATE, True),
    "POST /calls/pause_jobs": (OPERATE, True),
    "POST /calls/resume_jobs": (OPERATE, True),
    "POST /calls/pause": (OPERATE, True),
    "POST /calls/resume": (OPERATE, True),
    "POST /calls/prune": (OPERATE, False),
    "POST /calls/pause_schedule": (OPERATE, False),
    "POST /calls/resume_schedule": (OPERATE, False),
    "POST /calls/remove_schedule": (OPERATE, False),
    "POST /calls/run_schedule": (OPERATE, False),
    "POST /calls/backfill": (OPERATE, False),
    "POST /calls/emit": (OPERATE, False),
    "POST /calls/rename_queue": (ADMIN, False),
    "POST /calls/remove_queue": (ADMIN, False),
    "POST /calls/set_limits": (ADMIN, False),
    "POST /calls/clear_limits": (ADMIN, False),
    "POST /calls/set_setting": (ADMIN, False),
    "POST /calls/unset_setting": (ADMIN, False),
    "POST /calls/stop_nodes": (ADMIN, False),
    "POST /calls/webhooks": (VIEW, True),
    "POST /calls/deliveries": (VIEW, True),
    "POST /calls/add_webhook": (SUBMIT, True),
    "POST /calls/pause_webhook": (OPERATE, True),
    "POST /calls/resume_webhook": (OPERATE, True),
    "POST /calls/remove_webhook": (OPERATE, True),
    "POST /calls/test_webhook": (OPERATE, True),
    "POST /calls/whoami": (VIEW, True),
    "POST /calls/tokens": (ADMIN, False),
    "POST /calls/add_token": (ADMIN, False),
    "POST /calls/remove_token": (ADMIN, False),
    "POST /calls/sessions": (ADMIN, False),
    "POST /calls/remove_session": (ADMIN, False),
    "POST /calls/remove_sessions": (ADMIN, False),
}
"""Who may use a route, and whether a token for some queues may: said once more, by hand."""
STREAMS = ("/live", "/jobs/none/follow")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")


def line_of(route: Route) -> str:
    return f"{route.method} {route.path}"


def ask(client: Client, route: Route) -> int:
    """Ask for a route, about something that isn't there, with a body that says nothing."""
    path = re.sub(r"{\w+}", "none", route.path)
    body, headers = None, {}
    if route.takes is not None:
        body, headers = b"{}", {"Content-Type": route.takes_as}
        if route.takes_as == LINES:
            body = b""
    return client.ask(route.method, path, body, headers=headers).status


def test_the_table_has_each_route_and_no_other() -> None:
    assert {line_of(route) for route in routes()} == TABLE.keys()


def test_each_role_may_what_the_table_says_and_no_more(server: Server) -> None:
    for role in Role:
        client = server.client(role)
        found = {line_of(route): ask(client, route) for route in routes()}
        wrong = {
            line: status
            for line, status in found.items()
            if (status == 403) == (role in TABLE[line][0]) or status == 401 or status >= 500
        }
        assert wrong == {}, role


def test_a_token_for_some_queues_keeps_to_what_is_about_them(server: Server) -> None:
    client = server.client(*Role, queues=("mail",))
    for route in routes():
        status = ask(client, route)
        if TABLE[line_of(route)][1]:
            assert status != 401, route
        else:
            assert status == 403, route


def test_nobody_who_is_not_known_is_let_in(lab: Lab, server: Server) -> None:
    access = lab.queue.access
    _, over = access.add_token("over", list(Role), expires=timedelta(milliseconds=1))
    _, gone = access.add_token("gone", list(Role))
    access.remove_token("gone")
    link = access.link("somebody", list(Role))
    _, cookie = access.sign_in(link) or (None, "")
    strangers = [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {over}"},
        {"Authorization": f"Bearer {gone}"},
        {"Authorization": f"Bearer {cookie}"},
        {"Authorization": "Basic YTpi"},
        {"Cookie": "queuectl=x"},
        {"X-Forwarded-User": "admin"},
    ]
    for number, headers in enumerate(strangers):
        client = Client(server.port, headers)
        chosen = routes() if number < 2 else routes()[:3]
        for route in chosen:
            assert ask(client, route) in (401, 429), (headers, route)
        for path in STREAMS:
            assert client.get(path).status in (401, 429)


def test_methods_that_a_path_does_not_know_are_refused(server: Server) -> None:
    client = server.client(*Role)
    known = {(route.method, route.path) for route in routes()}
    for path in sorted({path for _, path in known}):
        for method in METHODS:
            if (method, path) not in known:
                reply = client.ask(method, path.replace("{id}", "x").replace("{name}", "x"))
                assert reply.status == 405, (method, path)


def test_a_secret_cannot_be_guessed_by_trying(server: Server) -> None:
    guess = Client(server.port, {"Authorization": "Bearer qtl_wrong"})
    found = [guess.get("/me").status for _ in range(30)]
    assert found[0] == 401
    assert found[-1] == 429
    # Others may have the same address: behind a proxy, all have.
    assert server.client("view").get("/me").status == 200


class TestQueues:
    """A token for some queues sees nothing of the others."""

    @pytest.fixture
    def mail(self, lab: Lab, server: Server) -> Client:
        lab.queue.enqueue("true", id="in", queue="mail")
        lab.queue.enqueue("secret", id="out", queue="other")
        return server.client(*Role, queues=("mail",))

    def test_reading(self, mail: Client) -> None:
        assert [job["id"] for job in mail.get("/jobs").json["items"]] == ["in"]
        assert mail.get("/jobs?queue=other").status == 403
        assert [job["id"] for job in mail.get("/bulk/jobs").lines] == ["in"]
        assert [queue["name"] for queue in mail.get("/queues").json] == ["mail"]
        assert mail.get("/queues/other").status == 403
        assert mail.get("/stats").status == 403
        assert mail.get("/stats?queue=mail").status == 200
        for path in ("", "/output", "/events", "/explain", "/follow"):
            assert mail.get(f"/jobs/out{path}").status == 404
        assert mail.get("/jobs?after=out").status == 404
        assert mail.get("/live").status == 403

    def test_changing(self, lab: Lab, mail: Client) -> None:
        assert mail.post("/jobs/out/cancel").status == 404
        assert mail.post("/jobs/in/swap", {"with": "out"}).status == 404
        assert mail.post("/jobs/in/move", {"queue": "other"}).status == 403
        assert mail.patch("/jobs/in", {"queue": "other"}).status == 403
        assert mail.post("/jobs/in/retry", {"changes": {"queue": "other"}}).status == 403
        assert mail.post("/queues/other/pause").status == 403
        assert mail.post("/jobs", {"command": "true"}).status == 403
        assert mail.post("/jobs", {"command": "true", "queue": "other"}).status == 403
        assert mail.put("/jobs/out", {"command": "secret", "queue": "mail"}).status == 422
        told = mail.post("/bulk/changes", {"do": "cancel", "filter": {}}).lines
        assert [line["id"] for line in told] == ["in"]
        told = mail.post("/bulk/changes", {"do": "remove", "ids": ["in", "out"]}).lines
        assert {line["id"]: bool(line["error"]) for line in told} == {"in": False, "out": True}
        assert lab.queue.find("out") is not None


ODD = ("queue ", " queue", "\tqueue")
"""Names that a field may have as well."""


class TestStrangers:
    """Who isn't known is told nothing of what is here."""

    def test_pages(self, lab: Lab, server: Server) -> None:
        stranger = Client(server.port, base="")
        known = Client(server.port, server.client("view").headers, base="")
        some = Client(server.port, server.client("view", queues=("mail",)).headers, base="")
        file = lab.db.name.encode()
        assert file in known.get("/").body
        for client, path in ((stranger, "/sign-in"), (some, "/")):
            assert file not in client.get(path).body
        assert __version__.encode() not in stranger.get("/sign-in").body

    @pytest.mark.parametrize("path", ["/health", "/", "/sign-in", "/api/v1/me"])
    def test_a_database_that_cannot_be_used(
        self, lab: Lab, monkeypatch: pytest.MonkeyPatch, path: str
    ) -> None:
        def fail(*_: object) -> None:
            raise StoreUnreachableError("no /srv/queue.db", advice="see 10.0.0.7")

        monkeypatch.setattr(lab.queue.store.grants, "find", fail)
        monkeypatch.setattr(lab.queue.store.jobs, "counts", fail)
        cookie = f"{Gate(lab.queue, Rules()).cookie}=qts_x"
        for headers in ({"authorization": "Bearer qtl_x"}, {"cookie": cookie}):
            reply = asyncio.run(asked(App(lab.queue, Rules()), path, **headers))
            assert reply.status == (200 if path == "/sign-in" else 503)
            assert b"/srv/" not in reply.body
            assert b"10.0.0.7" not in reply.body


def test_no_hint_names_a_queue_of_others(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", queue="mails")
    reply = server.client("view", queues=("mail",)).get("/queues/mail")
    assert reply.status == 404
    assert b"mails" not in reply.body
    assert b"mails" in server.client("view").get("/queues/mail").body


def test_hooks_that_were_moved_away_are_not_shown(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="j", queue="mail", on_success="true")
    lab.queue.force_finish("j")
    (hook,) = lab.queue.hooks("j")
    mail, everybody = server.client("view", queues=("mail",)), server.client("view")
    assert [one["id"] for one in mail.get("/jobs/j").json["hooks"]] == [hook.id]
    lab.queue.move(hook, "away")
    assert [one["id"] for one in everybody.get("/jobs/j").json["hooks"]] == [hook.id]
    assert mail.get("/jobs/j").json["hooks"] == []
    assert mail.get("/jobs/j/hooks").json == []


def test_where_a_job_came_from_is_told_to_who_sees_that_queue(lab: Lab, server: Server) -> None:
    queue = lab.queue
    queue.enqueue("true", id="j", queue="hush; hush", priority=1, delay="1d")
    queue.edit("j", queue="mail", priority=2, command="echo queue a -> b")
    mail = server.client("view", queues=("mail",))
    mails = Client(server.port, mail.headers, base="")
    replies = [
        mail.get("/jobs/j"),
        mail.get("/jobs/j/events"),
        mail.post("/calls/events", {"id": "j", "limit": 9}),
        mails.get("/jobs/j"),
    ]
    for reply in replies:
        assert reply.status == 200
        assert b"hush" not in reply.body
    (event,) = replies[1].json
    assert "queue (another queue) -> mail" in event["detail"]
    assert "priority 1 -> 2" in event["detail"]
    assert b"enqueued in (another queue)" in replies[3].body
    asked = {"id": "j", "limit": 9, "which": {"text": "hush"}}
    assert mail.post("/calls/events", asked).json == []
    assert len(server.client("view").post("/calls/events", asked).json) == 1


def test_what_was_done_elsewhere_is_as_good_as_not_done(lab: Lab, server: Server) -> None:
    for id, queue in (("ours", "mail"), ("theirs", "hush"), ("gone", "hush")):
        lab.queue.enqueue("true", id=id, queue=queue, delay="1d")
    client, mail = server.client(*Role), server.client("operate", queues=("mail",))
    hold = {"do": "hold", "ids": ["ours", "theirs"]}
    action = client.post("/bulk/changes", hold).headers["queuectl-action"]
    other = client.post("/jobs/gone/hold").headers["queuectl-action"]
    lab.queue.remove("gone")
    for dry_run in (True, False):
        (told,) = mail.post(f"/actions/{action}/undo", {"dry_run": dry_run}).lines
        assert (told["id"], told["error"]) == ("ours", None)
        unknown = mail.post("/actions/nothing/undo", {"dry_run": dry_run})
        hidden = mail.post(f"/actions/{other}/undo", {"dry_run": dry_run})
        assert hidden.status == unknown.status
        assert hidden.body.replace(other.encode(), b"nothing") == unknown.body
    assert lab.queue.get("theirs").is_held


@pytest.mark.parametrize("path", ["/jobs/%00", "/queues/a%00b", "/jobs?queue=%00", "/jobs/%ff"])
def test_names_that_no_database_keeps(server: Server, path: str) -> None:
    assert server.client(*Role).get(path).status == 400
    pages = Client(server.port, server.client(*Role).headers, base="")
    assert pages.get(path).status == 400


@pytest.mark.parametrize("name", [".", ".."])
def test_names_that_no_path_can_have(anyone: Client, name: str) -> None:
    assert anyone.post("/jobs", {"command": "true", "id": name}).status == 400
    assert anyone.post("/jobs", {"command": "true", "queue": name}).status == 400
    assert anyone.post("/jobs", {"command": "true", "group": name}).status == 400
    assert anyone.put(f"/jobs/{name.replace('.', '%2e')}", {"command": "true"}).status == 400


class TestUnique:
    """A unique key is one in all queues, and opens none of them."""

    @pytest.mark.parametrize("how", ["return", "reject", "replace", "debounce"])
    def test_of_a_job_elsewhere(self, lab: Lab, server: Server, how: str) -> None:
        lab.queue.enqueue("secret", id="hidden", queue="other", unique="k")
        before = lab.queue.get("hidden")
        mail = server.client(*Role, queues=("mail",))
        asked = {"command": "true", "queue": "mail", "unique": "k", "on_duplicate": how}
        line = json.dumps(asked).encode()
        replies = [
            mail.post("/jobs", asked),
            mail.post("/jobs", asked, Idempotency_Key="x"),
            mail.ask("POST", "/bulk/jobs", line, headers={"Content-Type": LINES}),
        ]
        assert [reply.status for reply in replies[:2]] == [409, 422 if how != "debounce" else 400]
        assert replies[2].lines[0]["id"] is None
        for reply in replies:
            assert b"hidden" not in reply.body
            assert b"secret" not in reply.body
        assert lab.queue.get("hidden") == before

    def test_of_one_that_was_moved_away(self, lab: Lab, server: Server) -> None:
        mail = server.client(*Role, queues=("mail",))
        asked = {"command": "true", "queue": "mail"}
        assert mail.put("/jobs/j", asked).status == 201
        lab.queue.move("j", "elsewhere")
        reply = mail.put("/jobs/j", asked)
        assert reply.status == 422
        assert b"elsewhere" not in reply.body


class TestNames:
    """A field is checked whichever of its names it comes by."""

    @pytest.fixture
    def mail(self, lab: Lab, server: Server) -> Client:
        lab.queue.enqueue("true", id="in", queue="mail")
        return server.client(*Role, queues=("mail",))

    @pytest.mark.parametrize("name", ODD)
    def test_of_the_queue(self, lab: Lab, mail: Client, name: str) -> None:
        there, here = {"command": "true", name: "other"}, {"command": "true", name: "mail"}
        assert mail.post("/jobs", there).status == 403
        assert mail.put("/jobs/x", there).status == 403
        assert mail.patch("/jobs/in", {name: "other"}).status == 403
        assert mail.post("/jobs/in/retry", {"changes": {name: "other"}}).status == 403
        lines = b"\n".join(json.dumps(one).encode() for one in (there, here))
        told = mail.ask("POST", "/bulk/jobs", lines, headers={"Content-Type": LINES}).lines
        assert [line["error"] is None for line in told] == [False, True]
        assert {job.queue for job in lab.queue.iterate()} == {"mail"}

    @pytest.mark.parametrize("name", ["env_all", "env-all", "env_all ", " env-all"])
    def test_of_an_environment(self, lab: Lab, anyone: Client, name: str) -> None:
        lab.queue.enqueue("true", id="j")
        asked = {"command": "true", name: True}
        assert anyone.post("/jobs", asked).status == 400
        assert anyone.put("/jobs/x", asked).status == 400
        assert anyone.put("/schedules/s", {"rule": "every 1h", "job": asked}).status == 400
        assert anyone.patch("/jobs/j", {name: True}).status == 400
        assert anyone.post("/jobs/j/retry", {"changes": {name: True}}).status == 400
        assert [job.id for job in lab.queue.iterate()] == ["j"]
        assert not lab.queue.get("j").env_all

    @pytest.mark.parametrize("name", ["cwd", "cwd ", " cwd"])
    def test_of_a_folder(self, lab: Lab, anyone: Client, name: str) -> None:
        lab.queue.enqueue("true", id="j")
        assert anyone.post("/jobs", {"command": "true", name: "sub"}).status == 400
        assert anyone.patch("/jobs/j", {name: "sub"}).status == 400
        assert anyone.post("/jobs/j/retry", {"changes": {name: "sub"}}).status == 400
        assert anyone.patch("/jobs/j", {name: "/tmp"}).json["cwd"] == "/tmp"

    @pytest.mark.parametrize("name", ["id ", "stdin ", " type", "stdin-base64", "unique "])
    def test_of_what_a_job_keeps(self, lab: Lab, anyone: Client, name: str) -> None:
        lab.queue.enqueue("true", id="j")
        assert anyone.patch("/jobs/j", {name: "x"}).status == 400
        assert [job.id for job in lab.queue.iterate()] == ["j"]

    def test_twice(self, anyone: Client) -> None:
        asked = {"command": "true", "queue": "a", "queue ": "b"}
        assert anyone.post("/jobs", asked).status == 400


class TestRights:
    """What takes more than its route says."""

    def test_to_change_what_runs_is_to_submit(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="j")
        operator = server.client("operate")
        assert operator.patch("/jobs/j", {"priority": 3}).status == 200
        bodies: tuple[dict[str, object], ...] = (
            {"command": "rm"},
            {"cmd": "rm"},
            {" env": {}},
            {"on-dead ": "rm"},
            {"on_dead": "rm"},
            {"cwd": "/"},
        )
        for body in bodies:
            assert operator.patch("/jobs/j", body).status == 403, body
            assert operator.post("/jobs/j/retry", {"changes": body}).status == 403, body
        admin = server.client("admin")
        assert admin.put("/settings/shell", {"value": "/bin/bash"}).status == 403
        assert admin.patch("/queues/q/limits", {"on_dead": "rm"}).status == 403
        assert admin.patch("/queues/q/limits", {"limit": 3}).status == 200
        assert admin.put("/settings/max_retries", {"value": 3}).status == 200

    def test_nobody_gives_away_what_they_have_not(self, server: Server) -> None:
        admin = server.client("admin")
        assert admin.post("/tokens", {"name": "a", "roles": ["operate"]}).status == 201
        assert admin.post("/tokens", {"name": "b", "roles": ["submit"]}).status == 403
        made = server.client(*Role).post("/tokens", {"name": "b", "roles": ["submit"]}).json
        new = Client(server.port, {"Authorization": f"Bearer {made['secret']}"})
        assert new.get("/me").json["roles"] == ["submit"]
        listed = admin.get("/tokens").body.decode()
        assert made["secret"] not in listed
        assert admin.delete("/tokens/b").status == 204
        wait_for(lambda: new.get("/me").status == 401, "its end")

    def test_a_secret_of_a_job_is_for_who_may_see_it(self, lab: Lab, server: Server) -> None:
        lab.queue.push("j", b"hidden data", type="t", env={"TOKEN": "hidden value"})
        viewer, admin = server.client("view"), server.client("admin")
        for path in ("/jobs/j", "/jobs", "/bulk/jobs"):
            said = viewer.get(path).body
            assert b"hidden" not in said and b"TOKEN" not in said, path
            assert b"hidden data" in admin.get(path).body
            assert b"hidden value" not in admin.get(path).body

    def test_a_server_submits_and_changes_nothing_unless_it_was_told_so(
        self, lab: Lab, serve: Serve
    ) -> None:
        lab.queue.enqueue("true", id="j")
        plain = serve("--no-link").client(*Role)
        assert plain.post("/jobs", {"command": "true"}).status == 403
        assert plain.patch("/jobs/j", {"command": "false"}).status == 403
        assert plain.post("/jobs/j/hold").status == 200
        reader = serve("--read-only", "--no-link").client(*Role)
        assert reader.get("/jobs").status == 200
        for route in routes():
            if route.changes:
                assert ask(reader, route) == 403, route

    def test_who_may_not_see_what_a_job_was_given_hands_it_to_nothing_else(
        self, lab: Lab, server: Server
    ) -> None:
        lab.queue.enqueue("true", id="j", env={"TOKEN": "hidden value"})
        lab.queue.enqueue("true", id="plain")
        submitter = server.client("submit", "operate")
        boss = server.client("submit", "operate", "admin")
        made = submitter.post("/jobs/j/clone")
        assert (made.status, made.json["job"]["env"]) == (201, [])
        assert made.json["left_out"] == ["Its id j: the other has its own."]
        assert made.headers["location"].endswith(f"/jobs/{made.json['job']['id']}")
        assert lab.queue.get(made.json["job"]["id"]).env == {"TOKEN": "hidden value"}
        other = {"changes": {"command": "env"}}
        assert submitter.post("/jobs/j/clone", other).status == 403
        assert submitter.post("/jobs/j/clone", {"changes": {"priority": 3}}).status == 201
        assert submitter.post("/jobs/plain/clone", other).status == 201
        assert boss.post("/jobs/j/clone", other).status == 201
        for path, ask in (("/jobs/j", submitter.patch), ("/jobs/j/retry", submitter.post)):
            changes = {"command": "env"} if path == "/jobs/j" else other
            assert ask(path, changes).status == 403, path
        asked = {"do": "edit", "given": {"command": "env"}}
        [refused] = submitter.post(
            "/calls/change_named", {"ids": ["j"], "asked": asked, "dry_run": False}
        ).lines
        assert "secrets" in json.dumps(refused)
        assert lab.queue.get("j").command == "true"
        assert submitter.patch("/jobs/j", {"priority": 4}).status == 200
        assert submitter.patch("/jobs/plain", {"command": "false"}).status == 200
        assert boss.patch("/jobs/j", {"command": "env"}).status == 200
        lab.queue.schedules.add("s", "@daily", "true", env={"TOKEN": "hidden value"})
        assert submitter.patch("/schedules/s", {"job": {"command": "env"}}).status == 403
        assert submitter.patch("/schedules/s", {"job": {"priority": 2}}).status == 200
        assert boss.patch("/schedules/s", {"job": {"command": "env"}}).status == 200


def test_that_a_token_was_used_is_noted_aside(lab: Lab, server: Server) -> None:
    client = server.client("view", name="bot")
    with closing(sqlite3.connect(lab.db, isolation_level=None)) as other:
        # As long as somebody else writes, or nobody can, tokens are good all the same.
        other.execute("BEGIN IMMEDIATE")
        assert client.get("/me").status == 200
        other.execute("ROLLBACK")
    wait_for(lambda: lab.queue.access.get_token("bot").used_at, "the note")


def test_commands_on_pages_are_for_this_queue(lab: Lab, server: Server) -> None:
    lab.queue.enqueue("true", id="j", queue="mail")
    whole, some = server.client("view"), server.client("view", queues=("mail",))
    whole.base = some.base = ""
    for path in ("/nodes", "/jobs/j", "/queues/mail"):
        told = html.unescape(whole.get(path).body.decode())
        assert f"queuectl --db {lab.queue.url} worker start" in told, path
    for path in ("/", "/jobs/j", "/queues/mail"):
        told = html.unescape(some.get(path).body.decode())
        assert "--db" not in told, path
        assert lab.queue.url not in told, path
