"""Groups on real nodes: what their runs are told, stopping, and what follows the end, once."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl.job import State
from tests.support import Lab, lab_in


@pytest.fixture(params=["sqlite", "postgres", "mariadb"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    """A queue in each database."""
    kind = request.param
    url = None if kind == "sqlite" else request.getfixturevalue(f"{kind}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def test_what_follows_the_end_of_a_group_runs_once(anywhere: Lab) -> None:
    lab, queue = anywhere, anywhere.queue
    given = ("--group", "g", "--max-retries", "0", "--cwd", str(lab.folder))
    told = lab.run(
        *("enqueue", 'echo "$QUEUECTL_GROUP" >> told; test {} != 7', "--array", "1-40"),
        *(*given, "--on-done", 'echo "$QUEUECTL_GROUP" >> over'),
    )
    assert told.stdout == "Enqueued 40 jobs in group g.\n", told.stderr
    for node in [lab.node("--drain", count=4) for _ in range(3)]:
        assert node.wait(120) == 0
    group = queue.groups.wait("g", timeout="10s")
    assert (group.completed, group.dead, group.rounds) == (39, 1, 1)
    assert lab.lines("told") == ["g"] * 40
    assert lab.lines("over") == ["g"]
    assert queue.groups.retry("g") == 1
    lab.node("--drain").wait(60)
    assert queue.groups.get("g").rounds == 2
    assert lab.lines("over") == ["g"]


def test_too_many_dead_ones_stop_a_group_and_a_retry_starts_it_again(anywhere: Lab) -> None:
    lab, queue = anywhere, anywhere.queue
    command = f"test -e {lab.folder}/mended"
    queue.enqueue_many([command] * 20, group="g", max_fails=2, max_retries=0)
    lab.node("--drain").wait(60)
    group = queue.groups.get("g")
    # A worker has the next short jobs at hand when the second one is dead.
    assert (group.dead + group.cancelled, group.came_to) == (20, State.DEAD)
    assert 2 <= group.dead < 20
    (lab.folder / "mended").touch()
    assert queue.groups.retry("g") == 20
    lab.node("--drain", count=2).wait(60)
    assert queue.groups.wait("g", timeout="10s").came_to == State.COMPLETED
    assert [row.job.state for row in queue.groups.results("g")] == [State.COMPLETED] * 20


def test_one_that_waits_for_several_groups_is_told_none(lab: Lab) -> None:
    queue = lab.queue
    queue.enqueue_many(["true"], group="a")
    queue.enqueue_many(["true"], group="b")
    both = queue.enqueue('echo "${QUEUECTL_GROUP-none}"', after_group=["a", "b:any"])
    one = queue.enqueue('echo "$QUEUECTL_GROUP"', after_group=["b"])
    own = queue.enqueue('echo "$QUEUECTL_GROUP"', after_group=["b"], group="mine")
    lab.node("--drain").wait(60)
    written = [queue.output(job.id).stdout for job in (both, one, own)]
    assert written == [b"none\n", b"b\n", b"mine\n"]
