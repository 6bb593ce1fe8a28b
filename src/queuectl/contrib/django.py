"""A backend for Django's tasks: `django.tasks`, or the package `django-tasks` before Django 6.0.

TASKS = {"default": {"BACKEND": "queuectl.contrib.django.QueuectlBackend",
                     "OPTIONS": {"database": "jobs.db", "retries": 3, "timeout": "5m"}}}

A worker runs the tasks of all apps: `worker start --app queuectl.contrib.django:app`.
"""

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from inspect import iscoroutinefunction
from threading import Lock
from typing import Any
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import close_old_connections, connections
from django.utils import timezone
from django.utils.module_loading import autodiscover_modules

from queuectl.errors import NotFoundError, QueuectlError
from queuectl.job import Attempt, Job, State
from queuectl.queue import Queue
from queuectl.tasks.current import current_job
from queuectl.tasks.outcomes import TaskSignal
from queuectl.tasks.task import Task as Ours

try:
    from django.tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django.tasks.backends.base import BaseTaskBackend
    from django.tasks.base import Task, TaskError
    from django.tasks.exceptions import TaskResultDoesNotExist
    from django.tasks.signals import task_enqueued, task_finished, task_started
    from django.utils.json import normalize_json
except ImportError:
    from django_tasks import TaskContext, TaskResult, TaskResultStatus, task_backends
    from django_tasks.backends.base import BaseTaskBackend
    from django_tasks.base import Task, TaskError
    from django_tasks.exceptions import TaskResultDoesNotExist
    from django_tasks.signals import task_enqueued, task_finished, task_started
    from django_tasks.utils import normalize_json

_SCHEMES = {"postgresql": "postgresql", "mysql": "mysql"}
_ENDED = re.compile(r"^([A-Za-z_][\w.]*)(?::|$)")
"""The last line of a traceback, which names the error."""
_STATUS = {
    State.PROCESSING: TaskResultStatus.RUNNING,
    State.COMPLETED: TaskResultStatus.SUCCESSFUL,
    State.DEAD: TaskResultStatus.FAILED,
    State.CANCELLED: TaskResultStatus.FAILED,
}
_queues: dict[tuple[int, str], Queue] = {}
_lock = Lock()
_known: dict[str, dict[str, Any]] = {}
"""The tasks of each backend, by their module paths. Django makes a backend for each thread."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueuectlTask(Task):  # type: ignore[misc,type-arg,unused-ignore]
    """A task of Django's whose jobs may have other fields than those of its backend."""

    job: Mapping[str, Any] = field(default_factory=dict)
    """Such as `{"retries": 5, "timeout": "5m"}`."""


class QueuectlBackend(BaseTaskBackend):  # type: ignore[misc,unused-ignore]
    """Stores the tasks that are enqueued as jobs, which workers of queuectl run."""

    task_class = QueuectlTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def __init__(self, alias: str, params: dict[str, Any]) -> None:
        """Take the settings: a database, and fields that all jobs have."""
        super().__init__(alias, params)
        options = dict(params.get("OPTIONS", {}))
        self._database = str(options.pop("database", ""))
        if not self._database:
            raise ImproperlyConfigured(
                f"TASKS[{alias!r}]: OPTIONS needs a database: a file, a URL, or one of DATABASES."
            )
        self._namespace = {n: options.pop(n) for n in ("schema", "prefix") if n in options}
        self._fields = options

    @property
    def url(self) -> str:
        """Where the queue is: a file, or the URL of a server with its password."""
        if self._database not in settings.DATABASES:
            return self._database
        namespace = "&".join(f"{name}={value}" for name, value in self._namespace.items())
        return _url_of(self._database) + (f"?{namespace}" if namespace else "")

    @property
    def queue(self) -> Queue:
        """The queue; opened once for all threads of a process."""
        place = os.getpid(), self.url
        with _lock:
            if place not in _queues:
                _queues[place] = Queue(self.url)
            return _queues[place]

    def validate_task(self, task: Any) -> None:
        """Refuse what can't be a task; all others are registered, for workers to find."""
        super().validate_task(task)
        _known.setdefault(self.alias, {}).setdefault(task.module_path, task)

    # -- enqueueing ---------------------------------------------------------------------

    def enqueue(self, task: Any, args: Any, kwargs: Any) -> Any:
        """Store a job; within `transaction.atomic` on its database, as a part of that."""
        self.validate_task(task)
        result = _result(task, self.alias, args, kwargs)
        job = self.queue.enqueue(
            connection=self._connection(), **self._request(task, result.args, result.kwargs)
        )
        _set(result, id=job.id, enqueued_at=job.created)
        task_enqueued.send(type(self), task_result=result)
        return result

    def _request(self, task: Any, args: list[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
        fields = {**self._fields, **getattr(task, "job", {})}
        if task.run_after is not None:
            fields["run_at"] = task.run_after
        return {
            **fields,
            "queue": task.queue_name,
            "priority": task.priority,
            "type": task.module_path,
            "data": json.dumps({"args": args, "kwargs": kwargs}),
        }

    def _connection(self) -> Any:
        """Return Django's connection, if it is in a transaction on the database of the queue."""
        if self._database not in settings.DATABASES:
            return None
        connection = connections[self._database]
        return connection if connection.in_atomic_block else None

    # -- results ------------------------------------------------------------------------

    def get_result(self, result_id: str) -> Any:
        """Return what is known of a job, whichever process enqueued or runs it."""
        job = self.queue.find(result_id)
        task = None if job is None else _tasks_of(self.alias).get(job.task or "")
        if job is None or task is None:
            raise TaskResultDoesNotExist(result_id)
        attempts = self.queue.attempts(job)
        given = json.loads(job.data or b"{}")
        task = task.using(priority=job.priority, queue_name=job.queue)
        result = _result(task, self.alias, given.get("args", []), given.get("kwargs", {}))
        began = [attempt.started for attempt in attempts]
        workers = [attempt.node or "" for attempt in attempts]
        if job.state is State.PROCESSING and job.started is not None:
            began.append(job.started)
            workers.append(job.node or "")
        _set(
            result,
            id=job.id,
            status=_STATUS.get(job.state, TaskResultStatus.READY),
            enqueued_at=job.created,
            started_at=began[0] if began else None,
            last_attempted_at=began[-1] if began else None,
            finished_at=job.finished if job.state in _FINISHED else None,
            worker_ids=workers,
            errors=[self._error(job, attempt) for attempt in attempts if attempt.error],
            _return_value=self.queue.results([job]).get(job.seq),
        )
        return result

    async def aget_result(self, result_id: str) -> Any:
        """Do as `get_result` does, and let others go on meanwhile."""
        return await sync_to_async(self.get_result, thread_sensitive=False)(result_id)

    def _error(self, job: Job, attempt: Attempt) -> Any:
        try:
            said = self.queue.output(job, attempt.number).stderr.decode("utf-8", "replace")
        except NotFoundError:
            said = ""
        lines = [line for line in said.splitlines() if _ENDED.match(line)]
        ended = _ENDED.match(lines[-1]) if lines and "Traceback" in said else None
        name = ended[1] if ended else f"{QueuectlError.__module__}.TaskFailedError"
        path = name if "." in name else f"builtins.{name}"
        return TaskError(exception_class_path=path, traceback=said or attempt.error or "")


_FINISHED = (State.COMPLETED, State.DEAD, State.CANCELLED)


def _url_of(alias: str) -> str:
    """Write a database of Django's as the URL of a queue in it."""
    there = settings.DATABASES[alias]
    engine = str(there["ENGINE"]).rpartition(".")[2]
    if engine == "postgis":
        engine = "postgresql"
    if engine not in _SCHEMES:
        raise ImproperlyConfigured(
            f"A queue can't be in the database {alias!r} of Django, which is {engine};"
            " name a file of its own, or a URL."
        )
    user = quote(str(there.get("USER", "")), safe="")
    password = quote(str(there.get("PASSWORD", "")), safe="")
    login = f"{user}:{password}@" if password else f"{user}@" if user else ""
    port = f":{there['PORT']}" if there.get("PORT") else ""
    host = there.get("HOST") or "localhost"
    return f"{_SCHEMES[engine]}://{login}{host}{port}/{quote(str(there['NAME']), safe='')}"


def _result(task: Any, alias: str, args: Any, kwargs: Any) -> Any:
    """Make what Django knows of a task that was enqueued, and of which nothing else is known."""
    return TaskResult(
        task=task,
        id="",
        status=TaskResultStatus.READY,
        enqueued_at=None,
        started_at=None,
        last_attempted_at=None,
        finished_at=None,
        args=list(args),
        kwargs=dict(kwargs),
        backend=alias,
        errors=[],
        worker_ids=[],
    )


def _set(result: Any, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(result, name, value)


# -- in a worker ------------------------------------------------------------------------------


_NO_QUEUE: Any = None
"""Whoever runs a task of Django's needn't know where it was enqueued."""


class Application:
    """What a worker runs: `worker start --app queuectl.contrib.django:app`."""

    @property
    def tasks(self) -> dict[str, Ours[..., Any, Any]]:
        """All tasks of all backends that are queuectl's, by their module paths.

        They are looked for in the module `tasks` of each app.
        """
        try:
            return self._find()
        except AttributeError as error:
            # Else it would look as if there were no such property.
            raise ImproperlyConfigured(str(error)) from error

    def _find(self) -> dict[str, Ours[..., Any, Any]]:
        import django

        django.setup()
        found: dict[str, Ours[..., Any, Any]] = {}
        for alias in settings.TASKS:
            if isinstance(task_backends[alias], QueuectlBackend):
                for path, task in _tasks_of(alias).items():
                    found[path] = Ours(_NO_QUEUE, _callable(task, alias), path, {})
        return found


app = Application()


def _tasks_of(alias: str) -> dict[str, Any]:
    """Return the tasks of a backend, once the modules of all apps that have some are imported."""
    autodiscover_modules("tasks")
    return _known.get(alias, {})


def _callable(task: Any, alias: str) -> Any:
    """Make a function of a task that takes its arguments as they are stored."""

    def run(args: list[Any], kwargs: dict[str, Any]) -> Any:
        with _Around(task, alias, args, kwargs) as around:
            return around.returned(task.func(*around.args, **kwargs))

    async def arun(args: list[Any], kwargs: dict[str, Any]) -> Any:
        with _Around(task, alias, args, kwargs) as around:
            return around.returned(await task.func(*around.args, **kwargs))

    return arun if iscoroutinefunction(task.func) else run


class _Around:
    """What is done around a call: signals are sent, and old connections of Django's closed."""

    def __init__(self, task: Any, alias: str, args: list[Any], kwargs: dict[str, Any]) -> None:
        self._result = _result(task, alias, args, kwargs)
        self._sender = type(task_backends[alias])
        self.args = args
        if task.takes_context:
            self.args = [TaskContext(task_result=self._result), *args]

    def __enter__(self) -> "_Around":
        close_old_connections()
        job, now = current_job(), timezone.now()
        _set(
            self._result,
            id=job.id,
            status=TaskResultStatus.RUNNING,
            started_at=now,
            last_attempted_at=now,
            worker_ids=[str(os.getpid())] * job.attempt,
        )
        task_started.send(self._sender, task_result=self._result)
        return self

    def returned(self, value: Any) -> Any:
        """Take what the function returned, and return it as JSON has it."""
        value = normalize_json(value)
        _set(self._result, _return_value=value)
        return value

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        close_old_connections()
        if isinstance(error, TaskSignal):
            return  # It isn't over yet, or wasn't worth it.
        _set(self._result, finished_at=timezone.now(), status=TaskResultStatus.SUCCESSFUL)
        if error is not None:
            import traceback

            path = f"{type(error).__module__}.{type(error).__qualname__}"
            said = "".join(traceback.format_exception(error))
            _set(self._result, status=TaskResultStatus.FAILED)
            self._result.errors.append(TaskError(exception_class_path=path, traceback=said))
        task_finished.send(self._sender, task_result=self._result)
