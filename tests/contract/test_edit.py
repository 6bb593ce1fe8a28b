"""Jobs that wait and are made others, or held, by hand."""

from typing import Any

import pytest

from queuectl.errors import StateError
from queuectl.job import Job, State
from queuectl.limits import Limits
from queuectl.store import Store
from queuectl.store.contract import Decision, Edit
from queuectl.values import replace
from tests.contract.tools import HOUR, NOW, SECOND, a_node, add, ids, take, the


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
    assert take(store, 2, now=NOW + HOUR) == []
    assert store.runs.outlook().due is None
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
    edit(store, "c", keys=("l",), parked=None)
    assert ids(take(store, 3)) == ["c"]


@pytest.mark.parametrize("state", [State.PROCESSING, State.COMPLETED])
def test_only_one_that_waits(store: Store, state: State) -> None:
    from queuectl.job import Exited
    from tests.contract.tools import ended, finish

    add(store, "a")
    (job,) = take(store, 1)
    if state == State.COMPLETED:
        finish(store, [ended(job, Exited(0))])
    before = the(store, "a")
    with pytest.raises(StateError):
        edit(store, "a", priority=5)
    assert the(store, "a") == before
