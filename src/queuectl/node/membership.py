"""A node's membership: its id, its row in the register, its lease and its folder for output.

A node that loses its lease loses its name with it: it goes on under a new one, and nothing that
was begun under the old one can be written any more.
"""

import os
from collections.abc import Callable
from contextlib import suppress

from queuectl import __version__
from queuectl.admission import Serving
from queuectl.errors import StoreError
from queuectl.facts import Node
from queuectl.guard.board import MANY_PLACES, Board, board_at
from queuectl.guard.wire import KeepBoard
from queuectl.host import host_identity, host_name, process_start
from queuectl.node import lease as leases
from queuectl.node.config import Config
from queuectl.node.guards import Guard, GuardLostError, Guards
from queuectl.node.handover import HandedNode
from queuectl.node.log import Say
from queuectl.queue import Queue
from queuectl.sharing import group_of
from queuectl.spool import progress_folder
from queuectl.store.files import make_folder
from queuectl.store.ids import new_ids


def new_id() -> str:
    """Make up a name for a node."""
    return new_ids(1, 8)[0]


class Membership:
    """A node's place in the register."""

    def __init__(
        self,
        queue: Queue,
        *,
        id: str,
        config: Config,
        queues: Serving,
        guards: Guards,
        wake: Callable[[], None],
        say: Say,
    ) -> None:
        """`id` is the name to `join` under, or to `resume`."""
        self._store = queue.store
        self._url = queue.place.url
        self._queues = queues
        self._config = config
        self._guards = guards
        self._wake = wake
        self._say = say
        self.host = host_name()
        self._call(id)
        self.lease: leases.Lease
        """There is one as soon as it has joined, or resumed."""
        self.board: Board | None = None
        """On which the node itself notes what it hands to warm programs, if it has such."""
        self._shown_workers = 0
        """What the register says of our number of workers."""

    def _call(self, id: str) -> None:
        self.id = id
        self.spool = os.path.join(self._store.folder.spool, id)
        """Where the output of its runs is while they live."""

    def join(self) -> None:
        """Become known under this id, with a lease that has to be renewed from now on."""
        pid = os.getpid()
        lease = self._config.settings.lease
        clock = self._store.clock.lease_clock
        began = leases.read(clock)
        now = self._store.clock.now()
        self._store.nodes.register(
            Node(
                id=self.id,
                host=self.host,
                boot=host_identity(),
                pid=pid,
                pid_start=process_start(pid) or 0,
                workers=self._config.count,
                queues=self._queues,
                spool=self.spool,
                version=__version__,
                started_at=now,
                seen_at=now,
                lease_until=self._store.clock.steady() + lease,
            )
        )
        self._shown_workers = self._config.count
        with suppress(StoreError):
            # On a full disk this comes later, with the first run.
            self.make_spool(first=True)
        self._keep(clock, began + lease)
        self.lease.tell()
        self.lease.start()

    def _keep(self, clock: int, until: int, *, outage: bool = False) -> None:
        """Have a lease that ends then, by that clock."""
        self.lease = leases.Lease(
            url=self._url,
            node=self.id,
            clock=clock,
            until=until,
            guards=self._guards,
            config=self._config,
            wake=self._wake,
            say=self._say,
            outage=outage,
        )

    def resume(self, handed: HandedNode) -> None:
        """Go on under the name and lease of the program before us, which may be over by now.

        The guards know until when that is. Should they have ended runs because it took us too long
        to start, that is nobody's fault.
        """
        self._set_up_own_boards(first=False)
        self._keep(handed.clock, handed.until, outage=True)
        self.lease.start()
        self.lease.lost = not self.lease.renew(self._store)
        if not self.lease.lost:
            self._shown_workers = self._config.count
            # The program before us may have been told otherwise, or known fewer types.
            self._store.nodes.set_serving(self.id, self._queues)

    def hand_over(self) -> tuple[int, int] | None:
        """Renew the lease and return its clock and its end; None when there is none to hand over.

        So the next program of this process has the more time to start.
        """
        if self.lease.lost or not self.lease.renew(self._store):
            self.lease.lost = True
            return None
        return self._store.clock.lease_clock, self.lease.until

    def show_workers(self) -> None:
        """Have the register say how many workers we have, if it says something else."""
        count = self._config.count
        if count != self._shown_workers:
            self.lease.lost = self.lease.lost or not self.lease.renew(self._store)
            self._shown_workers = count

    def equip(self, guard: Guard) -> None:
        """Give a new guard its board, and tell it until when runs may live: a renewed lease."""
        self._set_up_board(guard, first=False)
        # Whatever becomes of the renewal: a guard that knows of no end would never end a run.
        self.lease.tell()
        try:
            self.lease.renew(self._store)
        except StoreError as error:
            self._say(str(error), level="warning")

    def rename(self) -> str:
        """Take a new id, to join anew under; returns the old one."""
        old = self.id
        self._call(new_id())
        return old

    def make_spool(self, *, first: bool = False) -> None:
        """Make the folder for the output of our runs; also when somebody has removed it."""
        if not os.path.isdir(self.spool):
            root = self._store.folder.make_spool()
            make_folder(self.spool, group_of(root))
            make_folder(progress_folder(self.spool), group_of(root))
            self._set_up_own_boards(first=first)
            for guard in self._guards:
                self._set_up_board(guard, first=first)

    def board_of(self, guard: Guard) -> str:
        """Return where a guard says what its workers run."""
        return board_at(self.spool, self._guards.number(guard))

    def keep_boards(self) -> None:
        """Have boards of our own from now on, as there are programs that the guards don't know."""
        self.board = Board(MANY_PLACES)

    @property
    def own_boards(self) -> tuple[str, str]:
        """Where we note what we hand on, and where programs note what they begin."""
        count = len(self._guards)
        return board_at(self.spool, count + 1), board_at(self.spool, count + 2)

    @property
    def _more(self) -> int:
        return 0 if self.board is None else len(self.own_boards)

    def _set_up_own_boards(self, *, first: bool) -> None:
        if self.board is not None:
            count = len(self._guards)
            for board, path in zip((self.board, Board()), self.own_boards, strict=True):
                board.open(path, count, first=first, more=self._more)

    def _set_up_board(self, guard: Guard, *, first: bool) -> None:
        # That it is gone is heard elsewhere; the next one goes on with its board.
        with suppress(GuardLostError):
            guard.send([KeepBoard(self.board_of(guard), len(self._guards), first, self._more)])
