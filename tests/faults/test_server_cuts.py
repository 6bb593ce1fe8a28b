"""Connections cut around COMMIT: before the server gets it, while it works, after it answered.

Nothing is lost, doubled, finished twice or left lying; who is told an id finds the job, and who
is told of an error finds no job, or was told that nobody knows.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import Thread
from time import monotonic

import pytest

from queuectl import Queue, State
from queuectl.admission import ALL_QUEUES
from queuectl.errors import LeaseLostError, NotFoundError, StoreError, StoreUnsettledError
from queuectl.facts import Node
from queuectl.store.sqlstore import SqlStore
from tests.contract.tools import claim, forget
from tests.faults.places import (
    Place,
    ledger,
    stop_nodes,
)
from tests.servers.proxy import Moment, Proxy
from tests.support import Lab, is_gone, lab_in, wait_for

UNKNOWN = "it can't be asked now whether that came through"
MOMENTS: tuple[Moment, ...] = ("before", "during", "after")


@pytest.fixture
def far(place: Place, proxy: Proxy) -> Iterator[Queue]:
    """A queue behind a bad network."""
    with Queue(place.through(proxy.port)) as queue:
        yield queue


@pytest.fixture
def near(place: Place, far: Queue) -> Iterator[Queue]:
    """The same queue as it is."""
    with Queue(place.url) as queue:
        yield queue


@pytest.fixture
def far_lab(place: Place, proxy: Proxy, near: Queue, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose nodes are behind a bad network; its own queue isn't."""
    with lab_in(tmp_path, place.url) as lab:
        lab.extra_env["QUEUECTL_DB"] = place.through(proxy.port)
        yield lab


# -- one client ---------------------------------------------------------------------


def test_an_enqueue_that_is_cut_off_is_settled(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    cuts = 0
    for when in MOMENTS:
        for request in ({"command": "true", "id": f"chosen-{when}"}, {"command": "true"}):
            proxy.cut_when(place.commit, when=when)
            job = far.enqueue(request)
            cuts += 1
            assert proxy.fired == cuts
            assert near.get(job.id).state == State.PENDING
        proxy.cut_when(place.commit, when=when)
        batch = far.enqueue_many({"command": "true", "id": f"{when}-{n}"} for n in range(30))
        cuts += 1
        assert proxy.fired == cuts
        assert set(batch.ids) == {f"{when}-{n}" for n in range(30)}
    assert near.status().states[State.PENDING] == 3 * 32


def test_the_command_prints_the_id_of_an_enqueue_that_was_cut_off(
    far_lab: Lab, near: Queue, proxy: Proxy, place: Place
) -> None:
    printed = set()
    for cuts, when in enumerate(MOMENTS, 1):
        proxy.cut_when(place.commit, when=when)
        done = far_lab.run("enqueue", "-q", "true")
        assert (done.returncode, done.stderr, proxy.fired) == (0, "", cuts)
        printed.add(done.stdout.strip())
    assert {job.id for job in near.list()} == printed
    assert len(near.list()) == 3


def test_an_enqueue_that_nobody_can_settle_says_so(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    far.store.patience = 0.2
    stored = 0
    for when in MOMENTS:
        for request in ({"command": "true", "id": f"chosen-{when}"}, {"command": "true"}):
            proxy.cut_when(place.commit, when=when, shut=True)
            with pytest.raises(StoreUnsettledError, match=UNKNOWN) as caught:
                far.enqueue(request)
            proxy.refuse(False)
            came_through = caught.value.committed()
            # During: it depends on who is quicker, the server or the end of the connection.
            assert when == "during" or came_through == (when == "after")
            stored += came_through
            assert len(near.list()) == stored


@pytest.mark.parametrize("shut", [False, True])
def test_an_enqueue_that_cant_be_told_its_place_doesnt_exist(
    shut: bool, far: Queue, near: Queue, proxy: Proxy
) -> None:
    """The statement that stores it tells its place. Whoever can't hear that has no job."""
    far.store.patience = 0.2
    proxy.cut_when(b"RETURNING seq", when="before", shut=shut)
    if shut:
        with pytest.raises(StoreError):
            far.enqueue("true", id="mine")
        with pytest.raises(NotFoundError):
            near.get("mine")
    else:
        assert far.enqueue("true", id="mine").id == near.get("mine").id
    assert proxy.fired == 1


def test_changes_by_hand_that_are_cut_off_happen_once(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    for when in MOMENTS:
        id = near.enqueue("true").id
        proxy.cut_when(place.commit, when=when)
        assert far.cancel(id).state == State.CANCELLED
        proxy.cut_when(place.commit, when=when)
        assert far.retry(id).state == State.PENDING
        proxy.cut_when(place.commit, when=when)
        assert far.pause(when)
        proxy.cut_when(place.commit, when=when)
        far.remove(id)
    assert proxy.fired == 12
    assert near.list() == []
    assert [event.kind for event in near.events()] == ["rm", "pause", "retry", "cancel"] * 3


def test_a_later_commit_doesnt_vouch_for_one_in_doubt(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    far.store.patience = 0.0
    proxy.cut_when(place.commit, when="before", shut=True)
    with pytest.raises(StoreUnsettledError) as doubt:
        far.enqueue("true", id="undone")
    proxy.refuse(False)
    far.enqueue("true", id="later")
    assert not doubt.value.committed()
    assert [job.id for job in near.list()] == ["later"]


@pytest.mark.parametrize(
    "request_", [{"command": "true"}, {"command": "true", "id": "chosen"}], ids=["any id", "chosen"]
)
def test_a_commit_that_was_called_undone_doesnt_come_through_later(
    request_: dict[str, str], far: Queue, near: Queue
) -> None:
    """What is under way on a connection that was given up may reach the server at any time."""
    client, settler = far.store, near.store
    assert isinstance(client, SqlStore)
    assert isinstance(settler, SqlStore)
    with settler.db.session() as asks, client.db.session() as writes:
        first = writes.next_receipt()
        assert not asks.was_committed(first["client"], first["serial"] + 1)
    with pytest.raises(StoreError):
        far.enqueue(request_)
    assert near.list() == []
    with settler.db.session() as asks:
        assert not asks.was_committed(first["client"], first["serial"] + 1)
    assert near.get(far.enqueue(request_).id).state == State.PENDING
    with settler.db.session() as asks:
        assert asks.was_committed(first["client"], first["serial"] + 2)


def test_a_claim_that_is_cut_off_is_settled(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    register(far, "mine")
    for cuts, when in enumerate(MOMENTS, 1):
        ids = [near.enqueue("true", priority=n).id for n in (2, 1)]
        proxy.cut_when(place.commit, when=when)
        jobs = claim(far.store, "mine", [7, 8], [], now=far.store.clock.now()).jobs
        assert proxy.fired == cuts
        assert [job.id for job in jobs] == ids
        assert [(job.worker, job.attempts) for job in jobs] == [(7, 1), (8, 1)]
        assert jobs == [near.get(id) for id in ids]


def test_a_claim_that_nobody_can_settle_says_later_what_it_claimed(
    far: Queue, near: Queue, proxy: Proxy, place: Place
) -> None:
    register(far, "mine")
    far.store.patience = 0.0
    for when in MOMENTS:
        id = near.enqueue("true").id
        proxy.cut_when(place.commit, when=when, shut=True)
        with pytest.raises(StoreUnsettledError, match=UNKNOWN) as doubt:
            claim(far.store, "mine", [1], [], now=far.store.clock.now())
        proxy.refuse(False)
        came_through = doubt.value.committed()
        assert when == "during" or came_through == (when == "after")
        if came_through:
            assert list(doubt.value.result.jobs) == [near.get(id)]
        else:
            assert near.get(id).state == State.PENDING
            assert [
                job.id for job in claim(far.store, "mine", [1], [], now=far.store.clock.now()).jobs
            ] == [id]
    assert near.store.verify() == []


# -- nodes --------------------------------------------------------------------------


@pytest.mark.parametrize("when", MOMENTS)
def test_a_node_that_is_cut_off_while_it_registers_comes_up(
    when: Moment, far_lab: Lab, near: Queue, proxy: Proxy, place: Place
) -> None:
    proxy.cut_when(place.commit, when=when, shut=True)
    node = far_lab.start_node()
    wait_for(lambda: proxy.fired, "a cut")
    proxy.refuse(False)
    near.enqueue("true", id="mine")
    far_lab.wait_state("mine", State.COMPLETED)
    assert node.poll() is None
    assert len(near.nodes()) == 1
    stop_nodes(far_lab)


def test_a_node_cut_off_while_it_claims_and_finishes_does_both_once(
    far_lab: Lab, near: Queue, proxy: Proxy, place: Place
) -> None:
    far_lab.node(count=2)
    for when in MOMENTS:
        claim_and_finish(far_lab, when, partial(proxy.cut_when, place.commit, when=when))
        [attempt] = near.attempts(when)
        assert attempt.number == 1
    # That a commit came through is seen before its answer is dropped.
    wait_for(lambda: proxy.fired >= 2 * len(MOMENTS), "every cut")
    assert ledger(far_lab) == {f"{when} 1": 1 for when in MOMENTS}
    assert near.store.verify() == []
    assert "lost:" not in stop_nodes(far_lab)


def claim_and_finish(lab: Lab, name: str, arm: Callable[[], None]) -> None:
    """Run a job whose claim and whose end are each disturbed."""
    gate = lab.folder / f"gate-{name}"
    arm()
    lab.queue.enqueue(
        f"echo {name} $QUEUECTL_ATTEMPT >> {lab.folder}/ledger;"
        f" while [ ! -e {gate} ]; do sleep 0.02; done",
        id=name,
    )
    wait_for(lambda: f"{name} 1" in ledger(lab), "the job to start")
    arm()
    gate.touch()
    lab.wait_state(name, State.COMPLETED)


def test_a_turn_that_is_made_again_keeps_the_output(
    far_lab: Lab, near: Queue, proxy: Proxy
) -> None:
    far_lab.node()
    gate = far_lab.folder / "gate"
    near.enqueue(f"echo said; while [ ! -e {gate} ]; do sleep 0.02; done", id="mine")
    far_lab.wait_state("mine", State.PROCESSING)
    # It is cut off while it stores what it has read.
    proxy.cut_when(b"outputs", when="before")
    gate.touch()
    far_lab.wait_state("mine", State.COMPLETED)
    assert proxy.fired == 1
    assert near.output("mine").stdout == b"said\n"
    stop_nodes(far_lab)


def test_a_node_settles_a_turn_in_doubt_when_the_server_is_back(
    far_lab: Lab, near: Queue, proxy: Proxy, place: Place
) -> None:
    lab = far_lab
    for cuts, when in enumerate(MOMENTS, 1):
        # A node of its own each time: it doesn't say the same thing twice in a short while.
        lab.node(count=2)
        near.enqueue("true", id=f"first {when}")
        lab.wait_state(f"first {when}", State.COMPLETED)
        said = len(lab.log(cuts - 1))
        proxy.cut_when(place.commit, when=when, shut=True)
        near.enqueue(f"echo {when} $QUEUECTL_ATTEMPT >> {lab.folder}/ledger", id=when)
        wait_for(lambda at=(cuts - 1, said): is_cut_off(lab.log(at[0])[at[1] :]), "a complaint")  # type: ignore[misc]
        proxy.refuse(False)
        lab.wait_state(when, State.COMPLETED)
        assert proxy.fired == cuts
        assert [attempt.number for attempt in near.attempts(when)] == [1]
        stop_nodes(lab)
    assert ledger(lab) == {f"{when} 1": 1 for when in MOMENTS}
    assert near.store.verify() == []


def is_cut_off(log: str) -> bool:
    """Tell whether a node says that it is cut off."""
    return "Trying again" in log or "can't be reached" in log or UNKNOWN in log


def test_jobs_of_a_turn_are_run_though_the_server_goes_right_after(
    far_lab: Lab, near: Queue, proxy: Proxy
) -> None:
    near.enqueue(f"echo 1 >> {far_lab.folder}/ledger", id="mine")
    # What a node asks after a claim that left workers free.
    proxy.cut_when(b"AS always LEFT JOIN", when="before", shut=True)
    far_lab.node(count=2)
    wait_for(lambda: proxy.fired, "a cut")
    wait_for(lambda: ledger(far_lab)["1"], "the run")
    proxy.refuse(False)
    far_lab.wait_state("mine", State.COMPLETED)
    assert ledger(far_lab) == {"1": 1}
    stop_nodes(far_lab)


# -- clients and servers that fall silent -----------------------------------------------


def test_a_client_that_falls_silent_in_a_transaction_holds_nobody_up(
    far: Queue, near: Queue, proxy: Proxy
) -> None:
    register(far, "silent")
    near.enqueue("true", id="mine")

    def claim_and_fall_silent() -> None:
        if not proxy.is_frozen:
            assert claim(far.store, "silent", [1], [], now=far.store.clock.now()).jobs
            proxy.freeze()

    def try_to() -> None:
        with suppress(StoreError, LeaseLostError):
            far.store.transact(claim_and_fall_silent)

    thread = Thread(target=try_to, name="silent")
    thread.start()
    try:
        wait_for(lambda: proxy.is_frozen, "silence")
        # It waits for the transaction that has the node's row and the job, but not for long.
        assert forget(near.store, "silent", beat=0)
        register(near, "other")
        [job] = claim(near.store, "other", [1], [], now=near.store.clock.now()).jobs
        assert (job.id, job.attempts) == ("mine", 1)
    finally:
        proxy.thaw()
        thread.join()
    assert near.get("mine").node == "other"


def register(queue: Queue, name: str) -> None:
    """Make a node known that doesn't exist."""
    now = queue.store.clock.now()
    queue.store.nodes.register(
        Node(
            id=name,
            host=name,
            boot=name,
            pid=1,
            pid_start=1,
            workers=1,
            queues=ALL_QUEUES,
            spool="/nowhere",
            version="1",
            started_at=now,
            seen_at=now,
            lease_until=now + 60_000,
        )
    )


def test_a_run_killed_because_the_server_was_silent_goes_back_unharmed(
    far_lab: Lab, near: Queue, proxy: Proxy
) -> None:
    lab = far_lab
    lab.extra_env |= {"QUEUECTL_LEASE": "2s", "QUEUECTL_HEARTBEAT": "500ms"}
    lab.node()
    near.enqueue(f"echo $$ >> {lab.folder}/starts; exec sleep 1000", id="long")
    pid = lab.pid_in("starts")
    over = monotonic() + 2
    proxy.freeze()
    wait_for(lambda: is_gone(pid), "the run to be killed")
    wait_for(lambda: monotonic() > over, "the end of the lease")
    proxy.thaw()
    wait_for(lambda: len(lab.lines("starts")) == 2, "the second run")
    # A slow machine may lose so short a lease once more, before the second run has begun.
    job = near.get("long")
    assert (job.failures, job.crashes) == (0, 0)
    assert "lost" not in [attempt.outcome for attempt in near.attempts("long")]
    near.cancel("long")
    lab.wait_state("long", State.CANCELLED)
    stop_nodes(lab)
