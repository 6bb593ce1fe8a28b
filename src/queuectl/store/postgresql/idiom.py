"""How PostgreSQL does what is hot: a claim in one statement, COPY, counters that are appended."""

import json
from collections.abc import Mapping, Sequence
from functools import partial

from queuectl.admission import Candidate, Offer
from queuectl.errors import StoreUnreachableError
from queuectl.job import ANY_TYPE, Job
from queuectl.store.changed import Changed
from queuectl.store.contract import Turned
from queuectl.store.driver import ConflictError, DisconnectedError, Params
from queuectl.store.idiom import Idiom, no_lease
from queuectl.store.rows import NewRow, filled, named
from queuectl.store.session import Session

FOLD_AT = 200
"""How many rows of changed counters there may be before they are added up."""
COPY_FROM = 20
"""How many jobs at once are worth a COPY, which runs the triggers once for all of them."""


class PostgresIdiom(Idiom):
    """The way of PostgreSQL."""

    # -- storing ------------------------------------------------------------------------

    def insert_job(self, row: NewRow) -> int:
        session = self.db.here
        return super().insert_job(row) if session.depth else self._insert_alone(session, row)

    def _insert_alone(self, session: Session, row: NewRow) -> int:
        """Store a job in a statement that is a transaction by itself."""
        driver, receipt = self.db.driver, session.next_receipt()
        text = driver.text(self.sql.ENQUEUE_ALONE)
        try:
            rows = session.ask(driver.rows, text, named(row) | receipt)
        except DisconnectedError as error:
            session.settle(receipt["serial"], error)
            return self._place_of(row[0])
        return int(rows[0][0])

    def _place_of(self, id: str) -> int:
        """Return the place of a job that is stored; 0 if nobody can say, or it is gone again."""
        try:
            jobs = self.jobs(self.sql.GET, id=id)
        except StoreUnreachableError:
            return 0
        return jobs[0].seq if jobs else 0

    def insert_jobs(self, rows: Sequence[NewRow]) -> None:
        if len(rows) < COPY_FROM:
            super().insert_jobs(rows)
        else:
            self.db.load("jobs", *filled(rows))

    def must_tell(self, change: Changed) -> bool:
        # A trigger has told those who listen of new jobs. Behind a pooler nobody does.
        return not change.new or self.db.driver.pooled

    # -- claiming -----------------------------------------------------------------------

    _was_limited = False
    """Whether the last claim had to ask limits."""

    def claim(self, node: str, offer: Offer, now: int | None) -> Turned:
        """Claim in one statement; step by step, if something has to be seen to first.

        Or if the node has an order of its own among its queues, or limits or needs kept the last
        claim from being one statement: then they most likely do again.
        """
        serving = offer.queues
        # Of types that have names, those that need something aren't one range.
        named = serving.has_classes and not {*serving.handlers} <= {ANY_TYPE}
        if offer.order is not None or self._was_limited or named:
            turned = super().claim(node, offer, now)
            self._was_limited = turned.limited or turned.waits
            return turned
        then = self.time(now)

        def claim() -> Turned | None:
            nonlocal then
            then = self.time(now)
            session, asked = self.db.here, _asked(node, offer, then)
            at_once, alone = self.sql.CLAIM_AT_ONCE, self.sql.CLAIM_ALONE
            if serving.has_lines:
                at_once, alone = self.sql.CLAIM_LINES_AT_ONCE, self.sql.CLAIM_LINES_ALONE
                if serving.has_classes:
                    at_once = self.sql.CLAIM_CLASSES_AT_ONCE
                    alone = self.sql.CLAIM_CLASSES_ALONE
                asked = {**asked, **self.handled(serving)}
            if session.depth:
                turned, ahead = self._claim_at_once(session, at_once, asked)
            else:
                turned, ahead = self._claim_alone(session, alone, asked)
            then -= ahead
            return turned

        claimed = self.db.alone(claim)
        if claimed is not None:
            return claimed
        turned = self.db.atomic(lambda: self.claim_within(node, offer, then))
        self._was_limited = turned.limited or turned.waits
        return turned

    def first_of_lines(self, lines: Sequence[tuple[str, str, int]], now: int) -> list[Candidate]:
        names = ("queue_", "handler_", "limit_")
        rows = json.dumps([dict(zip(names, line, strict=True)) for line in lines])
        found = self.db.rows(self.sql.FIRST_OF_LINES, rows=rows, now=now)
        return [Candidate._make((*row, None, queue, (), handler)) for queue, handler, *row in found]

    def _claim_alone(
        self, session: Session, statement: str, asked: Params
    ) -> tuple[Turned | None, int]:
        """Claim in a statement that is a transaction by itself."""
        receipt = session.next_receipt()
        try:
            return self._claim_at_once(session, statement, {**receipt, **asked})
        except DisconnectedError as error:
            mine = {"serial": receipt["serial"], "node": asked["node"]}
            return session.settle(mine["serial"], error, partial(self._claimed, mine)), 0

    def _claim_at_once(
        self, session: Session, statement: str, asked: Params
    ) -> tuple[Turned | None, int]:
        """Run the statement that claims, if it can do all there is; says how far we ran ahead."""
        rows, ahead = session.timed(statement, asked)
        if not rows or rows[0][2]:
            raise no_lease(asked["node"])
        if rows[0][1]:
            return None, ahead
        jobs = [Job.from_row(row[3:]) for row in rows if row[3] is not None]
        if jobs and ahead and session.depth:
            raise ConflictError(f"The clock of {self.db.driver.url} was put back.")
        session.wrote |= bool(jobs)
        self.unlimited |= {job.queue for job in jobs}
        jobs.sort(key=lambda job: (-job.priority, job.vtime, job.seq))
        return Turned(jobs), ahead

    def _claimed(self, mine: Params, client: str) -> Turned:
        """Return the jobs of a claim whose answer was lost."""
        return Turned(self.jobs(self.sql.CLAIMED, client=client, **mine))

    # -- ending -------------------------------------------------------------------------

    def end_runs(self, rows: Mapping[int, Params]) -> set[int]:
        return self.db.update(self.sql.FINISH_AND_KEEP, list(rows.values()))

    # -- counters -----------------------------------------------------------------------

    def fold(self) -> None:
        if self.db.value(self.sql.MANY_COUNTS, limit=FOLD_AT) >= FOLD_AT:
            self.db.again(self.sql.FOLD)


def _asked(node: str, offer: Offer, now: int) -> Params:
    return {
        "node": node,
        "workers": list(offer.workers),
        "limit": len(offer.workers),
        "queues": list(offer.queues.names),
        "excluded": list(offer.queues.excluded),
        "crashes": None if offer.suspects is None else offer.suspects.crashes,
        "now": now,
    }
