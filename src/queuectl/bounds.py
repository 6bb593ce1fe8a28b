"""What a run may use, as its job says: how that is written."""

from queuectl.sizes import format_size

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, TypedDict

    class Bounds(TypedDict, total=False):
        """What a run may use. What isn't there isn't bounded."""

        memory: int
        """Bytes of memory, of all its processes together, and no swap."""
        cpus: float
        """Cores, on average over a tenth of a second."""
        cpu_time: int
        """Milliseconds of CPU time, of all its processes together."""
        nofile: int
        """Files that each of its processes can have open."""
        nproc: int
        """Processes and threads at a time."""
        nice: int
        user: str
        read_only_root: bool
        no_network: bool
        best_effort: bool
        """Whether it is run without what can't be enforced."""
        image: str
        """The image of the container that it runs in."""
        mounts: list[str]
        """What of the host the container has: `SOURCE:TARGET:MODE`."""


def told(bounds: "Mapping[str, Any]") -> str:
    """Write bounds for people, as they are given: `memory 512MiB, cpus 1.5, no-network`."""
    return ", ".join(_told(bounds)) or "none"


def _told(bounds: "Mapping[str, Any]") -> "Iterator[str]":
    for name, value in bounds.items():
        option = name.replace("_", "-")
        if value is True:
            yield option
        elif value is not None and value is not False:
            yield f"{option} {written(name, value)}"


def written(name: str, value: "Any") -> str:
    """Write one of them as people give it."""
    if name == "memory":
        return format_size(value)
    if name == "cpu_time":
        return f"{value / 1000:g}s"
    if isinstance(value, list):
        return ", ".join(value)
    return f"{value:g}" if isinstance(value, float) else str(value)
