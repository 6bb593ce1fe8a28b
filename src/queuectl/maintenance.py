"""Looking after a queue: its health, retention, and the database as a whole."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from queuectl.action import one_action
from queuectl.errors import QueuectlError, StateError, StoreError, StoreMissingError, UsageError
from queuectl.facts import Progress
from queuectl.history import record
from queuectl.job import FINISHED, State
from queuectl.place import Place
from queuectl.request import read_duration
from queuectl.roster import is_alive, refuse_living
from queuectl.store import Store, open_store

if TYPE_CHECKING:
    from datetime import timedelta

    from queuectl.store.copying import Copied
    from queuectl.store.health import Finding
    from queuectl.store.sqlstore import SqlStore

SETTINGS_TABLES = ("config", "queues", "grants", "webhooks")
"""The tables of what was set, rather than done."""
PRUNED_AT_ONCE = 1_000

# -- retention --------------------------------------------------------------------------


def prune(
    store: Store,
    states: Sequence[State],
    older_than: "str | float | timedelta",
    *,
    dry_run: bool,
    progress: Callable[[State, int], None] | None,
) -> dict[State, int]:
    age = read_duration("older_than", older_than)
    wrong = [state for state in states if state not in FINISHED]
    if wrong:
        raise UsageError(f"Only finished jobs can be pruned, not {wrong[0]} ones.")
    states = [State(state) for state in states]
    before = store.clock.now() - age
    if dry_run:
        return {state: store.jobs.prune(state, before, limit=None) for state in states}
    pruned = dict.fromkeys(states, 0)
    try:
        for state in states:
            while count := store.jobs.prune(state, before, limit=PRUNED_AT_ONCE):
                pruned[state] += count
                if progress is not None:
                    progress(state, pruned[state])
    finally:
        if any(pruned.values()):
            detail = ", ".join(f"{count} {state}" for state, count in pruned.items())
            # Nodes do that as well, by themselves: then it is no action.
            with one_action():
                record(store, "prune", detail=detail)
    return pruned


# -- health -----------------------------------------------------------------------------


def checkup(store: Store, place: Place) -> "list[Finding]":
    from queuectl.store.health import check_store
    from queuectl.store.health.common import check_place, check_queue, check_settings, gather

    found = [*check_place(place), *check_store(store)]
    checks = {
        "settings": lambda: check_settings(place, store.settings.config()),
        "nodes": lambda: check_queue(store, lambda node: is_alive(store, node)),
    }
    return found + gather(checks, found)


def examine(place: Place) -> "tuple[list[Finding], QueuectlError | None]":
    """Check a queue that may not even be opened; returns the error of that, if it is one."""
    try:
        store = open_store(place.url)
    except (StoreError, StateError) as trouble:
        from queuectl.store.health.examine import examine, examine_absent

        if isinstance(trouble, StoreMissingError) and place.is_default:
            return examine_absent(place), None
        return examine(place, trouble), trouble
    try:
        return checkup(store, place), None
    finally:
        store.close()


# -- the whole --------------------------------------------------------------------------


def check_sharing(url: str, group: str) -> None:
    """Raise why a queue at this place can't be shared with a group, before it is made."""
    from queuectl.store.shared import check_sharing

    check_sharing(url, group)


def share(store: Store, group: str) -> str | None:
    from queuectl.store.shared import closed_above, find_group

    store.folder.share(group)
    record(store, "share", detail=f"with group {group}")
    return closed_above(store.info()["path"], find_group(group))


def backup(store: Store, path: str, progress: Progress | None) -> None:
    from queuectl.store.copying import backup

    backup(_tables_of(store), path, progress)


def copy_to(
    store: Store,
    url: str,
    *,
    overwrite: bool,
    force: bool,
    progress: Progress | None,
    verifying: Progress | None,
) -> "list[Copied]":
    from queuectl.store.copying import copy

    source = _tables_of(store)
    if not force:
        again = "or use --force, and what they run will run again at the target."
        refuse_living(source, advice=again)
    target = open_store(url, create=True, unfinished=True)
    try:
        refuse_living(target)
        return copy(source, target, progress, verifying=verifying, overwrite=overwrite)
    finally:
        target.close()


def reset(store: Store, *, settings: bool, progress: Progress | None) -> int:
    from queuectl.store.copying import empty

    refuse_living(store)
    jobs = sum(count.jobs for count in store.jobs.counts())
    spared = () if settings else SETTINGS_TABLES
    empty(_tables_of(store), spared=spared, progress=progress)
    store.tidy()
    record(store, "reset", detail=f"jobs: {jobs}" + (", settings" if settings else ""))
    return jobs


def _tables_of(store: Store) -> "SqlStore":
    from queuectl.store.sqlstore import SqlStore

    # There is no other kind of store.
    assert isinstance(store, SqlStore)
    return store
