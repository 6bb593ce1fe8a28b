"""A process that plays a part in a test: `python actor.py PART ARGUMENTS...`.

It says a line when it gets somewhere, and reads a line where it waits for the test.
"""

import ast
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path

from queuectl.admission import ALL_QUEUES, Offer
from queuectl.errors import QueuectlError
from queuectl.facts import Node
from queuectl.job import Exited, NewJob, State, Transition
from queuectl.store import Store, open_store
from queuectl.store.contract import Ended, Over


def say(*words: object) -> None:
    """Tell the test something."""
    print(*words, flush=True)


def heard() -> str:
    """Wait for the test to say something; empty when it has gone."""
    return sys.stdin.readline().strip()


def client() -> None:
    """Speak SQL to any file through Python's own SQLite, one statement per line.

    A second copy of SQLite in one process would break the locks of the first, so a program that
    isn't ours has to be another process.
    """
    open_files: dict[str, sqlite3.Connection] = {}
    while line := heard():
        path, text, params = ast.literal_eval(line)
        if text is None:
            open_files.pop(path).close()
            say("(True, [])")
            continue
        try:
            if path not in open_files:
                open_files[path] = sqlite3.connect(path, isolation_level=None, timeout=30)
            say(ascii((True, open_files[path].execute(text, params).fetchall())))
        except sqlite3.Error as error:
            say(ascii((False, f"{type(error).__name__}: {error}")))


def create() -> None:
    """Open every path the test names, made if need be, and enqueue a job there."""
    say("ready")
    while path := heard():
        try:
            store = open_store(path, create=True)
            store.jobs.enqueue([NewJob(command="x")], now=store.clock.now())
            store.close()
            say("done")
        except QueuectlError as error:
            say(f"{type(error).__name__}: {error}")


def drain(path: str, name: str) -> None:
    """Claim and finish jobs until there are none, and say which they were."""
    store = open_store(path)
    _register(store, name)
    say("ready")
    heard()
    done: list[str] = []
    while jobs := store.runs.turn(name, None, Offer(range(5))).jobs:
        ends = [
            Ended(
                job=job,
                outcome=Exited(0),
                transition=Transition(state=State.COMPLETED, failures=0, crashes=0),
                started_at=job.run_at,
                finished_at=store.clock.now(),
                duration_ms=1,
                host="here",
            )
            for job in jobs
        ]
        assert store.runs.turn(name, Over(judge=lambda *_: ends), None).lost == []  # noqa: B023
        done += [job.id for job in jobs]
    say(json.dumps(done))


def _register(store: Store, name: str) -> None:
    store.nodes.register(
        Node(
            id=name,
            host="here",
            boot="boot",
            pid=os.getpid(),
            pid_start=1,
            workers=5,
            queues=ALL_QUEUES,
            spool="/nowhere",
            version="0",
            started_at=store.clock.now(),
            seen_at=store.clock.now(),
            lease_until=store.clock.steady() + 600_000,
        )
    )


def begin(path: str) -> None:
    """Write a lot inside a transaction that never ends."""
    store = open_store(path)
    with store.db.transaction():
        # More than the page cache holds, so that much of it is in the file already.
        store.jobs.enqueue(
            [NewJob(id=f"half {n}", command="x" * 50_000) for n in range(200)], now=1
        )
        store.settings.set_config("jitter", "1", now=1)
        say("inside")
        heard()


def acknowledge(path: str) -> None:
    """Enqueue jobs one after the other and say each as soon as it is stored."""
    store = open_store(path)
    while True:
        (id,) = store.jobs.enqueue([NewJob(command="x")], now=store.clock.now()).ids
        say(id)


def write(path: str) -> None:
    """Write pairs that belong together, as fast as possible, until the test says stop."""
    store = open_store(path)
    say("ready")
    os.set_blocking(sys.stdin.fileno(), False)
    n = 0
    while not sys.stdin.readline():
        with store.db.transaction():
            store.jobs.enqueue([NewJob(id=f"left {n}", command="x" * 2_000)], now=n)
            store.jobs.enqueue([NewJob(id=f"right {n}", command="x" * 2_000)], now=n)
        n += 1
    say(n)


def fork(path: str) -> None:
    """Use a store in a child that was forked after it was opened, then in the parent."""
    store = open_store(path)
    store.jobs.enqueue([NewJob(id="before", command="x")], now=1)
    attempts: list[Callable[[], object]] = [
        lambda: store.jobs.get("before"),
        lambda: store.jobs.enqueue([NewJob(id="child", command="x")], now=1),
        lambda: store.changed(),
        lambda: store.jobs.counts(),
    ]
    if (pid := os.fork()) == 0:
        for attempt in attempts:
            try:
                attempt()
                say("it worked, which is bad")
            except QueuectlError as error:
                say(f"{type(error).__name__}: {error}")
        store.close()
        os._exit(0)
    os.waitpid(pid, 0)
    store.jobs.enqueue([NewJob(id="after", command="x")], now=1)
    say("parent goes on")


def future(path: str) -> None:
    """Open a store with a queuectl that is newer by two migrations."""
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from tests.contract import later

    later.install(2)
    store = open_store(path, create=True)
    say(store.info()["schema_version"])
    store.close()


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
