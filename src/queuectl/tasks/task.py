"""A task: a function that can be called now, or enqueued to be called by a worker."""

import inspect
import sys
from asyncio import to_thread
from collections.abc import Callable, Coroutine, Mapping, MutableMapping, Sequence
from copy import copy
from datetime import timedelta
from pathlib import Path
from string import Formatter
from typing import Any, Generic, ParamSpec, Protocol, TypeVar, Unpack, overload

from queuectl.errors import NotFoundError, TaskFailedError, UsageError, shown
from queuectl.fields import Keywords
from queuectl.job import TYPE, Job, Named, State
from queuectl.request import read_some
from queuectl.tasks.codec import MisfitError
from queuectl.tasks.signature import Signature
from queuectl.tasks.steps import Keeper

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C")


class TaskOptions(Keywords, total=False):
    """The options of a task: the fields of its jobs, also under the short names of these."""

    retries: int
    key: str


class Home(Keeper, Protocol):
    """What a task needs of the queue that it is registered in."""

    @property
    def tasks(self) -> "MutableMapping[str, Task[..., Any, Any]]":
        """All that are registered there, by their names."""

    def enqueue(
        self, what: None = None, *, connection: Any = None, **fields: Unpack[Keywords]
    ) -> Job:
        """Store a job."""

    def get(self, id: Named) -> Job:
        """Return a job as it is now."""

    def find(self, id: str) -> Job | None:
        """Return the job with exactly this id."""

    def wait(self, *ids: Named, timeout: "str | float | timedelta | None" = None) -> list[Job]:
        """Wait for jobs."""

    def results(self, jobs: Sequence[Job]) -> dict[int, Any]:
        """Return what jobs came to."""


class Task(Generic[P, R, C]):
    """A registered function. To call it is a plain call; `enqueue` has a worker call it.

    `R` is what its job comes to; `C` what a call returns, which is to be awaited if it is async.
    """

    def __init__(
        self, queue: Home, function: Callable[P, C], name: str, options: Mapping[str, Any]
    ) -> None:
        """Take the queue, the function, its name there, and the fields that its jobs have."""
        self._queue = queue
        self.function = function
        self.name = name
        self.signature = Signature(name, function)
        self.options = self._checked(options)
        self.is_async = inspect.iscoroutinefunction(function)
        self.__doc__ = function.__doc__
        self.__name__ = getattr(function, "__name__", name)
        self.__module__ = function.__module__
        self.__wrapped__ = function

    @property
    def queue(self) -> Home:
        """The queue that it is registered with."""
        return self._queue

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Call the function, here and now."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<Task {self.name}>"

    @property
    def as_hook(self) -> str:
        """What a job has as `on_dead`, or the like, that is to call this with the job as a dict."""
        if self.signature.sole() is None:
            raise UsageError(f"Task {self.name} can't be a hook: that is called with one dict.")
        return f"{TYPE}{self.name}"

    def using(self, *, connection: Any = None, **options: Unpack[TaskOptions]) -> "Task[P, R, C]":
        """Return the same task with other fields for its jobs: `run_at="+5m"`, `priority=9`.

        With a `connection`, jobs are stored as a part of its transaction: see `Queue.enqueue`.
        """
        other = copy(self)
        other.options = self._checked({**self.options, **options})
        other._connection = connection
        return other

    _connection: Any = None

    def call(self, *args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        """Return the request for a job that calls the function: for graphs and `enqueue_many`."""
        return self.request(args, kwargs)

    def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Have a worker call the function; arguments that don't fit are a `BadJobError`."""
        fields = self.request(args, kwargs)
        job = self._queue.enqueue(connection=self._connection, **fields)
        made: TaskJob[R] = TaskJob(self._queue, self, job)
        if at_once is not None and self._connection is None:
            at_once(made)
        return made

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Do as `enqueue` does."""
        return self.enqueue(*args, **kwargs)

    async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> "TaskJob[R]":
        """Do as `enqueue` does, and let others go on meanwhile."""
        return await to_thread(self.enqueue, *args, **kwargs)

    def job(self, id: str) -> "TaskJob[R]":
        """Return a job of this task by its id; `NotFoundError` if it has none of that id."""
        found = self._queue.find(id)
        if found is None or found.task != self.name:
            raise NotFoundError(f"There is no job {shown(id)} of task {self.name}.")
        return TaskJob(self._queue, self, found)

    def request(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a job that calls the function with these arguments."""
        bound = self.signature.bind(args, kwargs)
        whole = {**self.signature.defaults, **bound}
        fields = {
            name: self._filled(name, value, whole) if name in _TEMPLATES else value
            for name, value in self.options.items()
        }
        if fields.get("unique") is not None:
            # Keys are of the whole store; another task may have the same arguments.
            fields["unique"] = f"{self.name}:{fields['unique']}"
        return {**fields, "type": self.name, "data": self.signature.write(bound)}

    def _checked(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return options by the names of their fields, or raise `UsageError`."""
        if wrong := sorted(options.keys() & _OWN):
            raise UsageError(f"Task {self.name}: {wrong[0]} is for jobs that run a command.")
        named = {_SHORT.get(name, name): value for name, value in options.items()}
        known = self.signature.defaults.keys() | self.signature.names
        for name in _TEMPLATES & named.keys():
            for template in _texts(named[name]):
                self._check_template(name, template, known)
        try:
            read_some(named)
        except UsageError as error:
            raise type(error)(f"Task {self.name}: {error}") from None
        return named

    def _check_template(self, name: str, template: str, known: set[str]) -> None:
        try:
            holes = {hole for _, hole, _, _ in Formatter().parse(template) if hole is not None}
        except ValueError as error:
            raise UsageError(f"Task {self.name}: {name} {template!r}: {error}.") from None
        for hole in holes:
            if hole.partition(".")[0].partition("[")[0] not in known:
                raise UsageError(
                    f"Task {self.name}: {name} {template!r} needs a parameter {hole!r},"
                    " which it doesn't have."
                )

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

    raised: BaseException | None = None
    """What its task raised, if that was in this process: see `inline`."""

    def __init__(self, queue: Home, task: Task[..., R, Any], job: Job) -> None:
        self.queue = queue
        self.task = task
        self.job = job
        """As it was when it was enqueued."""
        self.id = job.id

    def __repr__(self) -> str:
        return f"<TaskJob {self.id} of {self.task.name}>"

    @property
    def state(self) -> State:
        """Where it stands now."""
        return self.queue.get(self.job).state

    def result(self, timeout: "str | float | timedelta | None" = None) -> R:
        """Wait for the job, and return what its task did.

        `TimeoutError` if that takes longer; a `TaskFailedError` if it was in vain.
        """
        [job] = self.queue.wait(self.id, timeout=timeout)
        if job.state != State.COMPLETED:
            why = job.reason or job.error or "nobody says why"
            raise TaskFailedError(
                f"Job {self.id} of {self.task.name} is {job.state}: {why}."
            ) from self.raised
        # What returns None leaves no result.
        written = self.queue.results([job]).get(job.seq)
        try:
            found: R = self.task.signature.read_result(written)
        except MisfitError as error:
            raise TaskFailedError(
                f"What job {self.id} of {self.task.name} came to can't be read:"
                f" the result{error.place} {error.text}."
            ) from None
        return found

    async def aresult(self, timeout: "str | float | timedelta | None" = None) -> R:
        """Do as `result` does, and let others go on meanwhile."""
        return await to_thread(self.result, timeout)


at_once: Callable[[TaskJob[Any]], None] | None = None
"""Runs a job that was just enqueued, in this process; for tests only."""

_TEMPLATES = {"unique", "keys"}
_SHORT = {"retries": "max_retries", "key": "keys"}
_OWN = set("command argv type data data_base64 env env_all shell stdin stdin_base64 cwd".split())


def _texts(given: Any) -> list[str]:
    return [
        text for text in ([given] if isinstance(given, str) else given) if isinstance(text, str)
    ]


class Register(Protocol):
    """Makes a task of a function."""

    @overload
    def __call__(
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Task[P, R, Coroutine[Any, Any, R]]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


def register(
    queue: Home, function: Callable[..., Any], name: str | None, options: Mapping[str, Any]
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
