"""All stores and a plain model live through the same history, and always say the same.

Whatever is done is done to each of them, and every answer is compared: jobs with all their
fields, listings, counters, attempts, outputs, rollups, events, nodes and refusals. Only the
places in the line have numbers of each store's own.

`HISTORIES=500` lets it try more histories than it has time for in every test run.
"""

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queuectl.errors import DuplicateError, LeaseLostError
from queuectl.job import (
    Cancelled,
    Exited,
    Job,
    Lost,
    NewJob,
    NotStarted,
    Outcome,
    Output,
    Released,
    Signalled,
    State,
    Strategy,
    TimedOut,
)
from queuectl.lifecycle import Policy, cancelled, retried
from queuectl.store import open_store
from queuectl.store.contract import Count, Ended, Event, Filter, Node, Rollup, Stop
from tests.contract.model import Model
from tests.contract.tools import DAY, HOUR, MINUTE, NOW, a_node, ended, the

HISTORIES = int(os.environ.get("HISTORIES", "25"))
LENGTH = 40
POLICY = Policy(max_crashes=2)

# Texts that databases like to take for each other, or for something else.
IDS = ("a", "A", "a ", "á", "a\u0301", "ab", "b%", "b_", "b\\", "ß", "ss", "🎈", "\uff21")
COMMANDS = (
    "echo Hello",
    "ÉCHO 100%_done",
    'it\'s "so"',
    "back\\slash",
    "a\ttab\nline",
    "🎈 straße",
)
TEXTS = (
    "hello",
    "HELLO",
    "É",
    "é",
    "%",
    "_",
    "\\",
    '"',
    "'",
    "\n",
    "🎈",
    "SS",
    "ß",
    "s.e",
    "(",
    "exit",
)
QUEUES = ("one", "One", "zwei ü")
TAGS = ("red", "Red", "red ", "grün", '"quoted"', "🎈")
NODES = ("node-1", "node-2", "node-3")
NAMES = ("max-retries", "Max-Retries", "jitter")

SERVED: Sequence[tuple[str, ...]] = ((), (), (), ("one",), ("zwei ü", "One"), ("nowhere",))
OUTCOMES: Sequence[Outcome] = (
    Exited(0),
    Exited(0),
    Exited(1),
    Exited(127),
    Signalled(9),
    TimedOut(1_500),
    NotStarted("no such folder: 'ü'"),
    Cancelled("by hand"),
    Lost("gone"),
    Released(),
)

T = TypeVar("T")


class UndoneError(Exception):
    """What makes a transaction fail in the middle."""


@dataclass
class Side:
    """One of those that are compared, and what a client of it holds in its hands."""

    name: str
    store: Any
    runs: dict[str, Job] = field(default_factory=dict)
    """Jobs as they were claimed."""
    past: list[Ended] = field(default_factory=list)
    """Ends that were told already."""
    seen: list[Job] = field(default_factory=list)
    """Jobs as they once were."""

    def place(self, id: str | None) -> int | None:
        """Return the place in the line of a job."""
        return None if id is None else the(self.store, id).seq


Action = Callable[[Side], Any]
Draw = Callable[..., Any]


def plain(value: Any) -> Any:
    """Leave out what a store numbers or times by itself, and order what has no order."""
    match value:
        case Job():
            return replace(value, seq=0)
        case Ended():
            return value.job.id, value.job.attempts
        case Node():
            return replace(value, seen_at=0, lease_until=0), value.beat
        case [Count() | Rollup(), *_]:
            return sorted(value, key=repr)
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def answer(action: Action, side: Side) -> Any:
    """Do something and return the answer, also if it is a refusal."""
    try:
        return plain(action(side))
    except (DuplicateError, LeaseLostError, UndoneError) as error:
        return type(error).__name__


@st.composite
def new_jobs(draw: st.DrawFn, now: int) -> NewJob:
    """A job with something in every field."""
    argv = draw(st.none() | st.lists(st.sampled_from(COMMANDS), min_size=1, max_size=2).map(tuple))
    expire = draw(st.sampled_from([None, None, None, 3, 40]))
    delay = draw(st.sampled_from([0, 0, 0, 5, 30]))
    return NewJob(
        id=draw(st.sampled_from(IDS)),
        command=draw(st.sampled_from(COMMANDS)) if argv is None else None,
        argv=argv,
        queue=draw(st.sampled_from(QUEUES)),
        priority=draw(st.sampled_from([-(2**31), -1, 0, 0, 1, 2**31 - 1])),
        run_at=draw(st.sampled_from([None, now + delay])),
        expires_at=None if expire is None else now + expire,
        timeout=draw(st.sampled_from([None, 0, 1_000])),
        max_retries=draw(st.sampled_from([None, 0, 1])),
        backoff=draw(st.sampled_from([None, *Strategy])),
        backoff_base=draw(st.sampled_from([None, 1.5, 1e9])),
        retry_delay=draw(st.sampled_from([None, 0, 10])),
        max_backoff=draw(st.sampled_from([None, 20])),
        cwd=draw(st.sampled_from([None, "/tmp/ü"])),
        env=draw(st.sampled_from([{}, {"A": "1", "B": "ü\n"}])),
        tags=tuple(draw(st.lists(st.sampled_from(TAGS), max_size=3))),
    )


class History:
    """Does everything to all of them."""

    def __init__(self, places: Sequence[tuple[str, Callable[[], str]]], draw: Draw) -> None:
        self.draw = draw
        self.now = NOW
        self.told = 0
        self.model = Model()
        self.sides = [Side("model", self.model)]
        for name, place in places:
            self.sides.append(Side(name, open_store(place(), create=True)))

    def close(self) -> None:
        for side in self.sides:
            side.store.close()

    def each(self, action: Action) -> Any:
        """Do something to each, compare the answers, and return the one they agree on."""
        answers = [answer(action, side) for side in self.sides]
        for side, found in zip(self.sides, answers, strict=True):
            assert found == answers[0], f"{side.name} differs from the model"
        return answers[0]

    def one_of(self, choices: Iterable[T]) -> T:
        found: T = self.draw(st.sampled_from(list(choices)))
        return found

    def begin(self) -> None:
        self.each(lambda side: a_node(side.store, "node-1") and None)
        self.each(lambda side: a_node(side.store, "node-2") and None)
        self.enqueue(most=8)

    def agree(self) -> None:
        """Compare what is compared after every step."""
        self.each(lambda side: side.store.select(Filter(), limit=None, oldest=True))
        self.each(lambda side: side.store.counts())

    def end(self) -> None:
        """Compare what is kept of every job."""

        def history(side: Side, id: str) -> Any:
            job = the(side.store, id)
            runs = side.store.attempts(job)
            outputs = [side.store.output(job, n) for n in range(job.attempts + 2)]
            return runs, outputs, side.store.events(id)

        self.each(lambda side: [history(side, id) for id in self.model.jobs])
        self.rollups_agree()
        self.each(lambda side: side.store.verify())

    # -- jobs -------------------------------------------------------------------------

    def enqueue(self, most: int = 4) -> None:
        jobs = self.draw(st.lists(new_jobs(self.now), min_size=most // 2, max_size=most))
        skip = self.draw(st.booleans()) or most > 4
        self.each(lambda side: side.store.enqueue(jobs, now=self.now, skip_duplicates=skip))

    def advance(self) -> None:
        self.now += self.one_of([1, 4, 10, 50, 50, MINUTE])

    def claim(self) -> None:
        node, queues = self.one_of(["node-1", "node-1", *NODES]), self.one_of(SERVED)
        count = self.one_of([0, 1, 2, 3, 3, 3])

        def claim(side: Side) -> list[Job]:
            jobs: list[Job] = side.store.claim(node, range(count), queues, now=self.now)
            side.runs |= {job.id: job for job in jobs}
            side.seen += jobs
            return jobs

        self.each(lambda side: side.store.claimable(queues, now=self.now))
        self.each(claim)

    def finish(self) -> None:
        ids = sorted(self.sides[0].runs)
        if ids:
            chosen = self.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1, max_size=3))
            self.finish_these(chosen, self.one_of(OUTCOMES), lambda side, id: side.runs.pop(id))

    def rescue_strays(self) -> None:
        ids = [job.id for job in self.model.strays()]
        self.each(lambda side: sorted(side.store.strays(), key=lambda job: job.id))
        self.finish_these(ids, Lost("its node is gone"), lambda side, id: the(side.store, id))

    def finish_these(
        self, ids: list[str], outcome: Outcome, run: Callable[[Side, str], Job]
    ) -> None:
        """End runs in one go; each took another time, so that the slowest are who they are."""
        first, self.told = self.told, self.told + len(ids)

        def finish(side: Side) -> list[Ended]:
            ends = [
                ended(
                    run(side, id),
                    outcome,
                    now=self.now,
                    policy=POLICY,
                    duration_ms=(first + n) * 37,
                    error=f"error of {id}",
                    output=Output(
                        stdout=f"out of {id}\n\0".encode() if n % 2 else b"",
                        stderr=b"\xff\xfe" if n % 3 else b"",
                        stdout_bytes=2_025,
                    ),
                )
                for n, id in enumerate(ids)
            ]
            side.past += ends
            lost: list[Ended] = side.store.finish(ends)
            return lost

        self.each(finish)

    def finish_again(self) -> None:
        if self.sides[0].past:
            n = self.one_of(range(len(self.sides[0].past)))
            self.each(lambda side: side.store.finish([side.past[n]]))

    # -- by hand ----------------------------------------------------------------------

    def cancel(self) -> None:
        if not self.model.jobs:
            return
        id = self.one_of(self.model.jobs)

        def cancel(side: Side) -> tuple[bool, bool]:
            job = the(side.store, id)
            side.seen.append(job)
            asked = side.store.ask_cancel(job, "stop it", now=self.now)
            waits = job.state in (State.PENDING, State.FAILED)
            done = waits and side.store.apply(job, cancelled(job, "stop it"), now=self.now)
            return asked, done

        self.each(cancel)
        self.each(lambda side: [side.store.to_cancel(node) for node in NODES])

    def retry(self) -> None:
        if self.model.jobs:
            id, to = self.one_of(self.model.jobs), retried(self.now + self.one_of([0, 20]))
            self.each(lambda side: side.store.apply(the(side.store, id), to, now=self.now))

    def remove(self) -> None:
        if not self.model.jobs:
            return
        id = self.one_of(self.model.jobs)

        def remove(side: Side) -> bool:
            job = the(side.store, id)
            side.seen.append(job)
            gone: bool = side.store.remove(job)
            return gone

        self.each(remove)

    def act_on_what_was_seen_before(self) -> None:
        if self.sides[0].seen:
            n = self.one_of(range(len(self.sides[0].seen)))
            late = retried(self.now)
            self.each(lambda side: side.store.ask_cancel(side.seen[n], "late", now=self.now))
            self.each(lambda side: side.store.apply(side.seen[n], late, now=self.now))
            self.each(lambda side: side.store.remove(side.seen[n]))

    def prune(self) -> None:
        state = self.one_of([State.COMPLETED, State.DEAD, State.CANCELLED, State.PENDING])
        before = self.now - self.one_of([-1, 0, 10, HOUR])
        self.each(lambda side: side.store.prunable(state, before))
        self.each(lambda side: side.store.prune(state, before, limit=100))

    # -- transactions that fail in the middle -------------------------------------------

    def transaction(self) -> None:
        inner_fails, outer_fails = self.draw(st.booleans()), self.draw(st.booleans())
        some = st.lists(self.actions(), max_size=2)
        first, second, third = (self.draw(some) for _ in range(3))

        def script(side: Side) -> list[Any]:
            answers: list[Any] = []
            with side.store.transaction():
                answers += [answer(action, side) for action in first]
                with suppress(UndoneError), side.store.transaction():
                    answers += [answer(action, side) for action in second]
                    if inner_fails:
                        raise UndoneError
                answers += [answer(action, side) for action in third]
                answers += [side.store.counts(), side.store.select(Filter(), limit=None)]
                if outer_fails:
                    raise UndoneError(answers)
            return answers

        self.each(script)

    def actions(self) -> st.SearchStrategy[Action]:
        """What may happen in a transaction."""
        now = self.now

        def run(side: Side) -> Any:
            jobs = side.store.claim("node-1", range(2), (), now=now)
            ends = [ended(job, Exited(0), now=now, policy=POLICY) for job in jobs]
            # Ties would make the slowest ambiguous, so none of them completes.
            return jobs, side.store.finish(
                [replace(e, transition=cancelled(e.job, "x")) for e in ends]
            )

        def cancel(id: str, side: Side) -> Any:
            job = side.store.get(id)
            return job and side.store.apply(job, cancelled(job, "in between"), now=now)

        def remove(id: str, side: Side) -> Any:
            job = side.store.get(id)
            return job and side.store.remove(job)

        ids = st.sampled_from(IDS)
        jobs = st.lists(new_jobs(now), min_size=1, max_size=2)
        return st.one_of(
            jobs.map(lambda jobs: lambda side: side.store.enqueue(jobs, now=now)),
            st.just(run),
            ids.map(lambda id: lambda side: cancel(id, side)),
            ids.map(lambda id: lambda side: remove(id, side)),
            st.sampled_from(NAMES).map(
                lambda name: lambda side: side.store.set_config(name, "x", now=now)
            ),
            ids.map(lambda id: lambda side: side.store.record(self.event(id))),
            st.sampled_from(QUEUES).map(
                lambda name: (
                    lambda side: side.store.set_paused(name, paused=True, who="me", now=now)
                )
            ),
        )

    # -- everything else ----------------------------------------------------------------

    def nodes(self) -> None:
        id, beat, how = self.one_of(NODES), self.one_of([None, 0, 1]), self.one_of(Stop)
        lease = self.one_of([HOUR, HOUR, -HOUR])
        what: Action = self.one_of(
            [
                lambda side: side.store.renew(id, until=side.store.steady() + HOUR),
                lambda side: side.store.forget(id, beat=beat),
                lambda side: side.store.ask_stop(id, how),
            ]
        )
        if id in self.model.registered:
            self.each(what)
        else:
            self.each(lambda side: side.store.forget(id))
            self.each(lambda side: a_node(side.store, id, lease=lease) and None)
        self.each(lambda side: side.store.nodes())

    def records(self) -> None:
        queue, paused = self.one_of(QUEUES), self.draw(st.booleans())
        name, value = self.one_of(NAMES), self.one_of([None, "", "3", "ü 🎈\n"])
        event = self.event(self.one_of([None, *IDS]))
        self.each(lambda side: side.store.set_paused(queue, paused=paused, who="ich", now=self.now))
        self.each(lambda side: side.store.set_config(name, value, now=self.now))
        self.each(lambda side: side.store.record(event))
        self.each(lambda side: (side.store.queues(), side.store.config()))
        self.each(lambda side: side.store.events(limit=5))

    def event(self, id: str | None) -> Event:
        return Event(at=self.now, kind="seen", job=id, node=None, who="wer", detail="🎈")

    def upkeep(self) -> None:
        self.now += self.one_of([0, 0, HOUR, 49 * HOUR, 61 * DAY])
        self.each(lambda side: side.store.coarsen(now=self.now))
        self.rollups_agree()

    # -- what they say ----------------------------------------------------------------

    def listings_agree(self) -> None:
        times = st.sampled_from([None, None, NOW, self.now, self.now - 10])
        full = Filter(
            states=self.few(State),
            queues=self.few([*QUEUES, "nowhere"]),
            tags=self.few(TAGS),
            text=self.one_of(TEXTS),
            since=self.draw(times),
            until=self.draw(times),
            finished_before=self.draw(times),
        )
        # With all of that at once, hardly any job is left.
        which = Filter(**{f.name: getattr(full, f.name) for f in self.few(fields(Filter))})
        after = self.one_of([None, *self.model.jobs])
        limit, oldest = self.one_of([None, 1, 3]), self.draw(st.booleans())
        self.each(
            lambda side: side.store.select(
                which, limit=limit, after=side.place(after), oldest=oldest
            )
        )

    def few(self, choices: Iterable[T]) -> tuple[T, ...]:
        """Choose one or two of these."""
        some = st.lists(st.sampled_from(list(choices)), min_size=1, max_size=2, unique=True)
        return tuple(self.draw(some))

    def searches_agree(self) -> None:
        tag, text, prefix = self.one_of(TAGS), self.one_of(TEXTS), self.one_of(IDS)
        self.each(lambda side: side.store.select(Filter(tags=(tag,)), limit=None))
        self.each(lambda side: side.store.select(Filter(text=text), limit=None))
        self.each(lambda side: side.store.ids_like(prefix))
        self.each(lambda side: side.store.ids_like(prefix[0], limit=2))
        self.each(lambda side: side.store.states([*IDS, "nobody"]))

    def reports_agree(self) -> None:
        queues, since = self.one_of(SERVED), self.one_of([None, NOW + MINUTE])
        self.each(lambda side: side.store.waiting(queues))
        self.each(lambda side: side.store.next_due())
        self.each(lambda side: side.store.slowest(3))
        self.each(lambda side: [side.store.held(node) for node in NODES])
        self.rollups_agree(since)

    def rollups_agree(self, since: int | None = None) -> None:
        self.each(lambda side: side.store.rollups(since=since))
        self.each(lambda side: side.store.rollups(since=since, queue="one"))


STEPS: Sequence[Callable[[History], None]] = (
    *[History.claim, History.finish] * 5,
    *[History.enqueue] * 3,
    *[History.advance, History.transaction, History.cancel, History.listings_agree] * 2,
    History.act_on_what_was_seen_before,
    History.finish_again,
    History.nodes,
    History.prune,
    History.records,
    History.remove,
    History.reports_agree,
    History.rescue_strays,
    History.retry,
    History.searches_agree,
    History.upkeep,
)
"""What may happen; what stands here more than once happens more often."""


@pytest.mark.timeout(600)
def test_all_stores_and_the_model_live_through_the_same_history(
    tmp_path: Path, postgresql_place: Callable[[], str], mariadb_place: Callable[[], str]
) -> None:
    places = (
        ("sqlite", lambda: f"sqlite:{tmp_path}/{secrets.token_hex(4)}.db"),
        ("postgresql", postgresql_place),
        ("mariadb", mariadb_place),
    )

    @settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        data=st.data(),
        steps=st.lists(st.sampled_from(STEPS), min_size=LENGTH // 2, max_size=LENGTH),
    )
    def live_through(data: st.DataObject, steps: list[Callable[[History], None]]) -> None:
        with closing(History(places, data.draw)) as history:
            history.begin()
            for step in steps:
                step(history)
                history.agree()
            history.end()

    live_through()
