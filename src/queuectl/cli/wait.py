"""`wait`: waits until jobs are finished, and exits as they did."""

import shlex
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from queuectl.cli.command import Command
from queuectl.cli.finish import (
    EXIT_TIMED_OUT,
    LOOKED_AT,
    Hint,
    describe_end,
    exit_code_of,
    still_going,
    why_none_is_due,
    why_waiting,
)
from queuectl.cli.notes import again, note_unused
from queuectl.cli.options import DURATION, JOB_ID, json_option, open_queue
from queuectl.cli.progress import Bar
from queuectl.cli.render import complain, plural, say, write_json
from queuectl.errors import EXIT_DONE, EXIT_FAILED, NotFoundError
from queuectl.filter import Filter
from queuectl.job import FINISHED, WAITING, Job, State
from queuectl.queue import Queue
from queuectl.values import replace
from queuectl.when import format_duration

if TYPE_CHECKING:
    from queuectl.explain import Reason

OPEN = (*WAITING, State.PROCESSING)
NOT_COMPLETED = (State.DEAD, State.CANCELLED)
MOST_TOLD = 20
"""Failed jobs that are named one by one."""

EXAMPLES = """
queuectl wait 7f3k                       # exits with the job's own exit code
queuectl wait 7f3k h2vq --timeout 10m    # 0 only if both completed
queuectl wait --tag nightly              # 0 only if all that are tagged so completed
queuectl wait --all && echo "All done"   # until nothing is left to do
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.argument("ids", nargs=-1, type=JOB_ID, metavar="[ID]...")
@click.option(
    "--queue",
    "-Q",
    "queues",
    multiple=True,
    metavar="NAME",
    help="All of this queue that aren't finished yet.",
)
@click.option(
    "--tag",
    "-T",
    "tags",
    multiple=True,
    metavar="TAG",
    help="All with this tag, also those that are finished already.",
)
@click.option(
    "--all", "-a", "everything", is_flag=True, help="All jobs of all queues not finished yet."
)
@click.option("--timeout", "-t", type=DURATION, metavar="D", help="Give up after this time.")
@json_option
def wait(
    ids: tuple[str, ...],
    queues: tuple[str, ...],
    tags: tuple[str, ...],
    everything: bool,
    timeout: int | None,
    as_json: bool,
) -> int:
    """Wait until jobs are finished; exit as they did.

    Finished means completed, dead or cancelled; a failed job that still has retries is not. With
    --queue, --tag or --all jobs that are enqueued meanwhile are waited for as well.

    For one id the exit code is the job's own: 128 + n if signal n killed it, 124 if it timed out,
    1 if it was cancelled or never started. Otherwise it is 0 if all of them completed, else 1:
    with --tag all jobs that have the tag count, whenever they ended, with --queue and --all those
    that weren't finished when the waiting began. When --timeout is over it is 124, and the jobs
    go on.
    """
    chosen = [bool(ids), bool(queues or tags), everything]
    if sum(chosen) != 1:
        raise click.UsageError("Say what to wait for: ids, --queue and --tag, or --all")
    with open_queue() as queue:
        note_unused(queue, queues)
        if ids:
            watch: _Watch = _Ids(queue, [queue.meant(id).id for id in ids])
        elif tags:
            watch = _Tagged(queue, Filter(queues=queues, tags=tags))
        else:
            watch = _Counted(queue, queues)
        code = _wait(queue, watch, None if timeout is None else timeout / 1000, talk=True)
        if as_json:
            write_json(watch.result())
        return code


def wait_for_jobs(queue: Queue, ids: Sequence[str], *, talk: bool) -> int:
    """Wait until these jobs are finished; returns the exit code that stands for how they ended."""
    return _wait(queue, _Ids(queue, ids), None, talk=talk)


def _wait(queue: Queue, watch: "_Watch", timeout: float | None, *, talk: bool) -> int:
    hint = Hint(watch.why, talk=talk)
    with still_going(f"Nothing was stopped; {watch.again}."), Bar("Waiting") as bar:

        def tick(left: int) -> None:
            hint()
            bar(watch.total - left, watch.total, dead=watch.dead)

        try:
            queue.wait_until(watch.remaining, timeout=timeout, tick=tick)
        except TimeoutError:
            left = plural(watch.remaining(), "job")
            waited = format_duration(round((timeout or 0) * 1000))
            complain(f"{left} not finished after {waited}; {watch.again}.")
            return EXIT_TIMED_OUT
    return watch.conclude(talk)


class _Watch(ABC):
    """Jobs that are waited for."""

    total = 0
    """How many there are, as far as we know."""
    dead = 0
    """How many of them have been given up so far."""
    again: str
    """How to look at them again."""

    @abstractmethod
    def remaining(self) -> int:
        """Count those that aren't finished."""

    @abstractmethod
    def why(self) -> "list[Reason]":
        """Say why those wait that haven't been started."""

    @abstractmethod
    def conclude(self, talk: bool) -> int:
        """Say how they ended; returns the exit code for it."""

    @abstractmethod
    def result(self) -> dict[str, object]:
        """Describe how they stand, for `--json`."""


class _Ids(_Watch):
    """Jobs known by their ids."""

    def __init__(self, queue: Queue, ids: Sequence[str]) -> None:
        self._queue = queue
        self._ids = list(dict.fromkeys(ids))
        self._open = set(self._ids)
        self._which = Filter()
        """What fits them, and may fit others as well."""
        self.total = len(self._ids)
        self.again = _listing()
        if len(self._ids) == 1:
            self.again = f"go on with: queuectl wait {self._ids[0]}"

    def remaining(self) -> int:
        states = self._queue.store.jobs.states(sorted(self._open))
        self._open = {id for id in self._open if states.get(id) not in (None, *FINISHED)}
        self.dead += sum(state == State.DEAD for state in states.values())
        return len(self._open)

    def why(self) -> "list[Reason]":
        return why_waiting(self._queue, sorted(self._open))

    def _states(self) -> dict[str, State]:
        return self._queue.store.jobs.states(self._ids)

    def conclude(self, talk: bool) -> int:
        # By its whole id: the beginning of a removed job's id may fit another job.
        job = self._queue.store.jobs.get(self._ids[0]) if len(self._ids) == 1 else None
        return self._conclude_all(talk) if job is None else self._conclude_one(job, talk)

    def _conclude_all(self, talk: bool) -> int:
        states = self._states()
        failed = [id for id in self._ids if states.get(id) != State.COMPLETED]
        if talk:
            for id in failed[:MOST_TOLD]:
                job = self._queue.store.jobs.get(id)
                told = describe_end(job, among_others=True) if job else f"Job {id} was removed."
                say(told)
            ends = Counter(states.get(id) for id in self._ids)
            _say_more(len(failed) - MOST_TOLD, ends, self._which)
            say(_summary(ends))
        return EXIT_FAILED if failed else EXIT_DONE

    def _conclude_one(self, job: Job, talk: bool) -> int:
        if talk:
            say(describe_end(job))
        return exit_code_of(self._queue, job)

    def result(self) -> dict[str, object]:
        states = self._states()
        return {"jobs": {id: states[id].value if id in states else None for id in self._ids}}


class _Tagged(_Ids):
    """All jobs with a tag, now or later, finished or not: how it ends doesn't hang on timing."""

    def __init__(self, queue: Queue, which: Filter) -> None:
        jobs = queue.list(which, limit=None, oldest=True)
        super().__init__(queue, [job.id for job in jobs])
        self.again = _listing(which)
        self._which = which
        self._open = {job.id for job in jobs if job.state not in FINISHED}
        self._dead = {job.id for job in jobs if job.state == State.DEAD}
        if not self._ids:
            names = " and ".join(repr(tag) for tag in which.tags)
            raise NotFoundError(f"No job has the tag {names}; see queuectl list.")

    def _add(self, states: tuple[State, ...]) -> list[str]:
        """Take in the jobs that are in these states now; returns them."""
        which = replace(self._which, states=states)
        found = [job.id for job in self._queue.list(which, limit=None, oldest=True)]
        self._ids = list(dict.fromkeys([*self._ids, *found]))
        self.total = len(self._ids)
        return found

    def remaining(self) -> int:
        before, self._open = self._open, set(self._add(OPEN))
        states = self._queue.store.jobs.states(sorted(before - self._open))
        self._dead |= {id for id, state in states.items() if state == State.DEAD}
        self._dead -= self._open  # somebody has retried them
        self.dead = len(self._dead)
        return len(self._open)

    def conclude(self, talk: bool) -> int:
        self._add(FINISHED)  # those that came and went between two looks
        return self._conclude_all(talk)


class _Counted(_Watch):
    """All jobs of some queues or of all, by the counters: it costs the same with ten million."""

    def __init__(self, queue: Queue, queues: Sequence[str]) -> None:
        self._queue = queue
        self._queues = queues
        self._which = Filter(queues=tuple(queues))
        self.again = _listing(self._which)
        self._began = queue.store.now()
        self._before = self._count()

    def _count(self) -> dict[State, int]:
        states = dict.fromkeys(State, 0)
        for count in self._queue.store.jobs.counts():
            if not self._queues or count.queue in self._queues:
                states[count.state] += count.jobs
        return states

    def remaining(self) -> int:
        states = self._count()
        left = sum(states[state] for state in OPEN)
        self.total = max(self.total, left)
        self.dead = max(states[State.DEAD] - self._before[State.DEAD], 0)
        return left

    def why(self) -> "list[Reason]":
        waiting = {
            count.queue
            for count in self._queue.store.jobs.counts()
            if count.jobs
            and count.state in WAITING
            and (not self._queues or count.queue in self._queues)
        }
        jobs = self._queue.list(replace(self._which, states=OPEN), limit=LOOKED_AT + 1)
        none_is_due = why_none_is_due(self._queue, jobs) if len(jobs) <= LOOKED_AT else []
        return [*none_is_due, *self._queue.hindrances(waiting)]

    def _ended(self, state: State) -> int:
        return max(self._count()[state] - self._before[state], 0)

    def conclude(self, talk: bool) -> int:
        if not self.total:
            return _nothing(talk)
        ends: Counter[State | None] = Counter({state: self._ended(state) for state in FINISHED})
        failed = ends.total() - ends[State.COMPLETED]
        if talk:
            told = self._failed() if failed else []
            for job in told:
                say(describe_end(job, among_others=True))
            _say_more(failed - len(told), ends, self._which)
            say(_summary(ends))
        return EXIT_FAILED if failed else EXIT_DONE

    def _failed(self) -> list[Job]:
        """Return some of those that were given up, or called off, since the waiting began."""
        which = replace(self._which, states=NOT_COMPLETED, finished_since=self._began)
        return self._queue.list(which, limit=MOST_TOLD, oldest=True)

    def result(self) -> dict[str, object]:
        ended = {state.value: self._ended(state) for state in FINISHED}
        return {**ended, "left": self.remaining()}


def _listing(which: Filter | None = None) -> str:
    """Say which command shows the jobs that are waited for."""
    return f"see {_command('list', which=which or Filter())}"


def _command(*words: str, which: Filter) -> str:
    """Write a command that is about the jobs that a filter means."""
    chosen = [("--queue", name) for name in which.queues] + [("--tag", tag) for tag in which.tags]
    return again(shlex.join([*words, *(word for pair in chosen for word in pair)]))


def _nothing(talk: bool) -> int:
    if talk:
        say("There is nothing to wait for.")
    return EXIT_DONE


def _say_more(more: int, ends: "Counter[State | None]", which: Filter) -> None:
    """Say how many more failed than were named, and which command names all of them."""
    if more <= 0:
        return
    words = ("dlq", "list") if not ends[State.CANCELLED] else ("list", "--state", "dead,cancelled")
    say(f"... and {more:,} more; see all with: {_command(*words, '--limit', '0', which=which)}")


def _summary(ends: "Counter[State | None]") -> str:
    """Say how many jobs came to which end; None is that of those that were removed."""
    done = ends[State.COMPLETED]
    failed = ends.total() - done
    if not failed:
        return f"{plural(done, 'job')} completed."
    others = [(state, state.value) for state in State if state != State.COMPLETED]
    how = [f"{ends[end]:,} {name}" for end, name in [*others, (None, "removed")] if ends[end]]
    return f"{plural(done, 'job')} completed, {failed:,} did not: {', '.join(how)}."
