"""queuectl: a durable job queue for shell commands, from one laptop to many machines.

The names below load on first use, so that importing the package costs next to nothing.
"""

__version__ = "0.2.0"

SCHEMA_VERSION = 21
"""The version of the tables that this code speaks. It stands here, and not only with the
migrations, so that `--version` needn't import them.
"""

TYPE_CHECKING = False  # Spares the guard process, which counts its memory, `typing`.
if TYPE_CHECKING:
    from queuectl.composing import chain, parallel
    from queuectl.errors import (
        BadJobError,
        BadSettingError,
        BadTimeError,
        DuplicateError,
        NotFoundError,
        QueuectlError,
        QueueFullError,
        StateError,
        StoreBusyError,
        StoreCorruptError,
        StoreDeniedError,
        StoreError,
        StoreFullError,
        StoreMissingError,
        StoreReadOnlyError,
        StoreTooNewError,
        StoreTooOldError,
        StoreUnreachableError,
        StoreUnsettledError,
        StuckError,
        TaskFailedError,
        UsageError,
    )
    from queuectl.expansion import expand
    from queuectl.explain import Cause, Reason
    from queuectl.facts import Batch, Event
    from queuectl.filter import Filter
    from queuectl.job import Attempt, Job, NewJob, Output, State
    from queuectl.limits import Limits, Rate, WhenFull
    from queuectl.queue import Queue
    from queuectl.tasks.current import CurrentJob, current_job
    from queuectl.tasks.outcomes import Discard, Retry, Snooze
    from queuectl.tasks.task import Task, TaskJob

__all__ = [
    "Attempt",
    "BadJobError",
    "BadSettingError",
    "BadTimeError",
    "Batch",
    "Cause",
    "CurrentJob",
    "Discard",
    "DuplicateError",
    "Event",
    "Filter",
    "Job",
    "Limits",
    "NewJob",
    "NotFoundError",
    "Output",
    "Queue",
    "QueueFullError",
    "QueuectlError",
    "Rate",
    "Reason",
    "Retry",
    "Snooze",
    "State",
    "StateError",
    "StoreBusyError",
    "StoreCorruptError",
    "StoreDeniedError",
    "StoreError",
    "StoreFullError",
    "StoreMissingError",
    "StoreReadOnlyError",
    "StoreTooNewError",
    "StoreTooOldError",
    "StoreUnreachableError",
    "StoreUnsettledError",
    "StuckError",
    "Task",
    "TaskFailedError",
    "TaskJob",
    "UsageError",
    "WhenFull",
    "__version__",
    "chain",
    "current_job",
    "expand",
    "parallel",
]

_HOMES = {
    "queuectl.composing": ("chain", "parallel"),
    "queuectl.expansion": ("expand",),
    "queuectl.explain": ("Cause", "Reason"),
    "queuectl.job": ("Attempt", "Job", "NewJob", "Output", "State"),
    "queuectl.limits": ("Limits", "Rate", "WhenFull"),
    "queuectl.queue": ("Queue",),
    "queuectl.tasks.current": ("CurrentJob", "current_job"),
    "queuectl.tasks.outcomes": ("Discard", "Retry", "Snooze"),
    "queuectl.tasks.task": ("Task", "TaskJob"),
    "queuectl.facts": ("Batch", "Event"),
    "queuectl.filter": ("Filter",),
}
"""Where the names are at home that aren't errors."""


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in __all__:
        raise AttributeError(f"module 'queuectl' has no attribute {name!r}")
    from importlib import import_module

    homes = (home for home, names in _HOMES.items() if name in names)
    found: object = getattr(import_module(next(homes, "queuectl.errors")), name)
    return found
