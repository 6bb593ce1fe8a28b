"""History: the events that are kept of what people do to the queue itself."""

from queuectl.facts import Event
from queuectl.host import whoami
from queuectl.store.contract import Store


def record(store: Store, kind: str, *, node: str | None = None, detail: str | None = None) -> None:
    """Keep an event: what was done now, by the user of this process."""
    store.history.record(
        Event(at=store.now(), kind=kind, job=None, node=node, who=whoami(), detail=detail)
    )
