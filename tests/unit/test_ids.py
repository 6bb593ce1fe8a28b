"""Ids: of jobs, which rise in one process, and of others."""

import re
import threading
from itertools import pairwise

import pytest

from queuectl.store import ids
from queuectl.store.ids import job_ids, looks_made, new_ids

LETTERS = "234567abcdefghijklmnopqrstuvwxyz"


def _number(id: str) -> int:
    """Return what the first three characters of an id count."""
    first, second, third = (LETTERS.index(letter) for letter in id[:3])
    return first * 1024 + second * 32 + third


class TestIdsOfJobs:
    """Three characters that count up, and nine at random."""

    @pytest.mark.parametrize("count", [0, 1, 2, 31, 33, 1025, 32_769, 70_000])
    def test_there_are_as_many_as_asked_for(self, count: int) -> None:
        made = job_ids(count)
        assert len(made) == len(set(made)) == count
        assert all(re.fullmatch("[a-z2-7]{12}", id) for id in made)

    @pytest.mark.parametrize("start", [0, 1, 31, 32, 1023, 1024, 32_767, 2**32 - 1])
    def test_each_begins_with_what_follows_the_last(
        self, monkeypatch: pytest.MonkeyPatch, start: int
    ) -> None:
        monkeypatch.setattr(ids, "_turned", start)
        made = [*job_ids(40), *job_ids(1), *job_ids(1), *job_ids(1100)]
        assert [_number(id) for id in made] == [(start + n) % 32_768 for n in range(len(made))]

    def test_they_rise_until_all_beginnings_had_their_turn(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(ids, "_turned", 0)
        made = job_ids(65_536)
        falls = [n for n, (one, other) in enumerate(pairwise(made), 1) if one > other]
        assert falls == [32_768]

    def test_the_rest_is_random(self) -> None:
        made = job_ids(2_000)
        assert len({id[3:] for id in made}) == 2_000
        for place in range(3, 12):
            assert {id[place] for id in made} == set(LETTERS)

    def test_threads_share_the_beginnings(self) -> None:
        found: list[str] = []
        together = threading.Barrier(8)

        def make() -> None:
            together.wait()
            for _ in range(50):
                found.extend(job_ids(20))

        threads = [threading.Thread(target=make) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len({id[:3] for id in found}) == 8_000

    def test_they_look_made(self) -> None:
        assert all(map(looks_made, job_ids(100)))
        assert not looks_made("backup-of-me")
        assert not looks_made("Abcdefghijkl")
        assert not looks_made("job1")


class TestOtherIds:
    """Random all through."""

    @pytest.mark.parametrize("length", [8, 16])
    def test_they_have_the_length_that_was_asked_for(self, length: int) -> None:
        made = new_ids(1_000, length)
        assert len(set(made)) == 1_000
        for place in range(length):
            assert {id[place] for id in made} == set(LETTERS)
