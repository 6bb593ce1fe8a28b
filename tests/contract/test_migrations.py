"""How a queue comes from one version of the schema to the next, by a migration made for this."""

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from queuectl import SCHEMA_VERSION
from queuectl.errors import StoreTooNewError, StoreTooOldError
from queuectl.filter import Filter
from queuectl.store import Store, migrations, open_store
from queuectl.store.migrate import VERSION
from queuectl.store.migrations import BASELINE, current
from queuectl.store.sqlstore import SqlStore
from tests.contract import later
from tests.contract.conftest import ENGINES
from tests.contract.tools import Client, Engine, a_node, add, ids, take, take_one

READER = """
import os, sys
from tests.contract import later
from queuectl import Queue
with Queue(sys.argv[1] + ".other") as queue:
    # What it imports, somebody else may not be allowed to read.
    queue.list(tag="red")
later.install()
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
with Queue(sys.argv[1]) as queue:
    for line in sys.stdin:
        extras = queue.store.db.rows("SELECT count(*) FROM extras1")
        print([job.id for job in queue.list(tag="red")], extras, flush=True)
"""


@pytest.fixture
def old(store: Store) -> Iterator[SqlStore]:
    """A queue that is older than this process; it gets back what it was."""
    assert isinstance(store, SqlStore)
    later.install()
    yield store
    later.take_back(store)
    later.uninstall()


def only(*names: str) -> Sequence[Engine]:
    """Return the databases of these names."""
    return [engine for engine in ENGINES if engine.name in names]


def test_the_version_that_stands_alone_is_the_one_of_the_migrations() -> None:
    assert current() == SCHEMA_VERSION


def test_jobs_of_before_are_there_and_run(old: SqlStore, url: str) -> None:
    a_node(old)
    add(old, "old", env={"A": "b"}, tags=("red",))
    with closing(open_store(url, upgrade=True)) as store:
        assert isinstance(store, SqlStore)
        store.migrate()
        assert store.info()["schema_version"] == SCHEMA_VERSION + 1
        assert store.db.rows("SELECT later1 FROM {jobs}") == [("new",)]
        job = take_one(store)
        assert (job.id, job.env, job.tags) == ("old", {"A": "b"}, ("red",))
        assert store.verify() == []
    later.uninstall()
    with pytest.raises(StoreTooNewError):
        open_store(url)


@pytest.mark.parametrize(
    "engine", only("postgresql", "mariadb"), ids=lambda e: e.name, indirect=True
)
def test_a_server_is_migrated_when_somebody_says_so(old: SqlStore, url: str) -> None:
    with pytest.raises(
        StoreTooOldError,
        match=f"has schema {SCHEMA_VERSION}, this queuectl needs {SCHEMA_VERSION + 1}",
    ):
        open_store(url, create=True)
    assert old.info()["schema_version"] == SCHEMA_VERSION


@pytest.mark.parametrize("engine", only("mariadb"), ids=lambda e: e.name, indirect=True)
def test_one_that_was_cut_off_is_finished(old: SqlStore, url: str) -> None:
    for done in range(3):
        later.take_back(old)
        old.db.script(later.script("mysql")[:done])
        with closing(open_store(url, upgrade=True)) as other:
            assert other.migrate() == (SCHEMA_VERSION, SCHEMA_VERSION + 1)
        add(old, f"job {done}")
    assert old.verify() == []


@pytest.mark.parametrize("version", range(BASELINE, SCHEMA_VERSION))
def test_a_queue_of_each_version_gets_what_is_new(
    store: Store, url: str, version: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"v{version}"
    place = url.replace("schema=queue", f"schema={name}").replace("prefix=q_", f"prefix={name}_")
    place += f".{name}" if place == url else ""
    known = migrations.MIGRATIONS[: version - BASELINE + 1]
    monkeypatch.setattr(migrations, "MIGRATIONS", known)
    with closing(open_store(place, create=True)) as old:
        assert isinstance(old, SqlStore)
        assert old.info()["schema_version"] == version
        old.db.script(["INSERT INTO @jobs (id, command) VALUES ('old', 'true')"])
    monkeypatch.undo()
    with closing(open_store(place, upgrade=True)) as new:
        assert isinstance(new, SqlStore)
        new.migrate()
        assert new.info()["schema_version"] == SCHEMA_VERSION
        (job,) = new.jobs.select(Filter(), limit=None)
        assert (job.id, job.tick, job.keys, job.parked) == ("old", None, (), None)
        assert new.schedules.all() == []
        assert new.webhooks.all() == []
        assert new.schedules.next_at() is None
        a_node(new, "node-1")
        assert ids(take(new, 1, now=new.clock.now())) == ["old"]
        assert new.verify() == []


@pytest.mark.parametrize("version", [1, BASELINE - 1])
def test_one_from_before_the_first_release_is_left_alone(
    store: Store, client: Client, url: str, version: int
) -> None:
    assert isinstance(store, SqlStore)
    store.administration.set_meta(VERSION, str(version))
    for options in ({"create": True}, {"upgrade": True}):
        with pytest.raises(StoreTooOldError, match=f"first release .schema {version}."):
            open_store(url, **options)
    found = client.run("SELECT value FROM {meta} WHERE name = ?", VERSION)
    assert found == [(str(version),)]
    store.administration.set_meta(VERSION, str(SCHEMA_VERSION))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
def test_an_old_file_that_may_only_be_read_can_be_read() -> None:
    with TemporaryDirectory(dir="/tmp") as folder:
        os.chmod(folder, 0o755)
        path = Path(folder, "queue.db")
        with closing(open_store(str(path), create=True)) as old:
            add(old, "old", tags=("red",))
        path.chmod(0o644)
        with subprocess.Popen(
            [sys.executable, "-c", READER, str(path)],
            text=True,
            cwd=later.CHECKOUT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as reader:
            assert reader.stdin and reader.stdout
            print(file=reader.stdin, flush=True)
            assert reader.stdout.readline() == "['old'] [(0,)]\n"
            with closing(open_store(str(path))) as writer:
                add(writer, "new", tags=("red",))
            print(file=reader.stdin, flush=True)
            assert reader.stdout.readline() == "['new', 'old'] [(0,)]\n"
            reader.stdin.close()
