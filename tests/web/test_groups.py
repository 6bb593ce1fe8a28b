"""Groups over HTTP: how they stand, what keeps them, and what their jobs came to as a table."""

import csv
from io import StringIO
from typing import Any
from urllib.parse import quote

import pytest

from queuectl import State
from queuectl.access import Role
from tests.support import Lab
from tests.web.conftest import Client, Server

ODD = "a/b #1?x=%41&<script>alert(1)</script> ü🎈 ';--"


@pytest.fixture
def sweep(lab: Lab) -> str:
    """A group of which one job completed, one is dead, one is blocked by it, and one waits."""
    queue = lab.queue
    queue.enqueue("true", id="ok", group=ODD, parameters={"lr": "0.1", "seed": "1"})
    queue.enqueue("exit 3", id="bad", group=ODD, max_retries=0, parameters={"lr": "=1+1"})
    queue.enqueue("true", id="kept", group=ODD, after="bad", queue="mail")
    queue.enqueue("true", id="later", group=ODD, delay="1h", parameters={"seed": "2"})
    queue.enqueue("true", id="outside", after="later")
    queue.enqueue("true", id="next", after_group=ODD)
    queue.groups.on_done(ODD, "true", id="last")
    lab.node("--drain")
    lab.wait_state("ok", State.COMPLETED)
    lab.wait_state("bad", State.DEAD)
    return ODD


def path(name: str, more: str = "") -> str:
    return f"/groups/{quote(name, safe='')}{more}"


def table(client: Client, name: str, more: str = "") -> list[list[str]]:
    reply = client.get(path(name, f"/results.csv{more}"))
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/csv; charset=utf-8"
    return [*csv.reader(StringIO(reply.body.decode()))]


def test_one_is_told_with_what_keeps_it_and_who_waits_for_it(anyone: Client, sweep: str) -> None:
    told = anyone.get(path(sweep)).json
    counted = {name: told[name] for name in ("name", "state", "jobs", "open", "dead", "running")}
    wanted: dict[str, Any] = {"name": sweep, "state": "open", "jobs": 4}
    assert counted == {**wanted, "open": 2, "dead": 1, "running": 0}
    assert [(root["id"], root["stuck"], root["reason"]) for root in told["kept_by"]] == [
        ("bad", True, "exit code 3; no retries allowed")
    ]
    assert any("bad" in reason["text"] for reason in told["waits_for"])
    assert [(one["id"], one["state"]) for one in told["children"]] == [
        ("next", "blocked"),
        ("last", "blocked"),
    ]
    assert told["on_done"] == {"id": "last", "state": "blocked"}
    along = anyone.get(path(sweep, "/along")).json
    assert along == {"jobs": 1, "ids": ["outside"], "whole": True}


def test_those_that_begin_so_are_a_page_by_name(lab: Lab, anyone: Client) -> None:
    for name in ("night-2", "day", "night-1", "nights"):
        lab.queue.enqueue("true", group=name)
    found = anyone.get("/groups?prefix=night-").json
    assert [one["name"] for one in found] == ["night-1", "night-2"]
    assert [one["name"] for one in anyone.get("/groups?prefix=n&limit=1").json] == ["night-1"]
    newest = anyone.get("/groups?limit=2").json
    assert [one["name"] for one in newest] == ["nights", "night-1"]
    rest = anyone.get("/groups?before=night-1").json
    assert [one["name"] for one in rest] == ["day", "night-2"]
    assert anyone.get("/groups?prefix=n&before=day").problem == "bad-request"


def test_how_many_run_is_told(lab: Lab, anyone: Client) -> None:
    lab.queue.enqueue("sleep 600", id="long", group="g")
    lab.queue.enqueue("true", group="g", after="long")
    lab.queue.enqueue("true", group="h")
    lab.queue.hold("long")
    lab.queue.release("long")
    lab.node(count=1)
    lab.wait_state("long", State.PROCESSING)
    told = {one["name"]: one["running"] for one in anyone.get("/groups").json}
    assert told["g"] == 1
    assert anyone.get("/groups/g").json["running"] == 1


class TestResults:
    def test_as_csv_they_are_what_the_command_prints(
        self, lab: Lab, anyone: Client, sweep: str
    ) -> None:
        rows = table(anyone, sweep)
        names = ["id", "lr", "seed", "state", "exit_code", "duration", "peak_memory", "result"]
        assert rows[0] == names
        assert [row[:5] for row in rows[1:]] == [
            ["ok", "0.1", "1", "completed", "0"],
            ["bad", "=1+1", "", "dead", "3"],
            ["kept", "", "", "blocked", ""],
            ["later", "", "2", "pending", ""],
        ]
        printed = lab.run("results", "--group", sweep, "--csv").stdout
        assert rows == [*csv.reader(StringIO(printed))]
        assert table(anyone, sweep, "?last_line=true")[0][-1] == "last_line"

    def test_they_are_saved_under_the_name_of_the_group(self, anyone: Client, sweep: str) -> None:
        for more, end in (("/results", "jsonl"), ("/results.csv", "csv")):
            reply = anyone.get(path(sweep, more))
            said = reply.headers["content-disposition"]
            assert said == f"attachment; filename*=UTF-8''{quote(sweep, safe='')}.{end}"
        lines = anyone.get(path(sweep, "/results")).lines
        assert [line["id"] for line in lines] == ["ok", "bad", "kept", "later"]
        assert all("peak_memory" in line for line in lines)

    def test_more_than_are_sent_at_once_come_in_their_order(self, lab: Lab, anyone: Client) -> None:
        many = 2_345
        lab.queue.enqueue_many(
            [{"command": "true", "parameters": {"n": f"{n}, {n}"}} for n in range(many)], group="g"
        )
        rows = table(anyone, "g")
        assert [row[1] for row in rows[1:]] == [f"{n}, {n}" for n in range(many)]


@pytest.mark.parametrize("more", ["", "/along", "/results", "/results.csv"])
def test_one_that_isnt_there_is_said_to_be_missing(anyone: Client, more: str) -> None:
    assert anyone.get(path("none", more)).problem == "not-found"


@pytest.mark.parametrize("more", ["", "/along", "/results", "/results.csv"])
def test_who_is_let_in_for_some_queues_is_told_of_jobs_only(
    server: Server, sweep: str, more: str
) -> None:
    """Groups have jobs of all queues: how many there are tells of the others."""
    guest = server.client(Role.VIEW, queues=("mail",))
    assert guest.get(path(sweep, more)).problem == "forbidden"
    found = guest.get(f"/jobs?group={quote(sweep, safe='')}").json["items"]
    assert [job["id"] for job in found] == ["kept"]


@pytest.mark.parametrize(
    "more",
    [{"max_fails": 1}, {"max_fails": 0}, {"after_group": ["others"]}, {"after_group": "none"}],
)
def test_who_is_let_in_for_some_queues_bounds_and_asks_after_no_group(
    lab: Lab, server: Server, more: dict[str, Any]
) -> None:
    """What dies in a group with a bound has all others of it cancelled, in whatever queue."""
    queue = lab.queue
    queue.enqueue("true", queue="print", group="others")
    guest = server.client(Role.VIEW, Role.SUBMIT, queues=("mail",))
    asked = {"command": "true", "queue": "mail", "group": "others"}
    refused = guest.post("/jobs", {**asked, **more})
    assert (refused.problem, queue.groups.get("others").jobs) == ("forbidden", 1)
    assert guest.post("/jobs", asked).status == 201
    queue.enqueue("true", queue="print", group="others", max_fails=2)
    assert guest.post("/jobs", asked).problem == "forbidden"
