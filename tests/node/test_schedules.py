"""Schedules at work: real nodes make the jobs of ticks, whoever of them lives."""

import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from queuectl.schedule import Schedule
from queuectl.values import replace
from tests.contract.tools import transaction
from tests.support import Lab, lab_in, wait_for

STORES = ("sqlite", "postgres", "mariadb")


@pytest.fixture(params=STORES)
def any_lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A lab on each store."""
    url = None
    if request.param != "sqlite":
        url = request.getfixturevalue(f"{request.param}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def made_by(lab: Lab, name: str) -> Counter[int]:
    """Count the jobs of each tick, which the jobs themselves say."""
    jobs = [job for job in lab.queue.list(limit=None) if job.schedule == name]
    return Counter(job.planned for job in jobs if job.planned is not None)


def wait_for_ticks(lab: Lab, name: str, many: int) -> None:
    """Wait until the times of some more ticks of a schedule have come, whether they come or not."""
    planned = lab.queue.schedules.next(name, many)
    wait_for(lambda: lab.queue.now() > planned[-1], "the times of ticks to come")


def test_a_tick_runs_and_knows_its_time(any_lab: Lab) -> None:
    lab = any_lab
    said = 'echo "$QUEUECTL_SCHEDULE $QUEUECTL_SCHEDULED_FOR"'
    lab.queue.schedules.add("often", "every 1s", said, tz="UTC", timeout="1m")
    lab.node()
    wait_for(lambda: len(lab.queue.list(state="completed")) >= 2, "two ticks to have run")
    job = lab.queue.list(state="completed")[0]
    assert (job.schedule, job.timeout) == ("often", 60_000)
    assert job.scheduled_for is not None
    planned = job.scheduled_for.strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3]
    assert lab.queue.output(job.id).stdout.decode() == f"often {planned}Z\n"


def test_a_schedule_that_is_added_later_is_heard_of(lab: Lab) -> None:
    lab.node()
    lab.queue.schedules.add("often", "every 1s", "true")
    wait_for(lambda: lab.queue.list(state="completed"), "a tick to have run")


def test_nodes_that_are_killed_double_and_lose_no_tick(any_lab: Lab) -> None:
    lab = any_lab
    lab.queue.schedules.add("all", "every 1s", "true", missed="all", overlap="allow")
    nodes = [lab.start_node() for _ in range(3)]
    for _ in range(6):
        done = len(made_by(lab, "all"))
        wait_for(lambda: len(made_by(lab, "all")) > done, "another tick")  # noqa: B023
        victim = nodes.pop(0)
        victim.send_signal(signal.SIGKILL)
        victim.wait()
        nodes.append(lab.start_node())
    lab.queue.schedules.pause("all")
    schedule = lab.queue.schedules.get("all")
    made = made_by(lab, "all")
    assert set(made.values()) == {1}
    expected = range(schedule.anchor + 1000, schedule.done_until + 1, 1000)
    assert sorted(made) == list(expected)


def test_without_nodes_the_last_tick_comes_later(lab: Lab) -> None:
    lab.queue.schedules.add("daily", "@daily", "true", tz="UTC")
    store, now = lab.queue.store, lab.queue.store.clock.now()
    past = now - 3 * 86_400_000

    def back(there: Schedule | None, at: int) -> Schedule:
        assert there is not None
        return replace(there, done_until=past, next_at=past + 1)

    store.schedules.change("daily", back)
    lab.node()
    wait_for(lambda: lab.queue.list(state="completed"), "the missed tick to come")
    assert len(lab.queue.list()) == 1
    (tick,) = made_by(lab, "daily")
    assert tick == now - now % 86_400_000


def test_a_node_that_can_not_write_makes_it_afterwards(lab: Lab) -> None:
    lab.node()
    lab.queue.schedules.add("often", "every 1s", "true", overlap="allow")
    wait_for(lambda: made_by(lab, "often"), "a tick")
    with transaction(lab.queue.store):
        lab.queue.store.settings.set_config("max_retries", "3", now=0)
        before = len(made_by(lab, "often"))
        wait_for_ticks(lab, "often", 3)
    wait_for(lambda: len(made_by(lab, "often")) > before, "another tick")
    assert set(made_by(lab, "often").values()) == {1}


def test_jobs_that_die_pause_it(lab: Lab) -> None:
    lab.queue.schedules.add("bad", "every 1s", "false", max_retries=0, pause_after=2)
    lab.node()
    wait_for(lambda: lab.queue.schedules.get("bad").paused_at is not None, "it to be paused")
    assert len(lab.queue.list(state=State.DEAD)) == 2
    assert lab.queue.schedules.resume("bad")
    wait_for(lambda: len(lab.queue.list(state=State.DEAD)) > 2, "it to go on")


def test_the_next_tick_cancels_what_runs(lab: Lab) -> None:
    lab.queue.schedules.add("long", "every 1s", "sleep 600", overlap="cancel-running")
    lab.node()
    wait_for(lambda: lab.queue.list(state="cancelled"), "the first to be cancelled")
    wait_for(lambda: lab.queue.list(state="processing"), "the next to run")
    lab.queue.schedules.remove("long")


def test_ticks_wait_for_the_job_before(lab: Lab) -> None:
    gate = lab.folder / "gate"
    wait = f"while ! test -e {gate}; do sleep 0.05; done"
    lab.queue.schedules.add("serial", "every 1s", wait, missed="all", overlap="all")
    lab.node()
    wait_for(lambda: lab.queue.list(state="processing"), "the first to run")
    wait_for_ticks(lab, "serial", 3)
    assert len(made_by(lab, "serial")) == 1
    gate.touch()
    wait_for(lambda: len(lab.queue.list(state="completed")) >= 4, "those that waited")
    ticks = sorted(made_by(lab, "serial"))
    assert ticks == list(range(ticks[0], ticks[-1] + 1, 1000))


def test_a_tick_for_a_queue_that_is_full_harms_nobody(lab: Lab) -> None:
    lab.queue.limits.set("full", max_waiting=1)
    lab.queue.pause("full")
    lab.queue.enqueue("true", queue="full")
    lab.queue.schedules.add("refused", "every 1s", "true", queue="full")
    lab.queue.schedules.add("often", "every 1s", "true")
    node = lab.node()
    wait_for(lambda: len(made_by(lab, "often")) >= 2, "ticks of another schedule")
    wait_for_ticks(lab, "refused", 2)
    assert node.poll() is None
    assert not made_by(lab, "refused")
    assert any("refused: skipped" in (event.detail or "") for event in lab.queue.events())
