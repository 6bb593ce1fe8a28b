"""A task: a function that can be called now, or enqueued to be called by a worker."""

import inspect
import sys
from asyncio import to_thread
from collections.abc import Callable, Coroutine, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from queuectl.errors import QueuectlError, UsageError
from queuectl.fields import Keywords
from queuectl.job import Job, State
from queuectl.tasks.signature import Signature

if TYPE_CHECKING:
    from datetime import timedelta

    from queuectl.queue import Queue

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class TaskFailedError(QueuectlError):
    """A job whose result was waited for has none: it is dead, or was cancelled."""


class Task(Generic[P, R, C]):
    """A registered function. To call it is a plain call; `enqueue` has a worker call it.

    `R` is what its job comes to; `C` what a call returns, which is to be awaited if it is async.
    """

    def __init__(
        self, queue: "Queue", function: Callable[P, C], name: str, options: Mapping[str, Any]
    ) -> None:
        """Take the queue, the function, its name there, and the fields that its jobs have."""
        self._queue = queue
        self.function = function
        self.name = name
        self.options = dict(options)
        self.signature = Signature(name, function)
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    def using(self, *, connection: Any = None, **options: "Unpack[Keywords]") -> "Task[P, R, C]":
        """Return the same task with other fields for its jobs: `run_at="+5m"`, `priority=9`.

        With a `connection`, jobs are stored as a part of its transaction: see `Queue.enqueue`.
        """
        other = copy(self)
        other.options = {**self.options, **options}
        other._connection = connection
        return other

    _connection: Any = None

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Have a worker call the function; arguments that don't fit are a `BadJobError`."""
        fields = self.request(args, kwargs)
        job = self._queue.enqueue(connection=self._connection, **fields)
        return TaskJob(self._queue, self, job)

    delay = enqueue

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Do as `enqueue` does, and let others go on meanwhile."""
        return await to_thread(self.enqueue, *args, **kwargs)

    def request(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a job that calls the function with these arguments."""
        bound = self.signature.bind(args, kwargs)
        fields = {
            name: self._filled(name, value, bound) if name in _TEMPLATES else value
            for name, value in self.options.items()
        }
        return {**fields, "type": self.name, "data": self.signature.write(bound)}

    def _filled(self, name: str, template: Any, bound: Mapping[str, Any]) -> Any:
        """Fill arguments into what a job is unique by, or has as keys: `"{user_id}"`."""
        if isinstance(template, str):
            try:
                return template.format_map(bound)
            except (LookupError, AttributeError, ValueError, TypeError) as error:
                raise UsageError(
                    f"Task {self.name}: {name} {template!r} can't be filled in:"
                    f" {type(error).__name__} {error}."
                ) from None
        if isinstance(template, list | tuple):
            return [self._filled(name, one, bound) for one in template]
        return template


class TaskJob(Generic[R]):
    """A job that calls a task: what it came to can be waited for."""

    def __init__(self, queue: "Queue", task: Task[..., R, Any], job: Job) -> None:
        self._queue = queue
        self._task = task
        self.job = job
        """As it was when it was enqueued."""
        self.id = job.id

    def __repr__(self) -> str:
        return f"<TaskJob {self.id} of {self._task.name}>"

    def result(self, timeout: "str | float | timedelta | None" = None) -> R:
        """Wait for the job, and return what its task did.

        `TimeoutError` if that takes longer; a `TaskFailedError` if it was in vain.
        """
        [job] = self._queue.wait(self.id, timeout=timeout)
        if job.state != State.COMPLETED:
            why = job.reason or job.error or ""
            raise TaskFailedError(f"Job {self.id} of {self._task.name} is {job.state}: {why}")
        found: R = self._task.signature.read_result(self._queue.result(self.id))
        return found

    async def aresult(self, timeout: "str | float | timedelta | None" = None) -> R:
        """Do as `result` does, and let others go on meanwhile."""
        return await to_thread(self.result, timeout)


_TEMPLATES = {"unique", "key", "keys"}


class Register(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


def register(
    queue: "Queue", function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
) -> Task[..., Any, Any]:
    """Make a task of a function, as `Queue.task` does."""
    task: Task[..., Any, Any] = Task(queue, function, name or name_of(function), options)
    other = queue.tasks.setdefault(task.name, task)
    if other is not task and other.function.__code__ is not function.__code__:
        raise UsageError(f"There is a task {task.name} already; give one of them another name=.")
    queue.tasks[task.name] = task
    return task


def name_of(function: Callable[..., Any]) -> str:
    """Return the name under which a function is registered: that of its module, and its own."""
    module = function.__module__
    if module == "__main__":
        # A worker that is told to use this file imports it by that name.
        main = sys.modules["__main__"]
        spec = getattr(main, "__spec__", None)
        path = getattr(main, "__file__", None)
        if spec is None and path is None:
            raise UsageError(
                "A task that is typed in can't be found by a worker; put it in a file."
            )
        module = spec.name.removesuffix(".__main__") if spec is not None else Path(str(path)).stem
    qualified = function.__qualname__
    if "<locals>" in qualified or "<lambda>" in qualified:
        raise UsageError(f"{qualified} is made inside of a function; give the task a name=.")
    return f"{module}.{qualified}"
