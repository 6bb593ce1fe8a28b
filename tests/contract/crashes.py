"""A history in which clients die, connections are cut, nodes crash, and all of them come back."""

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from queuectl.errors import LeaseLostError
from queuectl.facts import Event
from queuectl.job import Exited, Released, State
from tests.contract import deeds, tools
from tests.contract.deeds import POLICY, Deed, answer
from tests.contract.history import OUTCOMES, History
from tests.contract.places import Place
from tests.contract.requests import NODES
from tests.contract.sides import Side, StoreSide
from tests.contract.tools import HOUR, a_node, ended, forget, renew
from tests.contract.victim import Death, Moment, Victims
from tests.servers.proxy import Moment as CutMoment

CUTS: Sequence[CutMoment] = ("before", "during", "after")
DELAYS = (0.0, 0.0001, 0.0002, 0.0005, 0.001, 0.002)
"""Seconds after which a client is killed that commits."""


class CrashingHistory(History):
    """Does everything to all of them, and lets clients and nodes crash."""

    marks = 0
    """How many requests have left a mark, or would have."""

    # -- clients ----------------------------------------------------------------------

    def client_dies(self) -> None:
        """A client is killed; whoever comes next finds all of what it did, or nothing."""
        death = Death(
            moment=self.one_of(Moment), delay=self.one_of(DELAYS), alone=self.draw(st.booleans())
        )
        mark = self.request()
        self.each(lambda side: side.die(side.last, mark, death))

    def transaction_is_cut_off(self) -> None:
        """A client loses its connection in the middle of a transaction, and everything with it."""
        self.request()
        self.each(lambda side: side.break_off(side.last))

    def commit_is_cut_off(self) -> None:
        """A client loses its connection around its commit, and finds out what became of it."""
        when = self.one_of(CUTS)
        self.request()
        self.each(lambda side: side.cut(partial(deeds.together, deeds=side.last), when))

    def send_again(self) -> None:
        """Whoever doesn't know what became of a request sends it again."""
        self.each(lambda side: [answer(deed, side.store) for deed in side.last])

    def restart(self) -> None:
        """The store is closed and opened again."""
        self.each(lambda side: side.restart())

    def request(self) -> str:
        """Choose what is asked for; return the mark that it leaves, done or not."""
        self.marks += 1
        mark = f"mark {self.marks}"
        event = Event(at=self.now, kind="mark", job=None, node=None, who="wer", detail=mark)
        some: list[Deed] = self.draw(st.lists(self.some_deeds(), min_size=1, max_size=3))
        ids = sorted(self.sides[0].runs)
        ends: Callable[[Side], Any] | None = None
        if ids and self.draw(st.booleans()):
            chosen = [self.one_of(ids)]
            ends = self.ends(chosen, self.one_of(OUTCOMES), lambda side, id: side.runs[id])
        for side in self.sides:
            finish = [] if ends is None else [partial(deeds.finish, ends=ends(side))]
            side.last = [*finish, *some, partial(deeds.record, event=event)]
        return mark

    # -- nodes ------------------------------------------------------------------------

    def node_crashes(self) -> None:
        """A node stops renewing, and its lease ends; it stays in the register."""
        node = self.one_of(NODES)
        self.each(lambda side: renew(side.store, node, until=side.store.clock.steady() - 1))
        self.lapses_agree()

    def nodes_come_back(self) -> None:
        """Nodes are started anew under the names of those that nobody knows any more."""
        for node in NODES[:2]:
            if node not in self.model.memory.nodes:
                self.each(partial(_registered, node))

    def rescue(self) -> None:
        """Somebody gives back what the dead nodes held."""
        self.lapses_agree()
        self.each(partial(_of_store, partial(deeds.rescue, now=self.now)))
        self.each(lambda side: [side.store.runs.held(node) for node in NODES])
        self.lapses_agree()

    def rescuer_is_too_late(self) -> None:
        """A node that seemed dead has renewed its lease before it is struck out."""
        node = self.one_of(NODES)
        known = self.model.memory.nodes.get(node)
        if known is not None:
            beat = known.beat
            self.each(lambda side: renew(side.store, node, until=side.store.clock.steady() + HOUR))
            self.each(lambda side: forget(side.store, node, beat=beat))

    def the_dead_go_on(self) -> None:
        """Nodes that were given up do what they were about to do. Nothing may come of it."""
        for node in NODES:
            if not self.model.nodes.holds_lease(node):
                self._goes_on_in_vain(node)
        stale = [id for id, run in sorted(self.sides[0].runs.items()) if not self._goes_on(run)]
        if stale:
            lost = self.finish_these(stale, Exited(0), lambda side, id: side.runs.pop(id))
            assert len(lost) == len(stale), "a run that was given up has changed something"
        self.each(_finish_stale)
        running = {
            job.id for job in self.model.memory.line.values() if job.state == State.PROCESSING
        }
        late = [n for n, end in enumerate(self.sides[0].past) if end.job.id in running]
        self.each(lambda side: tools.finish(side.store, [side.past[n] for n in late]))

    def run_ends_late(self) -> None:
        """A node gives a job back and gets it again, and only then hears of the end of its run."""
        ids = sorted(self.sides[0].runs)
        if not ids:
            return
        id = self.one_of(ids)
        old = [side.runs[id] for side in self.sides]
        node, count = old[0].node or "", 3
        self.finish_these([id], Released(), lambda side, id: side.runs.pop(id))
        self.claim_for(node, count, ())
        ends = [ended(run, Exited(0), now=self.now, policy=POLICY) for run in old]
        by_side = dict(zip(self.sides, ends, strict=True))
        lost = self.each(lambda side: tools.finish(side.store, [by_side[side]]))
        assert lost, "a run that was given back has changed something"

    def _goes_on_in_vain(self, node: str) -> None:
        renewed = self.each(
            lambda side: renew(side.store, node, until=side.store.clock.steady() + HOUR)
        )
        claimed = self.each(lambda side: tools.claim(side.store, node, [0], (), now=self.now))
        assert (renewed, claimed) == (False, LeaseLostError.__name__)

    def _goes_on(self, run: Any) -> bool:
        job = self.model.memory.line.get(run.id)
        return (
            job is not None
            and job.state == State.PROCESSING
            and (job.seq, job.attempts) == (run.seq, run.attempts)
        )

    def takes_over(self) -> None:
        """Who was in doubt about a claim asks what it holds, and goes on with that."""
        node = self.one_of(NODES)

        def take(side: Side) -> Any:
            held = side.store.runs.held(node)
            side.hold(held)
            return sorted(held, key=lambda job: job.id)

        self.each(take)

    def lapses_agree(self) -> None:
        """Compare who is given up."""
        self.each(lambda side: [(node.id, node.lapsed) for node in side.store.nodes.all()])


def _registered(node: str, side: Side) -> None:
    a_node(side.store, node)


def _finish_stale(side: Side) -> Any:
    stale, side.stale = side.stale, []
    lost = tools.finish(side.store, [ended(job, Exited(0), policy=POLICY) for job in stale])
    assert len(lost) == len(stale), f"{side.name}: a run that was given up has changed something"
    return lost


def _of_store(deed: Deed, side: Side) -> Any:
    return deed(side.store)


CRASHES: Sequence[Callable[[CrashingHistory], None]] = (
    *[CrashingHistory.client_dies] * 2,
    CrashingHistory.transaction_is_cut_off,
    *[CrashingHistory.commit_is_cut_off] * 2,
    *[CrashingHistory.send_again] * 2,
    CrashingHistory.restart,
    CrashingHistory.node_crashes,
    *[CrashingHistory.nodes_come_back] * 2,
    *[CrashingHistory.rescue] * 2,
    CrashingHistory.rescuer_is_too_late,
    *[CrashingHistory.the_dead_go_on] * 2,
    *[CrashingHistory.run_ends_late] * 2,
    CrashingHistory.takes_over,
)
STEPS: Sequence[Callable[[CrashingHistory], None]] = (
    *[History.claim, History.finish] * 7,
    *[History.enqueue] * 3,
    *[History.advance, History.transaction, History.cancel, History.listings_agree] * 2,
    History.act_on_what_was_seen_before,
    History.finish_again,
    History.nodes,
    *[History.pause_runs] * 2,
    *[History.keep_steps] * 4,
    *[History.set_data] * 2,
    *[History.fall_asleep] * 3,
    *[History.emit] * 2,
    History.retry_from,
    History.prune,
    *[History.put_back] * 2,
    History.records,
    History.remove,
    History.reports_agree,
    History.rescue_strays,
    History.retry,
    *[History.edit] * 3,
    *[History.put_first, History.swap] * 2,
    History.searches_agree,
    *[History.set_schedule, History.tick, History.tick],
    History.set_limits,
    *[History.rename_queue] * 2,
    History.upkeep,
    *CRASHES,
)
"""What may happen; what stands here more than once happens more often."""
READING = (
    History.advance,
    History.listings_agree,
    History.reports_agree,
    History.searches_agree,
    CrashingHistory.takes_over,
)
"""What changes nothing in a store."""


def live_through(
    places: Sequence[Place], victims: Victims, *, length: int, seen: Counter[str]
) -> Callable[[], None]:
    """Return a test in which the model and a store in each place live through a history.

    It counts what was done in `seen`.
    """

    @given(
        data=st.data(),
        steps=st.lists(st.sampled_from(STEPS), min_size=length // 4, max_size=length),
    )
    def run(data: st.DataObject, steps: list[Callable[[CrashingHistory], None]]) -> None:
        with ExitStack() as stack:
            sides = [Side(), *(StoreSide(place, victims, seen) for place in places)]
            for side in sides:
                stack.callback(side.close)
            history = CrashingHistory(sides, data.draw)
            done: list[str] = []
            try:
                history.begin()
                for step in steps:
                    done.append(step.__name__)
                    step(history)
                    seen["steps"] += 1
                    if step not in READING:
                        history.agree()
                history.end()
            except AssertionError as error:
                raise AssertionError(f"{error}, after {', '.join(done)}") from error
        seen["histories"] += 1

    return run
