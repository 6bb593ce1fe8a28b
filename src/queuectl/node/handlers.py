"""Runs that are handled by warm programs: each worker has its own, of each kind that it needs.

The guard starts these programs, and ends them with all that they started: so no job outlives its
node. What a program was handed and hasn't begun is released when it dies; what it had begun is over
as it died. A worker has one run at a time, whoever runs it: what is for another program than the
run before it, or is a command, is passed on when that is over.
"""

import select
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import inf
from time import monotonic
from typing import TYPE_CHECKING

from queuectl.errors import QueuectlError
from queuectl.guard import wire
from queuectl.handlers import lines
from queuectl.job import (
    Cancelled,
    Job,
    Outcome,
    Raised,
)
from queuectl.node.fleet import Fleet
from queuectl.node.handover import HandedGuard
from queuectl.node.lanes import Lanes
from queuectl.node.log import printable
from queuectl.node.processes import Processes
from queuectl.node.runs import SUCCESS, Handled, LostRun, Run, outcome_of
from queuectl.node.said import (
    SILENT,
    check_run,
    end_of,
    failure,
    hide,
    output_left,
    output_of,
    output_since,
    result_of,
    show,
    tell_progress,
    unbegun,
    why_none,
)
from queuectl.node.warm import Handed, Message, Warm, stand_still
from queuectl.request import check_data_size
from queuectl.spool import token_of
from queuectl.store.contract import RunId

if TYPE_CHECKING:
    Heard = LostRun | Handled | wire.Message
Deed = Callable[[Warm, int], None]
"""What is done with a run that a program was handed."""

PAUSE = "paused"
SHARED = (
    "its bounds can't be kept: it runs in a program that many jobs share; give them to commands, or"
    " have a program of its own for each job of this type (worker start --exec)"
)
"""Why a job with bounds isn't handed to a warm program."""
MOST_UNKNOWN = 10_000
"""Lines that a handler may say whose words we don't know. More, and it speaks something else."""


@dataclass(eq=False, kw_only=True)
class Handlers:
    """The runner of a node that has warm programs: see `Runner` for what it promises."""

    processes: Processes
    _lanes: Lanes = field(default_factory=Lanes)
    _news: "list[Heard]" = field(default_factory=list)
    """What became of runs that were never passed on."""

    def __post_init__(self) -> None:
        self._fleet = Fleet(self.processes)

    # -- from beginning to end ----------------------------------------------------------

    def open(self) -> None:
        self.processes.member.keep_boards()
        self.processes.open()

    def inherit(self, handed: Sequence[HandedGuard]) -> None:
        self.processes.member.keep_boards()
        self.processes.inherit(handed)

    def hand_over(self) -> list[HandedGuard]:
        self._fleet.close()
        return self.processes.hand_over()

    def close(self) -> None:
        for warm in self._fleet:
            warm.hang_up(0)
        self.processes.close()
        self._fleet.close()

    def listen(self, poll: "select.poll") -> None:
        self.processes.listen(poll)
        self._fleet.listen(poll)

    # -- telling ------------------------------------------------------------------------

    def start(self, runs: Mapping[int, Run]) -> "Iterable[wire.Report]":
        workers = {self._lanes.add(number, run): None for number, run in runs.items()}
        return [report for worker in workers for report in self._advance(worker)]

    def _advance(self, worker: int) -> "list[wire.Report]":
        """Pass on what may be passed on of what waits for its worker."""
        commands: dict[int, Run] = {}
        told: Warm | None = None
        for number, run in self._lanes.waiting(worker):
            if not self._fits(worker, run):
                break
            kind = self._fleet.kind(run)
            if kind is None:
                self._lanes.pass_on(number, None)
                commands[number] = run
                continue
            if run.job.bounds:
                self._lanes.over(number)
                self._news.append(wire.NotStarted(number, 0, SHARED))
                continue
            try:
                told = self._fleet.program(kind, worker)
            except (OSError, QueuectlError) as error:
                self._lanes.over(number)
                self._news.append(wire.Unable(number, 0, str(error)))
                continue
            self._lanes.pass_on(number, told)
            self._hand(told, number, run)
        if told is not None:
            told.send()
        return list(self.processes.start(commands)) if commands else []

    def _fits(self, worker: int, run: Run) -> bool:
        """Tell whether a run can be passed on behind those of its worker that were."""
        if not self._lanes.at_work(worker):
            return True
        to = self._lanes.passed_to(worker)
        if to is None:
            return self._fleet.kind(run) is None
        return (
            not to.retiring
            and len(to.runs) < to.handler.shared_by + to.ahead
            and self._fleet.kind(run) is to.handler
        )

    def _hand(self, warm: Warm, number: int, run: Run) -> None:
        """Hand a run to a program."""
        if not warm.handler.is_ours:
            # It doesn't say in time what it begins, so all that it gets counts.
            board = self.processes.member.board
            assert board is not None
            board.note(warm.worker, token_of(run.job))
        warm.hand(number, run)
        if warm.is_ready and not warm.begun and not warm.handler.is_ours:
            self._begin(warm, number)
        if warm.handed == warm.handler.max_jobs:
            self._fleet.retire(warm)

    def stop(self, runs: Mapping[int, Run], how: str) -> None:
        begun = partial(self._ask_to_end, how=how)
        self.processes.stop(self._withdraw(runs, how, begun), how)

    def kill(self, runs: Mapping[int, Run], how: str) -> None:
        def begun(warm: Warm, number: int) -> None:
            self._end_program(warm, number, how, wire.Kill(warm.number, how))

        self.processes.kill(self._withdraw(runs, how, begun), how)

    def release(self, runs: Mapping[int, Run]) -> None:
        self.processes.release(self._withdraw(runs, wire.RELEASE, _leave_alone))

    def _withdraw(self, runs: Mapping[int, Run], how: str, begun: Deed) -> dict[int, Run]:
        """Have runs not begin; with those that have, do this. Return the commands among them."""

        def waiting(number: int) -> None:
            # From here on it isn't passed on any more.
            self._lanes.over(number)
            self._news.append(unbegun(number, how))

        return self._each(runs, waiting, partial(self._drop, how=how), begun)

    def _each(
        self,
        runs: Mapping[int, Run],
        waiting: Callable[[int], None],
        handed: Deed,
        begun: Deed,
    ) -> dict[int, Run]:
        """Do with each run what is to be done where it is, and return the commands among them."""
        commands = {}
        for number, run in runs.items():
            warm = self._lanes.having(number)
            if self._lanes.waits(number):
                waiting(number)
            elif warm is None:
                commands[number] = run
            elif number in warm.begun:
                begun(warm, number)
            else:
                handed(warm, number)
        return commands

    def _drop(self, warm: Warm, number: int, how: str) -> None:
        """Have a program not begin a run, for this reason."""
        handed = warm.runs[number]
        if not handed.unwanted:
            warm.tell({"drop": number})
        handed.unwanted = how

    def _ask_to_end(self, warm: Warm, number: int, how: str) -> None:
        """Ask a run to come to its end; its program is ended when its grace is over."""
        handed = warm.begun[number]
        if not handed.ending:
            handed.ending = how
            handed.give_up = monotonic() + self._fleet.grace
            self._ask_again(warm, number, handed)

    def _ask_again(self, warm: Warm, number: int, handed: Handed) -> None:
        warm.tell({"stop": number, "why": handed.ending})
        again = self.processes.config.settings.kill_interval / 1000
        handed.due = min(monotonic() + again, handed.give_up)

    def _end_program(
        self, warm: Warm, number: int, how: str, order: "wire.Stop | wire.Kill"
    ) -> None:
        """End a program because of a run of it."""
        handed = warm.begun[number]
        handed.ending = handed.ending or how
        handed.due = inf
        warm.ended_for = number if warm.ended_for is None else warm.ended_for
        self._fleet.retire(warm)
        self._fleet.order(warm, order)

    def pause(self, runs: Mapping[int, Run]) -> None:
        handed = partial(self._drop, how=PAUSE)
        begun = partial(self._set_still, still=True)
        self.processes.pause(self._each(runs, self._lanes.hold, handed, begun))

    def resume(self, runs: Mapping[int, Run]) -> None:
        def waiting(number: int) -> None:
            self._news += self._advance(self._lanes.unhold(number))

        def handed(warm: Warm, number: int) -> None:
            # If its program drops it, it is released: it may begin then, here or elsewhere.
            warm.runs[number].unwanted = ""

        begun = partial(self._set_still, still=False)
        self.processes.resume(self._each(runs, waiting, handed, begun))

    def _set_still(self, warm: Warm, number: int, *, still: bool) -> None:
        """Have the program of a run stand still, or go on."""
        if warm.handler.shared_by > 1:
            why = "it can't be paused, as it shares its process with others"
            self._news.append(wire.Trouble(number, why))
            return
        self._fleet.order(warm, (wire.Pause if still else wire.Resume)(warm.number))
        stand_still(warm.begun[number], still=still)

    def abandon(self, runs: Mapping[int, Run]) -> None:
        self.processes.abandon(runs)

    # -- hearing ------------------------------------------------------------------------

    def count_warm(self) -> int:
        return len([*self._fleet])

    @property
    def settled(self) -> bool:
        return self.processes.settled and not any(warm.runs for warm in self._fleet)

    def watch_for_room(self) -> None:
        self.processes.watch_for_room()
        for warm in self._fleet:
            if warm.has_unsent:
                warm.send()

    def stalls_in(self) -> float:
        if self._news:
            return 0.0
        due = self._fleet.look_at
        for warm in self._fleet:
            due = min(due, warm.next_due())
            if warm.has_unsent:
                # It reads soon; nobody tells us when.
                due = min(due, monotonic() + 0.01)
        return min(self.processes.stalls_in(), due - monotonic())

    def speaks(self, ready: Collection[int]) -> bool:
        return self.processes.speaks(ready) or any(warm.fileno() in ready for warm in self._fleet)

    def hear(self, ready: Collection[int], runs: Mapping[int, Run]) -> "Iterator[Heard]":
        for warm in self._fleet:
            if warm.fileno() in ready:
                yield from self._hear_program(warm)
        self._keep_time()
        for message in self.processes.hear(ready, runs):
            program = self._fleet.get(getattr(message, "run", 0))
            if isinstance(message, LostRun) and not self._lanes.with_guard(message.run):
                # It waits for its turn, or its program is found to be gone below.
                continue
            if program is None and getattr(message, "run", 0) < 0:
                continue
            if program is None:
                yield from self._over(message)
            elif not isinstance(message, wire.Trouble):
                yield from self._gone(program, message)
        pids = self.processes.guards.pids()
        for warm in [warm for warm in self._fleet if warm.guard not in pids]:
            lost = LostRun(warm.number, "the process that watched it was killed", begun=True)
            yield from self._gone(warm, lost)
        told = bool(self._news)
        while self._news:
            yield from self._over(self._news.pop(0))
        for worker in self._lanes.workers if told else ():
            # What was withdrawn may have been in the way of others.
            for report in self._advance(worker):
                yield from self._over(report)

    def _over(self, message: "Heard") -> "Iterator[Heard]":
        """Pass a report on, and then what waited for that."""
        if isinstance(message, wire.Trouble | wire.Ready):
            yield message
            return
        worker = self._lanes.over(message.run)  # type: ignore[union-attr]
        yield message
        if self._lanes.has_waiting(worker):
            for report in self._advance(worker):
                yield from self._over(report)

    def _hear_program(self, warm: Warm) -> "Iterator[Heard]":
        try:
            for message in warm.hear():
                yield from self._heed(warm, message)
        except (lines.NoLineError, ValueError, TypeError) as error:
            self.processes.say(
                f"{warm.handler.name}, which handles jobs of worker {warm.worker}, said what"
                f" isn't of the protocol: {error}.",
                level="error",
            )
            warm.blame = f"its program said what isn't of the protocol: {error}"
            self._fleet.retire(warm)
            self._fleet.order(warm, wire.Kill(warm.number, wire.EXITED))

    def _heed(self, warm: Warm, message: Message) -> "Iterator[Heard]":
        if not check_run(message):
            warm.unknown += 1
            if warm.unknown > MOST_UNKNOWN:
                raise lines.NoLineError(f"{MOST_UNKNOWN:,} lines with words that aren't known")
        match message:
            case {"done": number} if number in warm.runs:
                yield from self._end(warm, number, SUCCESS, message)
            case {"failed": number} if number in warm.runs:
                yield from self._end(warm, number, failure(message), message)
            case {"began": number} if number in warm.runs and number not in warm.begun:
                self._begin(warm, number)
            case {"dropped": number} if number in warm.runs:
                yield from self._dropped(warm, number)
            case {"progress": number} if number in warm.begun:
                tell_progress(warm.runs[number].run, message)
            case {"update": number, "data": str(data)} if number in warm.begun:
                self._update(warm.runs[number].run.job, data)
            case {"ready": _}:
                self._greeted(warm, message)
            case {"unable": text}:
                warm.unable = str(text)
            case {"leaves": _}:
                self._fleet.retire(warm)
                warm.leave_by = monotonic() + self._fleet.grace

    def _update(self, job: Job, data: str) -> None:
        """Have other data for a job, as its run says."""
        run = RunId(job.id, job.attempts, job.node or "")
        try:
            checked = check_data_size("data", data.encode("utf-8", "surrogatepass"))
            self.processes.store.reports.set_data(run, lambda _: checked)
        except QueuectlError as error:
            self.processes.say(f"The data of job {job.id} stay as they are: {error}", level="error")

    def _greeted(self, warm: Warm, message: Message) -> None:
        warm.is_ready = True
        pid, ahead = message.get("pid"), message.get("ahead")
        warm.pid = pid if isinstance(pid, int) else 0
        if isinstance(ahead, int):
            warm.ahead = max(0, min(ahead, lines.MOST_AHEAD))
        self._fleet.watch_memory(warm)
        printed = output_of(message) if warm.handler.is_ours else SILENT
        for line in (printed.stdout + printed.stderr).decode("utf-8", "replace").splitlines()[:20]:
            self.processes.say(f"{warm.handler.name}: {printable(line)}")
        if warm.runs and not warm.begun and not warm.handler.is_ours:
            self._begin(warm, next(iter(warm.runs)))
        self._news += self._advance(warm.worker)

    def _begin(self, warm: Warm, number: int) -> None:
        job = warm.runs[number].run.job
        settings = self.processes.config.settings_of(job)
        timeout = settings.job_timeout if job.timeout is None else job.timeout
        handed = warm.begin(number, timeout / 1000 if timeout else None)
        # Our own program sees to that itself.
        handed.shown = warm.handler.is_ours
        if handed.unwanted == PAUSE:
            self._set_still(warm, number, still=True)
        elif handed.unwanted and handed.unwanted != wire.RELEASE:
            self._ask_to_end(warm, number, handed.unwanted)

    def _dropped(self, warm: Warm, number: int) -> "Iterator[Heard]":
        handed = warm.end(number)
        warm.handed -= 1
        if handed.unwanted == PAUSE:
            self._lanes.take_back({number: handed.run})
            self._lanes.hold(number)
        else:
            yield from self._over(unbegun(number, handed.unwanted))
        self._fleet.let_go(warm)

    def _end(
        self, warm: Warm, number: int, outcome: Outcome, message: Message
    ) -> "Iterator[Heard]":
        if number not in warm.begun:
            # It says only how it ended.
            self._begin(warm, number)
        handed = warm.end(number)
        warm.over += 1
        job = handed.run.job
        if handed.ending:
            # However it ends then, as with commands: it may have left something out.
            settings = self.processes.config.settings_of(job)
            outcome = outcome_of(job, 1, handed.ending, settings)
        elif outcome is not SUCCESS and job.cancel_reason is not None:
            outcome = Cancelled(job.cancel_reason)
        result = None
        if "result" in message and outcome is SUCCESS:
            try:
                result = result_of(message["result"])
            except ValueError as error:
                outcome = Raised(f"its result {error}")
        if warm.handler.is_ours:
            output = output_of(message)
        else:
            output = output_since(warm, self.processes.config.settings.output_limit)
            if handed.shown:
                hide(handed.run)
        if (next_one := message.get("next")) in warm.runs:
            self._begin(warm, next_one)
        elif not warm.begun and warm.runs and not warm.handler.is_ours:
            # It has nothing else to do.
            self._begin(warm, next(iter(warm.runs)))
        yield from self._over(Handled(number, outcome, handed.began, monotonic(), output, result))
        self._fleet.let_go(warm)

    # -- time ---------------------------------------------------------------------------

    def _keep_time(self) -> None:
        now = monotonic()
        for warm in self._fleet:
            if warm.leave_by <= now:
                warm.leave_by = inf
                self._fleet.order(warm, wire.Stop(warm.number, wire.EXITED))
            for number, handed in list(warm.begun.items()):
                if not handed.shown and handed.began + lines.SHOWN_AFTER <= now:
                    handed.shown = True
                    show(warm, handed.run)
                if handed.due > now:
                    continue
                if not handed.ending:
                    self._ask_to_end(warm, number, wire.TIMEOUT)
                elif handed.give_up <= now:
                    stop = wire.Stop(warm.number, handed.ending)
                    self._end_program(warm, number, handed.ending, stop)
                else:
                    self._ask_again(warm, number, handed)
        if self._fleet.look_at <= now:
            for warm, why in self._fleet.weigh():
                warm.blame = why
                kill = wire.Kill(warm.number, wire.EXITED)
                self._end_program(warm, next(iter(warm.begun)), wire.EXITED, kill)

    # -- the end of programs ------------------------------------------------------------

    def _gone(self, warm: Warm, report: "Heard") -> "Iterator[Heard]":
        """Say what became of the runs of a program that is gone."""
        # It says nothing more: what is left is what fits into its pipe.
        warm.is_read_out = False
        while not warm.is_read_out:
            yield from self._hear_program(warm)
        why = why_none(warm, report)
        self._fleet.forget(warm)
        if why:
            self.processes.say(f"{why}.", level="error")
        for number in list(warm.begun):
            handed = warm.end(number)
            settings = self.processes.config.settings_of(handed.run.job)
            outage = self.processes.member.lease.outage
            outcome = end_of(warm, number, handed, report, settings, outage=outage)
            output = output_left(warm, self.processes.config.settings.output_limit)
            hide(handed.run)
            yield from self._over(Handled(number, outcome, handed.began, monotonic(), output, None))
        back: dict[int, Run] = {}
        for number in list(warm.runs):
            handed = warm.end(number)
            if handed.unwanted not in ("", PAUSE):
                yield from self._over(unbegun(number, handed.unwanted))
            elif getattr(report, "how", "") == wire.LEASE:
                yield from self._over(wire.Released(number))
            elif why:
                yield from self._over(wire.Unable(number, 0, why))
            else:
                # The next program gets it.
                back[number] = handed.run
                if handed.unwanted:
                    self._lanes.hold(number)
        warm.close()
        for worker in self._lanes.take_back(back):
            for message in self._advance(worker):
                yield from self._over(message)


def _leave_alone(_warm: Warm, _number: int) -> None:
    """Let a run that has begun go on."""
