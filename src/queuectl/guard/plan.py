"""What a run may use, and how this host keeps it to that: pure decisions, and their sentences.

The kernel bounds memory, processes and cores by a control group, where the node may make some;
open files and the processes of a user by limits of each process; the network and what can be
written by namespaces. CPU time is counted by the guard over all processes of a run. What can't be
done is refused in words that say what it would take.
"""

import resource

from queuectl.bounds import written

TYPE_CHECKING = False  # Spares the guard, which counts its memory, the import of `typing`.
if TYPE_CHECKING:
    from collections.abc import Collection

    from queuectl.bounds import Bounds

CPU_SPARE = 1, 5
"""Seconds that one process has more than the run, until the kernel asks it to end, and until it
kills it: the guard, which counts all of them, comes first."""
_PERIOD = 100_000
"""Microseconds over which the kernel counts how long cores are used."""


class Powers:
    """What a guard can do on this host."""

    __slots__ = ("controllers", "is_root", "most_files", "name", "of_v1", "why_no_group")

    def __init__(
        self,
        *,
        controllers: "Collection[str]" = (),
        why_no_group: str | None = None,
        of_v1: "Collection[str]" = (),
        is_root: bool = False,
        name: str = "",
        most_files: int = resource.RLIM_INFINITY,
    ) -> None:
        self.controllers = frozenset(controllers)
        """What can be bounded by a control group."""
        self.why_no_group = why_no_group
        """Why there can be no control group; None if there can."""
        self.of_v1 = frozenset(of_v1)
        """What isn't, as an older kind of control groups has it."""
        self.is_root = is_root
        self.name = name
        """The user that it runs as."""
        self.most_files = most_files
        """How many files a process may have open at most."""


class Plan:
    """How a run is kept to its bounds."""

    __slots__ = (
        "cpu_time",
        "denied",
        "limits",
        "memory",
        "needs_group",
        "nice",
        "no_network",
        "read_only_root",
        "refused",
        "set",
        "told",
        "user",
        "watched",
    )

    def __init__(self) -> None:
        self.needs_group = False
        """Whether it runs in a control group of its own."""
        self.set: list[tuple[str, str]] = []
        """What is written into the files of its control group."""
        self.limits: list[tuple[int, int, int]] = []
        """Limits of each process: which, soft, hard."""
        self.nice: int | None = None
        self.user: str | None = None
        self.denied: str | None = None
        """Why it can't run as the user that it is to run as. No effort makes up for that."""
        self.read_only_root = False
        self.no_network = False
        self.cpu_time: float | None = None
        """Seconds of CPU time after which the guard ends it."""
        self.memory: int | None = None
        """Bytes of memory that it may have."""
        self.watched = False
        """Whether the guard looks itself how much memory it has, now and then."""
        self.refused: list[str] = []
        """What can't be enforced, each as a sentence without a full stop."""

    @property
    def bounds_processes(self) -> bool:
        """Whether a user may have no more than so many processes, all runs and others together."""
        return any(which == resource.RLIMIT_NPROC for which, _, _ in self.limits)


def plan(bounds: "Bounds", powers: Powers) -> Plan:
    """Say how a run is kept to its bounds, and which of them can't be enforced here."""
    made = Plan()
    _plan_user(bounds, powers, made)
    _plan_memory(bounds, powers, made)
    _plan_cpu(bounds, powers, made)
    _plan_processes(bounds, powers, made)
    _plan_files(bounds, powers, made)
    nice = bounds.get("nice")
    if nice is not None and nice < 0 and not powers.is_root:
        made.refused.append(
            f"nice {nice}: only a node that runs as root can put a run before others"
        )
    else:
        made.nice = nice
    made.read_only_root = bounds.get("read_only_root", False)
    made.no_network = bounds.get("no_network", False)
    return made


def refusal(refused: "Collection[str]", *, watched: bool = False) -> str:
    """Say that a run isn't started, as it can't be kept to what was asked.

    What `--best-effort` would do instead is said: memory is `watched` then.
    """
    what = "; ".join(refused)
    if not watched:
        return f"{what} (--best-effort would run it without)"
    if len(refused) == 1:
        return f"{what} (with --best-effort it is {_SAMPLED})"
    return f"{what} (--best-effort would run it without; memory is {_SAMPLED} then)"


def note(refused: "Collection[str]", *, watched: bool = False) -> str:
    """Say which bounds a run wasn't kept to, or only by the guard, which has `watched` memory."""
    sampled = [one for one in refused if watched and one.startswith("memory ")]
    others = [one for one in refused if one not in sampled]
    told = [f"{_SAMPLED}: {'; '.join(sampled)}"] if sampled else []
    return "; ".join([*told, f"not enforced: {'; '.join(others)}"] if others else told)


_SAMPLED = "watched by sampling, not by the kernel"


def _plan_user(bounds: "Bounds", powers: Powers, made: Plan) -> None:
    user = bounds.get("user")
    if user is None or user == powers.name:
        return
    if powers.is_root:
        made.user = user
    else:
        made.denied = (
            f"user {user}: only a node that runs as root can run jobs as somebody else, and this"
            f" one runs as {powers.name}"
        )


def _plan_memory(bounds: "Bounds", powers: Powers, made: Plan) -> None:
    memory = bounds.get("memory")
    if memory is None:
        return
    made.memory = memory
    if why := _lacks("memory", powers):
        made.refused.append(f"memory {written('memory', memory)}: {why}")
        made.watched = True
        return
    made.needs_group = True
    made.set += [
        ("memory.max", str(memory)),
        ("memory.swap.max", "0"),
        # All of it is killed, and not the one process that the kernel would choose.
        ("memory.oom.group", "1"),
    ]


def _plan_cpu(bounds: "Bounds", powers: Powers, made: Plan) -> None:
    cpus, cpu_time = bounds.get("cpus"), bounds.get("cpu_time")
    if cpus is not None:
        if why := _lacks("cpu", powers):
            made.refused.append(f"cpus {cpus:g}: {why}")
        else:
            made.needs_group = True
            made.set.append(("cpu.max", f"{round(cpus * _PERIOD)} {_PERIOD}"))
    if cpu_time is not None:
        made.cpu_time = cpu_time / 1000
        # There its time is counted also where processes hide from their parents.
        made.needs_group = made.needs_group or powers.why_no_group is None
        soft, hard = (-(-cpu_time // 1000) + spare for spare in CPU_SPARE)
        made.limits.append((resource.RLIMIT_CPU, soft, hard))


def _plan_processes(bounds: "Bounds", powers: Powers, made: Plan) -> None:
    nproc = bounds.get("nproc")
    if nproc is None:
        return
    if (why := _lacks("pids", powers)) is None:
        made.needs_group = True
        made.set.append(("pids.max", str(nproc)))
    elif powers.is_root and made.user in (None, "root", "0"):
        made.refused.append(f"nproc {nproc}: {why}; or another user, as root isn't bound otherwise")
    else:
        made.limits.append((resource.RLIMIT_NPROC, nproc, nproc))


def _plan_files(bounds: "Bounds", powers: Powers, made: Plan) -> None:
    nofile = bounds.get("nofile")
    if nofile is None:
        return
    most = powers.most_files
    if most != resource.RLIM_INFINITY and nofile > most:
        made.refused.append(f"nofile {nofile}: processes of this node can have {most} at most")
    else:
        made.limits.append((resource.RLIMIT_NOFILE, nofile, nofile))


def _lacks(controller: str, powers: Powers) -> str | None:
    """Say why something can't be bounded by a control group; None if it can."""
    if powers.why_no_group is not None:
        return f"it takes cgroup v2 with the {controller} controller, and {powers.why_no_group}"
    if controller in powers.of_v1:
        return (
            f"it takes the {controller} controller of cgroup v2, and cgroup v1 has it on this host"
        )
    if controller not in powers.controllers:
        return f"it takes the {controller} controller of cgroup v2, which the node doesn't have"
    return None
