"""A queue that nobody has made yet, as whoever reads sees it: empty.

Nothing is made by looking. As soon as somebody makes the queue, its file is what is read, so that
whoever follows it need not start anew.
"""

import os

import apsw

from queuectl.store.contract import Topic
from queuectl.store.sqlite import SqliteStore


class AbsentStore(SqliteStore):
    """A queue in an SQLite file that isn't there yet."""

    _absent = True

    def _prepare(self, *, create: bool) -> None:
        return

    def _attach(self) -> None:
        if not self._absent:
            super()._attach()
            return
        self._read_only = False
        self._db = apsw.Connection(":memory:")
        self._still = self._looks()
        self._create()

    def _look_again(self) -> None:
        if not self._absent:
            super()._look_again()
        elif self._db.get_autocommit() and os.path.exists(self.path):
            self._db.close()
            self._absent, self._still, self._seen_version = False, None, -1
            self._attach()

    def _check_place(self) -> None:
        if not self._absent:
            super()._check_place()

    def _wake(self, topics: set[Topic]) -> None:
        # Nobody listens: there is no folder yet in which somebody could.
        if not self._absent:
            super()._wake(topics)
