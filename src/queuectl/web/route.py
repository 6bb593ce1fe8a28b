"""What a route of the API is: the table that the application, the document and the tests share."""

from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum
from typing import Any

from queuectl.access import Right
from queuectl.values import dataclass, field
from queuectl.web.call import Call

Schema = Mapping[str, Any]
"""A JSON Schema, as OpenAPI 3.1 has it."""
Handler = Callable[[Call], Any]

JSON = "application/json"
LINES = "application/jsonl"
CSV = "text/csv; charset=utf-8"
STREAM = "text/event-stream"
BYTES = "application/octet-stream"

LONGEST = 64 << 10
"""Bytes of a body that says little."""
LONGEST_LIST = 8 << 20
"""Bytes of one that has a list of ids, or what somebody wants to keep."""
LONGEST_JOB = 24 << 20
"""Bytes of one that has a job: stdin of 16 MiB in base64, and the rest."""


class Scope(StrEnum):
    """What of the whole a route is about."""

    ALL = "all"
    """All queues: who is let in for some of them only may not use it."""
    QUEUE = "queue"
    """One queue or some: the handler keeps to those that the grant is good for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Param:
    """Something that may be said in the query."""

    name: str
    schema: Schema
    about: str
    many: bool = False
    """Whether it may come several times."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """What one method does at one path."""

    method: str
    path: str
    group: str
    name: str
    about: str
    needs: Right | None
    """None if anybody may, also without being known."""
    run: Handler
    scope: Scope = Scope.QUEUE
    query: tuple[Param, ...] = ()
    headers: tuple[Param, ...] = ()
    takes: Schema | None = None
    """What its body must be; None if it has none."""
    takes_as: str = JSON
    longest: int = LONGEST
    """Bytes that its body may have."""
    slow: bool = False
    """Whether it waits for somebody else, and so may take long."""
    optional: bool = False
    """Whether the body may be left out."""
    adds: bool = False
    """Whether it adds a job, and may do that together with other requests."""
    answers: Schema | None = None
    """What it answers; None for nothing."""
    answers_as: str = JSON
    status: int = 200
    also: tuple[int, ...] = ()
    """Other answers that are no errors of all routes."""
    reads: bool = False
    """Whether it changes nothing, though its method says that it may."""

    @property
    def changes(self) -> bool:
        """Whether it may change anything."""
        return not self.reads and self.method not in ("GET", "HEAD")


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Routes about one subject, in their order."""

    name: str
    about: str
    routes: list[Route] = field(default_factory=list)

    def __iter__(self) -> Iterator[Route]:
        return iter(self.routes)

    def add(self, method: str, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Have a function answer a method at a path; its docstring says what that does."""

        def register(run: Handler) -> Handler:
            about = run.__doc__ or ""
            name = run.__name__.rstrip("_")
            route = Route(
                method=method,
                path=path,
                group=self.name,
                name=name,
                about=about,
                run=run,
                **{"needs": Right.SEE, **more},
            )
            self.routes.append(route)
            return run

        return register

    def get(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Register what reads."""
        return self.add("GET", path, **more)

    def post(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Register what does something."""
        return self.add("POST", path, **more)

    def put(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Register what sets something, however often it is asked."""
        return self.add("PUT", path, **more)

    def patch(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Register what changes a part of something."""
        return self.add("PATCH", path, **more)

    def delete(self, path: str, **more: Any) -> Callable[[Handler], Handler]:
        """Register what takes something away."""
        return self.add("DELETE", path, **{"status": 204, **more})
