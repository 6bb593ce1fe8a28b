"""Group commit: jobs of several who don't know of each other, stored in one durable write.

Each has an outcome of its own, its job or its error, as if it had been stored by itself.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from queuectl.enqueueing import Enqueuer
from queuectl.errors import (
    DuplicateError,
    StoreBusyError,
    StoreError,
    StoreUnreachableError,
    StoreUnsettledError,
)
from queuectl.job import Job, NewJob
from queuectl.store.contract import Store
from queuectl.store.ids import job_ids
from queuectl.values import dataclass, replace

_OF_ALL = (StoreBusyError, StoreUnreachableError)
"""What isn't due to what is stored: whoever comes next waits as long, and meets the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A request that was read and completed, and can be stored."""

    new: NewJob
    now: int
    """When it was read, from which its delay counts."""
    named: bool
    """Whether others may know of its id."""

    @property
    def may_wait(self) -> bool:
        """Whether to store it may take as long as others please, who have locked what it needs."""
        new = self.new
        waits = new.after or new.after_group or new.group is not None
        return bool(self.named or new.unique is not None or new.has_limits or waits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A job that is stored; it isn't new if it was there: by the same request, or a unique key."""

    job: Job
    is_new: bool = True


Outcome = Stored | Exception


class Together:
    """Stores jobs for all who ask at the same moment."""

    def __init__(self, store: Store, enqueuer: Enqueuer) -> None:
        self._store = store
        self._enqueuer = enqueuer

    def prepare(
        self, fields: Mapping[str, Any], *, digest: str | None = None, named: bool | None = None
    ) -> Prepared:
        """Read and complete a request.

        One with a `digest` comes to the job that is there under its id, if a request with the same
        digest has stored that. If an id was made of what nobody else says, it isn't `named`.
        """
        now = self._store.clock.now()
        new = self._enqueuer.complete_one(fields, now)
        if digest is not None:
            new = replace(new, body_digest=digest)
        named = new.id is not None if named is None else named
        if new.unique is not None and new.id is None:
            # By its id it is known whether it was added, or another one has the key.
            (id,) = job_ids(1)
            new = replace(new, id=id)
        return Prepared(new=new, now=now, named=named)

    def add(self, prepared: Sequence[Prepared]) -> list[Outcome]:
        """Store jobs in one durable write, and return what became of each.

        If one of them makes that fail, nothing of it is left, and each is stored by itself.
        """
        if len(prepared) > 1:
            try:
                return self._store.transact(lambda: [self._part(one) for one in prepared])
            except StoreError as error:
                if isinstance(error, _OF_ALL):
                    return [error] * len(prepared)
            except Exception:  # noqa: BLE001 - whose it is, that one will hear below
                pass
        return self._one_by_one(prepared)

    def _part(self, one: Prepared) -> Outcome:
        try:
            return self._take(one)
        except DuplicateError as error:
            # That was seen before anything was written.
            return error

    def _one_by_one(self, prepared: Sequence[Prepared]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for one in prepared:
            try:
                outcomes.append(self._take(one))
            except Exception as error:  # noqa: BLE001 - it is for who asked to see
                outcomes.append(error)
                if isinstance(error, _OF_ALL) and not isinstance(error, StoreUnsettledError):
                    return outcomes + [error] * (len(prepared) - len(outcomes))
        return outcomes

    def _take(self, one: Prepared) -> Stored:
        new = one.new
        try:
            job = self._enqueuer.take_complete(new, one.now)
            return Stored(job=job, is_new=new.id in (None, job.id))
        except DuplicateError:
            there = None if new.id is None else self._store.jobs.get(new.id)
            if there is None or new.body_digest is None or there.body_digest != new.body_digest:
                raise
            return Stored(job=there, is_new=False)
