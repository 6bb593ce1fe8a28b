"""The runner: what a node wants of whatever runs its jobs.

The crew numbers its runs, hands each to a runner, and hears from it what became of it. Today all
runs are trees of processes: see `processes.py`.
"""

import select
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from queuectl.guard import wire
from queuectl.node.handover import HandedGuard
from queuectl.node.runs import Handled, LostRun, Run


class Runner(Protocol):
    """Runs jobs of one kind: each as soon as its worker is free, one at a time for each worker.

    The node's loop polls; a runner registers what it listens to, and never waits.
    """

    def open(self) -> None:
        """Get ready to run jobs."""

    def inherit(self, handed: Sequence[HandedGuard]) -> None:
        """Go on with what the program before us in this process has handed over."""

    def hand_over(self) -> list[HandedGuard]:
        """Return what the runner of the next program of this process needs to `inherit`."""

    def close(self) -> None:
        """End what still runs, and everything else."""

    def listen(self, poll: "select.poll") -> None:
        """Have the loop woken by what this runner hears, through this poll object."""

    def start(self, runs: Mapping[int, Run]) -> "Iterable[wire.Report]":
        """Take on runs, by their numbers; report those that can't be started at all."""

    def stop(self, runs: Mapping[int, Run], how: str) -> None:
        """Ask runs to end, and kill them when their grace is over."""

    def kill(self, runs: Mapping[int, Run], how: str) -> None:
        """Kill runs at once."""

    def pause(self, runs: Mapping[int, Run]) -> None:
        """Have runs stand still, and their timeouts; those that haven't begun aren't started."""

    def resume(self, runs: Mapping[int, Run]) -> None:
        """Let runs go on, or begin."""

    def release(self, runs: Mapping[int, Run]) -> None:
        """Don't start these runs, and report them as released; those that have begun go on."""

    def abandon(self, runs: Mapping[int, Run]) -> None:
        """End these runs by force, as nothing is heard of them; they are reported as lost."""

    def speaks(self, ready: Collection[int]) -> bool:
        """Tell whether one of these descriptors, which have something, is of this runner."""

    def hear(
        self, ready: Collection[int], runs: Mapping[int, Run]
    ) -> "Iterable[LostRun | Handled | wire.Message]":
        """Return what became of these runs, as far as these descriptors tell."""

    def watch_for_room(self) -> None:
        """Have the loop woken when what couldn't be passed on can be."""

    def stalls_in(self) -> float:
        """Return in how many seconds to `hear` again, though nothing may be heard till then."""

    def count_warm(self) -> int:
        """Return how many programs there are that stay. Any thread may ask."""

    @property
    def settled(self) -> bool:
        """Whether all that it was told is on its way to the runs."""
