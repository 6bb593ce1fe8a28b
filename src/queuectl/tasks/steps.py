"""Steps of a task: parts of it that are done once, however often its job runs.

What a step returns is stored as JSON, by its annotation, under the job and the step's name.
"""

import asyncio
import inspect
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, get_type_hints, overload

from queuectl.errors import LeaseLostError, UsageError
from queuectl.facts import Sleep, Step
from queuectl.job import Job, Named
from queuectl.lineage import Relative
from queuectl.tasks.codec import Codec, MisfitError, codec_of
from queuectl.tasks.outcomes import Asleep, LeaseLost

if TYPE_CHECKING:
    from queuectl.awaiting import Duration
    from queuectl.store.contract import RunId, Wish

P = ParamSpec("P")
R = TypeVar("R")


class Keeper(Protocol):
    """What steps need of the queue that their job is of."""

    def now(self) -> int:
        """Return the time."""

    def begin_step(self, run: "RunId", name: str, *, connection: Any = None) -> Step | None:
        """Return a step that is done; None if it is yet to be done."""

    def keep_step(self, run: "RunId", name: str, output: bytes, *, connection: Any = None) -> None:
        """Store that a step is done."""

    def parents(self, id: Named) -> "Sequence[Relative]":
        """Return the jobs that one has waited for."""

    def results(self, jobs: Sequence[Job]) -> dict[int, Any]:
        """Return what jobs came to."""

    def fall_asleep(self, run: "RunId", wish: "Wish") -> Step | Sleep:
        """Return the step of a sleep that is over, or begin it."""


@contextmanager
def fenced() -> Iterator[None]:
    """Stop the run at what it can't write any more."""
    try:
        yield
    except LeaseLostError as error:
        raise LeaseLost(str(error)) from None


class Steps:
    """Does the steps of one run: it is called with a name, a function and its arguments.

    Each name comes once in a run. What is done already is skipped, and what it returned is returned
    again. If a connection is given, that it is done is stored in its transaction: it is if and only
    if that is committed.
    """

    def __init__(self, queue: Keeper, run: "RunId", connection: Any = None) -> None:
        self._queue = queue
        self._run = run
        self._connection = connection

    @overload
    def __call__(
        self, name: str, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> R: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    def __call__(self, name: Any, function: Any = None, /, *args: Any, **kwargs: Any) -> Any:
        """Do a step, or return what it came to; or, as a decorator, make one of a function."""
        if function is None:
            if not callable(name):
                raise UsageError(f"Say which function step {name!r} calls.")
            return self._decorated(name)
        codec = _returns(name, function)
        if inspect.iscoroutinefunction(function) or getattr(function, "is_async", False):
            return self._later(name, function, codec, args, kwargs)
        done = self._begin(name)
        if done is not None:
            return _read(done, codec)
        value = function(*args, **kwargs)
        self._keep(name, _written(name, value, codec))
        return value

    def _decorated(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name = getattr(function, "__name__", repr(function))

        @wraps(function)
        def step(*args: Any, **kwargs: Any) -> Any:
            return self(name, function, *args, **kwargs)

        return step

    async def _later(self, name: str, function: Any, codec: Codec, args: Any, kwargs: Any) -> Any:
        """Do the same with a function that is to be awaited, and let others go on meanwhile."""
        if self._connection is not None:
            raise UsageError(
                f"Step {name!r} is async; one in a transaction of a connection can't be."
            )
        done = await asyncio.to_thread(self._begin, name)
        if done is not None:
            return _read(done, codec)
        value = await function(*args, **kwargs)
        await asyncio.to_thread(self._keep, name, _written(name, value, codec))
        return value

    def _begin(self, name: str) -> Step | None:
        with fenced():
            return self._queue.begin_step(self._run, name, connection=self._connection)

    def _keep(self, name: str, output: bytes) -> None:
        with fenced():
            self._queue.keep_step(self._run, name, output, connection=self._connection)


def _returns(name: str, function: Any) -> Codec:
    """Return what writes and reads what a function returns, by its annotation."""
    target = getattr(function, "function", function)
    try:
        hints = get_type_hints(target, include_extras=True) if callable(target) else {}
    except (NameError, TypeError):
        # Of a class, or of one that isn't Python's; or it names what isn't there.
        hints = {}
    try:
        return codec_of(hints.get("return", Any))
    except TypeError as error:
        raise UsageError(f"Step {name!r}: what it returns: {error}.") from None


def _written(name: str, value: Any, codec: Codec) -> bytes:
    try:
        encoded = None if value is None else codec.encode(value)
    except MisfitError as error:
        raise TypeError(f"step {name!r}: its result{error.place} {error.text}") from None
    return json.dumps(encoded, ensure_ascii=False, separators=(",", ":")).encode(
        "utf-8", "surrogatepass"
    )


def _read(step: Step, codec: Codec) -> Any:
    value = json.loads(step.output.decode("utf-8", "surrogatepass"))
    try:
        return None if value is None else codec.decode(value)
    except MisfitError as error:
        raise TypeError(
            f"step {step.name!r} was done, but its result{error.place} {error.text}"
        ) from None


def sleep(queue: Keeper, run: "RunId", length: "Duration", name: str | None) -> None:
    """Return if a sleep is over; else end the run, for that long."""
    from queuectl.awaiting import read_sleep

    _pass(queue, run, read_sleep(length, name, queue.now()))


def wait_for(
    queue: Keeper, run: "RunId", awaited: str, timeout: "Duration | None", name: str | None
) -> Any:
    """Return what was emitted; else end the run, until it is. In vain, it is a `TimeoutError`."""
    from queuectl.awaiting import read_await

    done = _pass(queue, run, read_await(awaited, timeout, name))
    if not done.output:
        raise TimeoutError(f"nothing was emitted as {awaited!r} in time")
    return json.loads(done.output)


def _pass(queue: Keeper, run: "RunId", wish: "Wish") -> Step:
    with fenced():
        found = queue.fall_asleep(run, wish)
    if isinstance(found, Sleep):
        raise Asleep(str(found))
    return found
