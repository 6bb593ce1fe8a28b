"""For the tests of programs that enqueue: running tasks in this process, and looking at what waits.

The names below load on first use: pytest loads the plugin beside them for everybody who has it.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from queuectl.testing.clock import MovedClock, moving
    from queuectl.testing.looking import Enqueued, assert_enqueued, enqueued
    from queuectl.testing.places import emptied
    from queuectl.testing.running import Ran, drain, inline

__all__ = [
    "Enqueued",
    "MovedClock",
    "Ran",
    "assert_enqueued",
    "drain",
    "emptied",
    "enqueued",
    "inline",
    "moving",
]

_HOMES = {
    "clock": ("MovedClock", "moving"),
    "looking": ("Enqueued", "assert_enqueued", "enqueued"),
    "places": ("emptied",),
    "running": ("Ran", "drain", "inline"),
}


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    from importlib import import_module

    for home, names in _HOMES.items():
        if name in names:
            found: object = getattr(import_module(f"{__name__}.{home}"), name)
            return found
    raise AttributeError(f"module 'queuectl.testing' has no attribute {name!r}")
