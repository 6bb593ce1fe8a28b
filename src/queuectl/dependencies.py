"""Jobs that wait for other jobs: what they want of them, and what the end of one means for them.

Pure: a parent has ended, and its child is told. No clock, no store.
"""

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum

from queuectl.errors import BadJobError, shown
from queuectl.job import State


class Wanted(StrEnum):
    """How a parent must end, for its child to run."""

    OK = "ok"
    """It completes."""
    FAIL = "fail"
    """It is dead."""
    ANY = "any"
    """However it ends."""


class IfParentFails(StrEnum):
    """What becomes of a job that wants a parent to complete, and it is dead."""

    BLOCK = "block"
    """It waits until the parent is retried, and completes."""
    CANCEL = "cancel"
    """It is cancelled."""
    RUN = "run"
    """It runs all the same."""


def each_parent(after: object) -> Iterator[object]:
    """Yield what stands for one job each, of what `after` was given; a batch is all of its jobs."""
    # A job is a tuple, and has an id.
    is_one = isinstance(after, str) or hasattr(after, "id")
    for item in after if isinstance(after, Sequence) and not is_one else [after]:
        ids = getattr(item, "ids", None)
        if isinstance(ids, tuple):
            yield from (parent_text(id, Wanted.OK) for id in ids)
        else:
            yield item


class Verdict(StrEnum):
    """What the end of a parent means for a child."""

    MET = "met"
    """That parent doesn't keep it any more."""
    BARRED = "barred"
    """It stays blocked, until the parent is retried and ends in another way."""
    OVER = "over"
    """It will never be allowed to run, and so is cancelled."""


def verdict(wanted: Wanted, came_to: State, if_fails: IfParentFails) -> Verdict:
    """Say what it means for a child that a parent has ended in this state."""
    match wanted, came_to:
        case Wanted.ANY, _:
            return Verdict.MET
        case Wanted.OK, State.COMPLETED:
            return Verdict.MET
        case Wanted.FAIL, State.DEAD:
            return Verdict.MET
        case Wanted.OK, State.DEAD:
            return _IF_DEAD[if_fails]
        case _:
            # The parent was called off, or hasn't failed: what was to follow from that won't.
            return Verdict.OVER


_IF_DEAD: Mapping[IfParentFails, Verdict] = {
    IfParentFails.BLOCK: Verdict.BARRED,
    IfParentFails.CANCEL: Verdict.OVER,
    IfParentFails.RUN: Verdict.MET,
}


NOT_NEEDED = "not needed: "
"""How the reason begins for which a job was cancelled that never had to run."""


def is_unneeded(reason: str | None) -> bool:
    """Tell whether a job was cancelled, for this reason, as what it was to follow didn't happen."""
    return reason is not None and reason.startswith(NOT_NEEDED)


def why_cancelled(
    parent: str,
    wanted: Wanted,
    came_to: State,
    *,
    was_removed: bool = False,
    was_unneeded: bool = False,
) -> str:
    """Say why a child was cancelled, by what became of a parent."""
    if wanted == Wanted.FAIL and came_to == State.COMPLETED:
        return f"{NOT_NEEDED}{parent}, whose failure it waits for, has completed"
    if was_unneeded:
        return f"{NOT_NEEDED}nor is its parent {parent}"
    if was_removed:
        return f"{_PARENT}{parent} was removed"
    return f"{_PARENT}{parent}{_HOW[0] if came_to == State.CANCELLED else _HOW[1]}"


_PARENT = "its parent "
_HOW = (" was cancelled", " is dead")


def is_along(reason: str | None) -> bool:
    """Tell whether a job was cancelled, for this reason, by what became of one it waits for."""
    return reason is not None and reason.startswith((NOT_NEEDED, _PARENT))


def why_stopped(group: str) -> str:
    """Say why a job was cancelled whose group was stopped."""
    return f"its group {group} was stopped: too many of its jobs are dead"


def follows_failures(reason: str | None, group: str | None) -> bool:
    """Tell whether a job was cancelled, for this reason, as its group was stopped."""
    return group is not None and reason == why_stopped(group)


def is_fallout(reason: str | None, group: str | None) -> bool:
    """Tell whether a job was cancelled, for this reason, because others are dead."""
    return follows_failures(reason, group) or parent_in(reason) is not None


def parent_in(reason: str | None) -> str | None:
    """Return the parent because of whose end a job was cancelled, for this reason, if it was.

    Not one that was removed, nor one that hasn't failed.
    """
    if reason is None or not reason.startswith(_PARENT):
        return None
    for how in _HOW:
        if reason.endswith(how):
            return reason.removeprefix(_PARENT).removesuffix(how)
    return None


_ON_DONE = "on-done of "
_WANTED = frozenset(wanted.value for wanted in Wanted)


def read_parent(text: str) -> tuple[str, Wanted]:
    """Take apart what names a parent, `ID` or `ID:ok`, `ID:fail`, `ID:any`."""
    id, colon, wanted = text.rpartition(":")
    if colon and id and wanted in _WANTED:
        return id, Wanted(wanted)
    return text, Wanted.OK


def standing_in(after: Sequence[str], instead: Mapping[str, str]) -> tuple[str, ...]:
    """Name parents anew, some of which others stand for; none can have to end in two ways."""
    found: dict[str, Wanted] = {}
    for id, wanted in map(read_parent, after):
        parent = instead.get(id, id)
        known = found.setdefault(parent, wanted)
        if wanted not in (known, Wanted.ANY):
            if known != Wanted.ANY:
                raise BadJobError(
                    f"Several parents of one job have the same unique key, which job {parent} has:"
                    " it can't end in two ways; give each a key of its own.",
                    field="after",
                )
            found[parent] = wanted
    return tuple(parent_text(parent, wanted) for parent, wanted in found.items())


def on_done_key(group: str) -> str:
    """Return the unique key of the job that runs when a group is over: there is one for each."""
    return f"{_ON_DONE}{group}"


def is_kept_key(unique: str, after_group: Sequence[str]) -> bool:
    """Tell whether a unique key is that of what runs when a group is over, and this job isn't."""
    if not unique.startswith(_ON_DONE):
        return False
    return list(after_group) != [parent_text(unique.removeprefix(_ON_DONE), Wanted.ANY)]


def why_unwanted(id: str, wanted: str) -> str:
    """Say that a job can't be waited for like this: what follows its colon isn't known."""
    return f"How job {id} has to end is ok, fail or any, not {shown(wanted)}."


def comes_however(after: Sequence[str], after_group: Sequence[str]) -> bool:
    """Tell whether a job runs however those end that it waits for."""
    wants = [wanted for _, wanted in map(read_parent, (*after, *after_group))]
    return bool(wants) and all(wanted == Wanted.ANY for wanted in wants)


def group_told(group: str | None, after_group: Sequence[str]) -> str | None:
    """Return the group that a run is told of: its job's own, or else the only one it waited for."""
    if group is not None or len(after_group) != 1:
        return group
    return read_parent(after_group[0])[0]


def parent_text(id: str, wanted: Wanted) -> str:
    """Name a parent so that `read_parent` takes it apart as it was."""
    if wanted == Wanted.OK and read_parent(id) == (id, Wanted.OK):
        return id
    return f"{id}:{wanted}"
