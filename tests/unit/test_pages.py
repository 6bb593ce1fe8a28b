"""What pages are made of: charts, words, groups, and where one may be sent."""

from typing import Any

import pytest

from queuectl.facts import Rollup
from queuectl.report import build_part
from queuectl.web.http import Request, Response
from queuectl.web.pages import charts, safe, words
from queuectl.web.pages.dead import grouped
from queuectl.web.pages.job import history
from queuectl.web.pages.queues import limits_told
from queuectl.web.routing import Routes
from tests.unit.samples import a_job

MINUTE = 60_000


class TestCharts:
    @pytest.mark.parametrize(
        ("most", "top"),
        [(0, 1), (0.3, 1), (1, 1), (1.2, 2), (3, 5), (2.1, 2.5), (99, 100), (101, 200), (7e6, 1e7)],
    )
    def test_the_top_is_a_round_number(self, most: float, top: float) -> None:
        assert charts.nice(most) == pytest.approx(top)

    def test_bars_stand_on_each_other(self) -> None:
        lower, upper = charts.bars([[1, 0], [1, 2]], 2)
        assert lower == "M0.8 120V61H299.2V120Z"
        assert upper == "M0.8 61V2H299.2V61ZM300.8 120V2H599.2V120Z"

    def test_of_nothing_nothing_is_drawn(self) -> None:
        assert charts.bars([], 1) == []
        assert charts.bars([[0, 0]], 1) == [""]
        assert charts.line([], 1) == charts.line([None, None], 1) == ""
        assert charts.area([], 1) == charts.area([5], 5) == ""

    def test_a_line_is_broken_where_nothing_is(self) -> None:
        path = charts.line([10, 5, None, 10], 10)
        assert path == "M75 2h.1L225 61M525 2h.1"

    def test_nothing_is_drawn_above_the_top(self) -> None:
        assert "-" not in charts.line([100], 10) + charts.bars([[100]], 10)[0]


def test_a_part_sums_up_what_ended_in_it() -> None:
    def rollup(measure: str, bucket: int, count: int) -> Rollup:
        return Rollup(
            measure=measure,
            bucket=bucket,
            count=count,
            total_ms=bucket * count,
            least_ms=bucket,
            most_ms=bucket,
        )

    one = [rollup("completed", 10, 1), rollup("wait", 3, 1), rollup("completed", 20, 1)]
    parts = [
        build_part(n * MINUTE, rows) for n, rows in enumerate((one, [], [rollup("failed", 5, 4)]))
    ]
    assert [part.at for part in parts] == [0, MINUTE, 2 * MINUTE]
    assert [part.runs for part in parts] == [{"completed": 2}, {}, {"failed": 4}]
    assert (parts[0].run.median, parts[0].wait.median, parts[1].run.median) == (15, 3, None)
    assert parts[2].as_dict()["run_time"]["count"] == 0


class TestWords:
    def test_orders_of_terminals_are_left_out(self) -> None:
        text = "\x1b[1;31mred\x1b[0m \x1b]0;title\x07x\x1b]8;;http://a\x1b\\y\x1bMz\r\n"
        assert words.plain(text) == "red xyz\n"
        assert [words.span(one) for one in (1800, 90, 3600, 90_061, 0.25)] == [
            "30 minutes",
            "1 minute 30 seconds",
            "1 hour",
            "1 day 1 hour 1 minute 1 second",
            "250ms",
        ]
        assert words.plain("10%\r50%\r100% done\nab\r\nabc\rx\r") == "100% done\nab\nxbc"

    def test_numbers(self) -> None:
        assert words.short(0) == "0"
        assert words.short(9_999) == "9999"
        assert words.short(12_345) == "12.3k"
        assert words.short(1_500_000) == "1.5M"
        assert words.count(1_234_567) == "1,234,567"
        assert words.size(1_536) == "1.5 KiB"
        assert words.duration(None) == words.count(None) == words.size(None) == "—"

    def test_queries(self) -> None:
        said = {"state": ["dead", "failed"], "text": "a&b=ü", "tag": None, "oldest": False}
        assert words.query(said) == "?state=dead&state=failed&text=a%26b%3D%C3%BC"
        assert words.query(said, state=None, text="") == ""

    def test_names_are_one_part_of_a_path(self) -> None:
        assert words.part("a/b?c#d%") == "a%2Fb%3Fc%23d%25"


async def shown(_: Request) -> Response:
    return Response()


OURS = Routes()
for path in ("/", "/jobs", "/jobs/{id}"):
    OURS.add("GET", path, shown)


@pytest.mark.parametrize("good", ["/", "/jobs", "/jobs?state=dead&text=%2F%2Fa", "/jobs/a%2Fb"])
def test_a_page_of_ours_is_where_one_goes(good: str) -> None:
    assert safe.page_of_ours(good, OURS) == good


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        "jobs",
        "//a.example",
        "/\\a.example",
        "https://a.example/jobs",
        "/jobs#a",
        "/jobs/a/b",
        "/jobs\n",
        "/jobs/\x00",
        "/jobs/ü",
        "/jobs?" + "x" * 3_000,
        "\\\\a.example",
    ],
)
def test_nothing_else_is(bad: str | None) -> None:
    assert safe.page_of_ours(bad, OURS) == "/"


def test_the_dead_are_grouped_by_reason_but_for_numbers() -> None:
    def dead(id: str, error: str, at: int) -> Any:
        return a_job(id=id, error=error, reason=None, finished_at=at)

    groups = grouped(
        [
            dead("a", "no host 10.0.0.1", 1),
            dead("b", "exit code 3; given up after 2 retries", 2),
            dead("c", "no host 10.0.0.27", 3),
            dead("d", "exit code 3; given up after 11 retries", 4),
            dead("e", "exit code 34; given up after 2 retries", 5),
        ]
    )
    assert [group["ids"] for group in groups] == [["a", "c"], ["b", "d"], ["e"]]
    assert groups[0]["newest"] > groups[0]["oldest"]


def test_limits_are_told_one_by_one() -> None:
    limits = {"limit": 0, "rates": ["5/1s"], "key_limits": {"a": 1}, "weights": {}, "hook": None}
    assert limits_told(limits) == [("limit", "0"), ("rates", "5/1s"), ("key limits", "a 1")]


def test_what_a_job_went_through_is_in_order() -> None:
    run = {"number": 1, "node": "n", "started_at": "2", "finished_at": "3", "exit_code": 1}
    said = {
        "created_at": "1",
        "queue": "q",
        "runs": [{**run, "error": "exit code 1", "outcome": "exited"}],
        "state": "failed",
        "run_at": "5",
        "events": [{"at": "4", "kind": "retry", "who": "ann", "detail": None}],
        "finished_at": None,
        "started_at": "2",
        "node": None,
        "attempts": 1,
    }
    assert [(one["at"], one["kind"]) for one in history(said)] == [
        ("1", "created"),
        ("2", "began"),
        ("3", "bad"),
        ("4", "event"),
        ("5", "due"),
    ]


def told_of(events: list[dict[str, Any]], state: str = "pending", **more: Any) -> list[str]:
    said: dict[str, Any] = {"created_at": "1", "queue": "now", "runs": [], "events": events}
    said |= {"state": state, "run_at": None, "finished_at": None, "started_at": None, **more}
    return [one["text"] for one in history(said)]


def test_a_job_was_enqueued_where_it_was_then() -> None:
    moved = [
        {"at": "2", "kind": "edit", "who": "ann", "detail": "priority 1 -> 2; queue a b -> mid"},
        {"at": "3", "kind": "move", "who": "bob", "detail": "queue mid -> now"},
    ]
    assert told_of(moved) == [
        "enqueued in a b",
        "changed by ann: priority 1 -> 2; queue a b -> mid",
        "moved by bob: queue mid -> now",
    ]
    assert told_of([]) == ["enqueued in now"]


def test_a_death_is_told_once() -> None:
    dead = {"at": "5", "kind": "dead", "who": "node", "detail": "exit code 3"}
    assert told_of([dead], "dead", finished_at="5") == ["enqueued in now", "dead: exit code 3"]
    # An older one was of a life before.
    once = told_of([{**dead, "at": "3"}], "dead", finished_at="5")
    assert once == ["enqueued in now", "dead: exit code 3", "dead"]
    cancel = {"at": "5", "kind": "cancel", "who": "ann", "detail": None}
    assert told_of([cancel], "cancelled", finished_at="5")[1:] == ["called off by ann"]
