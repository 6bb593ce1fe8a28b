"""A pooler in front of a database server: everything works, and nobody hears of conflicts."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from queuectl import State
from tests.faults.places import CONFLICTS, enqueuers, ledger, wait_until_done
from tests.servers.pgbouncer import PgBouncer
from tests.servers.postgres import PostgresAccess
from tests.support import Lab, lab_in, wait_for


@pytest.fixture
def pooled(
    postgres_server: PostgresAccess,
    postgres_url: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Lab]:
    """A lab behind PgBouncer, which gives a session to each transaction."""
    monkeypatch.setenv("HOME", str(tmp_path))
    with PgBouncer(postgres_server) as pooler:
        url = postgres_url.replace(f":{postgres_server.port}/", f":{pooler.port}/")
        with lab_in(tmp_path, url) as lab:
            yield lab


def test_everything_works_behind_pgbouncer(pooled: Lab) -> None:
    lab = pooled
    assert lab.queue.store.info()["pooled"]
    for _ in range(2):
        lab.node(count=4)
    # One after the other, and more than it takes for a driver to prepare what it often runs.
    for n in range(10):
        job = lab.queue.enqueue(f"echo said {n}")
        lab.wait_state(job.id, State.COMPLETED)
        [run] = lab.queue.attempts(job.id)
        print(f"started after {run.started_at - job.created_at} ms")
    done = lab.run("enqueue", "-q", "echo said all", "--wait")
    assert (done.returncode, done.stderr) == (0, "")
    logs = lab.run("logs", done.stdout.strip())
    assert (logs.returncode, logs.stdout) == (0, "said all\n")
    running = lab.run("enqueue", "-q", "sleep 1000").stdout.strip()
    lab.wait_state(running, State.PROCESSING)
    assert lab.run("cancel", running).returncode == 0
    lab.wait_state(running, State.CANCELLED)
    with enqueuers(lab, 2, 40) as sources:
        assert [source.join() for source in sources] == ["", ""]
    wait_until_done(lab)
    assert ledger(lab) == Counter(f"{id} 1" for source in sources for id in source.ids)
    assert lab.run("worker", "stop").returncode == 0
    for node in lab.nodes:
        assert node.wait(60) == 0
    said = lab.log(0) + lab.log(1)
    assert "prepared" not in said
    assert "Trying again" not in said
    assert not CONFLICTS.search(said)
    wait_for(lambda: not lab.queue.nodes(), "the register to be empty")
