"""What a run on another host writes is seen while it goes on, through the store.

The other host is this one in other namespaces: it has a name, pids and a place for spool files
that are its own.
"""

import os
import re
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import pytest

from queuectl import Job, Queue, State
from queuectl.node.broadcast import MARGIN, NEVER, PER_TURN, Broadcast
from queuectl.node.runs import Run
from queuectl.outputs import so_far
from queuectl.store import Store
from queuectl.store.contract import LONGEST_PIECE, Piece
from tests.contract.tools import claim
from tests.support import PATIENCE, Lab, lab_in, wait_for

LIMIT = 2**20
NASTY = bytes(range(256)) * 40 + b"\xff\xfe no text \x00 at all\r\n\n"
EVERYTHING = 1 << 30


class Elsewhere:
    """A lab whose nodes are on another host, as far as we can see.

    What jobs and readers write goes to a folder of each test.
    """

    def __init__(self, lab: Lab, folder: Path) -> None:
        self.lab = lab
        self.folder = folder
        self.home = lab.folder / "other"
        self.home.mkdir(exist_ok=True)

    def node(self) -> "subprocess.Popen[bytes]":
        """Start a node there and return once it is registered."""
        lab = self.lab
        hidden = [self.home]
        if lab.url == str(lab.db):
            # The file is the same for both, but not the folder beside it.
            spool = Path(lab.queue.store.folder.spool)
            spool.mkdir(mode=0o700, parents=True, exist_ok=True)
            hidden.append(spool)
        mounts = "; ".join(f"mount -t tmpfs -o mode=700 none {folder}" for folder in hidden)
        start = shlex.join(lab.command("worker", "start", "--count", "4"))
        known = {node["id"] for node in lab.queue.nodes()}
        with (lab.folder / f"node{len(lab.nodes)}.log").open("wb") as log:
            process = subprocess.Popen(
                [
                    *("unshare", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc"),
                    *("--uts", "sh", "-ec", f"{mounts}; hostname elsewhere; exec {start}"),
                ],
                env=lab.env | {"HOME": str(self.home), "XDG_DATA_HOME": str(self.home / "data")},
                cwd=lab.folder,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        lab.nodes.append(process)
        new = wait_for(
            lambda: (
                {node["id"] for node in lab.queue.nodes()} - known or process.poll() is not None
            ),
            "a node that registers",
        )
        assert new is not True, lab.log(len(lab.nodes) - 1)
        return process

    def run(self, command: str) -> str:
        """Enqueue a job and wait until it runs there; returns its id."""
        id = self.lab.queue.enqueue(command, max_retries=0, cwd=str(self.folder)).id
        job = self.lab.wait_state(id, State.PROCESSING, State.COMPLETED, State.DEAD)
        if job.state == State.PROCESSING:
            (node,) = [node for node in self.lab.queue.store.nodes.all() if node.id == job.node]
            assert node.host == "elsewhere"
            assert not Path(node.spool).exists()
        return id

    def go(self, name: str) -> None:
        """Let a job go on that waits for this."""
        (self.folder / name).touch()

    def read(self, *args: str) -> "Reader":
        """Start a command that reads."""
        return Reader(self.lab, self.folder, *args)

    def left(self) -> tuple[int, int]:
        """Return how many bytes of live output there are in the store, and how many watchers."""
        store = self.lab.queue.store
        found = store.db.rows("SELECT coalesce(sum(length(data)), 0) FROM {live}")  # type: ignore[attr-defined]
        watches = store.db.rows("SELECT count(*) FROM {watches}")  # type: ignore[attr-defined]
        return int(found[0][0]), int(watches[0][0])


class Reader:
    """A command that reads, with what it has printed so far."""

    def __init__(self, lab: Lab, folder: Path, *args: str) -> None:
        self._out = folder / f"reader{len(list(folder.glob('reader*')))}.out"
        self._err = self._out.with_suffix(".err")
        with self._out.open("wb") as out, self._err.open("wb") as err:
            self.process = subprocess.Popen(
                lab.command(*args), env=lab.env, cwd=lab.folder, stdout=out, stderr=err
            )

    @property
    def out(self) -> bytes:
        """What it has printed."""
        return self._out.read_bytes()

    @property
    def err(self) -> bytes:
        """What it has printed to stderr."""
        return self._err.read_bytes()

    def until(self, *texts: bytes) -> None:
        """Wait until it has printed all of these."""
        wait_for(
            lambda: all(text in self.out + self.err for text in texts),
            f"{texts!r} from a reader",
        )

    def end(self) -> None:
        """Wait until it is done."""
        assert self.process.wait(PATIENCE) == 0, self.err


def waiting_for(*names: str) -> Iterator[str]:
    """Return pieces of shell that wait for files."""
    for name in names:
        yield f"until [ -e {name} ]; do sleep 0.02; done"


STORES = ["sqlite", "postgres", "mariadb"]


@pytest.fixture(scope="module", params=STORES)
def shared_lab(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    """A queue on each database with a node on another host, for all tests that harm neither."""
    url = None
    if request.param != "sqlite":
        url = request.getfixturevalue(f"lasting_{request.param}_url")
    folder = tmp_path_factory.mktemp("shared")
    with lab_in(folder, url) as lab:
        Elsewhere(lab, folder).node()
        yield lab


@pytest.fixture
def elsewhere(shared_lab: Lab, tmp_path: Path) -> Elsewhere:
    """The shared queue and its node on another host."""
    return Elsewhere(shared_lab, tmp_path)


@pytest.fixture(params=STORES)
def alone(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Elsewhere]:
    """A queue of the test's own on each database, for nodes on another host."""
    url = None
    if request.param != "sqlite":
        url = request.getfixturevalue(f"{request.param}_url")
    with lab_in(tmp_path, url) as lab:
        yield Elsewhere(lab, tmp_path)


def test_lines_are_shown_while_the_job_runs(elsewhere: Elsewhere) -> None:
    first, second = waiting_for("first", "second")
    id = elsewhere.run(
        f"echo one; echo eins >&2; {first}; echo two; printf zwei >&2; {second}; echo three"
    )
    reader = elsewhere.read("logs", "-f", id)
    reader.until(b"one\n", b"eins\n")
    elsewhere.go("first")
    reader.until(b"two\n", b"zwei")
    assert elsewhere.lab.queue.get(id).state == State.PROCESSING
    elsewhere.go("second")
    reader.end()
    assert reader.out == b"one\ntwo\nthree\n"
    assert reader.err == b"eins\nzwei"
    wait_for(lambda: elsewhere.left() == (0, 0), "the node to clear up")


def test_what_there_is_so_far_is_shown(elsewhere: Elsewhere) -> None:
    (end,) = waiting_for("end")
    id = elsewhere.run(f"echo so far; echo and err >&2; touch written; {end}")
    wait_for((elsewhere.folder / "written").exists, "the job to write")
    for _ in range(2):
        logs = elsewhere.read("logs", id)
        logs.end()
        assert (logs.out, logs.err) == (b"so far\n", b"and err\n")
        output = elsewhere.read("output", id, "--stdout")
        output.end()
        assert (output.out, output.err) == (b"so far\n", b"")
    silent = elsewhere.run(end)
    reader = elsewhere.read("logs", silent)
    reader.end()
    assert reader.out == b""
    elsewhere.go("end")


def test_odd_bytes_are_intact(elsewhere: Elsewhere) -> None:
    (elsewhere.folder / "nasty").write_bytes(NASTY)
    first, second = waiting_for("first", "second")
    id = elsewhere.run(f"cat nasty; {first}; cat nasty >&2; cat nasty; {second}; cat nasty >&2")
    reader = elsewhere.read("logs", "-f", id)
    reader.until(NASTY)
    elsewhere.go("first")
    wait_for(lambda: (reader.out, reader.err) == (2 * NASTY, NASTY), "the second part")
    elsewhere.go("second")
    reader.end()
    assert (reader.out, reader.err) == (2 * NASTY, 2 * NASTY)


def test_a_stream_that_the_job_empties_is_shown_anew(elsewhere: Elsewhere) -> None:
    (end,) = waiting_for("end")
    id = elsewhere.run(f"echo before > /dev/stderr; {end}; echo then > /dev/stderr")
    reader = elsewhere.read("logs", "-f", id)
    reader.until(b"before\n")
    elsewhere.go("end")
    reader.end()
    assert reader.err == b"before\nthen\n"


def test_who_comes_later_sees_it_from_the_beginning(elsewhere: Elsewhere) -> None:
    first, second = waiting_for("first", "second")
    id = elsewhere.run(f"echo one; {first}; echo two; {second}; echo three")
    early = elsewhere.read("logs", "-f", id)
    early.until(b"one\n")
    elsewhere.go("first")
    early.until(b"two\n")
    late = elsewhere.read("logs", "-f", id)
    late.until(b"two\n")
    elsewhere.go("second")
    for reader in (early, late):
        reader.end()
        assert reader.out == b"one\ntwo\nthree\n"


def test_megabytes_come_whole_within_the_limit(alone: Elsewhere) -> None:
    """Of these, one turn copies only a part."""
    alone.lab.queue.set_setting("output_limit", "16M")
    alone.node()
    (end,) = waiting_for("end")
    id = alone.run(f"seq 500000; {end}; seq 500001 500100; seq 10 >&2")
    reader = alone.read("logs", "-f", id)
    reader.until(b"\n500000\n")
    alone.go("end")
    reader.end()
    assert len(reader.out) > 3 * PER_TURN
    assert reader.out.split() == [b"%d" % n for n in range(1, 500_101)]
    assert reader.err.split() == [b"%d" % n for n in range(1, 11)]


def test_ten_megabytes_beyond_the_limit_have_gaps(elsewhere: Elsewhere) -> None:
    wait_for(lambda: elsewhere.left() == (0, 0), "other jobs to be cleared up after")
    begin, end = waiting_for("begin", "end")
    id = elsewhere.run(f"echo 0; {begin}; seq 1500000; {end}; seq 1500001 1500100")
    reader = elsewhere.read("logs", "-f", id)
    reader.until(b"0\n")
    elsewhere.go("begin")
    reader.until(b"\n1500000\n")
    stored, _ = elsewhere.left()
    assert stored <= LIMIT + LIMIT // 2 + 2 * LONGEST_PIECE
    elsewhere.go("end")
    reader.end()
    shown = reader.out
    parts = re.split(rb"\n?\[\.\.\. [\d,]+ bytes left out \.\.\.\]\n", shown)
    assert len(parts) > 1
    told = sum(int(gap.replace(b",", b"")) for gap in re.findall(rb"([\d,]+) bytes left", shown))
    whole = b"0\n" + b"".join(b"%d\n" % n for n in range(1, 1_500_101))
    # Every part is a part of the whole; none comes before the end of the last one.
    at = 0
    for part in parts:
        at = whole.index(part, at) + len(part)
    assert at == len(whole)
    lost = len(whole) - sum(len(part) for part in parts)
    assert abs(told - lost) <= len(parts)


def test_a_node_that_is_killed_is_followed_into_the_next_run(alone: Elsewhere) -> None:
    alone.lab.extra_env |= {"QUEUECTL_LEASE": "2s", "QUEUECTL_HEARTBEAT": "500ms"}
    node = alone.node()
    (end,) = waiting_for("end")
    id = alone.run(f"echo run $QUEUECTL_ATTEMPT; {end}; echo done")
    reader = alone.read("logs", "-f", id)
    reader.until(b"run 1\n")
    node.kill()
    node.wait(PATIENCE)
    alone.node()
    reader.until(b"run 2\n")
    alone.go("end")
    reader.end()
    assert reader.out == b"run 1\nrun 2\ndone\n"


def test_jobs_that_are_over_at_once_are_shown_once(alone: Elsewhere) -> None:
    lab = alone.lab
    following = alone.read("logs")
    ids = [lab.queue.enqueue(f"echo out {n}; echo err {n} >&2").id for n in range(20)]
    reader = alone.read("logs", "-f", *ids)
    alone.node()
    reader.end()
    expected = [
        line
        for n, id in enumerate(ids)
        for line in (f"{id} | out {n}".encode(), f"{id} ! err {n}".encode())
    ]
    assert sorted(reader.out.splitlines()) == sorted(expected)
    (end,) = waiting_for("end")
    slow = alone.run(f"echo slow; {end}; echo over")
    following.until(f"{slow} | slow\n".encode())
    alone.go("end")
    following.until(f"{slow} | over\n".encode())
    following.process.send_signal(signal.SIGINT)
    following.process.wait(PATIENCE)
    seen = following.out.splitlines()
    assert len(seen) == len(set(seen))
    assert seen[-2:] == [f"{slow} | slow".encode(), f"{slow} | over".encode()]


# -- the node's part, step by step ------------------------------------------------


class Spooling:
    """A job that runs, and the node's part in showing what it writes."""

    def __init__(self, lab: Lab, limit: int) -> None:
        queue: Queue = lab.queue
        self.store: Store = queue.store
        self.job = self._claim(lab)
        self.spool = lab.folder / "spool"
        self.spool.mkdir()
        self.run = Run(job=self.job, spool=str(self.spool), claimed=0)
        self.limit = limit
        self.broadcast = Broadcast(self.store, lambda: self.limit)
        self.files = [open(path, "wb", buffering=0) for path in self.run.files]  # noqa: SIM115

    def _claim(self, lab: Lab) -> Job:
        from tests.contract.tools import a_node

        a_node(self.store)
        lab.queue.enqueue("true")
        (job,) = claim(self.store, "node-1", [1], [], now=self.store.clock.now()).jobs
        return job

    @property
    def out(self) -> IO[bytes]:
        """Where it writes."""
        return self.files[0]

    def watch(self, milliseconds: int = EVERYTHING) -> None:
        """Watch it for a while."""
        now = self.store.clock.now()
        self.store.live.watch(self.job, until=now + milliseconds, now=now)

    def turn(self) -> list[Piece]:
        """Let the node learn of watchers and copy; return all that is shown of stdout then."""
        self.copy()
        return self.shown()

    def copy(self) -> None:
        """Let the node learn of watchers and copy."""
        self.broadcast.look([self.run])
        if self.broadcast.due != NEVER:
            self.broadcast.send()

    def shown(self) -> list[Piece]:
        """Return all that is shown of stdout."""
        pieces: list[Piece] = []
        while new := self.store.live.pieces(self.job, "stdout", after=_end(pieces)):
            if new[-1].start == (pieces[-1].start if pieces else -1):
                break
            pieces += new
            if not new[-1].data:
                break
        return pieces


def _end(pieces: list[Piece]) -> int:
    return pieces[-1].start + len(pieces[-1].data) if pieces else 0


Begin = Callable[[int], Spooling]


@pytest.fixture
def spooling(lab: Lab) -> Iterator[Begin]:
    """Begins to write within a limit."""
    begun: list[Spooling] = []

    def begin(limit: int) -> Spooling:
        begun.append(Spooling(lab, limit))
        return begun[-1]

    yield begin
    for one in begun:
        for file in one.files:
            file.close()


def piece(start: int, data: bytes) -> Piece:
    """Return a piece of stdout."""
    return Piece(stream="stdout", start=start, data=data)


def test_nobody_watches_and_nothing_is_done(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.out.write(b"abc")
    assert run.turn() == []
    assert run.broadcast.due == NEVER


def test_pieces_follow_each_other(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.watch()
    assert run.turn() == [piece(0, b"")]
    run.out.write(b"abc")
    assert run.turn() == [piece(0, b"abc"), piece(3, b"")]
    run.out.write(b"def")
    assert run.turn() == [piece(0, b"abc"), piece(3, b"def"), piece(6, b"")]
    assert run.turn() == [piece(0, b"abc"), piece(3, b"def"), piece(6, b"")]


def test_who_watches_anew_gets_it_from_the_beginning(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.watch(MARGIN + 50)
    run.out.write(b"abc")
    run.broadcast.look([run.run])
    wait_for(
        lambda: not run.store.live.watched([run.job], now=run.store.clock.now()), "the watch to end"
    )
    run.broadcast.send()
    assert run.broadcast.due == NEVER
    run.watch()
    assert run.turn() == [piece(0, b"abc"), piece(3, b"")]


def test_the_end_of_a_run_clears_up(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.watch()
    run.out.write(b"abc")
    assert run.turn()
    run.broadcast.look([])
    assert run.broadcast.due == NEVER
    run.broadcast.end([run.run])
    assert run.shown() == []
    assert run.store.live.watched([run.job], now=run.store.clock.now()) == {}


@pytest.mark.parametrize("limit", [0, 1, 1000, LIMIT, 5 * LIMIT + 1])
def test_what_is_shown_stays_bounded(spooling: Begin, limit: int) -> None:
    run = spooling(limit)
    run.watch()
    for size in (10, 1000, LIMIT // 3, 3 * LIMIT, 7, 0, 2 * LIMIT, 2 * LIMIT):
        run.out.write(os.urandom(size))
        for _ in range(10):
            run.copy()
        shown = run.turn()
        assert sum(len(one.data) for one in shown) <= limit + limit // 2 + 3 * LONGEST_PIECE
        written = Path(run.run.files[0]).read_bytes()
        for one in shown:
            assert written[one.start :].startswith(one.data)
        assert _end(shown) == len(written)
        if len(written) <= limit:
            assert b"".join(one.data for one in shown) == written


def test_one_turn_copies_only_so_much(spooling: Begin) -> None:
    run = spooling(64 * LIMIT)
    run.watch()
    data = os.urandom(3 * PER_TURN + 5)
    run.out.write(data)
    for turn in (1, 2, 3):
        assert _end(run.turn()) == turn * PER_TURN
    shown = run.turn()
    assert b"".join(one.data for one in shown) == data
    assert shown[-1].data == b""


def test_a_stream_that_is_cut_is_left_alone(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.watch()
    run.out.write(b"abcdef")
    run.turn()
    run.out.truncate(2)
    run.out.seek(2)
    run.out.write(b"x" * 100)
    run.out.truncate(3)
    shown = run.turn()
    run.out.write(b"y" * 100)
    assert run.turn() == shown == [piece(0, b"abcdef"), piece(6, b"")]


def test_a_file_that_is_no_file_is_not_waited_for(spooling: Begin) -> None:
    run = spooling(LIMIT)
    run.watch()
    path = run.run.files[0]
    os.unlink(path)
    os.mkfifo(path)
    assert run.turn() == [piece(0, b"")]


def test_a_reader_puts_it_together_as_it_would_be_kept(spooling: Begin, lab: Lab) -> None:
    run = spooling(1000)
    run.watch()
    run.out.write(b"a" * 300)
    run.turn()
    run.out.write(b"b" * 5000 + b"c" * 200)
    run.turn()
    output, whole = so_far(lab.queue.store, run.job, 1000)
    assert whole
    assert output.stdout_bytes == 5500
    assert output.stdout == b"a" * 300 + b"b" * 200 + b"b" * 300 + b"c" * 200
