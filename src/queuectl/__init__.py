"""queuectl: a durable job queue for shell commands, from one laptop to many machines.

The names below load on first use, so that importing the package costs next to nothing.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # Spares the guard process, which counts its memory, `typing`.
if TYPE_CHECKING:
    from queuectl.errors import QueuectlError
    from queuectl.job import Attempt, Job, NewJob, State
    from queuectl.queue import Queue
    from queuectl.store.contract import Filter

__all__ = ["Attempt", "Filter", "Job", "NewJob", "Queue", "QueuectlError", "State", "__version__"]

_HOMES = {
    "Attempt": "queuectl.job",
    "Filter": "queuectl.store.contract",
    "Job": "queuectl.job",
    "NewJob": "queuectl.job",
    "Queue": "queuectl.queue",
    "QueuectlError": "queuectl.errors",
    "State": "queuectl.job",
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module 'queuectl' has no attribute {name!r}")
    from importlib import import_module

    home = import_module(_HOMES[name])
    found: object = getattr(home, name)
    return found
