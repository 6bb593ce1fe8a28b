"""The verbs about runs: claims, ends, rescues, pauses."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from queuectl.admission import ALL_QUEUES, Candidate, Offer, Serving, admit, admit_limited, line_up
from queuectl.errors import LeaseLostError
from queuectl.facts import Pause, Reservation, Use
from queuectl.job import ANY_HANDLER, FINISHED, NEEDS, Attempt, Job, State
from queuectl.lifecycle import expired, has_failed
from queuectl.limits import Gate, Limits, refunded
from queuectl.store.contract import DecidePauses, Ended, Outlook, Over, Runs, Turned
from queuectl.store.histogram import bucket_of
from tests.contract.tools import MINUTE
from tests.contract.toy.edges import Ending
from tests.contract.toy.jobs import ToyJobs
from tests.contract.toy.memory import Memory, wall
from tests.contract.toy.nodes import ToyNodes
from tests.contract.toy.stocking import Stocked, uses, valid_reservations


class ToyRuns(Runs):
    def __init__(self, memory: Memory, jobs: ToyJobs, nodes: ToyNodes) -> None:
        self._memory = memory
        self._jobs = jobs
        self._nodes = nodes

    def turn(
        self, node: str, over: Over | None, offer: Offer | None, *, now: int | None = None
    ) -> Turned:
        at = wall() if now is None else now
        turned = self._end(node, over, at) if over is not None else Turned()
        if offer is None or not offer.workers:
            return turned
        jobs, buried, limited, waits = self._claim(node, offer, at)
        return turned._replace(jobs=jobs, buried=buried, limited=limited, waits=waits)

    def rescue(
        self,
        node: str,
        plan: Callable[[Sequence[Job], int], Over],
        *,
        beat: int | None = None,
        registered: bool = True,
    ) -> Turned | None:
        if registered:
            gone = self._nodes.forget(node, beat=beat)
            if beat is not None and not gone:
                return None
        elif node in self._memory.nodes:
            return None
        now = wall()
        return self._end(node, plan(self.held(node), now), now)

    def _end(self, node: str, over: Over, now: int) -> Turned:
        stuck = [job for job in over.unstarted if not self._release(job, now)]
        for job in over.unstarted:
            if job not in stuck:
                self._jobs.edges.groups.move(job, State.PENDING)
        self._jobs.edges.groups.settle(now)

        def asked() -> Mapping[int, Job]:
            return {job.seq: job for job in self.held(node, to_cancel=True)}

        ends = [self._asleep(end) for end in over.judge(stuck, asked, now)]
        finished = [self._finish(end) for end in ends]
        lost = [end for end, is_done in zip(ends, finished, strict=True) if not is_done]
        done = [end for end, is_done in zip(ends, finished, strict=True) if is_done]
        states = list(dict.fromkeys(end.transition.state for end in done))
        done.sort(key=lambda end: states.index(end.transition.state))
        self._jobs.call_hooks([(self._memory.line[end.job.id], end.outcome) for end in done])
        ends_told = [
            Ending(end.job.id, end.transition.state, end.settled_at, action)
            for end in done
            if end.transition.state in FINISHED
            for action in [self._action_of(end, end.transition.reason)]
        ]
        for end in done:
            action = self._action_of(end, end.transition.reason, end.job.cancel_reason)
            self._jobs.edges.groups.move(end.job, end.transition.state, action=action)
        self._jobs.edges.settle(ends_told)
        if done:
            self._jobs.edges.groups.settle(max(end.settled_at for end in done))
        if over.note is not None:
            kept = [(job, None) for job in over.unstarted if job not in stuck]
            told = [*kept, *((end.job, end) for end in ends if end not in lost)]
            events = [over.note(job, end, now) for job, end in told]
            self._memory.events += [event for event in events if event is not None]
        return Turned(ends=ends, lost=lost)

    def _claim(self, node: str, offer: Offer, now: int) -> tuple[list[Job], list[Job], bool, bool]:
        memory = self._memory
        if not self._nodes.holds_lease(node):
            raise LeaseLostError("lost")
        late = sorted(self._expired(now), key=lambda job: job.seq)[:1_000]
        for job in late:
            memory.line[job.id] = memory.moved(job, expired(job), now)
        buried = [memory.line[job.id] for job in late]
        for job in buried:
            memory.died(job, now, node)
            memory.over(job, State.DEAD)
        self._jobs.call_hooks([(job, None) for job in buried])
        for job in late:
            self._jobs.edges.groups.move(job, State.DEAD)
        self._jobs.edges.settle([Ending(job.id, State.DEAD, now) for job in buried])
        self._jobs.edges.groups.settle(now)
        for job in self._due(now):
            memory.ready[job.id] = 1
            memory.line[job.id] = replace(job, state=State.PENDING)
        waiting = [job for id, job in memory.line.items() if memory.ready.get(id) == 1]
        waiting = [job for job in waiting if self._serves(offer.queues, job)]
        waiting = [job for job in waiting if job.expires_at is None or job.expires_at > now]
        lines = {
            queue: [_candidate(job) for job in sorted(waiting, key=_in_line) if job.queue == queue]
            for queue in {job.queue for job in waiting}
        }
        needy = any(job.handler.startswith(NEEDS) for job in waiting)
        stocked = Stocked(memory, offer, node, waiting, now) if needy else None
        line_of = list(line_up(lines, offer))
        chosen, workers, limited = self._admit(line_of, offer, node, now, stocked)
        line = {job.seq: job for job in waiting}
        pairs = zip(workers, chosen, strict=False)
        jobs = [self._begin(line[one.seq], node, worker, now) for worker, one in pairs]
        if stocked is None:
            return jobs, buried, limited, False
        for job in jobs:
            memory.line[job.id] = replace(job, devices=stocked.keeper.devices.get(job.seq, {}))
        stocked.keep(jobs)
        jobs = [memory.line[job.id] for job in jobs]
        return jobs, buried, limited, stocked.keeper.waits

    def _admit(
        self,
        line: list[Candidate],
        offer: Offer,
        node: str,
        now: int,
        stocked: "Stocked | None",
    ) -> tuple[list[Candidate], Sequence[int], bool]:
        memory = self._memory
        limited = {job.queue: memory.limits(job.queue) for job in line}
        gates = {
            queue: Gate(
                limits,
                [
                    ((job.node, job.worker), job.keys)
                    for job in memory.running()
                    if job.queue == queue
                ],
                memory.meters.get(queue, {}),
                memory.vtimes.get(queue, 0),
                now,
            )
            for queue, limits in limited.items()
            if limits is not None
        }
        if stocked is not None:
            line = stocked.first_in(line)
        elif not gates:
            return admit(line[: len(offer.workers)], offer, now), offer.workers, False
        keeper = None if stocked is None else stocked.keeper
        admitted = admit_limited(line, offer, now, gates, node, keeper)
        for queue, gate in gates.items():
            memory.vtimes[queue] = gate.vtime
            memory.meters[queue] = memory.meters.get(queue, {}) | gate.charged
        return admitted.taken, admitted.workers, bool(gates)

    def _serves(self, queues: Serving, job: Job) -> bool:
        info = self._memory.queues.get(job.queue)
        paused = info is not None and info.paused_at is not None
        return not paused and queues.takes(job.queue, job.handler)

    def _begin(self, job: Job, node: str, worker: int, now: int) -> Job:
        memory = self._memory
        del memory.ready[job.id]
        memory.line[job.id] = replace(
            job,
            state=State.PROCESSING,
            attempts=job.attempts + 1,
            node=node,
            worker=worker,
            started_at=now,
            updated_at=now,
            finished_at=None,
            duration_ms=None,
            exit_code=None,
            reason=None,
            cancel_reason=None,
        )
        return memory.line[job.id]

    def _expired(self, now: int) -> list[Job]:
        waiting = [self._memory.line[id] for id in self._memory.ready]
        return [job for job in waiting if job.expires_at is not None and job.expires_at <= now]

    def _due(self, now: int) -> list[Job]:
        memory = self._memory
        delayed = [memory.line[id] for id, ready in memory.ready.items() if not ready]
        return [job for job in delayed if job.run_at <= now and job.parked is None]

    def using(self) -> list[Use]:
        return uses(self._memory)

    def reservations(self) -> list[Reservation]:
        return valid_reservations(self._memory)

    def before(self, job: Job, limit: int) -> int:
        line, ready = self._memory.line, self._memory.ready
        same = [line[id] for id in ready if ready[id] and line[id].queue == job.queue]
        same = [other for other in same if other.handler == job.handler]
        return min(sum(_in_line(other) < _in_line(job) for other in same), limit)

    def lines(self, limit: int) -> dict[tuple[str, str], int]:
        line, ready = self._memory.line, self._memory.ready
        everything = Serving(handlers=(ANY_HANDLER,))
        found = [line[id] for id in ready if ready[id] and self._serves(everything, line[id])]
        counted = Counter((job.queue, job.handler) for job in found if job.handler)
        return {pair: min(jobs, limit) for pair, jobs in counted.items()}

    def opens_at(self, queue: str, key: str) -> int | None:
        return None

    def outlook(self, queues: Serving | None = None) -> Outlook:
        line, ready = self._memory.line, self._memory.ready
        due = [
            line[id].run_at
            for id, is_ready in ready.items()
            if not is_ready and line[id].parked is None
        ]
        expiring = [at for id in ready if (at := line[id].expires_at) is not None]
        return Outlook(
            any(
                self._serves(queues or ALL_QUEUES, line[id])
                for id, is_ready in ready.items()
                if is_ready
            ),
            min(due, default=None),
            min(expiring, default=None),
        )

    def _action_of(self, end: Ended, *whys: str | None) -> str | None:
        """Return the action that last asked for the end of a job, if it was for one of these."""
        kinds = ("cancel", "force-finish")
        events = [one for one in self._memory.events if one.job == end.job.id]
        found = [one for one in events if one.kind in kinds][-1:]
        return next((one.action for one in found if one.detail and one.detail in whys), None)

    def _asleep(self, end: Ended) -> Ended:
        sleep = self._memory.sleeps.get(end.job.id)
        sleeps = sleep is not None and sleep.number == end.job.attempts
        return end.if_asleep(sleep) if sleep and sleeps and end.if_asleep else end

    def _finish(self, end: Ended) -> bool:
        memory, to = self._memory, end.transition
        job = memory.line.get(end.job.id)
        same = memory.is_same(job, end.job, State.PROCESSING)
        if not same or job is None or job.node != end.job.node:
            return False
        exit_code = getattr(end.outcome, "code", None)
        error = None if to.state == State.COMPLETED else end.error
        job = replace(
            memory.moved(job, to, end.settled_at),
            started_at=end.started_at,
            duration_ms=end.duration_ms,
            exit_code=exit_code,
            error=error,
            cancel_reason=None,
        )
        memory.line[job.id] = job
        run = Attempt(
            job=job.id,
            number=job.attempts,
            node=job.node or "",
            host=end.host,
            worker=job.worker or 0,
            started_at=end.started_at,
            finished_at=end.finished_at,
            duration_ms=end.duration_ms,
            outcome=end.outcome.name,
            exit_code=exit_code,
            signal=getattr(end.outcome, "signal", None),
            error=error,
            stdout_bytes=end.output.stdout_bytes,
            stderr_bytes=end.output.stderr_bytes,
            peak_memory=end.used.peak_memory,
            cpu_ms=end.used.cpu_ms,
            read_bytes=end.used.read_bytes,
            written_bytes=end.used.written_bytes,
            noted=end.noted,
        )
        memory.attempts[job.seq] = [*memory.attempts[job.seq], run]
        memory.outputs[job.seq, job.attempts] = end.output
        if end.result is not None and to.state == State.COMPLETED:
            memory.results[job.id] = (job.attempts, end.result)
        memory.keep(end.event)
        self._tally(end, to.state.value, end.duration_ms)
        self._tally(end, "wait", max(0, end.started_at - end.job.run_at))
        if has_failed(end.outcome, to.state):
            self._tally(end, f"failure {end.outcome.name}", 0)
        if job.state == State.DEAD:
            memory.died(job, end.settled_at, job.node)
        memory.over(job, job.state)
        return True

    def _tally(self, end: Ended, measure: str, ms: int) -> None:
        at = end.settled_at - end.settled_at % MINUTE
        key = (at, end.job.queue, end.job.node or "", measure, bucket_of(ms))
        self._memory.merge(key, (1, ms, ms, ms))

    def _release(self, seen: Job, now: int) -> bool:
        memory = self._memory
        job = memory.line.get(seen.id)
        same = memory.is_same(job, seen, State.PROCESSING)
        if not same or job is None or job.node != seen.node or job.cancel_reason is not None:
            return False
        memory.ready[job.id] = 1
        limits = memory.limits(job.queue) or Limits()
        meters = memory.meters.get(job.queue, {})
        back = {
            key: refunded(limits.key_rates if key else limits.rates, meters[key], 1)
            for key in ("", *job.keys)
            if key in meters
        }
        memory.meters[job.queue] = meters | back
        memory.line[job.id] = replace(
            job,
            state=State.PENDING,
            attempts=job.attempts - 1,
            node=None,
            worker=None,
            started_at=None,
            updated_at=now,
        )
        return True

    def oldest(self, queue: str, priorities: Sequence[int], *, limit: int) -> int | None:
        line, ready = self._memory.line, self._memory.ready
        found = [line[id] for id in ready if ready[id] and line[id].queue == queue]
        lines: dict[tuple[str, int], list[Job]] = {}
        for job in sorted(found, key=_in_line):
            if job.priority in priorities:
                lines.setdefault((job.handler, job.priority), []).append(job)
        first = [job.run_at for same in lines.values() for job in same[:limit]]
        return min(first, default=None)

    def busy(self) -> dict[str, int]:
        at_work = {(job.node or "", job.worker) for job in self._memory.running()}
        return dict(Counter(node for node, _ in at_work))

    def held(self, node: str | None, *, to_cancel: bool = False) -> list[Job]:
        if node is None:
            return [job for job in self._memory.running() if job.node not in self._memory.nodes]
        mine = [job for job in self._memory.running() if job.node == node]
        return [job for job in mine if job.cancel_reason is not None] if to_cancel else mine

    def pauses(self) -> list[Pause]:
        return list(self._paused([job.seq for job in self._memory.running()]).values())

    def _paused(self, seqs: Sequence[int]) -> dict[int, Pause]:
        jobs = {job.seq: job for job in self._memory.running()}
        known = self._memory.pauses
        return {n: known[n] for n in sorted(seqs) if n in known and known[n].is_of(jobs[n])}

    def set_paused(
        self, jobs: Sequence[Job], decide: DecidePauses, *, now: int | None = None
    ) -> set[int]:
        memory = self._memory
        held = {job.seq: found for job in jobs if (found := memory.by_seq(job.seq)) is not None}
        running = [seq for seq, job in held.items() if job.state == State.PROCESSING]
        paused = self._paused(running)
        events = decide(held, paused, wall() if now is None else now)
        for seq, event in events.items():
            memory.pauses.pop(seq, None)
            if seq not in paused:
                at = max(event.at, held[seq].started_at or 0)
                memory.pauses[seq] = Pause(seq=seq, number=held[seq].attempts, at=at, who=event.who)
            memory.keep(event)
        return set(events)


def _candidate(job: Job) -> Candidate:
    return Candidate(
        job.priority,
        job.seq,
        job.crashes,
        job.run_at,
        job.vtime,
        None,
        job.queue,
        job.keys,
        job.handler,
    )


def _in_line(job: Job) -> tuple[int, int, int]:
    return -job.priority, job.vtime, job.seq
