"""Which hooks an end calls for, and what can't be asked of a hook."""

import pytest

from queuectl.editing import edited
from queuectl.errors import StateError
from queuectl.hooks import Occasion, called_for, occasions
from queuectl.job import (
    Cancelled,
    Exited,
    Lost,
    NotStarted,
    Outcome,
    Released,
    Signalled,
    State,
    TimedOut,
)
from queuectl.request import LARGEST_PRIORITY
from tests.unit.samples import a_job

FAILURES = (Exited(1), Signalled(9), TimedOut(1), NotStarted("x"), Lost("x"))


@pytest.mark.parametrize("outcome", FAILURES)
def test_a_failure(outcome: Outcome) -> None:
    for state in (State.FAILED, State.PENDING):
        assert occasions(state, outcome) == (Occasion.FAILURE,)
    assert occasions(State.DEAD, outcome) == (Occasion.FAILURE, Occasion.DEAD)
    assert occasions(State.CANCELLED, outcome) == ()


def test_other_ends() -> None:
    assert occasions(State.COMPLETED, Exited(0)) == (Occasion.SUCCESS,)
    assert occasions(State.PENDING, Released()) == ()
    assert occasions(State.CANCELLED, Cancelled("x")) == ()
    assert occasions(State.DEAD, None) == (Occasion.DEAD,)


def test_the_highest_priority_stays() -> None:
    job = a_job(priority=LARGEST_PRIORITY, state=State.DEAD, hook=None)
    assert [hook.priority for hook in called_for(job, None)] == [LARGEST_PRIORITY]


def test_a_hook_gets_none_by_hand() -> None:
    with pytest.raises(StateError, match="is a hook, and hooks have none themselves"):
        edited(a_job(hook="dead 1 - a"), {"on_dead": "x"}, 0)
