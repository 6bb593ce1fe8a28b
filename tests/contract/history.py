"""A history: steps by which all sides come from one state to the next, and always say the same.

Whatever is done is done to each of them, and every answer is compared: jobs with all their
fields, listings, counters, attempts, outputs, rollups, events, nodes and refusals. Only the
places in the line have numbers of each store's own.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from functools import cache, partial
from typing import Any, TypeVar

from hypothesis import strategies as st

from queuectl.admission import Serving
from queuectl.dependencies import read_parent
from queuectl.errors import (
    NotFoundError,
    StateError,
    StoreError,
)
from queuectl.facts import Event, Group, QueueUse, RunProgress, Sleep, Stop
from queuectl.filter import Filter
from queuectl.job import (
    ANY_TYPE,
    FINISHED,
    OPEN,
    TYPE,
    WAITING,
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
    TimedOut,
)
from queuectl.lifecycle import cancelled, in_line, retried
from queuectl.limits import Limits, parse_rate
from queuectl.schedule import Missed, Overlap, Schedule, due
from queuectl.store.contract import Decision, Ended, EndRun, RunId, Ticked, Turned, Wish
from tests.contract import deeds, tools
from tests.contract.deeds import POLICY, Deed, UndoneError, answer, plain
from tests.contract.requests import IDS, NAMES, NODES, QUEUES, TAGS, new_jobs
from tests.contract.sides import Side
from tests.contract.tools import (
    DAY,
    HOUR,
    MINUTE,
    NOW,
    Served,
    a_node,
    ended,
    foresee,
    forget,
    renew,
    slowest,
    strays,
    the,
    transaction,
    waiting,
)
from tests.contract.toy.store import Model

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
SCHEDULES = ("often", "seldom ü")
SERVED: Sequence[Served] = (
    (),
    (),
    (),
    ("one",),
    ("zwei ü", "One"),
    ("nowhere",),
    Serving(excluded=("one", "nowhere")),
    Serving(("zwei ü", "one", "nowhere"), weights=(2, 3, 1)),
    Serving(("One", "zwei ü", "one"), in_order=True),
    Serving(handlers=(f"{TYPE}a",)),
    Serving(handlers=(TYPE, f"{TYPE}ü")),
    Serving(handlers=(ANY_TYPE,)),
    Serving(("zwei ü", "one"), weights=(2, 3), handlers=(ANY_TYPE,)),
    Serving(("One", "one"), in_order=True, handlers=(f"{TYPE}a", f"{TYPE}ü")),
    *([Serving(resources="cpu=3,gpu=[0-1]", labels=("ssd",))] * 3),
    Serving(labels=("ssd",)),
    Serving(resources="cpu=2", handlers=(ANY_TYPE,)),
    Serving(("zwei ü", "one"), in_order=True, resources="gpu=[5]", handlers=(f"{TYPE}a",)),
)
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
Action = Callable[[Side], Any]
Draw = Callable[..., Any]


def _answer(action: Action, side: Side) -> Any:
    try:
        return plain(answer(action, side))
    except StoreError as error:
        # The model never has one.
        return f"{type(error).__name__}: {error}"


def difference(found: Any, expected: Any) -> str:
    """Say where an answer first differs from what it should be."""
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        pairs = list(zip(found, expected, strict=False))
        for one, other in pairs:
            if one != other:
                return difference(one, other)
        return f"{found[len(pairs) :]} instead of {expected[len(pairs) :]}"
    return f"{found!r} instead of {expected!r}"


def _of_group(group: Group) -> Group:
    """Leave out when a group was over: that is for a store to tell."""
    return replace(group, over_at=group.over_at and 1, stopped_at=group.stopped_at and 1)


def ties(side: Side, *, children: bool) -> Any:
    """Return who waits for whom, by their ids."""
    jobs = side.store.jobs.select(Filter(), limit=None)
    ids = {job.seq: job.id for job in jobs}
    found = (
        side.store.jobs.children(jobs, limit=10_000) if children else side.store.jobs.parents(jobs)
    )
    return sorted(
        (ids[e.child], ids.get(e.parent), e.parent_id, e.wanted, str(e.came_to), e.is_met)
        for e in found
    )


@cache
def _below(many: int) -> st.SearchStrategy[int]:
    return st.integers(0, many - 1)


class History:
    """Does everything to all of them."""

    def __init__(self, sides: Sequence[Side], draw: Draw) -> None:
        """The first of the sides is the model."""
        self.draw = draw
        self.now = NOW
        self.told = 0
        self.sides = sides
        self.model: Model = sides[0].store

    def each(self, action: Action) -> Any:
        """Do something to each, compare the answers, and return the one they agree on."""
        expected, *others = [_answer(action, side) for side in self.sides]
        for side, found in zip(self.sides[1:], others, strict=True):
            if found != expected:
                raise AssertionError(
                    f"{side.name} differs from the model: {difference(found, expected)}"
                )
        return expected

    def one_of(self, choices: Iterable[T]) -> T:
        found = list(choices)
        return found[self.draw(_below(len(found)))]

    def begin(self) -> None:
        self.each(lambda side: a_node(side.store, "node-1") and None)
        self.each(lambda side: a_node(side.store, "node-2") and None)
        self.enqueue(most=8)

    def agree(self) -> None:
        """Compare what is compared after every step."""
        self.each(lambda side: side.store.jobs.select(Filter(), limit=None, oldest=True))
        self.each(lambda side: side.store.jobs.counts())
        self.each(lambda side: [_of_group(one) for one in side.store.groups.newest(9)])
        self.each(lambda side: ties(side, children=False))
        self.each(lambda side: ties(side, children=True))

    def end(self) -> None:
        """Compare what is kept of every job."""

        def history(side: Side, id: str) -> Any:
            job = the(side.store, id)
            runs = side.store.history.attempts(job)
            outputs = [side.store.history.output(job, n) for n in range(job.attempts + 2)]
            return runs, outputs, side.store.jobs.stdin(job), side.store.history.events(id)

        self.each(lambda side: [history(side, id) for id in self.model.memory.line])
        self.rollups_agree()
        self.each(lambda side: side.store.verify())

    # -- jobs -------------------------------------------------------------------------

    def enqueue(self, most: int = 4) -> None:
        jobs = self.draw(st.lists(new_jobs(self.now), min_size=most // 2, max_size=most))
        skip = self.draw(st.booleans()) or most > 4
        if self.draw(_below(6)):
            jobs = self.with_parents(jobs)
        self.each(lambda side: side.store.jobs.enqueue(jobs, now=self.now, skip_duplicates=skip))

    def with_parents(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        """Return jobs that wait for none that isn't there, and so aren't refused for that."""
        known, found = set(self.model.memory.line), []
        groups = {one.name for one in self.model.groups.newest(9) if one.stopped_at is None}
        stopped = {one.name for one in self.model.groups.newest(9)} - groups
        for job in jobs:
            after = tuple(one for one in job.after if read_parent(one)[0] in known - {job.id})
            of = tuple(
                one for one in job.after_group if read_parent(one)[0] in groups - {job.group}
            )
            known.add(str(job.id))
            group = None if job.group in stopped else job.group
            groups |= {group} if group else set()
            found.append(replace(job, after=after, after_group=of, group=group))
        return found

    def advance(self) -> None:
        self.now += self.one_of([1, 4, 10, 50, 50, MINUTE])

    def claim(self) -> None:
        node, queues = self.one_of(["node-1", "node-1", *NODES]), self.one_of(SERVED)
        limits = [info.limits for info in self.model.settings.queues() if info.limits]
        if not any(limit.has_slots or limit.rates for limit in limits):
            self.each(lambda side: foresee(side.store, queues, now=self.now))
        self.claim_for(node, self.one_of([0, 1, 2, 3, 3, 3]), queues)

    def claim_for(self, node: str, count: int, queues: Served) -> None:
        """Claim as many jobs, and keep them in hand."""

        def claim(side: Side) -> Turned:
            claimed: Turned = tools.claim(side.store, node, range(count), queues, now=self.now)
            side.hold(claimed.jobs)
            side.seen += claimed.jobs
            return claimed

        self.each(claim)

    def finish(self) -> None:
        ids = sorted(self.sides[0].runs)
        if ids:
            chosen = self.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1, max_size=3))
            self.finish_these(chosen, self.one_of(OUTCOMES), lambda side, id: side.runs.pop(id))

    def put_back(self) -> None:
        ids, now = sorted(self.sides[0].runs), self.now
        if ids:
            chosen = self.draw(st.lists(st.sampled_from(ids), unique=True, min_size=1, max_size=3))
            self.each(
                lambda side: tools.release(
                    side.store, [side.runs.pop(id) for id in chosen], now=now
                )
            )

    def rescue_strays(self) -> None:
        unknown = self.each(lambda side: sorted(strays(side.store)))
        ids = sorted(job.id for node in unknown for job in self.model.runs.held(node))
        self.finish_these(ids, Lost("its node is gone"), lambda side, id: the(side.store, id))

    def finish_these(
        self, ids: list[str], outcome: Outcome, run: Callable[[Side, str], Job]
    ) -> Any:
        """End runs in one go."""
        make = self.ends(ids, outcome, run)

        def finish(side: Side) -> list[Ended]:
            lost: list[Ended] = tools.finish(side.store, make(side))
            return lost

        return self.each(finish)

    def ends(
        self, ids: list[str], outcome: Outcome, run: Callable[[Side, str], Job]
    ) -> Callable[[Side], list[Ended]]:
        """Describe ends of runs; each took another time, so that the slowest are who they are."""
        first, self.told, now = self.told, self.told + len(ids), self.now

        def make(side: Side) -> list[Ended]:
            ends = [
                ended(
                    run(side, id),
                    outcome,
                    now=now,
                    policy=POLICY,
                    duration_ms=(first + n) * 37,
                    error=f"error of {id}",
                    result=f'"ü {n} of {id}"' if n % 2 else None,
                    output=Output(
                        stdout=f"out of {id}\n\0".encode() if n % 2 else b"",
                        stderr=b"\xff\xfe" if n % 3 else b"",
                        stdout_bytes=2_025,
                    ),
                )
                for n, id in enumerate(ids)
            ]
            if isinstance(outcome, Exited):
                ends = [tools.tired(end, now=now, policy=POLICY) for end in ends]
            side.past += ends
            return ends

        return make

    def finish_again(self) -> None:
        if self.sides[0].past:
            n = self.one_of(range(len(self.sides[0].past)))
            self.each(lambda side: tools.finish(side.store, [side.past[n]]))

    # -- by hand ----------------------------------------------------------------------

    def cancel(self) -> None:
        if not self.model.memory.line:
            return
        id, by_hand = self.one_of(self.model.memory.line), self.one_of([False, False, True])
        result = self.one_of([None, '"ü"'])

        def cancel(side: Side) -> Any:
            job = the(side.store, id)
            side.seen.append(job)
            if by_hand and job.state in OPEN:
                done = tools.force_finish(side.store, job, result, now=self.now)
                return done, self._kept(side, id)
            asked = tools.ask_cancel(side.store, job, "stop it", now=self.now)
            waits = job.state in WAITING
            done = waits and tools.apply(side.store, job, cancelled(job, "stop it"), now=self.now)
            return asked, done

        self.each(cancel)
        self.each(lambda side: [side.store.runs.held(node, to_cancel=True) for node in NODES])

    def retry(self) -> None:
        if self.model.memory.line:
            id, at = self.one_of(self.model.memory.line), self.now + self.one_of([0, 20])

            def retry(side: Side) -> bool:
                job = the(side.store, id)
                return tools.apply(side.store, job, retried(at, in_line(job)), now=self.now)

            self.each(retry)

    def edit(self) -> None:
        """Make another job of one: other fields, or held, or released."""
        if not self.model.memory.line:
            return
        id = self.one_of(self.model.memory.line)
        changes: dict[str, Any] = self.one_of(
            [
                {"priority": 7, "tags": ("t",)},
                {"queue": self.one_of(QUEUES)},
                {"keys": self.one_of([(), ("k",), ("K", "ü")])},
                {"run_at": self.now + self.one_of([0, 20])},
                {"expires_at": self.now + 20, "timeout": 5},
                {"command": "echo other", "argv": None, "env": {"A": "b"}},
                {"parked": ""},
                {"parked": ""},
                {"parked": None},
                {"parked": None},
            ]
        )
        self.each(lambda side: deeds.edit(side.store, id=id, changes=changes, now=self.now))
        self.each(lambda side: side.store.jobs.count_held(QUEUES))

    def put_first(self) -> None:
        if self.model.memory.line:
            # Who is parked is for a store to decide, so places go by the time.
            self.now += 1
            id = self.one_of(self.model.memory.line)
            self.each(lambda side: deeds.put_first(side.store, id=id, now=self.now))

    def swap(self) -> None:
        waiting = [job for job in self.model.memory.line.values() if job.state in WAITING]
        if waiting:
            one = self.one_of(waiting)
            same = [job.id for job in waiting if job.queue == one.queue and job is not one]
            if same:
                two = (one.id, self.one_of(same))
                self.each(lambda side: deeds.swap(side.store, ids=two, now=self.now))

    def remove(self) -> None:
        if not self.model.memory.line:
            return
        id = self.one_of(self.model.memory.line)

        def remove(side: Side) -> bool:
            job = the(side.store, id)
            side.seen.append(job)
            gone: bool = tools.remove(side.store, job)
            return gone

        self.each(remove)

    def pause_runs(self) -> None:
        running = [job.id for job in self.model.memory.running()]
        id = self.one_of([*running, *self.model.memory.line]) if self.model.memory.line else None
        if id is None:
            return
        paused, who = self.draw(st.booleans()), self.one_of(["ich", "ü 🎈"])

        def pause(side: Side) -> bool:
            job = the(side.store, id)
            return tools.pause(side.store, job, paused=paused, who=who, now=self.now)

        def paused_runs(side: Side) -> Any:
            jobs = {job.seq: job.id for job in side.store.jobs.select(Filter(), limit=None)}
            found = side.store.runs.pauses()
            return sorted((jobs[one.seq], one.number, one.at, one.who) for one in found)

        self.each(pause)
        self.each(paused_runs)

    def keep_steps(self) -> None:
        """Have a run of a job, that goes on or doesn't, do a step, and tell how far it is."""
        running = self.model.memory.running()
        jobs = [*running, *running, *self.model.memory.line.values()]
        if not jobs:
            return
        job = self.one_of(jobs)
        late, name = self.one_of([0, 0, 1]), self.one_of(["one", "ü 🎈", "three"])
        percent, output = self.one_of([None, 12.5]), self.one_of([b"", b"\0\xff"])

        def do(side: Side) -> Any:
            run = RunId(job.id, job.attempts - late, job.node or "")
            try:
                done = side.store.reports.begin_step(run, name)
                if done is None:
                    side.store.reports.keep_step(run, name, output, now=self.now)
            except StateError as error:
                return type(error)
            return None if done is None else (done.number, done.seen, done.output, done.at)

        def tell(side: Side) -> None:
            known = replace(the(side.store, job.id), node=job.node)
            told = RunProgress(
                seq=known.seq, number=job.attempts - late, percent=percent, note=name, at=self.now
            )
            side.store.reports.set_progress((known, told))

        self.each(do)
        self.each(tell)
        self.each(lambda side: self._kept(side, job.id))

    def _kept(self, side: Side, id: str) -> Any:
        job = the(side.store, id)
        reports = side.store.reports
        told = reports.progress([job]).get(job.seq)
        sleep = side.store.sleeps.of([job]).get(job.seq)
        return (
            None if sleep is None else replace(sleep, seq=0),
            reports.steps(job),
            reports.results([job]).get(job.seq),
            None if told is None else (told.number, told.percent, told.note, told.at),
        )

    def set_data(self) -> None:
        """Have a run of a job, that goes on or doesn't, change the data of that."""
        running = self.model.memory.running()
        jobs = [*running, *running, *self.model.memory.line.values()]
        if not jobs:
            return
        job, late = self.one_of(jobs), self.one_of([0, 0, 1])

        def change(side: Side) -> Any:
            run = RunId(job.id, job.attempts - late, job.node or "")
            try:
                data = side.store.reports.set_data(run, lambda data: data + b"\xff", now=self.now)
                return data, side.store.reports.running(run)
            except StateError as error:
                return type(error)

        self.each(change)

    def fall_asleep(self) -> None:
        """Have a run of a job, that goes on or doesn't, sleep, or find that it has."""
        running = self.model.memory.running()
        jobs = [*running, *running, *self.model.memory.line.values()]
        if not jobs:
            return
        job, late = self.one_of(jobs), self.one_of([0, 0, 1])
        wish = self.one_of(
            [
                Wish(step="sleep", numbered=True, wait=self.one_of([0, 5_000, 90_000])),
                Wish(step="till", until=self.now + 7_000),
                Wish(step="ü 🎈", awaits="ü 🎈"),
                Wish(step="await paid", numbered=True, awaits="paid", wait=60_000),
            ]
        )

        def begin(side: Side) -> Any:
            run = RunId(job.id, job.attempts - late, job.node or "")
            try:
                found = side.store.sleeps.begin(run, wish, now=self.now)
            except StateError as error:
                return type(error)
            return replace(found, seq=0) if isinstance(found, Sleep) else found

        self.each(begin)
        self.each(lambda side: self._kept(side, job.id))

    def emit(self) -> None:
        """Emit something that some may wait for, or that was emitted before."""
        name, payload = self.one_of(["ü 🎈", "paid"]), f'"{self.now}"'
        self.each(lambda side: side.store.sleeps.emit(name, payload, who="wer", now=self.now))
        self.each(lambda side: side.store.sleeps.emitted(limit=5))
        self.each(lambda side: side.store.sleeps.emitted(name))

    def retry_from(self) -> None:
        """Put a job back in line, and forget some of its steps."""
        jobs = [job for job in self.model.memory.line.values() if job.state in FINISHED]
        if not jobs:
            return
        id, name = self.one_of(jobs).id, self.one_of(["one", "three"])

        def forget(side: Side) -> Any:
            job = the(side.store, id)
            if job.unique_key is not None:
                return None
            to = Decision(retried(self.now, in_line(job)), forget=name)
            try:
                side.store.jobs.change([job], lambda held, now: {job.seq: to}, now=self.now)
            except NotFoundError:
                return "no step"
            return self._kept(side, id)

        self.each(forget)

    def act_on_what_was_seen_before(self) -> None:
        if self.sides[0].seen:
            n = self.one_of(range(len(self.sides[0].seen)))
            late = retried(self.now)
            self.each(lambda side: tools.ask_cancel(side.store, side.seen[n], "late", now=self.now))
            self.each(lambda side: tools.apply(side.store, side.seen[n], late, now=self.now))
            self.each(lambda side: tools.remove(side.store, side.seen[n]))

    def prune(self) -> None:
        state = self.one_of([State.COMPLETED, State.DEAD, State.CANCELLED, State.PENDING])
        before = self.now - self.one_of([-1, 0, 10, HOUR])
        self.each(lambda side: side.store.jobs.prune(state, before, limit=None))
        self.each(lambda side: side.store.jobs.prune(state, before, limit=100))

    # -- transactions that fail in the middle -------------------------------------------

    def transaction(self) -> None:
        inner_fails, outer_fails = self.draw(st.booleans()), self.draw(st.booleans())
        some = st.lists(self.some_deeds(), max_size=2)
        first, second, third = (self.draw(some) for _ in range(3))

        def script(side: Side) -> list[Any]:
            answers: list[Any] = []
            with transaction(side.store):
                answers += [answer(deed, side.store) for deed in first]
                with suppress(UndoneError), transaction(side.store):
                    answers += [answer(deed, side.store) for deed in second]
                    if inner_fails:
                        raise UndoneError
                answers += [answer(deed, side.store) for deed in third]
                answers += [side.store.jobs.counts(), side.store.jobs.select(Filter(), limit=None)]
                if outer_fails:
                    raise UndoneError(answers)
            return answers

        self.each(script)

    def some_deeds(self) -> st.SearchStrategy[Deed]:
        """What may happen in a transaction."""
        now = self.now
        ids, nodes = st.sampled_from(IDS), st.sampled_from(NODES)
        jobs = st.lists(new_jobs(now), min_size=1, max_size=2)
        return st.one_of(
            jobs.map(lambda jobs: partial(deeds.enqueue, jobs=jobs, now=now)),
            jobs.map(lambda jobs: partial(deeds.enqueue, jobs=jobs, now=now, skip=True)),
            nodes.map(lambda node: partial(deeds.claim, node=node, count=2, now=now)),
            st.just(partial(deeds.run, now=now)),
            st.just(partial(deeds.rescue, now=now)),
            ids.map(lambda id: partial(deeds.cancel, id=id, now=now)),
            ids.map(lambda id: partial(deeds.retry, id=id, now=now)),
            ids.map(lambda id: partial(deeds.remove, id=id)),
            ids.map(lambda id: partial(deeds.edit, id=id, changes={"parked": ""}, now=now)),
            ids.map(lambda id: partial(deeds.edit, id=id, changes={"queue": "one"}, now=now)),
            st.just(partial(deeds.swap, ids=IDS[:2], now=now)),
            ids.map(lambda id: partial(deeds.record, event=self.event(id))),
            st.sampled_from(NAMES).map(lambda name: partial(deeds.configure, name=name, now=now)),
            st.sampled_from(QUEUES).map(lambda name: partial(deeds.pause, queue=name, now=now)),
        )

    # -- everything else ----------------------------------------------------------------

    def nodes(self) -> None:
        id, beat, how = self.one_of(NODES), self.one_of([None, 0, 1]), self.one_of(Stop)
        lease = self.one_of([HOUR, HOUR, -HOUR])
        what: Action = self.one_of(
            [
                lambda side: renew(side.store, id, until=side.store.clock.steady() + HOUR),
                lambda side: forget(side.store, id, beat=beat),
                lambda side: side.store.nodes.ask_stop(id, how),
            ]
        )
        if id in self.model.memory.nodes:
            self.each(what)
        else:
            self.each(lambda side: forget(side.store, id))
            self.each(lambda side: a_node(side.store, id, lease=lease) and None)
        self.each(lambda side: side.store.nodes.all())

    def records(self) -> None:
        queue, paused = self.one_of(QUEUES), self.draw(st.booleans())
        name, value = self.one_of(NAMES), self.one_of([None, "", "3", "ü 🎈\n"])
        event = self.event(self.one_of([None, *IDS]))
        self.each(
            lambda side: side.store.settings.set_paused(
                queue, paused=paused, who="ich", now=self.now
            )
        )
        self.each(lambda side: side.store.settings.set_config(name, value, now=self.now))
        self.each(lambda side: side.store.history.record(event))
        self.each(lambda side: (side.store.settings.queues(), side.store.settings.config()))
        self.each(lambda side: side.store.history.events(limit=5))

    def event(self, id: str | None) -> Event:
        return Event(at=self.now, kind="seen", job=id, node=None, who="wer", detail="🎈")

    def upkeep(self) -> None:
        self.now += self.one_of([0, 0, HOUR, 49 * HOUR, 61 * DAY])
        self.each(lambda side: side.store.tidy(now=self.now, emitted_before=self.now - HOUR))
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
            finished_since=self.draw(times),
            finished_before=self.draw(times),
            keys=self.few(["k", "K", "ü", "none"]),
            due_since=self.draw(times),
            due_before=self.draw(times),
        )
        # With all of that at once, hardly any job is left.
        which = Filter(**{f.name: getattr(full, f.name) for f in self.few(fields(Filter))})
        after = self.one_of([None, *self.model.memory.line])
        limit, oldest = self.one_of([None, 1, 3]), self.draw(st.booleans())
        self.each(
            lambda side: side.store.jobs.select(
                which, limit=limit, after=side.place(after), oldest=oldest
            )
        )

    def few(self, choices: Iterable[T]) -> tuple[T, ...]:
        """Choose one or two of these."""
        some = st.lists(st.sampled_from(list(choices)), min_size=1, max_size=2, unique=True)
        return tuple(self.draw(some))

    def searches_agree(self) -> None:
        tag, text, prefix = self.one_of(TAGS), self.one_of(TEXTS), self.one_of(IDS)
        self.each(lambda side: side.store.jobs.select(Filter(tags=(tag,)), limit=None))
        self.each(lambda side: side.store.jobs.select(Filter(text=text), limit=None))
        self.each(lambda side: side.store.jobs.like(prefix))
        self.each(lambda side: side.store.jobs.like(prefix[0], limit=2))
        self.each(lambda side: side.store.jobs.like(tag[0], limit=2, tags=True))
        self.each(lambda side: side.store.jobs.states([*IDS, "nobody"]))

    def reports_agree(self) -> None:
        queues, since = self.one_of(SERVED), self.one_of([None, NOW + MINUTE])
        self.each(lambda side: waiting(side.store, queues))
        self.each(lambda side: side.store.runs.outlook().due)
        self.each(lambda side: slowest(side.store, 3))
        self.each(lambda side: [side.store.runs.held(node) for node in NODES])
        self.rollups_agree(since)

    # -- limits -----------------------------------------------------------------------

    def set_limits(self) -> None:
        """Set the limits of a queue, or take them away."""
        queue, key_rate = self.one_of(QUEUES), self.one_of(["", "", "1/20s", "2/1m:1"])
        limits = Limits(
            limit=self.one_of([None, None, 1, 2]),
            rates=tuple(map(parse_rate, self.one_of([(), (), ("2/10s",), ("1/1s", "3/1m")]))),
            key_limit=self.one_of([None, 1, 1, 2]),
            key_limits=self.one_of([{}, {"k": 2}, {"ü": 3}]),
            key_rates=(parse_rate(key_rate),) if key_rate else (),
            weights=self.one_of([{}, {"K": 3}]),
        )
        self.each(lambda side: side.store.settings.set_limits(queue, lambda _: limits))
        self.each(lambda side: side.store.settings.queues())

    # -- names of queues ----------------------------------------------------------------

    def rename_queue(self) -> None:
        """Call a queue otherwise, or remove what is set on it, unless it is in use."""
        old, new = self.one_of(QUEUES), self.one_of([*QUEUES, "nowhere"])

        def told(*uses: QueueUse) -> None:
            use, *others = uses
            if State.PROCESSING in use.states or any(one.jobs or one.is_set for one in others):
                raise StateError("in use")
            if not others and (use.jobs or use.schedules):
                raise StateError("not empty")

        def rename(side: Side) -> Any:
            event = self.event(None)
            try:
                return side.store.settings.rename_queue(old, new, check=told, event=event)
            except StateError as error:
                return str(error)

        def remove(side: Side) -> str | None:
            try:
                side.store.settings.remove_queue(old, check=told)
            except StateError as error:
                return str(error)
            return None

        self.each(rename if old != new and self.one_of([True, True, False]) else remove)
        self.each(lambda side: side.store.settings.queues())
        self.each(lambda side: [dict(one.request) for one in side.store.schedules.all()])
        self.rollups_agree()

    # -- schedules --------------------------------------------------------------------

    def set_schedule(self) -> None:
        """Add one, change it, or remove it."""
        name = self.one_of(SCHEDULES)
        gone = self.one_of([False, False, True])
        schedule = Schedule(
            name=name,
            rule=self.one_of(["every 1m", "every 3m"]),
            zone="UTC",
            anchor=NOW,
            request={"command": "true", "queue": self.one_of([*QUEUES, "nowhere"])},
            missed=self.one_of(Missed),
            overlap=self.one_of(Overlap),
            pause_after=self.one_of([None, 1]),
            done_until=self.now,
            next_at=self.now,
            created_at=NOW,
            updated_at=self.now,
        )
        self.each(
            lambda side: side.store.schedules.change(
                name, lambda there, now: None if gone else schedule
            )
        )
        self.tick()

    def tick(self) -> None:
        """Make the jobs that are due, by the policy, under ids that all sides know."""

        def look(schedule: Schedule, newest: Job | None, now: int) -> Ticked:
            made = due(schedule, newest, now)
            jobs = [
                (at, NewJob(id=f"{schedule.name} {at}", command="true", max_retries=0))
                for at in made.ticks
            ]
            cancel = None
            if made.cancel and newest is not None:
                is_running = newest.state == State.PROCESSING
                cancel = Decision(EndRun("so") if is_running else cancelled(newest, "so"))
            after = replace(schedule, done_until=made.done_until, next_at=made.next_at)
            return Ticked(after, jobs, cancel)

        self.now += self.one_of([0, MINUTE, 5 * MINUTE])
        self.each(lambda side: side.store.schedules.tick(look, now=self.now))
        self.schedules_agree()

    def schedules_agree(self) -> None:
        """Compare schedules, but for the moments at which jobs were over."""

        def told(side: Side) -> Any:
            return [
                (
                    *(one.name, one.done_until, one.failures, one.last_tick, one.last_job),
                    *(one.next_at is None, one.paused_at is None),
                )
                for one in side.store.schedules.all()
            ]

        self.each(told)
        self.each(
            lambda side: [
                [(tick.planned, tick.job) for tick in side.store.schedules.ticks(name, 9)]
                for name in SCHEDULES
            ]
        )

    def rollups_agree(self, since: int | None = None) -> None:
        self.each(lambda side: side.store.history.rollups(since=since))
        self.each(lambda side: side.store.history.rollups(since=since, queue="one"))
        self.each(
            lambda side: sorted(
                (at, r.measure, r.bucket, r.count, r.total_ms, r.least_ms, r.most_ms)
                for at, rows in side.store.history.series(since=since or 0, span=60_000).items()
                for r in rows
            )
        )
        self.each(lambda side: sorted(side.store.history.totals((10, 1_000)).items()))
        self.each(lambda side: side.store.runs.busy())
        self.each(lambda side: sorted(side.store.runs.using(), key=repr))
        self.each(lambda side: side.store.runs.reservations())
