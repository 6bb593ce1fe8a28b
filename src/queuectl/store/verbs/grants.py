"""Verbs about who is let in over HTTP: tokens, sessions, and links to sign in with."""

import json
from collections.abc import Sequence
from typing import Any

from queuectl.access import Grant, Kind, Role, write_roles
from queuectl.errors import DuplicateError
from queuectl.facts import Event
from queuectl.store.contract import Grants
from queuectl.store.driver import Row
from queuectl.store.idiom import Idiom
from queuectl.store.statements.around import GRANT

_COLUMNS = GRANT.split(", ")


class SqlGrants(Grants):
    """The grants of a queue in an SQL database."""

    def __init__(self, idiom: Idiom) -> None:
        self._idiom = idiom
        self._db = idiom.db
        self._sql = idiom.sql

    def all(self) -> list[Grant]:
        return self._grants(self._sql.GRANTS)

    def get(self, id: str) -> Grant | None:
        return next(iter(self._grants(self._sql.GRANT_OF_ID, id=id)), None)

    def find(self, digest: str) -> Grant | None:
        return next(iter(self._grants(self._sql.GRANT_OF_DIGEST, digest=digest)), None)

    def add(self, grant: Grant, *, now: int, event: Event | None = None) -> None:
        def add() -> None:
            self._db.change(self._sql.DROP_GRANTS_OVER, {"now": now})
            self._keep(grant)
            self._record(event)

        self._db.transact(add)

    def exchange(
        self, was: Grant, grant: Grant, *, left: Grant | None = None, event: Event | None = None
    ) -> bool:
        def exchange() -> bool:
            # In its place, and not beside it: whoever takes it away meanwhile finds what it became.
            of = {"was": was.id, "was_digest": was.digest}
            if not self._db.change(self._sql.EXCHANGE_GRANT, _row_of(grant) | of):
                return False
            if left is not None:
                self._keep(left)
            self._record(event)
            return True

        return self._db.transact(exchange)

    def remove(self, id: str, *, event: Event | None = None) -> list[Grant]:
        def remove() -> list[Grant]:
            found = self._grants(self._sql.LOCK_GRANT, id=id)
            newest = found
            while newest:
                ids = self._bind(newest)
                newest = self._grants(self._sql.LOCK_DERIVED, ids=ids)
                found = found + newest
                self._db.change(self._sql.DROP_GRANTS, {"ids": ids})
            self._record(event if found else None)
            return found

        return self._db.transact(remove)

    def touch(self, id: str, at: int) -> None:
        self._db.again(self._sql.TOUCH_GRANT, id=id, at=at)

    # -- rows ---------------------------------------------------------------------------

    def _grants(self, statement: str, **params: object) -> list[Grant]:
        return [_grant_of(row) for row in self._db.rows(statement, **params)]

    def _bind(self, grants: Sequence[Grant]) -> object:
        return self._idiom.bind([grant.id for grant in grants])

    def _keep(self, grant: Grant) -> None:
        """Insert a grant. If two tokens are to have one name, the second meets the first here."""
        row = _row_of(grant)
        self._db.change(self._sql.ADD_GRANT, row)
        token = row["token"]
        if token is not None and self._db.value(self._sql.TOKEN_NAMED, token=token) != grant.id:
            raise DuplicateError(
                f"There is a token {grant.name!r} already; remove it, or choose another name."
            )

    def _record(self, event: Event | None) -> None:
        self._idiom.record([] if event is None else [event])


def _grant_of(row: Row) -> Grant:
    values: dict[str, Any] = dict(zip(_COLUMNS, row, strict=True))
    values["kind"] = Kind(values["kind"])
    # A role that a later version has, or another program made up, allows nothing here.
    named = values["roles"].split(",")
    values["roles"] = tuple(role for role in Role if role in named)
    values["queues"] = tuple(json.loads(values["queues"] or "[]"))
    return Grant(**values)


def _row_of(grant: Grant) -> dict[str, Any]:
    row = {name: getattr(grant, name) for name in _COLUMNS}
    return row | {
        "kind": grant.kind.value,
        "roles": write_roles(grant.roles),
        "queues": json.dumps(grant.queues, ensure_ascii=False) if grant.queues else None,
        "token": grant.name if grant.kind == Kind.TOKEN else None,
    }
