"""Where a campaign takes place: a queue in a store, real nodes, enqueuers, and the ledger."""

import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from time import monotonic, sleep
from typing import Any

from queuectl import Queue, State
from tests.faults import checker
from tests.faults.campaign import POSTGRES, SQLITE, Report
from tests.faults.ledger import Ledger
from tests.servers.mariadb import MariaDB, MariaDBAccess
from tests.servers.postgres import Postgres, PostgresAccess
from tests.servers.shared import CHECKOUT
from tests.support import Lab, wait_for

Access = PostgresAccess | MariaDBAccess
OwnServer = Postgres | MariaDB
SETTINGS = {"max-retries": "50", "backoff": "fixed", "retry-delay": "50ms", "max-crashes": "1000"}
"""Faults come much more often here than in life, and every job shall come to its end."""
OPEN = (State.PENDING, State.FAILED, State.PROCESSING)


class Enqueuer:
    """A process that enqueues jobs one by one, and writes down what it was told."""

    def __init__(self, arena: "Arena", name: str, many: int, command: str, url: str) -> None:
        self._said = arena.folder / f"{name}.said"
        self._orders = arena.ledger.orders_of(name)
        arguments = (name, str(many), str(self._orders), command)
        with self._said.open("wb") as said:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "tests.faults.enqueuer", *arguments],
                env=arena.env | {"QUEUECTL_DB": url},
                cwd=CHECKOUT,
                stdout=said,
                stderr=said,
            )

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    @property
    def asked(self) -> int:
        """How many jobs it has asked for so far."""
        return self._orders.read_text().count("ask ") if self._orders.exists() else 0

    def join(self) -> None:
        """Wait for its end. One that was killed has ended, too; one that broke is an error."""
        if self.process.wait(3600) not in {0, -signal.SIGKILL}:
            raise AssertionError(self._said.read_text())


class Arena(Lab):
    """A lab with a ledger, chance, and a report."""

    def __init__(
        self, folder: Path, seed: int, store: str, url: str | None, server: Access | None
    ) -> None:
        super().__init__(folder, url)
        self.store = store
        self.server = server
        """The database server, which campaigns that own it may kill; None on SQLite."""
        self.random = Random(f"{seed}/{store}")
        """All chance comes from here, so that the seed tells what is done, and in which order."""
        self.ledger = Ledger(folder / "ledger")
        self.report = Report()
        self.patience = 600.0
        """Seconds in which one more job must be over, once the last fault is done."""
        self._enqueuers: list[Enqueuer] = []
        self._set_up()

    def _set_up(self) -> None:
        for name, value in SETTINGS.items():
            self.queue.set_setting(name, value)

    def move_to(self, url: str) -> None:
        """Have the queue in another, empty place, for those who make one themselves."""
        self.queue.close()
        self.url = url
        self.queue = Queue(url)
        self._set_up()

    @property
    def own_server(self) -> OwnServer:
        """The database server, for those who may kill it."""
        assert isinstance(self.server, OwnServer), "this campaign owns no server"
        return self.server

    def enqueuer(self, name: str, many: int, *command: str, url: str | None = None) -> Enqueuer:
        """Start a process that enqueues jobs which bear witness."""
        enqueuer = Enqueuer(self, name, many, self.ledger.command(*command), url or self.url)
        self._enqueuers.append(enqueuer)
        return enqueuer

    def enqueue(self, id: str, *command: str, **fields: Any) -> None:
        """Enqueue a job that bears witness, from here."""
        path = self.ledger.orders_of("arena")
        with path.open("a") as orders:
            print("ask", id, file=orders, flush=True)
            self.queue.enqueue(self.ledger.command(*command), id=id, **fields)
            print("ack", id, file=orders, flush=True)

    def is_drained(self) -> bool:
        """Tell whether every enqueuer is through and no job waits or runs."""
        if not all(enqueuer.is_over for enqueuer in self._enqueuers):
            return False
        states = self.queue.status().states
        return not any(states.get(state) for state in OPEN)

    def wait_until_drained(self) -> None:
        """Wait until every job has come to its end, as long as there is any progress."""
        over, until = -1, 0.0
        while not self.is_drained():
            states = self.queue.status().states
            now_over = sum(many for state, many in states.items() if state not in OPEN)
            if now_over > over:
                over, until = now_over, monotonic() + self.patience
            assert monotonic() < until, f"stuck with {over} jobs over: {states}"
            sleep(0.02)
        for enqueuer in self._enqueuers:
            enqueuer.join()

    def check(self, queue: str | None = None) -> None:
        """Compare the ledger with the queue, and take down every promise that was broken.

        With the name of a queue, other jobs than those in it are nobody's business.
        """
        self.report.broken += checker.check(self.queue, self.ledger, queue)
        done = self.run("db", "check", timeout=600)
        self.report.expect(done.returncode == 0, f"db check: {done.stdout}{done.stderr}")

    def logs(self) -> str:
        """Return all that nodes have said."""
        return "".join(self.log(n) for n in range(len(self.nodes)))

    def stop_nodes(self) -> None:
        """Stop the nodes that are left, in order. One that hasn't greeted yet may just end."""
        for number, node in enumerate(self.nodes):
            if node.poll() is None:
                wait_for(lambda: self.log(number) or node.poll() is not None, "a greeting")  # noqa: B023
                node.terminate()
                code = node.wait(120)
                self.report.expect(code == 0, f"a node exited with {code}")

    def close(self) -> None:
        """End everything that is left."""
        for enqueuer in self._enqueuers:
            enqueuer.process.kill()
            enqueuer.process.wait()
        super().close()


@contextmanager
def arena_in(folder: Path, seed: int, store: str, server: Access | None = None) -> Iterator[Arena]:
    """Make an arena in a folder, with its queue in an empty place on a server."""
    url = None if server is None else place_on(server, store)
    # The folders of the queue on this host belong into the arena's.
    home, os.environ["HOME"] = os.environ.get("HOME"), str(folder)
    arena = None
    try:
        arena = Arena(folder, seed, store, url, server)
        yield arena
    finally:
        if arena is not None:
            arena.close()
        if home is not None:
            os.environ["HOME"] = home


def new_server(store: str) -> OwnServer:
    """Return a server of one's own, with fsync on; it isn't started yet."""
    return Postgres() if store == POSTGRES else MariaDB()


def place_on(server: Access, store: str) -> str:
    """Return the URL of a new, empty database."""
    assert store != SQLITE
    name = f"arena_{secrets.token_hex(5)}"
    server.create_database(name)
    return server.url(name)
