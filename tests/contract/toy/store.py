"""The toy as a whole, and as the judge of others."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any, TypeVar

from queuectl.errors import UsageError
from queuectl.store.contract import Store
from queuectl.store.folder import Folder
from queuectl.store.sqlite.driver import HostClock
from tests.contract.tools import DAY, HOUR
from tests.contract.toy.edges import GROUP
from tests.contract.toy.grants import ToyGrants
from tests.contract.toy.groups import ToyGroups
from tests.contract.toy.history import ToyHistory
from tests.contract.toy.jobs import ToyJobs
from tests.contract.toy.live import ToyLiveOutput
from tests.contract.toy.memory import Memory
from tests.contract.toy.nodes import ToyNodes
from tests.contract.toy.reports import ToyReports
from tests.contract.toy.runs import ToyRuns
from tests.contract.toy.schedules import ToySchedules
from tests.contract.toy.settings import ToySettings
from tests.contract.toy.sleeps import ToySleeps
from tests.contract.toy.webhooks import ToyWebhooks

T = TypeVar("T")


class Toy(Store):
    """A store in the memory of this process."""

    url = "toy:"
    clock = HostClock()
    patience = 0.0
    before_commit = None

    def __init__(self, memory: Memory | None = None) -> None:
        """Open the store of some memory, or of a new one."""
        self.memory = Memory() if memory is None else memory
        self._jobs = ToyJobs(self.memory)
        self._nodes = ToyNodes(self.memory)
        self._runs = ToyRuns(self.memory, self._jobs, self._nodes)
        self._history = ToyHistory(self.memory)
        self._live = ToyLiveOutput(self.memory)
        self._reports = ToyReports(self.memory)
        self._sleeps = ToySleeps(self.memory)
        self._settings = ToySettings(self.memory)
        self._schedules = ToySchedules(self.memory, self._jobs)
        self._grants = ToyGrants(self.memory)
        self._webhooks = ToyWebhooks(self.memory)

    @property
    def jobs(self) -> ToyJobs:
        return self._jobs

    @property
    def runs(self) -> ToyRuns:
        return self._runs

    @property
    def history(self) -> ToyHistory:
        return self._history

    @property
    def reports(self) -> ToyReports:
        return self._reports

    @property
    def sleeps(self) -> ToySleeps:
        return self._sleeps

    @property
    def live(self) -> ToyLiveOutput:
        return self._live

    @property
    def nodes(self) -> ToyNodes:
        return self._nodes

    @property
    def settings(self) -> ToySettings:
        return self._settings

    @property
    def schedules(self) -> ToySchedules:
        return self._schedules

    @property
    def grants(self) -> ToyGrants:
        return self._grants

    @property
    def groups(self) -> ToyGroups:
        return self._jobs.edges.groups

    @property
    def webhooks(self) -> ToyWebhooks:
        return self._webhooks

    @property
    def identity(self) -> str:
        return self.url

    @property
    def folder(self) -> Folder:
        raise UsageError("This store is in no folder.")

    def changed(self) -> bool:
        return True

    def info(self) -> dict[str, Any]:
        return {"engine": "toy", "schema_version": 0}

    def verify(self) -> list[str]:
        stuck = len(self.runs.held(None))
        return [f"{stuck} jobs are processing on a node that isn't registered."] if stuck else []

    def migrate(self) -> tuple[int, int]:
        return 0, 0

    def check_schema(self) -> None:
        return

    def vacuum(self) -> None:
        return

    def tidy(
        self,
        *,
        now: int | None = None,
        events_before: int | None = None,
        emitted_before: int | None = None,
    ) -> None:
        if now is None:
            return
        memory = self.memory
        for span, age in ((HOUR, 48 * HOUR), (DAY, 60 * DAY)):
            before = now - age - (now - age) % span
            for key in [key for key in memory.cells if key[0] < before and key[0] % span]:
                cell = memory.cells.pop(key)
                memory.merge((key[0] - key[0] % span, *key[1:]), cell)
        memory.watches = {run: until for run, until in memory.watches.items() if until > now}
        memory.live = {k: d for k, d in memory.live.items() if k[:2] in memory.watches}
        memory.events = [event for event in memory.events if event.at >= (events_before or 0)]
        awaited = {sleep.awaits for sleep in memory.sleeps.values()}
        memory.emitted = {
            name: one
            for name, one in memory.emitted.items()
            if one.at >= (emitted_before or 0) or name in awaited
        }
        in_use = {job.group for job in memory.line.values()}
        in_use |= {parent.removeprefix(GROUP) for _, parent in memory.ties if parent[0] == GROUP}
        memory.groups = {
            name: one
            for name, one in memory.groups.items()
            if one.over_at is None or one.over_at >= now - DAY or name in in_use
        }
        kept = now - 30 * DAY
        memory.ticks = {key: tick for key, tick in memory.ticks.items() if tick.made_at >= kept}
        running = {(job.seq, job.attempts) for job in memory.running()}
        memory.pauses = {
            seq: pause for seq, pause in memory.pauses.items() if (seq, pause.number) in running
        }

    def close(self) -> None:
        return


class Model(Toy):
    """The same as the judge of others: what it does can be undone."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Go back to how it was if something is raised."""
        before = {name: copy(value) for name, value in vars(self.memory).items()}
        try:
            yield
        except BaseException:
            vars(self.memory).update(before)
            raise

    def transact(self, action: Callable[[], T]) -> T:
        with self.transaction():
            return action()
