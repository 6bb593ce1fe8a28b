"""The verbs about webhooks."""

from collections.abc import Callable

from queuectl.facts import Event
from queuectl.store.contract import Webhooks
from queuectl.webhook import Webhook
from tests.contract.toy.memory import Memory, wall


class ToyWebhooks(Webhooks):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def all(self) -> list[Webhook]:
        return [self._memory.webhooks[name] for name in sorted(self._memory.webhooks)]

    def change(
        self,
        name: str,
        decide: Callable[[Webhook | None, int], Webhook | None],
        *,
        event: Event | None = None,
    ) -> Webhook | None:
        before = self._memory.webhooks.get(name)
        after = decide(before, wall())
        if after is None:
            self._memory.webhooks.pop(name, None)
        else:
            self._memory.webhooks[name] = after
        self._memory.keep(None if after is before else event)
        return after
