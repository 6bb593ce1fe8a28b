"""The store against a plain model: whatever is done in whatever order, they agree.

The model is a list of jobs and the rules of the lifecycle in a few lines of Python. After every
step both must tell the same states and counts, and every claim must bring the same jobs in the
same order.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queuectl.admission import Serving
from queuectl.facts import Event
from queuectl.filter import Filter
from queuectl.job import WAITING, Exited, Job, Lost, NewJob, Outcome, Released, State, Strategy
from queuectl.lifecycle import Policy, cancelled, retried
from queuectl.store import Store, open_store
from queuectl.store.contract import Decision, Edit, Ended, Restore
from queuectl.webhook import QUEUE, News, Webhook
from tests.contract.tools import (
    NOW,
    a_node,
    apply,
    ask_cancel,
    claim,
    ended,
    finish,
    ids,
    remove,
    the,
)

NODES = ("node-1", "node-2")
QUEUES = ("one", "two")
EVERYWHERE = Serving(excluded=(QUEUE,))
"""All queues but that of deliveries, which are only counted here."""
WAIT = 10
"""Milliseconds that a failed job waits for its retry."""
POLICY = Policy(max_crashes=2)


@dataclass
class Model:
    """A job as the model sees it: its place in the list is its place in the line."""

    id: str
    queue: str
    priority: int
    run_at: int
    expires_at: int | None
    retries: int
    state: State = State.PENDING
    attempts: int = 0
    failures: int = 0
    crashes: int = 0
    node: str | None = None

    def has_expired(self, now: int) -> bool:
        return self.expires_at is not None and self.expires_at <= now

    def ends(self, outcome: Outcome, now: int) -> None:
        """Apply the lifecycle."""
        self.node = None
        match outcome:
            case Exited(code=0):
                self.state = State.COMPLETED
            case Released():
                self.state, self.run_at = State.PENDING, now
            case Lost():
                self.crashes += 1
                dead = self.crashes >= POLICY.max_crashes
                self.state = State.DEAD if dead else State.PENDING
                self.run_at = self.run_at if dead else now
            case _:
                self.failures += 1
                dead = self.failures > self.retries
                self.state = State.DEAD if dead else State.FAILED
                self.run_at = self.run_at if dead else now + WAIT


class StoreMachine(RuleBasedStateMachine):
    """Does to a store and to the model the same, and compares."""

    place: Callable[[], str]

    def __init__(self) -> None:
        super().__init__()
        self.store: Store = open_store(type(self).place(), create=True)
        self.now = NOW
        self.line: list[Model] = []
        self.paused: set[str] = set()
        self.runs: dict[str, Job] = {}
        self.past: list[Ended] = []
        self.made = 0
        self.wanted: set[News] = set()
        self.wanted_of: tuple[str, ...] = ()
        self.messages: Counter[tuple[str, str]] = Counter()

    def teardown(self) -> None:
        assert self.store.verify() == []
        for model in self.line:
            if model.state == State.DEAD:
                assert [e.kind for e in self.store.history.events(model.id, limit=1)] == ["dead"]
        self.store.close()

    @initialize()
    def register(self) -> None:
        for id in NODES:
            a_node(self.store, id)

    # -- what may happen --------------------------------------------------------------

    @rule(
        data=st.data(),
        changes=st.sampled_from([{"parked": ""}, {"queue": "elsewhere"}, {"priority": 5}]),
    )
    def change_and_take_it_back(self, data: st.DataObject, changes: dict[str, Any]) -> None:
        """A job that waits is changed by hand, and is then again what it was."""
        waiting = [job for job in self.line if job.state in (State.PENDING, State.FAILED)]
        if not waiting:
            return
        job = the(self.store, data.draw(st.sampled_from(waiting)).id)
        event = Event(
            at=self.now, kind="edit", job=job.id, node=None, who="me", detail=None, action="a"
        )
        edited = Decision(Edit(replace(job, **changes)), event, keeps=True)
        self.store.jobs.change([job], lambda held, _: dict.fromkeys(held, edited), now=self.now)
        [kept] = self.store.history.events(job.id, limit=1)
        assert kept.was is not None
        back = Decision(Restore(was=kept.was))
        self.store.jobs.change([job], lambda held, _: dict.fromkeys(held, back), now=self.now)
        assert the(self.store, job.id) == replace(job, updated_at=self.now)

    @rule(
        queue=st.sampled_from(QUEUES),
        priorities=st.lists(st.integers(-1, 1), min_size=1, max_size=4),
        delay=st.sampled_from([0, 0, 5, 30]),
        expire=st.sampled_from([None, None, 3, 40]),
        retries=st.integers(0, 2),
    )
    def enqueue(
        self, queue: str, priorities: list[int], delay: int, expire: int | None, retries: int
    ) -> None:
        jobs = []
        for priority in priorities:
            self.made += 1
            expires_at = None if expire is None else self.now + expire
            model = Model(f"j{self.made}", queue, priority, self.now + delay, expires_at, retries)
            self.line.append(model)
            jobs.append(
                NewJob(
                    id=model.id,
                    command="x",
                    queue=queue,
                    priority=priority,
                    run_at=model.run_at,
                    expires_at=expires_at,
                    max_retries=retries,
                    backoff=Strategy.FIXED,
                    retry_delay=WAIT,
                )
            )
        self.store.jobs.enqueue(jobs, now=self.now)

    @rule(wanted=st.sets(st.sampled_from(News)), of=st.sampled_from([(), ("one",), ("two", "x")]))
    def set_webhook(self, wanted: set[News], of: tuple[str, ...]) -> None:
        """Have a webhook told of something, in place of what it was told before; or of nothing."""
        webhook = Webhook(
            name="ops",
            url="https://example.com/",
            news=tuple(sorted(wanted)),
            queues=of,
            secret="whsec_x",
            created_at=NOW,
            updated_at=NOW,
        )
        self.store.webhooks.change("ops", lambda there, now: webhook if wanted else None)
        self.wanted, self.wanted_of = wanted, of

    def tell(self, model: Model, news: News) -> None:
        """Note that a job came to this, for whoever wants to hear of it."""
        if news in self.wanted and (not self.wanted_of or model.queue in self.wanted_of):
            self.messages[model.id, f"job.{news}"] += 1

    @rule(ms=st.sampled_from([1, 4, 9, 10, 50]))
    def advance(self, ms: int) -> None:
        self.now += ms

    @rule(
        node=st.sampled_from(NODES),
        count=st.integers(1, 3),
        queues=st.sampled_from([(), ("one",), ("two", "one")]),
    )
    def claim(self, node: str, count: int, queues: tuple[str, ...]) -> None:
        late = [m for m in self.line if m.state in WAITING and m.has_expired(self.now)]
        jobs, buried, *_ = claim(self.store, node, range(count), queues or EVERYWHERE, now=self.now)
        assert ids(jobs) == [model.id for model in self.expected(node, count, queues)]
        assert ids(buried) == [model.id for model in late]
        for job in jobs:
            assert job.attempts == self.model(job.id).attempts
            self.runs[job.id] = job

    def expected(self, node: str, count: int, queues: tuple[str, ...]) -> list[Model]:
        """Say what a claim must bring, by the rules."""
        waiting = [m for m in self.line if m.state in (State.PENDING, State.FAILED)]
        for model in waiting:
            if model.has_expired(self.now):
                model.state = State.DEAD
                self.tell(model, News.DEAD)
            elif model.run_at <= self.now:
                model.state = State.PENDING
        ready = [
            model
            for model in waiting
            if model.state == State.PENDING
            and model.run_at <= self.now
            and model.queue not in self.paused
            and (not queues or model.queue in queues)
        ]
        first = sorted(ready, key=lambda model: -model.priority)[:count]
        for model in first:
            model.state, model.node = State.PROCESSING, node
            model.attempts += 1
        return first

    @precondition(lambda self: self.runs)
    @rule(data=st.data(), outcome=st.sampled_from([Exited(0), Exited(1), Released(), Lost("gone")]))
    def finish(self, data: st.DataObject, outcome: Outcome) -> None:
        job = self.runs.pop(data.draw(st.sampled_from(sorted(self.runs))))
        self.end(job, outcome)

    @rule(node=st.sampled_from(NODES))
    def rescue(self, node: str) -> None:
        held = self.store.runs.held(node)
        assert sorted(ids(held)) == sorted(m.id for m in self.line if m.node == node)
        for job in held:
            del self.runs[job.id]
            self.end(job, Lost("gone"))

    def end(self, job: Job, outcome: Outcome) -> None:
        """End a run in the store and in the model."""
        end = ended(job, outcome, now=self.now, policy=POLICY, started_at=self.now)
        assert finish(self.store, [end]) == []
        model = self.model(job.id)
        model.ends(outcome, self.now)
        if not isinstance(outcome, Released):
            is_final = model.state in (State.COMPLETED, State.DEAD)
            self.tell(model, News(model.state.value) if is_final else News.FAILED)
        self.past.append(end)

    @precondition(lambda self: self.past)
    @rule(data=st.data())
    def finish_again(self, data: st.DataObject) -> None:
        end = data.draw(st.sampled_from(self.past))
        assert finish(self.store, [end]) == [end]

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self.line))
        job = the(self.store, model.id)
        waits = model.state in (State.PENDING, State.FAILED)
        asked = ask_cancel(self.store, job, "stop", now=self.now)
        assert asked == (model.state == State.PROCESSING)
        if asked:
            self.end_cancelled(model)
        elif waits:
            assert apply(self.store, job, cancelled(job, "stop"), now=self.now)
            model.state = State.CANCELLED
            self.tell(model, News.CANCELLED)

    def end_cancelled(self, model: Model) -> None:
        """Let the node of a run end it because it was asked to."""
        assert model.node is not None
        (job,) = self.store.runs.held(model.node, to_cancel=True)
        end = ended(job, Exited(9), now=self.now, policy=POLICY, started_at=self.now)
        assert finish(self.store, [end]) == []
        del self.runs[job.id]
        self.past.append(end)
        model.state, model.node = State.CANCELLED, None
        self.tell(model, News.CANCELLED)

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def retry(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self.line))
        done = apply(self.store, the(self.store, model.id), retried(self.now), now=self.now)
        assert done == (model.state != State.PROCESSING)
        if done:
            if model.has_expired(self.now):
                model.expires_at = None
            model.state, model.run_at = State.PENDING, self.now
            model.failures = model.crashes = 0

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        model = data.draw(st.sampled_from(self.line))
        done = remove(self.store, the(self.store, model.id))
        assert done == (model.state != State.PROCESSING)
        if done:
            self.line.remove(model)

    @rule(queue=st.sampled_from(QUEUES), paused=st.booleans())
    def pause(self, queue: str, paused: bool) -> None:
        changed = self.store.settings.set_paused(queue, paused=paused, who="me", now=self.now)
        assert changed == ((queue in self.paused) != paused)
        (self.paused.add if paused else self.paused.discard)(queue)

    # -- what must always hold ----------------------------------------------------------

    @invariant()
    def jobs_agree(self) -> None:
        jobs = self.store.jobs.select(Filter(), limit=None, oldest=True)
        jobs = [job for job in jobs if job.webhook is None]
        told = [(j.id, j.state, j.attempts, j.failures, j.crashes, j.run_at) for j in jobs]
        assert told == [
            (m.id, m.state, m.attempts, m.failures, m.crashes, m.run_at) for m in self.line
        ]
        for job in jobs:
            running = job.state == State.PROCESSING
            assert len(self.store.history.attempts(job)) == job.attempts - running

    @invariant()
    def counts_agree(self) -> None:
        told = {(c.queue, c.state, c.priority): c.jobs for c in self.store.jobs.counts()}
        told = {key: jobs for key, jobs in told.items() if key[0] != QUEUE}
        assert told == Counter((m.queue, m.state, m.priority) for m in self.line)

    @invariant()
    def messages_agree(self) -> None:
        """Each end that somebody wants to hear of has made one delivery, and nothing else has."""
        jobs = self.store.jobs.select(Filter(queues=(QUEUE,)), limit=None)
        told = Counter((str(job.hook_of), json.loads(job.data or b"")["type"]) for job in jobs)
        assert told == self.messages

    def model(self, id: str) -> Model:
        """Return the model of a job."""
        return next(model for model in self.line if model.id == id)


@pytest.mark.timeout(300)
def test_the_store_does_what_the_model_does(place: Callable[[], str]) -> None:
    machine = type("Machine", (StoreMachine,), {"place": staticmethod(place)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=40, stateful_step_count=40, suppress_health_check=list(HealthCheck)
        ),
    )
