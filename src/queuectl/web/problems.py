"""Errors as problem+json (RFC 9457), with the sentence that the command would print."""

from collections.abc import Mapping
from typing import Any

from queuectl.errors import (
    DuplicateError,
    NotFoundError,
    QueuectlError,
    QueueFullError,
    StateError,
    StoreBusyError,
    StoreError,
    StoreFullError,
    StoreMissingError,
    StoreReadOnlyError,
    StoreUnreachableError,
    TaskFailedError,
    UsageError,
)
from queuectl.remote.wire import error_dict
from queuectl.values import dataclass, replace
from queuectl.web.api.once import OtherRequestError
from queuectl.web.call import ForbiddenError

CONTENT_TYPE = "application/problem+json"
TRY_AGAIN = {429: 10, 503: 2}
"""Seconds after which what is refused so may go, where nobody knows better."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Why a request isn't answered as it was asked."""

    status: int
    kind: str
    """A word for programs, which never changes."""
    title: str
    detail: str
    field: str = ""
    """The field of the body that it is about, where it is one."""
    error: Mapping[str, str] | None = None
    """The error of ours that it is, for a `Queue` that makes it again."""

    def as_dict(self) -> dict[str, Any]:
        """Describe it as the media type has it."""
        return {
            "type": f"urn:queuectl:problem:{self.kind}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **({"field": self.field} if self.field else {}),
            **(self.error or {}),
        }

    @property
    def headers(self) -> dict[str, str]:
        """What is said about it besides."""
        wait = TRY_AGAIN.get(self.status)
        return {} if wait is None else {"Retry-After": str(wait)}


class RefusedError(Exception):
    """What HTTP itself has against a request."""

    def __init__(self, problem: Problem, headers: dict[str, str] | None = None) -> None:
        super().__init__(problem.detail)
        self.problem = problem
        self.headers = headers or {}


def refused(status: int, kind: str, title: str, detail: str, **headers: str) -> RefusedError:
    """Refuse a request; headers are named with underscores."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return RefusedError(Problem(status=status, kind=kind, title=title, detail=detail), named)


_KINDS: tuple[tuple[type[QueuectlError], int, str, str], ...] = (
    (ForbiddenError, 403, "forbidden", "Not allowed"),
    (OtherRequestError, 422, "other-request", "Another request has this id or key"),
    (UsageError, 400, "bad-request", "The request is wrong"),
    (NotFoundError, 404, "not-found", "Not found"),
    (DuplicateError, 409, "duplicate", "The name is taken"),
    (QueueFullError, 429, "queue-full", "The queue is full"),
    (StateError, 409, "state", "Not in this state"),
    (TaskFailedError, 409, "failed", "The job has no result"),
    (StoreBusyError, 503, "busy", "The database is busy"),
    (StoreUnreachableError, 503, "unreachable", "The database can't be reached"),
    (StoreFullError, 507, "full", "The database is full"),
    (StoreMissingError, 503, "missing", "The database is gone"),
    (StoreReadOnlyError, 503, "read-only", "The database can't be written"),
    (StoreError, 503, "store", "The database can't be used"),
)
_REFUSED = (QueuectlError, 400, "refused", "Refused")
STATUSES = tuple(sorted({status for _, status, _, _ in _KINDS}))


def outline_of(error: QueuectlError) -> Problem:
    """Say it to somebody who isn't known: what the matter is, and nothing of what is here."""
    problem = problem_of(error)
    return replace(problem, detail=f"{problem.title}.", error=None)


def problem_of(error: QueuectlError) -> Problem:
    """Say what an error of ours is to who asked over HTTP."""
    _, status, kind, title = next((row for row in _KINDS if isinstance(error, row[0])), _REFUSED)
    return Problem(
        status=status,
        kind=kind,
        title=title,
        detail=error.advised,
        field=error.field,
        error=error_dict(error),
    )
