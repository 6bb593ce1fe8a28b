"""Copying a queue from any store to any other: all of it, as it was, and only when it is alike."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from queuectl import Queue, lifecycle
from queuectl.access import Kind
from queuectl.errors import (
    EXIT_FAILED,
    QueuectlError,
    StateError,
    StoreError,
    StoreUnreachableError,
    UsageError,
)
from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.host import host_identity, process_start
from queuectl.job import Exited, Output, State
from queuectl.limits import Limits
from queuectl.maintenance import SETTINGS_TABLES
from queuectl.store import copying, open_store
from queuectl.store.copying import copy
from queuectl.store.dialects import TABLES as ALL_TABLES
from queuectl.store.migrate import COPY
from queuectl.store.sqlstore import SqlStore
from queuectl.store.tables import TABLES
from queuectl.uniqueness import Until
from queuectl.values import replace
from queuectl.webhook import News, Webhook
from tests.contract.conftest import ENGINES
from tests.contract.foreign import MariaDBClient, PostgresClient, ServerClient
from tests.contract.test_grants import ALL as A_GRANT
from tests.contract.test_schedules import a_schedule, makes
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    SECOND,
    Client,
    Engine,
    a_node,
    add,
    apply,
    ask_cancel,
    assert_counts_are_right,
    forget,
    ids,
    remove,
    renew,
    run,
    take,
    take_one,
    the,
)
from tests.servers import HOST
from tests.servers.proxy import Proxy

pytestmark = pytest.mark.needs("sql")

KEPT_BY_THE_TARGET = {"meta", "counts", "tags"}
OF_THE_LIVING = {"nodes", "receipts", "watches", "live", "reservations"}
ODD = "ü\u2028 'q' \"d\" \\ %s :x {y} 🦄\n\ttab"
COLUMNS = {
    "sqlite": """
        SELECT m.name, c.name FROM sqlite_schema m, pragma_table_xinfo(m.name) c
        WHERE m.type = 'table' AND c.hidden = 0 AND substr(m.name, 1, 7) <> 'sqlite_'
    """,
    "postgresql": """
        SELECT table_name::text, column_name::text FROM information_schema.columns
        WHERE table_schema = 'queue' AND is_generated = 'NEVER'
    """,
    # (What `told` says is over when the transaction is.)
    "mariadb": """
        SELECT SUBSTRING(table_name, 3), column_name FROM information_schema.columns
        WHERE table_schema = DATABASE() AND LEFT(table_name, 2) = 'q_'
            AND COALESCE(generation_expression, '') = '' AND column_name <> 'told'
    """,
}
COPY_AND_HANG = """
import sys
from queuectl.store import copying, open_store
copying.ROWS = 7

def tell(done, total):
    if done >= 40:
        print(done, flush=True)
        sys.stdin.read()

copying.copy(open_store(sys.argv[1]), open_store(sys.argv[2], unfinished=True), tell)
"""


# -- places -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def second_postgresql(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Another schema, emptied between the tests."""
    server = request.getfixturevalue("postgres_server")
    database = request.getfixturevalue("postgres_database")
    yield from _emptied(PostgresClient, f"{server.url(database)}?schema=second")


@pytest.fixture(scope="module")
def second_mariadb(request: pytest.FixtureRequest) -> Iterator[Callable[[], str]]:
    """Other tables, emptied between the tests."""
    server = request.getfixturevalue("mariadb_server")
    database = request.getfixturevalue("mariadb_database")
    yield from _emptied(MariaDBClient, f"{server.url(database)}?prefix=second_")


def _emptied(client: type[ServerClient], url: str) -> Iterator[Callable[[], str]]:
    open_store(url, create=True).close()
    broom = client(url)

    def empty() -> str:
        broom.wipe()
        broom.run("DELETE FROM {meta} WHERE name = ?", COPY)
        return url

    yield empty
    broom.close()


@pytest.fixture(params=ENGINES, ids=lambda engine: f"to-{engine.name}")
def to(request: pytest.FixtureRequest) -> Engine:
    """The database of the target."""
    found: Engine = request.param
    return found


@pytest.fixture
def target_url(to: Engine, tmp_path: Path, request: pytest.FixtureRequest) -> str:
    """A place for the target with nothing in it."""
    if to.name == "sqlite":
        url = f"sqlite:{tmp_path}/target.db"
        open_store(url, create=True).close()
        return url
    empty: Callable[[], str] = request.getfixturevalue(f"second_{to.name}")
    return empty()


@pytest.fixture
def source(store: SqlStore) -> SqlStore:
    """The store to copy from."""
    return store


@pytest.fixture
def target(target_url: str) -> Iterator[SqlStore]:
    """The store to copy to, empty."""
    store = open_store(target_url, unfinished=True)
    yield store
    store.close()


@pytest.fixture
def there(target: SqlStore, target_url: str, to: Engine) -> Iterator[Client]:
    """A foreign client of the target."""
    client = to.client(target_url)
    yield client
    client.close()


# -- what is copied -------------------------------------------------------------------------


def furnish(store: SqlStore, client: Client) -> None:
    """Fill a store with one of everything, and with what is easily spoilt on the way."""
    a_node(store)
    tags, env = ("a", "ü b", ODD[:40]), {"PATH": "/bin", "ODD": ODD}
    add(store, "done", tags=tags, env=env, argv=("printf", ODD, "", " "), max_retries=4)
    run(store, "done", Exited(3), error=ODD)
    raw = Output(stdout=bytes(range(256)) * 40, stderr=b"\xff\0'\\", stdout_bytes=9, stderr_bytes=8)
    done = run(store, "done", now=NOW + HOUR, output=raw)
    assert done.state == State.COMPLETED
    add(store, "gone")
    add(store, "dead", max_retries=0, cwd="/ü", timeout=31, priority=-2_147_483_648)
    remove(store, the(store, "gone"))
    assert run(store, "dead", Exited(9), now=NOW + 2 * HOUR).state == State.DEAD
    apply(store, add(store, "off"), lifecycle.cancelled(the(store, "off"), ODD), now=NOW + 32)
    add(store, "held", queue="busy", priority=2_147_483_647)
    assert take_one(store, now=NOW + 3 * HOUR).id == "held"
    assert ask_cancel(store, the(store, "held"), "enough", now=NOW + 33)
    add(store, "tried", max_retries=7, backoff_base=1.1, max_backoff=35, retry_delay=36)
    assert run(store, "tried", Exited(1), now=NOW + 4 * HOUR).state == State.FAILED
    add(store, "later", run_at=NOW + DAY, expires_at=NOW + 2 * DAY, queue=ODD.strip()[:20])
    add(store, "first", priority=38, tags=("a",), env={"A": ODD}, env_all=True, shell=ODD)
    add(store, "second", command=ODD, stdin=bytes(range(256)) * 2_500)
    client.run(
        "INSERT INTO {jobs} (id, task, data, unique_key) VALUES (?, ?, ?, ?)",
        "foreign",
        ODD,
        b"\0\xff\xfe'",
        "key 39",
    )
    paused = the(store, "held").seq, 1, NOW + 3 * HOUR + 51, ODD
    client.run("INSERT INTO {pauses} (seq, number, at, who) VALUES (?, ?, ?, ?)", *paused)
    told = the(store, "held").seq, 52, 53.5, ODD, NOW + 54
    client.run(
        "INSERT INTO {progress} (seq, number, percent, note, at) VALUES (?, ?, ?, ?, ?)", *told
    )
    client.run("INSERT INTO {results} (seq, number, value) VALUES (?, ?, ?)", told[0], 55, ODD)
    for n, name in enumerate((ODD, "step")):
        client.run(
            "INSERT INTO {steps} (seq, name, place, number, seen, output, at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            *(told[0], name, 56 + n, 58 + n, 60 + n, b"\0\xff\xfe'", NOW + 62 + n),
        )
    client.run(
        "INSERT INTO {sleeps} (seq, number, step, awaits, until, at, woken)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        *(told[0], 64, ODD, ODD, NOW + 65, NOW + 66, 1),
    )
    store.sleeps.emit(ODD, '"ü"', who=ODD, now=NOW + 67)
    store.grants.add(replace(A_GRANT, created_by=ODD, queues=(ODD, "a")), now=NOW)
    session = replace(A_GRANT, id="session", kind=Kind.SESSION, digest="digest 68", queues=())
    store.grants.add(session, now=NOW)
    limits = Limits(limit=47, key_limit=48, weights={"ü": 49}, defaults={"timeout": "50s"})
    store.settings.set_limits("shared", lambda _: limits)
    add(store, "keyed", queue="shared", keys=("ü", 'it\'s "k"'))
    add(store, "keyed too", queue="shared", keys=("ü",))
    add(store, "one", unique="ü 'k'", unique_until=Until.START, unique_for=51)
    parent = add(store, "parent", group="ü 'g'", max_fails=72)
    add(store, "child", after=("parent:any",), after_group=("ü 'g'",), if_parent_fails="run")
    apply(store, parent, lifecycle.cancelled(parent, ODD), now=NOW + 73)
    client.run(
        "INSERT INTO {untold} (seq, id, state, action, how) VALUES (?, ?, ?, ?, ?)",
        *(74, ODD, "dead", "action 75", "removed"),
    )
    a_schedule(store, "nightly", paused_at=NOW + 43, paused_by=ODD, request={"command": ODD})
    store.schedules.tick(makes(NOW + HOUR), name="nightly", now=NOW + HOUR)
    webhook = Webhook(
        name=ODD,
        url="https://example.com",
        news=(News.DEAD, News.FAILED),
        queues=(ODD, "b"),
        via="via",
        secret="whsec_68",
        private=True,
        paused_at=NOW + 69,
        paused_by="me",
        created_at=NOW + 70,
        updated_at=NOW + 71,
    )
    store.webhooks.change(ODD, lambda there, now: webhook)
    store.settings.set_paused("busy", paused=True, who=ODD, now=NOW + 41)
    store.settings.set_paused("later on", paused=True, who="me", now=NOW + 42)
    store.settings.set_paused("later on", paused=False, who="me", now=NOW + 43)
    store.settings.set_config("max_retries", "44", now=NOW + 45)
    store.settings.set_config("ödd", ODD, now=NOW + 46)
    for n in range(12):
        store.history.record(
            Event(
                at=NOW + n,
                kind=f"kind{n}",
                job=None if n % 3 else "done",
                node=None if n % 2 else "node-1",
                who=ODD,
                detail=None if n % 5 else f"detail {n}",
            )
        )


def rows_of(store: SqlStore) -> dict[str, list[tuple[object, ...]]]:
    """Return every row that is copied, in the order of the keys."""
    return {
        table.name: [row for rows in copying._batches(store, table, None) for row in rows]
        for table in TABLES
    }


def tags_of(client: Client) -> list[tuple[object, ...]]:
    return sorted(client.run("SELECT tag, seq FROM {tags}"))


@pytest.mark.parametrize("rows", [3, copying.ROWS], ids=["small-batches", "usual-batches"])
def test_everything_comes_over_as_it_was(
    rows: int,
    source: SqlStore,
    client: Client,
    target: SqlStore,
    there: Client,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    furnish(source, client)
    monkeypatch.setattr(copying, "ROWS", rows)
    seen: list[tuple[int, int]] = []
    copied = copy(source, target, lambda done, total: seen.append((done, total)))

    before, after = rows_of(source), rows_of(target)
    assert {name: len(found) > 0 for name, found in before.items()} == dict.fromkeys(before, True)
    assert after == before
    assert {table.table: table.rows for table in copied} == {t: len(r) for t, r in before.items()}
    assert seen[-1] == (sum(map(len, before.values())),) * 2
    assert tags_of(there) == tags_of(client)
    assert set(target.jobs.counts()) == set(source.jobs.counts())
    assert_counts_are_right(target, there)
    everything = Filter()
    assert target.jobs.select(everything, limit=None) == source.jobs.select(everything, limit=None)
    tagged = Filter(tags=("a",))
    assert ids(target.jobs.select(tagged, limit=None)) == ids(
        source.jobs.select(tagged, limit=None)
    )
    assert len(target.jobs.select(tagged, limit=None)) == 2
    assert target.history.attempts(the(target, "done")) == source.history.attempts(
        the(source, "done")
    )
    assert target.history.output(the(target, "done"), 2) == source.history.output(
        the(source, "done"), 2
    )
    assert target.jobs.stdin(the(target, "second")) == bytes(range(256)) * 2_500
    assert target.settings.queues() == source.settings.queues()
    assert target.settings.config() == source.settings.config()
    assert target.schedules.all() == source.schedules.all()
    assert target.webhooks.all() == source.webhooks.all()
    assert target.groups.newest(9) == source.groups.newest(9)
    family = [the(target, "child")]
    assert target.jobs.parents(family) == source.jobs.parents([the(source, "child")])
    assert target.schedules.ticks("nightly", 9) == source.schedules.ticks("nightly", 9)
    assert target.grants.all() == source.grants.all()
    assert target.history.events(limit=99) == source.history.events(limit=99)
    assert set(target.history.rollups()) == set(source.history.rollups())
    assert target.verify() == source.verify() == []


def test_work_goes_on_at_the_target(
    source: SqlStore, client: Client, target: SqlStore, there: Client
) -> None:
    furnish(source, client)
    highest = client.run("SELECT max(seq) FROM {jobs}")[0][0]
    copy(source, target)
    # The node that held a job came along, but with nothing left of its lease.
    (gone,) = target.nodes.all()
    assert (gone.id, gone.host) == ("node-1", "host-2")
    assert gone.lapsed
    assert not renew(target, "node-1", until=target.clock.steady() + HOUR)
    assert ids(target.runs.held("node-1")) == ["held"]
    assert forget(target, "node-1", beat=gone.beat)

    assert add(target, "new", priority=99).seq > highest
    target.history.record(Event(at=NOW, kind="new", job=None, node=None, who="me", detail=None))
    assert [event.kind for event in target.history.events(limit=1)] == ["new"]
    a_node(target, "node-2")
    later = NOW + 5 * HOUR
    assert ids(take(target, 9, node="node-2", now=later))[:2] == ["new", "first"]
    assert_counts_are_right(target, there)


def test_an_empty_queue_can_be_copied(source: SqlStore, target: SqlStore) -> None:
    assert {table.rows for table in copy(source, target)} == {0}
    assert add(target, "first").state == State.PENDING


# -- what can go wrong -------------------------------------------------------------------------


def test_a_copy_that_was_killed_goes_on_where_it_stopped(
    source: SqlStore, url: str, client: Client, target_url: str, target: SqlStore, tmp_path: Path
) -> None:
    furnish(source, client)
    for n in range(60):
        add(source, f"job {n}")
    command = [sys.executable, "-c", COPY_AND_HANG, url, target_url]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as copying_it:
        assert copying_it.stdout is not None
        came = int(copying_it.stdout.readline())
        copying_it.kill()
    with pytest.raises(StateError, match=r"unfinished copy"):
        open_store(target_url)
    elsewhere = open_store(f"sqlite:{tmp_path}/elsewhere.db", create=True)
    with pytest.raises(StateError, match=r"unfinished copy") as refusal:
        copy(elsewhere, target)
    assert "finish that one" in refusal.value.advised
    elsewhere.close()

    seen: list[int] = []
    copy(source, target, lambda done, total: seen.append(done))
    assert seen[0] == came
    assert rows_of(target) == rows_of(source)
    assert target.verify() == []
    open_store(target_url).close()


def test_a_target_whose_emptying_was_cut_short_is_emptied_first(
    source: SqlStore, client: Client, target: SqlStore
) -> None:
    furnish(source, client)
    add(target, "old", tags=("x",))
    note = {"source": source.url, "emptying": True, "table": None, "key": None, "wrong": False}
    target.administration.set_meta(COPY, json.dumps(note))
    copy(source, target)
    assert rows_of(target) == rows_of(source)
    assert target.verify() == []


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_a_lost_connection_to_the_target_is_no_matter(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    with through_a_proxy(kind, request) as (url, proxy):
        here, there = open_store(f"sqlite:{tmp_path}/here.db", create=True), open_store(url)
        for n in range(30):
            add(here, f"job {n}")
        proxy.cut_when(b"COMMIT", when="after", times=2)
        copy(here, there)
        assert proxy.fired == 2
        assert rows_of(there) == rows_of(here)
        here.close()
        there.close()


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_after_a_lost_connection_to_the_source_it_goes_on(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "ROWS", 7)
    with through_a_proxy(kind, request) as (url, proxy):
        there, here = open_store(url), open_store(f"sqlite:{tmp_path}/here.db", create=True)
        for n in range(30):
            add(there, f"job {n}")
        with pytest.raises(StoreUnreachableError):
            copy(there, here, lambda done, total: proxy.cut() if done == 14 else None)
        seen: list[int] = []
        copy(there, here, lambda done, total: seen.append(done))
        assert seen[0] == 14
        assert rows_of(there) == rows_of(here)
        here.close()
        there.close()


@contextmanager
def through_a_proxy(kind: str, request: pytest.FixtureRequest) -> Iterator[tuple[str, Proxy]]:
    """Make a queue on a server; gives a way to it that can be cut."""
    url: str = request.getfixturevalue(f"{kind}_url")
    port: int = request.getfixturevalue(f"{kind}_server").port
    open_store(url, create=True).close()
    with Proxy(HOST, port) as proxy:
        yield url.replace(f":{port}/", f":{proxy.port}/"), proxy


def test_a_changed_row_is_noticed(
    source: SqlStore, client: Client, target: SqlStore, target_url: str, there: Client
) -> None:
    furnish(source, client)

    def spoil(done: int, total: int) -> None:
        if done == total:
            there.run("UPDATE {outputs} SET stdout = ? WHERE number = 1", b"oops")

    for overwrite in (False, True):
        with pytest.raises(QueuectlError, match=r"table outputs .* other content") as caught:
            copy(source, target, spoil, overwrite=overwrite)
        assert caught.value.exit_code == EXIT_FAILED
    with pytest.raises(StateError, match="unfinished"):
        open_store(target_url)
    copy(source, target, overwrite=True)
    assert rows_of(target) == rows_of(source)
    assert target.verify() == []


def test_a_missing_row_is_noticed(
    source: SqlStore, client: Client, target: SqlStore, there: Client
) -> None:
    furnish(source, client)

    def spoil(done: int, total: int) -> None:
        if done == total:
            there.run("DELETE FROM {events} WHERE kind = ?", "kind7")

    with pytest.raises(QueuectlError, match=r"table events .*14 rows there, 13 here"):
        copy(source, target, spoil)


def test_nothing_is_merged_into_what_is_there(
    source: SqlStore, client: Client, target: SqlStore, target_url: str, there: Client
) -> None:
    furnish(source, client)
    add(target, "mine", tags=("x",))
    run_one = add(target, "run")
    a_node(target)
    assert ids(take(target, 2)) == ["mine", "run"]
    target.settings.set_config("timeout", "3s", now=NOW)
    before = rows_of(target)
    with pytest.raises(StateError, match=r"isn't empty \(it has jobs\)"):
        copy(source, target)
    assert rows_of(target) == before
    open_store(target_url).close()

    copy(source, target, overwrite=True)
    assert rows_of(target) == rows_of(source)
    assert tags_of(there) == tags_of(client)
    assert_counts_are_right(target, there)
    assert target.jobs.get(run_one.id) is None


def test_settings_alone_make_a_target_that_is_not_empty(source: SqlStore, target: SqlStore) -> None:
    target.settings.set_config("timeout", "3s", now=NOW)
    with pytest.raises(StateError, match="it has config"):
        copy(source, target)


def test_of_two_who_copy_at_once_one_is_told(
    source: SqlStore, url: str, client: Client, target: SqlStore, target_url: str
) -> None:
    furnish(source, client)
    begun = False

    def overtake(done: int, total: int) -> None:
        nonlocal begun
        if not begun:
            begun = True
            other, same = open_store(url), open_store(target_url, unfinished=True)
            copy(other, same)
            other.close()
            same.close()

    with pytest.raises(StateError, match="at the same time"):
        copy(source, target, overtake)
    assert rows_of(target) == rows_of(source)


def test_what_changes_in_the_source_meanwhile_is_not_seen(
    source: SqlStore, other: SqlStore, client: Client, target: SqlStore
) -> None:
    furnish(source, client)
    before = rows_of(source)

    def enqueue(done: int, total: int) -> None:
        if done < total:
            other.history.record(
                Event(at=NOW, kind="new", job=None, node=None, who="me", detail=None)
            )
            add(other, f"new {done}")

    copy(source, target, enqueue)
    assert rows_of(target) == before


def test_a_store_is_not_copied_to_itself(source: SqlStore, other: SqlStore, url: str) -> None:
    add(source, "mine")
    for overwrite in (False, True):
        with pytest.raises(UsageError, match="itself"):
            copy(source, other, overwrite=overwrite)
    assert the(source, "mine").state == State.PENDING
    open_store(url).close()


def test_large_outputs_are_read_a_few_at_a_time(
    source: SqlStore, target: SqlStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_node(source)
    for n in range(5):
        add(source, f"job {n}")
        output = Output(stdout=b"%d" % n * 1000, stderr=b"'" * 100)
        run(source, f"job {n}", now=NOW + n * MINUTE + 5 * SECOND, output=output)
    monkeypatch.setattr(copying, "BYTES", 2500)
    (outputs,) = (table for table in TABLES if table.name == "outputs")
    assert [len(rows) for rows in copying._batches(source, outputs, None)] == [2, 2, 1]
    monkeypatch.setattr(copying, "BYTES", 50)
    assert [len(rows) for rows in copying._batches(source, outputs, None)] == [1] * 5
    copy(source, target)
    assert rows_of(target) == rows_of(source)


def test_a_row_that_a_server_does_not_take_is_named(mariadb_url: str, tmp_path: Path) -> None:
    source = open_store(f"sqlite:{tmp_path}/source.db", create=True)
    target = open_store(mariadb_url, create=True)
    limit = int(target.info()["max_allowed_packet"])
    a_node(source)
    add(source, "loud")
    run(source, "loud", output=Output(stdout=b"'" * (limit // 2), stderr=b""))
    with pytest.raises(StoreError, match=r"row of outputs .* max_allowed_packet"):
        copy(source, target)
    source.close()
    target.close()


def test_no_column_of_any_table_is_forgotten(
    store: SqlStore, client: Client, engine: Engine
) -> None:
    found: dict[str, set[str]] = {}
    for table, column in client.run(COLUMNS[engine.name]):
        found.setdefault(str(table), set()).add(str(column))
    assert set(found) == set(ALL_TABLES)
    copied = {table.name: set(table.columns) for table in TABLES}
    assert set(found) - set(copied) == KEPT_BY_THE_TARGET | OF_THE_LIVING
    assert {name: found[name] for name in copied} == copied


@pytest.mark.parametrize("settings", [False, True])
def test_a_reset_leaves_nothing_but_what_was_set(
    store: SqlStore, client: Client, url: str, monkeypatch: pytest.MonkeyPatch, settings: bool
) -> None:
    furnish(store, client)
    spared = {name: rows for name, rows in rows_of(store).items() if name in SETTINGS_TABLES}
    monkeypatch.setattr(copying, "ROWS", 3)
    seen: list[tuple[int, int]] = []
    with Queue(url) as queue:
        jobs = queue.count()
        pid = os.getpid()
        a_node(store, "alive", boot=host_identity(), pid=pid, pid_start=process_start(pid))
        with pytest.raises(StateError, match="at work"):
            queue.reset()
        for node in store.nodes.all():
            forget(store, node.id)
        assert queue.reset(settings=settings, progress=lambda *far: seen.append(far)) == jobs
        assert seen[-1] == (jobs, jobs)
        [event] = queue.events()
        assert (event.kind, event.detail) == ("reset", f"jobs: {jobs}" + ", settings" * settings)
        left = {name: rows for name, rows in rows_of(store).items() if rows}
        assert left.keys() - {"events"} == (set() if settings else spared.keys())
        assert settings or {name: left[name] for name in spared} == spared
        assert tags_of(client) == []
        assert_counts_are_right(store, client)
        assert store.verify() == []
        assert queue.reset() == 0
    add(store, id="done")
