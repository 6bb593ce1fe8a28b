"""Queues, shared settings, events and statistics."""

import os
from collections import Counter
from threading import Thread
from typing import Any

import pytest

from queuectl.facts import Event, QueueInfo
from queuectl.filter import EventFilter
from queuectl.job import Exited
from queuectl.store import Store, tidying
from queuectl.store.histogram import bucket_of as store_bucket
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    forget,
    remove,
    run,
    transaction,
)
from tests.support import is_asleep, wait_for


class TestPause:
    def test_a_queue_is_paused_and_resumed(self, store: Store) -> None:
        assert store.settings.queues() == []
        assert store.settings.set_paused("one", paused=True, who="who-1", now=NOW + 2)
        assert store.settings.queues() == [
            QueueInfo(name="one", paused_at=NOW + 2, paused_by="who-1")
        ]
        assert store.settings.set_paused("one", paused=False, who="who-3", now=NOW + 4)
        assert store.settings.queues() == [QueueInfo(name="one", paused_at=None, paused_by=None)]
        assert store.settings.set_paused("one", paused=True, who="who-5", now=NOW + 6)
        assert store.settings.queues() == [
            QueueInfo(name="one", paused_at=NOW + 6, paused_by="who-5")
        ]

    def test_who_paused_it_first_is_remembered(self, store: Store) -> None:
        store.settings.set_paused("one", paused=True, who="first", now=NOW)
        assert not store.settings.set_paused("one", paused=True, who="second", now=NOW + 1)
        assert store.settings.queues() == [QueueInfo(name="one", paused_at=NOW, paused_by="first")]

    def test_what_is_not_paused_cannot_be_resumed(self, store: Store) -> None:
        assert not store.settings.set_paused("one", paused=False, who="me", now=NOW)
        assert store.settings.queues() == []

    def test_they_come_by_name(self, store: Store) -> None:
        for name in ("b", "c", "a"):
            store.settings.set_paused(name, paused=True, who="me", now=NOW)
        assert [queue.name for queue in store.settings.queues()] == ["a", "b", "c"]


class TestConfig:
    def test_is_set_changed_and_unset(self, store: Store, other: Store) -> None:
        assert store.settings.config() == {}
        store.settings.set_config("jitter", "0.5", now=NOW)
        store.settings.set_config("workers", "3", now=NOW)
        assert other.settings.config() == {"jitter": "0.5", "workers": "3"}
        store.settings.set_config("jitter", "0.25", now=NOW + 1)
        store.settings.set_config("workers", None, now=NOW + 2)
        assert other.settings.config() == {"jitter": "0.25"}

    def test_unsetting_what_is_not_set_does_nothing(self, store: Store) -> None:
        store.settings.set_config("jitter", None, now=NOW)
        assert store.settings.config() == {}

    @pytest.mark.parametrize("value", ["", "ä🦊", "a\nb", "'; DROP TABLE jobs; --"])
    def test_any_text_is_kept(self, store: Store, value: str) -> None:
        store.settings.set_config("name", value, now=NOW)
        assert store.settings.config() == {"name": value}


def an_event(n: int, **changes: str | None) -> Event:
    """Return an event whose fields all differ."""
    fields: dict[str, Any] = {
        "job": f"job {n}",
        "node": f"node {n}",
        "detail": f"detail {n}",
        **changes,
    }
    return Event(at=NOW + n, kind=f"kind {n}", who=f"who {n}", **fields)


class TestEvents:
    def test_every_field_is_kept(self, store: Store) -> None:
        store.history.record(an_event(1))
        store.history.record(an_event(2, job=None, node=None, detail=None))
        assert store.history.events() == [
            an_event(2, job=None, node=None, detail=None),
            an_event(1),
        ]

    def test_they_come_newest_first_by_when_they_were_recorded(self, store: Store) -> None:
        for n in (3, 1, 2):
            store.history.record(an_event(n))
        assert store.history.events() == [an_event(2), an_event(1), an_event(3)]

    def test_of_one_job(self, store: Store) -> None:
        for n in range(6):
            store.history.record(an_event(n, job=f"job {n % 2}"))
        assert store.history.events("job 1") == [an_event(n, job="job 1") for n in (5, 3, 1)]
        assert store.history.events("job") == []

    def test_gives_at_most_the_limit(self, store: Store) -> None:
        for n in range(150):
            store.history.record(an_event(n, job=f"job {n % 2}"))
        assert len(store.history.events()) == 100
        assert store.history.events(limit=2) == [
            an_event(149, job="job 1"),
            an_event(148, job="job 0"),
        ]
        assert store.history.events("job 0", limit=1) == [an_event(148, job="job 0")]

    def test_they_can_be_read_page_by_page(self, store: Store) -> None:
        for n in range(7):
            store.history.record(an_event(n, job=f"job {n % 2}"))
        for job, pages in ((None, [[6, 5, 4], [3, 2, 1], [0], []]), ("job 0", [[6, 4, 2], [0]])):
            before = None
            for page in pages:
                found = store.history.events(job, limit=3, before=before)
                assert [event.at - NOW for event in found] == page
                before = found[-1].seq if found else None

    @pytest.mark.parametrize(
        ("which", "found"),
        [
            ({}, "543210"),
            ({"who": "WHO 3"}, "3"),
            ({"who": "ho"}, "543210"),
            ({"kind": "kind 2"}, "2"),
            ({"kind": "kind"}, ""),
            ({"text": "AIL 4"}, "4"),
            ({"text": "%"}, "5"),
            ({"text": "d%l"}, ""),
            ({"text": "50% .*_"}, "5"),
            ({"text": "\0"}, ""),
            ({"since": NOW + 2, "until": NOW + 4}, "32"),
            ({"since": NOW + 1, "text": "detail", "who": "who"}, "4321"),
        ],
    )
    def test_by_who_kind_text_and_time(
        self, store: Store, which: dict[str, Any], found: str
    ) -> None:
        for n in range(6):
            store.history.record(an_event(n, detail="50% .*_" if n == 5 else f"detail {n}"))
        fit = store.history.events(which=EventFilter(**which))
        assert "".join(str(event.at - NOW) for event in fit) == found
        up = store.history.events(which=EventFilter(**which), oldest=True)
        assert up == fit[::-1]

    def test_what_has_no_detail_has_no_text_in_it(self, store: Store) -> None:
        store.history.record(an_event(1, detail=None))
        assert store.history.events(which=EventFilter(text="none")) == []
        assert len(store.history.events(which=EventFilter(who="who"))) == 1

    def test_those_between_two_either_way(self, store: Store) -> None:
        for n in range(7):
            store.history.record(an_event(n, job=f"job {n % 2}"))
        seqs = {event.at - NOW: event.seq for event in store.history.events()}

        def between(job: str | None, *, oldest: bool, limit: int = 9) -> list[int]:
            events = store.history.events(
                job, limit=limit, before=seqs[5], after=seqs[1], oldest=oldest
            )
            return [event.at - NOW for event in events]

        assert between(None, oldest=False) == [4, 3, 2]
        assert between(None, oldest=True, limit=2) == [2, 3]
        assert between("job 0", oldest=True) == [2, 4]

    @pytest.mark.parametrize(
        ("job", "looks", "oldest", "last"),
        [
            (None, 3, False, 4),
            (None, 3, True, 2),
            (None, 7, False, 0),
            (None, 8, False, None),
            ("job 0", 2, False, 4),
            ("job 0", 4, True, 6),
            ("job 0", 5, True, None),
            ("none", 1, False, None),
        ],
    )
    def test_how_far_a_listing_looks(
        self, store: Store, job: str | None, looks: int, oldest: bool, last: int | None
    ) -> None:
        for n in range(7):
            store.history.record(an_event(n, job=f"job {n % 2}"))
        found = store.history.horizon(job, looks=looks, oldest=oldest)
        assert (None if found is None else found.at - NOW) == last

    def test_how_far_between_two_and_of_an_action(self, store: Store) -> None:
        for n in range(7):
            store.history.record(an_event(n, action=f"action {n % 2}"))
        seqs = {event.at - NOW: event.seq for event in store.history.events()}
        span: Any = {"before": seqs[6], "after": seqs[0]}
        assert store.history.horizon(looks=6, **span) is None
        found = [
            store.history.horizon(looks=5, **span),
            store.history.horizon(action="action 1", looks=2, **span),
        ]
        assert [event.at - NOW for event in found if event] == [1, 3]

    def test_they_outlive_their_job(self, store: Store) -> None:
        job = add(store, "x")
        store.history.record(an_event(1, job="x"))
        remove(store, job)
        assert store.history.events("x") == [an_event(1, job="x")]

    def test_those_from_before_a_time_are_deleted_all_of_them(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(tidying, "EVENTS_AT_ONCE", 2)
        for n in range(9):
            store.history.record(an_event(n))
        store.tidy(now=NOW)
        assert len(store.history.events()) == 9
        store.tidy(now=NOW, events_before=NOW + 5)
        assert store.history.events() == [an_event(n) for n in (8, 7, 6, 5)]


class TestRollups:
    @pytest.fixture(autouse=True)
    def node(self, store: Store) -> None:
        """A node that may claim."""
        a_node(store, "node-1")

    def run_at(self, store: Store, at: int, *, queue: str = "default", ms: int = 50) -> None:
        """Run a job that ends at a time and takes a while."""
        id = f"job {at} {queue} {ms}"
        add(store, id, queue=queue, now=at - 5 * SECOND)
        run(store, id, now=at, duration_ms=ms, started_at=at - 5 * SECOND)

    def sums(self, store: Store, **which: object) -> dict[tuple[str, int], tuple[int, ...]]:
        """Return what the rollups come to, by measure and bucket."""
        return {
            (r.measure, r.bucket): (r.count, r.total_ms, r.least_ms, r.most_ms)
            for r in store.history.rollups(**which)  # type: ignore[arg-type]
        }

    def test_can_be_told_by_queue(self, store: Store) -> None:
        self.run_at(store, NOW, queue="one", ms=10)
        self.run_at(store, NOW, queue="two", ms=20)
        assert self.sums(store, queue="one") == {
            ("completed", 10): (1, 10, 10, 10),
            ("wait", 0): (1, 0, 0, 0),
        }
        assert self.sums(store, queue="three") == {}
        assert len(self.sums(store)) == 3

    def test_can_be_told_since_a_time(self, store: Store) -> None:
        for minute in range(5):
            self.run_at(store, NOW + minute * MINUTE + 7 * SECOND)
        counts = [
            self.sums(store, since=NOW + minute * MINUTE).get(("completed", 50), (0,))[0]
            for minute in range(6)
        ]
        assert counts == [5, 4, 3, 2, 1, 0]

    def test_can_be_told_by_when(self, store: Store) -> None:
        start = NOW - NOW % HOUR
        for minute, queue in ((1, "one"), (2, "two"), (61, "one"), (62, "one"), (200, "one")):
            self.run_at(store, start + minute * MINUTE + 7 * SECOND, queue=queue, ms=minute)

        def completed(**which: object) -> dict[int, int]:
            found = store.history.series(**which)  # type: ignore[arg-type]
            return {
                (at - start) // MINUTE: sum(r.count for r in rows if r.measure == "completed")
                for at, rows in sorted(found.items())
            }

        assert completed(since=0, span=HOUR) == {0: 2, 60: 2, 180: 1}
        assert completed(since=start, span=HOUR, queue="one") == {0: 1, 60: 2, 180: 1}
        assert completed(since=start + 62 * MINUTE, span=MINUTE) == {62: 1, 200: 1}
        assert completed(since=start + DAY, span=HOUR) == {}
        assert completed(since=start, span=HOUR, queue="three") == {}
        assert completed(since=start, until=start + 61 * MINUTE, span=MINUTE) == {1: 1, 2: 1}
        until = start + 62 * MINUTE
        assert completed(since=start, until=until, span=HOUR, queue="one") == {0: 1, 60: 1}
        each = store.history.series_by_queue(since=start + 2 * MINUTE, span=HOUR)
        assert each.keys() == {"one", "two"}
        for queue, parts in each.items():
            of_it = store.history.series(since=start + 2 * MINUTE, span=HOUR, queue=queue)
            assert parts.keys() == of_it.keys()
            for at, rows in parts.items():
                assert Counter(rows) == Counter(of_it[at])
        (last,) = store.history.series(since=start + 3 * HOUR, span=HOUR, queue="one").values()
        assert {(r.measure, r.bucket, r.total_ms, r.least_ms, r.most_ms) for r in last} == {
            ("completed", store_bucket(200), 200, 200, 200),
            ("wait", 0, 0, 0, 0),
        }

    def test_of_an_empty_store_there_are_none(self, store: Store) -> None:
        assert store.history.rollups() == []
        assert store.history.series(since=0, span=HOUR) == {}
        store.tidy(now=NOW)
        assert store.history.rollups() == []

    def test_coarser_ones_have_the_same_sums(self, store: Store, client: Client) -> None:
        now = NOW + 100 * DAY
        for n in range(120):
            at = NOW + n * 19 * HOUR + n * 7 * MINUTE
            self.run_at(store, at, queue=f"queue {n % 3}", ms=n % 7)
        before = {queue: self.sums(store, queue=queue) for queue in (None, "queue 0", "queue 1")}
        store.tidy(now=now)
        after = {queue: self.sums(store, queue=queue) for queue in (None, "queue 0", "queue 1")}
        assert after == before
        for (at,) in client.run("SELECT DISTINCT at FROM {rollups}"):
            if at < now - 61 * DAY:
                assert at % DAY == 0
            elif at < now - 49 * HOUR:
                assert at % HOUR == 0

    def test_old_ones_become_fewer_and_new_ones_stay(self, store: Store, client: Client) -> None:
        start = NOW - NOW % DAY
        for minute in range(0, 120, 10):
            self.run_at(store, start + minute * MINUTE)
        assert self.rows(client) == 12
        store.tidy(now=start + 48 * HOUR)
        assert self.rows(client) == 12
        store.tidy(now=start + 50 * HOUR)
        assert self.rows(client) == 2
        store.tidy(now=start + 62 * DAY)
        assert self.rows(client) == 1
        assert self.sums(store)[("completed", 50)] == (12, 600, 50, 50)

    def test_doing_it_again_changes_nothing(self, store: Store, client: Client) -> None:
        for n in range(30):
            self.run_at(store, NOW + n * 13 * HOUR)
        now = NOW + 80 * DAY
        store.tidy(now=now)
        once = Counter(client.run("SELECT * FROM {rollups}"))
        store.tidy(now=now)
        assert Counter(client.run("SELECT * FROM {rollups}")) == once

    @pytest.mark.needs("transactions")
    def test_who_does_it_at_the_same_time_counts_nothing_twice(
        self, store: Store, other: Store
    ) -> None:
        for n in range(30):
            self.run_at(store, NOW + n * 13 * HOUR)
        before = self.sums(store, since=1)
        now = NOW + 80 * DAY
        thread = Thread(target=lambda: other.tidy(now=now))
        with transaction(store):
            store.tidy(now=now)
            thread.start()
            id = thread.native_id or 0
            wait_for(lambda: all(is_asleep(id) for _ in range(500)), "the other to wait for us")
        thread.join()
        assert self.sums(store, since=1) == before

    def test_of_all_time_there_is_one_for_each_bucket(self, store: Store, client: Client) -> None:
        for n in range(30):
            self.run_at(store, NOW + n * 13 * HOUR, ms=n % 3)
        ((rows,),) = client.run(
            "SELECT count(*) FROM {rollups} WHERE at = 0 AND measure = 'completed'"
        )
        assert rows == 3
        assert self.sums(store) == self.sums(store, since=1)

    def test_those_of_nodes_that_are_gone_come_together(self, store: Store, client: Client) -> None:
        for n, node in enumerate(("node-1", "node-2", "node-3")):
            if n:
                a_node(store, node)
            add(store, node, queue=f"queue {n % 2}", now=NOW - MINUTE)
            run(store, node, node=node, now=NOW, duration_ms=5)
        before = self.sums(store), self.sums(store, queue="queue 0")
        for node in ("node-2", "node-3"):
            forget(store, node)
        for _ in range(2):
            store.tidy(now=NOW)
            assert (self.sums(store), self.sums(store, queue="queue 0")) == before
            found = client.run("SELECT DISTINCT node FROM {rollups} WHERE at = 0")
            assert sorted(node for (node,) in found) == ["", "node-1"]

    def test_counters_that_came_down_to_nothing_are_swept(
        self, store: Store, client: Client
    ) -> None:
        remove(store, add(store, "x", queue="gone"))
        store.tidy(now=NOW)
        assert client.run("SELECT * FROM {counts} WHERE jobs = 0") == []

    def rows(self, client: Client) -> int:
        """Count the rows of completed runs."""
        ((count,),) = client.run(
            "SELECT count(*) FROM {rollups} WHERE measure = 'completed' AND at > 0"
        )
        return int(count)


@pytest.mark.needs("sql")
class TestInfo:
    def test_describes_the_store(self, store: Store) -> None:
        info = store.info()
        assert info["engine"]
        assert info["engine_version"]
        assert info["schema_version"] >= 1
        assert info["size_bytes"] > 0

    def test_a_sound_store_has_nothing_wrong(self, store: Store) -> None:
        a_node(store, "node-1")
        add(store, "x", max_retries=0, tags=("a",))
        run(store, "x", Exited(1))
        assert store.verify() == []

    def test_its_url_opens_it_again_for_who_knows_the_password(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        from queuectl.store import open_store

        assert "secret" not in store.url
        monkeypatch.setenv("PGPASSWORD", "secret")
        monkeypatch.setenv("MYSQL_PWD", "secret")
        add(store, "x")
        again = open_store(store.url)
        try:
            assert again.url == store.url
            assert again.jobs.get("x") == store.jobs.get("x")
        finally:
            again.close()

    def test_running_jobs_write_to_a_folder_of_this_host(self, store: Store) -> None:
        assert os.path.isabs(store.folder.spool)

    def test_giving_space_back_loses_nothing(self, store: Store) -> None:
        kept = add(store, "kept")
        remove(store, add(store, "x", command="y" * 2**20))
        store.vacuum()
        assert store.jobs.get("kept") == kept
        assert store.verify() == []
