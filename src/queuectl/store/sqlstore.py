"""A store in an SQL database: verbs over its connections, put together."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from queuectl.store.administration import Administration
from queuectl.store.contract import (
    Capability,
    Grants,
    Groups,
    History,
    Jobs,
    Listener,
    LiveOutput,
    Nodes,
    Reports,
    Runs,
    Schedules,
    SharedSettings,
    Sleeps,
    Store,
    Webhooks,
)
from queuectl.store.database import Database
from queuectl.store.idiom import Idiom
from queuectl.store.migrate import IDENTITY, check_version
from queuectl.store.verbs.jobs import SqlJobs
from queuectl.store.verbs.settings import SqlSettings

if TYPE_CHECKING:
    from queuectl.store.folder import Folder

T = TypeVar("T")
GLANCE = 0.1
"""Seconds between two times that `changed` answers yes for a server: it can't know."""


class SqlStore(Store):
    """A store in an SQL database. What a command doesn't need isn't imported for it."""

    capabilities = frozenset(Capability)

    def __init__(
        self,
        db: Database,
        idiom: Idiom,
        administration: Administration,
        *,
        path: str | None = None,
        secret_variables: tuple[str, ...] = (),
        is_new: bool = False,
    ) -> None:
        """Put a store together; `path` is that of its file, if it is one."""
        self.db = db
        self.administration = administration
        self._idiom = idiom
        self.path = path
        self.one_host = path is not None
        self.url = db.driver.url
        self.clock = db.driver.clock
        self.secret_variables = secret_variables
        self.is_new = is_new
        self._told = 0.0

    # -- verbs --------------------------------------------------------------------------

    @cached_property
    def jobs(self) -> Jobs:
        return SqlJobs(self._idiom)

    @cached_property
    def settings(self) -> SharedSettings:
        return SqlSettings(self._idiom)

    @cached_property
    def runs(self) -> Runs:
        from queuectl.store.verbs.runs import SqlRuns

        return SqlRuns(self._idiom)

    @cached_property
    def history(self) -> History:
        from queuectl.store.verbs.history import SqlHistory

        return SqlHistory(self.db)

    @cached_property
    def reports(self) -> Reports:
        from queuectl.store.verbs.reports import SqlReports

        return SqlReports(self._idiom)

    @cached_property
    def sleeps(self) -> Sleeps:
        from queuectl.store.verbs.sleeps import SqlSleeps

        return SqlSleeps(self._idiom)

    @cached_property
    def live(self) -> LiveOutput:
        from queuectl.store.verbs.live import SqlLiveOutput

        return SqlLiveOutput(self.db)

    @cached_property
    def nodes(self) -> Nodes:
        from queuectl.store.verbs.nodes import SqlNodes, WatchedNodes

        return SqlNodes(self.db) if self.one_host else WatchedNodes(self.db)

    @cached_property
    def schedules(self) -> Schedules:
        from queuectl.store.verbs.schedules import SqlSchedules

        return SqlSchedules(self._idiom, self.jobs)

    @cached_property
    def grants(self) -> Grants:
        from queuectl.store.verbs.grants import SqlGrants

        return SqlGrants(self._idiom)

    @cached_property
    def groups(self) -> Groups:
        from queuectl.store.verbs.groups import SqlGroups

        return SqlGroups(self._idiom)

    @property
    def webhooks(self) -> Webhooks:
        from queuectl.store.verbs.webhooks import SqlWebhooks

        return SqlWebhooks(self._idiom)

    @cached_property
    def folder(self) -> "Folder":
        from queuectl.store.folder import Folder

        return Folder(self.db.driver.companion, self.db.driver.make_companion, self.path)

    # -- what it is ---------------------------------------------------------------------

    @cached_property
    def identity(self) -> str:
        if self.one_host:
            return self.url
        # The tables got it when they were made.
        return self.administration.meta(IDENTITY) or "unnamed"

    @property
    def patience(self) -> float:
        return self.db.patience

    @patience.setter
    def patience(self, seconds: float) -> None:
        self.db.patience = seconds

    @property
    def before_commit(self) -> Callable[[], None] | None:
        return self.db.before_commit

    @before_commit.setter
    def before_commit(self, hook: Callable[[], None] | None) -> None:
        self.db.before_commit = hook

    # -- transactions and wake-ups --------------------------------------------------------

    def transact(self, action: Callable[[], T]) -> T:
        return self.db.transact(action)

    def borrowed(self, connection: Any) -> AbstractContextManager[None]:
        return self.db.borrowed(connection)

    def listen(self) -> Listener:
        return self.db.driver.listen(self._version)

    def check_place(self) -> None:
        self.db.driver.check_place()

    def changed(self) -> bool:
        if self.one_host:
            self.check_place()
            with self.db.session() as session:
                before, session.seen = session.seen, self._version()
                return bool(before != session.seen)
        if monotonic() - self._told < GLANCE:
            return False
        self._told = monotonic()
        if self.db.driver.clock.is_stale():
            with self.db.session() as session:
                session.read_clock()
        return True

    def _version(self) -> int:
        """Return a number; it is another one when another connection has committed something."""
        return int(self.db.value(self.db.sql.DATA_VERSION))

    # -- the store itself -----------------------------------------------------------------

    def info(self) -> Mapping[str, Any]:
        return self.administration.info()

    def verify(self) -> list[str]:
        return self.administration.verify()

    def migrate(self) -> tuple[int, int]:
        return self.administration.migrate()

    def check_schema(self) -> None:
        check_version(self.url, self.administration.version_in_meta())

    def tidy(
        self,
        *,
        now: int | None = None,
        events_before: int | None = None,
        emitted_before: int | None = None,
    ) -> None:
        self._idiom.fold()
        if now is not None:
            from queuectl.store.tidying import Tidying

            Tidying(self._idiom, self.nodes).tidy(now, events_before, emitted_before)

    def vacuum(self) -> None:
        self.administration.vacuum()

    def close(self) -> None:
        self.db.close()
