"""Says what becomes of jobs that are changed by hand: in lines, as bare ids, or as JSON."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from queuectl.changes import Changed, Refused
from queuectl.cli.interrupts import Truth, raised
from queuectl.cli.render import JsonStream, complain, is_terminal, plural, safe, say, write
from queuectl.errors import EXIT_DONE, EXIT_FAILED, QueuectlError
from queuectl.explain import listed
from queuectl.job import FINISHED, Job, State
from queuectl.lineage import Along
from queuectl.queue import Queue
from queuectl.report import along_dict, change_dict
from queuectl.titles import titled
from queuectl.values import dataclass, replace

MOST_TOLD = 20
"""Jobs that are told one by one on a terminal; more are only counted."""
WAY_OUT = "Its node is gone; `queuectl worker start` settles that."
"""What helps where a job only seems to run."""


def titled_before(each: Changed) -> str:
    """Name a job by what it was before it is changed."""
    return titled(each.before)


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """How people speak of a change."""

    would: str
    """As in "Would cancel"."""
    done: str
    """As in "3 jobs cancelled"."""
    sentence: Callable[[Queue, Changed], str]
    """Says what became of a job."""
    what: Callable[[Changed], str] = titled_before
    """Says, of what would be done, what it is about."""
    ends_as: State = State.CANCELLED
    """What a job is whose run was ended for it."""
    counts_same: bool = True
    """Whether jobs that stay as they are count."""
    takes_along: bool = False
    """Whether jobs that wait for these are cancelled with them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manner:
    """How a change is made and reported."""

    dry_run: bool = False
    quiet: bool = False
    as_json: bool = False
    yes: bool = False
    wait: bool = False


def taken_along(along: Along) -> str:
    """Name jobs that wait for others."""
    count = len(along.ids)
    more = "" if along.is_whole else "more than "
    what = "job that waits" if count == 1 else "jobs that wait"
    return f"{more}{count:,} {what} for that ({listed(along.ids)})"


class Report(ABC):
    """Says what becomes of jobs, as it happens, and knows the exit code.

    Whoever presses Ctrl+C has been told of all that was changed by then, or is told at the end.
    """

    def __init__(self, queue: Queue, truth: Truth, how: Manner, words: Words) -> None:
        self.queue = queue
        self.truth = truth
        self.how = how
        self.words = words
        self.changed = 0
        """Jobs that were changed for good, or would be."""
        self.code = EXIT_DONE
        self.is_summed = True
        """Whether the number of jobs was said; that of jobs which were named needn't be."""
        self.asked: dict[str, Changed] = {}
        """Running jobs whose nodes were asked to end them."""
        self.along: Along | None = None
        """Jobs that wait for those that are changed, and are cancelled with them."""

    def __enter__(self) -> "Report":
        return self

    @abstractmethod
    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say what is still to be said, however it ended."""

    def named(self, result: Changed | Refused) -> None:
        """Tell what became of a job that was named."""
        if isinstance(result, Changed):
            self._take([result])
            return
        stuck = result.job is not None and self.queue.is_left_behind(result.job)
        text = f"{result.error} {WAY_OUT}" if stuck else result.error.advised
        complain(text)
        self.code = max(self.code, result.error.exit_code)
        self._write_refused(result, text)

    def page(self, page: Sequence[Changed]) -> None:
        """Tell what became of some jobs that fit the filters."""
        self.is_summed = False
        self._take(page)

    def _take(self, page: Sequence[Changed]) -> None:
        running: list[Changed] = []
        if not self.how.dry_run:
            running = [each for each in page if each.after and each.after.state == State.PROCESSING]
            self.asked |= {each.before.id: each for each in running}
        self.changed += len(page) - len(running)
        if not self.words.counts_same and not self.how.dry_run:
            self.changed -= sum(each.after == each.before for each in page)
        self._write(page)

    def done(self) -> str:
        """Say how many jobs were changed by now."""
        more = f", {len(self.asked):,} asked to end" if self.asked else ""
        return f"{plural(self.changed, 'job')} {self.words.done}{more}"

    def wait(self) -> None:
        """Wait for the jobs whose nodes were asked to end them, and tell what they came to."""
        from queuectl.cli.finish import Hint

        ids = list(self.asked)
        hint = Hint(self.queue, lambda: self.queue.explain_some(ids), talk=not self.how.quiet)
        with self._watching():
            ended = self.queue.wait(*ids, tick=lambda _: hint())
        for job in ended:
            self._ended(job)

    def _ended(self, job: Job) -> None:
        error = None
        if job.state != self.words.ends_as:
            error = f"Job {job.id} was {job.state} before it could be {self.words.done}."
            complain(error)
            self.code = max(self.code, EXIT_FAILED)
        else:
            self.changed += 1
        self._write_ended(replace(self.asked.pop(job.id), after=job), error)

    @abstractmethod
    def sum_up(self) -> None:
        """Say how many there were."""

    def told_along(self) -> str | None:
        """Say which jobs are cancelled with others, if some are."""
        if self.along is None or not self.along.ids:
            return None
        told, count, later = taken_along(self.along), len(self.along.ids), self.later()
        if later and len(later) == count:
            return f"{told} will be cancelled as well, when {self._runs()} ended."
        are = "would be" if self.how.dry_run else "is" if count == 1 else "are"
        rest = f"; {listed(later)} when {self._runs()} ended" if later else ""
        return f"{told} {are} cancelled as well{rest}."

    def later(self) -> list[str]:
        """Return which jobs will be cancelled with others only when the runs of these have ended.

        Those that are over by now aren't among them; nor is any as long as nothing runs.
        """
        if self.along is None or self.how.dry_run or not self.asked:
            return []
        states = self.queue.states(self.along.ids)
        return [id for id in self.along.ids if states.get(id) not in (None, *FINISHED)]

    def _runs(self) -> str:
        return "the run has" if len(self.asked) == 1 else "the runs have"

    @abstractmethod
    def _write(self, page: Sequence[Changed]) -> None:
        """Write about jobs that were changed."""

    @abstractmethod
    def _write_refused(self, result: Refused, text: str) -> None:
        """Write about a job that couldn't be changed, besides the complaint."""

    @abstractmethod
    def _watching(self) -> AbstractContextManager[None]:
        """Say all that is known so far, for what comes now may take its time."""

    @abstractmethod
    def _write_ended(self, ended: Changed, error: str | None) -> None:
        """Write about a job that was waited for."""


class TextReport(Report):
    """A line for each job, or its bare id. On a terminal many are only counted."""

    def __init__(self, queue: Queue, truth: Truth, how: Manner, words: Words) -> None:
        super().__init__(queue, truth, how, words)
        self._brief = False

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (KeyboardInterrupt, QueuectlError)):
            self.sum_up()

    def _write(self, page: Sequence[Changed]) -> None:
        # All but the last page are longer than that, so the first one decides.
        self._brief |= len(page) > MOST_TOLD and not self.how.quiet and is_terminal()
        for each in () if self._brief else page:
            write(safe(self._line(each)))
        if self._brief:
            self.truth.check()
        else:
            self.truth.said()

    def _line(self, each: Changed) -> str:
        job = each.before
        if self.how.quiet:
            return job.id
        if self.how.dry_run:
            what = self.words.what(each)
            return f"Would {self.words.would} job {job.id} ({job.state}): {what}"
        return self.words.sentence(self.queue, each)

    def sum_up(self) -> None:
        told, self.along = self.told_along(), None
        if told is not None and not self.how.quiet and self.changed + len(self.asked):
            say(told)
        if self.is_summed or self.how.quiet:
            return
        self.is_summed = True
        if self.how.dry_run:
            hint = "; -q prints their ids" if self._brief else ""
            say(f"{plural(self.changed, 'job')} would be {self.words.done}{hint}.")
        else:
            say(f"{self.done()}.")

    def _write_refused(self, result: Refused, text: str) -> None:
        pass

    def _watching(self) -> AbstractContextManager[None]:
        self.truth.said()
        if self._brief and self.asked:
            say(f"{self.done()}; waiting for their end.")
        return nullcontext()

    def _write_ended(self, ended: Changed, error: str | None) -> None:
        if error is None and not self.how.quiet:
            write(safe(f"Job {ended.before.id} {self.words.done}."))


class JsonReport(Report):
    """One JSON object, which grows as jobs are changed: `dry_run`, `jobs` and their numbers.

    When something ends it early, it is closed with an `error`, and has what was done by then.
    """

    def __init__(self, queue: Queue, truth: Truth, how: Manner, words: Words) -> None:
        super().__init__(queue, truth, how, words)
        self._stream = JsonStream({"dry_run": how.dry_run}, "jobs")
        self._numbers = {"changed": 0, "asked": 0, "failed": 0}

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for each in self.asked.values() if self.how.wait else ():
            self._add("asked", change_dict(each))
        if error is None:
            along: dict[str, Any] = {}
            if self.along is not None:
                later = {} if self.how.dry_run else {"when_ended": self.later()}
                along = {"along": along_dict(self.along) | later}
            self._stream.end(**self._numbers, **along)
        elif self._stream.is_begun:
            self._stream.end(**self._numbers, error=str(error) or "interrupted")

    def sum_up(self) -> None:
        """Say nothing: the numbers are at the end of the object."""

    def _add(self, number: str, job: dict[str, Any]) -> None:
        self._numbers[number] += 1
        self._stream.add(job)

    def _write(self, page: Sequence[Changed]) -> None:
        for each in page:
            if each.before.id not in self.asked:
                self._add("changed", change_dict(each))
            elif not self.how.wait:
                self._add("asked", change_dict(each))
        self.truth.check()

    def _write_refused(self, result: Refused, text: str) -> None:
        self._add("failed", change_dict(result) | {"error": text})

    def _watching(self) -> AbstractContextManager[None]:
        return raised()

    def _write_ended(self, ended: Changed, error: str | None) -> None:
        number = "changed" if error is None else "failed"
        self._add(number, change_dict(ended) | {"error": error})
