"""The cases that the suite of the queue of ids and data covers, in our words, on every store.

Each test bears the number of its family in docs/coming-from.md, which says for each of the others
where it is tested, or why it doesn't apply.
"""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from queuectl import told
from queuectl.admission import Serving
from queuectl.errors import DuplicateError, LeaseLostError, StateError
from queuectl.job import ANY_TYPE, TYPE, Cancelled, Exited, Job, NewJob, Released, State
from queuectl.limits import Limits
from queuectl.store import Store, open_store
from queuectl.store.contract import RunId
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    a_node,
    add,
    ask_cancel,
    claim,
    ended,
    finish,
    ids,
    release,
    renew,
    take,
    the,
)

ANY = Serving(handlers=(ANY_TYPE,))
LATER = NOW + HOUR


@pytest.fixture(autouse=True)
def nodes(store: Store) -> None:
    """Two nodes that may claim."""
    a_node(store, "node-1")
    a_node(store, "node-2")


def push(store: Store, id: str, data: bytes = b"data", *, type: str = "", **fields: Any) -> Job:
    """Store a data job."""
    return add(store, id, type=type, data=data, **fields)


def acquire(store: Store, count: int = 1, *, node: str = "node-1", now: int = NOW) -> list[Job]:
    """Claim data jobs of any type."""
    return take(store, count, node=node, queues=ANY, now=now)


def run_of(job: Job) -> RunId:
    """Name the run that a job has."""
    return RunId(job.id, job.attempts, job.node or "")


def test_01_what_is_acquired_has_id_time_and_data_and_only_one_has_it(store: Store) -> None:
    push(store, "key 1", b"\0\xff", now=NOW - 5)
    (job,) = acquire(store)
    assert (job.id, job.created_at, job.data) == ("key 1", NOW - 5, b"\0\xff")
    assert acquire(store, node="node-2") == []


def test_02_an_end_counts_once_and_nothing_is_delivered_again(store: Store) -> None:
    push(store, "a")
    (job,) = acquire(store)
    assert finish(store, [ended(job)]) == []
    again = ended(job)
    assert finish(store, [again]) == [again]
    assert acquire(store, now=LATER) == []


def test_03_one_that_is_cancelled_while_it_runs_is_lost_to_its_run(store: Store) -> None:
    push(store, "a")
    (job,) = acquire(store)
    assert told.heartbeat(store, run_of(job)).id == "a"
    assert ask_cancel(store, job, "enough", now=NOW)
    with pytest.raises(StateError, match="is being cancelled"):
        told.heartbeat(store, run_of(job))
    finish(store, [ended(job, Cancelled("enough"))])
    assert not ask_cancel(store, the(store, "a"), "enough", now=NOW)
    with pytest.raises(LeaseLostError):
        told.heartbeat(store, run_of(job))
    assert acquire(store, now=LATER) == []


def test_04_what_is_due_comes_in_order_and_what_is_not_is_not_seen(store: Store) -> None:
    push(store, "third", run_at=NOW + 2)
    push(store, "first", priority=1)
    push(store, "second")
    assert ids(acquire(store, 9)) == ["first", "second"]
    assert acquire(store, now=NOW + 1) == []
    assert ids(acquire(store, now=NOW + 2)) == ["third"]


def test_05_nobody_takes_over_before_the_lease_is_over(store: Store) -> None:
    a_node(store, "node-3", lease=HOUR)
    push(store, "a")
    (job,) = acquire(store, node="node-3")
    assert acquire(store) == []
    beat = {node.id: node for node in store.nodes.all()}["node-3"].beat
    assert not store.runs.rescue("node-3", _nothing, beat=beat + 1)
    assert the(store, "a").node == "node-3"
    finish(store, [ended(job)])


def _nothing(held: Any, now: int) -> Any:
    raise AssertionError("nothing is rescued")


def test_06_a_heartbeat_postpones_it(store: Store) -> None:
    a_node(store, "node-3", lease=HOUR)
    seen = {node.id: node for node in store.nodes.all()}["node-3"].beat
    assert renew(store, "node-3", until=store.clock.steady() + 2 * HOUR)
    assert store.runs.rescue("node-3", _nothing, beat=seen) is None


def test_07_what_is_released_is_there_at_once(store: Store) -> None:
    push(store, "a")
    (job,) = acquire(store)
    assert release(store, [job], now=NOW) == []
    (again,) = acquire(store, node="node-2")
    finish(store, [ended(again, Released(), now=NOW + 1)])
    assert ids(acquire(store, now=NOW + 1)) == ["a"]


def test_08_a_retry_waits(store: Store) -> None:
    push(store, "a", backoff="fixed", retry_delay=30 * SECOND, max_retries=1)
    (job,) = acquire(store)
    finish(store, [ended(job, Exited(1), now=NOW)])
    assert acquire(store, now=NOW + 30 * SECOND - 1) == []
    assert ids(acquire(store, now=NOW + 30 * SECOND)) == ["a"]


def test_09_an_id_is_used_once_also_after_the_end(store: Store) -> None:
    push(store, "a", b"first")
    for end in (None, Exited(0)):
        with pytest.raises(DuplicateError):
            push(store, "a", b"second")
        if end is None:
            finish(store, [ended(job, Exited(0)) for job in acquire(store)])
    assert the(store, "a").data == b"first"


def test_10_what_is_finished_is_kept_until_its_retention_is_over(store: Store) -> None:
    push(store, "a")
    (job,) = acquire(store)
    finish(store, [ended(job, now=NOW)])
    assert store.jobs.prune(State.COMPLETED, NOW, limit=9) == 0
    assert the(store, "a").state == State.COMPLETED
    assert store.jobs.prune(State.COMPLETED, NOW + 1, limit=9) == 1
    assert store.jobs.get("a") is None
    assert push(store, "a").attempts == 0


def test_13_its_state_is_told_from_beginning_to_end(store: Store) -> None:
    push(store, "a")
    assert store.jobs.states(["a", "b"]) == {"a": State.PENDING}
    (job,) = acquire(store)
    assert store.jobs.states(["a"]) == {"a": State.PROCESSING}
    finish(store, [ended(job)])
    assert store.jobs.states(["a"]) == {"a": State.COMPLETED}


def test_14_several_are_acquired_at_once(store: Store) -> None:
    for n in range(3):
        push(store, f"job {n}")
    assert ids(acquire(store, 2)) == ["job 0", "job 1"]
    assert ids(acquire(store, 2)) == ["job 2"]
    assert acquire(store, 2) == []


def test_15_a_resource_has_its_limit(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for n, user in enumerate(["user1", "user1", "user2", "user1"]):
        push(store, f"{n} of {user}", keys=(user,))
    first = acquire(store, 9)
    assert ids(first) == ["0 of user1", "2 of user2"]
    assert acquire(store, 9) == []
    finish(store, [ended(first[0])])
    assert ids(acquire(store, 9, now=LATER)) == ["1 of user1"]


def test_16_compressed_data_come_back_as_they_are_also_after_a_change(store: Store) -> None:
    from gzip import compress, decompress

    push(store, "a", compress(b'{"n": 1}', mtime=0))
    (job,) = acquire(store)

    def count(data: bytes) -> bytes:
        return compress(decompress(data) + b"\n", mtime=0)

    store.reports.set_data(run_of(job), count)
    assert decompress(the(store, "a").data or b"") == b'{"n": 1}\n'


def test_17_merged_data_survive_a_release(store: Store) -> None:
    push(store, "a", b'{"n": 1, "kept": 2}')
    (job,) = acquire(store)
    told.update_data(store, run_of(job), {"n": 2, "new": "\u00fc"}, replace=False)
    finish(store, [ended(job, Released(), now=NOW + 1)])
    (again,) = acquire(store, node="node-2", now=NOW + 1)
    assert again.data == '{"n": 2, "kept": 2, "new": "\u00fc"}'.encode()


def test_18_broken_json_is_kept_as_it_is_and_nothing_is_guessed(store: Store) -> None:
    push(store, "type.1", b'{"n": ')
    (job,) = acquire(store)
    assert (job.data, job.type) == (b'{"n": ', "")
    with pytest.raises(StateError, match="no JSON object"):
        told.update_data(store, run_of(job), {"n": 1}, replace=False)
    assert the(store, "type.1").data == b'{"n": '


def test_19_a_heartbeat_may_change_nothing_and_who_lost_the_job_hears_it(store: Store) -> None:
    push(store, "a")
    (job,) = acquire(store)
    for _ in range(2):
        assert told.heartbeat(store, run_of(job)) == the(store, "a")
    with pytest.raises(LeaseLostError):
        told.heartbeat(store, run_of(job)._replace(job="b"))
    finish(store, [ended(job)])
    with pytest.raises(LeaseLostError):
        told.heartbeat(store, run_of(job))


@pytest.mark.needs("transactions")
def test_22_what_fails_half_way_leaves_no_lock(store: Store, other: Store) -> None:
    push(store, "a")

    def break_off() -> None:
        acquire(store)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.transact(break_off)
    assert ids(take(other, 9, node="node-2", queues=ANY)) == ["a"]


def test_24_types_are_routed_exactly_and_an_unknown_one_waits(store: Store) -> None:
    push(store, "a", type="mail")
    push(store, "b", type="mailbox")
    mail = Serving(handlers=(f"{TYPE}mail",))
    assert ids(take(store, 9, queues=mail)) == ["a"]
    assert take(store, 9, queues=Serving(handlers=(f"{TYPE}mai",))) == []
    waiting = the(store, "b")
    assert (waiting.state, waiting.failures) == (State.PENDING, 0)


@pytest.mark.needs("transactions")
def test_33_many_at_once_lose_and_double_nothing(store: Store, url: str) -> None:
    threads, each = 5, 50

    def work(n: int) -> list[str]:
        mine = open_store(url)
        node, done = f"worker-{n}", []
        a_node(mine, node)
        for k in range(each):
            mine.jobs.enqueue([NewJob(id=f"{n}.{k}", type="", data=b"x")], now=NOW)
            for job in claim(mine, node, [1], ANY, now=NOW).jobs:
                assert told.heartbeat(mine, run_of(job)).id == job.id
                assert finish(mine, [ended(job)]) == []
                done.append(job.id)
        mine.close()
        return done

    with ThreadPoolExecutor(threads) as pool:
        done = [id for some in pool.map(work, range(threads)) for id in some]
    done += [job.id for job in acquire(store, threads * each)]
    assert sorted(done) == sorted(f"{n}.{k}" for n in range(threads) for k in range(each))


def test_34_big_data_are_acquired_like_small_ones(store: Store) -> None:
    data = bytes(range(256)) * 4096
    for n in range(3):
        push(store, f"big {n}", data)
    push(store, "small", b"", priority=1)
    assert [len(job.data or b"") for job in acquire(store, 9)] == [0, *[2**20] * 3]
