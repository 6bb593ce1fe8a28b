"""Whose a file in a spool is: of the run that its worker has now, and of nobody else."""

import os
from pathlib import Path
from typing import Any

import pytest

from queuectl.guard.board import board_at
from queuectl.guard.files import Files, worker_files
from queuectl.job import Job, State
from queuectl.spool import files_of, name_left, open_stream, own_files, token_of
from tests.unit.samples import a_job


def job(seq: int, *, worker: int = 1) -> Job:
    """Make a job that is being run."""
    return a_job(seq=seq, state=State.PROCESSING, attempts=1, node="node", worker=worker)


class Spool:
    """A spool, and the guard that has it."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self._files = Files()
        self._files.settle(board_at(self.folder, 1), 1, first=True)

    def begin(self, job: Job, out: bytes = b"", err: bytes = b"") -> None:
        """Let a run write something."""
        own = own_files(self.folder, job)
        spec: Any = {"worker": job.worker, "token": token_of(job)}
        spec["stdout"], spec["stderr"] = own
        fds: list[int] = []
        self._files.open(spec, fds)
        for fd, data in zip(fds, (out, err), strict=True):
            os.write(fd, data)
            os.close(fd)

    def end(self, job: Job) -> None:
        """Let it be over."""
        files = worker_files(self.folder, job.worker or 0)
        for path, own in zip(files, own_files(self.folder, job), strict=True):
            self._files.close(path, own, os.stat(path).st_size)

    def read(self, job: Job, stream: int = 0) -> bytes | None:
        """Read what somebody finds who looks for the output of a run."""
        fd = open_stream(self.folder, job, stream)
        if fd is None:
            return None
        with open(fd, "rb") as file:
            return file.read()


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path)


def test_it_is_found_while_the_run_goes_on_and_until_it_is_stored(spool: Spool) -> None:
    spool.begin(job(1), b"out", b"err")
    assert (spool.read(job(1)), spool.read(job(1), 1)) == (b"out", b"err")
    assert files_of(spool.folder, job(1)) == worker_files(spool.folder, 1)
    spool.end(job(1))
    assert (spool.read(job(1)), spool.read(job(1), 1)) == (b"out", b"err")
    spool.begin(job(2), b"next")
    assert (spool.read(job(1)), spool.read(job(2))) == (b"out", b"next")


def test_a_silent_run_does_not_get_the_words_of_the_next(spool: Spool) -> None:
    spool.begin(job(1))
    assert spool.read(job(1)) == b""
    spool.end(job(1))
    spool.begin(job(2), b"not yours")
    assert spool.read(job(1)) is None
    assert spool.read(job(2)) == b"not yours"
    assert files_of(spool.folder, job(1)) == own_files(spool.folder, job(1))


def test_who_has_it_open_keeps_it(spool: Spool) -> None:
    spool.begin(job(1))
    fd = open_stream(spool.folder, job(1), 0)
    assert fd is not None
    spool.end(job(1))
    spool.begin(job(2), b"not yours")
    assert os.read(fd, 100) == b""
    os.close(fd)


def test_another_worker_or_another_run_has_nothing_there(spool: Spool) -> None:
    spool.begin(job(1), b"out")
    assert spool.read(job(1, worker=2)) is None
    assert spool.read(job(2)) is None
    assert spool.read(job(1, worker=0)) is None


def test_what_a_lost_run_wrote_gets_its_name(spool: Spool) -> None:
    spool.begin(job(1), b"half", b"a word")
    spool.begin(job(2, worker=2), b"other")
    name_left(spool.folder, [job(1), job(3)])
    name_left(spool.folder, [job(1)])
    out, err = map(Path, own_files(spool.folder, job(1)))
    assert (out.read_bytes(), err.read_bytes()) == (b"half", b"a word")
    assert spool.read(job(2, worker=2)) == b"other"
    assert spool.read(job(1)) == b"half"


def test_a_file_that_is_not_the_one_on_the_board_is_not_named(spool: Spool) -> None:
    """After a host went down, names and boards on its disk may be of different times."""
    spool.begin(job(1), b"out")
    path = Path(worker_files(spool.folder, 1)[0])
    before = path.with_name("before")
    before.write_bytes(b"of a run before")
    before.replace(path)
    assert spool.read(job(1)) is None
    name_left(spool.folder, [job(1)])
    assert path.read_bytes() == b"of a run before"
    assert not Path(own_files(spool.folder, job(1))[0]).exists()
