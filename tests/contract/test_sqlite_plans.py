"""No hot statement reads more rows than it needs, however many there are.

Twice over: the query plans must name an index for every big table, and the verbs themselves,
counted by SQLite while they run, must not step through rows in vain. Both with and without the
statistics of ANALYZE, which a store may or may not have.
"""

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from queuectl.admission import Serving
from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.job import Exited, NewJob, State
from queuectl.lifecycle import cancelled
from queuectl.store.dialects import SQLITE
from queuectl.store.sqlite.administration import open_file
from queuectl.store.sqlite.rows import OfRows
from queuectl.store.sqlstore import SqlStore
from queuectl.store.statements import sqlite as statements
from tests.contract.plans import (
    BIG,
    COLD,
    HOT,
    VALUES,
    VERBS,
    Verb,
    about_jobs,
    bound,
    names,
    rendered,
)
from tests.contract.tools import (
    HOUR,
    NOW,
    a_node,
    apply,
    ended,
    finish,
    raw,
    take,
    the,
    transaction,
)

MANY = 2_000


@pytest.fixture(scope="module", params=["as it grew", "analyzed"])
def full(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqlStore]:
    """A store with thousands of jobs in every state, some of each kind."""
    path: Path = tmp_path_factory.mktemp("full") / "queue.db"
    with closing(open_file(str(path), create=True)) as store:
        fill(store)
        if request.param == "analyzed":
            with closing(apsw.Connection(str(path))) as db:
                db.execute("ANALYZE")
            store.vacuum()
        with closing(open_file(str(path))) as again:
            yield again


def fill(store: SqlStore) -> None:
    """Enqueue, run, fail, cancel and delay jobs, thousands of each."""
    a_node(store)
    jobs = [
        NewJob(
            id=f"job {n}",
            command=f"echo {n}",
            queue=f"queue {n % 3}",
            priority=n % 7,
            tags=(f"tag {n % 10}", "all"),
            max_retries=0,
            expires_at=NOW + 100 * HOUR if n % 4 == 0 else None,
        )
        for n in range(3 * MANY)
    ]
    store.jobs.enqueue(jobs, now=NOW - HOUR)
    ends = [
        ended(job, Exited(job.seq % 2), duration_ms=job.seq, now=NOW + job.seq)
        for job in take(store, 2 * MANY)
    ]
    finish(store, ends)
    take(store, 100)
    delayed = [
        NewJob(command="x", queue=f"queue {n % 3}", priority=9, run_at=NOW + HOUR + n)
        for n in range(MANY)
    ]
    store.jobs.enqueue(delayed, now=NOW)
    store.db.script(
        [
            "UPDATE jobs SET ready = 0, parked = 'key ' || seq % 7, keys = '[\"key 1\"]'"
            " WHERE ready = 1 AND seq % 5 = 0"
        ]
    )
    with transaction(store):
        for n in range(3 * MANY - 100, 3 * MANY):
            job = the(store, f"job {n}")
            if job.state == State.PENDING:
                apply(store, job, cancelled(job, "x"), now=NOW)
        for n in range(MANY):
            store.history.record(
                Event(at=n, kind="x", job=f"job {n}", node=None, who="me", detail=None)
            )


class TestPlans:
    @pytest.mark.parametrize("name", names(SQLITE))
    def test_no_big_table_is_scanned(self, full: SqlStore, name: str) -> None:
        text, values = self.whole(name)
        with closing(apsw.Connection(str(full.path))) as db:
            # As the store has it.
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
            plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + text, values)]
        assert plan
        for step in plan:
            assert not self.scans(step), (name, plan)

    def test_what_is_bound_does_not_make_another_program(self, full: SqlStore) -> None:
        """Or SQLite would make it anew for each claim, which takes longer than to run it."""
        text = rendered(SQLITE, "READY")
        one, other = (
            raw(full).execute("EXPLAIN " + text, bound(SQLITE, text, limit=limit)).fetchall()
            for limit in (16, 17)
        )
        assert one == other

    def whole(self, name: str) -> tuple[str, Any]:
        """Return the text of a statement and its values, or those of several rows."""
        text = rendered(SQLITE, name)
        if ":rows" not in text:
            return text, bound(SQLITE, text)
        ((text, values),) = OfRows(text, getattr(statements, name).names).for_all([VALUES] * 8)
        return text, values

    def scans(self, step: str) -> bool:
        """Tell whether a step of a plan goes through a big table without a place to start.

        A scan along an index is the way to take the first rows in its order; whether it stops
        there is what the second half of this file counts.
        """
        found = re.match(r"SCAN (\w+)(?P<how>.*)", step)
        if not found:
            return "TEMP B-TREE FOR ORDER BY" in step
        aliases = {"j": "jobs", "t": "tags", "a": "attempts", "o": "outputs", "x": "tags"}
        table = aliases.get(found[1], found[1])
        return table in BIG and "USING" not in found["how"]

    def test_this_test_can_tell(self) -> None:
        assert self.scans("SCAN jobs")
        assert self.scans("SCAN j")
        assert self.scans("USE TEMP B-TREE FOR ORDER BY")
        assert not self.scans("SEARCH jobs USING INDEX jobs_ready (queue=?)")
        assert not self.scans("SCAN counts")
        assert not self.scans("SCAN line")

    def test_every_statement_that_reads_jobs_is_hot_or_known_not_to_be(self) -> None:
        assert about_jobs() - set(HOT) == COLD


UNHANDLED = 100_000


@pytest.fixture(scope="module")
def unhandled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    """A store with very many jobs of a few types, and one command behind all of them."""
    path: Path = tmp_path_factory.mktemp("unhandled") / "queue.db"
    with closing(open_file(str(path), create=True)) as store:
        a_node(store)
        types = [NewJob(type=f"type {n}", data=b"x") for n in range(5)]
        store.jobs.enqueue([types[n % 5] for n in range(UNHANDLED)], now=NOW)
        store.jobs.enqueue([NewJob(id="command", command="true")], now=NOW)
        yield store


def test_what_nobody_here_handles_is_not_read(unhandled: SqlStore) -> None:
    """However many jobs there are that a node can't handle, it costs a claim nothing."""
    steps = 0

    def note(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    other = Serving(handlers=("type:other",))
    raw(unhandled).trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        assert not unhandled.runs.outlook(Serving(("elsewhere",))).ready
        assert [job.id for job in take(unhandled, 9, queues=other)] == ["command"]
        assert take(unhandled, 9, queues=other) == take(unhandled, 9) == []
        assert not unhandled.runs.outlook(other).ready
    finally:
        raw(unhandled).trace_v2(0, None)
    assert 0 < steps < 20_000


def test_a_listing_by_type_reads_no_further_than_its_last_job(unhandled: SqlStore) -> None:
    steps = 0

    def note(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    raw(unhandled).trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
    try:
        found = unhandled.jobs.select(Filter(types=("type 3",)), limit=20)
    finally:
        raw(unhandled).trace_v2(0, None)
    assert [job.type for job in found] == ["type 3"] * 20
    assert 0 < steps < 20_000


GROUPED = 20_000


def test_those_of_groups_that_run_are_found_past_all_that_wait(tmp_path: Path) -> None:
    steps = 0

    def note(event: dict[str, Any]) -> None:
        nonlocal steps
        steps += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    with closing(open_file(str(tmp_path / "queue.db"), create=True)) as store:
        a_node(store)
        store.jobs.enqueue([NewJob(command="true", group="g")] * GROUPED, now=NOW)
        take(store, 3)
        raw(store).trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        try:
            assert store.groups.running() == {"g": 3}
            assert store.groups.children("g", limit=9) == []
        finally:
            raw(store).trace_v2(0, None)
    assert 0 < steps < 1_000


class TestSteps:
    """SQLite counts the rows that a statement steps over in a full scan, and all its work."""

    LONGEST_SCAN = 100
    """The counters, queues and nodes are read whole: a few dozen rows."""

    @pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
    def test_no_verb_reads_more_than_it_needs(self, full: SqlStore, verb: Verb) -> None:
        seen: list[tuple[int, int, str]] = []

        def note(event: dict[str, Any]) -> None:
            status = event["stmt_status"]
            seen.append(
                (
                    status["SQLITE_STMTSTATUS_FULLSCAN_STEP"],
                    status["SQLITE_STMTSTATUS_VM_STEP"],
                    event["sql"],
                )
            )

        raw(full).trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        try:
            verb(full)
        finally:
            raw(full).trace_v2(0, None)
        assert seen
        for scanned, steps, text in seen:
            assert scanned < self.LONGEST_SCAN, (scanned, text)
            # A row costs some dozens of steps; thousands of rows would show.
            assert steps < 20_000, (steps, text)
