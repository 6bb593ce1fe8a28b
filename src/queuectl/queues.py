"""Named queues: pausing them, and finding names of queues and tags that may be misspelt."""

from collections.abc import Iterable

from queuectl.errors import nearest
from queuectl.history import event_of
from queuectl.job import DEFAULT_QUEUE
from queuectl.request import check_name, check_sought
from queuectl.store.contract import Store

MOST_TAGS = 200
"""Tags among which one is looked for that may be meant."""


def set_paused(store: Store, queue: str, *, paused: bool) -> bool:
    """Pause or resume a queue; False when it was so already."""
    name = check_name("queue", queue)
    event = event_of(store.clock.now(), "pause" if paused else "resume", detail=name)
    return store.settings.set_paused(name, paused=paused, who=event.who, now=event.at, event=event)


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
