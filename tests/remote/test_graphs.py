"""Jobs that wait for jobs behind a server: the same in Python, and nothing of other queues."""

from collections.abc import Iterator

import pytest

from queuectl import NotFoundError, Queue, State, chain, parallel
from queuectl.access import Role
from queuectl.changes import repairing
from queuectl.editing import retrying
from queuectl.errors import BadJobError, StuckError
from queuectl.filter import Filter
from queuectl.lineage import Relative
from tests.remote.conftest import token_of
from tests.support import Lab
from tests.web.conftest import Server


@pytest.fixture
def far(lab: Lab, server: Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """The queue behind a server, for somebody who may do everything."""
    monkeypatch.setenv("QUEUECTL_TOKEN", token_of(lab, "boss", *Role))
    with Queue(server.url) as queue:
        yield queue


def told(relatives: list[Relative]) -> list[tuple[object, ...]]:
    """Return what is told of relatives; of jobs, who may see what differs."""
    return [(one.id, one.wanted, one.state, one.came_to, one.is_met) for one in relatives]


def test_it_is_all_the_same_in_python(lab: Lab, far: Queue) -> None:
    first = far.enqueue("true", id="first")
    far.enqueue("true", id="second", after=first)
    batch = far.chain(["a", parallel(["b", chain(["c", "d"])]), "e"], after="second")
    with far.graph(tags=["x"]) as graph:
        one = graph.add("one", after=batch.ids[-1])
        two = graph.add("two", after=[one, "first:any"])
    stored = far.enqueue_graph([{"name": "n", "command": "n", "after": "first"}])
    near = lab.queue
    assert told(far.parents("second")) == told(near.parents("second"))
    assert told(far.children("first")) == told(near.children("first"))
    assert told(far.children("first", limit=2)) == told(near.children("first", limit=2))
    assert far.count_children("first") == near.count_children("first") == 3
    assert far.count_children("first", limit=2) == 2
    assert far.graph_of(one.id) == near.graph_of(one.id)
    assert far.graph_of(one.id, limit=3) == near.graph_of(one.id, limit=3)
    assert far.taken_along(["first"]) == near.taken_along(["first"])
    assert set(far.taken_along(["second"]).ids) == {*batch.ids, one.id, two.id}
    assert near.get(stored.names["n"]).after == ("first",)
    assert far.explain("second") == near.explain("second")
    assert far.is_stuck(["second"]) is near.is_stuck(["second"]) is False
    with pytest.raises(BadJobError, match="x -> y -> x"):
        far.enqueue_many(
            [
                {"id": "x", "command": "x", "after": "y"},
                {"id": "y", "command": "y", "after": "x"},
            ]
        )
    with pytest.raises(NotFoundError, match="'nobody'"):
        far.enqueue("true", after="nobody")
    far.edit("second", after=[])
    assert near.get("second").state == State.PENDING


def test_a_group_is_repaired_by_changing_what_failed_only(
    lab: Lab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    load: dict[str, object] = {
        "id": "load",
        "command": "echo load",
        "after": "bad",
        "env": {"SECRET": "x"},
    }
    jobs: list[dict[str, object]] = [{"id": "bad", "command": "false"}, load]
    lab.queue.enqueue_many(jobs, group="night", max_retries=0, if_parent_fails="cancel")
    assert lab.run("worker", "start", "--count", "1", "--drain").returncode == 0
    monkeypatch.setenv("QUEUECTL_TOKEN", token_of(lab, "mender", Role.OPERATE, Role.SUBMIT))
    with Queue(server.url) as far:
        change = repairing(retrying({"command": "true"}))
        assert far.change_matching(Filter(groups=("night",)), change) == 2
        lab.queue.enqueue("false", id="dead", max_retries=0)
        lab.queue.enqueue("true", id="kept", after="dead", group="stuck")
        assert not far.is_stuck(["kept"])
        assert lab.run("worker", "start", "--count", "1", "--drain").returncode == 0
        assert far.is_stuck(["kept"])
        assert far.is_stuck(Filter(groups=("stuck",)))
        with pytest.raises(StuckError, match="job dead is dead"):
            far.groups.wait("stuck", or_stuck=True)
    assert [lab.queue.get(id).command for id in ("bad", "load")] == ["true", "echo load"]


def test_who_is_let_in_for_some_queues_learns_nothing_of_others(
    lab: Lab, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    near = lab.queue
    near.enqueue("echo secret", id="theirs", queue="theirs")
    near.enqueue("true", id="mine", queue="mine", after="theirs")
    near.enqueue("echo secret", id="other", queue="theirs", after="mine")
    token = token_of(lab, "guest", Role.OPERATE, Role.SUBMIT, queues=("mine",))
    monkeypatch.setenv("QUEUECTL_TOKEN", token)
    with Queue(server.url) as far:
        look_around(far)
    client = server.client(Role.VIEW, queues=("mine",))
    around = client.get("/jobs/mine/graph").json
    assert [job["id"] for job in around["jobs"]][:2] == ["theirs", "mine"]
    whole = client.get("/jobs/mine").json
    assert [one["state"] for one in whole["parents"]] == [None]
    assert "other" not in [one["id"] for one in whole["children"]]
    assert "secret" not in str([around, whole])


def look_around(far: Queue) -> None:
    """Ask about jobs of a queue, and those around them in another."""
    with pytest.raises(NotFoundError, match="There is no job 'theirs'"):
        far.enqueue("true", queue="mine", after="theirs")
    with pytest.raises(NotFoundError, match="There is no job 'theirs'"):
        far.enqueue_many([{"command": "true", "queue": "mine", "after": "theirs"}])
    (parent,) = far.parents("mine")
    assert (parent.id, parent.job) == ("theirs", None)
    assert far.children("mine") == []
    graph = far.graph_of("mine")
    assert [(node.id, node.title, node.queue) for node in graph.nodes] == [
        ("theirs", "", None),
        ("mine", "true", "mine"),
    ]
    assert far.taken_along(["mine", "theirs"]).ids == ()
    for call in (far.parents, far.children, far.graph_of):
        with pytest.raises(NotFoundError):
            call("theirs")
    assert far.enqueue("true", queue="mine", after="mine").state == State.BLOCKED


def test_groups_are_all_the_same(lab: Lab, far: Queue) -> None:
    near = lab.queue
    near.enqueue("true", id="root", delay="1h")
    near.enqueue_many([{"id": f"j{n}", "command": "true"} for n in range(3)], group="g")
    near.enqueue("true", id="kept", group="g", after="root")
    near.enqueue("true", id="behind", after_group="g")
    near.groups.on_done("g", "true", id="last")
    assert told(far.groups.children("g")) == told(near.groups.children("g"))
    assert far.groups.follower("g") == near.groups.follower("g")
    assert far.groups.taken_along("g") == near.groups.taken_along("g")
    assert far.groups.taken_along("g").ids == ("behind",)
    assert far.groups.roots("g") == near.groups.roots("g")
    assert [root.id for root in far.groups.roots("g").found] == ["root"]
    assert far.groups.stuck(["g"]) == near.groups.stuck(["g"]) == []
    near.enqueue("false", id="bad", max_retries=0)
    near.enqueue("true", id="one", group="stuck", after="bad")
    lab.node()
    lab.wait_state("bad", State.DEAD)
    assert far.groups.stuck(["g", "stuck"]) == near.groups.stuck(["g", "stuck"]) == ["stuck"]
    assert far.groups.running() == near.groups.running() == {}
