"""What a job runs in: its shell, a whole environment, its stdin."""

import pytest

from queuectl.errors import DuplicateError
from queuectl.job import SHELL, NewJob, State
from queuectl.store import Store
from queuectl.store.contract import LONGEST_PIECE
from tests.contract.tools import (
    NOW,
    Client,
    a_node,
    add,
    release,
    remove,
    run,
    take_one,
    the,
)

BYTES = bytes(range(256)) * 3
LONG = bytes(n % 251 for n in range(3 * LONGEST_PIECE + 5))


class TestStdin:
    @pytest.mark.parametrize("data", [b"x", BYTES, LONG, LONG[:LONGEST_PIECE]])
    def test_any_bytes_are_kept(self, store: Store, other: Store, data: bytes) -> None:
        one = store.jobs.enqueue_one(NewJob(command="cat", stdin=data), now=NOW)
        named = store.jobs.enqueue_one(NewJob(id="named", command="cat", stdin=data), now=NOW)
        add(store, "many", stdin=data)
        for job in (one, named, the(store, "many")):
            assert the(other, job.id) == job
            assert job.stdin_bytes == len(data)
            assert other.jobs.stdin(job) == data
        assert store.verify() == []

    @pytest.mark.parametrize("data", [None, b""])
    def test_none_is_none(self, store: Store, data: bytes | None) -> None:
        job = store.jobs.enqueue_one(NewJob(command="cat", stdin=data), now=NOW)
        assert job.stdin_bytes is None
        assert store.jobs.stdin(job) == b""

    @pytest.mark.parametrize("count", [3, 19, 20, 250])
    def test_of_many_each_has_its_own(self, store: Store, count: int) -> None:
        model, bare = NewJob(stdin=b"shared"), NewJob()
        likes = [(f"job {n}", "x", None, None, model if n % 2 else bare) for n in range(count)]
        own = [NewJob(id=f"own {n}", command="x", stdin=f"input {n}".encode()) for n in range(9)]
        store.jobs.enqueue([*likes, *own], now=NOW)
        for n in range(count):
            assert store.jobs.stdin(the(store, f"job {n}")) == (b"shared" if n % 2 else b"")
        for n in range(9):
            assert store.jobs.stdin(the(store, f"own {n}")) == b"input %d" % n

    def test_that_of_a_duplicate_goes_nowhere(self, store: Store, client: Client) -> None:
        add(store, "taken", stdin=b"first")
        new = [
            NewJob(id="taken", command="x", stdin=b"second"),
            NewJob(id="new", command="x"),
            NewJob(id="new", command="x", stdin=b"third"),
            NewJob(id="late", command="x", stdin=b"fourth"),
        ]
        store.jobs.enqueue(new, now=NOW, skip_duplicates=True)
        found = [store.jobs.stdin(the(store, id)) for id in ("taken", "new", "late")]
        assert found == [b"first", b"", b"fourth"]
        with pytest.raises(DuplicateError):
            store.jobs.enqueue([NewJob(command="x", stdin=b"fifth"), new[0]], now=NOW)
        with pytest.raises(DuplicateError):
            store.jobs.enqueue_one(new[0], now=NOW)
        assert len(client.run("SELECT seq FROM {inputs}")) == 2

    def test_it_is_there_for_every_run(self, store: Store) -> None:
        a_node(store)
        add(store, "x", stdin=BYTES)
        for _ in range(2):
            job = take_one(store)
            assert (job.stdin_bytes, store.jobs.stdin(job)) == (len(BYTES), BYTES)
            release(store, [job], now=NOW)
        assert store.jobs.stdin(run(store, "x")) == BYTES

    def test_it_goes_with_its_job(self, store: Store, client: Client) -> None:
        a_node(store)
        for id in ("removed", "pruned", "deleted", "kept"):
            add(store, id, stdin=LONG, priority=int(id == "pruned"))
        remove(store, the(store, "removed"))
        run(store, "pruned")
        assert store.jobs.prune(State.COMPLETED, NOW * 2, limit=9) == 1
        client.run("DELETE FROM {jobs} WHERE id = ?", "deleted")
        kept = the(store, "kept")
        assert set(client.run("SELECT seq FROM {inputs}")) == {(kept.seq,)}
        assert store.jobs.stdin(kept) == LONG
        assert store.verify() == []

    def test_another_program_may_give_it(self, store: Store, client: Client) -> None:
        client.run("INSERT INTO {jobs} (id, command, stdin_bytes) VALUES (?, ?, ?)", "x", "cat", 3)
        job = the(store, "x")
        assert store.verify() == ["1 jobs have another stdin than was stored with them."]
        client.run("INSERT INTO {inputs} (seq, start, data) VALUES (?, 0, ?)", job.seq, b"a\0b")
        assert store.jobs.stdin(job) == b"a\0b"
        assert store.verify() == []


class TestShellAndEnvironment:
    def test_the_usual_shell_takes_no_room(self, store: Store, client: Client) -> None:
        store.jobs.enqueue([NewJob(id="x", command="x", shell=SHELL)], now=NOW)
        assert the(store, "x").shell is None
        assert client.run("SELECT shell, env_all FROM {jobs}") == [(None, None)]

    def test_they_are_there_when_it_is_claimed(self, store: Store) -> None:
        a_node(store)
        new = NewJob(id="x", command="x", shell="bash", env_all=True, env={"A": "b"})
        store.jobs.enqueue([new, NewJob(id="y", command="y", env={"A": "c"})], now=NOW)
        first, second = take_one(store), take_one(store)
        assert (first.shell, first.env_all, first.env) == ("bash", True, {"A": "b"})
        assert (second.shell, second.env_all, second.env) == (None, False, {"A": "c"})

    def test_another_program_may_say_nothing_or_all(self, store: Store, client: Client) -> None:
        client.run("INSERT INTO {jobs} (id, command) VALUES (?, ?)", "bare", "x")
        client.run(
            "INSERT INTO {jobs} (id, command, shell, env, env_all) VALUES (?, ?, ?, ?, ?)",
            *("full", "x", "zsh", '{"A": "b"}', 1),
        )
        bare, full = the(store, "bare"), the(store, "full")
        assert (bare.shell, bare.env, bare.env_all) == (None, {}, False)
        assert (full.shell, full.env, full.env_all) == ("zsh", {"A": "b"}, True)
