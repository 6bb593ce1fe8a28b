"""The register of nodes: leases that are lost for good, and requests to stop."""

from dataclasses import replace
from time import monotonic

import pytest

from queuectl.admission import Serving
from queuectl.errors import LeaseLostError, StoreError
from queuectl.facts import Node, Stop
from queuectl.store import Store
from tests.contract.tools import HOUR, MINUTE, NOW, SECOND, a_node, add, forget, renew, take
from tests.support import wait_for


def the_node(store: Store, id: str = "node-1") -> Node:
    """Return a node that must be there."""
    (node,) = [node for node in store.nodes.all() if node.id == id]
    return node


class TestRegister:
    def test_every_field_is_kept(self, store: Store) -> None:
        node = a_node(store)
        assert store.nodes.all() == [node]

    @pytest.mark.parametrize(
        "queues",
        [
            Serving(),
            Serving(("one",)),
            Serving(("it's", 'a "b"', "ä,[]", "default")),
            Serving(excluded=("names", "!x")),
            Serving(("a:1", "b"), weights=(3, 1)),
            Serving(("b", "a"), in_order=True),
        ],
    )
    def test_any_queues(self, store: Store, queues: Serving) -> None:
        assert a_node(store, queues=queues).queues == the_node(store).queues == queues

    def test_they_come_oldest_first(self, store: Store) -> None:
        for id, at in [("c", 3), ("a", 2), ("d", 1), ("b", 2)]:
            a_node(store, id, started_at=NOW + at)
        assert [node.id for node in store.nodes.all()] == ["d", "a", "b", "c"]

    def test_an_id_belongs_to_one_node(self, store: Store) -> None:
        node = a_node(store, pid=1)
        with pytest.raises(StoreError):
            a_node(store, pid=2)
        assert store.nodes.all() == [node]

    def test_there_may_be_none(self, store: Store) -> None:
        assert store.nodes.all() == []


class TestRenew:
    def test_extends_a_lease_that_holds(self, store: Store) -> None:
        node = a_node(store, lease=MINUTE)
        before = store.clock.now()
        until = store.clock.steady() + HOUR
        assert renew(store, "node-1", until=until)
        renewed = the_node(store)
        assert renewed == replace(node, lease_until=until, seen_at=renewed.seen_at)
        assert before <= renewed.seen_at <= store.clock.now()

    def test_lost_is_final(self, store: Store) -> None:
        node = a_node(store, lease=-1)
        for _ in range(2):
            assert not renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert store.nodes.all() == [node]
        with pytest.raises(LeaseLostError):
            take(store)

    def test_a_lease_that_was_let_run_out_is_lost(self, store: Store) -> None:
        a_node(store, lease=HOUR)
        until = store.clock.steady()
        assert renew(store, "node-1", until=until)
        assert not renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert the_node(store).lease_until == until

    def test_a_node_nobody_knows_has_no_lease(self, store: Store) -> None:
        assert not renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert store.nodes.all() == []

    def test_a_forgotten_node_has_no_lease(self, store: Store) -> None:
        a_node(store)
        forget(store, "node-1")
        assert not renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert store.nodes.all() == []

    def test_others_are_not_renewed(self, store: Store) -> None:
        a_node(store, "node-1")
        other = a_node(store, "node-2")
        renew(store, "node-1", until=store.clock.steady() + 2 * HOUR)
        assert the_node(store, "node-2") == other

    def test_as_long_as_it_is_renewed_a_node_may_claim(self, store: Store) -> None:
        a_node(store, lease=MINUTE)
        for n in range(3):
            add(store, f"job {n}")
            assert renew(store, "node-1", until=store.clock.steady() + MINUTE)
            assert len(take(store)) == 1

    def test_a_request_to_stop_is_kept(self, store: Store) -> None:
        a_node(store)
        store.nodes.ask_stop("node-1", Stop.DRAIN)
        renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert the_node(store).stop == Stop.DRAIN

    def test_says_anew_how_many_workers_it_has_and_its_version(self, store: Store) -> None:
        before = a_node(store, "node-1")
        other = a_node(store, "node-2")
        until = store.clock.steady() + HOUR
        assert store.nodes.renew("node-1", until=until, workers=99, version="99.1")
        first, second = sorted(store.nodes.all(), key=lambda node: node.id)
        renewed = replace(before, lease_until=until, seen_at=first.seen_at)
        assert first == replace(renewed, workers=99, version="99.1")
        assert second == other


class TestForget:
    def test_strikes_one(self, store: Store) -> None:
        a_node(store, "node-1")
        a_node(store, "node-2")
        forget(store, "node-1")
        assert [node.id for node in store.nodes.all()] == ["node-2"]

    def test_an_unknown_one_does_not_matter(self, store: Store) -> None:
        a_node(store)
        forget(store, "node-9")
        assert len(store.nodes.all()) == 1

    def test_the_id_may_come_again(self, store: Store) -> None:
        a_node(store, pid=1)
        store.nodes.ask_stop("node-1", Stop.RELEASE)
        forget(store, "node-1")
        assert a_node(store, pid=2) == the_node(store)

    def test_one_that_has_shown_life_since_is_not_struck(self, store: Store, other: Store) -> None:
        a_node(store)
        seen = the_node(other).beat
        assert renew(store, "node-1", until=store.clock.steady() + HOUR)
        assert not forget(other, "node-1", beat=seen)
        assert forget(other, "node-1", beat=the_node(other).beat)
        assert store.nodes.all() == []


class TestLapsed:
    def test_only_a_whole_lease_of_silence_will_do(self, store: Store, other: Store) -> None:
        began = monotonic()
        a_node(other, lease=SECOND)
        wait_for(lambda: the_node(store).lapsed)
        assert (monotonic() - began) * SECOND >= the_node(store).lease

    def test_a_sign_of_life_that_nobody_saw_begins_another(
        self, store: Store, other: Store
    ) -> None:
        a_node(other, lease=SECOND)
        node, began = the_node(store), monotonic()
        assert renew(other, "node-1", until=other.clock.steady() + HOUR)
        wait_for(lambda: (monotonic() - began) * SECOND > node.lease)
        # Who looks away for so long, as a stopped process does, doesn't know.
        assert not node.lapsed
        assert not the_node(store).lapsed


class TestAskStop:
    @pytest.mark.parametrize("how", Stop)
    def test_is_heard(self, store: Store, how: Stop) -> None:
        node = a_node(store)
        assert store.nodes.ask_stop("node-1", how)
        assert store.nodes.all() == [replace(node, stop=how)]

    def test_a_stronger_request_is_not_weakened(self, store: Store) -> None:
        a_node(store)
        for how, then in [
            (Stop.DRAIN, Stop.DRAIN),
            (Stop.RELEASE, Stop.RELEASE),
            (Stop.DRAIN, Stop.RELEASE),
            (Stop.RELEASE, Stop.RELEASE),
        ]:
            assert store.nodes.ask_stop("node-1", how)
            assert the_node(store).stop == then

    def test_others_go_on(self, store: Store) -> None:
        a_node(store, "node-1")
        a_node(store, "node-2")
        store.nodes.ask_stop("node-1", Stop.RELEASE)
        assert the_node(store, "node-2").stop is None

    def test_an_unknown_node_cannot_be_asked(self, store: Store) -> None:
        a_node(store)
        assert not store.nodes.ask_stop("node", Stop.DRAIN)
        assert the_node(store).stop is None


class TestClocks:
    def test_the_wall_clock_is_in_milliseconds(self, store: Store, other: Store) -> None:
        assert NOW < store.clock.now() < NOW + 100 * 365 * 24 * HOUR
        one, two, three = store.clock.now(), other.clock.now(), store.clock.now()
        assert one <= two <= three

    def test_the_steady_clock_is_one_for_all(self, store: Store, other: Store) -> None:
        readings = [clock.steady() for _ in range(50) for clock in (store.clock, other.clock)]
        assert readings == sorted(readings)
        assert readings[-1] - readings[0] < MINUTE

    def test_where_leases_go_by_the_steady_clock_nobody_sets_it(self, store: Store) -> None:
        if store.one_host:
            assert abs(store.clock.steady() - monotonic() * SECOND) < MINUTE

    def test_the_clock_of_a_lease_can_be_read_by_its_number(self, store: Store) -> None:
        from time import clock_gettime

        assert clock_gettime(store.clock.lease_clock) > 0
