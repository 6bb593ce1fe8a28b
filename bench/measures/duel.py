"""Ours against the limit, at close quarters: a drain of the one right after one of the other.

A machine that others use, too, may be a third slower a minute later. Within some seconds it is
mostly the same. So here `xargs` and queuectl run the same jobs one right after the other, many
times, each as in `drain` and with the number of workers that was quickest in the warm-up; and once
more with four workers each. What counts is the ratio of each pair.
"""

from collections.abc import Iterable, Sequence
from statistics import median

from bench.figures import Reading
from bench.lab import Lab
from bench.measures.drain import UNIT, Ours, Timed, Xargs
from bench.subject import Measure, Subject

TRIES = 5
"""Drains of each number of workers in the warm-up; the median of them counts."""
FOUR = 4


def subjects(lab: Lab) -> list[Subject]:
    """Return a pair for each store, and one with four workers each."""
    found: list[Subject] = [
        _Pair(lab, store, store, lab.sizes.xargs_workers, lab.sizes.duel_workers)
        for store in lab.stores
    ]
    if "sqlite" in lab.stores:
        found.append(_Pair(lab, "sqlite", f"sqlite-{FOUR}", (FOUR,), (FOUR,)))
    return found


class _Pair(Subject):
    def __init__(
        self, lab: Lab, store: str, id: str, theirs: Sequence[int], ours: Sequence[int]
    ) -> None:
        same = f", {FOUR} workers each" if id != store else ""
        super().__init__(f"queuectl on {store} and xargs{same}")
        self._lab = lab
        self._id = id
        self._limits: list[Timed] = [Xargs(lab, workers) for workers in theirs]
        self._ours: list[Timed] = [Ours(lab, store, workers, 1) for workers in ours]
        self._turn = 0

    def warm_up(self) -> None:
        """Find out with how many workers each is quickest."""
        jobs = 2 * self._lab.sizes.warm_up_jobs
        self._limits = [_quickest(self._limits, jobs)]
        self._ours = [_quickest(self._ours, jobs)]

    def configured(self) -> str:
        """Say who runs against whom."""
        return f"{self._ours[0].name} against {self._limits[0].name}"

    def measure(self) -> Iterable[Reading]:
        """Drain all with both; each goes first every other time."""
        self._turn += 1
        jobs = self._lab.sizes.drain_jobs
        pair = [("ours", self._ours[0]), ("limit", self._limits[0])]
        rates = {who: one.rate(jobs) for who, one in (pair if self._turn % 2 else pair[::-1])}
        return [
            Reading(id=f"duel/{self._id}/{who}", value=rate, unit=UNIT)
            for who, rate in sorted(rates.items(), reverse=True)
        ]


def _quickest(choices: Sequence[Timed], jobs: int) -> Timed:
    if len(choices) == 1:
        return choices[0]
    # In turns, so that a slow moment of the machine doesn't decide; nor does a quick one.
    rates: list[list[float]] = [[] for _ in choices]
    for _ in range(TRIES):
        for found, choice in zip(rates, choices, strict=True):
            found.append(choice.rate(jobs))
    return max(zip(map(median, rates), range(len(choices)), choices, strict=True))[2]


MEASURE = Measure(
    name="duel",
    title="Against the limit, in pairs",
    about=__doc__ or "",
    subjects=subjects,
)
