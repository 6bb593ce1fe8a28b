"""`db` on database servers: making, migrating, checking, saving and copying a queue there."""

import os
import shutil
import signal
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from queuectl import Queue, State
from queuectl.store.migrations import current
from tests.cli.conftest import Cli, Result
from tests.contract import later
from tests.contract.foreign import MariaDBClient, PostgresClient, ServerClient
from tests.servers import QUEUECTL
from tests.support import wait_for

NOW_KNOWN = current()
MIGRATED = f"Migrated from version {NOW_KNOWN} to {NOW_KNOWN + 1}.\n"
UP_TO_DATE = f"The schema is up to date (version {NOW_KNOWN + 1}).\n"
MANY = 10_000
"""Jobs enough for a copy to take a while."""
CLIENTS: dict[str, type[ServerClient]] = {"postgres": PostgresClient, "mariadb": MariaDBClient}


@dataclass
class Place:
    """A place on a server, and the command, none of whose words may give the password away."""

    cli: Cli
    url: str
    client: ServerClient
    printed: list[Result] = field(default_factory=list)

    def run(self, *args: str) -> Result:
        """Run the command to its end."""
        done = self.cli.run(*args)
        self.printed.append(done)
        return done

    def ok(self, *args: str) -> Result:
        """Run the command, which must succeed."""
        done = self.run(*args)
        assert done.code == 0, done
        return done

    def refused(self, *args: str, code: int) -> str:
        """Run the command, which must fail with one sentence; returns it."""
        done = self.run(*args)
        assert done.code == code, done
        assert done.out == b""
        (line,) = done.stderr.splitlines()
        assert line.startswith("queuectl: ")
        return line

    def make(self, *ids: str) -> None:
        """Make a queue there with these jobs."""
        with Queue(self.url) as queue:
            for id in ids:
                queue.enqueue("true", id=id)

    @property
    def public(self) -> str:
        """The URL without the password."""
        return self.url.replace(f":{QUEUECTL.password}@", "@")


@pytest.fixture(params=["postgres", "mariadb"])
def place(request: pytest.FixtureRequest, cli: Cli) -> Iterator[Place]:
    """A place on a server with nothing in it, which is what every command means."""
    url: str = request.getfixturevalue(f"{request.param}_url")
    cli.variables["QUEUECTL_DB"] = url
    client = CLIENTS[request.param](url)
    place = Place(cli, url, client)
    yield place
    client.close()
    for done in place.printed:
        assert QUEUECTL.password.encode() not in done.out + done.err


def make_old(place: Place) -> None:
    """Make a queue, and let commands be of the next version from now on."""
    place.make("old")
    place.cli.variables |= later.variables(place.cli.folder)


def say_version(place: Place, version: int) -> None:
    place.client.run("UPDATE {meta} SET value = ? WHERE name = 'schema_version'", str(version))


# -- init and migrate ---------------------------------------------------------------------


def test_init_makes_the_queue_once(place: Place) -> None:
    assert "`queuectl db init` makes it" in place.refused("db", "info", code=5)
    made = place.ok("db", "init").stdout
    assert made == f"Made a queue at {place.public} (schema {NOW_KNOWN}).\n"
    place.make("mine")
    again = place.ok("db", "init").stdout
    assert again == f"There is a queue at {place.public} already (schema {NOW_KNOWN}).\n"
    assert place.ok("status", "--json").json["total"] == 1


def test_two_who_init_at_once_both_succeed(place: Place) -> None:
    both = [place.cli.start("db", "init") for _ in range(2)]
    for process in both:
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        assert place.public.encode() in out
    assert place.ok("db", "check").code == 0


def test_an_old_schema_is_refused_until_it_is_migrated(place: Place) -> None:
    make_old(place)
    assert "run `queuectl db migrate` first" in place.refused("enqueue", "true", code=5)
    assert (
        place.ok("db", "migrate").stdout
        == f"Migrated from version {NOW_KNOWN} to {NOW_KNOWN + 1}.\n"
    )
    place.ok("enqueue", "true")
    assert place.ok("db", "migrate").stdout == UP_TO_DATE


def test_two_who_migrate_at_once_do_not_collide(place: Place) -> None:
    make_old(place)
    both = [place.cli.start("db", "migrate") for _ in range(2)]
    said = [process.communicate(timeout=60) for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    told = sorted(out.decode() for out, _ in said)
    assert told == [MIGRATED, UP_TO_DATE]
    assert place.ok("db", "check").code == 0
    place.ok("enqueue", "true")


def test_a_newer_schema_is_left_alone(place: Place) -> None:
    place.make()
    say_version(place, 99)
    for command in ("migrate", "init", "info"):
        assert "newer queuectl" in place.refused("db", command, code=5)


def test_migrating_what_is_not_there_is_refused(place: Place) -> None:
    assert "`queuectl db init`" in place.refused("db", "migrate", code=5)


def test_init_and_migrate_of_a_file(cli: Cli) -> None:
    assert "no queue" in cli.refused("db", "migrate", code=5)
    made = cli.ok("db", "init").stdout
    assert made == f"Made a queue at sqlite:{cli.db} (schema {NOW_KNOWN}).\n"
    assert cli.ok("db", "init").stdout.startswith("There is a queue at")
    assert cli.ok("db", "migrate").stdout == f"The schema is up to date (version {NOW_KNOWN}).\n"


# -- looking after it -----------------------------------------------------------------------


def test_info(place: Place) -> None:
    place.make("mine")
    found = place.ok("db", "info", "--json").json
    assert found["database"] == found["url"] == place.public
    assert found["engine"] in ("postgresql", "mariadb")
    assert (found["schema_version"], found["jobs"]) == (NOW_KNOWN, 1)
    assert found["size_bytes"] > 0
    assert f"Database:{' ' * 8}" in place.ok("db", "info").stdout.replace(place.public, " " * 8)


def test_check_finds_counters_that_are_wrong(place: Place) -> None:
    place.make("mine")
    assert place.ok("db", "check").stdout == f"{place.public} is sound.\n"
    place.client.run("UPDATE {counts} SET jobs = jobs + 1")
    wrong = place.run("db", "check", "--json")
    assert (wrong.code, wrong.json["ok"]) == (1, False)
    assert "counters disagree" in wrong.json["problems"][0]


def test_vacuum(place: Place) -> None:
    place.make("mine")
    assert "KiB" in place.ok("db", "vacuum").stdout
    assert place.ok("db", "check").code == 0


def test_backup_writes_a_file_that_is_whole_and_private(place: Place) -> None:
    with Queue(place.url) as queue:
        queue.enqueue_many([f"echo {n}" for n in range(30)])
    assert place.ok("db", "backup", "copy.db").stdout.startswith("Backed up to copy.db (")
    copy = place.cli.folder / "copy.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    with Queue(copy, create=False) as queue:
        assert queue.verify() == []
        assert len(queue.list(limit=99)) == 30
    assert not list(place.cli.folder.glob("*.partial*"))
    assert "--force" in place.refused("db", "backup", "copy.db", code=4)
    place.ok("db", "backup", "--force", "copy.db")


def test_a_backup_of_a_queue_at_work_is_sound_and_its_jobs_run_again(place: Place) -> None:
    flag = place.cli.folder / "go"
    with Queue(place.url) as queue:
        job = queue.enqueue(f"while [ ! -e {flag} ]; do sleep 0.05; done").id
        place.cli.start("worker", "start", start_new_session=True)
        wait_for(lambda: queue.get(job).state == State.PROCESSING, "the job to run")
        place.ok("db", "backup", "copy.db")
    with Queue(place.cli.folder / "copy.db", create=False) as copy:
        assert copy.verify() == []
        assert copy.get(job).state == State.PROCESSING
        flag.touch()
        place.ok("worker", "start", "--drain", "--db", "copy.db")
        told = copy.get(job)
    assert (told.state, told.attempts, told.crashes) == (State.COMPLETED, 2, 1)


# -- copying ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def once_busy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue in a file in which something has happened."""
    cli = Cli(tmp_path_factory.mktemp("busy"))
    cli.queue.enqueue("echo ü; echo oops >&2", id="said")
    cli.queue.pause("slow")
    cli.queue.set_setting("max_retries", 5)
    cli.ok("worker", "start", "--drain")
    cli.queue.enqueue("true", id="later", run_at="+1d", tags=["a"])
    cli.close()
    return cli.db


@pytest.fixture(scope="module")
def once_filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A queue in a file with many jobs."""
    path = tmp_path_factory.mktemp("filled") / "queue.db"
    with Queue(path) as queue:
        queue.enqueue_many(f"echo {n}" for n in range(MANY))
    return path


@pytest.fixture
def busy_file(cli: Cli, once_busy: Path) -> Path:
    """A copy of the test's own, in the folder in which commands run."""
    return Path(shutil.copy(once_busy, cli.folder / "house.db"))


@pytest.fixture
def full_file(cli: Cli, once_filled: Path) -> Path:
    """The same of the file with many jobs."""
    return Path(shutil.copy(once_filled, cli.folder / "house.db"))


def test_moving_to_a_server_and_back(place: Place, busy_file: Path) -> None:
    told = place.ok("db", "copy", str(busy_file), place.url).stdout
    assert told == f"Copied 2 jobs with 1 attempt to {place.public}; both sides are alike.\n"
    with Queue(place.url, create=False) as here:
        assert here.output("said").stdout == "ü\n".encode()
        assert here.settings.max_retries == 5
        assert here.verify() == []
        here.enqueue("true", id="new")
        jobs = here.list()

    found = place.ok("db", "copy", "--json", place.url, "back.db").json
    assert (found["source"], found["target"]) == (place.public, "back.db")
    assert found["tables"]["jobs"]["rows"] == 3
    assert len(found["tables"]["outputs"]["sha256"]) == 64
    with Queue(place.cli.folder / "back.db", create=False) as back:
        assert back.list() == jobs


def test_a_target_that_is_not_empty_is_refused(place: Place, busy_file: Path) -> None:
    place.make("mine")
    assert "--overwrite" in place.refused("db", "copy", str(busy_file), place.url, code=4)
    with Queue(place.url) as queue:
        assert [job.id for job in queue.list()] == ["mine"]
        place.ok("db", "copy", "--overwrite", str(busy_file), place.url)
        assert {job.id for job in queue.list()} == {"said", "later"}


def test_a_queue_is_not_copied_to_itself(place: Place) -> None:
    place.make("mine")
    alias = place.url.replace("127.0.0.1", "localhost")
    for url in (place.url, alias):
        assert "itself" in place.refused("db", "copy", "--overwrite", place.url, url, code=2)
    with Queue(place.url) as queue:
        assert queue.status().total == 1


def test_workers_at_work_are_no_time_to_move(place: Place, busy_file: Path) -> None:
    place.make()
    node = place.cli.start("worker", "start", start_new_session=True)
    with Queue(place.url) as queue:
        wait_for(queue.nodes, "the node to register")
    assert "stop them first" in place.refused("db", "copy", place.url, "copy.db", code=4)
    assert not (place.cli.folder / "copy.db").exists()
    place.ok("db", "copy", "--force", place.url, "copy.db")
    # Into a place where others work nothing is copied, whatever anybody says.
    copy = ("db", "copy", "--force", "--overwrite", str(busy_file), place.url)
    assert "stop them first" in place.refused(*copy, code=4)
    node.send_signal(signal.SIGTERM)
    assert node.wait(60) == 0
    place.ok("db", "copy", "--overwrite", str(busy_file), place.url)


def test_an_interrupted_copy_is_no_queue_until_it_is_complete(
    place: Place, full_file: Path
) -> None:
    place.make()
    copying = place.cli.start("db", "copy", str(full_file), place.url)
    wait_for(
        lambda: place.client.run("SELECT 1 FROM {jobs} LIMIT 1") or copying.poll() is not None,
        "the copy to come somewhere",
    )
    os.kill(copying.pid, signal.SIGINT)
    assert copying.wait(60) == 130
    for command in (("enqueue", "true"), ("status",), ("worker", "start"), ("db", "check")):
        line = place.refused(*command, code=4)
        assert "unfinished copy" in line and str(full_file) in line
    told = place.ok("db", "copy", str(full_file), place.url).stdout
    assert told.startswith(f"Copied {MANY:,} jobs ")
    assert place.ok("db", "check").code == 0


def test_copying_shows_its_progress_on_a_terminal(place: Place, full_file: Path) -> None:
    shown = place.cli.on_terminal("db", "copy", str(full_file), place.url)
    assert shown.code == 0
    assert "Comparing" in shown.stdout and str(2 * MANY) in shown.stdout


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["missing.db", "copy.db"], 5, "no queue"),
        (["house.db", "missing/copy.db"], 5, "missing"),
        (["house.db", "oracle://x/y"], 2, "oracle"),
        (["house.db", "postgresql://u:secret@127.0.0.1:1/x"], 5, "reached"),
        (["house.db", "mysql://u:secret@127.0.0.1:1/x"], 5, "reached"),
        (["house.db"], 2, "TARGET"),
    ],
)
def test_what_can_not_be_copied_is_said(
    cli: Cli, busy_file: Path, args: list[str], code: int, word: str
) -> None:
    done = cli.run("db", "copy", *args)
    assert done.code == code
    assert word in done.stderr
    assert "secret" not in done.stderr
    assert not (cli.folder / "copy.db").exists()
