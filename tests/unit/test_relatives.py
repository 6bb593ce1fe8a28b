"""The jobs around a job: what keeps it in the end, what it takes along, and the whole graph."""

import pytest

from queuectl import NotFoundError, Queue, State, relatives
from queuectl.explain import Cause
from queuectl.lineage import Graph
from queuectl.scope import keeping_to
from tests.contract.tools import bury_first
from tests.support import Lab

DEEP = 3_000


@pytest.fixture
def queue(lab: Lab) -> Queue:
    return lab.queue


def fill(queue: Queue, *links: str) -> None:
    """Enqueue jobs, each with those that it waits for: `child parent parent:any`."""
    queue.enqueue_many(
        [
            {"id": child, "command": f"echo {child}", "after": after, "max_retries": 0}
            for child, *after in map(str.split, links)
        ]
    )


def bury(queue: Queue, id: str) -> None:
    """Have a job fail for good."""
    queue.edit(id, priority=9)
    bury_first(queue.store, id)


def roots(queue: Queue, *ids: str) -> list[str]:
    return [root.id for root in relatives.roots(queue.store, [queue.get(id) for id in ids]).found]


def edges(graph: Graph) -> set[tuple[str, str]]:
    return {(link.parent, link.child) for link in graph.links}


class TestParents:
    def test_they_are_told_as_they_were_named(self, queue: Queue) -> None:
        fill(queue, "a", "b", "child b:any a")
        found = queue.parents("child")
        assert [(one.id, one.wanted, one.state, one.is_met) for one in found] == [
            ("b", "any", State.PENDING, False),
            ("a", "ok", State.PENDING, False),
        ]
        assert queue.parents("a") == []
        assert [(one.id, one.wanted) for one in queue.children("b")] == [("child", "any")]
        assert queue.children("child") == []

    def test_one_that_is_gone_is_told_with_how_it_ended(self, queue: Queue) -> None:
        fill(queue, "a", "child a:any")
        queue.cancel("a")
        queue.remove("a")
        (one,) = queue.parents("child")
        assert (one.id, one.state, one.came_to, one.is_met) == ("a", None, State.CANCELLED, True)

    def test_who_may_not_see_a_queue_is_told_ids_only(self, queue: Queue) -> None:
        queue.enqueue("true", id="theirs", queue="theirs")
        queue.enqueue("true", id="mine", queue="mine", after="theirs")
        queue.enqueue("true", id="other", queue="theirs", after="mine")
        with keeping_to(["mine"]):
            (parent,) = queue.parents("mine")
            assert (parent.id, parent.job) == ("theirs", None)
            assert queue.children("mine") == []
            found = queue.graph_of("mine")
        assert [(node.id, node.title) for node in found.nodes] == [("theirs", ""), ("mine", "true")]


class TestRoots:
    def test_it_is_found_through_all_that_are_blocked(self, queue: Queue) -> None:
        fill(queue, "r", "s", "a r", "b r s", "c a b", "d c")
        assert roots(queue, "d") == ["r", "s"]
        assert roots(queue, "a") == ["r"]
        assert roots(queue, "r") == []

    def test_those_that_are_stuck_come_first(self, queue: Queue) -> None:
        fill(queue, "fine", "bad", "a fine", "b bad", "c a b")
        job = queue.get("bad")
        queue.cancel("bad")
        # Whoever retries what was cancelled with it waits for it all the same.
        queue.retry("b")
        queue.retry("c")
        assert job.state == State.PENDING
        found = relatives.roots(queue.store, [queue.get("c")])
        assert [(root.id, root.is_stuck) for root in found.found] == [
            ("bad", True),
            ("fine", False),
        ]
        assert [root.child for root in found.stuck] == ["b"]

    def test_a_deep_chain_is_followed_to_its_beginning(self, queue: Queue) -> None:
        fill(queue, *(f"n{at} n{at - 1}" if at else "n0" for at in range(DEEP)))
        assert roots(queue, f"n{DEEP - 1}") == ["n0"]
        some = relatives.roots(queue.store, [queue.get(f"n{DEEP - 1}")], most=100)
        assert (some.found, some.is_whole) == ((), False)

    def test_one_that_was_stored_after_its_child_moved_is_found(self, queue: Queue) -> None:
        fill(queue, "r", "a r", "b a")
        queue.top("r")
        queue.enqueue("true", id="z")
        queue.swap("r", "z")
        assert roots(queue, "b") == ["r"]


class TestStuckGroups:
    """A group is stuck where all that is left waits in vain."""

    def fill(self, queue: Queue) -> None:
        fill(queue, "bad", "alive")
        jobs = [{"id": f"kept-{n}", "command": "true", "after": "bad"} for n in range(5)]
        queue.enqueue_many([*jobs, {"id": "free", "command": "true"}], group="g")

    def test_only_if_nothing_of_it_can_run(self, queue: Queue) -> None:
        self.fill(queue)
        assert queue.groups.stuck(["g"]) == []
        bury(queue, "bad")
        assert queue.groups.stuck(["g"]) == []
        queue.cancel("free")
        assert queue.groups.stuck(["none", "g"]) == ["g"]
        standing = queue.groups.progress("g")
        assert (standing.is_stuck, standing.left) == (True, None)
        queue.enqueue("true", id="late", group="g", delay="1h")
        assert queue.groups.stuck(["g"]) == []
        assert not queue.groups.progress("g").is_stuck

    def test_not_if_what_it_waits_for_goes_on(self, queue: Queue) -> None:
        self.fill(queue)
        queue.enqueue("true", id="goes on", group="g", after="alive")
        queue.cancel("free")
        bury(queue, "bad")
        assert queue.groups.stuck(["g"]) == []
        queue.retry("bad")
        assert queue.groups.stuck(["g"]) == []

    def test_of_a_large_one_it_is_known_if_all_that_is_left_is_among_the_newest(
        self, queue: Queue
    ) -> None:
        self.fill(queue)
        bury(queue, "bad")
        queue.cancel("free")

        def told(looks: int) -> bool:
            group = queue.groups.get("g")
            return relatives.is_in_vain(queue.store, group, most=2, looks=looks)

        assert told(looks=6)
        # The last of those that are blocked wasn't looked at.
        assert not told(looks=4)
        queue.cancel("kept-0")
        assert told(looks=5)


class TestRootsInGroups:
    """What waits for a group is kept by jobs of it."""

    def fill(self, queue: Queue, wanted: str = "") -> None:
        queue.enqueue("true", id="source", max_retries=0)
        queue.enqueue("true", id="member", group="night", after="source", max_retries=0)
        queue.enqueue("true", id="other", group="night", max_retries=0)
        queue.enqueue("true", id="report", after_group=f"night{wanted}")

    def reasons(self, queue: Queue) -> list[tuple[str, str | None]]:
        found = queue.explain("report")
        said = {Cause.BLOCKED, Cause.ROOT_CAUSE}
        return [(reason.text, reason.remedy) for reason in found if reason.cause in said]

    def test_it_is_looked_into(self, queue: Queue) -> None:
        self.fill(queue)
        assert roots(queue, "report") == ["night", "source"]
        text = "it waits for group night (not over), and so for source (pending)"
        assert self.reasons(queue) == [(text, None)]

    def test_a_job_that_blocks_one_of_its_jobs_is_named(self, queue: Queue) -> None:
        self.fill(queue)
        bury(queue, "source")
        assert self.reasons(queue) == [
            ("it waits for group night (not over)", None),
            (
                "it waits in vain: job source is dead (exit code 1; no retries allowed)",
                "retry source",
            ),
        ]

    def test_one_that_is_dead_is_named(self, queue: Queue) -> None:
        self.fill(queue)
        bury(queue, "other")
        dead = "job other is dead (exit code 1; no retries allowed)"
        text = f"it waits in vain: group night isn't over, and {dead}"
        assert self.reasons(queue) == [(text, "retry --group night")]
        queue.force_finish("source")
        queue.force_finish("member")
        text = f"it waits in vain: group night is dead, and {dead}"
        assert self.reasons(queue) == [(text, "retry --group night")]

    def test_for_who_waits_for_any_end_a_dead_one_is_none(self, queue: Queue) -> None:
        self.fill(queue, ":any")
        bury(queue, "other")
        text = "it waits for group night (not over), and so for source (pending)"
        assert self.reasons(queue) == [(text, None)]

    def test_a_group_that_waits_for_a_group(self, queue: Queue) -> None:
        self.fill(queue)
        queue.enqueue("true", id="late", group="day", after_group="night")
        queue.enqueue("true", id="last", after_group="day")
        bury(queue, "source")
        assert roots(queue, "last") == ["source", "day", "night"]


class TestAlong:
    def test_those_that_want_it_to_complete_or_fail_go_with_it(self, queue: Queue) -> None:
        fill(queue, "r", "ok r", "fail r:fail", "any r:any", "deep ok", "last deep any")
        found = queue.taken_along(["r"])
        assert (sorted(found.ids), found.is_whole) == (["deep", "fail", "last", "ok"], True)
        foreseen = set(found.ids)
        queue.cancel("r")
        gone = {job.id for job in queue.list(state="cancelled", limit=None)} - {"r"}
        assert gone == foreseen

    def test_what_is_over_takes_nothing_along(self, queue: Queue) -> None:
        fill(queue, "r", "a r:any")
        queue.cancel("r")
        assert queue.taken_along(["r"]).ids == ()

    def test_it_counts_only_so_far(self, queue: Queue) -> None:
        fill(queue, "r", *(f"c{at} r" for at in range(20)))
        assert len(queue.taken_along(["r"], limit=20).ids) == 20
        assert queue.taken_along(["r"], limit=20).is_whole
        some = queue.taken_along(["r"], limit=7)
        assert (len(some.ids), some.is_whole) == (7, False)

    def test_those_that_are_meant_themselves_are_not_counted(self, queue: Queue) -> None:
        fill(queue, "r", "a r", "b a")
        assert queue.taken_along(["r", "a"]).ids == ("b",)

    def test_undo_brings_them_back(self, queue: Queue) -> None:
        fill(queue, "r", "a r", "b a", "c r:any")
        queue.cancel("r")
        assert {job.id: job.state for job in queue.list()} == {
            "r": State.CANCELLED,
            "a": State.CANCELLED,
            "b": State.CANCELLED,
            "c": State.PENDING,
        }
        undone = queue.undo()
        assert (undone.jobs, undone.refused) == (3, 0)
        assert {job.id: job.state for job in queue.list()} == {
            "r": State.PENDING,
            "a": State.BLOCKED,
            "b": State.BLOCKED,
            "c": State.PENDING,
        }


def test_children_are_counted(queue: Queue) -> None:
    fill(queue, "r", *(f"k{at} r" for at in range(30)), "alone")
    assert [queue.count_children(id) for id in ("r", "k1", "alone")] == [30, 0, 0]
    assert queue.count_children("r", limit=20) == 20
    queue.enqueue("true", id="hidden", queue="other", after="r")
    with keeping_to(["default"]):
        assert queue.count_children("r") == 30
    assert queue.count_children("r") == 31


class TestGraph:
    def test_it_has_all_before_and_behind_with_all_links(self, queue: Queue) -> None:
        fill(queue, "r", "a r", "b r", "c a b r", "side", "d c side:any", "alone")
        found = queue.graph_of("a")
        assert [node.id for node in found.nodes] == ["r", "a", "c", "d"]
        assert edges(found) == {("r", "a"), ("a", "c"), ("r", "c"), ("c", "d")}
        assert found.is_whole
        assert edges(queue.graph_of("d")) == {
            *(("r", "a"), ("r", "b"), ("a", "c"), ("b", "c"), ("r", "c"), ("c", "d")),
            ("side", "d"),
        }

    def test_the_nearest_are_there_if_there_is_no_room_for_all(self, queue: Queue) -> None:
        fill(queue, *(f"n{at} n{at - 1}" if at else "n0" for at in range(40)))
        found = queue.graph_of("n20", limit=5)
        assert [node.id for node in found.nodes] == ["n18", "n19", "n20", "n21", "n22"]
        assert not found.is_whole
        assert queue.graph_of("n20", limit=40).is_whole

    def test_of_jobs_with_very_many_links_there_are_fewer(self, queue: Queue) -> None:
        before = [f"a{at}" for at in range(150)]
        fill(queue, *before, *(f"b{at} {' '.join(before)}" for at in range(150)))
        found = queue.graph_of("a0", limit=151)
        # 50 for each job, and those of one more, which may be very many.
        assert 100 <= len(found.links) <= 151 * 50 + 10_000
        assert len(found.nodes) < 151
        assert not found.is_whole
        assert queue.graph_of("a0", limit=1_000).is_whole

    def test_a_group_is_drawn_with_the_links_among_its_jobs(self, queue: Queue) -> None:
        fill(queue, "outside")
        for id, *after in (["a", "outside"], ["b", "a"], ["c", "a:any"]):
            queue.enqueue(f"echo {id}", id=id, group="nightly", after=after)
        found = queue.graph_of_group("nightly")
        assert [node.id for node in found.nodes] == ["a", "b", "c"]
        assert edges(found) == {("a", "b"), ("a", "c")}
        assert found.is_whole
        some = queue.graph_of_group("nightly", limit=2)
        assert ([node.id for node in some.nodes], some.is_whole) == (["a", "b"], False)
        with pytest.raises(NotFoundError, match="No job is in group 'weekly'"):
            queue.graph_of_group("weekly")

    def test_a_parent_that_is_gone_is_there_by_its_id(self, queue: Queue) -> None:
        fill(queue, "r", "a r:any")
        queue.cancel("r")
        queue.remove("r")
        found = queue.graph_of("a")
        assert [(node.id, node.state) for node in found.nodes] == [
            ("r", None),
            ("a", State.PENDING),
        ]
        (link,) = found.links
        assert (link.parent, link.came_to, link.is_met) == ("r", State.CANCELLED, True)


class TestAroundGroups:
    @pytest.fixture
    def grouped(self, queue: Queue) -> Queue:
        """A group of three, one after the other, and others that wait for it or for one of them."""
        queue.enqueue("true", id="a", group="g")
        queue.enqueue("true", id="b", group="g", after="a")
        queue.enqueue("true", id="c", group="g", after="b:any")
        queue.enqueue("true", id="outside", after="b")
        queue.enqueue("true", id="ok", after_group="g")
        queue.enqueue("true", id="any", after_group="g:any")
        queue.enqueue("true", id="deep", after="ok")
        queue.groups.on_done("g", "echo over", id="last")
        return queue

    def test_who_waits_for_it(self, grouped: Queue) -> None:
        found = grouped.groups.children("g")
        assert [(one.id, one.wanted, one.state, one.is_group) for one in found] == [
            ("ok", "ok", State.BLOCKED, False),
            ("any", "any", State.BLOCKED, False),
            ("last", "any", State.BLOCKED, False),
        ]
        follower = grouped.groups.follower("g")
        assert follower is not None
        assert follower.id == "last"
        grouped.enqueue("true", group="h")
        assert grouped.groups.follower("h") is None

    def test_what_a_cancellation_takes_along_is_foreseen(self, grouped: Queue) -> None:
        found = grouped.groups.taken_along("g")
        assert (sorted(found.ids), found.is_whole) == (["deep", "ok", "outside"], True)
        assert not grouped.groups.taken_along("g", limit=2).is_whole
        grouped.groups.cancel("g")
        gone = {job.id for job in grouped.list(state="cancelled", limit=None)}
        assert gone == {*found.ids, "a", "b", "c"}
        assert grouped.groups.taken_along("g").ids == ()

    def test_of_one_with_a_dead_job_nothing_comes_but_what_wants_that(
        self, queue: Queue, lab: Lab
    ) -> None:
        queue.enqueue("false", id="dead", group="g", max_retries=0)
        queue.enqueue("true", id="there", group="g", delay="1h")
        queue.enqueue("true", id="ok", after_group="g")
        queue.enqueue("true", id="gone", after_group="g", if_parent_fails="cancel")
        lab.node("--drain")
        lab.wait_state("dead", State.DEAD)
        assert queue.groups.taken_along("g").ids == ("gone",)
        queue.groups.cancel("g")
        assert queue.states(["ok", "gone"]) == {"ok": State.BLOCKED, "gone": State.CANCELLED}

    def test_what_keeps_its_blocked_jobs(self, grouped: Queue) -> None:
        grouped.enqueue("true", id="root", delay="1h")
        grouped.enqueue("true", id="late", group="g", after="root")
        found = grouped.groups.roots("g")
        assert ([root.id for root in found.found], found.is_whole) == (["root", "a"], True)
        some = relatives.roots_of_group(grouped.store, "g", most=1, looks=10)
        assert ([root.id for root in some.found], some.is_whole) == (["root"], False)
        some = relatives.roots_of_group(grouped.store, "g", most=10, looks=2)
        assert not some.is_whole

    def test_who_may_not_see_a_queue_is_told_nothing_of_it(self, grouped: Queue) -> None:
        grouped.enqueue("true", id="theirs", queue="theirs", after_group="g")
        with keeping_to(["default"]):
            assert "theirs" not in [one.id for one in grouped.groups.children("g")]
            assert "theirs" not in grouped.groups.taken_along("g").ids
        assert "theirs" in grouped.groups.taken_along("g").ids
