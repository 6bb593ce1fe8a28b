"""Who may do what over HTTP: roles, what they allow, and the secrets by which somebody is known.

A secret is shown once, and kept as a digest only: it is 256 bits of chance, so a fast digest is as
good as a slow one. Whoever sends it has what its grant says: the rights of some roles, in all
queues or in some of them, until a time.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from enum import StrEnum

from queuectl.errors import UsageError, did_you_mean, shown
from queuectl.values import dataclass

LONGEST_NAME = 64
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]*")


class Right(StrEnum):
    """What a request may need."""

    SEE = "see"
    """Read jobs, their output, and how things stand."""
    SECRETS = "secrets"
    """Read what jobs are given besides: their data, and the names of their variables."""
    OPERATE = "operate"
    """Change what becomes of jobs: cancel, retry, hold, move, delete; pause queues, schedules."""
    SUBMIT = "submit"
    """Have something run: new jobs, other commands, schedules, hooks, webhooks."""
    ADMIN = "admin"
    """Change how it all works: settings, limits, nodes, tokens."""


class Role(StrEnum):
    """What somebody is, which says what they may do. Several may be had at once."""

    VIEW = "view"
    OPERATE = "operate"
    SUBMIT = "submit"
    ADMIN = "admin"


RIGHTS: dict[Role, frozenset[Right]] = {
    Role.VIEW: frozenset({Right.SEE}),
    Role.OPERATE: frozenset({Right.SEE, Right.OPERATE}),
    Role.SUBMIT: frozenset({Right.SEE, Right.SUBMIT}),
    # To run commands here is more than to look after what runs, so it must be said as well.
    Role.ADMIN: frozenset({Right.SEE, Right.SECRETS, Right.OPERATE, Right.ADMIN}),
}


class Kind(StrEnum):
    """How somebody is known."""

    TOKEN = "token"
    """By a secret that a program sends along with each request."""
    SESSION = "session"
    """By a cookie of a browser."""
    LINK = "link"
    """By a link to sign in with, once."""


class Refusal(StrEnum):
    """Why nobody can sign in with a secret."""

    WRONG = "wrong"
    """There is no such, or no longer."""
    USED = "used"
    """It is that of a link with which somebody has signed in."""
    EXPIRED = "expired"
    """Its time is over."""


PREFIXES = {Kind.TOKEN: "qtl_", Kind.SESSION: "qts_", Kind.LINK: "qtk_"}
"""How secrets begin: so that a token which went astray is found by what looks for such."""
LONGEST_SECRET = 64


OF_PROXY = "proxy:"
"""How the ids of those begin of whom a proxy says who they are: nothing is kept of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """What somebody may do who has a secret."""

    id: str
    kind: Kind
    name: str
    """Of a token its name, by which no other goes; of a session, that of whom it was given to."""
    digest: str
    """Of the secret."""
    roles: tuple[Role, ...]
    created_at: int
    """Of a session, when it got the secret that it has."""
    created_by: str
    queues: tuple[str, ...] = ()
    """Those that it is good for; none is all."""
    expires_at: int | None = None
    used_at: int | None = None
    """When it was last used, give or take a minute."""
    parent: str | None = None
    """The id of what it was derived from, and goes with: for a session, the token that somebody has
    signed in with; for the secret that it had before, the session."""

    @property
    def is_of_proxy(self) -> bool:
        """Whether it is somebody of whom a proxy says who that is."""
        return self.id.startswith(OF_PROXY)

    @property
    def root(self) -> str:
        """The id of what it was derived from, or its own: the same for all that is one's."""
        return self.parent or self.id

    @property
    def rights(self) -> frozenset[Right]:
        """All that it allows."""
        return frozenset().union(*(RIGHTS[role] for role in self.roles))

    def may(self, right: Right) -> bool:
        """Tell whether it allows this."""
        return right in self.rights

    def is_for(self, queue: str) -> bool:
        """Tell whether it is good for a queue."""
        return not self.queues or queue in self.queues

    def is_over(self, now: int) -> bool:
        """Tell whether its time is over."""
        return self.expires_at is not None and self.expires_at <= now


def new_secret(kind: Kind) -> str:
    """Make a secret that nobody can guess."""
    from secrets import token_urlsafe

    return PREFIXES[kind] + token_urlsafe(32)


def kind_of(secret: str) -> Kind | None:
    """Return what a secret is for, going by its beginning; None for what can't be one."""
    if len(secret) > LONGEST_SECRET:
        return None
    return next((kind for kind, begin in PREFIXES.items() if secret.startswith(begin)), None)


def digest_of(secret: str) -> str:
    """Return what is kept of a secret."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


def read_roles(names: str | Iterable[str]) -> tuple[Role, ...]:
    """Return the roles of these names, each once, in their usual order."""
    asked = names.split(",") if isinstance(names, str) else names
    roles = set()
    for name in asked:
        try:
            roles.add(Role(str(name).strip()))
        except ValueError:
            hint = did_you_mean(str(name), [role.value for role in Role], f"use {', '.join(Role)}.")
            raise UsageError(f"There is no role {shown(name)}; {hint}") from None
    if not roles:
        raise UsageError(f"A role must be said: {', '.join(Role)}.")
    return tuple(role for role in Role if role in roles)


def check_name(name: str) -> str:
    """Return the name of a token, or raise."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise UsageError(
            f"A token can't be called {shown(name)}: take up to {LONGEST_NAME} letters, digits and"
            " any of . _ @ -, a letter or digit first."
        )
    return name


def write_roles(roles: Sequence[Role]) -> str:
    """Write roles as they are read."""
    return ",".join(roles)
