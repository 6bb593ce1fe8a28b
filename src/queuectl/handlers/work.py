"""What can be run for a job: a task of an application, or a class of a file that was named."""

import base64
import importlib
import importlib.util
import inspect
import json
import os
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from queuectl.errors import QueuectlError
from queuectl.handlers import lines
from queuectl.queue import Queue
from queuectl.tasks.codec import MisfitError
from queuectl.tasks.current import CurrentJob
from queuectl.tasks.task import Task

Message = dict[str, Any]


class NoAppError(Exception):
    """There is nothing to run where somebody said that there is."""


class Work(Protocol):
    """Something that can be run for a job."""

    is_async: bool
    """Whether what `call` returns is to be awaited."""

    def call(self, job: CurrentJob, message: Message) -> Any:
        """Run it for the job that this line has brought."""

    def written(self, result: Any) -> str | None:
        """Return what it came to as JSON; None if that is nothing."""


class TaskWork:
    """A task of an application."""

    def __init__(self, task: Task[..., Any, Any]) -> None:
        self._task = task
        self.is_async = task.is_async

    def call(self, job: CurrentJob, message: Message) -> Any:
        try:
            given = _arguments(message)
            args, kwargs = self._task.signature.read(given, is_sole="hook" in message)
        except MisfitError as error:
            raise TypeError(f"{self._task.name}: {error.place}{error.text}") from None
        job.belongs_to(self._task.queue)
        return self._task.function(*args, **kwargs)

    def written(self, result: Any) -> str | None:
        if result is None:
            return None
        try:
            return self._task.signature.write_result(result)
        except MisfitError as error:
            raise TypeError(f"{self._task.name}: its result{error.place} {error.text}") from None


def _arguments(message: Message) -> Any:
    """Return what a task was enqueued with; None, which no task takes, if that is no JSON."""
    try:
        return json.loads(message.get("data", "null") or "{}")
    except (ValueError, RecursionError):
        return None


def app_at(where: str) -> Any:
    """Import an application, `module:queue`, and return that queue."""
    module, _, name = where.partition(":")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    found: Any = importlib.import_module(module)
    for part in (name or "queue").split("."):
        found = getattr(found, part)
    return found


def load_app(where: str) -> dict[str, TaskWork]:
    """Import an application, and return its tasks by their names."""
    found = app_at(where)
    tasks: Mapping[str, Task[..., Any, Any]] | None = getattr(found, "tasks", None)
    if not isinstance(tasks, Mapping):
        raise NoAppError(f"{where} is no Queue, but {type(found).__name__}")
    return {name: TaskWork(task) for name, task in tasks.items()}


# -- classes of files -------------------------------------------------------------------


class PreemptedError(QueuectlError):
    """The job isn't this run's to go on with any more: it is cancelled, out of time or released."""


class RunTask:
    """A data job, as the class that runs it sees it."""

    def __init__(self, job: CurrentJob, message: Message) -> None:
        self._job = job
        self.id: str = job.id
        self.key: str = job.id
        """The same: what it was pushed as."""
        self.type: str = job.type
        self.queue: str = job.queue
        self.attempt: int = job.attempt
        self.created_at = datetime.fromisoformat(message["created_at"])
        text, encoded = message.get("data", ""), message.get("data64")
        self.data: bytes = text.encode() if encoded is None else base64.b64decode(encoded)
        """As it was pushed, or updated."""

    def json(self) -> Any:
        """Return the data as what it says in JSON."""
        return json.loads(self.data)

    def heartbeat(self) -> None:
        """Go on, unless the job should come to an end: then it is a `PreemptedError`.

        The node keeps the job alive, whether this is called or not.
        """
        if self._job.cancelled:
            raise PreemptedError(f"Job {self.id} should come to an end: {self._job.why}.")

    def update_data(self, changes: Mapping[str, Any]) -> None:
        """Change names of the data, which is an object of JSON, for this run and those after it."""
        self.heartbeat()
        with Queue() as queue:
            self.data = queue.update_data(changes, run=self._job.id_of_run)


class RunWork:
    """A class that runs data jobs: `Run(task)`, `run()`, and, if it wants, `kill(reason)`."""

    is_async = False

    def __init__(self, run: Callable[[RunTask], Any]) -> None:
        self._run = run

    def call(self, job: CurrentJob, message: Message) -> Any:
        runner = self._run(RunTask(job, message))
        job.on_stop = getattr(runner, "kill", None)
        return runner.run()

    def written(self, result: Any) -> str | None:
        if result is None:
            return None
        text = json.dumps(result, ensure_ascii=False)
        if len(text.encode("utf-8", "surrogatepass")) > lines.LONGEST_RESULT:
            raise ValueError(f"its result takes more than {lines.LONGEST_RESULT:,} bytes")
        return text


def load_class(file: str, name: str) -> RunWork:
    """Import a file, and return what its class does."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise NoAppError(f"{file} is no file of Python")
    sys.path.insert(0, str(Path(file).parent))
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    found = getattr(module, name, None)
    if not inspect.isclass(found) or not callable(getattr(found, "run", None)):
        raise NoAppError(f"{file} has no class {name} with a method run()")
    return RunWork(found)
