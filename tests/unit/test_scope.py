"""What is done for somebody who is let in for some queues only changes no job of another."""

from collections.abc import Callable

import pytest

from queuectl import Queue
from queuectl.changes import Changed, Refused, cancelling
from queuectl.errors import DuplicateError, NotFoundError, QueuectlError
from queuectl.filter import Filter
from queuectl.job import Job
from queuectl.scope import keeping_to, reaches
from tests.support import Lab

CHANGES: dict[str, Callable[[Queue, Job], object]] = {
    "cancel": lambda queue, job: queue.cancel(job),
    "finish": lambda queue, job: queue.force_finish(job),
    "hold": lambda queue, job: queue.hold(job),
    "release": lambda queue, job: queue.release(job),
    "top": lambda queue, job: queue.top(job),
    "edit": lambda queue, job: queue.edit(job, priority=9),
    "move": lambda queue, job: queue.move(job, "mail"),
    "remove": lambda queue, job: queue.remove(job),
    "retry": lambda queue, job: queue.retry(job),
    "retry as another": lambda queue, job: queue.retry(job, changed={"priority": 9}),
    "pause": lambda queue, job: queue.pause_jobs([job]),
    "resume": lambda queue, job: queue.resume_jobs([job]),
    # What is named as it was found is looked at in the transaction only.
    "cancel some": lambda queue, job: queue.cancel_all([job]),
    "edit some": lambda queue, job: queue.edit_all([job], priority=9),
    "remove some": lambda queue, job: queue.remove_all([job]),
    "swap": lambda queue, job: queue.swap(job, queue.get("own")),
}


@pytest.fixture
def moved(lab: Lab) -> Job:
    """A job as it was found, before somebody moved it to another queue."""
    lab.queue.enqueue("true", id="own", queue="mail")
    found = lab.queue.enqueue("true", id="j", queue="mail")
    lab.queue.move("j", "other")
    return found


def test_of_none_it_is_of_all() -> None:
    assert reaches("a")
    with keeping_to(("a", "b")):
        assert reaches("a")
        assert not reaches("c")
    assert reaches("c")


@pytest.mark.parametrize("name", CHANGES)
def test_a_job_that_was_moved_away_meanwhile(lab: Lab, moved: Job, name: str) -> None:
    before = lab.queue.get("j")
    with keeping_to(("mail",)), pytest.raises(NotFoundError):
        CHANGES[name](lab.queue, moved)
    assert lab.queue.get("j") == before


def test_of_many_those_that_are_still_there(lab: Lab, moved: Job) -> None:
    told: list[Changed | Refused] = []
    with keeping_to(("mail",)):
        lab.queue.change_named([moved, lab.queue.get("own")], cancelling(), told=told.append)
        lab.queue.change_matching(Filter(), cancelling())
    assert [type(one) for one in told] == [Refused, Changed]
    assert lab.queue.get("j").state == "pending"


@pytest.mark.parametrize("how", ["return", "reject", "replace", "debounce"])
def test_a_unique_key_of_a_job_elsewhere(lab: Lab, how: str) -> None:
    lab.queue.enqueue("secret", id="j", queue="other", unique="k")
    before = lab.queue.get("j")
    asked = {"command": "true", "queue": "mail", "unique": "k", "on_duplicate": how}
    with keeping_to(("mail",)):
        with pytest.raises(DuplicateError) as raised:
            lab.queue.enqueue(asked)
        batch = lab.queue.enqueue_many([asked], keep_going=True)
    assert not {"secret", "'j'", " j "} & set(str(raised.value).split())
    assert (batch.ids, len(batch.refused)) == ((), 1)
    assert lab.queue.get("j") == before
    assert lab.queue.count() == 1


def test_a_unique_key_that_a_job_wants_back(lab: Lab) -> None:
    lab.queue.enqueue("true", id="j", queue="mail", unique="k")
    lab.queue.cancel("j")
    lab.queue.enqueue("secret", id="hidden", queue="other", unique="k")
    with keeping_to(("mail",)), pytest.raises(QueuectlError) as raised:
        lab.queue.retry("j")
    assert "hidden" not in str(raised.value)
