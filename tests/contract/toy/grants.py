"""The verbs about who is let in over HTTP."""

from queuectl.access import Grant, Kind
from queuectl.errors import DuplicateError
from queuectl.facts import Event
from queuectl.store.contract import Grants
from queuectl.values import replace
from tests.contract.toy.memory import Memory


class ToyGrants(Grants):
    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def all(self) -> list[Grant]:
        return sorted(self._memory.grants.values(), key=lambda one: (one.created_at, one.id))

    def get(self, id: str) -> Grant | None:
        return self._memory.grants.get(id)

    def find(self, digest: str) -> Grant | None:
        return next((one for one in self.all() if one.digest == digest), None)

    def add(self, grant: Grant, *, now: int, event: Event | None = None) -> None:
        kept = {one.id: one for one in self.all() if not one.is_over(now)}
        tokens = {one.name for one in kept.values() if one.kind == Kind.TOKEN}
        if grant.kind == Kind.TOKEN and grant.name in tokens:
            raise DuplicateError(f"There is a token {grant.name!r} already.")
        self._memory.grants = kept | {grant.id: grant}
        self._memory.keep(event)

    def exchange(
        self, was: Grant, grant: Grant, *, left: Grant | None = None, event: Event | None = None
    ) -> bool:
        there = self.get(was.id)
        if there is None or there.digest != was.digest:
            return False
        del self._memory.grants[was.id]
        self._memory.grants |= {one.id: one for one in (grant, left) if one is not None}
        self._memory.keep(event)
        return True

    def remove(self, id: str, *, event: Event | None = None) -> list[Grant]:
        found = [one for one in self.all() if one.id == id]
        for one in found:
            # More are found on the way.
            found += [other for other in self.all() if other.parent == one.id]
            del self._memory.grants[one.id]
        self._memory.keep(event if found else None)
        return found

    def touch(self, id: str, at: int) -> None:
        one = self.get(id)
        if one is not None and (one.used_at is None or one.used_at < at):
            self._memory.grants[id] = replace(one, used_at=at)
