"""No hot statement of a server reads more rows than it needs, with 80,000 jobs in its tables.

Each statement is run under the server's own account of what it read, with few jobs due, expired
or old and with many. Then the verbs run, and the server counts the rows they touch. All of that
twice: while the server knows nothing about tables that have just been filled, and with the
statistics of ANALYZE.
"""

import json
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any, ClassVar

import pytest
from psycopg.sql import Literal

from queuectl.job import NewJob
from queuectl.store import open_store
from queuectl.store.migrations.m0001_baseline.mysql import STATEMENTS
from queuectl.store.sqlstore import SqlStore
from tests.contract.foreign import MariaDBClient, PostgresClient, ServerClient
from tests.contract.plans import BIG, VERBS, bound, names, rendered
from tests.contract.tools import (
    HOUR,
    MINUTE,
    NOW,
    a_node,
    assert_counts_are_right,
    ended,
    finish,
    raw,
    take,
    transaction,
)

MANY = 80_000
MOST_ROWS = 1_000
"""What a statement may read of the big tables. A listing goes through the jobs of one tag."""
MOST_SORTED = 500
"""Running jobs, of which there are 400, may be sorted to be counted."""
RUNS = MANY // 400
"""One in so many runs."""
MOST_ROWS_OF_A_VERB = 5_000
"""A verb is a few statements, and reads all counters: some hundreds of rows."""
MOST_BLOCKS = 10_000

SOON: dict[str, Any] = {"after": MANY - MANY // 20}
"""As things stand: little is due, expired or old."""
LATER: dict[str, Any] = {
    **SOON,
    "now": NOW + 10_000 * HOUR,
    "before": NOW + 10_000 * HOUR,
    "state": "completed",
}
"""Then everything is due, expired or old."""

# Those of one kind are in one place, as they are in life: first come the finished ones, then the
# waiting ones, two fifths of them ready, some parked, and half of them more urgent but not yet due.
# A few run.
KINDS = f"""
SELECT n, CASE
    WHEN n % {RUNS} = 1 THEN 'processing'
    WHEN n <= {MANY // 20} THEN 'dead' WHEN n <= {MANY // 10} THEN 'cancelled'
    WHEN n <= {MANY // 10 * 6} THEN 'completed'
    WHEN n % 10 < 4 THEN 'pending' WHEN n % 10 < 5 THEN 'parked' WHEN n % 10 < 8 THEN 'delayed'
    ELSE 'failed'
END AS kind FROM {{numbers}}
"""
JOBS = f"""
INSERT INTO {{jobs}} (
    id, queue, state, ready, priority, run_at, command, tags, expires_at, timeout, attempts, node,
    worker, created_at, updated_at, started_at, finished_at, duration_ms, cancel_reason, parked,
    "keys", task, handler
)
SELECT
    concat('job ', n), concat('queue ', n % 3),
    CASE WHEN kind IN ('delayed', 'parked') THEN 'pending' ELSE kind END,
    CASE WHEN kind = 'pending' THEN 1 WHEN kind IN ('delayed', 'parked', 'failed') THEN 0 END,
    CASE WHEN kind IN ('delayed', 'failed') THEN 9 ELSE n % 7 END,
    CASE WHEN kind IN ('delayed', 'failed') THEN {NOW + HOUR} + n ELSE {NOW - HOUR} END,
    concat('echo ', n), CASE WHEN n % 4 = 1 THEN concat('["tag ', n % 41, '", "all"]') END,
    CASE WHEN n % 4 <> 0 THEN NULL WHEN kind IN ('pending', 'parked', 'delayed', 'failed')
        THEN {NOW + 100 * HOUR} + n ELSE {NOW - HOUR} END,
    CASE WHEN n % 9 = 0 THEN 60000 END,
    CASE WHEN kind IN ('pending', 'parked', 'delayed') THEN 0 ELSE 1 END,
    CASE WHEN kind NOT IN ('pending', 'parked', 'delayed') THEN concat('node-', 1 + n % 7) END, 1,
    {NOW - HOUR}, {NOW - HOUR}, {NOW - HOUR},
    CASE WHEN kind IN ('completed', 'dead', 'cancelled') THEN {NOW - HOUR} + n END,
    CASE WHEN kind IN ('completed', 'dead', 'cancelled') THEN n END,
    CASE WHEN kind = 'processing' AND n % {2 * RUNS} = 1 THEN 'stop' END,
    CASE WHEN kind = 'parked' THEN concat('key ', n % 41) END,
    CASE WHEN kind = 'parked' THEN concat('["key ', n % 41, '"]') END,
    CASE WHEN kind IN ('completed', 'dead', 'cancelled', 'delayed') THEN 'a' END,
    CASE WHEN kind IN ('completed', 'dead', 'cancelled', 'delayed') THEN 'type:a' ELSE '' END
FROM ({KINDS}) AS numbered ORDER BY n
"""
HISTORY = (
    """
    INSERT INTO {attempts} (seq, number, node, host, worker, started_at, finished_at, duration_ms,
        outcome, exit_code, stdout_bytes, stderr_bytes)
    SELECT seq, 1, node, 'host-1', 1, started_at, finished_at, duration_ms, 'exited', 0, 9, 0
    FROM {jobs} WHERE finished_at IS NOT NULL
    """,
    "INSERT INTO {edges} (child, parent, parent_id, wanted, came_to, met)"
    " SELECT seq, seq - 1, 'x', 'ok', 'completed', 1 FROM {jobs} WHERE seq > 1",
    "INSERT INTO {outputs} SELECT seq, 1, 'an output', '' FROM {jobs}"
    " WHERE finished_at IS NOT NULL",
    "INSERT INTO {inputs} SELECT seq, 0, 'an input' FROM {jobs} WHERE finished_at IS NOT NULL",
    f"INSERT INTO {{events}} (at, kind, job, who) SELECT {NOW} + seq, 'x', id, 'me' FROM {{jobs}}",
)
COUNTS = """
INSERT INTO {counts} (queue, state, priority, jobs, timed)
SELECT queue, if(state = 'processing', 'pending', state) AS counted_as, priority, count(*),
    sum(coalesce(timeout, 0) > 0) FROM {jobs} GROUP BY queue, counted_as, priority
"""
TAGS = """
INSERT INTO {tags} (tag, seq)
SELECT json_value(tags, '$[0]'), seq FROM {jobs} WHERE tags IS NOT NULL
UNION ALL SELECT json_value(tags, '$[1]'), seq FROM {jobs} WHERE tags IS NOT NULL
"""
SCANS = (
    "SELECT count(*) FROM {jobs}",
    "SELECT id FROM {jobs} WHERE command = 'echo 7'",
    "SELECT seq FROM {jobs} WHERE ready = 1 ORDER BY id LIMIT 1",
)
"""Statements by which these tests show that they can tell."""


class UndoneError(Exception):
    """Ends a transaction in which something was only tried out."""


@contextmanager
def undone(store: SqlStore) -> Iterator[None]:
    """Undo what is done to a store."""
    with pytest.raises(UndoneError), transaction(store):
        yield
        raise UndoneError


class Server:
    """How a server is filled, asked what it reads, and counts what it has read."""

    numbers: ClassVar[str]
    keys: ClassVar[str] = '"keys"'
    keep_ignorant: ClassVar[str]
    """Keeps the server from learning about a table by itself."""
    analyze: ClassVar[str]

    def __init__(self, store: SqlStore, client: ServerClient) -> None:
        self.store = store
        self.client = client

    def fill(self) -> None:
        """Make jobs of every kind."""
        for n in range(1, 8):
            a_node(self.store, f"node-{n}", lease=1_000 * HOUR)
        for table in BIG:
            self.client.run(self.keep_ignorant.format(f"{{{table}}}"))
        self.client.run("BEGIN")
        self.fill_jobs()
        for text in HISTORY:
            self.client.run(text)
        self.client.run("COMMIT")
        assert self.store.verify() == []
        assert_counts_are_right(self.store, self.client)
        assert sum(count.jobs for count in self.store.jobs.counts()) == MANY

    def fill_jobs(self) -> None:
        """Insert the jobs."""
        self.client.run(JOBS.replace("{numbers}", self.numbers).replace('"keys"', self.keys))

    def learn(self) -> None:
        """Have the server look at its tables."""
        for table in BIG:
            self.client.run(self.analyze.format(f"{{{table}}}"))

    def check(self, text: str, values: dict[str, Any]) -> None:
        """Run a statement and look at what it read."""
        raise NotImplementedError

    def rows_read(self) -> int:
        """Return how many rows this session of the store has read so far."""
        raise NotImplementedError


class PostgresServer(Server):
    numbers = f"generate_series(1, {MANY}) AS n"
    keep_ignorant = "ALTER TABLE {} SET (autovacuum_enabled = off)"
    analyze = "ANALYZE {}"
    tell = "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)"

    def check(self, text: str, values: dict[str, Any]) -> None:
        """Look at the plan for these values, and the one for any: after a few runs it gets that."""
        with undone(self.store):
            self.look_at(self.store.db.run(f"{self.tell} {text}", **values))
        with undone(self.store):
            self.store.db.run("SET LOCAL plan_cache_mode = force_generic_plan")
            execute = self.prepare(text, values)
            try:
                self.look_at(self.store.db.run(f"{self.tell} {execute}"))
            finally:
                self.store.db.run("DEALLOCATE hot")

    def prepare(self, text: str, values: dict[str, Any]) -> str:
        """Prepare a statement, and return another one that runs it with these values."""
        kinds = {int: "bigint", bool: "boolean"}
        order: list[str] = []

        def number(found: re.Match[str]) -> str:
            if found[1] not in order:
                order.append(found[1])
            return f"${order.index(found[1]) + 1}"

        text = re.sub(r"%\(([a-z_0-9]+)\)s", number, text).replace("%%", "%")
        types = ", ".join(kinds.get(type(values[name]), "unknown") for name in order)
        literals = ", ".join(Literal(values[name]).as_string(raw(self.store)) for name in order)
        self.store.db.run(f"PREPARE hot {f'({types})' if order else ''} AS {text}")
        return f"EXECUTE hot {f'({literals})' if order else ''}"

    def look_at(self, answer: Any) -> None:
        plan = answer[0][0][0]["Plan"]
        parts = list(self.parts(plan))
        scans = [
            part
            for part in parts
            if part.get("Relation Name") in BIG and "Scan" in part["Node Type"]
        ]
        assert not [part for part in scans if "Seq Scan" in part["Node Type"]], plan
        assert sum(map(self.rows, scans)) < MOST_ROWS, plan
        for part in parts:
            if "Sort" in part["Node Type"]:
                assert sum(map(self.rows, part["Plans"])) < MOST_SORTED, plan
        assert plan["Shared Hit Blocks"] + plan["Shared Read Blocks"] < MOST_BLOCKS, plan

    def parts(self, plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield plan
        for part in plan.get("Plans", ()):
            yield from self.parts(part)

    def rows(self, part: dict[str, Any]) -> int:
        """Return how many rows a part of a plan went through."""
        removed = ("Rows Removed by Filter", "Rows Removed by Index Recheck")
        once = part["Actual Rows"] + sum(part.get(name, 0) for name in removed)
        found: int = once * part["Actual Loops"]
        return found

    def rows_read(self) -> int:
        ((found,),) = self.store.db.rows(
            "SELECT coalesce(sum(seq_tup_read + coalesce(idx_tup_fetch, 0)), 0)::bigint"
            " FROM pg_stat_xact_user_tables WHERE schemaname = :schema",
            schema=self.store.db.driver.dialect.prefix.strip('".'),
        )
        return int(found)


class MariaDBServer(Server):
    numbers = f"(SELECT seq AS n FROM seq_1_to_{MANY}) AS numbers"
    keys = "`keys`"
    keep_ignorant = "ALTER TABLE {} STATS_AUTO_RECALC = 0"
    analyze = "ANALYZE TABLE {}"
    aliases: ClassVar[dict[str, str]] = {
        "r": "jobs",
        "j": "jobs",
        "t": "tags",
        "x": "tags",
        "a": "attempts",
        "o": "outputs",
        "i": "inputs",
    }

    def fill_jobs(self) -> None:
        """Do in one go what the triggers do row by row, in half the time."""
        triggers = self.triggers()
        for name in triggers:
            self.client.run(f"DROP TRIGGER {self.client.prefix}{name}")
        super().fill_jobs()
        self.client.run(COUNTS)
        self.client.run(TAGS)
        self.store.db.script(list(triggers.values()))

    def triggers(self) -> dict[str, str]:
        """Return the triggers by name."""
        named = {re.search(r"CREATE TRIGGER .*?@(\w+)", text): text for text in STATEMENTS}
        return {name[1]: text for name, text in named.items() if name}

    def check(self, text: str, values: dict[str, Any]) -> None:
        with undone(self.store):
            # Its JSON is broken when names are in double quotes.
            self.store.db.run("SET @usual = @@sql_mode, sql_mode = 'STRICT_ALL_TABLES'")
            text = text.replace('"', "`")
            answer = self.store.db.run(f"ANALYZE FORMAT=JSON {text}", **values)
            self.store.db.run("SET sql_mode = @usual")
        self.look_at(json.loads(answer[0][0]))

    def look_at(self, plan: dict[str, Any]) -> None:
        read = 0
        for part in self.parts(plan):
            # Those of a temporary table are groups; the jobs that run are few.
            in_order = "filesort" not in part or "temporary_table" in part["filesort"]
            assert in_order or "'key': 'jobs_held'" in str(part["filesort"]), plan
            table = self.table(part)
            if table in BIG:
                assert part["access_type"] != "ALL", plan
                read += (part.get("r_rows") or 0) * max(part.get("r_loops") or 0, 1)
        assert read < MOST_ROWS, plan

    def parts(self, plan: Any) -> Iterator[dict[str, Any]]:
        if isinstance(plan, dict):
            yield plan
            plan = list(plan.values())
        if isinstance(plan, list):
            for part in plan:
                yield from self.parts(part)

    def table(self, part: dict[str, Any]) -> str:
        name = str(part.get("table_name", "")).removeprefix(self.client.prefix)
        return self.aliases.get(name, name)

    def rows_read(self) -> int:
        rows = self.store.db.rows("SHOW SESSION STATUS LIKE 'Handler_read%'", no="value")
        return sum(int(count) for _, count in rows)


@pytest.mark.timeout(300)
class TestFull:
    """The tables are filled once for everything: that takes longest."""

    def test_postgresql_reads_no_more_than_it_needs(
        self, postgres_url: str, subtests: pytest.Subtests
    ) -> None:
        with (
            closing(open_store(postgres_url, create=True)) as store,
            closing(PostgresClient(postgres_url)) as client,
        ):
            assert isinstance(store, SqlStore)
            server = PostgresServer(store, client)
            for stage in self.stages(server):
                self.statements(server, stage, subtests)
                self.verbs(server, stage, subtests)
                # What a node gets after a few executions, from the first one on.
                store.db.run("SET plan_cache_mode = force_generic_plan")
                usual, raw(store).prepare_threshold = raw(store).prepare_threshold, 0
                self.verbs(server, f"{stage}, prepared", subtests)
                raw(store).prepare_threshold = usual
                store.db.run("RESET plan_cache_mode")

    def test_mariadb_reads_no_more_than_it_needs(
        self, mariadb_url: str, subtests: pytest.Subtests
    ) -> None:
        with (
            closing(open_store(mariadb_url, create=True)) as store,
            closing(MariaDBClient(mariadb_url)) as client,
        ):
            assert isinstance(store, SqlStore)
            server = MariaDBServer(store, client)
            for stage in self.stages(server):
                self.statements(server, stage, subtests)
                self.verbs(server, stage, subtests)

    def stages(self, server: Server) -> Iterator[str]:
        server.fill()
        yield "as it grew"
        server.learn()
        yield "analyzed"

    def statements(self, server: Server, stage: str, subtests: pytest.Subtests) -> None:
        dialect = server.store.db.driver.dialect
        for name in names(dialect):
            text = rendered(dialect, name)
            with subtests.test(name, stage=stage):
                server.check(text, bound(dialect, text, **SOON))
                server.check(text, bound(dialect, text, **LATER))
        for statement in SCANS:
            with subtests.test(statement, stage=stage), pytest.raises(AssertionError):
                server.check(dialect.render(statement), {})

    def verbs(self, server: Server, stage: str, subtests: pytest.Subtests) -> None:
        for name, verb in VERBS.items():
            with subtests.test(name, stage=stage), undone(server.store):
                before = server.rows_read()
                verb(server.store)
                assert server.rows_read() - before < MOST_ROWS_OF_A_VERB


FEW = 3_000
AT_ONCE = 24


class TestFresh:
    """A few thousand jobs that were just enqueued: whoever guesses takes them for a handful."""

    def test_postgresql_reads_only_what_it_claims(self, postgres_url: str) -> None:
        with (
            closing(open_store(postgres_url, create=True)) as store,
            closing(PostgresClient(postgres_url)) as client,
        ):
            assert isinstance(store, SqlStore)
            self.turn(PostgresServer(store, client))

    def test_mariadb_reads_only_what_it_claims(self, mariadb_url: str) -> None:
        with (
            closing(open_store(mariadb_url, create=True)) as store,
            closing(MariaDBClient(mariadb_url)) as client,
        ):
            assert isinstance(store, SqlStore)
            self.turn(MariaDBServer(store, client))

    def turn(self, server: Server) -> None:
        store = server.store
        a_node(store, "node-1", lease=1_000 * HOUR)
        server.client.run(server.keep_ignorant.format("{jobs}"))
        store.jobs.enqueue([NewJob(command="true")] * FEW, now=NOW)
        with transaction(store):
            before = server.rows_read()
            jobs = take(store, AT_ONCE)
            assert len(jobs) == AT_ONCE
            assert finish(store, [ended(job, now=NOW + MINUTE) for job in jobs]) == []
            assert server.rows_read() - before < FEW // 2
