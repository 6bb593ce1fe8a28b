"""The workers of a node: what each has to do, and how many jobs are worth claiming for them.

A worker whose jobs take milliseconds would spend most of its time waiting for a commit between
two of them. So short jobs are claimed ahead, a few per worker, as far as they bridge the time of
a commit; the guard starts each as soon as the one before it is over. A job that turns out to be
long has those behind it released.
"""

from collections.abc import Iterator
from math import inf

AHEAD_FOR = 0.025
"""Seconds of work that a worker has in line at most, at the pace of the last runs. A run that
takes longer has none behind it. At a store that is slow to commit, as long as some commits take:
each finishes and claims more jobs then, and costs no more."""
COMMITS_AHEAD = 10
LONGEST_AHEAD = 0.075
"""Seconds of work that a worker has in line in any case at most."""
MOST_AHEAD = 16
"""Jobs that a worker has in line at most."""
MOST_AT_ONCE = 256
"""Jobs that are claimed in one commit at most."""
MOST_WARM_AHEAD = 128
"""Jobs in line for a worker whose program is warm: no process is started for any of these, so
dozens of them are over by the time of a commit."""
MOST_WARM_AT_ONCE = 512
"""Jobs that are claimed at once at most while warm programs run them."""
BEHIND_FOR = 0.1
"""Seconds after which those in line behind a run are released."""
_WEIGHT = 0.1
"""How much the last run counts for the pace."""


class Workers:
    """The workers, each with its runs: the first goes on or is about to begin, the others wait.

    Their number can be changed at any time. Where there are more at work than there should be,
    these go on to the end of their runs, and nothing more begins until they are few enough.
    """

    def __init__(self, count: int) -> None:
        self.count = count
        self._lines: dict[int, dict[int, None]] = {n: {} for n in range(1, count + 1)}
        """The runs of each worker, in their order."""
        self._since: dict[int, float] = {}
        """When the first run of each worker came to be the first."""
        self._load = 0
        self._busy = 0
        """How many have something to do."""
        self._pace = inf
        """Seconds that a run takes, lately."""
        self._warm = False
        """Whether the last run was one of a warm program."""
        self.commit_takes = 0.0
        """Seconds that a commit takes, lately."""
        self.look_at = inf
        """When to ask for the runs that are held up."""

    def resize(self, count: int) -> None:
        """Have so many workers from now on; those who are too many go once they have nothing."""
        self.count = count
        for worker in range(1, count + 1):
            self._lines.setdefault(worker, {})
        for worker in [n for n, line in self._lines.items() if n > count and not line]:
            del self._lines[worker]

    @property
    def idle(self) -> bool:
        """Whether there is a worker without anything to do."""
        return self._busy < self.count

    @property
    def busy(self) -> int:
        """How many have something to do."""
        return self._busy

    @property
    def without_work(self) -> int:
        """How many have nothing to do."""
        return max(self.count - self._busy, 0)

    @property
    def has_line(self) -> bool:
        """Whether a run waits for another one to end."""
        return self._load > self._busy

    @property
    def ahead(self) -> int:
        """How many jobs a worker should have in line, besides the one that it runs."""
        if self._pace > AHEAD_FOR:
            return 0
        most = MOST_WARM_AHEAD if self._warm else MOST_AHEAD
        work = min(max(AHEAD_FOR, COMMITS_AHEAD * self.commit_takes), LONGEST_AHEAD)
        return min(most, int(work / self._pace)) if self._pace > 0 else most

    @property
    def hungry(self) -> bool:
        """Whether it is time to claim: somebody has nothing to do, or a third of the lines is gone.

        What is left has to last until the commit is through. While there are more workers than
        there should be, nothing is claimed ahead.
        """
        return self.idle or (
            len(self._lines) == self.count and self._load * 3 <= 2 * self.count * (1 + self.ahead)
        )

    def wanted(self) -> list[int]:
        """Return for which workers to claim a job: first the idle ones, then the next in line."""
        most = 1 + self.ahead
        room = self.count - self._busy
        places = []
        for worker, line in self._lines.items():
            if worker > self.count or (not line and room <= 0):
                continue
            room -= not line
            places += [(place, worker) for place in range(len(line), most)]
        places.sort()
        at_once = MOST_WARM_AT_ONCE if self._warm else MOST_AT_ONCE
        return [worker for _, worker in places[:at_once]]

    def begin(self, worker: int, run: int, now: float) -> bool:
        """Give a worker a run; True if it is its turn at once."""
        line = self._lines.setdefault(worker, {})
        is_first = not line
        if is_first:
            self._busy += 1
            self._since[worker] = now
        else:
            self.look_at = min(self.look_at, now + BEHIND_FOR)
        line[run] = None
        self._load += 1
        return is_first

    def end(self, worker: int, run: int, now: float) -> int | None:
        """Take a run from a worker: it is over, or was released; return whose turn it is now."""
        line = self._lines[worker]
        was_first = next(iter(line)) == run
        del line[run]
        self._load -= 1
        if not line:
            self._busy -= 1
            if worker > self.count:
                del self._lines[worker]
        elif was_first:
            self._since[worker] = now
            return next(iter(line))
        return None

    def took(self, seconds: float, *, warm: bool = False) -> None:
        """Learn how long a run took. A long one is reason enough not to claim ahead for a while."""
        self._warm = warm
        known = min(seconds, 2 * AHEAD_FOR)
        if self._pace == inf or known > AHEAD_FOR:
            self._pace = known
        else:
            self._pace += (known - self._pace) * _WEIGHT

    def held_up(self, now: float) -> Iterator[int]:
        """Yield the runs that wait behind one that takes long."""
        self.look_at = inf
        for worker, line in self._lines.items():
            if len(line) < 2:
                continue
            due = self._since[worker] + BEHIND_FOR
            if due <= now:
                self._pace = 2 * AHEAD_FOR
                yield from list(line)[1:]
            else:
                self.look_at = min(self.look_at, due)

    def waiting(self, beyond: int = 0) -> Iterator[int]:
        """Yield all runs that wait for another one to end, of the workers with higher numbers."""
        for worker, line in self._lines.items():
            if worker > beyond:
                yield from list(line)[1:]
