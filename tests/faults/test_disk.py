"""A full or read-only disk: nothing is acknowledged that isn't stored, and work resumes."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queuectl import Queue, State
from queuectl.errors import StoreError, StoreFullError
from tests.support import Lab, wait_for

pytestmark = pytest.mark.skipif(
    os.geteuid() != 0, reason="only root may mount the small disk that is to be filled"
)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of two megabytes."""
    folder = tmp_path / "disk"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextmanager
def filled(folder: Path) -> Iterator[None]:
    """Fill a disk to the last byte, for a while."""
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 4096)
        except OSError:
            pass
    try:
        yield
    finally:
        ballast.unlink()


def test_a_full_disk_is_one_sentence_and_loses_nothing(small_disk: Path, lab: Lab) -> None:
    db = str(small_disk / "queue.db")
    with Queue(db) as queue:
        kept = [queue.enqueue(f"echo {n}").id for n in range(10)]
        with filled(small_disk), pytest.raises(StoreError) as caught:
            for _ in range(1000):
                kept += [queue.enqueue("x" * 5000).id]
        assert isinstance(caught.value, StoreFullError), caught.value
        with filled(small_disk):
            said = lab.run("enqueue", "x" * 50_000, "--db", db)
        assert said.returncode == 5
        assert "no space left" in said.stderr
        assert said.stdout == ""
        # What was acknowledged is there, and nothing else is.
        assert [job.id for job in queue.list(limit=None, oldest=True)] == kept
        assert queue.store.verify() == []
        assert queue.enqueue("true").state == State.PENDING


def test_a_node_goes_on_when_the_disk_has_space_again(small_disk: Path, lab: Lab) -> None:
    db = str(small_disk / "queue.db")
    gate = lab.folder / "gate"
    with Queue(db) as queue:
        # They write nothing: their output would go to the same full disk.
        job = f"while [ ! -e {gate} ]; do sleep 0.05; done"
        ids = [queue.enqueue(job).id for _ in range(4)]
        lab.queue.close()
        lab.url, lab.queue = db, queue
        lab.node(count=4)
        wait_for(lambda: queue.status().states[State.PROCESSING] == 4, "the jobs to run")
        # Nothing may be left in the log that could be used again without growing.
        queue.store.vacuum()
        with filled(small_disk):
            gate.touch()
            wait_for(lambda: "no space left" in lab.log() or _done(queue), "the node to notice")
        for id in ids:
            done = lab.wait_state(id, State.COMPLETED)
            assert (done.attempts, done.failures, done.crashes) == (1, 0, 0)
        assert queue.store.verify() == []
        lab.nodes[0].terminate()
        assert lab.nodes[0].wait(60) == 0
        lab.queue = Queue(str(lab.folder / "other.db"))


def _done(queue: Queue) -> bool:
    return queue.status().states[State.COMPLETED] == 4


def test_a_read_only_disk_can_be_read(small_disk: Path, lab: Lab) -> None:
    db = str(small_disk / "queue.db")
    with Queue(db) as queue:
        queue.enqueue("echo hi", id="kept")
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    refused = lab.run("enqueue", "true", "--db", db)
    assert refused.returncode == 5
    assert refused.stderr.count("\n") == 1
    assert "can only be read" in refused.stderr
    read = lab.run("list", "-q", "--db", db)
    assert (read.returncode, read.stdout) == (0, "kept\n")
    subprocess.run(["mount", "-o", "remount,rw", small_disk], check=True)
    with Queue(db) as queue:
        assert [job.id for job in queue.list()] == ["kept"]
