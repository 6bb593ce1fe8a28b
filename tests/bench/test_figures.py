"""What the benchmarks make of their readings: medians, ratios, verdicts, tables and the page."""

import json
from pathlib import Path

import pytest

from bench import page, tables
from bench.__main__ import arguments, renewed
from bench.figures import Book, Figure, Reading, percentile, summarize
from bench.goals import GOALS, MISSED, REACHED, UNKNOWN, Goal, judge
from bench.lab import CHECKOUT
from bench.measures import MEASURES
from bench.peers.roster import PEERS
from bench.peers.shell import MARK, marks


def book_of(**values: list[float]) -> Book:
    """A book with figures, each with a value per round; `a__b` is called `a/b`."""
    book = Book()
    for name, found in values.items():
        for number, value in enumerate(found, 1):
            id = name.replace("__", "/")
            book.add(number, [Reading(id=id, value=value, unit="jobs/s")])
    return book


def test_a_summary_is_the_median_with_the_extremes() -> None:
    found = summarize([5.0, 1.0, 9.0, 2.0])
    assert (found.median, found.low, found.high, found.rounds) == (3.5, 1.0, 9.0, 4)


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, 1), (0.01, 1), (0.5, 50), (0.501, 51), (0.99, 99), (1.0, 100)]
)
def test_a_percentile_is_a_value_that_was_found(share: float, expected: int) -> None:
    assert percentile(range(100, 0, -1), share) == expected
    assert percentile([7.0], share) == 7.0


def test_ratios_are_taken_within_a_round() -> None:
    ours = Figure(id="a", unit="", values={1: 10, 2: 100, 3: 50})
    limit = Figure(id="b", unit="", values={1: 20, 2: 100, 4: 1})
    found = ours.over(limit)
    assert (found.median, found.low, found.high, found.rounds) == (0.75, 0.5, 1.0, 2)


def test_the_best_is_found_among_those_that_fit_word_by_word() -> None:
    book = book_of(
        drain__sqlite__1=[1, 2, 3],
        drain__sqlite__4=[7, 8, 9],
        drain__sqlite__16=[5, 6, 100],
        drain__sqlite__4__2=[1000],
        drain__mariadb__4=[2000],
    )
    best, least = book.best("drain/sqlite/*"), book.best("drain/sqlite/*", lowest=True)
    assert best is not None and best.id == "drain/sqlite/4"
    assert least is not None and least.id == "drain/sqlite/1"
    assert book.best("drain/postgresql/*") is None


def test_goals_are_reached_missed_or_unknown() -> None:
    book = book_of(a__ours=[80, 95, 90], a__limit=[100, 100, 100])

    def verdict(**bound: float) -> str:
        return judge(Goal(about="", figure="a/ours", against="a/limit", **bound), book).status

    assert verdict(at_least=0.9) == REACHED
    assert verdict(at_least=0.91) == MISSED
    assert verdict(at_most=0.9) == REACHED
    assert verdict(at_most=0.89) == MISSED
    assert judge(Goal(about="", figure="a/ours", at_most=90), book).status == REACHED
    assert judge(Goal(about="", figure="a/ours", at_most=89.9), book).status == MISSED
    assert judge(Goal(about="", figure="a/nobody", at_least=1), book).status == UNKNOWN
    assert judge(Goal(about="", figure="a/ours", against="b/*", at_least=1), book).status == UNKNOWN


def test_every_goal_has_one_bound_and_asks_for_what_is_measured() -> None:
    for goal in GOALS:
        assert (goal.at_least is None) != (goal.at_most is None)
        for id in filter(None, (goal.figure, goal.against)):
            assert id.split("/")[0] in MEASURES
    assert len({goal.about for goal in GOALS}) == len(GOALS)


def full_book() -> Book:
    """A book with a figure in every table."""
    book = book_of(
        drain__xargs__4=[2000, 2100],
        drain__sqlite__4=[1800, 1890],
        drain__peer__rq=[138, 140],
        duel__sqlite__limit=[2000, 2000],
        duel__sqlite__ours=[1700, 1800],
        latency__sqlite__idle__p50=[3.2, 3.4],
        latency__rq__load__p99=[40, 60],
        tasks__ours__sqlite=[5100, 5300],
        tasks__ours__handler=[4000, 4100],
        tasks__peer__dramatiq=[3400, 3400],
        tasks__peer__saq=[1000, 1100],
        warm__sqlite__p50=[1.5, 1.7],
        warm__handler__p50=[1.8, 2.0],
        parts__sqlite__claim=[40, 44],
        enqueue__sqlite__single=[600, 660],
        enqueue__apsw__single=[1000, 1000],
        api__sqlite__api=[600, 630],
        api__sqlite__threads=[1000, 1000],
        web__sqlite__overview=[20, 22],
        web__sqlite__alone=[2000, 2000],
        web__sqlite__beside=[1900, 1960],
        startup__enqueue=[60, 61],
        startup__enqueue__cpu=[50, 51],
        startup__imports=[50, 50],
        startup__imports__cpu=[40, 40],
        idle__sqlite__4__cpu=[0.05, 0.07],
        idle__sqlite__4__memory=[25, 25],
        idle__sqlite__4__alone=[28, 28],
        claims__sqlite__16=[9000, 9100],
        size__sqlite__waiting=[300, 300],
        backlog__sqlite__1000__drain=[1800, 1900],
        backlog__sqlite__1000000__drain=[1710, 1805],
    )
    book.missing["drain: Celery"] = "there is no celery here"
    book.configured["drain: RQ"] = "worker-pool -n 4"
    return book


def test_tables_show_medians_spread_and_ratios() -> None:
    found = {table.measure: table for table in tables.all_tables(full_book())}
    assert set(found) == set(MEASURES)
    assert (
        "| queuectl on SQLite, 4 workers | 1,845 (1,800-1,890) | 0.90 | 0.90 |"
        in found["drain"].markdown()
    )
    assert "| RQ | 139 (138-140) | 0.07 | - |" in found["drain"].markdown()
    assert "| queuectl on SQLite | 5,200 (5,100-5,300) | 1.53 |" in found["tasks"].markdown()
    assert found["tasks"].headings[-1] == "x dramatiq"
    assert (
        "| queuectl on SQLite, with a handler | 1.90 (1.80-2.00) | - |" in found["warm"].markdown()
    )
    assert "| at the store: claim | 42.0 (40.0-44.0) |" in found["parts"].markdown()
    assert "630 (600-660); 0.63 x raw" in found["enqueue"].text()
    assert "; 0.95 x" in found["backlog"].text()
    assert "| queuectl on SQLite | 615 (600-630) | 1,000 (1,000-1,000) | 0.61 | - |" in (
        found["api"].markdown()
    )
    assert "1,930 (1,900-1,960); 0.96 x" in found["web"].text()
    assert "1.21" in found["startup"].text()
    for table in found.values():
        assert all(len(row) == len(table.headings) for row in table.rows)


def test_the_goals_say_what_was_found() -> None:
    rows = {row[0]: row[1:] for row in tables.goals(full_book()).rows}
    assert rows["drain on SQLite, at its best, against the best `xargs -P`"] == (
        "≥ 0.9",
        "0.88 (0.85-0.90)",
        "missed",
    )
    assert rows["drain of Python tasks on SQLite, against the best peer"][1:] == (
        "1.53 (1.50-1.56)",
        "reached",
    )
    assert rows["64 idle workers, proportional memory, MB"] == ("≤ 35", "-", "not measured")


def test_results_survive_being_written() -> None:
    book = full_book()
    results = json.loads(json.dumps(page.as_json(book, {})))
    again = Book.from_json(results)
    assert again.as_json() == book.as_json()
    assert {goal["verdict"] for goal in results["goals"]} == {REACHED, MISSED, UNKNOWN}


ABOUT = {
    "on": "2026-01-01",
    "commit": "abc",
    "cores": 2,
    "processor": "a processor",
    "linux": "6",
    "python": "3.11",
    "sqlite": "3.51",
    "load": [0.0, 0.0, 0.0],
    "fdatasync_ms": 0.5,
    "size": "full",
    "rounds": {"drain": 5},
    "versions": {"rq": "2"},
}


def test_the_page_has_a_place_for_results_and_names_what_is_missing() -> None:
    text = page.render(full_book(), ABOUT, ["drain"])
    assert "- drain: Celery: there is no celery here" in text
    assert "Set up as: RQ: worker-pool -n 4." in text
    assert "![Drain of true jobs](performance/drain.svg)" in text
    old = page.PAGE.read_text(encoding="utf-8")
    new = page.renewed(old, text)
    assert text in new
    assert page.renewed(new, "x\n") == page.renewed(old, "x\n") != old


def test_every_measure_says_what_it_measures() -> None:
    for measure in MEASURES.values():
        assert len(measure.about.split()) > 20
    on_the_page = page.PAGE.read_text(encoding="utf-8")
    assert all(f"| `{name}` |" in on_the_page for name in MEASURES)


def test_marks_of_peers_are_read_in_order(tmp_path: Path) -> None:
    assert marks(MARK.pack(7) + MARK.pack(3)) == [3, 7]


def test_peers_are_set_up_in_several_ways_but_start_in_one() -> None:
    for peer in PEERS:
        assert len({setup.name for setup in peer.setups}) == len(peer.setups) > 1
        assert peer.plain in peer.setups
        assert (CHECKOUT / "bench" / "peers" / f"{peer.app}.py").exists()


def test_arguments_choose_and_refuse(capsys: pytest.CaptureFixture[str]) -> None:
    args = arguments(["--only", "latency,drain", "--stores", "mariadb"])
    assert (args.measures, args.stores, args.size) == (["drain", "latency"], ["mariadb"], "full")
    args = arguments(["--quick"])
    assert (args.stores, args.size) == (["sqlite"], "quick")
    for wrong in (["--only", "speed"], ["--stores", "oracle"], ["--rounds", "0"]):
        with pytest.raises(SystemExit) as stopped:
            arguments(wrong)
        assert stopped.value.code == 2
    assert "there is drain, duel, latency" in capsys.readouterr().err


def test_a_measure_can_be_renewed_by_itself() -> None:
    earlier, later = Book(), Book()
    for book, value in ((earlier, 1.0), (later, 2.0)):
        for name in ("drain/a", "drain/b", "latency/a", "latencies/a"):
            book.add(1, [Reading(id=name, value=value, unit="ms")])
        book.configured = {"latency: a": str(value), "drain: a": str(value)}
        book.disturbed = 3
    later.figures.pop("drain/b")
    later.missing = {"latency: b": "it is gone"}
    earlier.missing = {"drain: c": "it was gone"}
    earlier.renew(["latency"], later)
    assert {name: figure.values[1] for name, figure in earlier.figures.items()} == {
        "drain/a": 1.0,
        "drain/b": 1.0,
        "latencies/a": 1.0,
        "latency/a": 2.0,
    }
    assert earlier.configured == {"latency: a": "2.0", "drain: a": "1.0"}
    assert earlier.missing == {"latency: b": "it is gone", "drain: c": "it was gone"}
    assert earlier.disturbed == 6


def test_the_page_says_what_was_measured_again() -> None:
    book = full_book()
    assert "measured again" not in page.render(book, ABOUT, [])
    book.disturbed = 4
    renewed = {"latency": {"on": "2026-01-02", "commit": "abc", "load": [0.1]}}
    text = page.render(book, ABOUT | {"renewed": renewed}, [])
    assert "4 times, others on the same host took more than 2% of the processors" in text
    assert "`latency` was measured by itself on 2026-01-02, version abc." in text


def test_what_is_measured_now_takes_the_place_of_what_an_earlier_run_found(tmp_path: Path) -> None:
    path = tmp_path / "earlier.json"
    about = ABOUT | {"rounds": {"drain": 5, "latency": 3}}
    path.write_text(json.dumps(page.as_json(full_book(), about)))
    later = Book()
    later.add(1, [Reading(id="latency/sqlite/idle/p50", value=1.5, unit="ms")])
    now = ABOUT | {"on": "2026-02-03", "commit": "def", "rounds": {"latency": 1}}
    book, whole = renewed(path, later, now, ["latency"])
    assert book.figures["latency/sqlite/idle/p50"].values == {1: 1.5}
    assert "latency/rq/load/p99" not in book.figures
    assert book.figures["drain/xargs/4"].values == {1: 2000, 2: 2100}
    assert (whole["on"], whole["commit"]) == ("2026-01-01", "abc")
    assert whole["rounds"] == {"drain": 5, "latency": 1}
    assert whole["renewed"] == {
        "latency": {"on": "2026-02-03", "commit": "def", "load": [0.0, 0.0, 0.0]}
    }


def test_there_must_be_something_to_renew(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        arguments(["--renew", str(tmp_path / "nothing.json")])
    assert "nothing.json to renew" in capsys.readouterr().err
