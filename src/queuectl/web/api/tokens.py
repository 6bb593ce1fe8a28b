"""Who may come in: tokens of programs, and sessions of browsers."""

from typing import Any

from queuectl.access import RIGHTS, Grant, Right, Role, read_roles
from queuectl.errors import UsageError, about
from queuectl.report import grant_dict
from queuectl.web import schemas
from queuectl.web.call import Answer, Call, ForbiddenError, text
from queuectl.web.route import Group, Scope

group = Group(name="tokens", about=__doc__ or "")

_TOKEN = schemas.ref("Token")


def told(call: Call, grant: Grant) -> dict[str, Any]:
    """Describe what somebody may do."""
    return grant_dict(grant, call.queue.now())


@group.get("/me", answers=_TOKEN)
def me(call: Call) -> dict[str, Any]:
    """Say who asks, and what that may do."""
    return told(call, call.grant)


@group.get("/tokens", needs=Right.ADMIN, scope=Scope.ALL, answers=schemas.array(_TOKEN))
def list_tokens(call: Call) -> list[dict[str, Any]]:
    """List the tokens, without their secrets."""
    return [told(call, one) for one in call.queue.access.tokens()]


@group.post(
    "/tokens",
    needs=Right.ADMIN,
    scope=Scope.ALL,
    takes=schemas.takes(
        {"name": schemas.NAME, "roles": schemas.ROLES},
        {
            "queues": schemas.array(schemas.NAME),
            "expires": schemas.or_null(schemas.TEXT),
        },
    ),
    answers=schemas.tells({"token": _TOKEN, "secret": schemas.TEXT}),
    status=201,
)
def add_token(call: Call) -> Answer:
    """Add a token. Its secret is in this answer, and nowhere else ever again.

    Nobody can give away rights that they don't have, nor for longer than they have them.
    """
    said = call.said("name", "roles", "queues", "expires", need=("name", "roles"))
    roles, queues = said["roles"], said.get("queues") or []
    for names in (roles, queues):
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise UsageError("roles and queues are lists of names.")
    grant, secret = call.queue.access.add_token(
        text(said, "name") or "",
        grantable(call, roles),
        queues=queues,
        expires=text(said, "expires"),
        maker=call.grant,
    )
    return Answer(value={"token": told(call, grant), "secret": secret}, status=201)


def grantable(call: Call, roles: list[str]) -> tuple[Role, ...]:
    """Return roles, if who asks may give them to others."""
    with about("roles"):
        asked = read_roles(roles)
    wanted = frozenset().union(*(RIGHTS[role] for role in asked))
    if missing := wanted - call.grant.rights:
        raise ForbiddenError(
            f"A right that one doesn't have can't be given: {min(missing)}.", field="roles"
        )
    return asked


@group.delete("/tokens/{name}", needs=Right.ADMIN, scope=Scope.ALL)
def remove_token(call: Call) -> None:
    """Take a token away, with the sessions of those who have signed in with it."""
    call.queue.access.remove_token(call.path["name"])


@group.get("/sessions", needs=Right.ADMIN, scope=Scope.ALL, answers=schemas.array(_TOKEN))
def list_sessions(call: Call) -> list[dict[str, Any]]:
    """List who is signed in."""
    return [told(call, one) for one in call.queue.access.sessions()]


@group.delete("/sessions/{id}", needs=Right.ADMIN, scope=Scope.ALL)
def remove_session(call: Call) -> None:
    """Sign somebody out."""
    call.queue.access.remove_session(call.path["id"])
