"""Which program a node runs for a data job, by the type of that: one per job, or a warm one."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from queuectl.job import ANY_TYPE, TYPE, Job, told_handler


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Handler:
    """A program that is kept warm, and handed one job after the other: see docs/handlers.md."""

    name: str
    """What people call it: `shop:queue`, or a file."""
    argv: Sequence[str]
    types: frozenset[str] | None = None
    """The types that it handles; None is all for which there is no other."""
    is_ours: bool = False
    """Whether it is the one that comes with queuectl: pipes are named to it, its stdout is the
    job's, and it keeps a board of what it began. Others are spoken to through stdin and stdout."""
    ahead: int = 0
    """How many jobs it takes besides the one that it runs, unless it says otherwise."""
    shared_by: int = 1
    """How many workers have one such program together."""
    max_jobs: int | None = None
    """After how many jobs it is replaced."""
    max_memory: int | None = None
    """With how many bytes of memory it is replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Programs:
    """The programs of a node for data jobs, and the arguments that those for one job get first."""

    by_type: Mapping[str, str] = field(default_factory=dict)
    """Those for one type each; that of the empty one is for data without a type."""
    for_all: str | None = None
    """That for all types that have none of their own."""
    arguments: Sequence[str] = ()
    warm: Sequence[Handler] = ()

    @property
    def shared_by(self) -> int:
        """How many workers have one program together at most."""
        return max((handler.shared_by for handler in self.warm), default=1)

    @property
    def handlers(self) -> tuple[str, ...]:
        """What the node is said to handle."""
        return tuple(dict.fromkeys(self._handlers()))

    def _handlers(self) -> Iterator[str]:
        for type in self.by_type:
            yield TYPE + type
        for handler in self.warm:
            if handler.types is None:
                yield ANY_TYPE
            else:
                yield from (TYPE + type for type in sorted(handler.types))
        if self.for_all is not None:
            yield ANY_TYPE

    def told(self) -> list[tuple[str, str]]:
        """Say what is handled by which program, with its arguments."""
        words = " ".join(["", *self.arguments])
        found = [(told_handler(TYPE + type), name + words) for type, name in self.by_type.items()]
        return found + ([] if self.for_all is None else [("all other data", self.for_all + words)])

    def argv(self, job: Job) -> list[str] | None:
        """Return the program for a job with its arguments, the job's id last; None if none is."""
        program = self.by_type.get(job.type or "", self.for_all)
        if job.type is None or program is None:
            return None
        return [program, *self.arguments, job.id]

    def warm_for(self, type: str) -> Handler | None:
        """Return the warm program that handles a type; None if none does."""
        if type in self.by_type:
            return None
        others = None
        for handler in self.warm:
            if handler.types is None:
                others = handler
            elif type in handler.types:
                return handler
        return others
