"""Hooks: what the end of a job makes, in its transaction, whatever the queue allows."""

import json
from contextlib import closing
from typing import Any

import pytest

from queuectl.admission import Offer, Serving
from queuectl.filter import Filter
from queuectl.hooks import LONGEST_NAME
from queuectl.job import Cancelled, Exited, Job, Lost, NewJob, Outcome, Released, Signalled, State
from queuectl.job_json import job_dict
from queuectl.lifecycle import Policy, cancelled, retried
from queuectl.limits import Limits, WhenFull
from queuectl.store import Store
from queuectl.store.contract import Decision, Edit, Over, Topic
from queuectl.store.idiom import Idiom
from queuectl.store.session import Session
from queuectl.values import replace
from tests.contract.deeds import UndoneError
from tests.contract.tools import (
    HOUR,
    NOW,
    SECOND,
    Client,
    a_node,
    add,
    apply,
    assert_counts_are_right,
    claim,
    ended,
    finish,
    hear,
    ids,
    quieten,
    release,
    remove,
    run,
    take,
    take_one,
    the,
    transaction,
)

HOOKS: dict[str, Any] = {
    "on_success": "echo success",
    "on_failure": "echo failure",
    "on_dead": "echo dead",
}
THEN = NOW + 5 * SECOND
STRICT = Policy(max_retries=0, max_crashes=1)
"""One failure, or one crash, and a job is dead."""


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store)


def hooks(store: Store, id: str = "a") -> list[str]:
    """Return the ids of the hooks that the ends of a job have made."""
    return ids(store.jobs.hooks(the(store, id)))


def told(store: Store, id: str) -> dict[str, Any]:
    """Return what a hook finds on its stdin."""
    found: dict[str, Any] = json.loads(store.jobs.stdin(the(store, id)))
    return found


def die(store: Store, id: str = "a", **fields: Any) -> Job:
    """Have a job with hooks fail for good."""
    add(store, id, **HOOKS | {"max_retries": 0} | fields)
    return run(store, id, Exited(3))


def jobs(store: Store) -> list[str]:
    """Return the ids of all jobs, in the order of the line."""
    return ids(store.jobs.select(Filter(), limit=None, oldest=True))


class TestOccasions:
    @pytest.mark.parametrize(
        ("outcome", "policy", "made"),
        [
            (Exited(0), Policy(), ["on-success.a.1"]),
            (Exited(3), Policy(), ["on-failure.a.1"]),
            (Signalled(9), Policy(), ["on-failure.a.1"]),
            (Lost("gone"), Policy(), ["on-failure.a.1"]),
            (Exited(3), STRICT, ["on-failure.a.1", "on-dead.a.1"]),
            (Lost("gone"), STRICT, ["on-failure.a.1", "on-dead.a.1"]),
            (Released(), Policy(), []),
            (Cancelled("why"), Policy(), []),
        ],
    )
    def test_the_end_of_a_run(
        self, store: Store, outcome: Outcome, policy: Policy, made: list[str]
    ) -> None:
        add(store, "a", **HOOKS)
        run(store, "a", outcome, policy=policy)
        assert hooks(store) == made
        assert jobs(store) == ["a", *made]

    def test_only_what_is_there_is_run(self, store: Store) -> None:
        add(store, "a", on_dead="x")
        run(store, "a")
        assert jobs(store) == ["a"]

    def test_every_failed_run(self, store: Store) -> None:
        add(store, "a", on_failure="x", on_dead="y", max_retries=1, retry_delay=0, priority=9)
        for n in range(2):
            now = NOW + n * HOUR
            job = next(job for job in take(store, 9, now=now) if job.id == "a")
            assert finish(store, [ended(job, Exited(3), now=now + 1)]) == []
        assert hooks(store) == ["on-failure.a.1", "on-failure.a.2", "on-dead.a.2"]

    def test_a_job_that_expires(self, store: Store) -> None:
        add(store, "a", expires_at=NOW + 1, run_at=NOW + 1, **HOOKS)
        turned = claim(store, "node-1", [1], now=NOW + 2)
        assert ids(turned.buried) == ["a"]
        assert ids(turned.jobs) == hooks(store) == ["on-dead.a.0"]
        ended_so = told(store, "on-dead.a.0")["ended"]
        assert (ended_so["outcome"], ended_so["exit_code"]) == ("expired", None)

    def test_one_that_waits_and_is_cancelled_or_removed(self, store: Store) -> None:
        job = add(store, "a", **HOOKS)
        apply(store, job, cancelled(job, "why"), now=NOW)
        remove(store, the(store, "a"))
        assert jobs(store) == []

    def test_one_that_is_given_back(self, store: Store) -> None:
        add(store, "a", **HOOKS)
        assert release(store, [take_one(store)], now=NOW) == []
        assert jobs(store) == ["a"]

    def test_each_death_by_itself(self, store: Store) -> None:
        job = die(store)
        assert apply(store, job, retried(THEN), now=THEN)
        job = next(job for job in take(store, 9, now=THEN) if job.id == "a")
        finish(store, [ended(job, Exited(4), now=THEN + 1)])
        dead = [id for id in hooks(store) if "dead" in id]
        assert dead == ["on-dead.a.1", "on-dead.a.2"]
        assert told(store, "on-dead.a.2")["exit_code"] == 4

    def test_two_deaths_without_a_run(self, store: Store) -> None:
        add(store, "a", expires_at=NOW + 1, on_dead="x")
        claim(store, "node-1", [1], now=NOW + 2)
        assert apply(store, the(store, "a"), retried(NOW + HOUR), now=NOW + 3)
        edit = Edit(replace(the(store, "a"), expires_at=NOW + 4))
        waits = the(store, "a")
        store.jobs.change([waits], lambda held, now: {waits.seq: Decision(edit)}, now=NOW + 3)
        claim(store, "node-1", [2], now=NOW + 5)
        assert hooks(store) == ["on-dead.a.0", "on-dead.a.0.2"]


class TestTheJob:
    def test_what_it_is(self, store: Store) -> None:
        like: dict[str, Any] = {
            "queue": "queue 1",
            "priority": 2,
            "cwd": "/folder/3",
            "env": {"NAME_4": "value 5"},
            "env_all": True,
            "shell": "shell-6",
        }
        fields: dict[str, Any] = {
            "keys": ("k",),
            "tags": ("t",),
            "timeout": 7,
            "unique": "u",
            "stdin": b"mine",
        }
        die(store, **like, **fields)
        hook = the(store, "on-dead.a.1")
        assert {name: getattr(hook, name) for name in like} == like | {"priority": 3}
        assert (hook.command, hook.hook, hook.hook_of) == ("echo dead", "dead 1 3 a", "a")
        assert (hook.keys, hook.tags, hook.unique_key, hook.timeout) == ((), (), None, None)
        assert (hook.max_retries, hook.expires_at, hook.tick) == (None, None, None)
        assert (hook.created_at, hook.run_at, hook.state) == (THEN, THEN, State.PENDING)

    def test_what_it_finds_on_its_stdin(self, store: Store) -> None:
        die(store, command="make ü 🎈", env={"SECRET": "value"})
        found = told(store, "on-dead.a.1")
        assert (found["id"], found["state"], found["command"]) == ("a", "dead", "make ü 🎈")
        assert (found["attempts"], found["exit_code"], found["env"]) == (1, 3, ["SECRET"])
        assert found["reason"].startswith("exit code 3")
        assert found["finished_at"] == "2025-11-08T13:00:05.000Z"
        assert found["ended"] == {
            "hook": "dead",
            "at": "2025-11-08T13:00:05.000Z",
            "attempt": 1,
            "outcome": "exited",
            "exit_code": 3,
            "signal": None,
            "error": "error 24",
            "final": True,
        }
        assert told(store, "on-failure.a.1")["ended"]["hook"] == "failure"

    def test_the_job_is_told_of_as_it_is_stored(self, store: Store) -> None:
        for id, outcome in (("a", Exited(0)), ("b", Exited(3)), ("c", Lost("gone"))):
            add(store, id, queue=id, **HOOKS)
            (job,) = take(store, queues=(id,))
            finish(store, [ended(job, outcome)])
            (hook,) = hooks(store, id)
            found = told(store, hook)
            del found["ended"]
            assert found == json.loads(json.dumps(job_dict(the(store, id))))

    def test_it_is_the_next_to_run(self, store: Store) -> None:
        add(store, "a", on_success="x")
        for other in ("b", "c"):
            add(store, other)
        (job,) = take(store)
        over = Over(judge=lambda stuck, asked, now: [ended(job)])
        turned = store.runs.turn("node-1", over, Offer([1]), now=THEN)
        assert ids(turned.jobs) == ["on-success.a.1"]

    def test_a_hook_has_no_hooks(self, store: Store) -> None:
        die(store)
        before = jobs(store)
        for hook in take(store, 9, now=THEN):
            finish(store, [ended(hook, Exited(1), now=THEN + 1, policy=STRICT)])
        assert jobs(store) == before

    def test_not_even_if_somebody_gives_it_some(self, store: Store) -> None:
        add(store, "a", hook="dead 1 3 b", **HOOKS)
        run(store, "a", Exited(1), policy=STRICT)
        assert jobs(store) == ["a"]

    def test_an_id_that_is_taken(self, store: Store) -> None:
        for id in ("on-dead.a.1", "on-dead.a.1.2"):
            add(store, id, queue="other")
        add(store, "a", on_dead="x", max_retries=0)
        (job,) = take(store, queues=("default",))
        finish(store, [ended(job, Exited(3))])
        assert hooks(store) == ["on-dead.a.1.3"]

    def test_the_longest_ids(self, store: Store) -> None:
        long = [f"{'ü' * 255}{n}" for n in range(3)]
        for id in long:
            add(store, id, on_success="x")
        assert finish(store, [ended(job) for job in take(store, 3)]) == []
        made = [store.jobs.hooks(the(store, id)) for id in long]
        assert [len(some) for some in made] == [1, 1, 1]
        assert {hook.hook_of for (hook,) in made} == set(long)
        assert all(len(hook.id) < 256 and "ü" * LONGEST_NAME in hook.id for (hook,) in made)

    def test_an_event_names_each(self, store: Store) -> None:
        die(store)
        events = [(e.kind, e.detail, e.at, e.node) for e in store.history.events(job="a")]
        made = [("hook", f"on-{kind}.a.1", THEN, "node-1") for kind in ("dead", "failure")]
        assert [event for event in events if event[0] == "hook"] == made
        assert events[-1][0] == "dead"

    def test_long_texts(self, store: Store) -> None:
        die(store, command="x" * 2**20, on_dead="y" * 2**20)
        assert the(store, "on-dead.a.1").command == "y" * 2**20
        assert told(store, "on-dead.a.1")["command"] == "x" * 2**20


class TestForAHandler:
    """A hook that names a type is a data job, which only a node that has a handler takes."""

    def test_what_it_is(self, store: Store) -> None:
        die(store, on_dead="type:mail of the ü", cwd="/folder/3", shell="shell-6")
        hook = the(store, "on-dead.a.1")
        assert (hook.type, hook.handler) == ("mail of the ü", "type:mail of the ü")
        assert (hook.command, hook.argv, hook.shell, hook.stdin_bytes) == (None, None, None, None)
        assert (hook.hook, hook.cwd, hook.max_retries) == ("dead 1 3 a", "/folder/3", None)

    def test_its_data_is_what_a_command_finds_on_stdin(self, store: Store) -> None:
        die(store, on_failure="type:x", on_dead="cat", command="make ü")
        data = the(store, "on-failure.a.1").data
        assert data is not None
        found, other = json.loads(data), told(store, "on-dead.a.1")
        assert (found.pop("ended")["hook"], other.pop("ended")["hook"]) == ("failure", "dead")
        assert found == other

    def test_only_a_node_that_handles_it_claims_it(self, store: Store) -> None:
        die(store, on_failure=None, on_dead="type:mail")
        assert take(store, 9, now=THEN) == []
        other = Offer([1], Serving(handlers=("type:other",)))
        assert store.runs.turn("node-1", None, other, now=THEN).jobs == []
        mine = Offer([1], Serving(handlers=("type:mail",)))
        assert ids(store.runs.turn("node-1", None, mine, now=THEN).jobs) == ["on-dead.a.1"]

    def test_beside_hooks_that_are_commands(self, store: Store) -> None:
        for n in range(30):
            add(store, f"j{n}", on_success="x" if n % 3 else "type:t", on_dead="type:u")
        assert finish(store, [ended(job) for job in take(store, 30)]) == []
        made = [hook for n in range(30) for hook in store.jobs.hooks(the(store, f"j{n}"))]
        assert [hook.hook_of for hook in made] == [f"j{n}" for n in range(30)]
        assert [hook.type for hook in made] == [None if n % 3 else "t" for n in range(30)]
        for hook in made:
            known = hook.data if hook.type else store.jobs.stdin(hook)
            assert known is not None
            assert json.loads(known)["id"] == hook.hook_of

    def test_long_data(self, store: Store) -> None:
        die(store, command="\x01" * 2**20, on_dead="type:t")
        data = the(store, "on-dead.a.1").data
        assert data is not None
        assert json.loads(data)["command"] == "\x01" * 2**20


class TestNothingKeepsIt:
    def test_a_queue_that_is_full(self, store: Store) -> None:
        full = Limits(limit=1, max_waiting=1, when_full=WhenFull.REJECT)
        store.settings.set_limits("default", lambda _: full)
        die(store, keys=("k",), is_limited=True)
        add(store, "b")
        assert hooks(store) == ["on-failure.a.1", "on-dead.a.1"]
        assert ids(take(store, 9, now=THEN)) == ["on-failure.a.1"]

    def test_a_queue_that_is_paused(self, store: Store) -> None:
        add(store, "a", on_success="x")
        job = take_one(store)
        store.settings.set_paused("default", paused=True, who="me", now=NOW)
        finish(store, [ended(job)])
        assert hooks(store) == ["on-success.a.1"]
        assert take(store, now=THEN) == []
        store.settings.set_paused("default", paused=False, who="me", now=NOW)
        assert ids(take(store, now=THEN)) == ["on-success.a.1"]

    def test_the_job_is_gone(self, store: Store) -> None:
        job = die(store)
        assert remove(store, job)
        assert jobs(store) == ["on-failure.a.1", "on-dead.a.1"]
        assert ids(take(store, 9, now=THEN)) == jobs(store)


class TestExactlyOnce:
    def test_a_run_that_has_lost_its_lease(self, store: Store) -> None:
        add(store, "a", **HOOKS)
        job = take_one(store)
        assert finish(store, [ended(job, Lost("rescued"))]) == []
        assert finish(store, [ended(job, Exited(0))]) != []
        assert hooks(store) == ["on-failure.a.1"]

    def test_the_same_end_twice_in_one_turn(self, store: Store) -> None:
        add(store, "a", **HOOKS)
        job = take_one(store)
        assert len(finish(store, [ended(job), ended(job)])) == 1
        assert hooks(store) == ["on-success.a.1"]

    def test_a_rescue(self, store: Store) -> None:
        add(store, "a", **HOOKS)
        job = take_one(store)

        def plan(held: Any, now: int) -> Over:
            return Over(judge=lambda stuck, asked, now: [ended(one, Lost("x")) for one in held])

        assert store.runs.rescue("node-1", plan) is not None
        assert finish(store, [ended(job)]) != []
        assert hooks(store) == ["on-failure.a.1"]

    @pytest.mark.needs("transactions")
    def test_what_is_undone_has_made_nothing(self, store: Store) -> None:
        add(store, "a", **HOOKS)
        job = take_one(store)
        with pytest.raises(UndoneError), transaction(store):
            finish(store, [ended(job)])
            raise UndoneError
        assert finish(store, [ended(job)]) == []
        assert jobs(store) == ["a", "on-success.a.1"]
        assert [e.kind for e in store.history.events(job="a")] == ["hook"]


class TestMany:
    def test_a_thousand_ends_in_one_turn(self, store: Store) -> None:
        names = [f"job {n}" for n in range(1_000)]
        store.jobs.enqueue([NewJob(id=id, command="x", on_success="y") for id in names], now=NOW)
        ends = [ended(job) for job in take(store, 1_000)]
        assert finish(store, ends) == []
        made = [f"on-success.{id}.1" for id in names]
        assert set(store.jobs.states(made)) == set(made)
        assert len(jobs(store)) == 2_000
        for id in names[::333]:
            assert told(store, f"on-success.{id}.1")["id"] == id

    @pytest.mark.needs("sql")
    def test_in_few_statements(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        counted: list[str] = []
        do = Session._do

        def count(self: Session, action: Any, *args: Any) -> Any:
            counted.append(str(args)[:60])
            return do(self, action, *args)

        names = [f"job {n}" for n in range(200)]
        store.jobs.enqueue([NewJob(id=id, command="x", on_success="y") for id in names], now=NOW)
        claimed = take(store, 200)
        bare: dict[str, Any] = {"output": type(ended(claimed[0]).output)()}
        monkeypatch.setattr(Session, "_do", count)
        assert finish(store, [ended(job, **bare) for job in claimed]) == []
        assert len(counted) < 25, counted
        monkeypatch.undo()
        assert len(jobs(store)) == 400

    def test_jobs_without_hooks_ask_nothing_more(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(Idiom, "_call_hooks", None)
        add(store, "a")
        run(store, "a", Exited(3), policy=STRICT)
        assert jobs(store) == ["a"]


@pytest.mark.needs("notifications")
def test_nodes_hear_of_it(store: Store) -> None:
    add(store, "a", on_success="x")
    job = take_one(store)
    with closing(store.listen()) as listener:
        quieten(listener)
        finish(store, [ended(job)])
        assert hear(listener, Topic.WORK)


@pytest.mark.needs("sql")
def test_the_counters_are_right(store: Store, client: Client) -> None:
    die(store)
    assert_counts_are_right(store, client)
