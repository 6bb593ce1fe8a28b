"""A queue and the other users of its host: who may not use it, and who shares it as a group."""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from queuectl import Queue, State
from tests.support import PATIENCE, wait_for
from tests.users import ALICE, BOB, BUILDERS, STRANGER, User

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")

ACT_AS_ALICE = "act as alice (sudo -u alice queuectl ...)"


@pytest.fixture
def db() -> Iterator[Path]:
    """A database to be, in a folder of Alice's that anybody may enter."""
    # Not `tmp_path`, which only root may enter.
    with TemporaryDirectory(dir="/tmp") as above:
        os.chmod(above, 0o755)
        folder = Path(above, "queue")
        folder.mkdir(mode=0o755)
        os.chown(folder, ALICE.uid, ALICE.uid)
        yield folder / "queue.db"


@pytest.fixture
def private(db: Path) -> Path:
    """A queue of Alice's."""
    ALICE.ok(db, "enqueue", "true", "--id", "hers")
    return db


@pytest.fixture
def shared(db: Path) -> Path:
    """A queue of Alice's that she shares with the builders."""
    ALICE.ok(db, "db", "init", "--group", "builders")
    return db


def findings(user: User, db: Path, level: str) -> list[str]:
    """Return what the doctor says to somebody, with its advice."""
    told = json.loads(user.run(db, "doctor", "--json").stdout)["findings"]
    return [f"{found['text']} {found['advice']}" for found in told if found["level"] == level]


def everything(db: Path) -> list[Path]:
    """Return the folder of a database and all that is in it."""
    return [db.parent, *db.parent.rglob("*")]


def strays(db: Path) -> list[str]:
    """Return what isn't shared with the builders as it should be."""
    wrong = []
    for path in everything(db):
        found = path.stat()
        mode = 0o2770 if path.is_dir() else 0o660
        if (found.st_gid, stat.S_IMODE(found.st_mode)) != (BUILDERS, mode):
            wrong.append(f"{path}: {found.st_gid} {found.st_mode:o}")
    return wrong


class TestSomebodyElse:
    """Bob, and the queue of Alice."""

    @pytest.mark.parametrize("args", [("enqueue", "true"), ("list",), ("db", "info")], ids=" ".join)
    def test_who_may_not_read(self, private: Path, args: tuple[str, ...]) -> None:
        told = BOB.refused(private, *args)
        assert f"You (bob) may not read {private}, which belongs to alice" in told
        assert "0600" in told
        assert ACT_AS_ALICE in told
        assert "queuectl db init --group NAME" in told
        assert "unable to open" not in told

    def test_doctor_says_it_too_and_nothing_else(self, private: Path) -> None:
        (error,) = findings(BOB, private, "error")
        assert f"You (bob) may not read {private}, which belongs to alice" in error
        assert "sudo -u alice queuectl" in error
        assert findings(BOB, private, "warning") == findings(BOB, private, "note") == []
        assert BOB.run(private, "doctor").returncode == 5

    def test_who_may_read_only(self, private: Path) -> None:
        private.chmod(0o644)
        assert "hers" in BOB.ok(private, "list")
        told = BOB.refused(private, "enqueue", "true")
        assert f"You (bob) may read {private}, but not write it: it belongs to alice" in told
        assert ACT_AS_ALICE in told
        assert told.endswith("Nothing was changed.")
        (warning,) = findings(BOB, private, "warning")
        assert "may read" in warning
        assert findings(BOB, private, "error") == []

    def test_who_may_not_write_to_the_folder(self, private: Path) -> None:
        private.chmod(0o666)
        told = BOB.refused(private, "enqueue", "true")
        assert f"You (bob) may not write to {private.parent}, where SQLite keeps its log" in told
        (warning,) = findings(BOB, private, "warning")
        assert "may not write to" in warning

    @pytest.mark.parametrize("args", [("enqueue", "true"), ("status",)], ids=" ".join)
    def test_who_may_not_enter_the_folder(self, private: Path, args: tuple[str, ...]) -> None:
        private.parent.chmod(0o700)
        told = BOB.refused(private, *args)
        assert f"You (bob) may not enter {private.parent}, which belongs to alice" in told
        assert ACT_AS_ALICE in told
        (error,) = findings(BOB, private, "error")
        assert "may not enter" in error

    def test_who_may_make_nothing_there(self, db: Path) -> None:
        told = BOB.refused(db, "enqueue", "true")
        assert f"can't be made: you (bob) may not write to {db.parent}" in told

    def test_who_has_locked_themselves_out(self, private: Path) -> None:
        private.chmod(0)
        assert f"run: chmod 600 {private}" in ALICE.refused(private, "list")


class TestShared:
    """A queue of Alice's, in which Bob has a part."""

    def test_a_second_user_enqueues_reads_and_cancels(self, shared: Path) -> None:
        assert BOB.ok(shared, "enqueue", "id -un", "--id", "his", "-q") == "his\n"
        ALICE.ok(shared, "enqueue", "true", "--id", "hers", "--delay", "1h")
        BOB.ok(shared, "cancel", "hers")
        assert "hers" in BOB.ok(shared, "list")
        ALICE.ok(shared, "worker", "start", "--drain")
        assert BOB.ok(shared, "output", "his", "--stdout") == "alice\n"
        assert strays(shared) == []
        assert findings(BOB, shared, "error") == findings(ALICE, shared, "error") == []

    @pytest.mark.parametrize(("worker", "other"), [(ALICE, BOB), (BOB, ALICE)], ids=["hers", "his"])
    def test_all_that_a_worker_makes_is_the_groups(
        self, shared: Path, worker: User, other: User
    ) -> None:
        long = "x" * 200_000
        with Queue(shared) as queue:  # As root.
            node = worker.start(shared, "worker", "start", "--log", f"{shared}.d/node.log")
            try:
                go = shared.parent / "go"
                job = f"echo begun; until [ -e {go} ]; do sleep 0.1; done; : {long}"
                queue.enqueue(job, id="runs", cwd="/tmp")
                wait_for(lambda: queue.get("runs").state == State.PROCESSING, "the job to run")
                wait_for(lambda: b"begun" in _written(shared), "its output")
                assert other.ok(shared, "output", "runs", "--stdout") == "begun\n"
                assert strays(shared) == []
                names = {path.name for path in everything(shared)}
                assert {"queue.db-wal", "queue.db-shm", "node.log", "work"} <= names
                assert any(name.endswith(".out") for name in names)
                assert findings(other, shared, "error") == []
                go.touch()
                wait_for(lambda: queue.get("runs").state == State.COMPLETED, "its end")
                go.unlink()
                other.ok(shared, "worker", "stop")
            finally:
                node.terminate()
                node.wait(PATIENCE)

    def test_what_is_made_anew_is_the_groups_too(self, shared: Path) -> None:
        BOB.ok(shared, "enqueue", "true")
        companion = Path(f"{shared}.d")
        for path in companion.iterdir():
            path.unlink()
        companion.rmdir()
        BOB.ok(shared, "enqueue", "true")
        assert companion.is_dir()
        assert strays(shared) == []

    def test_an_existing_queue_is_shared_with_all_that_belongs_to_it(self, private: Path) -> None:
        ALICE.ok(private, "worker", "start", "--drain")
        told = ALICE.ok(private, "db", "init", "--group", "builders")
        assert "There is a queue at" in told
        assert "It is shared with group builders" in told
        assert strays(private) == []
        BOB.ok(private, "retry", "hers")

    def test_who_is_not_in_the_group_is_told(self, shared: Path) -> None:
        told = STRANGER.refused(shared, "list")
        assert "may not enter" in told
        assert "become a member of the group builders" in told

    def test_db_info_and_events_say_so(self, shared: Path) -> None:
        assert "Shared with:    builders\n" in BOB.ok(shared, "db", "info")
        assert "with group builders" in BOB.ok(shared, "events")

    @pytest.mark.parametrize("mode", [0o600, 0o640, 0o664, 0o666])
    def test_doctor_finds_a_file_of_another_mode_and_mends_it(
        self, shared: Path, mode: int
    ) -> None:
        ALICE.ok(shared, "enqueue", "true")
        odd = Path(f"{shared}.d/work")
        odd.chmod(mode)
        (error,) = findings(BOB, shared, "error")
        assert f"not {odd}: it belongs to alice, group builders ({mode:04o})" in error
        assert f"queuectl --db {shared} db init --group builders" in error
        ALICE.ok(shared, "db", "init", "--group", "builders")
        assert findings(BOB, shared, "error") == []
        assert strays(shared) == []

    def test_doctor_finds_a_file_of_another_group(self, shared: Path) -> None:
        ALICE.ok(shared, "enqueue", "true")
        os.chown(f"{shared}.d/work", -1, 12401)
        (error,) = findings(BOB, shared, "error")
        assert "group others" in error

    def test_doctor_finds_a_folder_that_does_not_pass_the_group_on(self, shared: Path) -> None:
        shared.parent.chmod(0o770)
        # What SQLite makes while Bob looks isn't the group's either.
        assert f"not {shared.parent}:" in findings(BOB, shared, "error")[0]

    def test_a_folder_above_that_keeps_the_group_out(self, db: Path) -> None:
        above = db.parent.parent
        os.chown(above, ALICE.uid, ALICE.uid)
        above.chmod(0o700)
        done = ALICE.run(db, "db", "init", "--group", "builders")
        assert (done.returncode, done.stderr) == (
            0,
            f"Note: {above} keeps them out; let them enter it: chmod o+x {above}\n",
        )
        (warning,) = findings(ALICE, db, "warning")
        assert f"{above} keeps its members out" in warning
        above.chmod(0o711)
        BOB.ok(db, "enqueue", "true")


class TestWhatCannotBeShared:
    def test_in_a_folder_with_other_things(self, db: Path) -> None:
        (db.parent / "thesis.tex").touch()
        told = ALICE.refused(db, "db", "init", "--group", "builders", code=4)
        assert "holds other things too (thesis.tex)" in told
        assert "put the database into one of its own" in told
        assert not db.exists()

    def test_unless_the_folder_is_the_groups_already(self, db: Path) -> None:
        (db.parent / "thesis.tex").touch(0o644)
        os.chown(db.parent, -1, BUILDERS)
        db.parent.chmod(0o2775)
        ALICE.ok(db, "db", "init", "--group", "builders")
        assert stat.S_IMODE(db.parent.stat().st_mode) == 0o2775
        assert stat.S_IMODE((db.parent / "thesis.tex").stat().st_mode) == 0o644
        BOB.ok(db, "enqueue", "true")
        assert findings(BOB, db, "error") == []

    def test_with_a_group_that_does_not_exist(self, db: Path) -> None:
        told = ALICE.refused(db, "db", "init", "--group", "nobodies", code=2)
        for number in (2**32 - 1, 2**32, 10**30):
            none = ALICE.refused(db, "db", "init", "--group", str(number), code=2)
            assert f"can't have the number '{number}'" in none
        assert "no group '٣'" in ALICE.refused(db, "db", "init", "--group", "٣", code=2)
        assert "There is no group 'nobodies' on this host" in told
        assert not db.exists()

    def test_by_who_is_not_in_it(self, private: Path) -> None:
        told = ALICE.refused(private, "db", "init", "--group", "others")
        assert "You (alice) aren't in the group others" in told
        assert "usermod -aG others alice" in told

    def test_by_who_does_not_own_it(self, shared: Path) -> None:
        Path(f"{shared}.d").mkdir(exist_ok=True)
        shared.chmod(0o666)
        told = BOB.refused(shared, "db", "init", "--group", "builders")
        assert "belongs to alice, so only alice and root can share it" in told

    def test_on_a_server(self, db: Path) -> None:
        told = ALICE.refused(
            db, "db", "init", "--group", "builders", "--db", "postgresql://x/y", code=2
        )
        assert "Only a queue in a file is shared with a group" in told


def test_a_private_queue_in_a_folder_of_a_group_stays_private(db: Path) -> None:
    os.chown(db.parent, -1, BUILDERS)
    db.parent.chmod(0o2770)
    ALICE.ok(db, "enqueue", "true")
    ALICE.ok(db, "worker", "start", "--drain")
    modes = {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in everything(db)[1:]}
    assert modes == {0o600, 0o700}
    assert "may not read" in BOB.refused(db, "list")


def _written(db: Path) -> bytes:
    """Return what the runs of all nodes have written so far."""
    return b"".join(path.read_bytes() for path in Path(f"{db}.d").rglob("*.out"))
