"""One statement for many rows, and rows that are too long for one."""

import pytest

from queuectl.guard.output import render
from queuectl.store.mysql.idiom import _without_middle
from queuectl.store.mysql.rows import insert_all, update_all

UPDATE = "UPDATE jobs SET worker = %(worker)s, node = %(node)s WHERE seq = %(seq)s AND id = %(id)s"
INSERT = (
    "INSERT INTO runs (seq, id) VALUES (%(seq)s, %(id)s) ON DUPLICATE KEY UPDATE id = VALUES(id)"
)
NAMES = ("worker", "node", "seq", "id")


def row(seq: int, id: str, *, worker: int | None = 1) -> dict[str, object]:
    return {"seq": seq, "id": id, "worker": worker, "node": "n", "more": "not asked for"}


@pytest.mark.parametrize("room", [10, 11])
def test_output_that_is_too_long_for_the_server_shows_where_it_was_cut(room: int) -> None:
    kept = _without_middle(b"0123456789abcdefghij", room)
    assert len(kept) == room
    tail = b"fghij"
    head = b"0123456789"[: room - 5]
    missing = 20 - room
    assert render(kept, 20) == head + b"\n[... %d bytes left out ...]\n" % missing + tail
    assert _without_middle(b"short", room) == b"short"


class TestUpdate:
    def test_what_all_have_is_there_once(self) -> None:
        text, bound = update_all(UPDATE, NAMES, [row(5, "a"), row(7, "a")])
        assert text == "UPDATE jobs SET worker = 1, node = 'n' WHERE seq IN (5, 7) AND id = 'a'"
        assert bound == {}

    def test_what_differs_is_chosen_by_the_place(self) -> None:
        text, bound = update_all(UPDATE, NAMES, [row(5, "a"), row(7, "b", worker=None)])
        assert "worker = CASE seq WHEN 5 THEN 1 WHEN 7 THEN NULL END" in text
        assert "id = CASE seq WHEN 5 THEN 'a' WHEN 7 THEN 'b' END" in text
        assert bound == {}

    @pytest.mark.parametrize(
        "odd",
        ["'; DROP TABLE jobs; %(seq)s %s", "a'b", "a\\", "a%s", "", "a b", "\u00e4", "\uff11"],
    )
    def test_texts_of_more_than_letters_and_digits_are_bound(self, odd: str) -> None:
        text, bound = update_all(UPDATE, NAMES, [row(5, odd), row(7, "b")])
        assert "id = CASE seq WHEN 5 THEN %(value0)s WHEN 7 THEN 'b' END" in text
        assert bound == {"value0": odd}


class TestInsert:
    def test_has_all_rows(self) -> None:
        text, bound = insert_all(INSERT, ("seq", "id"), [row(5, "a"), row(7, "b.")])
        assert text == (
            "INSERT INTO runs (seq, id) VALUES (5, 'a'), (7, %(value0)s)"
            " ON DUPLICATE KEY UPDATE id = VALUES(id)"
        )
        assert bound == {"value0": "b."}
