"""Runs of warm programs: who is passed on when, and what is heard of a program that is gone."""

import select
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from queuectl.guard import wire
from queuectl.job import Exited
from queuectl.node.config import Config
from queuectl.node.handlers import Handlers
from queuectl.node.processes import Processes
from queuectl.node.programs import Handler, Programs
from queuectl.node.runs import Handled, Run
from queuectl.settings import Settings
from tests.unit.samples import a_job

COMMAND, TASK, BEHIND = 1, 2, 3


class Guards:
    """Stand in for the guards: they note what they are given, and report what they are told.

    Without a folder, no program can be started: whoever hands a task to one fails the test.
    """

    programs = Programs(warm=[Handler(name="shop", argv=["shop"])])
    config = Config(Settings())
    store = SimpleNamespace(url="queue.db", identity="queue")

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder
        self.orders: list[wire.Instruction] = []
        self.started: list[int] = []
        self.said: list[wire.Message] = []

    def start(self, runs: Mapping[int, Run]) -> "list[wire.Report]":
        self.started += runs
        return []

    def stop(self, runs: Mapping[int, Run], how: str = "") -> None:
        assert not runs

    kill = release = stop

    def hear(self, ready: object, runs: object) -> "Iterator[wire.Message]":
        while self.said:
            yield self.said.pop(0)

    def say(self, text: str, level: str = "info") -> None:
        """Say it to nobody."""

    def listen(self, poll: object) -> None:
        """Be heard of by nobody else."""

    @property
    def guards(self) -> Any:
        one = SimpleNamespace(pid=1, send=self.orders.extend)
        return SimpleNamespace(pids=lambda: {1}, of=lambda worker: one)

    @property
    def member(self) -> Any:
        assert self.folder is not None, "the task is handed to a program"
        board = SimpleNamespace(note=lambda *token: True)
        return SimpleNamespace(
            id="node-1", spool=str(self.folder), make_spool=lambda: None, board=board
        )


@pytest.fixture
def guard() -> Guards:
    return Guards()


@pytest.fixture
def handlers(guard: Guards) -> Handlers:
    """A command of a worker that runs, behind it a task, and behind that another command."""
    handlers = Handlers(processes=cast(Processes, guard))
    assert [*handlers.start(RUNS)] == []
    assert guard.started == [COMMAND]
    return handlers


def run_of(number: int) -> Run:
    type = "task" if number == TASK else None
    handler = "" if type is None else f"type:{type}"
    job = a_job(id=f"job {number}", seq=number, task=type, handler=handler, worker=1, bounds={})
    return Run(job=job, spool="/nowhere", claimed=0.0)


RUNS = {number: run_of(number) for number in (COMMAND, TASK, BEHIND)}
Way = Callable[[Handlers, Mapping[int, Run]], None]
WAYS: dict[str, Way] = {
    "released": lambda handlers, runs: handlers.release(runs),
    "stopped": lambda handlers, runs: handlers.stop(runs, wire.CANCEL),
    "killed": lambda handlers, runs: handlers.kill(runs, wire.CANCEL),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
class TestWithdrawn:
    """What is withdrawn while it waits isn't passed on any more."""

    def test_not_even_by_the_end_of_what_it_waited_for(
        self, handlers: Handlers, guard: Guards, way: Way
    ) -> None:
        way(handlers, {TASK: RUNS[TASK]})
        # That is heard of first.
        guard.said = [wire.Released(COMMAND)]
        heard = [getattr(message, "run", None) for message in handlers.hear((), RUNS)]
        assert heard == [COMMAND, TASK]
        assert guard.started == [COMMAND, BEHIND]

    def test_and_is_in_the_way_of_nobody(self, handlers: Handlers, guard: Guards, way: Way) -> None:
        way(handlers, {TASK: RUNS[TASK]})
        assert handlers.stalls_in() == 0
        heard = [getattr(message, "run", None) for message in handlers.hear((), RUNS)]
        assert heard == [TASK]
        assert guard.started == [COMMAND, BEHIND]


def test_the_last_words_of_a_program_are_heard(tmp_path: Path) -> None:
    """What it said before its end counts, also if that is heard of first."""
    guard = Guards(tmp_path)
    handlers = Handlers(processes=cast(Processes, guard))
    handlers.listen(select.poll())
    assert [*handlers.start({TASK: RUNS[TASK]})] == []
    (spawned,) = [order for order in guard.orders if isinstance(order, wire.Spawn)]
    (said,) = tmp_path.glob("*.say")
    with said.open("wb", buffering=0) as program:
        program.write(b'{"ready": 1}\n{"done": %d, "result": 7}\n' % TASK)
    guard.said = [wire.Ended(spawned.run, 0, wire.EXITED, 0.0, 1.0, 0, 0, None, None)]
    (handled,) = handlers.hear((), RUNS)
    assert isinstance(handled, Handled)
    assert (handled.run, handled.outcome, handled.result) == (TASK, Exited(0), "7")


def test_a_job_with_bounds_is_not_handed_to_a_program_that_others_share(tmp_path: Path) -> None:
    guard = Guards(tmp_path)
    handlers = Handlers(processes=cast(Processes, guard))
    handlers.listen(select.poll())
    bounded = replace(RUNS[TASK], job=replace(RUNS[TASK].job, bounds={"memory": 2**30}))
    assert [*handlers.start({TASK: bounded})] == []
    (refused,) = handlers.hear((), {TASK: bounded})
    assert isinstance(refused, wire.NotStarted)
    assert refused.run == TASK
    assert "its bounds can't be kept" in refused.text
