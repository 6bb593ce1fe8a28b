"""Why a job waits: every reason there is, from facts alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from queuectl.admission import ALL_QUEUES, Serving
from queuectl.explain import Cause, Crew, Reason, Surroundings, explain, hindrances, node_gone
from queuectl.facts import Node, QueueInfo
from queuectl.job import State
from queuectl.lifecycle import ROOM_WITHIN
from queuectl.limits import Limits, parse_rate
from queuectl.lineage import Relative, Root, Roots
from queuectl.when import human, local
from tests.unit.samples import NOW, a_job

FREE = Crew(queues=ALL_QUEUES, workers=4, busy=3)
BUSY = Crew(queues=ALL_QUEUES, workers=2, busy=2)


READY = {"state": State.PENDING, "queue": "mail", "expires_at": None, "crashes": 0, "keys": ()}


def why(*crews: Crew, queues: tuple[QueueInfo, ...] = (), **changes: Any) -> list[Reason]:
    """Explain a job that is ready but for these changes."""
    around = Surroundings(now=NOW, crews=crews, queues=queues, suspicious=2)
    return explain(a_job(**(READY | changes)), around)


def limited(*, closed_until: int | None = None, **limits: Any) -> QueueInfo:
    """Return the queue `mail` with limits."""
    for name in ("rates", "key_rates"):
        limits[name] = tuple(map(parse_rate, limits.get(name, ())))
    return QueueInfo(
        name="mail",
        paused_at=None,
        paused_by=None,
        limits=Limits(**limits),
        closed_until=closed_until,
    )


def why_by(info: QueueInfo, running: str = "", **changes: Any) -> list[Reason]:
    """Explain a job of a queue with limits; jobs that run are `id:key`."""
    jobs = [word.partition(":") for word in running.split()]
    around = Surroundings(
        now=NOW,
        crews=(FREE,),
        queues=(QueueInfo(name="a", paused_at=None, paused_by=None), info),
        suspicious=2,
        running=tuple(
            a_job(id=id, queue="mail", keys=(key,), node="node-1", worker=worker)
            for worker, (id, _, key) in enumerate(jobs)
        ),
    )
    return explain(a_job(**(READY | changes)), around)


def causes(reasons: list[Reason]) -> list[Cause]:
    return [reason.cause for reason in reasons]


@pytest.mark.parametrize("state", [s for s in State if s not in ("pending", "failed", "blocked")])
def test_what_does_not_wait_has_no_reason(state: State) -> None:
    assert why(state=state) == []


def test_a_job_that_waits_has_one() -> None:
    (reason,) = why(FREE)
    assert reason.cause == Cause.ITS_TURN
    assert why(FREE, state=State.BLOCKED)[0].cause == Cause.BLOCKED


@pytest.mark.parametrize(
    ("state", "cause", "what"),
    [
        (State.PENDING, Cause.NOT_DUE, "it isn't due"),
        (State.FAILED, Cause.RETRY, "its retry isn't due"),
    ],
)
def test_its_time_has_not_come(state: State, cause: Cause, what: str) -> None:
    due = NOW + 7_500_000
    (reason,) = why(FREE, state=state, run_at=due, id="my job")
    text = f"{what} until {local(due)} (in {human(7_500_000)})"
    remedy = "retry 'my job'"
    assert reason == Reason(cause=cause, text=text, remedy=remedy, ends_at=due)
    assert reason.until == datetime(2025, 11, 8, 15, 5, tzinfo=UTC)
    assert reason.as_dict() == {
        "cause": cause,
        "text": text,
        "remedy": "queuectl retry 'my job'",
        "until": "2025-11-08T15:05:00.000Z",
        "jobs": [],
        "groups": [],
    }
    assert causes(why(FREE, state=state, run_at=NOW)) == [Cause.ITS_TURN]


def test_its_time_to_start_is_over() -> None:
    assert causes(why(FREE, expires_at=NOW)) == [Cause.EXPIRED]
    assert causes(why(expires_at=NOW - 1)) == [Cause.EXPIRED, Cause.NO_WORKER]
    assert causes(why(FREE, expires_at=NOW + 1)) == [Cause.ITS_TURN]


def test_its_queue_is_paused() -> None:
    infos = (
        QueueInfo(name="mail", paused_at=NOW - 5_000, paused_by="ann"),
        QueueInfo(name="other", paused_at=NOW - 6_000, paused_by="bob"),
    )
    (reason,) = why(FREE, queues=infos)
    assert reason.text == f"queue mail is paused by ann since {local(NOW - 5_000)}"
    assert reason.remedy == "resume mail"
    assert reason.until is None
    assert causes(why(FREE, queues=infos, queue="third")) == [Cause.ITS_TURN]
    resumed = QueueInfo(name="mail", paused_at=None, paused_by=None)
    assert causes(why(FREE, queues=(resumed,))) == [Cause.ITS_TURN]
    (both,) = hindrances({"mail", "other"}, (FREE,), infos)
    assert (both.text, both.remedy) == ("queues mail, other are paused", "resume mail other")


def test_who_works() -> None:
    (nobody,) = why()
    assert (nobody.text, nobody.remedy) == ("no worker is running", "worker start")
    (elsewhere,) = why(Crew(queues=Serving(("a", "b")), workers=1, busy=0), queue="my mail")
    assert elsewhere.cause == Cause.NOT_SERVED
    assert elsewhere.text == "no worker serves my mail"
    assert elsewhere.remedy == "worker start --queue 'my mail'"
    (shared,) = why(Crew(queues=Serving(("a",)), workers=1, busy=0), queue="b:7")
    assert shared.remedy == "worker start --queue b:7:1"
    (but_this,) = why(Crew(queues=Serving(excluded=("mail",)), workers=1, busy=0), queue="mail")
    assert but_this.cause == Cause.NOT_SERVED
    assert causes(why(Crew(queues=Serving(excluded=("x",)), workers=1, busy=0))) == [Cause.ITS_TURN]
    (leaving,) = why(Crew(queues=ALL_QUEUES, workers=1, busy=0, stopping=True))
    assert (leaving.cause, leaving.text) == (Cause.NO_WORKER, "all workers are stopping")
    serving = Crew(queues=Serving(("mail",)), workers=1, busy=0)
    assert causes(why(serving)) == [Cause.ITS_TURN]


@pytest.mark.parametrize(
    ("crews", "text"),
    [
        ((Crew(queues=Serving(("mail",)), workers=1, busy=1),
          Crew(queues=Serving(("x",)), workers=9, busy=0)),
         "the one worker that serves it is busy"),
        ((BUSY,), "both workers that serve it are busy"),
        ((BUSY, BUSY), "all 4 workers that serve it are busy"),
        ((BUSY, Crew(queues=ALL_QUEUES, workers=3, busy=0, stopping=True)),
         "both workers that serve it are busy"),
    ],
)  # fmt: skip
def test_all_are_busy(crews: tuple[Crew, ...], text: str) -> None:
    (reason,) = why(*crews)
    assert (reason.cause, reason.text, reason.remedy) == (Cause.BUSY, text, None)


@pytest.mark.parametrize(
    ("place", "pace", "text"),
    [
        (17, 17 / 40_000, "both workers that serve it are busy (place 17 in line, at the present"
         " rate about 40s)"),
        (1_000, None, "both workers that serve it are busy (place 1,000 in line)"),
        (None, 3.0, "both workers that serve it are busy"),
    ],
)  # fmt: skip
def test_its_place_in_line(place: int | None, pace: float | None, text: str) -> None:
    around = Surroundings(now=NOW, crews=(BUSY,), queues=(), suspicious=2, place=place, pace=pace)
    (reason,) = explain(a_job(**READY), around)
    assert (reason.cause, reason.text) == (Cause.BUSY, text)


class TestLimits:
    def test_the_limit_of_its_queue_is_full(self) -> None:
        info = limited(limit=2)
        (reason,) = why_by(info, "a1 b2")
        assert reason.cause == Cause.LIMIT
        assert reason.text == "limit 2 of 2 of queue mail is held by jobs a1, b2"
        assert causes(why_by(info, "a1")) == [Cause.ITS_TURN]
        (one,) = why_by(limited(limit=1), "a1")
        assert one.text == "limit 1 of 1 of queue mail is held by job a1"
        (many,) = why_by(limited(limit=4), "a b c d e")
        assert many.text == "limit 5 of 4 of queue mail is held by jobs a, b, c and 2 more"

    def test_its_key_is_full(self) -> None:
        info = limited(key_limit=1, key_limits={"gpu": 2})
        (reason,) = why_by(info, "a1:user42 b2:other", keys=("user42",))
        assert (reason.cause, reason.text) == (Cause.KEY, "key user42 runs 1 of 1: job a1")
        (gpu,) = why_by(info, "a1:gpu b2:gpu", keys=("user42", "gpu"))
        assert gpu.text == "key gpu runs 2 of 2: jobs a1, b2"
        assert causes(why_by(info, "a1:gpu", keys=("gpu",))) == [Cause.ITS_TURN]
        assert causes(why_by(info, "a1:user42")) == [Cause.ITS_TURN]

    def test_a_rate_of_its_queue_is_used_up(self) -> None:
        (soon,) = why_by(limited(rates=["20/1s"], closed_until=NOW + 300))
        assert soon.cause == Cause.RATE
        assert soon.text == "rate 20/1s of queue mail allows the next run in 300ms"
        assert soon.ends_at == NOW + 300
        later = NOW + 7_200_000
        (reason,) = why_by(limited(rates=["1/3h", "5/1d"], closed_until=later))
        assert reason.text == (
            f"rates 1/3h and 5/1d of queue mail allow the next run at {local(later)} (in 2h)"
        )
        assert causes(why_by(limited(rates=["20/1s"], closed_until=NOW))) == [Cause.ITS_TURN]

    def test_a_queue_that_is_closed_by_its_limit_says_nothing_of_rates(self) -> None:
        assert causes(why_by(limited(limit=1, closed_until=NOW + 9))) == [Cause.ITS_TURN]
        full = limited(limit=1, rates=["1/1s"], closed_until=NOW + 9)
        assert causes(why_by(full, "a1")) == [Cause.LIMIT]

    def test_a_rate_of_its_key_is_used_up(self) -> None:
        info = limited(key_rates=["10/1m"])
        (reason,) = why_by(info, keys=("user42",), parked="user42")
        assert (reason.cause, reason.ends_at) == (Cause.RATE, None)
        assert reason.text == "rate 10/1m of key user42 allows no run yet"
        assert causes(why_by(info, keys=("user42",), parked=None)) == [Cause.ITS_TURN]

    def test_what_is_not_due_has_no_use_for_them(self) -> None:
        assert causes(why_by(limited(limit=1), "a1", run_at=NOW + 1)) == [Cause.NOT_DUE]

    def test_all_of_them_are_named(self) -> None:
        found = why_by(limited(limit=1, key_limit=1), "a1:k", keys=("k",))
        assert causes(found) == [Cause.LIMIT, Cause.KEY]


def test_a_suspect_waits_for_an_idle_node_but_not_for_long() -> None:
    (reason,) = why(FREE, crashes=2, run_at=NOW - 1_000)
    assert (reason.cause, reason.ends_at) == (Cause.ALONE, NOW - 1_000 + ROOM_WITHIN)
    assert causes(why(FREE, crashes=1, run_at=NOW)) == [Cause.ITS_TURN]
    assert causes(why(FREE, crashes=2, run_at=NOW - ROOM_WITHIN)) == [Cause.ITS_TURN]
    idle = Crew(queues=ALL_QUEUES, workers=1, busy=0)
    assert causes(why(BUSY, idle, crashes=2, run_at=NOW)) == [Cause.ITS_TURN]


def test_all_reasons_are_named() -> None:
    paused = QueueInfo(name="mail", paused_at=NOW, paused_by="ann")
    found = why(queues=(paused,), run_at=NOW + 1)
    assert causes(found) == [Cause.NOT_DUE, Cause.PAUSED, Cause.NO_WORKER]


def test_without_queues_only_that_nobody_lives_counts() -> None:
    def of(*crews: Crew) -> list[Cause]:
        return causes(hindrances((), crews, ()))

    assert of() == [Cause.NO_WORKER]
    assert of(Crew(queues=Serving(("x",)), workers=1, busy=1, stopping=True)) == []


def test_its_node_is_gone() -> None:
    job = a_job(state=State.PROCESSING, node="node-1")
    node = Node(
        id="node-1",
        host="h",
        boot="b",
        pid=1,
        pid_start=2,
        workers=3,
        queues=ALL_QUEUES,
        spool="/s",
        version="1",
        started_at=NOW - 2,
        seen_at=NOW,
        lease_until=NOW + 1,
    )
    gone = f"it was running on node node-1, which has shown no sign of life since {local(NOW)}"
    rescued = node_gone(job, node, rescued=True)
    assert rescued == Reason(cause=Cause.NODE_GONE, text=f"{gone}; another node rescues it")
    left = node_gone(job, node, rescued=False)
    assert left.text == f"{gone}, and no other is running to rescue it"
    assert left.remedy == "worker start"
    unknown = node_gone(job, None, rescued=True)
    assert unknown.text == "it was running on node node-1; another node rescues it"


def related(id: str, state: State | None, **changes: Any) -> Relative:
    """Return a parent in this state, or one that is gone."""
    job = None if state is None else a_job(id=id, state=state, reason=None)
    fields: dict[str, Any] = {"id": id, "wanted": "ok", "came_to": None, "is_met": False}
    return Relative(**fields | {"job": job} | changes)


def root(id: str, state: State | None, **changes: Any) -> Root:
    """Return a root cause in this state, or one that is gone."""
    job = None if state is None else a_job(id=id, state=state, reason=changes.pop("reason", None))
    return Root(**{"id": id, "child": "child", "came_to": None, "job": job} | changes)


class TestBlocked:
    def told(self, parents: list[Relative], *roots: Root, is_whole: bool = True) -> list[Reason]:
        around = Surroundings(
            now=NOW,
            crews=(FREE,),
            queues=(),
            suspicious=2,
            parents=tuple(parents),
            roots=Roots(found=roots, is_whole=is_whole),
        )
        return explain(a_job(**READY | {"state": State.BLOCKED}), around)

    def test_names_the_parents_that_keep_it(self) -> None:
        parents = [
            related("done", State.COMPLETED, is_met=True),
            related("a", State.PENDING),
            related("b", State.PROCESSING, wanted="fail"),
        ]
        (reason,) = self.told(parents, root("a", State.PENDING), root("b", State.PROCESSING))
        assert reason.cause == Cause.BLOCKED
        assert reason.text == "it waits for a (pending) and b (processing, it is to fail)"
        assert reason.remedy is None

    def test_names_the_first_of_many(self) -> None:
        parents = [related(id, State.PENDING) for id in "abcde"]
        (reason,) = self.told(parents)
        assert reason.text == "it waits for a (pending), b (pending), c (pending) and 2 more"

    def test_names_what_its_parents_wait_for(self) -> None:
        parents = [related("a", State.BLOCKED)]
        (reason,) = self.told(parents, root("first", State.PENDING), is_whole=False)
        assert reason.text == (
            "it waits for a (blocked), and so for first (pending); more jobs are before it than"
            " were looked at"
        )

    def test_names_the_root_cause_and_what_helps(self) -> None:
        parents = [related("a", State.BLOCKED)]
        found = root("b c", State.DEAD, reason="exit code 1"), root("d", State.CANCELLED)
        blocked, reason = self.told(parents, *found, root("e", State.PENDING))
        assert blocked.text == "it waits for a (blocked)"
        assert reason.cause == Cause.ROOT_CAUSE
        assert reason.text == (
            "it waits in vain: job b c is dead (exit code 1) and job d is cancelled"
        )
        assert reason.remedy == "retry 'b c' d"

    def test_says_once_what_is_both_waited_for_and_the_root_cause(self) -> None:
        parents = [related(id, State.DEAD) for id in "ab"]
        dead = [root(id, State.DEAD) for id in "ab"]
        (reason,) = self.told(parents, *dead)
        assert reason.text == "it waits in vain: job a is dead and job b is dead"
        waits, _ = self.told([*parents, related("c", State.PENDING)], *dead)
        assert waits.text == "it waits for a (dead), b (dead) and c (pending)"

    def test_names_a_root_cause_that_is_gone(self) -> None:
        parents = [related("a", None, came_to=State.DEAD)]
        (reason,) = self.told(parents, root("a", None, came_to=State.DEAD))
        assert reason.cause == Cause.PARENT_GONE
        assert reason.text == "it waits in vain: job a, which was dead, is gone"
        assert reason.remedy == "edit child --unset after"
