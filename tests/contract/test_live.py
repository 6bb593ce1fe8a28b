"""The output of a run while it goes on: who watches it, and what its node shows them."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from queuectl.job import Job
from queuectl.store import Store
from queuectl.store.contract import LONGEST_PIECE, Piece, Shown
from tests.contract.tools import (
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    ended,
    finish,
    take_one,
    transaction,
)

NASTY = bytes(range(256)) * 3 + b"\\'\"%s%(x)s\xff\xfe\n"


@pytest.fixture
def job(store: Store) -> Job:
    """A job that runs."""
    return running(store, "job 1")


def running(store: Store, id: str) -> Job:
    """Start a job and return it."""
    if not store.nodes.all():
        a_node(store)
    add(store, id)
    return take_one(store)


def out(start: int, data: bytes) -> Piece:
    """Return a piece of stdout."""
    return Piece(stream="stdout", start=start, data=data)


def err(start: int, data: bytes) -> Piece:
    """Return a piece of stderr."""
    return Piece(stream="stderr", start=start, data=data)


def rows(client: Client, table: str) -> int:
    """Count the rows of a table."""
    return int(str(client.run(f"SELECT count(*) FROM {{{table}}}")[0][0]))


def show(store: Store, job: Job, pieces: Sequence[Piece]) -> None:
    """Show pieces of both streams of a run."""
    streams = sorted({piece.stream for piece in pieces})
    of = {stream: [piece for piece in pieces if piece.stream == stream] for stream in streams}
    store.live.show(*(Shown(job, stream, some) for stream, some in of.items()))


class TestWatch:
    def test_says_until_when(self, store: Store, other: Store, job: Job) -> None:
        store.live.watch(job, until=NOW + 7 * SECOND, now=NOW)
        assert other.live.watched([job], now=NOW) == {job.seq: NOW + 7 * SECOND}

    def test_is_over_at_its_time(self, store: Store, job: Job) -> None:
        store.live.watch(job, until=NOW + 7, now=NOW)
        assert store.live.watched([job], now=NOW + 6)
        assert not store.live.watched([job], now=NOW + 7)

    def test_asking_again_extends_it(self, store: Store, job: Job) -> None:
        store.live.watch(job, until=NOW + 7, now=NOW)
        store.live.watch(job, until=NOW + 12, now=NOW + 5)
        store.live.watch(job, until=NOW + 30, now=NOW + 20)
        assert store.live.watched([job], now=NOW + 20) == {job.seq: NOW + 30}

    def test_is_for_one_run_of_a_job(self, store: Store, job: Job) -> None:
        store.live.watch(job, until=NOW + 7, now=NOW)
        assert not store.live.watched([replace(job, attempts=job.attempts + 1)], now=NOW)

    def test_only_those_asked_about_are_told(self, store: Store, job: Job) -> None:
        second, third = running(store, "job 2"), running(store, "job 3")
        for n, watched in enumerate((job, second)):
            store.live.watch(watched, until=NOW + 10 + n, now=NOW)
        assert store.live.watched([second, third], now=NOW) == {second.seq: NOW + 11}
        assert store.live.watched([third], now=NOW) == {}
        assert store.live.watched([], now=NOW) == {}

    def test_what_was_shown_stays_as_long_as_somebody_watches(self, store: Store, job: Job) -> None:
        store.live.watch(job, until=NOW + 7, now=NOW)
        show(store, job, [out(0, b"seen")])
        store.live.watch(job, until=NOW + 12, now=NOW + 5)
        assert store.live.pieces(job, "stdout", after=0) == [out(0, b"seen")]

    def test_whoever_comes_later_finds_nothing_old(self, store: Store, job: Job) -> None:
        second = running(store, "job 2")
        for watched in (job, second):
            store.live.watch(watched, until=NOW + 7, now=NOW)
            show(store, watched, [out(0, b"seen"), err(0, b"")])
        store.live.watch(job, until=NOW + 20, now=NOW + 7)
        assert store.live.pieces(job, "stdout", after=0) == []
        assert store.live.pieces(job, "stderr", after=0) == []
        assert store.live.pieces(second, "stdout", after=0) == [out(0, b"seen")]


class TestPieces:
    def test_all_bytes_survive(self, store: Store, other: Store, job: Job) -> None:
        show(store, job, [out(0, NASTY), err(3, NASTY[::-1])])
        assert other.live.pieces(job, "stdout", after=0) == [out(0, NASTY)]
        assert other.live.pieces(job, "stderr", after=0) == [err(3, NASTY[::-1])]

    def test_the_longest_fit(self, store: Store, job: Job) -> None:
        data = NASTY * (LONGEST_PIECE // len(NASTY) + 1)
        whole = out(5, data[:LONGEST_PIECE])
        show(store, job, [whole])
        assert store.live.pieces(job, "stdout", after=LONGEST_PIECE + 4) == [whole]
        assert store.live.pieces(job, "stdout", after=LONGEST_PIECE + 5) == []

    def test_only_what_is_new_comes(self, store: Store, job: Job) -> None:
        pieces = [out(0, b"abc"), out(3, b"defg"), out(20, b"hi"), out(22, b"")]
        show(store, job, pieces)
        for after, first in [(0, 0), (2, 0), (3, 1), (6, 1), (7, 2), (21, 2), (22, 3)]:
            assert store.live.pieces(job, "stdout", after=after) == pieces[first:], after
        assert store.live.pieces(job, "stdout", after=23) == []

    def test_they_come_in_order_and_not_too_many_at_once(self, store: Store, job: Job) -> None:
        pieces = [out(10 * n, b"%d" % n) for n in range(100)]
        show(store, job, pieces[::-1])
        taken: list[Piece] = []
        while new := store.live.pieces(job, "stdout", after=taken[-1].start + 10 if taken else 0):
            assert len(new) < 20
            taken += new
        assert taken == pieces

    def test_a_piece_takes_the_place_of_another(self, store: Store, job: Job) -> None:
        show(store, job, [out(0, b"abc"), out(3, b"")])
        show(store, job, [out(0, b"abc"), out(3, b"def"), out(6, b"")])
        shown = [out(0, b"abc"), out(3, b"def"), out(6, b"")]
        assert store.live.pieces(job, "stdout", after=0) == shown

    def test_each_run_and_stream_has_its_own(self, store: Store, job: Job) -> None:
        again, second = replace(job, attempts=job.attempts + 1), running(store, "job 2")
        for n, run in enumerate((job, again, second)):
            show(store, run, [out(0, b"out %d" % n), err(0, b"err %d" % n)])
        for n, run in enumerate((job, again, second)):
            assert store.live.pieces(run, "stdout", after=0) == [out(0, b"out %d" % n)]
            assert store.live.pieces(run, "stderr", after=0) == [err(0, b"err %d" % n)]

    def test_the_middle_can_be_taken_away(self, store: Store, job: Job) -> None:
        second = running(store, "job 2")
        pieces = [out(start, b"x" * 10) for start in range(0, 60, 10)]
        show(store, job, [*pieces, err(30, b"e")])
        show(store, second, pieces)
        store.live.show(Shown(job, "stdout", [], gap=(20, 50)))
        assert store.live.pieces(job, "stdout", after=0) == [pieces[0], pieces[1], pieces[5]]
        assert store.live.pieces(job, "stderr", after=0) == [err(30, b"e")]
        assert store.live.pieces(second, "stdout", after=0) == pieces


class TestEnd:
    def test_a_run_that_is_over_leaves_nothing(
        self, store: Store, job: Job, client: Client
    ) -> None:
        second = running(store, "job 2")
        for run in (job, second):
            store.live.watch(run, until=NOW + MINUTE, now=NOW)
            show(store, run, [out(0, b"a"), err(0, b"b")])
        finish(store, [ended(job)])
        store.live.end(job)
        assert store.live.watched([job, second], now=NOW) == {second.seq: NOW + MINUTE}
        assert store.live.pieces(second, "stdout", after=0) == [out(0, b"a")]
        assert (rows(client, "watches"), rows(client, "live")) == (1, 2)

    def test_what_nobody_watches_is_taken_away(
        self, store: Store, job: Job, client: Client
    ) -> None:
        second, third = running(store, "job 2"), running(store, "job 3")
        store.live.watch(job, until=NOW + 5, now=NOW)
        store.live.watch(second, until=NOW + 6, now=NOW)
        for run in (job, second, third):
            show(store, run, [out(0, b"a"), err(0, b"b")])
        store.tidy(now=NOW + 5)
        assert store.live.pieces(second, "stdout", after=0) == [out(0, b"a")]
        assert (rows(client, "watches"), rows(client, "live")) == (1, 2)
        store.tidy(now=NOW + 6)
        assert (rows(client, "watches"), rows(client, "live")) == (0, 0)

    def test_there_may_be_nothing_to_end(self, store: Store, job: Job) -> None:
        store.live.end(job)
        store.tidy(now=NOW)
        store.live.show(Shown(job, "stderr", [], gap=(0, 9)))
        assert store.live.pieces(job, "stderr", after=0) == []


@pytest.mark.needs("transactions")
def test_two_who_begin_to_watch_at_once_get_along(store: Store, other: Store, job: Job) -> None:
    with transaction(store):
        store.live.watch(job, until=NOW + 5, now=NOW)
        show(store, job, [out(0, b"a")])
    other.live.watch(job, until=NOW + 6, now=NOW)
    assert store.live.watched([job], now=NOW) == {job.seq: NOW + 6}
    assert other.live.pieces(job, "stdout", after=0) == [out(0, b"a")]
