"""The checkup: what every store finds out about itself, and that it changes nothing by it."""

import pytest

from queuectl.errors import StateError, StoreTooNewError
from queuectl.store import Store, open_store
from queuectl.store.health import check_store
from queuectl.store.health.common import check_queue
from queuectl.store.health.findings import Finding, Level
from queuectl.store.migrate import VERSION
from queuectl.store.migrations import current
from queuectl.store.sqlstore import SqlStore
from queuectl.when import human
from tests.contract.conftest import ENGINES
from tests.contract.tools import DAY, HOUR, NOW, Client, Engine, a_node, add, claim, forget, take

pytestmark = pytest.mark.needs("sql")

NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL", "mariadb": "MariaDB"}


def about(findings: list[Finding], subject: str) -> list[Finding]:
    """Return the findings about a subject."""
    return [finding for finding in findings if finding.subject == subject]


def one(findings: list[Finding], subject: str) -> Finding:
    """Return the only finding about a subject."""
    (finding,) = about(findings, subject)
    return finding


class TestAHealthyStore:
    def test_names_its_engine_and_its_schema(self, store: Store, engine: Engine) -> None:
        found = check_store(store)
        assert one(found, "engine").text.startswith(NAMES[engine.name] + " ")
        assert f"version {current()}," in one(found, "schema").text
        assert {one(found, subject).level for subject in ("engine", "schema")} == {Level.OK}

    def test_only_what_is_in_order_needs_no_advice(self, store: Store) -> None:
        for finding in check_store(store):
            assert finding.text.endswith(".")
            assert bool(finding.advice) == (finding.level != Level.OK), finding

    def test_is_left_as_it_was(self, store: Store, client: Client) -> None:
        add(store, "a")
        tables = ("jobs", "counts", "nodes", "queues", "config", "events", "receipts", "meta")

        def everything() -> list[object]:
            return [sorted(client.run(f"SELECT * FROM {{{name}}}"), key=repr) for name in tables]

        before = everything()
        check_store(store)
        list(check_queue(store, lambda node: True))
        assert everything() == before


class TestPausedQueues:
    def test_what_waits_in_them_is_a_note(self, store: Store) -> None:
        add(store, "a", queue="mail")
        add(store, "b", queue="mail")
        add(store, "c")
        store.settings.set_paused("mail", paused=True, who="me", now=NOW)
        store.settings.set_paused("empty", paused=True, who="me", now=NOW)
        finding = one(list(check_queue(store, lambda node: True)), "queues")
        assert (finding.level, finding.advice) == (
            Level.NOTE,
            "Go on with: queuectl resume mail",
        )
        assert finding.text == "Queue mail is paused, and 2 jobs are waiting in it."


class TestAStoreThatIsInUse:
    def test_notices_that_a_newer_queuectl_upgraded_it(self, store: Store) -> None:
        assert isinstance(store, SqlStore)
        store.check_schema()
        store.administration.set_meta(VERSION, str(current() + 1))
        try:
            with pytest.raises(StoreTooNewError, match="newer queuectl"):
                store.check_schema()
        finally:
            # Other tests use the same tables.
            store.administration.set_meta(VERSION, str(current()))


@pytest.mark.parametrize("engine", ENGINES[1:], ids=lambda engine: engine.name, indirect=True)
class TestAServer:
    """Not SQLite, which has neither rights nor a clock of its own."""

    @pytest.fixture
    def server(self, store: Store) -> SqlStore:
        """An empty store on a server."""
        assert isinstance(store, SqlStore)
        return store

    def test_says_what_transactions_see_and_what_may_be_done(self, server: SqlStore) -> None:
        found = check_store(server)
        assert "READ COMMITTED" in one(found, "isolation").text
        for subject in ("isolation", "grants", "connections", "clock"):
            assert one(found, subject).level == Level.OK

    def test_says_that_nothing_is_made_durable(self, server: SqlStore) -> None:
        # The shared servers of the tests are set to be fast.
        finding = one(check_store(server), "durability")
        assert finding.level == Level.ERROR
        assert finding.text.startswith(("fsync is off", "innodb_flush_method is nosync"))

    @pytest.mark.parametrize(("shift", "order"), [(-5_000, "ahead of"), (7_000, "behind")])
    def test_compares_the_clocks(
        self, server: SqlStore, shift: int, order: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sql = server.db.sql
        monkeypatch.setattr(sql, "CLOCK", f"SELECT ({sql.CLOCK}) + {shift}")
        finding = one(check_store(server), "clock")
        assert finding.level == Level.WARNING
        apart = human(abs(shift))
        assert f"This host's clock is {apart} {order} the server's (± " in finding.text
        assert "no harm" in finding.text


class TestTables:
    def test_an_unfinished_copy_is_an_error(self, store: SqlStore, url: str) -> None:
        store.administration.set_meta("copy", '{"source": "sqlite:/other.db"}')
        try:
            with pytest.raises(StateError):
                open_store(url)
            finding = one(check_store(store), "copy")
            assert finding.level == Level.ERROR
            assert "db copy" in finding.advice
        finally:
            store.db.rows("DELETE FROM {meta} WHERE name = 'copy'")

    def test_receipts_that_nobody_drops_are_a_note(self, store: Store, client: Client) -> None:
        for name, age in (("old", 3 * DAY), ("new", HOUR)):
            at = store.clock.now() - age
            client.run("INSERT INTO {receipts} (client, serial, at) VALUES (?, 1, ?)", name, at)
        finding = one(check_store(store), "receipts")
        assert finding.level == Level.NOTE
        assert finding.text.startswith("1 receipt")


class TestNodesAndJobs:
    def test_a_node_that_is_gone_and_what_it_holds(self, store: Store) -> None:
        add(store, "held")
        a_node(store, seen_at=store.clock.now() - 2 * HOUR)
        take(store)
        (finding,) = check_queue(store, lambda node: False)
        assert (finding.level, finding.subject) == (Level.WARNING, "nodes")
        assert "node-1 on host-2 (pid 4)" in finding.text
        assert "2h ago" in finding.text
        assert "1 job is processing on it" in finding.text
        assert "worker start" in finding.advice

    def test_jobs_in_the_hands_of_nobody(self, store: Store) -> None:
        add(store, "held")
        a_node(store)
        take(store)
        forget(store, "node-1")
        (finding,) = check_queue(store, lambda node: True)
        assert finding.level == Level.WARNING
        assert "aren't registered (node-1)" in finding.text

    def test_jobs_that_wait_for_a_node(self, store: Store) -> None:
        assert list(check_queue(store, lambda node: True)) == []
        add(store, "a")
        add(store, "b")
        (finding,) = check_queue(store, lambda node: True)
        assert (finding.level, finding.subject) == (Level.NOTE, "nodes")
        assert "2 jobs are waiting" in finding.text

    def test_nodes_of_different_versions(self, store: Store) -> None:
        a_node(store, "one", version="1.0", workers=2)
        a_node(store, "two", version="1.1", workers=3)
        fine, finding = check_queue(store, lambda node: True)
        assert fine.text == "2 nodes are running, with 5 workers."
        assert finding.level == Level.WARNING
        assert "1.0 (on host-2), 1.1 (on host-2)" in finding.text

    def test_dead_jobs(self, store: Store) -> None:
        job = add(store, "a", expires_at=NOW + 1)
        a_node(store)
        claim(store, "node-1", [1], [], now=NOW + 2)
        assert store.jobs.states([job.id]) == {"a": "dead"}
        finding = one(list(check_queue(store, lambda node: True)), "dead jobs")
        assert finding.level == Level.NOTE
        assert "dlq" in finding.advice
