"""Who is let in over HTTP: adding and removing tokens, signing in and out, knowing who asks."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from hmac import compare_digest
from typing import TYPE_CHECKING

from queuectl.access import (
    Grant,
    Kind,
    Refusal,
    check_name,
    digest_of,
    kind_of,
    new_secret,
    read_roles,
)
from queuectl.errors import (
    BadTimeError,
    NotFoundError,
    StoreError,
    UsageError,
    about,
    did_you_mean,
    shown,
)
from queuectl.facts import Event
from queuectl.history import event_of
from queuectl.host import acting_as, whoami
from queuectl.request import check_name as check_line
from queuectl.request import read_duration
from queuectl.store.contract import Store
from queuectl.store.ids import new_ids
from queuectl.values import replace
from queuectl.when import (
    DAY,
    HOUR,
    LATEST,
    MINUTE,
    format_duration,
    iso,
    milliseconds,
    parse_duration,
    parse_time,
)

if TYPE_CHECKING:
    from datetime import datetime

ID_LENGTH = 12
LASTING = timedelta(hours=12)
"""How long a session lasts, unless somebody says otherwise."""
GOOD_FOR = timedelta(minutes=15)
"""How long one can sign in with a link, unless somebody says otherwise."""
LONGEST_SESSION = 366 * DAY
LONGEST_LINK = 24 * HOUR
MOST_SESSIONS = 100
"""Sessions of a token at a time. One more ends the one that got its secret first."""
HOLDS_ON = MINUTE
"""Milliseconds for which the old secret of a session is good when it has a new one: requests that
were sent before are on their way."""
REMEMBERED = HOUR
"""Milliseconds for which a link that is over is kept at least, to say what became of it."""
NOTED_EVERY = MINUTE
"""Milliseconds after which it is noted again that a grant was used."""
DEEPEST = 8
"""How many grants one can be derived from, one from the other."""


class Access:
    """Who may do what with a queue over HTTP: `queue.access`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    # -- tokens -------------------------------------------------------------------------

    def tokens(self) -> list[Grant]:
        """Return all tokens, by name; one that is over is there until something else is added."""
        found = [one for one in self._store.grants.all() if one.kind == Kind.TOKEN]
        return sorted(found, key=lambda one: one.name)

    def add_token(
        self,
        name: str,
        roles: str | Iterable[str],
        *,
        queues: Sequence[str] = (),
        expires: "str | int | float | timedelta | datetime | None" = None,
        maker: Grant | None = None,
    ) -> tuple[Grant, str]:
        """Add a token, and return it with its secret, which can't be had a second time.

        It is good for these queues, or for all; until a time, or for a duration: text such as
        "90d" or "2030-01-31", a timedelta, a datetime, or a number of seconds. It ends with the
        token by which its `maker` is let in at the latest, but stays if that is removed before.

        Raises:
            UsageError: The name, a role, a queue or the time can't be; nothing was stored.
            DuplicateError: There is a token of this name.
        """
        now = self._store.clock.now()
        with about("name"):
            name = check_name(name)
        with about("expires"):
            expires_at = self._bounded(_read_expiry(expires, now), maker)
        token, secret = _new(Kind.TOKEN, name, roles, queues, now, expires_at=expires_at)
        event = event_of(now, "token-add", detail=_described(token))
        self._store.grants.add(token, now=now, event=event)
        return token, secret

    def _bounded(self, end: int | None, maker: Grant | None) -> int | None:
        """Return the end of a token, which isn't behind that of what its maker has."""
        bound = self._end_of(maker)
        if bound is None or end is None:
            return bound if end is None else end
        if end > bound:
            raise UsageError(f"It can be good until {iso(bound)}, as what you are let in by ends.")
        return end

    def _end_of(self, grant: Grant | None) -> int | None:
        """Return the end of the token by which somebody is let in, if it is one, and has one."""
        for _ in range(DEEPEST):
            if grant is None or grant.kind == Kind.TOKEN:
                break
            grant = None if grant.parent is None else self._store.grants.get(grant.parent)
        return None if grant is None else grant.expires_at

    def get_token(self, name: str) -> Grant:
        """Return the token of this name; there must be one."""
        known = {token.name: token for token in self.tokens()}
        if name not in known:
            raise NotFoundError(
                f"There is no token {shown(name)}.",
                advice=did_you_mean(str(name), known, "see queuectl token list."),
            )
        return known[name]

    def remove_token(self, name: str) -> list[Grant]:
        """Remove a token, with all sessions of those who signed in with it; returns all of them.

        The token comes first; sessions that were over by themselves are among the others.
        """
        token = self.get_token(name)
        removed = self._store.grants.remove(token.id, event=self._event("token-rm", name))
        # If somebody else has removed it meanwhile, that it is gone is all there is to say.
        return removed or [token]

    # -- sessions -----------------------------------------------------------------------

    def sessions(self) -> list[Grant]:
        """Return the sessions that are good now, the oldest first."""
        known = {one.id: one for one in self._store.grants.all()}
        now = self._store.clock.now()
        return [
            one
            for one in known.values()
            if one.kind == Kind.SESSION
            and not _is_former(one, known.get(one.parent or ""))
            and self._is_good(one, now, known)
        ]

    def remove_session(self, id: str) -> Grant:
        """End a session: whoever has it must sign in again."""
        known = {session.id: session for session in self.sessions()}
        there = self._store.grants.get(id)
        # Somebody may have come with the secret that it had before.
        wanted = id if there is None or id in known else there.parent or id
        if wanted in known:
            event = self._event("sign-out", f"{known[wanted].name}: session {wanted}")
            if self._store.grants.remove(wanted, event=event):
                return known[wanted]
        raise NotFoundError(
            f"There is no session {shown(id)}.",
            advice=did_you_mean(str(id), known, "see queuectl token sessions."),
        )

    def remove_sessions(self, of: str | None = None) -> list[Grant]:
        """End the sessions of somebody, or all; returns those that there were."""
        removed = []
        for session in self.sessions():
            if of in (None, session.name):
                with suppress(NotFoundError):
                    removed.append(self.remove_session(session.id))
        return removed

    def link(
        self,
        name: str,
        roles: str | Iterable[str],
        *,
        queues: Sequence[str] = (),
        good_for: str | int | float | timedelta = GOOD_FOR,
    ) -> str:
        """Return the secret of a link with which somebody can sign in, once and soon."""
        now = self._store.clock.now()
        span = _read_span("good_for", good_for, LONGEST_LINK)
        whom = check_line("The name for a link", name)
        link, secret = _new(Kind.LINK, whom, roles, queues, now, expires_at=now + span)
        event = event_of(now, "link", detail=_described(link))
        self._store.grants.add(link, now=now - REMEMBERED, event=event)
        return secret

    def sign_in(
        self, secret: str, *, lasting: str | int | float | timedelta = LASTING
    ) -> tuple[Grant, str] | None:
        """Begin a session by the secret of a link, which is used up then, or of a token.

        It has the same name, roles and queues, and ends with the token. Returns it with its secret;
        None if the other one isn't good.
        """
        span = _read_span("lasting", lasting, LONGEST_SESSION)
        known = self.known(secret, (Kind.LINK, Kind.TOKEN))
        if known is None:
            return None
        now = self._store.clock.now()
        by_link = known.kind == Kind.LINK
        end = now + span if by_link else min(now + span, known.expires_at or LATEST)
        with acting_as(known.name):
            session, new = _new(
                Kind.SESSION, known.name, known.roles, known.queues, now, expires_at=end
            )
            event = event_of(now, "sign-in", detail=_described(session))
        if by_link:
            session = replace(session, parent=known.parent)
            spent = replace(known, id=_new_id(), expires_at=now, used_at=now)
            if not self._store.grants.exchange(known, session, left=spent, event=event):
                return None
        else:
            session = replace(session, parent=known.id)
            self._make_room(known)
            self._store.grants.add(session, now=now - REMEMBERED, event=event)
        return session, new

    def _make_room(self, token: Grant) -> None:
        """End the oldest sessions of a token if there are very many."""
        there = [session for session in self.sessions() if session.parent == token.id]
        there.sort(key=lambda one: one.created_at)
        for old in there[: max(len(there) + 1 - MOST_SESSIONS, 0)]:
            self._store.grants.remove(old.id)

    def refusal(self, secret: str) -> Refusal:
        """Say why nobody can sign in with a secret; of a link that is long over, it is `WRONG`."""
        found = self._store.grants.find(digest_of(secret))
        if found is None or found.kind not in (Kind.LINK, Kind.TOKEN) or found.expires_at is None:
            return Refusal.WRONG
        if _is_spent(found):
            return Refusal.USED
        is_over = found.is_over(self._store.clock.now())
        return Refusal.EXPIRED if is_over else Refusal.WRONG

    def rotate(self, session: Grant) -> tuple[Grant, str] | None:
        """Give a session another secret; that of before is good for a minute more.

        Returns it with the secret. None if that was done already, or it is over: then whoever has
        come with it must take what the others got, or sign in again.
        """
        now = self._store.clock.now()
        if session.kind != Kind.SESSION:
            raise UsageError("Only the secret of a session can be replaced by another.")
        there = self._store.grants.get(session.id)
        if there is None or there.digest != session.digest or not self._is_good(there, now):
            return None
        if there.parent is not None and self._is_session(there.parent):
            return None
        secret = new_secret(Kind.SESSION)
        rotated = replace(there, digest=digest_of(secret), created_at=now, used_at=now)
        end = min(now + HOLDS_ON, there.expires_at or LATEST)
        former = replace(there, id=_new_id(), expires_at=end, parent=there.id)
        if not self._store.grants.exchange(there, rotated, left=former):
            return None
        return rotated, secret

    # -- who asks -----------------------------------------------------------------------

    def known(
        self,
        secret: str,
        kinds: Collection[Kind] = (Kind.TOKEN, Kind.SESSION),
        *,
        note: bool = True,
    ) -> Grant | None:
        """Return what somebody may do who has this secret, if it is good now, and of these kinds.

        It isn't good any more if its time is over, or if that of what it was derived from is, or
        that is gone. That it was used is noted, once a minute at most, and as far as that can be
        written; or left to be noted by `note_use`.
        """
        if kind_of(secret) not in kinds:
            return None
        digest = digest_of(secret)
        found = self._store.grants.find(digest)
        if found is None or not compare_digest(found.digest, digest) or found.kind not in kinds:
            return None
        now = self._store.clock.now()
        if not self._is_good(found, now):
            return None
        if note and is_to_be_noted(found, now):
            found = replace(found, used_at=now)
            # Who it is, is known all the same.
            with suppress(StoreError):
                self._store.grants.touch(found.id, now)
        return found

    def note_use(self, used: Mapping[str, int]) -> None:
        """Note when grants were used, by their ids."""
        for id, at in used.items():
            self._store.grants.touch(id, at)

    def good_ones(self) -> set[str]:
        """Return the ids of all that is good now."""
        known = {one.id: one for one in self._store.grants.all()}
        now = self._store.clock.now()
        return {id for id, one in known.items() if self._is_good(one, now, known)}

    def _is_good(self, grant: Grant, now: int, known: dict[str, Grant] | None = None) -> bool:
        """Tell whether a grant holds, and all that it was derived from; some may be known."""
        one: Grant | None = grant
        for _ in range(DEEPEST):
            if one is None or one.is_over(now):
                return False
            if one.parent is None:
                return True
            one = self._store.grants.get(one.parent) if known is None else known.get(one.parent)
        return False

    def _is_session(self, id: str) -> bool:
        found = self._store.grants.get(id)
        return found is not None and found.kind == Kind.SESSION

    def _event(self, kind: str, detail: str) -> Event:
        return event_of(self._store.clock.now(), kind, detail=detail)


def is_to_be_noted(grant: Grant, now: int) -> bool:
    """Tell whether it is a while since it was last noted that a grant was used."""
    return grant.used_at is None or now - grant.used_at >= NOTED_EVERY


def _new(
    kind: Kind,
    name: str,
    roles: str | Iterable[str],
    queues: Sequence[str],
    now: int,
    *,
    expires_at: int | None,
) -> tuple[Grant, str]:
    """Make a grant and its secret."""
    if isinstance(queues, str):
        raise UsageError("queues takes several names, such as a list.")
    secret = new_secret(kind)
    grant = Grant(
        id=_new_id(),
        kind=kind,
        name=name,
        digest=digest_of(secret),
        roles=read_roles(roles),
        queues=tuple(dict.fromkeys(check_line("queue", queue) for queue in queues)),
        created_at=now,
        created_by=whoami(),
        expires_at=expires_at,
    )
    return grant, secret


def _is_spent(link: Grant) -> bool:
    """Tell whether somebody has signed in with a link: that was its last use, and its end."""
    return link.kind == Kind.LINK and link.used_at is not None and link.used_at == link.expires_at


def _new_id() -> str:
    return new_ids(1, ID_LENGTH)[0]


def _is_former(session: Grant, parent: Grant | None) -> bool:
    """Tell whether it is only the secret that another session had before."""
    return parent is not None and parent.kind == session.kind


def _read_expiry(value: "str | int | float | timedelta | datetime | None", now: int) -> int | None:
    if value is None:
        return None
    at = _read_end(value, now)
    if not now < at <= LATEST:
        raise UsageError(f"A token can't end at a time that has been: {shown(value)}.")
    return at


def _read_end(value: "str | int | float | timedelta | datetime", now: int) -> int:
    if isinstance(value, str):
        try:
            return now + parse_duration(value)
        except BadTimeError:
            return parse_time(value, now=now)
    if isinstance(value, int | float | timedelta):
        return now + read_duration("expires", value)
    return milliseconds(value)


def _read_span(name: str, value: str | int | float | timedelta, longest: int) -> int:
    span = read_duration(name, value)
    if not 0 < span <= longest:
        raise UsageError(f"{name} can be up to {format_duration(longest)}, not {shown(value)}.")
    return span


def _described(grant: Grant) -> str:
    """Write what a grant allows."""
    text = f"{grant.name}: {', '.join(grant.roles)}"
    if grant.queues:
        text += f" in {', '.join(grant.queues)}"
    return text if grant.expires_at is None else f"{text}, until {iso(grant.expires_at)}"
