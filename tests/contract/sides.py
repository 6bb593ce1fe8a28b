"""Those that live through a history together: the model, and stores in real databases.

Each can be used by clients that die or are cut off. The model says what must come of it.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import closing, suppress
from typing import Any

from queuectl.errors import StoreUnreachableError
from queuectl.filter import Filter
from queuectl.job import Job
from queuectl.store import open_store
from queuectl.store.contract import Ended
from tests.contract.deeds import Deed, UndoneError, answer, plain
from tests.contract.places import COMMIT, Place
from tests.contract.tools import the, transaction
from tests.contract.toy.store import Model
from tests.contract.victim import Death, Moment, Victims
from tests.servers.proxy import Moment as CutMoment


class Side:
    """The model, and what clients of it hold in their hands."""

    name = "model"

    def __init__(self, store: Any = None) -> None:
        self.store: Any = store or Model()
        self.runs: dict[str, Job] = {}
        """Jobs as they were claimed."""
        self.stale: list[Job] = []
        """Runs of jobs that were claimed again since."""
        self.past: list[Ended] = []
        """Ends that were told already."""
        self.seen: list[Job] = []
        """Jobs as they once were."""
        self.last: list[Deed] = []
        """What was asked for when a client last died or was cut off."""

    def place(self, id: str | None) -> int | None:
        """Return the place in the line of a job."""
        return None if id is None else the(self.store, id).seq

    def hold(self, jobs: Sequence[Job]) -> None:
        """Take runs into one's hands."""
        again = {job.id: job.attempts for job in jobs if job.id in self.runs}
        self.stale += [self.runs[id] for id, n in again.items() if self.runs[id].attempts != n]
        self.runs |= {job.id: job for job in jobs}

    def restart(self) -> None:
        """Let go of the store, and open it again."""

    def die(self, deeds: Sequence[Deed], mark: str, death: Death) -> list[Any]:
        """Let a client do this in one transaction, and die; an event with this mark is a part."""
        return self._broken_off(deeds) if death.moment == Moment.INSIDE else self._done(deeds)

    def break_off(self, deeds: Sequence[Deed]) -> list[Any]:
        """Let a client do this in one transaction, which is lost before it commits."""
        return self._broken_off(deeds)

    def cut(self, deed: Deed, when: CutMoment) -> Any:
        """Let a client do something whose connection is cut around its commit."""
        return answer(deed, self.store)

    def close(self) -> None:
        """Let go of the store."""
        self.store.close()

    def _done(self, deeds: Sequence[Deed]) -> list[Any]:
        with transaction(self.store):
            return [answer(deed, self.store) for deed in deeds]

    def _broken_off(self, deeds: Sequence[Deed]) -> list[Any]:
        with suppress(UndoneError), transaction(self.store):
            answers = [answer(deed, self.store) for deed in deeds]
            raise UndoneError
        return answers


class StoreSide(Side):
    """A store in a real database, with real clients that really die."""

    def __init__(self, place: Place, victims: Victims, faults: Counter[str]) -> None:
        place.empty()
        super().__init__(open_store(place.url))
        self.name = place.name
        self._place = place
        self._victims = victims
        self._faults = faults

    def restart(self) -> None:
        self.store.close()
        self.store = open_store(self._place.url)
        self._faults["restarts"] += 1

    def die(self, deeds: Sequence[Deed], mark: str, death: Death) -> list[Any]:
        before = self._picture()
        if death.alone:
            self.store.close()
        with self._place.visited():
            answers = self._victims.kill_one(self._place.url, deeds, death)
        if death.alone:
            self.store = open_store(self._place.url)
        self._faults["clients_killed"] += 1
        came_through = any(event.detail == mark for event in self.store.history.events())
        if not came_through:
            assert self._picture() == before, f"{self.name} kept a part of what was undone"
        if death.moment == Moment.COMMITTING:
            self._settle(deeds, answers, came_through=came_through)
        else:
            meant = death.moment == Moment.COMMITTED
            assert came_through == meant, f"{self.name} lost a commit, or made one up"
        return answers

    def _settle(self, deeds: Sequence[Deed], answers: list[Any], *, came_through: bool) -> None:
        """Send a request again that didn't come through: the same must come of it."""
        self._faults["commits_in_doubt"] += 1
        self._faults["of_these_undone"] += not came_through
        if not came_through:
            assert plain(self._done(deeds)) == plain(answers), f"{self.name} answers otherwise"

    def break_off(self, deeds: Sequence[Deed]) -> list[Any]:
        proxy = self._place.proxy
        if proxy is None:
            return super().break_off(deeds)
        with self._place.visited(), closing(open_store(self._place.far_url)) as store:
            try:
                with transaction(store):
                    answers = [answer(deed, store) for deed in deeds]
                    proxy.cut()
                    self._faults["connections_cut"] += 1
            except StoreUnreachableError:
                return answers
        raise AssertionError(f"{self.name} committed though it was cut off")

    def cut(self, deed: Deed, when: CutMoment) -> Any:
        proxy = self._place.proxy
        if proxy is None:
            return super().cut(deed, when)
        with self._place.visited(), closing(open_store(self._place.far_url)) as store:
            fired = proxy.fired
            proxy.cut_when(COMMIT[self.name], when=when)
            found = answer(deed, store)
            self._faults["connections_cut"] += proxy.fired - fired
            proxy.cut_when(b"", when=when, times=0)
        return found

    def _picture(self) -> Any:
        jobs = self.store.jobs.select(Filter(), limit=None)
        return plain(
            [jobs, self.store.jobs.counts(), self.store.nodes.all(), self.store.history.events()]
        )
