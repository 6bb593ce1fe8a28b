"""Rows are dealt out to statements that are few, and none is left out or comes twice."""

import apsw
import pytest

from queuectl.store.sqlite.rows import MOST_AT_ONCE, Alike, OfRows

COLUMNS = "id, command, argv, queue, cwd"


@pytest.mark.parametrize("count", [0, 1, 2, 3, 13, 16, MOST_AT_ONCE, 2 * MOST_AT_ONCE + 21])
def test_every_row_has_its_turn_once_and_in_order(count: int) -> None:
    db = apsw.Connection(":memory:")
    db.execute("CREATE TABLE t (place INTEGER PRIMARY KEY, a, b)")
    rows = [{"b": f"b{n}", "a": n, "other": None} for n in range(count)]
    for text, values in OfRows("INSERT INTO t (a, b) VALUES :rows", ["a", "b"]).for_all(rows):
        db.execute(text, values)
    stored = db.execute("SELECT a, b FROM t ORDER BY place").fetchall()
    assert stored == [(n, f"b{n}") for n in range(count)]


def test_there_are_few_texts_whatever_the_number_of_rows() -> None:
    statement = OfRows("INSERT INTO t (a, b) VALUES :rows", ["a", "b"])
    rows = [{"a": 1, "b": 2}] * 300
    texts = {text for count in range(300) for text, _ in statement.for_all(rows[:count])}
    assert len(texts) == 7


class TestNewJobsAlike:
    """One statement for new jobs; what they share is bound once, what none has not at all."""

    def test_what_none_of_them_has_is_not_named(self) -> None:
        alike = Alike("INSERT INTO jobs (id, command, argv, queue, cwd) VALUES ", COLUMNS)
        text, values = alike.statement([("a", "b"), ("x", "y"), (None, None)], ("q", None))
        assert text == "INSERT INTO jobs (id, command, queue) VALUES (?2, ?3, ?1), (?4, ?5, ?1)"
        assert values == ("q", "a", "x", "b", "y")

    def test_what_only_some_of_them_have_is_named(self) -> None:
        alike = Alike("INSERT INTO jobs (id, command, argv, queue, cwd) VALUES ", COLUMNS)
        text, values = alike.statement([("a", "b"), ("x", None), (None, "[]")], (None, "/"))
        assert text == (
            "INSERT INTO jobs (id, command, argv, cwd) VALUES (?2, ?3, ?4, ?1), (?5, ?6, ?7, ?1)"
        )
        assert values == ("/", "a", "x", None, "b", None, "[]")

    def test_each_kind_and_number_has_its_text(self) -> None:
        alike = Alike("INSERT INTO jobs (id, command, argv, queue, cwd) VALUES ", COLUMNS)
        for _ in range(2):
            for own in [("a",), ("a", "b")]:
                nothing = (None,) * len(own)
                text, values = alike.statement([own, own, nothing], ("q", None))
                assert text.count("(") == len(own) + 1
                assert len(values) == 1 + 2 * len(own)
                text, values = alike.statement([own, nothing, own], ("q", None))
                assert "(id, argv, queue)" in text
                text, values = alike.statement([own, own, nothing], ("q", "/"))
                assert "(id, command, queue, cwd)" in text
