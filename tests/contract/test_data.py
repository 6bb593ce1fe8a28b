"""Data jobs: who may claim them, and the cases that the queue has which brought them up.

docs/data-jobs.md says for each of those cases where it is tested.
"""

from typing import Any

import pytest

from queuectl.admission import Serving
from queuectl.job import ANY_TYPE, TYPE, Exited, Job, State
from queuectl.limits import Limits, parse_rate
from queuectl.store import Store
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    a_node,
    add,
    ended,
    finish,
    ids,
    release,
    take,
    the,
)

MAIL = Serving(handlers=(f"{TYPE}mail",))
UNTYPED = Serving(handlers=(TYPE,))
ALL_TYPES = Serving(handlers=(ANY_TYPE,))


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def push(store: Store, id: str, type: str = "", **fields: Any) -> Job:
    """Enqueue a data job."""
    return add(store, id, type=type, data=f"data of {id}".encode(), **fields)


class TestWhoHandles:
    def test_all_is_kept_of_it(self, store: Store) -> None:
        data = bytes(range(256)) * 4096
        job = add(store, "job 1", type="type-2", data=data)
        assert (job.command, job.argv, job.task) == (None, None, "type-2")
        assert (job.type, job.data, job.handler) == ("type-2", data, "type:type-2")
        assert add(store, "none", type="", data=b"").data == b""

    def test_a_node_gets_what_it_handles(self, store: Store) -> None:
        push(store, "mail", "mail")
        push(store, "mailbox", "mailbox")
        push(store, "untyped")
        add(store, "command")
        assert ids(take(store, 9)) == ["command"]
        assert ids(take(store, 9, queues=MAIL)) == ["mail"]
        assert ids(take(store, 9, queues=UNTYPED)) == ["untyped"]
        assert ids(take(store, 9, queues=ALL_TYPES)) == ["mailbox"]

    def test_what_it_does_not_handle_is_no_work(self, store: Store) -> None:
        push(store, "mail", "mail")
        assert not store.runs.outlook(Serving()).ready
        assert not store.runs.outlook(UNTYPED).ready
        assert store.runs.outlook(MAIL).ready
        assert store.runs.outlook(ALL_TYPES).ready

    def test_of_several_handlers_priority_decides_then_who_came_first(self, store: Store) -> None:
        push(store, "a", "x")
        add(store, "b")
        push(store, "c", "y", priority=1)
        push(store, "d", "x", priority=1)
        push(store, "e")
        assert ids(take(store, 3, queues=ALL_TYPES)) == ["c", "d", "a"]
        assert ids(take(store, 3, queues=ALL_TYPES)) == ["b", "e"]

    def test_each_queue_has_its_share_whoever_handles_its_jobs(self, store: Store) -> None:
        for n in range(4):
            push(store, f"a{n}", f"x{n % 2}", queue="a")
            push(store, f"b{n}", f"x{n % 2}", queue="b")
        shares = Serving(("a", "b"), weights=(3, 1), handlers=(ANY_TYPE,))
        assert sorted(ids(take(store, 4, queues=shares))) == ["a0", "a1", "a2", "b0"]

    def test_due_ones_and_retries_are_there_for_who_handles_them(self, store: Store) -> None:
        push(store, "later", "mail", run_at=NOW + SECOND)
        assert take(store, 9, queues=MAIL) == []
        assert take(store, 9, now=NOW + SECOND) == []
        assert ids(take(store, 9, queues=MAIL, now=NOW + SECOND)) == ["later"]

    def test_what_is_put_back_has_its_handler_still(self, store: Store) -> None:
        push(store, "mail", "mail")
        assert release(store, take(store, 9, queues=MAIL), now=NOW) == []
        assert take(store, 9) == []
        assert ids(take(store, 9, queues=MAIL)) == ["mail"]

    def test_lines_are_counted(self, store: Store) -> None:
        assert store.runs.lines(10) == {}
        add(store, "command")
        for n in range(3):
            push(store, f"mail {n}", "mail", queue="other")
        push(store, "untyped")
        push(store, "later", "x", run_at=NOW + HOUR)
        found = {("default", TYPE): 1, ("other", f"{TYPE}mail"): 3}
        assert store.runs.lines(10) == found
        assert store.runs.lines(2) == found | {("other", f"{TYPE}mail"): 2}
        store.settings.set_paused("other", paused=True, who="me", now=NOW)
        assert store.runs.lines(10) == {("default", TYPE): 1}

    def test_its_place_is_among_those_of_its_handler(self, store: Store) -> None:
        add(store, "command")
        push(store, "one", "mail")
        two = push(store, "two", "mail")
        assert store.runs.before(two, 10) == 1

    def test_a_node_tells_what_it_handles(self, store: Store) -> None:
        serving = Serving(("a",), handlers=(ANY_TYPE, f"{TYPE}ü"))
        a_node(store, "node-3", queues=serving)
        (node,) = [node for node in store.nodes.all() if node.id == "node-3"]
        assert node.queues == serving

    def test_a_node_tells_anew_what_it_handles(self, store: Store) -> None:
        store.nodes.set_serving("node-1", MAIL)
        store.nodes.set_serving("nobody", MAIL)
        found = {node.id: node.queues for node in store.nodes.all()}
        assert found["node-1"] == MAIL != found["node-2"]
        assert set(found) == {"node-1", "node-2"}


class TestLimits:
    def test_a_limit_is_that_of_the_queue(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(limit=2))
        add(store, "command")
        push(store, "mail", "mail")
        push(store, "box", "box")
        first = take(store, 1, queues=MAIL)
        assert ids(first) == ["command"]
        assert ids(take(store, 9, queues=MAIL)) == ["mail"]
        assert take(store, 9, node="node-2", queues=ALL_TYPES) == []
        finish(store, [ended(first[0], Exited(0))])
        assert ids(take(store, 9, node="node-2", queues=ALL_TYPES)) == ["box"]

    @pytest.mark.needs("sql")
    def test_room_of_a_key_is_for_who_can_use_it(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(key_limit=1))
        add(store, "first", keys=("k",))
        push(store, "mail", "mail", keys=("k",))
        add(store, "last", keys=("k",))
        (first,) = take(store, 9, queues=MAIL)
        assert first.id == "first"
        finish(store, [ended(first, Exited(0))])
        # Nobody here handles the one that was parked first.
        (last,) = take(store, 9, node="node-2")
        assert last.id == "last"
        finish(store, [ended(last, Exited(0))])
        assert ids(take(store, 9, queues=MAIL)) == ["mail"]

    def test_rates_are_those_of_the_queue(self, store: Store) -> None:
        store.settings.set_limits("default", lambda _: Limits(rates=(parse_rate("2/m"),)))
        for n in range(2):
            push(store, f"x{n}", f"x{n}")
            add(store, f"command {n}")
        assert ids(take(store, 9, queues=ALL_TYPES)) == ["x0", "command 0"]
        assert take(store, 9, queues=ALL_TYPES) == []


class TestCost:
    @pytest.mark.needs("sql")
    def test_many_types_that_nobody_handles_are_none_of_a_claims_business(
        self, store: Store
    ) -> None:
        for n in range(30):
            push(store, f"x{n}", f"x{n}")
        add(store, "command")
        assert ids(take(store, 9)) == ["command"]
        assert take(store, 9, queues=MAIL) == []
        assert len(take(store, 99, queues=ALL_TYPES)) == 30
        assert the(store, "x7").state == State.PROCESSING
