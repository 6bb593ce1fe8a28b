"""The verbs about the output of runs that go on."""

from collections.abc import Sequence

from queuectl.job import Job
from queuectl.store.contract import LONGEST_PIECE, LiveOutput, Piece, Shown
from tests.contract.toy.memory import Memory


class ToyLiveOutput(LiveOutput):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def watch(self, job: Job, *, until: int, now: int, first: bool = False) -> None:
        run = (job.seq, job.attempts)
        if self._memory.watches.get(run, 0) <= now:
            self._drop(run)
        self._memory.watches[run] = until

    def _drop(self, run: tuple[int, int]) -> None:
        for key in [key for key in self._memory.live if key[:2] == run]:
            del self._memory.live[key]

    def watched(self, jobs: Sequence[Job], *, now: int) -> dict[int, int]:
        runs = {(job.seq, job.attempts) for job in jobs}
        found = self._memory.watches.items()
        return {run[0]: until for run, until in found if run in runs and until > now}

    def show(self, *shown: Shown) -> None:
        live = self._memory.live
        for job, stream, pieces, gap in shown:
            mine = (job.seq, job.attempts, stream)
            live.update({(*mine, piece.start): piece.data for piece in pieces})
            first, before = gap or (0, 0)
            for key in [key for key in live if key[:3] == mine and first <= key[3] < before]:
                del live[key]

    def pieces(self, job: Job, stream: str, *, after: int) -> list[Piece]:
        mine = (job.seq, job.attempts, stream)
        found = sorted((k[3], data) for k, data in self._memory.live.items() if k[:3] == mine)
        return [
            Piece(stream=stream, start=start, data=data)
            for start, data in found
            if start > after - LONGEST_PIECE and (start == after or start + len(data) > after)
        ][:8]

    def end(self, job: Job) -> None:
        self._memory.watches.pop((job.seq, job.attempts), None)
        self._drop((job.seq, job.attempts))
