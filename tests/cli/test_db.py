"""`db`: looking after the database itself."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import apsw
import pytest

from queuectl import Queue, State
from tests.cli.conftest import Cli
from tests.support import Lab, wait_for

BUSY = """
import sys
from queuectl import Queue
queue = Queue(sys.argv[1])
while True:
    queue.enqueue("true")
"""


def test_info(cli: Cli) -> None:
    cli.add("true")
    found = cli.ok("db", "info", "--json").json
    assert found["database"] == f"sqlite:{cli.db}"
    assert found["chosen_by"] == "the environment"
    assert (found["engine"], found["journal_mode"], found["jobs"]) == ("sqlite", "wal", 1)
    assert found["size_bytes"] > 0
    lines = cli.ok("db", "info").lines
    assert lines[0].split() == ["Database:", f"sqlite:{cli.db}"]
    assert any(line.startswith("Size:") and line.endswith("KiB") for line in lines)
    assert "Chosen by:      --db" in cli.ok("db", "info", "--db", str(cli.db)).stdout


@pytest.mark.parametrize("args", [["info"], ["check"], ["backup", "x.db"], ["vacuum"]])
def test_a_missing_database_is_not_made(cli: Cli, args: list[str]) -> None:
    assert "no queue" in cli.refused("db", *args, code=5)
    assert list(cli.folder.glob("*")) == []


def test_check_of_a_sound_database(cli: Cli) -> None:
    cli.add("true")
    assert cli.ok("db", "check").stdout == f"sqlite:{cli.db} is sound.\n"
    assert cli.ok("db", "check", "--json").json == {
        "database": f"sqlite:{cli.db}",
        "ok": True,
        "problems": [],
    }


def test_check_of_a_damaged_database_fails(cli: Cli) -> None:
    with Queue(str(cli.db)) as queue:  # when it closes, the log is merged into the file
        queue.enqueue_many([f"echo {'x' * 400}"] * 2000)
    with cli.db.open("r+b") as file:
        for page in range(20, 120, 5):
            file.seek(page * 4096)
            file.write(b"\xff" * 3000)
    result = cli.run("db", "check")
    assert result.code in (1, 5)
    assert "Traceback" not in result.stderr
    assert result.stdout or result.stderr.startswith("queuectl: ")


def test_a_file_that_is_no_database_is_left_alone(cli: Cli) -> None:
    cli.db.write_text("these are my notes " * 100)
    cli.refused("db", "check", code=5)
    assert cli.db.read_text().startswith("these are my notes")


def test_backup_is_whole_private_and_usable(cli: Cli) -> None:
    ids = {cli.add("true"), cli.add("true")}
    old = os.umask(0)
    try:
        told = cli.ok("db", "backup", "copy.db").stdout
    finally:
        os.umask(old)
    assert told.startswith("Backed up to copy.db (")
    copy = cli.folder / "copy.db"
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert set(cli.ok("list", "-q", "--db", "copy.db").lines) == ids
    assert cli.ok("db", "check", "--db", "copy.db").code == 0
    assert not list(cli.folder.glob("*.partial*"))


def test_backup_while_others_write_comes_to_an_end(cli: Cli) -> None:
    cli.queue.enqueue_many([f"echo {'x' * 1000}"] * 20_000)
    writing = subprocess.Popen([sys.executable, "-c", BUSY, str(cli.db)])
    try:
        total = cli.queue.status().total
        wait_for(lambda: cli.queue.status().total > total, "the writer to write")
        cli.ok("db", "backup", "copy.db")
        assert writing.poll() is None, "it was to write all the time"
    finally:
        writing.kill()
        writing.wait()
    assert cli.ok("db", "check", "--db", "copy.db").code == 0
    assert cli.ok("status", "--db", "copy.db", "--json").json["total"] > 20_000


def test_backup_refuses_what_it_would_destroy(cli: Cli) -> None:
    id = cli.add("true")
    notes = cli.folder / "notes.txt"
    notes.write_text("do not lose")
    assert "--force" in cli.refused("db", "backup", "notes.txt", code=4)
    assert notes.read_text() == "do not lose"
    cli.ok("db", "backup", "--force", "notes.txt")
    assert cli.ok("list", "-q", "--db", "notes.txt").lines == [id]
    assert "itself" in cli.refused("db", "backup", "--force", "queue.db", code=4)
    (cli.folder / "link.db").symlink_to(cli.db)
    assert "itself" in cli.refused("db", "backup", "--force", "link.db", code=4)
    other = Queue(str(cli.folder / "other.db"))
    other.enqueue("true")
    assert "in use" in cli.refused("db", "backup", "--force", "other.db", code=4)
    other.close()
    assert cli.ok("list", "-q").lines == [id]


def test_backup_into_a_missing_folder_is_refused(cli: Cli) -> None:
    cli.add("true")
    assert "missing" in cli.refused("db", "backup", "missing/copy.db", code=5)


def test_vacuum_gives_space_back(cli: Cli) -> None:
    cli.queue.enqueue_many([f"echo {'x' * 1000}"] * 3000)
    cli.ok("rm", "--state", "pending", "-q")
    before = cli.ok("db", "info", "--json").json
    assert "KiB" in cli.ok("db", "vacuum").stdout
    after = cli.ok("db", "info", "--json").json
    assert after["size_bytes"] + after["wal_bytes"] < before["size_bytes"] / 2
    assert cli.ok("db", "check").code == 0


def test_backup_replaces_no_device_and_no_part_of_a_database(lab: Lab) -> None:
    lab.queue.enqueue("true")
    refused = lab.run("db", "backup", "--force", f"{lab.db}-wal")
    assert refused.returncode == 4
    assert "named like a part of a database" in refused.stderr
    os.mkfifo(lab.folder / "pipe")
    refused = lab.run("db", "backup", "--force", str(lab.folder / "pipe"))
    assert refused.returncode == 4
    assert "isn't a plain file" in refused.stderr
    assert lab.queue.verify() == []


def test_a_limit_beyond_reason_is_a_usage_error(lab: Lab) -> None:
    lab.queue.enqueue("true")
    refused = lab.run("list", "--limit", "9" * 30)
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr


# -- copies that are only read --------------------------------------------------------------


def copy_by_hand(source: Path, target: Path) -> None:
    """Copy a database as another program would."""
    old, new = apsw.Connection(str(source)), apsw.Connection(str(target))
    with new.backup("main", old, "main") as copy:
        copy.step()
    new.close()
    old.close()


@pytest.mark.parametrize("kind", ["backup", "copy"])
def test_a_copy_is_not_called_running_and_gets_no_folder(cli: Cli, kind: str) -> None:
    cli.node()
    id = cli.add("until [ -e enough ]; do sleep 0.1; done")
    wait_for(lambda: cli.queue.get(id).state == State.PROCESSING, "the job to run")
    copy = cli.folder / "copy.db"
    if kind == "backup":
        cli.ok("db", "backup", str(copy))
    else:
        copy_by_hand(cli.db, copy)
    assert cli.ok("status", "--json").json["workers"] == 2
    status = cli.ok("--db", str(copy), "status").stdout
    assert "Workers are STOPPED" in status
    assert cli.ok("--db", str(copy), "config", "get", "worker_pids", "-q").stdout == "\n"
    for args in (["list"], ["show", id], ["stats"], ["worker", "list"], ["db", "check"]):
        cli.ok("--db", str(copy), *args)
    beside = {path.name for path in cli.folder.glob("copy.db*")}
    assert beside == {"copy.db"}
    (cli.folder / "enough").touch()


def test_what_ran_when_it_was_backed_up_runs_again_where_it_is_restored(cli: Cli) -> None:
    node = cli.node()
    id = cli.add("until [ -e enough ]; do sleep 0.1; done; echo $QUEUECTL_ATTEMPT >> runs")
    wait_for(lambda: cli.queue.get(id).state == State.PROCESSING, "the job to run")
    copy = cli.folder / "copy.db"
    cli.ok("db", "backup", str(copy))
    node.kill()
    node.wait()
    (cli.folder / "enough").touch()
    cli.ok("--db", str(copy), "worker", "start", "--drain")
    assert (cli.folder / "runs").read_text() == "2\n"
