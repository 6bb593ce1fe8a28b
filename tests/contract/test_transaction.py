"""Transactions and wake-ups: all or nothing, and nobody is woken for nothing."""

import sys
from collections.abc import Iterator
from contextlib import closing
from threading import Event as Signal
from threading import Thread
from typing import Any

import pytest

from queuectl.errors import DuplicateError, StoreError
from queuectl.facts import Event
from queuectl.job import State
from queuectl.store import Store, database, open_store
from queuectl.store.contract import Listener, Topic
from queuectl.store.database import MOST_SESSIONS
from queuectl.store.sqlstore import SqlStore
from tests.contract.conftest import ENGINES
from tests.contract.tools import (
    NOW,
    SECOND,
    Client,
    Engine,
    a_node,
    add,
    ended,
    finish,
    hear,
    nudge,
    quieten,
    remove,
    renew,
    states,
    take_one,
    the,
    transaction,
)
from tests.support import wait_for

pytestmark = pytest.mark.needs("transactions")


class Surprise(BaseException):
    """Something that isn't even an Exception, like Ctrl+C."""


def do_everything(store: Store) -> None:
    """Use every verb that writes, on an empty store."""
    a_node(store)
    add(store, "x", tags=("red",))
    finish(store, [ended(take_one(store))])
    remove(store, add(store, "y"))
    store.settings.set_paused("one", paused=True, who="me", now=NOW)
    store.settings.set_config("jitter", "0.5", now=NOW)
    store.history.record(Event(at=NOW, kind="x", job=None, node=None, who="me", detail=None))
    renew(store, "node-1", until=store.clock.steady() + SECOND)
    store.jobs.prune(State.COMPLETED, NOW, limit=1)


def is_empty(store: Store) -> bool:
    """Tell whether nothing at all is stored."""
    rows = (
        store.nodes.all(),
        states(store),
        store.settings.queues(),
        store.settings.config(),
        store.history.events(),
    )
    return not any((*rows, store.history.rollups(), store.jobs.counts()))


class TestTransaction:
    def test_everything_inside_is_one_write(self, store: Store, other: Store) -> None:
        with transaction(store):
            do_everything(store)
            assert not is_empty(store)
            assert is_empty(other)
        assert not is_empty(other)

    @pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, Surprise, SystemExit])
    def test_an_error_undoes_all_of_it(
        self, store: Store, other: Store, error: type[BaseException]
    ) -> None:
        with pytest.raises(error), transaction(store):
            do_everything(store)
            raise error
        assert is_empty(store)
        assert is_empty(other)
        do_everything(store)
        assert not is_empty(other)

    def test_an_inner_one_is_part_of_the_outer(self, store: Store, other: Store) -> None:
        with transaction(store):
            with transaction(store):
                add(store, "inner")
                with transaction(store):
                    add(store, "innermost")
            assert states(other) == {}
            add(store, "outer")
        assert list(states(other)) == ["inner", "innermost", "outer"]

    def test_an_error_undoes_the_inner_ones_too(self, store: Store) -> None:
        with pytest.raises(ValueError, match="late"), transaction(store):
            with transaction(store):
                add(store, "inner")
            add(store, "outer")
            raise ValueError("late")
        assert states(store) == {}

    def test_an_error_of_an_inner_one_undoes_the_outer_on_its_way(self, store: Store) -> None:
        with pytest.raises(ValueError, match="deep"), transaction(store):
            add(store, "outer")
            with transaction(store):
                add(store, "inner")
                raise ValueError("deep")
        assert states(store) == {}

    def test_an_error_of_an_inner_one_that_is_handled_undoes_only_that(
        self, store: Store, other: Store
    ) -> None:
        with transaction(store):
            add(store, "before")
            with pytest.raises(ValueError, match="deep"), transaction(store):
                add(store, "inner")
                with transaction(store):
                    add(store, "innermost")
                raise ValueError("deep")
            add(store, "after")
        assert list(states(other)) == ["before", "after"]

    def test_what_the_database_refuses_in_an_inner_one_undoes_only_that(
        self, store: Store, other: Store
    ) -> None:
        def record(kind: str) -> None:
            event = Event(at=NOW, kind=kind, job=None, node=None, who="me", detail=None)
            store.history.record(event)

        nothing: Any = None
        with transaction(store):
            record("before")
            with pytest.raises(StoreError), transaction(store):
                record("inner")
                record(nothing)
            record("after")
        assert sorted(event.kind for event in other.history.events()) == ["after", "before"]

    def test_an_error_of_a_verb_undoes_what_was_before(self, store: Store) -> None:
        add(store, "x")
        with pytest.raises(DuplicateError), transaction(store):
            add(store, "y")
            add(store, "x")
        assert list(states(store)) == ["x"]

    def test_a_reader_sees_one_state_all_along(self, store: Store, other: Store) -> None:
        add(store, "x")
        with transaction(store):
            before = the(store, "x")
            other_sees = the(other, "x")
            assert before == other_sees

    def test_one_that_reads_first_may_write_then(self, store: Store, other: Store) -> None:
        add(store, "x")
        thread = Thread(target=add, args=[other, "theirs"])
        with transaction(store):
            the(store, "x")
            thread.start()
            # On a server it is through now; where only one can write at a time, it waits for us.
            thread.join(0.5)
            add(store, "mine")
        thread.join(30)
        assert set(states(store)) == {"x", "mine", "theirs"}

    def test_another_thread_is_not_drawn_into_it(self, store: Store) -> None:
        inside = Signal()

        def enqueue() -> None:
            inside.wait(30)
            add(store, "theirs")

        thread = Thread(target=enqueue)
        thread.start()
        with pytest.raises(ValueError, match="mine"), transaction(store):
            add(store, "mine")
            inside.set()
            # On a server it is through by then; where there is one writer, it waits for us.
            thread.join(0.3)
            add(store, "mine too")
            raise ValueError("mine")
        thread.join(30)
        assert list(states(store)) == ["theirs"]

    def test_two_stores_do_not_get_into_each_others_way(self, store: Store, other: Store) -> None:
        inside = Signal()

        def enqueue() -> None:
            inside.wait(30)
            add(other, "theirs")

        thread = Thread(target=enqueue)
        thread.start()
        with transaction(store):
            add(store, "mine")
            inside.set()
            add(store, "mine too")
        thread.join(30)
        if store.one_host:
            assert list(states(store)) == ["mine", "mine too", "theirs"]
        # A server has room for both: places in the line are given out as they come.
        assert set(states(store)) == {"mine", "mine too", "theirs"}


class TestChanged:
    @pytest.fixture(autouse=True)
    def _knowing(self, engine: Engine) -> None:
        self.knows = engine.knows

    def test_is_about_others_since_the_last_look(self, store: Store, other: Store) -> None:
        store.changed()
        assert not store.changed()
        add(other, "x")
        wait_for(store.changed)
        assert not store.changed()

    def test_one_that_does_not_know_says_so_now_and_then(self, store: Store) -> None:
        store.changed()
        if not self.knows:
            wait_for(store.changed)
        assert not store.changed()

    def test_own_writes_are_no_news(self, store: Store) -> None:
        store.changed()
        add(store, "x")
        assert not store.changed() or not self.knows

    def test_what_was_undone_is_no_news(self, store: Store, other: Store) -> None:
        store.changed()
        with pytest.raises(ValueError, match="no"), transaction(other):
            add(other, "x")
            raise ValueError("no")
        assert not store.changed() or not self.knows

    def test_other_programs_are_others(self, store: Store, client: Client) -> None:
        store.changed()
        client.run("INSERT INTO {jobs} (id, command) VALUES ('x', 'y')")
        assert wait_for(store.changed)


@pytest.fixture
def listener(store: Store, other: Store) -> Iterator[Listener]:
    """The ear of another process, after all that was to be heard of the making of the store."""
    listener = other.listen()
    quieten(listener)
    yield listener
    listener.close()


@pytest.mark.parametrize(
    "engine", [e for e in ENGINES if e.tells], ids=lambda e: e.name, indirect=True
)
class TestWakeUps:
    def test_an_enqueue_is_heard_as_work(self, store: Store, listener: Listener) -> None:
        add(store, "x")
        assert hear(listener, Topic.WORK)

    @pytest.mark.parametrize("topic", Topic)
    def test_a_nudge_is_heard_as_what_it_is(
        self, store: Store, listener: Listener, topic: Topic
    ) -> None:
        nudge(store, topic)
        assert hear(listener, topic)
        assert listener.heard() == set()

    def test_what_was_heard_is_taken(self, store: Store, listener: Listener) -> None:
        nudge(store, Topic.CONTROL)
        assert hear(listener, Topic.CONTROL)
        assert Topic.CONTROL not in listener.heard()

    def test_many_nudges_are_one(self, store: Store, listener: Listener) -> None:
        with transaction(store):
            for _ in range(100):
                nudge(store, Topic.CONTROL)
        assert hear(listener, Topic.CONTROL)
        assert Topic.CONTROL not in listener.heard()

    def test_nobody_is_woken_before_the_commit(self, store: Store, listener: Listener) -> None:
        with transaction(store):
            add(store, "x")
            nudge(store, Topic.CONTROL)
            assert listener.heard() == set()
        assert hear(listener, Topic.CONTROL)

    def test_nobody_is_woken_for_what_was_undone(self, store: Store, listener: Listener) -> None:
        with pytest.raises(ValueError, match="no"), transaction(store):
            add(store, "x")
            nudge(store, Topic.CONTROL)
            raise ValueError("no")
        assert listener.heard() == set()
        store.history.record(Event(at=NOW, kind="x", job=None, node=None, who="me", detail=None))
        assert Topic.CONTROL not in listener.heard()

    def test_every_listener_hears(self, store: Store, other: Store, listener: Listener) -> None:
        second = other.listen()
        try:
            quieten(second)
            nudge(store, Topic.CONTROL)
            assert hear(listener, Topic.CONTROL)
            assert hear(second, Topic.CONTROL)
        finally:
            second.close()

    def test_a_commit_of_another_program_is_noticed(
        self, client: Client, listener: Listener
    ) -> None:
        client.run("INSERT INTO {jobs} (id, command) VALUES ('x', 'y')")
        assert hear(listener, Topic.WORK, within=1.5)

    def test_each_of_many_such_commits_is_noticed(
        self, store: Store, client: Client, listener: Listener
    ) -> None:
        a_node(store)
        quieten(listener)
        for n in range(20):
            client.run("INSERT INTO {jobs} (id, command, run_at) VALUES (?, 'y', 0)", f"x{n}")
            assert hear(listener, Topic.WORK, within=1.5)
            assert take_one(store).id == f"x{n}"

    def test_a_listener_can_be_opened_and_closed_again_and_again(self, store: Store) -> None:
        for _ in range(50):
            store.listen().close()
        listener = store.listen()
        try:
            nudge(store, Topic.CONTROL)
            assert hear(listener, Topic.CONTROL)
        finally:
            listener.close()


@pytest.mark.parametrize(
    "engine", [e for e in ENGINES if not e.tells], ids=lambda e: e.name, indirect=True
)
class TestLooking:
    """Where the database can't tell, the doorbell of this host does, and a clock."""

    @pytest.fixture
    def ear(self, store: Store, other: Store) -> Iterator[Listener]:
        listener = other.listen()
        yield listener
        listener.close()

    @pytest.mark.parametrize("topic", Topic)
    def test_the_doorbell_is_heard(self, store: Store, ear: Listener, topic: Topic) -> None:
        nudge(store, topic)
        assert hear(ear, topic)

    def test_other_programs_are_found_by_looking(self, client: Client, ear: Listener) -> None:
        client.run("INSERT INTO {jobs} (id, command) VALUES ('x', 'y')")
        assert hear(ear, Topic.WORK)

    def test_looks_get_rarer_until_something_is_found(self, ear: Listener) -> None:
        pauses = []
        for _ in range(20):
            assert hear(ear, Topic.WORK)
            pauses.append(ear.recheck_in() or 0.0)
        assert pauses[0] < 0.1 < 0.4 < max(pauses) <= 0.5
        ear.expect()
        assert (ear.recheck_in() or 0.0) < 0.1


class TestClose:
    def test_what_was_written_is_there_when_opened_again(self, store: Store, url: str) -> None:
        first = open_store(url)
        add(first, "x")
        first.close()
        again = open_store(url)
        try:
            assert list(states(again)) == ["x"]
        finally:
            again.close()

    def test_what_is_closed_cannot_be_used(self, store: Store, url: str) -> None:
        again = open_store(url)
        again.close()
        with pytest.raises(StoreError):
            add(again, "x")
        assert states(store) == {}

    def test_closing_twice_does_no_harm(self, store: Store, url: str) -> None:
        again = open_store(url)
        again.close()
        again.close()
        assert states(store) == {}


class TestThreads:
    """Each thread has a connection of its own while it needs one."""

    def test_on_a_server_nobody_waits_for_the_transaction_of_another(self, store: Store) -> None:
        if store.one_host:
            return  # A file has one writer at a time, whoever it is.
        done = Signal()

        def enqueue() -> None:
            add(store, "theirs")
            done.set()

        with transaction(store):
            add(store, "mine")
            Thread(target=enqueue).start()
            assert done.wait(60)
        assert sorted(states(store)) == ["mine", "theirs"]

    def test_reading_never_waits(self, store: Store) -> None:
        add(store, "x")
        found: list[dict[str, State]] = []
        with transaction(store):
            add(store, "mine")
            thread = Thread(target=lambda: found.append(states(store)))
            thread.start()
            thread.join(60)
        assert found == [{"x": State.PENDING}]

    def test_more_than_there_are_connections_take_turns(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        many = 3 * MOST_SESSIONS
        threads = [Thread(target=lambda n=n: add(store, f"job {n}")) for n in range(many)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert len(states(store)) == many

    def test_what_is_in_use_when_it_is_closed_is_let_go_afterwards(self, url: str) -> None:
        store = open_store(url, create=True)
        with transaction(store):
            add(store, "last")
            store.close()
        with pytest.raises(StoreError, match="was closed"):
            states(store)
        with closing(open_store(url)) as again:
            assert list(states(again)) == ["last"]

    def test_who_waits_for_a_connection_gets_the_next_one(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Also beside others who take whichever is free: nobody fails, and nobody is left over."""
        monkeypatch.setattr(database, "MOST_SESSIONS", 2)
        done: list[bool] = []

        def read() -> None:
            for _ in range(200):
                states(store)
            done.append(True)

        threads = [Thread(target=read) for _ in range(8)]
        before = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(100)
        finally:
            sys.setswitchinterval(before)
        assert done == [True] * 8

    def test_who_waits_for_one_when_it_is_closed_is_told(
        self, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(database, "MOST_SESSIONS", 1)
        store = open_store(url, create=True)
        assert isinstance(store, SqlStore)
        told: list[str] = []

        def read() -> None:
            try:
                states(store)
            except StoreError as error:
                told.append(str(error))

        thread = Thread(target=read)
        with transaction(store):
            add(store, "last")
            thread.start()
            wait_for(lambda: store.db.waiting, "the one who waits")
            store.close()
        thread.join(60)
        assert told == ["This queue was closed; open it anew."]
