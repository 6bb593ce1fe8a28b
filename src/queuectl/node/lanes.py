"""The lanes of a node that has warm programs: what of each worker was passed on, and what waits.

A worker has one run at a time, whoever runs it. All that was passed on of a worker is with one
program, or with the guard; what is for another waits for the end of that.
"""

from collections.abc import Iterator, Mapping

from queuectl.node.runs import Run
from queuectl.node.warm import Warm


class Lanes:
    """The runs of each worker, in their order."""

    def __init__(self) -> None:
        self._at_work: dict[int, dict[int, Run]] = {}
        """What was passed on of each worker."""
        self._passed_to: dict[int, Warm | None] = {}
        """To whom: None is to the guards."""
        self._behind: dict[int, dict[int, Run]] = {}
        """What waits for that."""
        self._workers: dict[int, int] = {}
        """Whose each run is."""
        self._held: set[int] = set()
        """Runs that aren't to be passed on for now."""

    def add(self, number: int, run: Run) -> int:
        """Take in a run, and return whose it is."""
        worker = self._workers[number] = run.job.worker or 0
        self._behind.setdefault(worker, {})[number] = run
        return worker

    @property
    def workers(self) -> list[int]:
        """All who have runs that wait."""
        return [worker for worker, waiting in self._behind.items() if waiting]

    def has_waiting(self, worker: int) -> bool:
        """Tell whether something of a worker waits."""
        return bool(self._behind.get(worker))

    def waiting(self, worker: int) -> Iterator[tuple[int, Run]]:
        """Yield what waits, the first first, up to one that is held; it may be passed on."""
        waiting = self._behind.get(worker, {})
        while waiting and (number := next(iter(waiting))) not in self._held:
            yield number, waiting[number]

    def at_work(self, worker: int) -> bool:
        """Tell whether something of a worker was passed on, and isn't over."""
        return bool(self._at_work.get(worker))

    def passed_to(self, worker: int) -> Warm | None:
        """Return with whom that is; None is the guard."""
        return self._passed_to[worker]

    def pass_on(self, number: int, to: Warm | None) -> None:
        """Note that a run is passed on."""
        worker = self._workers[number]
        self._passed_to[worker] = to
        self._at_work.setdefault(worker, {})[number] = self._behind[worker].pop(number)

    def having(self, number: int) -> Warm | None:
        """Return the program that was handed a run; None if none was."""
        warm = self._passed_to.get(self._workers.get(number, 0))
        return warm if warm is not None and number in warm.runs else None

    def with_guard(self, number: int) -> bool:
        """Tell whether a run was passed on to a guard."""
        worker = self._workers.get(number, 0)
        return self._passed_to.get(worker) is None and number in self._at_work.get(worker, {})

    def over(self, number: int) -> int:
        """Forget a run, and return whose it was."""
        worker = self._workers.pop(number, 0)
        self._held.discard(number)
        self._at_work.get(worker, {}).pop(number, None)
        self._behind.get(worker, {}).pop(number, None)
        return worker

    def waits(self, number: int) -> bool:
        """Tell whether a run wasn't passed on."""
        return number in self._behind.get(self._workers.get(number, 0), {})

    def hold(self, number: int) -> None:
        """Don't pass a run on for now, nor what is behind it."""
        self._held.add(number)

    def unhold(self, number: int) -> int:
        """Let a run be passed on when its turn comes, and return whose it is."""
        self._held.discard(number)
        return self._workers[number]

    def take_back(self, runs: Mapping[int, Run]) -> list[int]:
        """Have runs that were passed on in vain wait again, before all others; return whose."""
        back: dict[int, dict[int, Run]] = {}
        for number, run in runs.items():
            worker = self._workers[number]
            del self._at_work[worker][number]
            back.setdefault(worker, {})[number] = run
        for worker, some in back.items():
            self._behind[worker] = {**some, **self._behind.get(worker, {})}
        return list(back)
