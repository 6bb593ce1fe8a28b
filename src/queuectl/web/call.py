"""What a handler is called with, and what it may answer besides a value."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from queuectl.access import RIGHTS, Grant, Right, Role
from queuectl.action import Action, one_action
from queuectl.errors import NotFoundError, UsageError, did_you_mean, shown
from queuectl.filter import Filter
from queuectl.host import acting_as
from queuectl.scope import keeping_to
from queuectl.values import dataclass, field, replace

if TYPE_CHECKING:
    from queuectl.job import Job
    from queuectl.queue import Queue
    from queuectl.together import Outcome, Prepared, Stored

LONG_PART = 4 << 20
"""Bytes of lines that are together without more of them."""


class ForbiddenError(UsageError):
    """Who asks is known, and may not do that."""


def lacking(right: Right, who: str, what: str = "That") -> ForbiddenError:
    """Refuse what needs a right that somebody doesn't have, and say which role has it."""
    roles = " or ".join(role for role in Role if right in RIGHTS[role])
    return ForbiddenError(
        f"{what} needs the right to {right}, which {who} hasn't.",
        advice=f"it takes a token or a link with the role {roles}.",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """A value with more than that said about it."""

    value: Any = None
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Values that are sent one after the other, a line of JSON each, as they come."""

    values: Iterable[Any]
    kind: str = "application/jsonl"
    """What they are if they are no JSON: bytes then, lines that are sent as they are."""
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Later:
    """An answer that is given when a job is finished, or its time is over."""

    job: "Job"
    seconds: float
    then: Callable[[], Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Adding:
    """An answer that is given when a job is stored, by itself or together with others."""

    prepared: "Prepared"
    then: "Callable[[Stored], Any]"
    otherwise: Callable[[Exception], Exception]
    """Says what is told of an error."""

    def told_as(self, show: Callable[[Any], Any]) -> "Adding":
        """Return the same with another form of the answer."""
        return replace(self, then=lambda stored: show(self.then(stored)))

    def answer(self, outcome: "Outcome") -> Any:
        """Return what is answered to what became of the job, or raise what is told."""
        if isinstance(outcome, Exception):
            raise self.otherwise(outcome)
        return self.then(outcome)


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A request that may be answered: who asks, and for what."""

    queue: "Queue"
    grant: Grant
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    """What was sent, as JSON says it; of lines, an iterator of these and their bytes."""
    base: str = ""
    """What comes before the paths of the API, as who asks sees it."""
    may_submit: bool = True
    """Whether anything may be made to run through this server at all."""

    action: Action = field(default_factory=Action)
    """All that is done for this request."""

    # -- who may ------------------------------------------------------------------------

    @property
    def who(self) -> str:
        """Who asks, for the record."""
        return f"{self.grant.name} ({'proxy' if self.grant.is_of_proxy else 'web'})"

    @contextmanager
    def acting(self) -> Iterator[None]:
        """Let what is done inside be on record as done for who asks, and keep to their queues."""
        with acting_as(self.who), keeping_to(self.grant.queues), one_action(self.action):
            yield

    def may(self, right: Right) -> bool:
        """Tell whether who asks may do this, here."""
        return self.grant.may(right) and (right != Right.SUBMIT or self.may_submit)

    def need(self, right: Right, what: str) -> None:
        """Refuse what needs a right that who asks doesn't have."""
        if not self.may(right):
            raise lacking(right, self.grant.name, what)

    def need_queue(self, name: str) -> str:
        """Return the name of a queue, if who asks may have to do with it."""
        if not self.grant.is_for(name):
            raise ForbiddenError(
                f"{self.grant.name} may have nothing to do with queue {shown(name)}."
            )
        return name

    # -- jobs ---------------------------------------------------------------------------

    def job(self, id: str | None = None) -> "Job":
        """Return the job that is asked for, by its id; another is found by no beginning of it."""
        name = self.path["id"] if id is None else id
        job = self.queue.find(name)
        if job is None or not self.grant.is_for(job.queue):
            raise NotFoundError(f"There is no job {shown(name)}.")
        return job

    def within(self, which: Filter) -> Filter:
        """Return a filter that finds nothing which who asks mustn't see."""
        allowed = self.grant.queues
        if not allowed:
            return which
        for name in which.queues:
            self.need_queue(name)
        return which if which.queues else replace(which, queues=allowed)

    # -- what was sent ------------------------------------------------------------------

    def said(self, *known: str, need: tuple[str, ...] = ()) -> dict[str, Any]:
        """Return the fields of the body, which has no others than these, and those it needs."""
        body = {} if self.body is None else self.body
        if not isinstance(body, dict):
            raise UsageError("The body must be a JSON object.")
        for name in body:
            if name not in known:
                hint = did_you_mean(name, known, f"it takes {', '.join(known) or 'none'}.")
                raise UsageError(f"There is no field {shown(name)} here; {hint}")
        for name in need:
            if body.get(name) is None:
                raise UsageError(f"The field {name!r} is missing.")
        return dict(body)

    def lines(self, longest: int) -> list[Any]:
        """Return all lines of the body, if they have no more bytes than that."""
        found: list[Any] = []
        length = 0
        for line, size in self.body:
            length += size
            if length > longest:
                raise UsageError(
                    f"Lines of more than {longest:,} bytes can't be stored all at once;"
                    " split them, or keep going, which stores part by part."
                )
            found.append(line)
        return found

    def parts(self, most: int) -> Iterator[list[Any]]:
        """Yield the lines of the body, so many at a time, or fewer where they are long.

        When the rest of a part doesn't come, or isn't taken any more, it isn't yielded at all.
        """
        part: list[Any] = []
        length = 0
        for line, size in self.body:
            part.append(line)
            length += size
            if len(part) == most or length >= LONG_PART:
                yield part
                part, length = [], 0
        if part:
            yield part


def text(said: Mapping[str, Any], name: str, default: str | None = None) -> str | None:
    """Return a field that is text."""
    value = said.get(name)
    if value is None:
        return default
    if not isinstance(value, str):
        raise UsageError(f"{name} must be text, not {shown(value)}.")
    return value


def flag(said: Mapping[str, Any], name: str) -> bool:
    """Return a field that is true or false; left out, it is false."""
    value = said.get(name)
    if value is not None and not isinstance(value, bool):
        raise UsageError(f"{name} must be true or false, not {shown(value)}.")
    return bool(value)
