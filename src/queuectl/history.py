"""History: the events that are kept of what people do to jobs and to the queue itself."""

from queuectl.action import current_action
from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.store.contract import Store


def event_of(
    now: int,
    kind: str,
    *,
    job: str | None = None,
    node: str | None = None,
    detail: str | None = None,
) -> Event:
    """Describe what is done now, by the user of this process."""
    action = current_action()
    return Event(
        at=now,
        kind=kind,
        job=job,
        node=node,
        who=whoami(),
        detail=detail,
        action=None if action is None else action.id,
    )


def record(store: Store, kind: str, *, node: str | None = None, detail: str | None = None) -> None:
    """Keep an event of what was done."""
    store.history.record(event_of(store.clock.now(), kind, node=node, detail=detail))
