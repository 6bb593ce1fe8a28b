"""The folder of a store on this host: it goes with the file, or is there for a server."""

import os
from collections.abc import Callable

from queuectl.errors import UsageError
from queuectl.facts import Node
from queuectl.sharing import group_of
from queuectl.store import files


class Folder:
    """Where a store keeps what belongs to one host."""

    def __init__(self, at: str, make: Callable[[], None], path: str | None) -> None:
        """Name the folder, who makes it, and the store's file, if it is one."""
        self._at = at
        self._make = make
        self._path = path

    @property
    def spool(self) -> str:
        """The folder under which nodes keep the output of running jobs."""
        return os.path.join(self._at, "spool")

    def make_spool(self) -> str:
        """Make that folder, if it isn't there, for those who may use the store; returns it."""
        self._make()
        files.make_folder(self.spool, group_of(self._at))
        return self.spool

    def is_elsewhere(self, node: Node) -> bool:
        """Tell whether a node of this host works on another store, of which this one is a copy."""
        if self._path is None:
            return False
        # What it runs writes beside the database that it works on.
        folder = os.path.dirname(os.path.dirname(node.spool))
        try:
            return folder.endswith(".d") and not os.path.samefile(folder[:-2], self._path)
        except OSError:
            return False

    def share(self, group: str) -> None:
        """Let the members of a group of this host use the store as its owner does."""
        from queuectl.store.shared import ONLY_FILES_ARE_SHARED, find_group, share

        if self._path is None:
            raise UsageError(ONLY_FILES_ARE_SHARED)
        share(self._path, find_group(group))
