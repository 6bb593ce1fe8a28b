"""History: the events that are kept of what people do to jobs and to the queue itself."""

import json
import re

from queuectl.action import current_action
from queuectl.facts import Event
from queuectl.fields import REQUESTED
from queuectl.host import whoami
from queuectl.scope import is_bounded, reaches
from queuectl.store.contract import Store
from queuectl.values import replace

ELSEWHERE = "(another queue)"
"""Instead of the name of a queue that isn't for who asks."""
_NAMES = "|".join(field.column for field in REQUESTED if field.column)
_MOVED = re.compile(rf"((?:^|; |; with )queue )(.+?) -> (.+?)(?=$|; (?:{_NAMES})[ :])")
"""What `editing.told` says of a queue."""


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


def seen(event: Event) -> Event:
    """Return an event without the names of queues that aren't for who asks."""
    if not is_bounded():
        return event
    detail = None if event.detail is None else _MOVED.sub(_seen_move, event.detail)
    was = None if event.was is None else json.loads(event.was)
    if was is not None and "queue" in was and not reaches(was["queue"]):
        del was["queue"]
    return replace(event, detail=detail, was=None if was is None else json.dumps(was))


def _seen_move(found: re.Match[str]) -> str:
    start, *names = found.groups()
    return start + " -> ".join(name if reaches(name) else ELSEWHERE for name in names)
