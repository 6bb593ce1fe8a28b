"""The SQLite file itself: opening, refusing, upgrading, private files, foreign clients, backups."""

import os
import select
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest

from queuectl.errors import (
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreTooNewError,
    UsageError,
)
from queuectl.filter import Filter
from queuectl.job import Exited, NewJob, Released, State
from queuectl.store import Store, open_store
from queuectl.store.contract import Listener, Topic
from queuectl.store.copying import backup
from queuectl.store.migrate import migrate
from queuectl.store.migrations import current
from queuectl.store.sqlite.administration import open_file
from queuectl.store.sqlstore import SqlStore
from tests.contract.actors import Actor, ForeignError, Row, SqliteClient
from tests.contract.tools import (
    HOUR,
    NOW,
    a_node,
    add,
    ended,
    finish,
    foresee,
    hear,
    ids,
    nudge,
    quieten,
    raw,
    remove,
    renew,
    run,
    states,
    take,
    take_one,
    the,
    transaction,
    waiting,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the file is, or will be."""
    return tmp_path / "queue.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    """An empty store."""
    with closing(open_file(str(path), create=True)) as store:
        yield store


def sql(path: Path, *statements: str) -> list[Row]:
    """Run statements as another program would; returns the rows of the last."""
    with closing(SqliteClient(str(path))) as client:
        rows = [
            client.run(statement.replace("{", "{{").replace("}", "}}")) for statement in statements
        ]
    return rows[-1]


def mode(path: Path | str) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(os.stat(path).st_mode)


def picture(folder: Path) -> dict[str, bytes | None]:
    """Return all there is in a folder, with every byte of every file."""
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


class TestOpening:
    def test_a_missing_file_is_made_only_when_asked(self, path: Path) -> None:
        with pytest.raises(StoreMissingError, match="no queue at"):
            open_store(str(path))
        assert os.listdir(path.parent) == []
        open_store(str(path), create=True).close()
        open_store(str(path)).close()

    @pytest.mark.parametrize("form", ["{}", "sqlite:{}", "sqlite://{}"])
    def test_a_path_and_its_urls_mean_the_same(self, path: Path, form: str) -> None:
        with closing(open_store(str(path), create=True)) as store:
            add(store, "x")
        with closing(open_store(form.format(path))) as again:
            assert the(again, "x")
            assert again.url == f"sqlite:{path}"

    def test_a_relative_path_starts_here(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(path.parent)
        for form in ("queue.db", "sqlite:queue.db", "sqlite://queue.db", "./queue.db"):
            with closing(open_store(form, create=True)) as store:
                assert store.url == f"sqlite:{path}"

    def test_a_tilde_is_the_home_folder(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", str(path.parent))
        with closing(open_store("~/queue.db", create=True)) as store:
            assert store.url == f"sqlite:{path}"

    @pytest.mark.parametrize("name", ["a b.db", "ä🦊.db", "it's.db", "100%.db", "a?b#c.db", "x"])
    def test_any_name_will_do(self, tmp_path: Path, name: str) -> None:
        with closing(open_file(str(tmp_path / name), create=True)) as store:
            add(store, "x")
        assert sorted(os.listdir(tmp_path)) == [name, f"{name}.d"]

    @pytest.mark.parametrize("url", ["", "sqlite:", "sqlite://"])
    def test_a_path_is_needed(self, url: str) -> None:
        with pytest.raises(UsageError, match="needs a path"):
            open_store(url, create=True)

    @pytest.mark.parametrize("url", ["redis://localhost", "mongodb:x", "file:///x"])
    def test_other_kinds_are_refused(self, url: str) -> None:
        with pytest.raises(UsageError, match="can't be at a URL that begins with"):
            open_store(url, create=True)

    def test_a_missing_folder_is_not_made(self, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="doesn't exist; make it first"):
            open_store(str(tmp_path / "missing" / "queue.db"), create=True)
        assert os.listdir(tmp_path) == []

    def test_but_our_own_data_folder_is(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "share" / "queuectl" / "queue.db"
        with pytest.raises(StoreError, match="doesn't exist; make it first"):
            open_store(str(path), create=True)
        monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))
        open_store(str(path), create=True).close()
        assert mode(path.parent) == 0o700

    @pytest.mark.parametrize("create", [False, True])
    def test_a_folder_is_not_a_database(self, tmp_path: Path, create: bool) -> None:
        with pytest.raises(StoreError, match="is a folder; name a file in it"):
            open_store(str(tmp_path), create=create)
        assert os.listdir(tmp_path) == []

    @pytest.mark.parametrize("create", [False, True])
    def test_what_is_no_plain_file_is_not_a_database(self, path: Path, create: bool) -> None:
        os.mkfifo(path)
        for special in ("/dev/null", "/dev/zero", str(path)):
            with pytest.raises(StoreError, match="isn't a plain file"):
                open_store(special, create=create)

    @pytest.mark.parametrize("name", ["a\0b", "\udcff\0"])
    def test_a_path_no_system_takes_is_refused(self, tmp_path: Path, name: str) -> None:
        with pytest.raises((StoreError, UsageError)):
            open_store(f"{tmp_path}/{name}", create=True)

    def test_a_link_to_nowhere_is_refused(self, path: Path) -> None:
        path.symlink_to(path.parent / "nowhere" / "queue.db")
        with pytest.raises(StoreError):
            open_store(str(path), create=True)

    def test_an_empty_file_becomes_a_store(self, path: Path) -> None:
        path.touch()
        with closing(open_store(str(path), create=True)) as store:
            add(store, "x")
            assert store.jobs.get("x") is not None

    def test_processes_that_make_the_same_file_at_once_all_succeed(self, tmp_path: Path) -> None:
        rounds = 120
        actors = [Actor("create") for _ in range(3)]
        for actor in actors:
            assert actor.hear() == "ready"
        for n in range(rounds):
            for actor in actors:
                actor.say(f"{tmp_path}/{n}.db")
            assert [actor.hear() for actor in actors] == ["done"] * 3
        for actor in actors:
            actor.finish()
        for n in range(rounds):
            with closing(open_store(f"{tmp_path}/{n}.db")) as store:
                assert waiting(store) == 3


class TestDurability:
    def test_the_log_is_written_ahead_and_every_commit_synced(self, store: SqlStore) -> None:
        info = store.info()
        assert info["journal_mode"] == "wal"
        assert info["synchronous"] == "full"
        assert info["engine"] == "sqlite"

    def test_a_file_that_lost_its_log_mode_gets_it_back(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        assert sql(path, "PRAGMA journal_mode = DELETE") == [("delete",)]
        with closing(open_store(str(path))) as store:
            assert store.info()["journal_mode"] == "wal"
        assert sql(path, "PRAGMA journal_mode") == [("wal",)]

    def test_space_is_given_back(self, store: SqlStore) -> None:
        job = add(store, "x", command="y" * 2**20)
        store.vacuum()
        before = store.info()["size_bytes"]
        remove(store, job)
        store.vacuum()
        assert store.info()["size_bytes"] < before / 2
        assert store.info()["free_bytes"] == 0


class TestRefusing:
    """What isn't ours, or is newer, is refused and stays as it is to the last byte."""

    @pytest.mark.parametrize("create", [False, True])
    @pytest.mark.parametrize(
        "setup",
        [
            ["CREATE TABLE jobs (id, command)", "INSERT INTO jobs VALUES (1, 2)"],
            ["PRAGMA journal_mode = WAL", "CREATE TABLE other (x)"],
            ["PRAGMA application_id = 77", "CREATE TABLE other (x)"],
            ["CREATE VIEW v AS SELECT 1"],
        ],
        ids=["a table of that name", "with a log", "another application's", "a view"],
    )
    def test_the_database_of_another_program(
        self, path: Path, setup: list[str], create: bool
    ) -> None:
        sql(path, *setup)
        before = picture(path.parent)
        with pytest.raises(StoreCorruptError, match="isn't a queuectl database"):
            open_store(str(path), create=create)
        assert picture(path.parent) == before

    @pytest.mark.parametrize("create", [False, True])
    @pytest.mark.parametrize(
        "content",
        [
            b"just some text\n",
            b"\0" * 8192,
            os.urandom(64) * 100,
            b"SQLite format 3\0" + b"x" * 500,
        ],
        ids=["text", "zeros", "noise", "only the first words"],
    )
    def test_what_is_no_database(self, path: Path, content: bytes, create: bool) -> None:
        path.write_bytes(content)
        before = picture(path.parent)
        with pytest.raises(StoreCorruptError):
            open_store(str(path), create=create)
        assert picture(path.parent) == before

    @pytest.mark.parametrize("journal", ["WAL", "DELETE"])
    def test_a_newer_schema(self, path: Path, journal: str) -> None:
        open_store(str(path), create=True).close()
        sql(
            path,
            "UPDATE meta SET value = '99' WHERE name = 'schema_version'",
            f"PRAGMA journal_mode = {journal}",
        )
        before = picture(path.parent)
        with pytest.raises(StoreTooNewError, match=r"newer queuectl \(schema 99; .*upgrade"):
            open_store(str(path))
        assert picture(path.parent) == before

    @pytest.mark.parametrize("value", ["'x'", "'-1'", "''"])
    def test_a_schema_version_that_makes_no_sense(self, path: Path, value: str) -> None:
        open_store(str(path), create=True).close()
        sql(path, f"UPDATE meta SET value = {value}")
        with pytest.raises(StoreCorruptError, match="no schema version"):
            open_store(str(path))

    def test_no_schema_version(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        sql(path, "DELETE FROM meta")
        with pytest.raises(StoreCorruptError, match="no schema version"):
            open_store(str(path))

    def test_a_damaged_file(self, path: Path) -> None:
        with closing(open_store(str(path), create=True)) as store:
            store.jobs.enqueue([NewJob(command="x" * 500) for _ in range(500)], now=NOW)
        with open(path, "r+b") as file:
            file.seek(4096)
            file.write(b"\xff" * (os.path.getsize(path) - 8192))
        with pytest.raises(StoreCorruptError, match="damaged"), closing(open_store(str(path))) as s:
            s.jobs.select(Filter(), limit=None)


class TestUpgrading:
    def test_an_older_file_is_brought_up_to_date_with_all_its_jobs(self, path: Path) -> None:
        with closing(open_store(str(path), create=True)) as store:
            a_node(store)
            add(store, "done")
            run(store, "done")
            add(store, "waiting", tags=("red",))
            version = store.info()["schema_version"]
        before = sql(path, "SELECT id, state, attempts FROM jobs")
        actor = Actor("future", str(path))
        assert actor.hear() == str(version + 2)
        actor.finish()
        assert sql(path, "SELECT id, state, attempts FROM jobs") == before
        assert sql(path, "SELECT DISTINCT later1, later2 FROM jobs") == [("new", "new")]

    def test_after_that_the_older_program_leaves_it_alone(self, path: Path) -> None:
        Actor("future", str(path)).finish()
        before = picture(path.parent)
        with pytest.raises(StoreTooNewError):
            open_store(str(path))
        assert picture(path.parent) == before

    def test_programs_that_upgrade_at_once_all_succeed(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        actors = [Actor("future", str(path)) for _ in range(3)]
        assert {actor.hear() for actor in actors} == {str(current() + 2)}
        for actor in actors:
            actor.finish()

    def test_a_version_that_rose_meanwhile_is_not_lowered(self, store: SqlStore) -> None:
        store.administration.set_meta("schema_version", "99")
        with pytest.raises(StoreTooNewError), transaction(store):
            migrate(store.db, 99)
        assert store.info()["schema_version"] == 99

    def test_states_and_strategies_that_nobody_knows_are_refused(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        sql(path, "INSERT INTO jobs (command) VALUES ('true')")
        for state in State:
            ready = "1" if state in (State.PENDING, State.FAILED) else "NULL"
            sql(path, f"UPDATE jobs SET state = '{state}', ready = {ready}, node = 'n'")
        for backoff in ("'exponential'", "'linear'", "'fixed'", "NULL"):
            sql(path, f"UPDATE jobs SET backoff = {backoff}")
        for odd in ("state = 'odd', ready = NULL", "state = '', ready = NULL", "backoff = 'odd'"):
            with pytest.raises(ForeignError, match="CHECK constraint failed: known_"):
                sql(path, f"UPDATE jobs SET {odd}")

    def test_opening_again_changes_nothing(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        before = picture(path.parent)
        for create in (False, True):
            open_store(str(path), create=create).close()
        assert picture(path.parent) == before


class TestAbsent:
    def test_one_that_is_just_being_made_is_empty_still(self, path: Path) -> None:
        with closing(open_file(str(path), absent=True)) as reader:
            assert reader.jobs.counts() == []
            path.touch()
            assert reader.jobs.counts() == []
            with closing(open_file(str(path), create=True)) as writer:
                add(writer, "x")
                assert states(reader) == {"x": State.PENDING}

    def test_what_is_no_queue_is_told_to_be_none(self, path: Path) -> None:
        with closing(open_file(str(path), absent=True)) as reader:
            path.write_bytes(b"no database at all" * 100)
            with pytest.raises(StoreCorruptError):
                reader.jobs.counts()


class TestPrivacy:
    @pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
    def test_files_are_for_their_owner_whatever_the_umask(self, path: Path, umask: int) -> None:
        old = os.umask(umask)
        try:
            with closing(open_file(str(path), create=True)) as store:
                add(store, "x")
                store.listen().close()
                copy = path.with_name("backup.db")
                backup(store, str(copy))
                for file in (path, f"{path}-wal", f"{path}-shm", copy):
                    assert (str(file), oct(mode(file))) == (str(file), oct(0o600))
                assert oct(mode(store.db.driver.companion)) == oct(0o700)
                for name in os.listdir(store.db.driver.companion):
                    assert oct(mode(f"{store.db.driver.companion}/{name}")) == oct(0o600)
        finally:
            os.umask(old)

    def test_what_the_owner_has_set_is_left_alone(self, path: Path) -> None:
        open_store(str(path), create=True).close()
        path.chmod(0o640)
        Path(f"{path}.d").chmod(0o750)
        open_store(str(path), create=True).close()
        assert (mode(path), mode(f"{path}.d")) == (0o640, 0o750)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux tells of changes")
class TestWakeUps:
    """Our own writers wake at once; a mere hint that somebody wrote comes a little later."""

    @pytest.fixture
    def listener(self, store: SqlStore) -> Iterator[Listener]:
        """An ear that has heard all there was to hear."""
        a_node(store)
        add(store, "running")
        take_one(store)
        with closing(store.listen()) as listener:
            quieten(listener)
            yield listener

    def test_an_enqueue_does(self, store: SqlStore, listener: Listener) -> None:
        add(store, "x")
        assert Topic.WORK in listener.heard()

    def test_what_is_told_is_told_from_what_is_guessed(
        self, store: SqlStore, listener: Listener, path: Path
    ) -> None:
        add(store, "ours")
        assert hear(listener, Topic.WORK)
        assert listener.told
        quieten(listener)
        sql(path, "INSERT INTO jobs (command) VALUES ('true')")
        assert hear(listener, Topic.WORK)
        assert not listener.told

    def test_a_job_that_goes_back_in_line_does(self, store: SqlStore, listener: Listener) -> None:
        finish(store, [ended(the(store, "running"), Released())])
        assert Topic.WORK in listener.heard()

    @pytest.mark.parametrize("outcome", [Exited(0), Exited(1)])
    def test_a_job_that_does_not_go_back_does_not(
        self, store: SqlStore, listener: Listener, outcome: Exited
    ) -> None:
        finish(store, [ended(the(store, "running"), outcome)])
        assert listener.heard() == set()

    def test_what_a_node_writes_itself_is_no_news(
        self, store: SqlStore, listener: Listener
    ) -> None:
        finish(store, [ended(the(store, "running"), Exited(0))])
        assert quieten(listener) == set()

    def test_what_it_disregards_it_does_not_look_for(
        self, store: SqlStore, listener: Listener
    ) -> None:
        renew(store, "node-1", until=store.clock.steady() + HOUR)
        listener.disregard()
        assert (listener.recheck_in(), listener.heard()) == (None, set())

    def test_with_its_own_writes_it_does_not_disregard_those_of_others(
        self, store: SqlStore, listener: Listener, path: Path
    ) -> None:
        sql(path, "INSERT INTO jobs (command) VALUES ('true')")
        renew(store, "node-1", until=store.clock.steady() + HOUR)
        listener.disregard()
        assert quieten(listener) == {Topic.WORK}
        sql(path, "INSERT INTO jobs (command) VALUES ('true')")
        assert quieten(listener) == {Topic.WORK}

    def test_what_it_was_told_before_is_not_disregarded(
        self, store: SqlStore, listener: Listener
    ) -> None:
        nudge(store, Topic.CONTROL)
        listener.disregard()
        assert listener.recheck_in() == 0
        assert listener.heard() == {Topic.CONTROL}
        assert listener.recheck_in() is None

    def test_what_another_connection_writes_is(
        self, store: SqlStore, listener: Listener, path: Path
    ) -> None:
        with closing(apsw.Connection(str(path))) as other:
            other.execute("INSERT INTO jobs (command) VALUES ('true')")
            assert quieten(listener) == {Topic.WORK}

    def test_the_ear_can_be_waited_on(self, store: SqlStore, listener: Listener) -> None:
        assert select.select([listener.fileno()], [], [], 0)[0] == []
        nudge(store, Topic.CONTROL)
        assert select.select([listener.fileno()], [], [], 30)[0] == [listener.fileno()]

    def test_ears_leave_no_descriptors_behind(self, store: SqlStore) -> None:
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(10):
            store.listen().close()
        assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
class TestReader:
    """Somebody who may read the file, and nothing else."""

    PROGRAM = """
import os, sys, urllib.parse
from queuectl import Queue
with Queue(sys.argv[1]) as queue:
    # What it imports, somebody else may not be allowed to read.
    queue.store.changed(), queue.list()
os.setgroups([])
os.setresgid(65534, 65534, 65534)
os.setresuid(65534, 65534, 65534)
with Queue(sys.argv[1]) as queue:
    for line in sys.stdin:
        print(queue.store.changed(), len(queue.list()), flush=True)
"""

    def test_a_file_that_was_at_rest_is_seen_to_change(self) -> None:
        with TemporaryDirectory(dir="/tmp") as folder:
            os.chmod(folder, 0o755)
            path = Path(folder, "queue.db")
            open_store(str(path), create=True).close()
            path.chmod(0o644)
            with subprocess.Popen(
                [sys.executable, "-c", self.PROGRAM, str(path)],
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            ) as reader:
                assert reader.stdin
                assert reader.stdout

                def look() -> str:
                    print(file=reader.stdin, flush=True)
                    return reader.stdout.readline().strip() if reader.stdout else ""

                assert look() == "True 0"
                assert look() == "False 0"
                with closing(open_store(str(path))) as writer:
                    add(writer, "one")
                    assert look() == "True 1"
                    add(writer, "two")
                    assert look() == "True 2"
                assert look().endswith(" 2")
                assert look() == "False 2"
                with closing(open_store(str(path))) as writer:
                    add(writer, "three")
                assert look() == "True 3"


class TestTakenAway:
    """What is stored in a file that has no name any more, nobody will ever run."""

    @pytest.mark.parametrize("replaced", [False, True])
    @pytest.mark.parametrize(
        "store_one",
        [
            lambda store: store.jobs.enqueue_one(NewJob(command="true"), now=NOW),
            lambda store: store.jobs.enqueue_one(NewJob(command="true", id="mine"), now=NOW),
            lambda store: store.jobs.enqueue([NewJob(command="true")] * 3, now=NOW),
        ],
        ids=["one", "chosen", "many"],
    )
    def test_nothing_is_acknowledged(
        self,
        replaced: bool,
        store_one: Callable[[Store], object],
        path: Path,
        store: SqlStore,
        tmp_path: Path,
    ) -> None:
        store_one(store)
        path.rename(tmp_path / "elsewhere.db")
        if replaced:
            open_file(str(path), create=True).close()
        word = "replaced" if replaced else "deleted"
        with pytest.raises(StoreMissingError, match=f"was {word} while it was in use"):
            store_one(store)


class TestLease:
    def test_it_may_hold_in_the_millisecond_in_which_it_ends(
        self, store: SqlStore, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        until = a_node(store, lease=HOUR).lease_until
        for clock, over in [(until - 1, False), (until, False), (until + 1, True)]:
            monkeypatch.setattr(store.db.driver.clock, "steady", lambda clock=clock: clock)
            [node] = store.nodes.all()
            assert node.lapsed is over, clock - until


class TestTrouble:
    def test_a_lock_that_is_held_too_long_is_an_error_and_reading_goes_on(
        self, path: Path, store: SqlStore
    ) -> None:
        add(store, "x")
        hasty = open_file(str(path), patience=0.05)
        with closing(hasty), closing(SqliteClient(str(path))) as client:
            client.run("BEGIN IMMEDIATE")
            with pytest.raises(StoreBusyError, match="stayed locked"):
                add(hasty, "y")
            assert list(states(hasty)) == ["x"]
            assert foresee(hasty, [], now=NOW)[0]
            client.run("ROLLBACK")
            add(hasty, "z")
        assert list(states(store)) == ["x", "z"]

    def test_a_full_disk_is_an_error_that_changes_nothing(self, store: SqlStore) -> None:
        add(store, "x")
        store.db.run("PRAGMA max_page_count = 60")
        with pytest.raises(StoreFullError, match="no space left"):
            store.jobs.enqueue(
                [NewJob(id=f"y{n}", command="y" * 1_000) for n in range(500)], now=NOW
            )
        assert list(states(store)) == ["x"]
        store.db.run("PRAGMA max_page_count = 1000000")
        add(store, "z")
        assert store.verify() == []

    def test_a_companion_folder_that_is_gone_is_made_again(self, store: SqlStore) -> None:
        store.listen().close()
        for name in os.listdir(store.db.driver.companion):
            os.unlink(f"{store.db.driver.companion}/{name}")
        os.rmdir(store.db.driver.companion)
        add(store, "x")
        assert mode(store.db.driver.companion) == 0o700

    def test_what_is_stored_is_acknowledged_though_nobody_can_be_woken(
        self, store: SqlStore
    ) -> None:
        os.rmdir(store.db.driver.companion)
        Path(store.db.driver.companion).touch()
        add(store, "x")
        assert list(states(store)) == ["x"]


class TestForeignClients:
    """The schema is a public interface."""

    def test_an_id_and_a_command_are_a_valid_enqueue(self, store: SqlStore, path: Path) -> None:
        before = store.clock.now()
        sql(path, "INSERT INTO jobs (id, command) VALUES ('raw', 'echo hi')")
        after = store.clock.now()
        job = the(store, "raw")
        assert (job.command, job.state, job.queue) == ("echo hi", State.PENDING, "default")
        assert (job.priority, job.attempts, job.failures, job.crashes) == (0, 0, 0, 0)
        for at in (job.created_at, job.updated_at, job.run_at):
            assert before - 1 <= at <= after + 1
        a_node(store)
        taken = take_one(store, now=after + 1)
        assert (taken.id, taken.attempts) == ("raw", 1)

    def test_an_id_is_made_up_if_need_be(self, store: SqlStore, path: Path) -> None:
        sql(path, "INSERT INTO jobs (command) VALUES ('x'), ('y')")
        made = list(states(store))
        assert len(set(made)) == 2
        assert all(len(id) == 12 for id in made)

    def test_everything_else_can_be_said_too(self, store: SqlStore, path: Path) -> None:
        sql(
            path,
            "INSERT INTO jobs (id, argv, queue, priority, run_at, tags, env, timeout, max_retries,"
            " backoff, backoff_base, retry_delay, max_backoff, cwd, expires_at) VALUES"
            """ ('raw', '["ls","-l"]', 'q', 5, 7, '["red"]', '{"A":"b"}', 8, 9, 'linear', 1.5,"""
            " 11, 12, '/x', 13)",
        )
        job = the(store, "raw")
        assert (job.argv, job.queue, job.priority, job.run_at) == (("ls", "-l"), "q", 5, 7)
        assert (job.tags, job.env, job.timeout, job.max_retries) == (("red",), {"A": "b"}, 8, 9)
        assert (job.backoff, job.backoff_base, job.retry_delay) == ("linear", 1.5, 11)
        assert (job.max_backoff, job.cwd, job.expires_at) == (12, "/x", 13)
        assert ids(store.jobs.select(Filter(tags=("red",)), limit=None)) == ["raw"]

    def test_they_come_in_the_order_of_all_jobs(self, store: SqlStore, path: Path) -> None:
        add(store, "1")
        sql(path, "INSERT INTO jobs (id, command, run_at) VALUES ('2', 'x', 0)")
        add(store, "3")
        sql(path, "INSERT INTO jobs (id, command, run_at, priority) VALUES ('0', 'x', 0, 1)")
        a_node(store)
        assert ids(take(store, 9)) == ["0", "1", "2", "3"]

    def test_deleting_a_waiting_row_cancels_it(self, store: SqlStore, path: Path) -> None:
        for id in ("a", "b"):
            add(store, id, tags=("red",))
        sql(path, "DELETE FROM jobs WHERE id = 'a'")
        a_node(store)
        assert ids(take(store, 9)) == ["b"]
        assert sql(path, "SELECT count(*) FROM tags") == [(1,)]
        assert store.verify() == []

    def test_what_they_do_in_their_own_transaction_is_theirs(
        self, store: SqlStore, path: Path
    ) -> None:
        with closing(SqliteClient(str(path))) as client:
            client.run("BEGIN")
            client.run("INSERT INTO {jobs} (id, command) VALUES ('x', 'y')")
            assert states(store) == {}
            client.run("ROLLBACK")
        assert states(store) == {}

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO jobs (id) VALUES ('x')",
            "INSERT INTO jobs (id, command) VALUES (NULL, 'x')",
            "INSERT INTO jobs (id, command) VALUES ('', 'x')",
            "INSERT INTO jobs (id, command) VALUES ('good', 'x')",
            "INSERT INTO jobs (id, command, state) VALUES ('x', 'x', 'sleeping')",
            "INSERT INTO jobs (id, command, state) VALUES ('x', 'x', 'PENDING')",
            "INSERT INTO jobs (id, command, state) VALUES ('x', 'x', 'completed')",
            "INSERT INTO jobs (id, command, state) VALUES ('x', 'x', NULL)",
            "INSERT INTO jobs (id, command, ready) VALUES ('x', 'x', 2)",
            "INSERT INTO jobs (id, command, ready) VALUES ('x', 'x', NULL)",
            "INSERT INTO jobs (id, command, queue) VALUES ('x', 'x', '')",
            "INSERT INTO jobs (id, command, queue) VALUES ('x', 'x', NULL)",
            "INSERT INTO jobs (id, command, priority) VALUES ('x', 'x', 2147483648)",
            "INSERT INTO jobs (id, command, priority) VALUES ('x', 'x', 'high')",
            "INSERT INTO jobs (id, command, priority) VALUES ('x', 'x', 1.5)",
            "INSERT INTO jobs (id, command, run_at) VALUES ('x', 'x', '2030-01-01')",
            "INSERT INTO jobs (id, command, run_at) VALUES ('x', 'x', NULL)",
            "INSERT INTO jobs (id, command, timeout) VALUES ('x', 'x', -1)",
            "INSERT INTO jobs (id, command, max_retries) VALUES ('x', 'x', -1)",
            "INSERT INTO jobs (id, command, backoff) VALUES ('x', 'x', 'often')",
            "INSERT INTO jobs (id, command, backoff_base) VALUES ('x', 'x', 0.5)",
            "INSERT INTO jobs (id, command, env) VALUES ('x', 'x', '[]')",
            "INSERT INTO jobs (id, command, env) VALUES ('x', 'x', 'A=b')",
            "INSERT INTO jobs (id, command, tags) VALUES ('x', 'x', 'red')",
            "INSERT INTO jobs (id, command, tags) VALUES ('x', 'x', '{}')",
            "INSERT INTO jobs (id, argv) VALUES ('x', 'ls -l')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '\"ls\"')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '{\"a\": \"b\"}')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '[]')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '[5]')",
            "INSERT INTO jobs (id, argv) VALUES ('x', '[\"ls\", null]')",
            "INSERT INTO jobs (id, command, tags) VALUES ('x', 'x', '[\"red\", 1]')",
            "INSERT INTO jobs (id, command, env) VALUES ('x', 'x', '{\"A\": 1}')",
            "UPDATE jobs SET state = 'nonsense'",
            "UPDATE jobs SET state = 'completed'",
            "UPDATE jobs SET ready = NULL",
            "UPDATE jobs SET command = NULL",
        ],
    )
    def test_nonsense_is_refused(self, store: SqlStore, path: Path, statement: str) -> None:
        job = add(store, "good")
        with pytest.raises(ForeignError):
            sql(path, statement)
        assert states(store) == {"good": State.PENDING}
        assert the(store, "good") == job


class TestVerify:
    @pytest.fixture(autouse=True)
    def jobs(self, store: SqlStore) -> None:
        """A few jobs of every kind."""
        a_node(store)
        add(store, "done", tags=("red",))
        run(store, "done")
        add(store, "running")
        take_one(store)
        add(store, "waiting", timeout=5)

    def test_all_is_well(self, store: SqlStore) -> None:
        assert store.verify() == []

    @pytest.mark.parametrize(
        ("damage", "words"),
        [
            ("UPDATE counts SET jobs = jobs + 1 WHERE state = 'pending'", "counter"),
            ("UPDATE counts SET timed = 0", "counter"),
            ("DELETE FROM counts WHERE state = 'completed'", "counter"),
            ("INSERT INTO counts VALUES ('default', 'dead', 0, 5, 0)", "counter"),
            ("INSERT INTO counts VALUES ('nowhere', 'pending', 0, 1, 1)", "counter"),
            (
                "INSERT INTO attempts (seq, number, node, host, worker, started_at, finished_at,"
                " duration_ms, outcome, exit_code, signal, error, stdout_bytes, stderr_bytes)"
                " SELECT 999, number, node, host, worker, started_at, finished_at, duration_ms,"
                " outcome, exit_code, signal, error, stdout_bytes, stderr_bytes FROM attempts",
                "attempts",
            ),
            ("INSERT INTO outputs VALUES (999, 1, x'00', x'00')", "outputs"),
            ("INSERT INTO inputs VALUES (999, 0, x'00')", "inputs"),
            ("UPDATE jobs SET stdin_bytes = 7 WHERE id = 'waiting'", "stdin"),
            ("INSERT INTO tags VALUES ('red', 999)", "tags"),
            ("DELETE FROM nodes", "node"),
            ("UPDATE jobs SET node = 'gone' WHERE state = 'processing'", "node"),
        ],
    )
    def test_what_does_not_agree_is_found(
        self, store: SqlStore, path: Path, damage: str, words: str
    ) -> None:
        sql(path, damage)
        (sentence,) = store.verify()
        assert words in sentence
        assert sentence.endswith(".")

    def test_counters_at_zero_are_all_right(self, store: SqlStore, path: Path) -> None:
        sql(path, "INSERT INTO counts VALUES ('nowhere', 'pending', 0, 0, 0)")
        assert store.verify() == []

    def test_a_damaged_index_is_found(self, store: SqlStore, path: Path) -> None:
        sql(
            path,
            "PRAGMA writable_schema = ON",
            "UPDATE sqlite_schema SET sql = replace(sql, 'queue, state', 'state, queue')"
            " WHERE name = 'jobs_listed'",
        )
        with closing(open_store(str(path))) as again:
            assert any("jobs_listed" in sentence for sentence in again.verify())


class TestBackup:
    def test_is_a_store_like_this_one(self, store: SqlStore, tmp_path: Path) -> None:
        a_node(store)
        add(store, "done", tags=("red",))
        run(store, "done")
        add(store, "waiting")
        copy = tmp_path / "copy.db"
        backup(store, str(copy))
        with closing(open_store(str(copy))) as again:
            assert again.verify() == []
            assert states(again) == states(store)
            assert again.history.attempts(the(again, "done")) == store.history.attempts(
                the(store, "done")
            )
            assert again.history.output(the(again, "done"), 1) == store.history.output(
                the(store, "done"), 1
            )

    def test_leaves_nothing_but_the_one_file(self, store: SqlStore, tmp_path: Path) -> None:
        folder = tmp_path / "backups"
        folder.mkdir()
        backup(store, str(folder / "copy.db"))
        assert os.listdir(folder) == ["copy.db"]

    def test_tells_how_far_it_is(self, store: SqlStore, tmp_path: Path) -> None:
        store.jobs.enqueue([NewJob(command="x" * 2**20) for _ in range(3)], now=NOW)
        told: list[tuple[int, int]] = []
        backup(store, str(tmp_path / "copy.db"), lambda done, total: told.append((done, total)))
        assert told == sorted(told)
        assert told[-1][0] == told[-1][1] > 700
        assert len(told) > 1

    def test_does_not_overwrite(self, store: SqlStore, path: Path, tmp_path: Path) -> None:
        copy = tmp_path / "copy.db"
        copy.write_text("precious")
        with pytest.raises(StoreError, match="exists already"):
            backup(store, str(copy))
        assert copy.read_text() == "precious"
        with pytest.raises(StoreError, match="exists already"):
            backup(store, str(path))

    def test_needs_a_folder(self, store: SqlStore, tmp_path: Path) -> None:
        with pytest.raises(StoreError, match="can't be made"):
            backup(store, str(tmp_path / "missing" / "copy.db"))

    def test_is_consistent_while_others_write(self, store: SqlStore, tmp_path: Path) -> None:
        store.jobs.enqueue([NewJob(command="x" * 2**20) for _ in range(8)], now=NOW)
        writer = Actor("write", str(store.path))
        assert writer.hear() == "ready"
        for n in range(3):
            copy = tmp_path / f"copy{n}.db"
            backup(store, str(copy))
            with closing(open_store(str(copy))) as again:
                assert again.verify() == []
                left = [id for id in states(again) if id.startswith("left")]
                right = [id for id in states(again) if id.startswith("right")]
                assert [id[5:] for id in left] == [id[6:] for id in right]
        writer.say("stop")
        assert int(writer.hear()) > 0
        writer.finish()


def test_a_store_is_what_the_contract_says() -> None:
    assert issubclass(SqlStore, Store)
    assert not SqlStore.__abstractmethods__


class TestBulk:
    def test_many_jobs_are_stored_without_savepoints(self, store: SqlStore) -> None:
        """Under a savepoint SQLite keeps every page a statement touches: rows get ever dearer."""
        said: list[str] = []

        def note(_cursor: object, statement: str, _bindings: object) -> bool:
            said.append(statement)
            return True

        raw(store).exec_trace = note
        with transaction(store):
            store.jobs.enqueue([NewJob(command="true")] * 3, now=store.clock.now())
        assert len([text for text in said if "INSERT INTO jobs" in text]) == 3
        assert not [text for text in said if "SAVEPOINT" in text]

    @pytest.mark.parametrize(
        "statement",
        [
            "INSERT INTO jobs (command) VALUES ('true')",
            "UPDATE jobs SET state = 'completed', ready = NULL, backoff = 'fixed' WHERE seq = 1",
        ],
    )
    def test_no_row_is_looked_up_in_a_list(
        self, store: SqlStore, path: Path, statement: str
    ) -> None:
        """Of a list of three words or more, SQLite makes a table for each statement."""
        assert store.verify() == []
        steps = {step for _, step, *_ in sql(path, f"EXPLAIN {statement}")}
        assert "MakeRecord" in steps
        assert "OpenEphemeral" not in steps
