"""A database server that is killed: nothing acknowledged is lost, and nodes go on by themselves."""

from collections.abc import Iterator
from pathlib import Path
from time import monotonic

import pytest

from queuectl import State
from tests.faults.places import (
    Place,
    enqueuers,
    ledger,
    own_server,
    stop_nodes,
    wait_until_done,
)
from tests.servers.mariadb import MariaDB
from tests.servers.postgres import Postgres
from tests.support import Lab, is_gone, lab_in, wait_for

UNKNOWN = "it can't be asked now whether that came through"
JOBS = 120


@pytest.fixture(scope="module", params=["postgres", "mariadb"])
def own(request: pytest.FixtureRequest) -> Iterator[tuple[Postgres | MariaDB, Place]]:
    """A server that these tests may kill."""
    with own_server(request.param) as own:
        yield own


@pytest.fixture
def server(own: tuple[Postgres | MariaDB, Place]) -> Postgres | MariaDB:
    """The server, running."""
    own[0].start()
    return own[0]


@pytest.fixture
def lab(
    own: tuple[Postgres | MariaDB, Place],
    server: Postgres | MariaDB,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Lab]:
    """A lab on that server, in a place of its own."""
    monkeypatch.setenv("HOME", str(tmp_path))
    name = "schema" if own[1].kind == "postgres" else "prefix"
    with lab_in(tmp_path, f"{own[1].url}?{name}=q{abs(hash(str(tmp_path))) % 10**8}_") as lab:
        lab.queue.store.patience = 60
        yield lab
        server.start()


def wait_for_runs(lab: Lab, count: int) -> None:
    """Wait until so many jobs have run."""
    wait_for(lambda: sum(ledger(lab).values()) >= count, f"{count} runs", within=300)


def test_a_killed_server_loses_no_acknowledged_job_and_disturbs_no_run(
    lab: Lab, server: Postgres | MariaDB
) -> None:
    for _ in range(2):
        lab.node(count=4)
    gate = lab.folder / "gate"
    lab.queue.enqueue(
        f"echo $$ $QUEUECTL_ATTEMPT >> {lab.folder}/steady;"
        f" while [ ! -e {gate} ]; do sleep 0.05; done",
        id="steady",
        priority=100,
    )
    pid = lab.pid_in("steady")
    with enqueuers(lab, 3, JOBS // 3) as sources:
        wait_for_runs(lab, JOBS // 3)
        server.kill()
        server.start()
        complaints = [source.join() for source in sources]
    gate.touch()
    wait_until_done(lab)
    ran = ledger(lab)
    assert set(ran.values()) == {1}
    for source, said in zip(sources, complaints, strict=True):
        assert {f"{id} 1" for id in source.acknowledged} <= set(ran)
        for line in said.splitlines():
            # Who wasn't told that it is unknown, doesn't find a job.
            assert UNKNOWN in line or f"{line.split()[0]} 1" not in ran
    assert lab.lines("steady") == [f"{pid} 1"]
    assert len(lab.queue.attempts("steady")) == 1
    assert all(len(lab.queue.attempts(job.id)) == 1 for job in lab.queue.list(limit=None))
    assert lab.queue.store.verify() == []
    stop_nodes(lab)


def test_a_server_gone_for_longer_than_the_lease_costs_the_runs_and_no_more(
    lab: Lab, server: Postgres | MariaDB
) -> None:
    lab.extra_env = {"QUEUECTL_LEASE": "3s", "QUEUECTL_HEARTBEAT": "1s"}
    lab.node(count=2)
    id = lab.queue.enqueue(
        f"echo $$ $QUEUECTL_ATTEMPT >> {lab.folder}/starts; exec sleep 1000", id="long"
    ).id
    pid = lab.pid_in("starts")
    server.kill()
    over = monotonic() + 3
    # Within the lease, before which no other node could take over if the server came back.
    wait_for(lambda: is_gone(pid), "the run to be killed", within=3)
    wait_for(lambda: monotonic() > over, "the end of the lease")
    assert lab.lines("starts") == [f"{pid} 1"]
    server.start()
    wait_for(lambda: len(lab.lines("starts")) == 2, "the second run")
    assert lab.lines("starts")[1].split()[1] == "2"
    assert "Goes on as node" in lab.log()
    [first] = lab.queue.attempts(id)
    assert (first.number, first.outcome) == (1, "released")
    assert lab.queue.get(id).crashes == 0
    lab.queue.cancel(id)
    lab.wait_state(id, State.CANCELLED)
    assert lab.queue.store.verify() == []
    stop_nodes(lab)
