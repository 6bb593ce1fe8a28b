"""No hot statement reads more rows than it needs, however many there are.

Twice over: the query plans must name an index for every big table, and the verbs themselves,
counted by SQLite while they run, must not step through rows in vain. Both with and without the
statistics of ANALYZE, which a store may or may not have.
"""

import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from queuectl.job import Exited, NewJob, State
from queuectl.lifecycle import cancelled
from queuectl.store import statements
from queuectl.store.contract import Event, Filter, Stop
from queuectl.store.dialects import SQLITE
from queuectl.store.sqlite import SqliteStore
from tests.contract.tools import HOUR, MINUTE, NOW, a_node, ended, take, take_one, the

BIG = ("jobs", "attempts", "outputs", "tags", "events")
MANY = 2_000

VALUES: dict[str, object] = {
    "after": 900,
    "attempt": 1,
    "before": NOW,
    "beyond": "job 5\U0010ffff",
    "bucket": 5,
    "crashes": 0,
    "direction": "DESC",
    "duration_ms": 5,
    "error": None,
    "exit_code": 0,
    "failures": 0,
    "final": True,
    "finished_at": NOW,
    "how": "drain",
    "id": "job 5",
    "ids": '["job 5", "job 6"]',
    "job": "job 5",
    "lease": 5,
    "limit": 20,
    "name": "default",
    "node": "node-1",
    "now": NOW,
    "number": 1,
    "prefix": "job 5",
    "queue": "queue 1",
    "ready": None,
    "reason": "x",
    "run_at": None,
    "seq": 5,
    "seqs": "[5, 6]",
    "started_at": NOW,
    "state": "pending",
    "steady": 5,
    "tag0": "tag 3",
    "tag1": "tag 4",
    "until": NOW,
    "was": "pending",
    "worker": 1,
}

HOT = [
    "READY_QUEUES",
    "READY",
    "DUE",
    "PROMOTE",
    "EXPIRED",
    "IS_EXPIRED",
    "HOLDS_LEASE",
    "CLAIM",
    "CLAIM_RETURNING",
    "FINISH",
    "NEXT_DUE",
    "IS_DUE",
    "HELD",
    "TO_CANCEL",
    "COUNTS",
    "GET",
    "IDS_LIKE",
    "STATES",
    "JOBS_AT",
    "SLOWEST",
    "APPLY",
    "ASK_CANCEL",
    "REMOVE",
    "BURY_UNREADABLE",
    "OLD",
    "PRUNE",
    "RENEW",
    "EVENTS_OF_JOB",
    "ATTEMPTS",
    "OUTPUT",
]
SELECTED: dict[str, tuple[str, list[str]]] = {
    "SELECT by queue and state": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE"]),
    "SELECT the next page": ("SELECT", ["WHERE_QUEUE", "WHERE_STATE", "WHERE_BEFORE"]),
    "SELECT all, next page": ("SELECT", ["WHERE_BEFORE"]),
    "SELECT all, oldest first": ("SELECT", ["WHERE_AFTER"]),
    "SELECT by tag": ("SELECT_TAGGED", ["WHERE_BEFORE"]),
    "SELECT by two tags": ("SELECT_TAGGED", ["WHERE_TAGGED", "WHERE_STATE"]),
}


def rendered(name: str) -> str:
    """Return the text of a hot statement."""
    if name not in SELECTED:
        return SQLITE.render(getattr(statements, name))
    statement, conditions = SELECTED[name]
    where = " AND ".join(getattr(statements, condition) for condition in conditions)
    where = SQLITE.render(where.replace("{n}", "1"))
    return SQLITE.render(getattr(statements, statement), conditions=where, direction="DESC")


@pytest.fixture(scope="module", params=["as it grew", "analyzed"])
def full(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SqliteStore]:
    """A store with thousands of jobs in every state, some of each kind."""
    path: Path = tmp_path_factory.mktemp("full") / "queue.db"
    with closing(SqliteStore(str(path), create=True)) as store:
        fill(store)
        if request.param == "analyzed":
            with closing(apsw.Connection(str(path))) as db:
                db.execute("ANALYZE")
            store.vacuum()
        with closing(SqliteStore(str(path))) as again:
            yield again


def fill(store: SqliteStore) -> None:
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
    store.enqueue(jobs, now=NOW - HOUR)
    ends = [
        ended(job, Exited(job.seq % 2), duration_ms=job.seq, now=NOW + job.seq)
        for job in take(store, 2 * MANY)
    ]
    store.finish(ends)
    take(store, 100)
    delayed = [
        NewJob(command="x", queue=f"queue {n % 3}", priority=9, run_at=NOW + HOUR + n)
        for n in range(MANY)
    ]
    store.enqueue(delayed, now=NOW)
    with store.transaction():
        for n in range(3 * MANY - 100, 3 * MANY):
            job = the(store, f"job {n}")
            if job.state == State.PENDING:
                store.apply(job, cancelled(job, "x"), now=NOW)
        for n in range(MANY):
            store.record(Event(at=n, kind="x", job=f"job {n}", node=None, who="me", detail=None))


class TestPlans:
    @pytest.mark.parametrize("name", [*HOT, *SELECTED])
    def test_no_big_table_is_scanned(self, full: SqliteStore, name: str) -> None:
        text = rendered(name)
        asked = set(re.findall(r"(?<!:):([a-z_0-9]+)", text))
        values = {key: VALUES[key] for key in asked}
        with closing(apsw.Connection(full.path)) as db:
            plan = [row[3] for row in db.execute("EXPLAIN QUERY PLAN " + text, values)]
        assert plan
        for step in plan:
            assert not self.scans(step), (name, plan)

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
        cold = {"ENQUEUE", "SELECT", "SELECT_TAGGED", "PRUNABLE", "STRAYS"}
        texts = {
            name: text
            for name, text in vars(statements).items()
            if name.isupper() and isinstance(text, str) and "{jobs}" in text
        }
        assert set(texts) - set(HOT) == cold


Verb = Callable[[SqliteStore], Any]
VERBS: dict[str, Verb] = {
    "get": lambda s: s.get("job 5"),
    "ids_like": lambda s: s.ids_like("job 55"),
    "list": lambda s: s.select(Filter(), limit=20),
    "list, next page": lambda s: s.select(Filter(), limit=20, after=1_000),
    "list a state": lambda s: s.select(Filter(states=(State.DEAD,)), limit=20),
    "list a queue": lambda s: s.select(Filter(queues=("queue 1",)), limit=20),
    "list a state that is rare": lambda s: s.select(Filter(states=(State.CANCELLED,)), limit=5),
    "list a state that is nowhere": lambda s: s.select(Filter(states=(State.BLOCKED,)), limit=20),
    "list a tag": lambda s: s.select(Filter(tags=("tag 3",)), limit=20),
    "list two tags": lambda s: s.select(Filter(tags=("all", "tag 3")), limit=20),
    "states": lambda s: s.states(["job 1", "job 2"]),
    "counts": lambda s: s.counts(),
    "slowest": lambda s: s.slowest(5),
    "next_due": lambda s: s.next_due(),
    "waiting": lambda s: s.waiting(),
    "claimable": lambda s: s.claimable([], now=NOW),
    "held": lambda s: s.held("node-2"),
    "strays": lambda s: s.strays(),
    "to_cancel": lambda s: s.to_cancel("node-1"),
    "attempts": lambda s: s.attempts(the(s, "job 5")),
    "output": lambda s: s.output(the(s, "job 5"), 1),
    "events": lambda s: s.events(limit=20),
    "events of a job": lambda s: s.events("job 5"),
    "renew": lambda s: s.renew("node-1", until=s.steady() + HOUR),
    "ask_stop": lambda s: s.ask_stop("nobody", Stop.DRAIN),
    "enqueue": lambda s: s.enqueue([NewJob(command="x", tags=("all",))], now=NOW),
    "claim": lambda s: take(s, 1),
    "claim from one queue": lambda s: take(s, 1, queues=["queue 2"]),
    "claim and finish": lambda s: s.finish([ended(take_one(s), now=NOW + MINUTE)]),
    "cancel": lambda s: s.ask_cancel(the(s, "job 5"), "x", now=NOW),
    "remove": lambda s: s.remove(s.select(Filter(states=(State.DEAD,)), limit=1)[0]),
    "prune": lambda s: s.prune(State.COMPLETED, NOW + HOUR, limit=3),
}


class TestSteps:
    """SQLite counts the rows that a statement steps over in a full scan, and all its work."""

    LONGEST_SCAN = 100
    """The counters, queues and nodes are read whole: a few dozen rows."""

    @pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
    def test_no_verb_reads_more_than_it_needs(self, full: SqliteStore, verb: Verb) -> None:
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

        full._db.trace_v2(apsw.SQLITE_TRACE_PROFILE, note)
        try:
            verb(full)
        finally:
            full._db.trace_v2(0, None)
        assert seen
        for scanned, steps, text in seen:
            assert scanned < self.LONGEST_SCAN, (scanned, text)
            # A row costs some dozens of steps; thousands of rows would show.
            assert steps < 20_000, (steps, text)
