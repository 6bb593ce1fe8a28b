"""Named queues: pausing, renaming and removing them, and finding names that may be misspelt."""

from collections.abc import Iterable
from shlex import quote

from queuectl.errors import NotFoundError, StateError, UsageError, nearest
from queuectl.facts import QueueUse
from queuectl.history import event_of
from queuectl.job import DEFAULT_QUEUE, State
from queuectl.request import check_name, check_sought
from queuectl.store.contract import Store

MOST_TAGS = 200
"""Tags among which one is looked for that may be meant."""


def set_paused(store: Store, queue: str, *, paused: bool) -> bool:
    """Pause or resume a queue; False when it was so already."""
    name = check_name("queue", queue)
    event = event_of(store.clock.now(), "pause" if paused else "resume", detail=name)
    return store.settings.set_paused(name, paused=paused, who=event.who, now=event.at, event=event)


def rename(store: Store, old: str, new: str) -> QueueUse:
    """Call a queue otherwise; returns what there was of it."""
    old, new = check_name("queue", old), check_name("queue", new)
    if old == new:
        raise UsageError(f"Queue {old!r} is called so already; give another name.")

    def check(use: QueueUse, other: QueueUse) -> None:
        if not (use.jobs or use.is_set or use.schedules):
            raise _nothing_there(store, old)
        if running := use.states.get(State.PROCESSING, 0):
            raise StateError(
                f"Queue {old!r} has running jobs ({running:,}); pause it, and rename it when they"
                " are over."
            )
        if other.jobs or other.is_set or other.schedules:
            raise StateError(f"Queue {new!r} is in use: {_in_use(other)}; choose another name.")

    event = event_of(store.clock.now(), "rename", detail=f"queue {old} to {new}")
    return store.settings.rename_queue(old, new, check=check, event=event)


def remove(store: Store, name: str) -> None:
    """Remove a queue that has no jobs, with all that is set on it."""
    name = check_name("queue", name)

    def check(use: QueueUse) -> None:
        if use.jobs:
            advice = f"move those that wait, or remove them with queuectl rm --queue {quote(name)}."
            raise StateError(f"Queue {name!r} is in use: {_in_use(use)}.", advice=advice)
        if use.schedules:
            raise StateError(
                f"Queue {name!r} is in use: {_in_use(use)}; change or remove that first."
            )
        if use.info is None:
            raise _nothing_there(store, name)

    event = event_of(store.clock.now(), "rm", detail=f"queue {name}")
    store.settings.remove_queue(name, check=check, event=event)


def _in_use(use: QueueUse) -> str:
    """Say what makes a queue one that is used: its jobs first."""
    if use.jobs:
        states = ", ".join(
            f"{use.states[state]:,} {state}" for state in State if state in use.states
        )
        return f"{'1 job is' if use.jobs == 1 else f'{use.jobs:,} jobs are'} in it ({states})"
    if len(use.schedules) == 1:
        return f"schedule {use.schedules[0]} makes jobs for it"
    if use.schedules:
        return f"schedules {', '.join(use.schedules)} make jobs for it"
    return "something is set on it"


def _nothing_there(store: Store, name: str) -> NotFoundError:
    near = unused(store, [name]).get(name)
    advice = f"did you mean {near!r}?" if near else "see queuectl queue list."
    return NotFoundError(f"Nothing is in queue {name!r}, or set on it.", advice=advice)


def unused(store: Store, names: Iterable[str]) -> dict[str, str | None]:
    names = [check_sought("queue", name) for name in names]
    used = {count.queue for count in store.jobs.counts()}
    used |= {queue.name for queue in store.settings.queues()} | {DEFAULT_QUEUE}
    new = [name for name in names if name not in used and not store.history.rollups(queue=name)]
    return {name: nearest(name, sorted(used)) for name in new}


def unknown_tags(store: Store, tags: Iterable[str]) -> dict[str, str | None]:
    tags = [check_sought("tag", tag) for tag in tags]
    unknown = [tag for tag in tags if tag not in store.jobs.like(tag, 1, tags=True)]
    if not unknown:
        return {}
    some = store.jobs.like("", MOST_TAGS, tags=True)
    return {
        tag: nearest(tag, [*store.jobs.like(tag[:1], MOST_TAGS, tags=True), *some])
        for tag in unknown
    }
