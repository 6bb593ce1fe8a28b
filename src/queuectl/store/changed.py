"""What has changed of jobs, told so that what follows from it can be seen to.

Jobs that came into a state by one and the same step; ends, as they are told to those who wait for
them; and by how much the counts of groups move.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from queuectl.facts import Event
from queuectl.job import FINISHED, Job, State
from queuectl.values import dataclass, field

if TYPE_CHECKING:
    from collections.abc import Callable

    from queuectl.job import Outcome
    from queuectl.store.database import Database

GROUPS_AT = 1 << 60
"""Groups are parents as well; their places are this far behind the first of all jobs."""
ROWS_AT_ONCE = 5_000
"""Places, or names, in one statement."""


class End(NamedTuple):
    """A job that has ended, as those are told who wait for it."""

    seq: int
    id: str
    state: State
    at: int
    action: str | None = None
    """What this is a part of, if somebody did it by hand."""
    was_removed: bool = False
    was_unneeded: bool = False

    @property
    def told(self) -> str:
        """What it is called."""
        return f"group {self.id}" if self.seq >= GROUPS_AT else self.id


@dataclass(frozen=True, slots=True)
class Changed:
    """Jobs that came into the same state, by one and the same step."""

    to: State | None
    """None when they are gone."""
    jobs: Sequence[int]
    """Their places in the line; those of new jobs aren't told."""
    events: Sequence[Event] = ()
    """What is kept of that."""
    wakes: bool = False
    """Whether nodes should look for work because of it."""
    new: bool = False
    """Whether they weren't there before."""
    ticked: Sequence[Job] = ()
    """Those of them that a schedule has made, and that are over, as they were before."""
    left: Sequence[Job] = ()
    """Those of them that had, or were about to get, a slot of a limit, as they were before."""
    unstarted: bool = False
    """Whether these were claimed, but never ran."""
    hooked: "Sequence[tuple[Job, Outcome | None]]" = ()
    """Those of them that have hooks, as they are now, and what their runs came to, if they ran."""
    told: "Sequence[tuple[Job, Outcome | None]]" = ()
    """The same of those that webhooks may want to hear of."""
    ends: Sequence[End] = ()
    """Those of them that are over, and for which others may wait."""
    again: Sequence[int] = ()
    """Those that were over, and aren't any more, though others may have been told."""
    members: Sequence[Job] = ()
    """Those of them that may be in groups, as they were before."""
    joined: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    """Of new jobs, how many come into which groups; and how many dead ones these bear, if said."""
    actions: Mapping[int, str] = field(default_factory=dict)
    """What made those of them that ended by hand end, by their places."""
    at: int | None = None
    """When that was; the time, if that isn't told."""


class Moves:
    """By how much the counts of groups change."""

    def __init__(self) -> None:
        self.by: dict[str, Counter[str]] = defaultdict(Counter)
        self.bounds: dict[str, int] = {}
        """How many jobs of a group may be dead, as new ones say."""
        self.back: set[str] = set()
        """Groups of which jobs wait again whose runs have ended."""
        self.actions: dict[str, str] = {}
        """What made jobs of groups end, of those of which somebody has ended some by hand."""

    def __bool__(self) -> bool:
        return bool(self.by or self.back)

    def join(self, group: str, jobs: int, max_fails: int | None) -> None:
        """Note that a group gets new jobs."""
        self.by[group].update(joined=jobs, jobs=jobs, open=jobs)
        if max_fails is not None:
            self.bounds[group] = max_fails

    def move(
        self,
        jobs: Iterable[Job],
        to: State | None,
        *,
        unneeded: bool = False,
        actions: Mapping[int, str | None] | None = None,
    ) -> None:
        """Note that jobs of groups, as they were before, came into a state, or were removed.

        And of those that ended by hand, what made them end.
        """
        from queuectl.dependencies import is_unneeded

        actions = actions or {}

        for job in jobs:
            if job.group is None:
                continue
            was_open, is_open = job.state not in FINISHED, to is not None and to not in FINISHED
            if was_open and is_open:
                if job.state == State.PROCESSING:
                    self.back.add(job.group)
                continue
            count = self.by[job.group]
            count["open" if was_open else job.state.value] -= 1
            if job.state == State.CANCELLED and is_unneeded(job.reason):
                count["unneeded"] -= 1
            if to is None:
                count["jobs"] -= 1
            else:
                count["open" if is_open else to.value] += 1
            if unneeded:
                count["unneeded"] += 1
            if is_open:
                count["again"] += 1
            elif was_open and (action := actions.get(job.seq)) is not None:
                self.actions[job.group] = action


class Ground(Protocol):
    """What those who see to what follows need of an idiom."""

    has_untold: bool
    """Whether a transaction from here has left something that is to be gone on with."""

    @property
    def db(self) -> "Database":
        """The database."""

    def bind(self, items: Sequence[object]) -> object:
        """Make a value of a list."""

    def jobs(self, statement: str, **params: object) -> list[Job]:
        """Run a statement that reads jobs."""

    def may_tell(self) -> "Callable[[Job], bool]":
        """Return what says whether a webhook may want to hear what becomes of a job."""

    def follow(self, *changes: Changed) -> None:
        """See to all that follows from changes, but for children and groups."""

    def wake(self) -> None:
        """Have nodes look for work."""


def ends_of(jobs: Iterable[Job], state: State, at: int) -> Sequence[End]:
    """Return as what jobs end whose children are told; most have none."""
    parents = [job for job in jobs if job.has_children]
    if not parents:
        return ()
    return [End(job.seq, job.id, state, at) for job in parents]


def moves_of(changes: Sequence[Changed]) -> Moves | None:
    """Return by how much changes move the counts of groups; most don't."""
    if not any(change.members or change.joined for change in changes):
        return None
    if not any(job.group is not None for change in changes for job in change.members) and not any(
        change.joined for change in changes
    ):
        return None
    moves = Moves()
    for change in changes:
        moves.move(change.members, change.to, actions=change.actions)
        for group, (jobs, max_fails) in change.joined.items():
            moves.join(group, jobs, max_fails)
    return moves
