"""Jobs that wait and are made others, or held, by hand."""

from typing import Any

import pytest

from queuectl.errors import NotFoundError, StateError
from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.job import Exited, Job, NewJob, Output, State
from queuectl.limits import Limits
from queuectl.schedule import Overlap, Schedule
from queuectl.store import Store
from queuectl.store.contract import Decision, Edit, Ticked
from queuectl.values import replace
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    claim,
    ended,
    finish,
    ids,
    remove,
    run,
    take,
    the,
)


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store, "node-1")


def edit(store: Store, id: str, *, now: int = NOW, **changes: Any) -> Job:
    """Make another job of one."""
    job = the(store, id)
    store.jobs.change(
        [job],
        lambda held, _: {seq: Decision(Edit(replace(held[seq], **changes))) for seq in held},
        now=now,
    )
    return the(store, id)


def test_what_a_request_decides_is_changed(store: Store) -> None:
    before = add(store, "a", tags=("old",), priority=1, env={"A": "1"})
    changes: dict[str, Any] = {
        "command": None,
        "argv": ("ls", "-l"),
        "queue": "other",
        "priority": 7,
        "tags": ("new", "newer"),
        "timeout": 5_000,
        "max_retries": 9,
        "env": {"B": "2"},
        "cwd": "/",
        "expires_at": NOW + HOUR,
    }
    after = edit(store, "a", now=NOW + SECOND, **changes)
    assert after == replace(before, updated_at=NOW + SECOND, **changes)
    assert store.jobs.like("ne", tags=True) == ["new", "newer"]
    assert store.jobs.like("old", tags=True) == []
    assert [(c.queue, c.priority, c.jobs, c.timed) for c in store.jobs.counts()] == [
        ("other", 7, 1, 1)
    ]


def test_the_line_is_another_then(store: Store) -> None:
    for id in "abc":
        add(store, id)
    edit(store, "c", priority=1)
    edit(store, "a", run_at=NOW + HOUR)
    assert ids(take(store, 3)) == ["c", "b"]
    edit(store, "a", run_at=NOW)
    assert ids(take(store, 3)) == ["a"]


def test_one_that_is_held_waits_until_it_is_released(store: Store) -> None:
    add(store, "a")
    add(store, "later", run_at=NOW + SECOND)
    assert edit(store, "a", parked="").is_held
    edit(store, "later", parked="")
    add(store, "another", run_at=NOW + SECOND)
    assert ids(take(store, 3, now=NOW + HOUR)) == ["another"]
    assert store.runs.outlook().due is None
    assert store.jobs.count_held(["default", "nowhere"]) == {"default": 2}
    assert store.jobs.count_held([]) == {}
    edit(store, "a", parked=None)
    edit(store, "later", parked=None)
    assert ids(take(store, 2, now=NOW + HOUR)) == ["a", "later"]


def test_limits_bring_back_nobody_who_is_held(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    add(store, "a", keys=("k",))
    edit(store, "a", parked="")
    store.settings.set_limits("default", lambda _: Limits())
    store.tidy(now=NOW)
    assert take(store, 2) == []


def test_another_key_is_another_line(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for id in "abc":
        add(store, id, keys=("k",))
    assert ids(take(store, 3)) == ["a"]
    edit(store, "c", keys=("l",))
    assert ids(take(store, 3)) == ["c"]


@pytest.mark.parametrize("state", [State.PROCESSING, State.COMPLETED])
def test_only_one_that_waits(store: Store, state: State) -> None:
    add(store, "a")
    (job,) = take(store, 1)
    if state == State.COMPLETED:
        finish(store, [ended(job, Exited(0))])
    before = the(store, "a")
    with pytest.raises(StateError):
        edit(store, "a", priority=5)
    assert the(store, "a") == before


# -- places in the line -----------------------------------------------------------------


def put_first(store: Store, *names: str, now: int = NOW) -> None:
    """Put jobs before all others."""
    jobs = [the(store, name) for name in names]
    store.jobs.change(
        jobs,
        lambda held, _: {
            job.seq: Decision(Edit(held[job.seq], first=True)) for job in jobs if job.seq in held
        },
        now=now,
    )


def test_who_is_put_first_goes_before_all_of_its_priority(store: Store) -> None:
    add(store, "urgent", priority=1)
    for id in "abcde":
        add(store, id)
    put_first(store, "d", "b")
    put_first(store, "e")
    assert ids(take(store, 6)) == ["urgent", "e", "d", "b", "a", "c"]


def test_who_is_put_first_goes_before_other_queues_too(store: Store) -> None:
    for n, queue in enumerate(("one", "two", "three")):
        add(store, f"{queue} {n}", queue=queue)
        add(store, f"{queue} {n} again", queue=queue)
    put_first(store, "three 2 again", now=NOW)
    put_first(store, "two 1 again", now=NOW + 1)
    found = ids(take(store, 6, now=NOW + 2))
    assert found[:2] == ["two 1 again", "three 2 again"]
    assert found[2:] == ["one 0", "one 0 again", "two 1", "three 2"]


def test_who_is_put_first_and_has_no_room_comes_first_when_there_is(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for id in "abc":
        add(store, id, keys=("k",))
    [a] = take(store, 3)
    put_first(store, "c")
    assert take(store, 3) == []
    finish(store, [ended(a)])
    assert ids(take(store, 3)) == ["c"]


def test_another_place_in_another_queue(store: Store) -> None:
    store.settings.set_limits("other", lambda _: Limits(key_limit=1))
    for id in "ab":
        add(store, id, keys=("k",), queue="other", is_limited=True)
    add(store, "c", keys=("k",))
    add(store, "d")
    for id in "cd":
        edit(store, id, queue="other")
    assert ids(take(store, 4)) == ["a", "d"]
    finish(store, [ended(the(store, "a"))])
    assert ids(take(store, 4)) == ["b"]


def test_one_that_leaves_the_line_lets_another_have_its_room(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for id in "abcd":
        add(store, id, keys=("k",))
    [a] = take(store, 3)
    finish(store, [ended(a)])
    edit(store, "b", parked="")
    assert ids(take(store, 3)) == ["c"]
    finish(store, [ended(the(store, "c"))])
    edit(store, "d", run_at=NOW + HOUR)
    assert take(store, 3) == []
    edit(store, "b", parked=None)
    assert ids(take(store, 3)) == ["b"]
    edit(store, "d", run_at=NOW)
    assert take(store, 3) == []
    finish(store, [ended(the(store, "b"))])
    assert ids(take(store, 3)) == ["d"]


def test_one_that_waits_for_a_key_can_be_put_off(store: Store) -> None:
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for id in "ab":
        add(store, id, keys=("k",))
    [a] = take(store, 3)
    edit(store, "b", run_at=NOW + HOUR)
    finish(store, [ended(a)])
    assert take(store, 3) == []
    assert ids(take(store, 3, now=NOW + HOUR)) == ["b"]


def test_one_that_is_retried_can_be_another(store: Store) -> None:
    from queuectl.lifecycle import retried

    add(store, "a", max_retries=0, expires_at=NOW + SECOND)
    died = run(store, "a", Exited(1))
    to = replace(died, command="echo b", queue="other", expires_at=None, run_at=NOW + HOUR)
    store.jobs.change(
        [died],
        lambda held, now: {died.seq: Decision(Edit(to, retried=retried(now)))},
        now=NOW + HOUR,
    )
    after = the(store, "a")
    assert (after.state, after.command, after.queue) == (State.PENDING, "echo b", "other")
    assert (after.failures, after.reason, after.attempts) == (0, None, 1)
    assert [(c.queue, c.state, c.jobs) for c in store.jobs.counts()] == [
        ("other", State.PENDING, 1)
    ]
    assert ids(take(store, 2, now=NOW + HOUR)) == ["a"]


# -- each other's place -------------------------------------------------------------------


def swap(store: Store, one: str, other: str, *, now: int = NOW) -> None:
    """Have two jobs take each other's place."""
    store.jobs.swap(the(store, one), the(store, other), lambda a, b, now: (), now=now)


def test_two_jobs_take_each_others_place(store: Store) -> None:
    for id in "abcde":
        add(store, id, priority=3 if id == "e" else 0)
    before = {id: the(store, id) for id in "be"}
    swap(store, "b", "e", now=NOW + 7)
    for one, other in ("be", "eb"):
        place: dict[str, Any] = {name: getattr(before[other], name) for name in ("seq", "priority")}
        assert the(store, one) == replace(before[one], **place, updated_at=NOW + 7)
    assert ids(take(store, 5)) == ["b", "a", "e", "c", "d"]


def test_all_that_is_kept_of_two_jobs_goes_along(store: Store) -> None:
    add(store, "a", tags=("x", "both"), stdin=b"of a", max_retries=5)
    failed = run(store, "a", Exited(1), output=Output(stdout=b"said", stdout_bytes=4))
    add(store, "b", tags=("y", "both"), stdin=b"of b")
    swap(store, "a", "b")
    a, b = the(store, "a"), the(store, "b")
    assert (a.seq, b.seq) == (b.seq + 1, failed.seq)
    assert [attempt.number for attempt in store.history.attempts(a)] == [1]
    assert store.history.attempts(b) == []
    kept = store.history.output(a, 1)
    assert kept is not None
    assert kept.stdout == b"said"
    assert store.history.output(b, 1) is None
    assert (store.jobs.stdin(a), store.jobs.stdin(b)) == (b"of a", b"of b")
    for tag, found in {"x": ["a"], "y": ["b"], "both": ["b", "a"]}.items():
        assert ids(store.jobs.select(Filter(tags=(tag,)), limit=9, oldest=True)) == found
    assert store.verify() == []


def test_a_schedule_knows_its_job_in_another_place(store: Store) -> None:
    schedule = Schedule(
        name="often",
        rule="every 1m",
        zone="UTC",
        anchor=NOW,
        request={"command": "true"},
        overlap=Overlap.ALL,
        done_until=NOW - 1,
        next_at=NOW,
        created_at=NOW,
        updated_at=NOW,
    )
    store.schedules.change("often", lambda there, now: schedule)

    def look(found: Schedule, newest: Job | None, now: int) -> Ticked:
        assert newest is None or newest.id == "ticked"
        after = replace(found, next_at=None, done_until=now)
        return Ticked(after, [] if newest else [(NOW, NewJob(id="ticked", command="true"))], None)

    store.schedules.tick(look, now=NOW)
    add(store, "b")
    swap(store, "ticked", "b")
    assert ids(take(store, 1)) == ["b"]
    [ticked] = take(store, 1)
    finish(store, [ended(ticked)])
    # It waits for the end of its newest job, and is looked at again.
    [found] = store.schedules.all()
    assert found.next_at is not None
    [tick] = store.schedules.ticks("often", 9)
    assert tick.job == "ticked"


def test_who_is_gone_has_no_place(store: Store) -> None:
    a, b = add(store, "a"), add(store, "b")
    remove(store, b)
    with pytest.raises(NotFoundError):
        store.jobs.swap(a, b, lambda a, b, now: (), now=NOW)
    assert the(store, "a") == a


def test_a_swap_that_is_refused_changes_nothing(store: Store) -> None:
    a, b = add(store, "a"), add(store, "b")

    def refuse(a: Job, b: Job, now: int) -> list[Event]:
        raise StateError("no")

    with pytest.raises(StateError):
        store.jobs.swap(a, b, refuse, now=NOW)
    assert (the(store, "a"), the(store, "b")) == (a, b)


def test_one_that_expires_while_it_is_held_is_no_longer_held(store: Store) -> None:
    add(store, "a", expires_at=NOW + SECOND)
    edit(store, "a", parked="")
    [dead] = claim(store, "node-1", [1], now=NOW + SECOND).buried
    assert (dead.state, dead.parked) == (State.DEAD, None)
    assert the(store, "a") == dead


@pytest.mark.needs("transactions")
def test_one_that_was_passed_over_while_it_was_edited_is_brought_back(
    store: Store, client: Client
) -> None:
    """Whoever made room for it couldn't see it: it was held by who edits it."""
    store.settings.set_limits("default", lambda _: Limits(key_limit=1))
    for id in "ab":
        add(store, id, keys=("k",))
    assert ids(take(store, 2)) == ["a"]
    client.run("UPDATE {jobs} SET state = 'completed', node = NULL WHERE id = 'a'")
    assert take(store, 2) == []
    edit(store, "b", priority=1)
    assert ids(take(store, 2)) == ["b"]
