"""The replay of a trace is tested with traces made by hand: it must be able to see a loss."""

import subprocess
from pathlib import Path
from random import Random

import pytest

from tests.faults.trace import (
    SECTOR,
    Cut,
    Disk,
    Event,
    Made,
    Moved,
    Removed,
    Said,
    SyncBegan,
    SyncEnded,
    TraceError,
    Wrote,
    read_trace,
    traced,
)

DISK = Path("/disk")
TRIES = 60
"""So many ways to lose the power are tried; each way has its turn many times."""


def synced(path: str, number: int) -> list[Event]:
    return [SyncBegan(path, number), SyncEnded(path, number)]


def outcomes(events: list[Event], folder: Path) -> set[tuple[tuple[str, bytes], ...]]:
    """Return all that was seen to be left of a disk, each as files with what is in them."""
    disk = Disk(DISK)
    for event in events:
        disk.take(event)
    seen = set()
    for seed in range(TRIES):
        into = folder / str(seed)
        disk.lose_power(Random(seed), into)
        files = [path for path in into.rglob("*") if path.is_file()]
        seen.add(tuple(sorted((str(f.relative_to(into)), f.read_bytes()) for f in files)))
    return seen


def test_what_was_synced_is_safe(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        Wrote("/disk/a", 0, b"one"),
        *synced("/disk/a", 1),
        *synced("/disk", 2),
    ]
    assert outcomes(events, tmp_path) == {(("a", b"one"),)}


def test_a_missing_sync_of_the_file_loses_what_was_written(tmp_path: Path) -> None:
    events = [Made("/disk/a"), *synced("/disk", 1), Wrote("/disk/a", 0, b"one")]
    assert outcomes(events, tmp_path) == {(("a", b""),), (("a", b"one"),)}


def test_a_missing_sync_of_the_folder_loses_the_file(tmp_path: Path) -> None:
    events = [Made("/disk/a"), Wrote("/disk/a", 0, b"one"), *synced("/disk/a", 1)]
    assert outcomes(events, tmp_path) == {(), (("a", b"one"),)}


def test_a_folder_is_lost_with_all_that_is_in_it(tmp_path: Path) -> None:
    events = [
        Made("/disk/x", folder=True),
        Made("/disk/x/a"),
        *synced("/disk/x/a", 1),
        *synced("/disk/x", 2),
    ]
    assert outcomes(events, tmp_path) == {(), (("x/a", b""),)}


def test_what_was_removed_may_come_back(tmp_path: Path) -> None:
    events = [Made("/disk/a"), *synced("/disk", 1), Removed("/disk/a")]
    assert outcomes(events, tmp_path) == {(), (("a", b""),)}
    assert outcomes([*events, *synced("/disk", 2)], tmp_path / "2") == {()}


def test_a_file_gets_its_new_name_whole_or_not_at_all(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        Wrote("/disk/a", 0, b"old"),
        *synced("/disk/a", 1),
        Made("/disk/b"),
        Wrote("/disk/b", 0, b"new"),
        *synced("/disk/b", 2),
        *synced("/disk", 3),
        Moved("/disk/b", "/disk/a"),
    ]
    both = (("a", b"old"), ("b", b"new"))
    assert outcomes(events, tmp_path) == {both, (("a", b"new"),)}


def test_of_several_writes_some_may_be_lost(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        *synced("/disk", 1),
        Wrote("/disk/a", 0, b"1"),
        Wrote("/disk/a", 1, b"2"),
    ]
    seen = {dict(files)["a"] for files in outcomes(events, tmp_path)}
    assert seen == {b"", b"1", b"\0002", b"12"}


def test_a_write_is_torn_between_sectors_only(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        Wrote("/disk/a", 0, b"o" * (2 * SECTOR)),
        *synced("/disk/a", 1),
        *synced("/disk", 2),
        Wrote("/disk/a", SECTOR - 2, b"nnnn"),
    ]
    seen = {dict(files)["a"][SECTOR - 2 : SECTOR + 2] for files in outcomes(events, tmp_path)}
    assert seen == {b"oooo", b"nnoo", b"oonn", b"nnnn"}


def test_a_size_that_was_not_synced_may_be_the_old_one(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        Wrote("/disk/a", 0, b"one"),
        *synced("/disk/a", 1),
        *synced("/disk", 2),
        Cut("/disk/a", 1),
    ]
    assert outcomes(events, tmp_path) == {(("a", b"one"),), (("a", b"o"),)}


def test_a_sync_covers_only_what_was_written_before_it_began(tmp_path: Path) -> None:
    events = [
        Made("/disk/a"),
        *synced("/disk", 1),
        Wrote("/disk/a", 0, b"1"),
        SyncBegan("/disk/a", 2),
        Wrote("/disk/a", 1, b"2"),
        SyncEnded("/disk/a", 2),
    ]
    assert outcomes(events, tmp_path) == {(("a", b"1"),), (("a", b"12"),)}


TRACE = r"""
7  openat(AT_FDCWD</>, "/disk/a", O_RDWR|O_CREAT|O_CLOEXEC, 0600) = 3</disk/a>
7  pwrite64(3</disk/a>, "a\"\n\0\377", 5, 4096) = 5
7  pwrite64(3</disk/a>, "lost", 4, 0) = -1 EIO (Input/output error)
7  fdatasync(3</disk/a> <unfinished ...>
8  pwrite64(4</disk/a>, "meanwhile", 9, 0) = 5
9  write(1</heard/ids>, "id\n", 3 <unfinished ...>
7  <... fdatasync resumed>)          = 0
9  <... write resumed>)              = 3
8  ftruncate(4</disk/a>, 2)          = 0
8  openat(AT_FDCWD</>, "/elsewhere", O_RDWR|O_CREAT, 0600) = 5</elsewhere>
8  pwrite64(5</disk/a-shm>, "\0", 1, 0) = 1
8  unlink("/disk/a") = 0
8  +++ exited with 0 +++
"""


def test_a_trace_is_read_in_its_order() -> None:
    lines = TRACE.strip().splitlines()
    assert read_trace(lines, disk=DISK, heard=Path("/heard"), ignored="-shm$") == [
        Made("/disk/a"),
        Wrote("/disk/a", 4096, b'a"\n\0\xff'),
        SyncBegan("/disk/a", 4),
        Wrote("/disk/a", 0, b"meanw"),
        Said("/heard/ids", "id\n"),
        SyncEnded("/disk/a", 4),
        Cut("/disk/a", 2),
        Removed("/disk/a"),
    ]


@pytest.mark.parametrize(
    "line",
    [
        '7  pwrite64(3</disk/a>, "cut short"..., 4096, 0) = 4096',
        '7  write(3</disk/a>, "where?", 6) = 6',
        "7  mmap(NULL, 4096, PROT_READ|PROT_WRITE, MAP_SHARED, 3</disk/a>, 0) = 0x7f64a4f37000",
        '7  openat(AT_FDCWD</>, "/disk/a", O_RDWR|O_CREAT|O_TRUNC, 0600) = 3</disk/a>',
        "7  sync() = 0",
    ],
)
def test_what_cannot_be_replayed_is_an_error(line: str) -> None:
    with pytest.raises(TraceError):
        read_trace([line], disk=DISK, heard=Path("/heard"))


def test_a_real_program_is_traced(tmp_path: Path) -> None:
    disk, heard = tmp_path / "disk", tmp_path / "heard"
    disk.mkdir()
    heard.mkdir()
    script = (
        "import os; fd = os.open('a', os.O_CREAT | os.O_WRONLY); os.pwrite(fd, b'x' * 5000, 10);"
        "os.fsync(fd); os.write(1, b'done')"
    )
    with (heard / "said").open("wb") as said:
        command = traced(["python3", "-c", script], tmp_path / "trace")
        subprocess.run(command, cwd=disk, stdout=said, check=True, timeout=60)
    with (tmp_path / "trace").open() as lines:
        events = read_trace(lines, disk=disk, heard=heard)
    path = str(disk / "a")
    assert events[:2] == [Made(path), Wrote(path, 10, b"x" * 5000)]
    assert [type(event) for event in events[2:]] == [SyncBegan, SyncEnded, Said]
