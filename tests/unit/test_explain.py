"""Why a job waits: every reason there is, from facts alone."""

from datetime import UTC, datetime
from typing import Any

import pytest

from queuectl.explain import Cause, Crew, Reason, Surroundings, explain, hindrances
from queuectl.facts import QueueInfo
from queuectl.job import State
from queuectl.lifecycle import ROOM_WITHIN
from queuectl.when import human, local
from tests.unit.samples import NOW, a_job

FREE = Crew(queues=(), workers=4, busy=3)
BUSY = Crew(queues=(), workers=2, busy=2)


def why(*crews: Crew, queues: tuple[QueueInfo, ...] = (), **changes: Any) -> list[Reason]:
    """Explain a job that is ready but for these changes."""
    ready = {"state": State.PENDING, "queue": "mail", "expires_at": None, "crashes": 0}
    around = Surroundings(now=NOW, crews=crews, queues=queues, suspicious=2)
    return explain(a_job(**(ready | changes)), around)


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
    (elsewhere,) = why(Crew(queues=("a", "b"), workers=1, busy=0), queue="my mail")
    assert elsewhere.cause == Cause.NOT_SERVED
    assert elsewhere.text == "no worker serves my mail"
    assert elsewhere.remedy == "worker start --queue 'my mail'"
    (leaving,) = why(Crew(queues=(), workers=1, busy=0, stopping=True))
    assert (leaving.cause, leaving.text) == (Cause.NO_WORKER, "all workers are stopping")
    serving = Crew(queues=("mail",), workers=1, busy=0)
    assert causes(why(serving)) == [Cause.ITS_TURN]


@pytest.mark.parametrize(
    ("crews", "text"),
    [
        ((Crew(queues=("mail",), workers=1, busy=1), Crew(queues=("x",), workers=9, busy=0)),
         "the one worker that serves it is busy"),
        ((BUSY,), "both workers that serve it are busy"),
        ((BUSY, BUSY), "all 4 workers that serve it are busy"),
        ((BUSY, Crew(queues=(), workers=3, busy=0, stopping=True)),
         "both workers that serve it are busy"),
    ],
)  # fmt: skip
def test_all_are_busy(crews: tuple[Crew, ...], text: str) -> None:
    (reason,) = why(*crews)
    assert (reason.cause, reason.text, reason.remedy) == (Cause.BUSY, text, None)


def test_a_suspect_waits_for_an_idle_node_but_not_for_long() -> None:
    (reason,) = why(FREE, crashes=2, run_at=NOW - 1_000)
    assert (reason.cause, reason.ends_at) == (Cause.ALONE, NOW - 1_000 + ROOM_WITHIN)
    assert causes(why(FREE, crashes=1, run_at=NOW)) == [Cause.ITS_TURN]
    assert causes(why(FREE, crashes=2, run_at=NOW - ROOM_WITHIN)) == [Cause.ITS_TURN]
    idle = Crew(queues=(), workers=1, busy=0)
    assert causes(why(BUSY, idle, crashes=2, run_at=NOW)) == [Cause.ITS_TURN]


def test_all_reasons_are_named() -> None:
    paused = QueueInfo(name="mail", paused_at=NOW, paused_by="ann")
    found = why(queues=(paused,), run_at=NOW + 1)
    assert causes(found) == [Cause.NOT_DUE, Cause.PAUSED, Cause.NO_WORKER]


def test_without_queues_only_that_nobody_lives_counts() -> None:
    def of(*crews: Crew) -> list[Cause]:
        return causes(hindrances((), crews, ()))

    assert of() == [Cause.NO_WORKER]
    assert of(Crew(queues=("x",), workers=1, busy=1, stopping=True)) == []
