"""Rows are dealt out to statements that are few, and none is left out or comes twice."""

import apsw
import pytest

from queuectl.store.sqlite_rows import MOST_AT_ONCE, OfRows


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
