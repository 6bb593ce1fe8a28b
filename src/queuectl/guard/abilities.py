"""What this host can keep runs to, as far as one can tell without changing anything."""

import os
import sys

from queuectl.guard import confine, containers
from queuectl.guard.bounding import powers_of
from queuectl.guard.plan import Powers, plan

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from queuectl.bounds import Bounds

_GROUP = "cgroup v2"
_SAMPLES: "dict[str, Bounds]" = {
    "memory": {"memory": 2**30},
    "cpus": {"cpus": 1.0},
    "cpu_time": {"cpu_time": 60_000},
    "nofile": {"nofile": 64},
    "nproc": {"nproc": 64},
    "nice": {"nice": 1},
}


class Ability:
    """Whether one bound can be enforced here: by what, or why not."""

    __slots__ = ("by", "name", "why_not")

    def __init__(self, name: str, by: str | None, why_not: str | None = None) -> None:
        self.name = name
        self.by = by
        self.why_not = why_not

    def as_dict(self) -> dict[str, str | None]:
        """Describe it for `--json`."""
        return {"name": self.name, "by": self.by, "why_not": self.why_not}


def abilities() -> list[Ability]:
    """Say of each bound whether a worker that is started like this process could enforce it."""
    if sys.platform != "linux":
        why = "runs are bounded on Linux only"
        names = (*_SAMPLES, "user", "read_only_root", "no_network", "image")
        return [Ability(name, None, why) for name in names]
    powers, _ = powers_of(os.getpid(), change=False)
    return [
        *(_of(name, sample, powers) for name, sample in _SAMPLES.items()),
        Ability("user", "being root")
        if powers.is_root
        else Ability("user", None, f"a worker would run as {powers.name}, and not as root"),
        _tried("read_only_root", confine.try_read_only_root),
        _tried("no_network", confine.try_no_network),
        _containers(),
    ]


def _containers() -> Ability:
    try:
        return Ability("image", containers.engine_in(os.environ.get("PATH", os.defpath)))
    except confine.ConfineError as error:
        return Ability("image", None, str(error).partition(": ")[2])


def _of(name: str, sample: "Bounds", powers: Powers) -> Ability:
    made = plan(sample, powers)
    if made.refused:
        return Ability(name, None, made.refused[0].partition(": ")[2])
    if made.set:
        return Ability(name, _GROUP)
    if name == "cpu_time":
        return Ability(name, f"looks at {_GROUP if made.needs_group else 'all its processes'}")
    if name == "nproc":
        return Ability(name, "a limit of its user, with all else that runs as that")
    return Ability(name, "a limit of each process" if name == "nofile" else "its priority")


def _tried(name: str, step: "Callable[[], None]") -> Ability:
    why = confine.can(step)
    return Ability(name, "namespaces") if why is None else Ability(name, None, why)
