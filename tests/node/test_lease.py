"""The lease is renewed by the loop, or else by a thread, and tells the guards."""

import socket
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from threading import Event, Thread
from time import CLOCK_MONOTONIC
from typing import TYPE_CHECKING, Any

import pytest

from queuectl.guard.wire import Extend
from queuectl.node import lease as leases
from queuectl.node.config import Config
from queuectl.node.guards import Guards
from queuectl.node.lease import Lease
from queuectl.settings import Settings
from queuectl.store import Store, open_store
from tests.contract.tools import a_node, forget
from tests.support import PATIENCE, wait_for

if TYPE_CHECKING:
    from queuectl.guard.wire import Message

HOUR = 3_600_000


class Told(Guards):
    """No guards, and what they were told."""

    def tell_all(self, messages: "Sequence[Message]") -> None:
        self.last = list(messages)


class Watch:
    """A node's lease, and what became of it."""

    def __init__(self, store: Store, *, lease: int, heartbeat: int, url: str | None = None) -> None:
        self.store = store
        self.node = a_node(store, lease=lease).id
        self.woken = 0
        self.told = Told(())
        self.troubles: list[str] = []
        self.lease = Lease(
            url=url or store.url,
            node=self.node,
            clock=CLOCK_MONOTONIC,
            until=leases.read(CLOCK_MONOTONIC) + lease,
            guards=self.told,
            config=Config(Settings(lease=lease, heartbeat=heartbeat)),
            wake=self._wake,
            say=self._say,
        )

    def _say(self, text: str, *, level: str = "info") -> None:
        self.troubles.append(text)

    def _wake(self) -> None:
        self.woken += 1

    @property
    def beats(self) -> int:
        (node,) = self.store.nodes.all()
        return node.beat


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    """An empty store."""
    with closing(open_store(str(tmp_path / "queue.db"), create=True)) as store:
        yield store


def test_a_new_guard_is_told_when_it_ends_though_the_store_is_gone(store: Store) -> None:
    watch = Watch(store, lease=HOUR, heartbeat=100)
    until = watch.lease.until
    watch.lease.tell()
    assert watch.told.last == [Extend(CLOCK_MONOTONIC, (until - leases.margin(HOUR)) / 1000)]


def test_the_loop_renews_it_when_it_is_due(store: Store) -> None:
    watch = Watch(store, lease=HOUR, heartbeat=100)
    wait_for(lambda: watch.lease.renew_if_due(store), "the first heartbeat")
    assert watch.beats == 1
    assert not watch.lease.renew_if_due(store)
    assert 0 < watch.lease.due_in() <= 0.1
    assert (watch.lease.lost, watch.lease.outage, watch.beats) == (False, False, 1)


def test_the_thread_renews_it_when_the_loop_does_not(store: Store) -> None:
    watch = Watch(store, lease=1_000, heartbeat=100)
    watch.lease.start()
    wait_for(lambda: watch.beats > 15, "more renewals than one lease has")
    watch.lease.stop()
    assert (watch.lease.lost, watch.lease.outage, watch.troubles) == (False, False, [])


def test_what_the_loop_renews_the_thread_leaves_alone(store: Store) -> None:
    watch = Watch(store, lease=HOUR, heartbeat=100)
    watch.lease.start()
    done = 0
    while done < 5:
        done += watch.lease.renew_if_due(store)
    watch.lease.stop()
    assert watch.beats == 5


def test_what_fails_in_the_loop_is_tried_again_by_the_thread(store: Store, tmp_path: Path) -> None:
    watch = Watch(store, lease=2_000, heartbeat=100)
    broken = open_store(str(tmp_path / "broken.db"), create=True)
    broken.close()
    wait_for(lambda: watch.lease.due_in() <= 0, "a heartbeat")
    assert not watch.lease.renew_if_due(broken)
    assert watch.lease.due_in() > 0, "it isn't tried again and again"
    assert (watch.lease.lost, watch.lease.outage) == (False, True)
    watch.lease.start()
    wait_for(lambda: watch.beats > 0, "the thread to renew it")
    wait_for(lambda: not watch.lease.outage, "the end of the outage")
    watch.lease.stop()


class Slow:
    """A store whose answer comes when it is let through."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.nodes = self
        self.clock = store.clock
        self.asked, self.let_through = Event(), Event()

    def renew(self, node: str, **values: Any) -> bool:
        done = self.store.nodes.renew(node, **values)
        self.asked.set()
        self.let_through.wait()
        return done


def test_a_second_answer_that_is_too_late_does_not_end_the_outage(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runs were ended for want of a lease by then, whatever else was renewed meanwhile."""
    now = leases.read(CLOCK_MONOTONIC)
    monkeypatch.setattr(leases, "read", lambda _clock: now)
    watch = Watch(store, lease=HOUR, heartbeat=100)
    with closing(open_store(store.url)) as other:
        slow: Any = Slow(other)
        thread = Thread(target=watch.lease._try, args=[slow])
        thread.start()
        assert slow.asked.wait(PATIENCE)
        now += HOUR - 1
        assert watch.lease.ends_runs
        assert watch.lease._try(store)
        assert watch.lease.outage
        slow.let_through.set()
        thread.join()
    assert watch.lease.outage


def test_a_server_that_lets_nobody_in_is_an_outage(store: Store) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"postgresql://nobody:x@127.0.0.1:{server.getsockname()[1]}/nowhere"
        watch = Watch(store, lease=1_000, heartbeat=100, url=url)
        watch.lease.start()
        wait_for(lambda: watch.lease.ends_runs, "the end of the runs")
        assert watch.lease.outage
    watch.lease.stop()


def test_one_that_was_struck_out_is_lost_to_the_loop(store: Store) -> None:
    watch = Watch(store, lease=HOUR, heartbeat=100)
    forget(store, watch.node)
    wait_for(lambda: watch.lease.due_in() <= 0, "a heartbeat")
    assert not watch.lease.renew_if_due(store)
    assert watch.lease.lost


def test_one_that_was_struck_out_is_lost_to_the_thread(store: Store) -> None:
    watch = Watch(store, lease=1_000, heartbeat=100)
    forget(store, watch.node)
    watch.lease.start()
    wait_for(lambda: watch.woken, "the loop to be woken")
    assert watch.lease.lost


def test_one_that_ran_out_is_not_renewed(store: Store) -> None:
    watch = Watch(store, lease=0, heartbeat=100)
    assert watch.lease.is_over
    assert not watch.lease.renew(store)
    assert watch.beats == 0
