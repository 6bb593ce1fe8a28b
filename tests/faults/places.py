"""What attacks on queues in database servers share: places, servers of their own, ledgers, words.

The jobs bear witness: each appends to a ledger, and the ledger is what counts.
"""

import re
import secrets
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from queuectl import State
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.support import Lab, wait_for

OWN_SERVERS: dict[str, type[Postgres] | type[MariaDB]] = {"postgres": Postgres, "mariadb": MariaDB}
CONFLICTS = re.compile(
    r"(?<![\w-])(1213|1205|1020|40001|40P01)\b|deadlock|lock wait|serializ|in the way",
    re.IGNORECASE,
)
"""What a database says when two transactions meet: nobody must ever see it."""
ENQUEUER = """
import sys
from queuectl import Queue
from queuectl.errors import StoreError
name, many, folder = sys.argv[1], int(sys.argv[2]), sys.argv[3]
with Queue() as queue, open(f"{folder}/{name}.acknowledged", "a") as acknowledged:
    for n in range(many):
        id = f"{name}-{n}"
        try:
            queue.enqueue(f"echo $QUEUECTL_JOB_ID $QUEUECTL_ATTEMPT >> {folder}/ledger", id=id)
        except StoreError as error:
            print(id, error, flush=True)
            continue
        print(id, file=acknowledged, flush=True)
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """An empty place on a server, for one queue."""

    kind: str
    port: int
    url: str

    @property
    def commit(self) -> bytes:
        """What a client sends along with the end of a transaction that writes."""
        return b"receipts (client"

    def through(self, port: int) -> str:
        """Return its URL through the port of a proxy."""
        return self.url.replace(f":{self.port}/", f":{port}/")


@contextmanager
def own_server(kind: str) -> Iterator[tuple[Postgres | MariaDB, Place]]:
    """Run a server that may be killed, with fsync on, and lend out a place on it."""
    with OWN_SERVERS[kind]() as server:
        name = f"own_{secrets.token_hex(4)}"
        server.create_database(name)
        yield server, Place(kind=kind, port=server.port, url=server.url(name))


class Enqueuer:
    """A process that enqueues jobs one by one, and notes which were acknowledged."""

    def __init__(self, lab: Lab, name: str, many: int, url: str | None = None) -> None:
        self.ids = [f"{name}-{n}" for n in range(many)]
        self._notes = lab.folder / f"{name}.acknowledged"
        self._said = lab.folder / f"{name}.said"
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", ENQUEUER, name, str(many), str(lab.folder)],
                env=lab.env | {"QUEUECTL_DB": url or lab.url},
                stdout=said,
                stderr=said,
            )

    def join(self) -> str:
        """Wait for its end, and return what it complained about."""
        assert self._process.wait(600) == 0, self._said.read_text()
        return self._said.read_text()

    @property
    def is_at_it(self) -> bool:
        """Whether it has come as far as the first job."""
        return self._notes.exists()

    @property
    def acknowledged(self) -> list[str]:
        """The ids that it was told are safe, so far."""
        return self._notes.read_text().split() if self._notes.exists() else []

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.wait()


@contextmanager
def enqueuers(
    lab: Lab, count: int, each: int, url: str | None = None
) -> Iterator[Sequence[Enqueuer]]:
    """Enqueue from several processes at once."""
    started = [Enqueuer(lab, f"e{n}", each, url) for n in range(count)]
    try:
        for enqueuer in started:
            wait_for(lambda one=enqueuer: one.is_at_it, "an enqueuer")  # type: ignore[misc]
        yield started
    finally:
        for enqueuer in started:
            enqueuer.close()


def ledger(lab: Lab) -> Counter[str]:
    """Return how often each line was written by a job."""
    return Counter(lab.lines("ledger"))


def wait_until_done(lab: Lab, within: float = 300) -> None:
    """Wait until no job waits or runs."""

    def idle() -> bool:
        states = lab.queue.status().states
        return not any(states.get(s) for s in (State.PENDING, State.FAILED, State.PROCESSING))

    wait_for(idle, "all jobs to be over", within=within)


def stop_nodes(lab: Lab) -> str:
    """Stop all nodes in order, and return all that they have said."""
    for node in lab.nodes:
        node.terminate()
    for node in lab.nodes:
        assert node.wait(60) == 0
    return "".join(lab.log(n) for n in range(len(lab.nodes)))
