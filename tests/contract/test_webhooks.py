"""Webhooks: what the ends of jobs make, in their transactions, for those who are told over HTTP."""

import json
from contextlib import closing
from typing import Any

import pytest

from queuectl.admission import Offer
from queuectl.delivery import GONE
from queuectl.filter import Filter
from queuectl.hooks import LONGEST_NAME
from queuectl.job import (
    Cancelled,
    Exited,
    Job,
    Lost,
    NewJob,
    Outcome,
    Released,
    Signalled,
    State,
    Strategy,
)
from queuectl.job_json import job_dict
from queuectl.lifecycle import Policy, cancelled, retried
from queuectl.limits import Limits, WhenFull
from queuectl.store import Store, open_store
from queuectl.store import idiom as idioms
from queuectl.store.contract import Over, Topic
from queuectl.store.session import Session
from queuectl.values import replace
from queuectl.webhook import QUEUE, RETRIES, TIMEOUT, News, Webhook
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
    force_finish,
    hear,
    quieten,
    release,
    remove,
    run,
    take,
    take_one,
    the,
    transaction,
)

THEN = NOW + 5 * SECOND
STRICT = Policy(max_retries=0, max_crashes=1)
"""One failure, or one crash, and a job is dead."""


@pytest.fixture(autouse=True)
def node(store: Store) -> None:
    """A node that may claim."""
    a_node(store)


def a_webhook(store: Store, name: str = "ops", **changes: Any) -> Webhook:
    """Add a webhook that is told of everything."""
    new = Webhook(
        name=name,
        url="https://example.com/ü?a=1",
        news=tuple(News),
        secret="whsec_" + 32 * "A",
        created_at=NOW - 1,
        updated_at=NOW - 2,
    )
    after = store.webhooks.change(name, lambda there, now: replace(new, **changes))
    assert after is not None
    return after


def deliveries(store: Store, name: str = "ops") -> list[Job]:
    """Return the deliveries of a webhook, in the order of the line."""
    jobs = store.jobs.select(Filter(), limit=None, oldest=True)
    return [job for job in jobs if job.webhook == name]


def told(store: Store, name: str = "ops") -> list[tuple[str, str]]:
    """Return of which jobs a webhook is told what."""
    return [(str(job.hook_of), sent(job)["type"]) for job in deliveries(store, name)]


def sent(job: Job) -> dict[str, Any]:
    """Return the message that a delivery has."""
    found: dict[str, Any] = json.loads(job.data or b"")
    return found


class TestWhatThereIs:
    def test_a_webhook_comes_back_as_it_was(self, store: Store) -> None:
        assert store.webhooks.all() == []
        whole = a_webhook(
            store,
            "ü 'b'",
            news=(News.DEAD,),
            queues=("zwei ü", "one"),
            via="via 1",
            private=True,
            with_data=True,
            paused_at=NOW + 3,
            paused_by="who ü",
        )
        other = a_webhook(store, "a", private=True)
        another = a_webhook(store, "c", with_data=True)
        assert store.webhooks.all() == [other, another, whole]

    def test_it_is_changed_and_removed_as_it_is(self, store: Store) -> None:
        before = a_webhook(store)
        seen: list[Webhook | None] = []

        def decide(there: Webhook | None, now: int) -> Webhook | None:
            seen.append(there)
            assert there is not None
            return replace(there, url="https://example.org", updated_at=NOW + 7)

        after = store.webhooks.change("ops", decide)
        assert (seen[0], store.webhooks.all()) == (before, [after])
        assert after is not None
        assert (after.url, after.updated_at) == ("https://example.org", NOW + 7)
        assert store.webhooks.change("ops", lambda there, now: None) is None
        assert store.webhooks.all() == []
        assert store.webhooks.change("ops", lambda there, now: None) is None

    def test_it_follows_a_queue_that_is_renamed(self, store: Store) -> None:
        before = a_webhook(store, "a", queues=("old", "older"))
        other = a_webhook(store, "b", via="old")
        another = a_webhook(store, "c")
        add(store, "j", queue="old")
        store.settings.rename_queue("old", "new", check=lambda old, new: None)
        assert store.webhooks.all() == [
            replace(before, queues=("new", "older")),
            replace(other, via="new"),
            another,
        ]
        run(store, "j")
        assert [job.hook_of for job in deliveries(store, "a")] == ["j"]


class TestOccasions:
    @pytest.mark.parametrize(
        ("outcome", "policy", "made"),
        [
            (Exited(0), Policy(), ["job.completed"]),
            (Exited(3), Policy(), ["job.failed"]),
            (Signalled(9), Policy(), ["job.failed"]),
            (Lost("gone"), Policy(), ["job.failed"]),
            (Exited(3), STRICT, ["job.dead"]),
            (Lost("gone"), STRICT, ["job.dead"]),
            (Released(), Policy(), []),
            (Cancelled("why"), Policy(), ["job.cancelled"]),
        ],
    )
    def test_the_end_of_a_run(
        self, store: Store, outcome: Outcome, policy: Policy, made: list[str]
    ) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a", outcome, policy=policy)
        assert told(store) == [("a", type) for type in made]

    def test_a_retry_that_is_due_at_once(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a", max_retries=1, retry_delay=0, backoff=Strategy.FIXED)
        assert run(store, "a", Exited(3)).state == State.PENDING
        assert told(store) == [("a", "job.failed")]

    @pytest.mark.parametrize("news", News)
    def test_only_what_it_wants(self, store: Store, news: News) -> None:
        a_webhook(store, news=(news,))
        outcomes: list[Outcome] = [Exited(0), Exited(3), Exited(4), Cancelled("why")]
        for n, _ in enumerate(outcomes):
            add(store, f"a{n}", max_retries=n % 2)
        ends = [ended(job, of) for job, of in zip(take(store, 4), outcomes, strict=True)]
        assert finish(store, ends) == []
        made = {type for _, type in told(store)}
        assert made == {f"job.{news}"}

    def test_only_of_its_queues(self, store: Store) -> None:
        a_webhook(store, queues=("zwei ü", "one"))
        for queue in ("one", "default", "zwei ü", "One"):
            add(store, queue, queue=queue)
        assert finish(store, [ended(job) for job in take(store, 4)]) == []
        assert told(store) == [("one", "job.completed"), ("zwei ü", "job.completed")]

    def test_several_webhooks(self, store: Store) -> None:
        a_webhook(store, "a")
        a_webhook(store, "b", news=(News.DEAD,))
        a_webhook(store, "c", queues=("default",), via="another")
        add(store, "j")
        run(store, "j")
        assert [told(store, name) for name in "abc"] == [
            [("j", "job.completed")],
            [],
            [("j", "job.completed")],
        ]
        assert [job.queue for name in "ac" for job in deliveries(store, name)] == [QUEUE, "another"]

    def test_a_job_that_expires(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a", expires_at=NOW + 1, run_at=NOW + 1)
        claim(store, "node-1", [1], now=NOW + 2)
        assert told(store) == [("a", "job.dead")]
        (job,) = deliveries(store)
        assert (job.hook, sent(job)["data"]["state"]) == ("dead 0 - a", "dead")

    def test_what_is_done_by_hand(self, store: Store) -> None:
        a_webhook(store)
        for id in "abcd":
            add(store, id)
        assert apply(store, the(store, "a"), cancelled(the(store, "a"), "why"), now=THEN)
        assert force_finish(store, the(store, "b"), now=THEN)
        assert apply(store, the(store, "c"), retried(THEN), now=THEN)
        assert remove(store, the(store, "d"))
        assert told(store) == [("a", "job.cancelled"), ("b", "job.completed")]
        assert [sent(job)["data"]["state"] for job in deliveries(store)] == [
            "cancelled",
            "completed",
        ]

    def test_one_that_is_given_back(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        assert release(store, [take_one(store)], now=NOW) == []
        assert told(store) == []

    def test_each_death_by_itself(self, store: Store) -> None:
        a_webhook(store, news=(News.DEAD,))
        add(store, "a", max_retries=0)
        job = run(store, "a", Exited(3))
        assert apply(store, job, retried(THEN), now=THEN)
        (job,) = take(store, queues=("default",), now=THEN)
        finish(store, [ended(job, Exited(4), now=THEN + 1)])
        assert [job.hook for job in deliveries(store)] == ["dead 1 3 a", "dead 2 4 a"]

    def test_the_job_of_a_hook_is_one_like_others(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a", on_success="x")
        run(store, "a")
        (hook,) = take(store, queues=("default",), now=THEN)
        finish(store, [ended(hook, now=THEN + 1)])
        assert [of for of, _ in told(store)] == ["a", "on-success.a.1"]
        assert [job.id for job in store.jobs.hooks(the(store, "a"))] == ["on-success.a.1"]


class TestTheDelivery:
    def test_what_it_is(self, store: Store) -> None:
        a_webhook(store)
        add(
            store,
            "a",
            queue="queue 1",
            priority=2,
            cwd="/folder/3",
            env={"NAME_4": "value 5"},
            tags=("t",),
            keys=("k",),
            on_dead="x",
            max_retries=0,
        )
        run(store, "a", Exited(3))
        (job,) = deliveries(store)
        assert (job.webhook, job.type, job.handler, job.title) == ("ops", None, "", "webhook:ops")
        assert (job.command, job.argv, job.stdin_bytes) == (None, None, None)
        assert (job.queue, job.priority, job.cwd, dict(job.env)) == (QUEUE, 0, None, {})
        assert (job.hook, job.hook_of, job.tags) == ("dead 1 3 a", "a", ("webhook:ops",))
        assert (job.max_retries, job.timeout, job.backoff_base) == (RETRIES, TIMEOUT, 4.0)
        assert (job.backoff, job.keys, job.unique_key) == (Strategy.EXPONENTIAL, (), None)
        assert (job.on_dead, job.has_hooks, job.expires_at) == (None, False, None)
        assert (job.created_at, job.run_at, job.state) == (THEN, THEN, State.PENDING)
        assert "." not in job.id

    def test_what_it_tells(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a", command="make ü 🎈", env={"SECRET": "value"}, max_retries=0)
        run(store, "a", Exited(3))
        (job,) = deliveries(store)
        message = sent(job)
        assert message.keys() == {"type", "timestamp", "data"}
        assert (message["type"], message["timestamp"]) == ("job.dead", "2025-11-08T13:00:05.000Z")
        data = message["data"]
        assert (data["command"], data["exit_code"], data["env"]) == ("make ü 🎈", 3, ["SECRET"])
        assert "value" not in (job.data or b"").decode()
        assert data["reason"].startswith("exit code 3")

    @pytest.mark.parametrize("outcome", [Exited(0), Exited(3), Lost("gone")])
    def test_the_job_is_told_of_as_it_is_stored(self, store: Store, outcome: Outcome) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a", outcome)
        (job,) = deliveries(store)
        assert sent(job)["data"] == json.loads(json.dumps(job_dict(the(store, "a"))))

    def test_data_are_told_if_that_was_asked_for(self, store: Store) -> None:
        a_webhook(store, "without")
        a_webhook(store, "with", with_data=True)
        for id, data in (("a", b"text"), ("b", b"\xff"), ("c", b"x" * 70_000)):
            add(store, id, type="t", data=data, priority=-ord(id))
            job = the(store, id)
            assert apply(store, job, cancelled(job, "why"), now=THEN)
        told_of = [sent(job)["data"] for job in deliveries(store, "with")]
        assert [(one["data"], one["data_base64"]) for one in told_of] == [
            ("text", None),
            (None, "/w=="),
            (None, None),
        ]
        told_of = [sent(job)["data"] for job in deliveries(store, "without")]
        assert {(one["data"], one["data_base64"], one["type"]) for one in told_of} == {
            (None, None, "t")
        }

    def test_it_is_small(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a", command="x" * 2**20, on_dead="y" * 2**20)
        add(store, "b", argv=("z" * 600,) * 1_000)
        assert finish(store, [ended(job) for job in take(store, 2)]) == []
        for job in deliveries(store):
            assert len(job.data or b"") < 10_000
        one, other = (sent(job)["data"] for job in deliveries(store))
        assert one["command"] == "x" * 999 + "…"
        assert other["argv"] == ["z" * 600, "…"]

    def test_the_longest_ids(self, store: Store) -> None:
        a_webhook(store)
        long = [f"{'ü' * 255}{n}" for n in range(3)]
        assert len(long[0]) > LONGEST_NAME
        for id in long:
            add(store, id)
        assert finish(store, [ended(job) for job in take(store, 3)]) == []
        assert [of for of, _ in told(store)] == long

    def test_every_node_can_run_it(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a")
        turned = store.runs.turn("node-1", None, Offer([1]), now=THEN)
        assert [job.webhook for job in turned.jobs] == ["ops"]

    def test_it_waits_in_the_same_commit(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        (job,) = take(store)
        over = Over(judge=lambda stuck, asked, now: [ended(job)])
        turned = store.runs.turn("node-1", over, Offer([1]), now=THEN)
        assert [job.webhook for job in turned.jobs] == ["ops"]

    def test_a_full_queue_keeps_none(self, store: Store) -> None:
        full = Limits(limit=1, max_waiting=1, when_full=WhenFull.REJECT)
        store.settings.set_limits(QUEUE, lambda _: full)
        a_webhook(store)
        for n in range(3):
            add(store, f"a{n}")
        finish(store, [ended(job) for job in take(store, 3)])
        assert len(told(store)) == 3
        assert [job.webhook for job in take(store, 3, now=THEN)] == ["ops"]

    @pytest.mark.parametrize("outcome", [Exited(0), Exited(1), Lost("x"), Cancelled("x")])
    def test_of_its_end_nobody_is_told(self, store: Store, outcome: Outcome) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a")
        (job,) = take(store, now=THEN)
        finish(store, [ended(job, outcome, now=THEN + 1, policy=STRICT)])
        assert len(told(store)) == 1
        for id in "bc":
            add(store, id, queue="other")
        run(store, "b", now=THEN + SECOND)
        (job,) = deliveries(store)[1:]
        assert apply(store, job, cancelled(job, "by hand"), now=THEN)
        assert [of for of, _ in told(store)] == ["a", "b"]

    def test_one_that_was_made_a_command_delivers_nothing(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a")
        (job,) = deliveries(store)
        assert replace(job, command="cat").webhook is None
        assert replace(job, argv=("cat",)).webhook is None


class TestPaused:
    def test_a_webhook_that_is_paused_is_told_nothing(self, store: Store) -> None:
        a_webhook(store, paused_at=NOW, paused_by="me")
        add(store, "a")
        run(store, "a")
        a_webhook(store)
        add(store, "b")
        run(store, "b")
        assert told(store) == [("b", "job.completed")]

    def test_a_receiver_that_is_gone_pauses_it(self, store: Store) -> None:
        a_webhook(store)
        other = a_webhook(store, "other")
        add(store, "a", queue="one")
        run(store, "a")
        job = next(job for job in take(store, 2, now=THEN) if job.webhook == "ops")
        finish(store, [ended(job, Exited(GONE), now=THEN + 1)])
        found = {one.name: one for one in store.webhooks.all()}
        assert found["other"] == other
        ops = found["ops"]
        assert (ops.paused_at, ops.paused_by) == (THEN + 1, "queuectl")
        # It is tried again: somebody may resume it.
        assert the(store, job.id).state == State.FAILED
        (event, *_) = store.history.events()
        assert (event.kind, event.who, event.job) == ("pause", "queuectl", None)
        assert event.detail == "webhook ops: its receiver answered 410 Gone"

    def test_in_the_turn_in_which_others_end(self, store: Store) -> None:
        a_webhook(store)
        for id in "ab":
            add(store, id, queue="one")
        run(store, "a")
        jobs = take(store, 2, now=THEN)
        assert {job.webhook for job in jobs} == {None, "ops"}
        ends = [
            ended(job, Exited(0) if job.webhook is None else Exited(GONE), now=THEN + 1)
            for job in jobs
        ]
        assert finish(store, ends) == []
        assert [of for of, _ in told(store)] == ["a"]

    def test_one_that_is_paused_already_stays_so(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        run(store, "a")
        (job,) = take(store, now=THEN)
        paused = a_webhook(store, paused_at=NOW + 3, paused_by="me")
        finish(store, [ended(job, Exited(GONE), now=THEN + 1)])
        assert store.webhooks.all() == [paused]

    def test_one_that_was_removed(self, store: Store) -> None:
        a_webhook(store)
        a_webhook(store, "other", news=(News.DEAD,))
        add(store, "a")
        run(store, "a")
        (job,) = take(store, now=THEN)
        store.webhooks.change("ops", lambda there, now: None)
        finish(store, [ended(job, Exited(GONE), now=THEN + 1)])
        assert [one.name for one in store.webhooks.all()] == ["other"]

    def test_a_command_that_exits_so_pauses_nothing(self, store: Store) -> None:
        before = a_webhook(store)
        add(store, "a")
        run(store, "a", Exited(GONE))
        assert store.webhooks.all() == [before]


class TestExactlyOnce:
    def test_a_run_that_has_lost_its_lease(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        job = take_one(store)
        assert finish(store, [ended(job, Lost("rescued"))]) == []
        assert finish(store, [ended(job, Exited(0))]) != []
        assert told(store) == [("a", "job.failed")]

    def test_the_same_end_twice_in_one_turn(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        job = take_one(store)
        assert len(finish(store, [ended(job), ended(job)])) == 1
        assert told(store) == [("a", "job.completed")]

    def test_a_rescue(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        job = take_one(store)

        def plan(held: Any, now: int) -> Over:
            return Over(judge=lambda stuck, asked, now: [ended(one, Lost("x")) for one in held])

        assert store.runs.rescue("node-1", plan) is not None
        assert finish(store, [ended(job)]) != []
        assert told(store) == [("a", "job.failed")]

    @pytest.mark.needs("transactions")
    def test_what_is_undone_has_made_nothing(self, store: Store) -> None:
        a_webhook(store)
        add(store, "a")
        job = take_one(store)
        with pytest.raises(UndoneError), transaction(store):
            finish(store, [ended(job)])
            assert len(told(store)) == 1
            raise UndoneError
        assert told(store) == []
        assert finish(store, [ended(job)]) == []
        assert told(store) == [("a", "job.completed")]

    @pytest.mark.needs("transactions")
    def test_a_cancellation_that_is_undone(self, store: Store) -> None:
        a_webhook(store)
        job = add(store, "a")
        with pytest.raises(UndoneError), transaction(store):
            assert apply(store, job, cancelled(job, "why"), now=THEN)
            raise UndoneError
        assert told(store) == []

    @pytest.mark.needs("sql")
    def test_one_that_others_have_paused_or_removed_gets_nothing_more(
        self, store: Store, url: str
    ) -> None:
        """What is known for a while only says whether to look."""
        a_webhook(store, "a")
        a_webhook(store, "b")
        a_webhook(store, "c")
        add(store, "first")
        run(store, "first")
        with closing(open_store(url)) as other:
            a_webhook(other, "a", paused_at=NOW, paused_by="me")
            other.webhooks.change("b", lambda there, now: None)
        add(store, "second", priority=1)
        run(store, "second", now=THEN + HOUR)
        assert [len(told(store, name)) for name in "abc"] == [1, 1, 2]

    @pytest.mark.needs("sql")
    def test_one_that_others_have_added_is_heard_of_a_second_later(
        self, store: Store, url: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        ticking = 0.0
        monkeypatch.setattr(idioms, "monotonic", lambda: ticking)
        add(store, "a")
        run(store, "a")
        with closing(open_store(url)) as other:
            a_webhook(other)
        for n, ticking in enumerate([0.99, 1.0, 1.5]):  # noqa: B007 - the clock reads it
            add(store, f"b{n}", priority=1)
            run(store, f"b{n}")
        assert [of for of, _ in told(store)] == ["b1", "b2"]


class TestMany:
    def test_a_thousand_ends_in_one_turn(self, store: Store) -> None:
        a_webhook(store)
        names = [f"job {n}" for n in range(1_000)]
        store.jobs.enqueue([NewJob(id=id, command="x") for id in names], now=NOW)
        assert finish(store, [ended(job) for job in take(store, 1_000)]) == []
        assert [of for of, _ in told(store)] == names

    @pytest.mark.needs("sql")
    def test_who_has_none_asks_once_a_second_at_most(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(idioms, "monotonic", lambda: 0.0)
        asked = _asking(monkeypatch)
        for id in "abc":
            add(store, id, priority=-ord(id))
            run(store, id, Exited(3), policy=STRICT)
        assert sum("webhooks" in text for text in asked) == 1

    @pytest.mark.needs("sql")
    def test_who_has_others_asks_no_more(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        a_webhook(store, news=(News.DEAD,))
        a_webhook(store, "other", queues=("other",))
        monkeypatch.setattr(idioms, "monotonic", lambda: 0.0)
        asked = _asking(monkeypatch)
        for id in "abc":
            add(store, id)
            run(store, id)
        assert sum("webhooks" in text for text in asked) == 1


def _asking(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets what is said to the database from now on."""
    asked: list[str] = []
    do = Session._do

    def note(self: Session, action: Any, *args: Any) -> Any:
        asked.append(str(args))
        return do(self, action, *args)

    monkeypatch.setattr(Session, "_do", note)
    return asked


@pytest.mark.needs("notifications")
def test_nodes_hear_of_it(store: Store) -> None:
    a_webhook(store)
    add(store, "a")
    job = take_one(store)
    with closing(store.listen()) as listener:
        quieten(listener)
        finish(store, [ended(job)])
        assert hear(listener, Topic.WORK)


@pytest.mark.needs("sql")
def test_the_counters_are_right(store: Store, client: Client) -> None:
    a_webhook(store)
    add(store, "a")
    run(store, "a", Exited(3), policy=STRICT)
    (job,) = take(store, now=THEN)
    finish(store, [ended(job, Exited(GONE), now=THEN + 1)])
    assert_counts_are_right(store, client)
