"""The benchmarks run, for real and very small, and leave nothing behind."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.figures import Book, Reading
from bench.fill import fill
from bench.lab import CHECKOUT, SQLITE, Lab
from bench.measures import MEASURES
from bench.processes import BenchError, Group, is_alive
from bench.run import Runner
from bench.sizes import TINY
from bench.subject import Measure, Plain, Subject
from bench.tables import DASHBOARD, PARTS
from bench.weather import Disturbance, Weather
from queuectl.place import default_path
from tests.support import wait_for

LONG = pytest.mark.timeout(600)
"""What is disturbed is measured again, so a busy machine has more to do as well."""


@LONG
def test_a_drain_is_measured_beside_the_limit(tmp_path: Path) -> None:
    """The smallest real run: a node and `xargs`, with figures in a file, and exit code 0."""
    results = tmp_path / "results.json"
    args = ["--size", "tiny", "--only", "drain,duel", "--stores", SQLITE, "--no-peers"]
    done = subprocess.run(
        [sys.executable, "-m", "bench", *args, "--rounds", "1", "--json", results],
        cwd=CHECKOUT,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    figures = json.loads(results.read_text())["figures"]
    assert figures["drain/sqlite/4"]["median"] > 0
    assert figures["drain/xargs/4"]["median"] > 0
    assert figures["duel/sqlite-4/ours"]["median"] > 0
    assert "drain on SQLite, at 4 workers" in done.stdout
    assert list(tmp_path.iterdir()) == [results]


def test_a_queue_is_filled_with_what_the_product_would_leave() -> None:
    with Lab(TINY, stores=[SQLITE], peers=False) as lab, lab.queue(SQLITE) as queue:
        fill(lab, SQLITE, queue, 30)
        assert queue.store.verify() == []
        counts = {
            (count.state, count.priority): count.jobs
            for count in queue.store.jobs.counts()
            if count.jobs
        }
        # One of each is real.
        assert counts == {("completed", 0): 31, ("pending", 100): 31, ("pending", 0): 31}
        stats = queue.stats()
        assert stats.total == 93
        assert sum(r.count for r in queue.store.history.rollups() if r.measure == "completed") == 31
        for job in queue.list(state="completed", limit=None):
            (attempt,) = queue.attempts(job.id)
            assert attempt.duration_ms == job.duration_ms
            assert queue.output(job.id).stdout == b"hello\n"
        assert len({job.id for job in queue.list(limit=None)}) == 93


def subject(name: str, seen: list[str], *, fails: int = 0) -> Subject:
    """One that notes when it is run, and fails from a certain time on."""

    def run() -> list[Reading]:
        seen.append(name)
        if fails and seen.count(name) >= fails:
            raise BenchError("it is broken")
        return [Reading(id=f"test/{name}", value=1.0, unit="")]

    return Plain(name, run)


class Forecast(Weather):
    """As it is said to be, and calm from then on."""

    def __init__(self, *said: Disturbance) -> None:
        super().__init__(patience=0)
        self.said = list(said)

    def begin(self) -> None:
        return

    def end(self) -> Disturbance:
        return self.said.pop(0) if self.said else Disturbance(stolen=0, slower=0)


def test_tasks_that_do_nothing_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A drain of them, how soon one starts, and where its time goes."""
    # That syncs all disks, to which other tests write.
    monkeypatch.setattr("bench.run.rest", lambda: None)
    book = Book()
    with Lab(TINY, stores=[SQLITE], peers=False) as lab:
        runner = Runner(lab, book, rounds=1, weather=Forecast())
        for name in ("tasks", "warm", "parts"):
            runner.run(MEASURES[name])
    assert book.missing == {}
    assert book.figures["tasks/ours/sqlite"].summary.median > 0
    assert book.figures["warm/sqlite/p50"].summary.median > 0
    assert {figure.id.split("/")[2] for figure in book.matching("parts/sqlite/*")} == set(PARTS)
    assert not lab.folder.exists()


@LONG
def test_what_the_web_costs_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Enqueues through the API; pages, also in a browser; who listens; a drain beside it."""
    monkeypatch.setattr("bench.run.rest", lambda: None)
    book = Book()
    with Lab(TINY, stores=[SQLITE], peers=False) as lab:
        runner = Runner(lab, book, rounds=1, weather=Forecast())
        for name in ("api", "web"):
            runner.run(MEASURES[name])
    assert book.missing == {}
    assert {figure.id for figure in book.matching("api/sqlite/*")} == {
        f"api/sqlite/{how}" for how in ("api", "threads", "alone")
    }
    for part in DASHBOARD:
        assert book.figures[f"web/sqlite/{part}"].summary.median > 0


def test_subjects_take_turns_and_one_that_fails_is_named(
    capsys: pytest.CaptureFixture[str],
) -> None:
    seen: list[str] = []
    subjects = [
        subject("good", seen),
        subject("broken", seen, fails=1),
        subject("fine", seen),
        subject("tired", seen, fails=3),
    ]
    measure = Measure(name="test", title="Test", about="", subjects=lambda _: subjects)
    book = Book()
    with Lab(TINY, stores=[], peers=False) as lab:
        Runner(lab, book, rounds=3, weather=Forecast()).run(measure)
    assert seen == [
        *("good", "broken", "fine", "tired"),
        *("good", "fine", "tired"),
        *("fine", "tired", "good"),
        *("good", "fine"),
    ]
    assert book.missing == {"test: broken": "it is broken", "test: tired": "it is broken"}
    assert sorted(book.figures["test/good"].values) == [1, 2, 3]
    assert sorted(book.figures["test/tired"].values) == [1]
    assert "tired can't be measured: it is broken" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("said", "kept", "disturbed"),
    [
        ([(0.02, 1.0)], 0, 0),
        ([(0.5, 0), (0.01, 0)], 1, 1),
        ([(0, 1.5), (0, 0.9)], 1, 1),
        ([(0.2, 0), (0.1, 0), (0.3, 0)], 1, 3),
        ([(0.1, 1.4), (0.3, 0), (0.2, 1.4)], 1, 3),
        ([(0.1, 0), (0.1, 0), (0.1, 0)], 0, 3),
    ],
)
def test_what_others_disturbed_is_measured_again(
    said: list[tuple[float, float]], kept: int, disturbed: int
) -> None:
    weather = Forecast(*(Disturbance(stolen=stolen, slower=slower) for stolen, slower in said))
    values = iter(range(9))
    again = Plain(
        "x", lambda: [Reading(id="test/x", value=float(next(values)), unit="")], cold=True
    )
    measure = Measure(name="test", title="Test", about="", subjects=lambda _: [again])
    book = Book()
    with Lab(TINY, stores=[], peers=False) as lab:
        Runner(lab, book, rounds=1, weather=weather).run(measure)
    assert weather.said == []
    assert book.figures["test/x"].values == {1: float(kept)}
    assert book.disturbed == disturbed


def test_what_queues_on_servers_keep_on_this_host_is_gone_in_the_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for before in ({}, {"XDG_DATA_HOME": str(tmp_path)}):
        monkeypatch.delenv("XDG_DATA_HOME", raising=False)
        for name, value in before.items():
            monkeypatch.setenv(name, value)
        usual = default_path(os.environ)
        with Lab(TINY, stores=[], peers=False) as lab:
            assert Path(default_path(lab.environment())).is_relative_to(lab.folder)
            assert Path(default_path(os.environ)).is_relative_to(lab.folder)
        assert default_path(os.environ) == usual
        assert not lab.folder.exists()


def test_a_group_ends_to_the_last_process(tmp_path: Path) -> None:
    script = "sleep 1000 & setsid sleep 1000 & echo up > up; wait"
    with Group(
        ["/bin/sh", "-c", script], env=os.environ, cwd=tmp_path, log=tmp_path / "log"
    ) as group:
        wait_for(lambda: len(group.members()) == 3 and (tmp_path / "up").exists(), "all of them")
        pids = group.members()
        group.process.send_signal(signal.SIGKILL)
    assert not any(map(is_alive, pids))
