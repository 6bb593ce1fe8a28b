"""Jobs over HTTP: what `Queue` does to them, with the sentences of the command line."""

import http.client
import json
import threading
from contextlib import closing
from typing import Any

import pytest

from queuectl import State
from queuectl.store.sqlstore import SqlStore
from queuectl.views import job_whole
from tests.support import PATIENCE, Lab, wait_for
from tests.web.conftest import API, Client, Serve, Server


def test_a_job_is_added_and_runs(lab: Lab, anyone: Client) -> None:
    reply = anyone.post("/jobs", {"command": "echo hello; echo oops >&2", "tags": ["x"]})
    assert (reply.status, reply.json["state"]) == (201, "pending")
    id = reply.json["id"]
    assert reply.headers["location"] == f"/api/v1/jobs/{id}"
    lab.node()
    assert anyone.get(f"/jobs/{id}/wait").json["state"] == "completed"
    output = anyone.get(f"/jobs/{id}/output").json
    assert (output["stdout"], output["stderr"], output["live"]) == ("hello\n", "oops\n", False)
    [run] = anyone.get(f"/jobs/{id}/attempts").json
    assert (run["number"], run["exit_code"]) == (1, 0)


def test_a_request_that_is_part_of_a_trace_makes_jobs_of_it(lab: Lab, anyone: Client) -> None:
    parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
    reply = anyone.post("/jobs", {"command": "true"}, traceparent=parent, tracestate="a=b")
    assert reply.json["trace_id"] == "4bf92f3577b34da6a3ce929d0e0e4736"
    for wrong in ("00-0-0-0", "x" * 5_000):
        reply = anyone.post("/jobs", {"command": "true"}, traceparent=wrong)
        assert (reply.status, reply.json["trace_id"]) == (201, None)


def test_what_is_shown_is_what_the_command_shows(lab: Lab, anyone: Client) -> None:
    job = lab.queue.enqueue("true", id="a job", tags=["x"], priority=3)
    assert anyone.get("/jobs/a%20job").json == job_whole(lab.queue, job)


@pytest.mark.parametrize("id", ["x/y", "ü ö", "a'b\"c", "..", "%2F", "?#", "-x", "\\"])
def test_odd_ids_reach_their_job(lab: Lab, anyone: Client, id: str) -> None:
    from urllib.parse import quote

    lab.queue.enqueue("true", id=id)
    reply = anyone.get(f"/jobs/{quote(id, safe='')}")
    assert (reply.status, reply.json["id"]) == (200, id)


def test_a_job_without_a_folder_runs_where_its_worker_is(lab: Lab, anyone: Client) -> None:
    anyone.post("/jobs", {"command": "pwd", "id": "where"})
    assert lab.queue.get("where").cwd is None
    assert anyone.post("/jobs", {"command": "pwd", "cwd": "here"}).problem == "bad-request"
    assert anyone.post("/jobs", {"command": "env", "env_all": True}).problem == "bad-request"


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({}, "command"),
        ({"command": ""}, "command"),
        ({"command": "true", "priority": "high"}, "priority"),
        ({"command": "true", "colour": "red"}, "colour"),
        ([], "JSON object"),
        ("true", "JSON object"),
        (b"{", "isn't JSON"),
        (b"NaN", "isn't JSON"),
        (b'{"command": "true", "priority": 1e999}', "too large a number"),
        (b"[" * 100_000, "isn't JSON"),
        (b"\xff\xfe", "isn't JSON"),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(anyone: Client, body: Any, word: str) -> None:
    reply = anyone.ask("POST", "/jobs", body, headers={"Content-Type": "application/json"})
    assert (reply.status, reply.problem) == (400, "bad-request")
    assert word in reply.json["detail"]


def test_what_is_no_json_in_the_database_breaks_nothing(lab: Lab, anyone: Client) -> None:
    """It may have come there by other ways than ours."""
    store = lab.queue.store
    assert isinstance(store, SqlStore)
    job = lab.queue.enqueue("true")
    store.db.change(store.db.sql.KEEP_RESULT, {"seq": job.seq, "number": 1, "value": "1e999"})
    lab.queue.force_finish(lab.queue.enqueue("true", id="other"), result=[1.5])
    lab.queue.emit("odd")
    store.db.change("UPDATE emitted SET payload = '[1e999' WHERE name = :name", {"name": "odd"})
    assert anyone.get(f"/jobs/{job.id}").status == 200
    assert [one["payload"] for one in anyone.get("/emitted").json] == ["[1e999"]
    assert anyone.get("/jobs/other/result").json == [1.5]


@pytest.mark.parametrize("path", [f"/events?before={9**30}", "/events?limit=0", "/jobs?limit=-1"])
def test_a_number_that_no_database_holds(anyone: Client, path: str) -> None:
    assert anyone.get(path).problem == "bad-request"


@pytest.mark.parametrize(
    ("call", "asked"),
    [
        ("events", {"limit": 3, "before": 9**30}),
        ("emitted", {"limit": 9**30}),
        ("held", {"node": "\ud800"}),
        ("events", {"id": "\ud800", "limit": 3}),
        ("undo", {"action": "\ud800", "may_change_work": True, "dry_run": True}),
        ("jobs_like", {"prefix": "", "states": [], "limit": -1}),
    ],
)
def test_a_call_with_odd_values(lab: Lab, anyone: Client, call: str, asked: dict[str, Any]) -> None:
    lab.queue.enqueue("true")
    reply = anyone.post(f"/calls/{call}", asked)
    assert reply.status in (400, 404) or reply.json in ([], {"is": []}), reply


def test_a_job_that_is_not_there_is_404(anyone: Client) -> None:
    for path in ("", "/output", "/attempts", "/events", "/explain", "/steps", "/result", "/wait"):
        assert anyone.get(f"/jobs/none{path}").problem == "not-found"


class TestOnce:
    """A request that is sent again does nothing."""

    def test_put(self, lab: Lab, anyone: Client) -> None:
        body = {"command": "true", "priority": 1}
        first, again = anyone.put("/jobs/one", body), anyone.put("/jobs/one", body)
        assert (first.status, again.status) == (201, 200)
        assert again.json == first.json
        assert anyone.put("/jobs/one", {**body, "priority": 2}).problem == "other-request"
        assert lab.queue.count() == 1

    def test_put_leaves_alone_what_came_otherwise(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("true", id="mine")
        assert anyone.put("/jobs/mine", {"command": "true"}).status == 422
        assert anyone.put("/jobs/mine", {"command": "true", "id": "other"}).status == 400

    def test_a_key(self, lab: Lab, server: Server, anyone: Client) -> None:
        first = anyone.post("/jobs", {"command": "true"}, Idempotency_Key="k")
        again = anyone.ask(
            "POST",
            "/jobs",
            b'{ "command":\t"true" }',
            headers={"Idempotency-Key": "k", "Content-Type": "application/json"},
        )
        assert (first.status, again.status, again.json) == (201, 200, first.json)
        assert anyone.post("/jobs", {"command": "false"}, Idempotency_Key="k").status == 422
        other = server.client("submit").post("/jobs", {"command": "false"}, Idempotency_Key="k")
        assert other.status == 201, "the key of somebody else is another one"
        assert lab.queue.count() == 2

    def test_a_key_is_not_that_of_an_earlier_token_of_the_name(
        self, lab: Lab, server: Server
    ) -> None:
        body, ids = {"command": "true"}, set()
        for _ in range(2):
            client = server.client("submit", "operate", name="ci")
            added = client.post("/jobs", body, Idempotency_Key="k")
            assert added.status == 201
            ids.add(added.json["id"])
            nothing = client.post("/calls/last_action", {})
            assert (nothing.status, nothing.problem) == (404, "not-found")
            action = client.post(f"/jobs/{added.json['id']}/hold").headers["queuectl-action"]
            assert client.post("/calls/last_action", {}).json == action
            lab.queue.access.remove_token("ci")
        assert len(ids) == 2

    def test_a_user_of_a_proxy_is_not_the_token_of_that_name(self, lab: Lab, serve: Serve) -> None:
        proxy = ("--trust-proxy", "127.0.0.1", "--proxy-header", "X-User")
        roles = ("--proxy-role", "submit,operate")
        server = serve("--no-link", "--allow-submit", *proxy, *roles)
        token = server.client("submit", "operate", name="ci")
        origin = f"http://127.0.0.1:{server.port}"
        user = Client(server.port, {"X-User": "ci", "Origin": origin})
        body = {"command": "true"}
        first = token.post("/jobs", body, Idempotency_Key="k")
        other = user.post("/jobs", body, Idempotency_Key="k")
        assert (first.status, other.status) == (201, 201)
        assert token.post(f"/jobs/{first.json['id']}/hold").status == 200
        assert user.post("/calls/last_action", {}).status == 404
        action = user.post(f"/jobs/{other.json['id']}/hold").headers["queuectl-action"]
        assert user.post("/calls/last_action", {}).json == action
        said = [event.who.partition(" via ")[0] for event in lab.queue.events(limit=2)]
        assert said == ["ci (proxy)", "ci (web)"]

    def test_a_unique_key_that_is_taken(self, anyone: Client) -> None:
        asked = {"command": "true", "unique": "u", "delay": "1d"}
        first = anyone.post("/jobs", asked)
        replies = [
            anyone.post("/jobs", asked),
            anyone.post("/jobs", asked, Idempotency_Key="k"),
            anyone.post("/jobs", asked | {"on_duplicate": "debounce", "priority": 3}),
        ]
        assert [reply.status for reply in (first, *replies)] == [201, 200, 200, 200]
        assert {reply.json["id"] for reply in replies} == {first.json["id"]}
        assert {reply.headers["location"] for reply in replies} == {first.headers["location"]}
        other = anyone.post("/jobs", asked | {"on_duplicate": "replace"})
        assert other.status == 201
        assert other.json["id"] != first.json["id"]

    def test_a_call_with_a_key_and_no_id(self, lab: Lab, server: Server, anyone: Client) -> None:
        call = {"asked": {"command": "true"}, "key": "k"}
        first, again = (anyone.post("/calls/enqueue", call) for _ in range(2))
        assert (first.status, again.status) == (200, 200)
        assert again.json["id"] == first.json["id"]
        other = server.client("submit").post("/calls/enqueue", call)
        assert other.json["id"] != first.json["id"]
        assert anyone.post("/jobs", call["asked"], Idempotency_Key="k").status == 201
        assert lab.queue.count() == 3

    def test_a_key_is_kept_while_the_job_runs_and_when_it_is_over(
        self, lab: Lab, anyone: Client
    ) -> None:
        body = {"command": "true"}
        id = anyone.post("/jobs", body, Idempotency_Key="k").json["id"]
        lab.node()
        assert anyone.get(f"/jobs/{id}/wait").json["state"] == "completed"
        again = anyone.post("/jobs", body, Idempotency_Key="k")
        assert (again.status, again.json["state"]) == (200, "completed")

    def test_of_many_at_once_one_adds(self, lab: Lab, anyone: Client) -> None:
        found: list[int] = []
        body = {"command": "true"}

        def ask() -> None:
            found.append(anyone.post("/jobs", body, Idempotency_Key="k").status)

        threads = [threading.Thread(target=ask) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == [200] * 11 + [201]
        assert lab.queue.count() == 1


class TestChanges:
    def test_what_is_done_to_one(self, lab: Lab, anyone: Client) -> None:
        job = lab.queue.enqueue("true", id="j")
        for path, body, field, value in [
            ("/hold", None, "held", True),
            ("/release", None, "held", False),
            ("/move", {"queue": "mail"}, "queue", "mail"),
            ("/cancel", {"reason": "why not"}, "state", "cancelled"),
            ("/retry", None, "state", "pending"),
            ("/finish", {"result": [1]}, "state", "completed"),
        ]:
            reply = anyone.post(f"/jobs/j{path}", body)
            assert (reply.status, reply.json[field]) == (200, value), path
        assert anyone.get("/jobs/j/result").json == [1]
        assert anyone.patch("/jobs/j", {"priority": 5}).problem == "state"
        assert anyone.delete("/jobs/j").status == 204
        assert lab.queue.find(job.id) is None

    def test_each_is_on_record_with_who_did_it(self, lab: Lab, server: Server) -> None:
        lab.queue.enqueue("true", id="j")
        server.client("operate", name="ann").post("/jobs/j/hold")
        [event] = lab.queue.events("j")
        assert event.kind == "hold"
        assert event.who.startswith("ann (web) via ")

    def test_edit(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("true", id="j")
        reply = anyone.patch("/jobs/j", {"priority": 7, "command": "false"})
        assert (reply.json["priority"], reply.json["command"]) == (7, "false")
        assert anyone.patch("/jobs/j", {"seq": 1}).status == 400
        assert anyone.patch("/jobs/j", {"self": 1}).status == 400

    def test_swap_and_top(self, lab: Lab, anyone: Client) -> None:
        for id in "abc":
            lab.queue.enqueue("true", id=id)
        assert anyone.post("/jobs/c/top").status == 200
        assert anyone.post("/jobs/a/swap", {"with": "b"}).status == 200
        assert anyone.post("/jobs/a/swap", {"with": "none"}).status == 404

    def test_pause_and_resume(self, lab: Lab, anyone: Client) -> None:
        job = lab.queue.enqueue("sleep 60", id="j")
        lab.node()
        wait_for(lambda: lab.queue.get(job).state == State.PROCESSING, "its start")
        assert anyone.post("/jobs/j/pause").json["paused_by"]
        assert anyone.post("/jobs/j/resume").json["paused_by"] is None
        assert anyone.post("/jobs/j/cancel").status == 200
        assert anyone.get("/jobs/j/wait?timeout=60").json["state"] == "cancelled"

    def test_wait_returns_when_its_time_is_over(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("true", id="j")
        assert anyone.get("/jobs/j/wait?timeout=0").json["state"] == "pending"
        assert anyone.get("/jobs/j/wait?timeout=nan").problem == "bad-request"


class TestLists:
    def test_pages_have_every_job_once(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue_many([{"command": "true", "id": f"j{n}"} for n in range(25)])
        seen: list[str] = []
        after = ""
        while True:
            page = anyone.get(f"/jobs?limit=10{after}").json
            seen += [job["id"] for job in page["items"]]
            if page["next"] is None:
                break
            after = f"&after={page['next']}"
        assert seen == [f"j{n}" for n in range(24, -1, -1)]

    def test_filters(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("make report", id="a", queue="mail", tags=["x", "y"])
        lab.queue.enqueue("true", id="b", tags=["x"])
        lab.queue.push("c", b"data", type="img")
        for query, ids in [
            ("queue=mail", ["a"]),
            ("tag=x", ["b", "a"]),
            ("tag=x&tag=y", ["a"]),
            ("type=img", ["c"]),
            ("text=REPORT", ["a"]),
            ("state=pending&oldest=true", ["a", "b", "c"]),
            ("state=dead", []),
            ("since=1h", ["c", "b", "a"]),
            ("until=1h", []),
            ("sort=id", ["a", "b", "c"]),
        ]:
            found = [job["id"] for job in anyone.get(f"/jobs?{query}").json["items"]]
            assert found == ids, query
        for query in ("stat=dead", "state=odd", "limit=0", "limit=x", "since=soon", "oldest=1"):
            assert anyone.get(f"/jobs?{query}").problem == "bad-request", query

    def test_what_has_not_changed_is_not_sent_again(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("true", id="j")
        tag = anyone.get("/jobs").headers["etag"]
        again = anyone.get("/jobs", If_None_Match=tag)
        assert (again.status, again.body) == (304, b"")
        lab.queue.hold("j")
        assert anyone.get("/jobs", If_None_Match=tag).status == 200


LINES = {"Content-Type": "application/jsonl"}


class TestBulk:
    def test_in_and_out(self, lab: Lab, anyone: Client) -> None:
        body = b"".join(b'{"command":"true","id":"j%d"}\n' % n for n in range(2_500))
        told = anyone.ask("POST", "/bulk/jobs", body, headers=LINES).lines
        assert [line["id"] for line in told] == [f"j{n}" for n in range(2_500)]
        assert lab.queue.count() == 2_500
        found = anyone.get("/bulk/jobs?state=pending").lines
        assert [job["id"] for job in found] == [f"j{n}" for n in range(2_499, -1, -1)]

    def test_lines_come_while_those_before_them_are_answered(
        self, lab: Lab, server: Server, anyone: Client
    ) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE)
        with closing(connection) as wire:
            wire.putrequest("POST", f"{API}/bulk/jobs")
            for name, value in {**anyone.headers, **LINES, "Transfer-Encoding": "chunked"}.items():
                wire.putheader(name, value)
            wire.endheaders()
            part = b'{"command":"true"}\n' * 1_500
            wire.send(b"%x\r\n%s\r\n" % (len(part), part))
            reply = wire.getresponse()
            told = [json.loads(reply.readline()) for _ in range(256)]
            for _ in range(3):
                wire.send(b"%x\r\n%s\r\n" % (len(part), part))
            wire.send(b"0\r\n\r\n")
            told += map(json.loads, reply.read().splitlines())
        assert [line["line"] for line in told] == list(range(1, 6_001))
        assert lab.queue.count() == 6_000

    def test_lines_that_are_wrong_keep_none_of_the_others(self, lab: Lab, anyone: Client) -> None:
        body = b'{"command":"true","id":"a"}\n{"command":""}\nno\n[]\n{"command":"true","id":"a"}'
        told = anyone.ask("POST", "/bulk/jobs", body, headers=LINES).lines
        assert [line["line"] for line in told] == [1, 2, 3, 4, 5]
        assert [line["id"] for line in told] == ["a", None, None, None, None]
        assert all(line["error"] for line in told[1:])
        assert lab.queue.count() == 1

    def test_changes_by_ids_and_by_filter(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue_many([{"command": "true", "id": f"j{n}"} for n in range(1_200)])
        dry = anyone.post(
            "/bulk/changes", {"do": "hold", "filter": {"state": ["pending"]}, "dry_run": True}
        )
        assert len(dry.lines) == 1_200
        assert not any(job.is_held for job in lab.queue.list(limit=None))
        done = anyone.post("/bulk/changes", {"do": "hold", "filter": {"states": ["pending"]}})
        assert len(done.lines) == 1_200
        assert all(job.is_held for job in lab.queue.list(limit=None))
        some = anyone.post("/bulk/changes", {"do": "cancel", "ids": ["j1", "none", "j2", "j1"]})
        assert {line["id"]: bool(line["error"]) for line in some.lines} == {
            "none": True,
            "j1": False,
            "j2": False,
        }

    def test_a_search_among_very_many_goes_on_where_it_stopped(
        self, lab: Lab, anyone: Client
    ) -> None:
        lab.queue.enqueue("echo needle", id="needle")
        lab.queue.enqueue_many(["true"] * 10_000)
        first = anyone.get("/jobs?text=needle").json
        assert first["items"] == []
        assert first["next"] is not None
        rest = anyone.get(f"/jobs?text=needle&after={first['next']}").json
        assert ([job["id"] for job in rest["items"]], rest["next"]) == (["needle"], None)
        page = Client(anyone.port, anyone.headers, "").get("/jobs?text=needle").body.decode()
        assert "Search on" in page
        assert f"after={first['next']}" in page
        assert "No jobs fit" not in page

    def test_a_filter_has_the_names_of_the_query(self, lab: Lab, anyone: Client) -> None:
        lab.queue.enqueue("true", id="a", keys=["k", "l"], tags=["x"], delay="1h")
        lab.queue.enqueue("true", id="b", keys=["k"], tags=["x"])
        asked: list[tuple[str, dict[str, Any], list[str]]] = [
            ("tag=x", {"tag": "x"}, ["b", "a"]),
            ("key=k", {"key": "k"}, ["b", "a"]),
            ("key=k&key=l", {"key": ["k", "l"]}, ["a"]),
            ("due=later", {"due": "later"}, ["a"]),
            (
                "due=now&tag=x&state=pending",
                {"due": "now", "tags": ["x"], "state": "pending"},
                ["b"],
            ),
        ]
        for query, filter, ids in asked:
            listed = anyone.get(f"/jobs?{query}").json["items"]
            assert [job["id"] for job in listed] == ids, query
            body = {"do": "cancel", "filter": filter, "dry_run": True}
            meant = anyone.post("/bulk/changes", body).lines
            assert {line["id"] for line in meant} == set(ids), filter

    def test_what_was_done_is_taken_back(self, lab: Lab, server: Server, anyone: Client) -> None:
        lab.queue.enqueue_many([{"command": "true", "id": f"j{n}"} for n in range(700)])
        dry = anyone.post("/bulk/changes", {"do": "cancel", "filter": {}, "dry_run": True})
        assert "queuectl-action" not in dry.headers
        done = anyone.post("/bulk/changes", {"do": "cancel", "filter": {}})
        action = done.headers["queuectl-action"]
        anyone.post("/jobs/j3/retry")
        assert {event["action"] for event in anyone.get("/events?limit=3").json["items"][1:]} == {
            action
        }
        foreseen = anyone.post(f"/actions/{action}/undo", {"dry_run": True}).lines
        assert lab.queue.count(state="cancelled") == 699
        told = anyone.post(f"/actions/{action}/undo").lines
        for lines in (foreseen, told):
            wrong = {line["id"]: line["error"] for line in lines if line["error"]}
            assert wrong == {"j3": "Job j3 has changed since; it is pending."}
            assert len(lines) == 700
        assert lab.queue.count(state="pending") == 700
        assert anyone.post("/actions/none/undo").problem == "not-found"

    def test_one_job_is_brought_back_by_who_may(
        self, lab: Lab, server: Server, anyone: Client
    ) -> None:
        lab.queue.enqueue("true", id="a", queue="mail")
        mail, other = (server.client("operate", queues=(name,)) for name in ("mail", "other"))
        reply = anyone.patch("/jobs/a", {"command": "false"})
        action = reply.headers["queuectl-action"]
        [line] = mail.post(f"/actions/{action}/undo").lines
        assert "run something else" in line["error"]
        assert other.post(f"/actions/{action}/undo").problem == "not-found"
        [line] = anyone.post(f"/actions/{action}/undo").lines
        assert (line["id"], line["error"]) == ("a", None)
        assert lab.queue.get("a").command == "true"
        assert "queuectl-action" not in anyone.delete("/jobs/a").headers

    def test_errors_show_what_was_sent_and_no_python(self, anyone: Client) -> None:
        body = {"do": "hold", "filter": [{"a": None, "b": True}]}
        assert '[{"a": null, "b": true}]' in anyone.post("/bulk/changes", body).json["detail"]
        unknown = {"do": "hold", "filter": {"tagg": "x"}}
        assert "did you mean 'tag'?" in anyone.post("/bulk/changes", unknown).json["detail"]

    @pytest.mark.parametrize(
        "body",
        [
            {"do": "explode", "filter": {}},
            {"do": "hold"},
            {"do": "hold", "ids": ["a"], "filter": {}},
            {"do": "hold", "ids": "a"},
            {"do": "hold", "filter": {"stat": 1}},
            {"do": "hold", "filter": []},
            {"do": "hold", "filter": {"since": [1]}},
            {"do": "hold", "filter": {"text": {}}},
            {"do": "hold", "filter": {"state": 3}},
            {"do": "hold", "filter": {"due": "soon"}},
            {"do": "hold", "filter": {"due": ["now"]}},
            {"do": "hold", "filter": {"key": {}}},
            {"do": "move", "ids": []},
            {"filter": {}},
        ],
    )
    def test_what_cannot_be_done(self, anyone: Client, body: Any) -> None:
        assert anyone.post("/bulk/changes", body).problem == "bad-request"


def test_events_go_on_where_a_page_ended(lab: Lab, anyone: Client) -> None:
    for number in range(5):
        lab.queue.enqueue("true", id=f"j{number}")
        lab.queue.hold(f"j{number}")
    first = anyone.get("/events?limit=3").json
    rest = anyone.get(f"/events?limit=3&before={first['next']}").json
    held = [event["job"] for event in first["items"] + rest["items"]][:5]
    assert held == ["j4", "j3", "j2", "j1", "j0"]
    assert first["previous"] is None
    again = anyone.get(f"/events?limit=3&after={rest['previous']}").json
    assert again["items"] == first["items"]
    anyone.delete("/jobs/j2")
    gone = anyone.get("/events?job=j2").json["items"]
    assert [event["kind"] for event in gone] == ["rm", "hold"]
    [same] = anyone.get(f"/events?action={gone[1]['action']}").json["items"]
    assert same == gone[1]
    assert anyone.get("/events?job=none").problem == "not-found"
    assert anyone.get("/events?job=j2&action=a").problem == "bad-request"


def test_numbers_and_letters_that_are_none(lab: Lab, anyone: Client) -> None:
    lab.queue.enqueue("printf '\\377\\376'; echo ok", id="bytes")
    lab.node()
    anyone.get("/jobs/bytes/wait?timeout=60")
    output = anyone.get("/jobs/bytes/output").json
    assert output["stdout_base64"] == "//5vawo="
    reply = anyone.ask(
        "POST",
        "/jobs",
        json.dumps({"command": "true", "tags": ["\ud800"]}).encode(),
        headers={"Content-Type": "application/json"},
    )
    assert reply.status in (201, 400)
