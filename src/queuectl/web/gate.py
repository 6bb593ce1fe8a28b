"""The gate: who is let in, from which pages, and under which names this server may be called.

A browser sends cookies along with whatever page asks it to. So a session counts for changes only
if the browser says that the request comes from our own pages, and a name of the server that isn't
known is refused: else a page of somebody else could have that name point here.
"""

import logging
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from ipaddress import ip_address, ip_network
from math import inf
from time import monotonic
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from queuectl.access import OF_PROXY, Grant, Kind, Role, digest_of
from queuectl.errors import StoreError, StoreMissingError
from queuectl.grants import is_to_be_noted
from queuectl.values import dataclass, field
from queuectl.web.http import UNIX
from queuectl.web.problems import RefusedError, problem_of, refused

if TYPE_CHECKING:
    from queuectl.queue import Queue

_RESTART = "restart queuectl web."
_GONE = StoreMissingError("The database isn't at its place any more.", advice=_RESTART)
"""Where it was is for the log, as nobody was asked yet who they are."""
GONE = _GONE.advised
_log = logging.getLogger(__name__)
KNOWN_FOR = 1.0
"""Seconds for which a secret is taken for good without asking again: so long a revocation takes."""
MOST_KNOWN = 10_000
LONGEST_HOST = 259
"""Letters of a name of the DNS, with a colon and a port."""
TRIES, TRIES_WITHIN = 10, 60.0
"""How many wrong secrets from an address are answered as such, in how many seconds."""
SAFE = ("GET", "HEAD", "OPTIONS")
ONCE = ("authorization", "content-type", "host", "origin", "sec-fetch-site")
"""Headers of which there can be one."""
LOCAL = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proxy:
    """A proxy that says who asks, in a header: believed from its own addresses only."""

    networks: tuple[str, ...] = ()
    """And `UNIX`, if it comes by our socket in the file system: who may open that is believed."""
    header: str = ""
    roles: tuple[Role, ...] = (Role.VIEW,)

    def is_at(self, address: str | None) -> bool:
        """Tell whether an address is one of the proxy's."""
        if address == UNIX:
            return UNIX in self.networks
        try:
            at = ip_address(address or "")
        except ValueError:
            return False
        return any(at in ip_network(one) for one in self.networks if one != UNIX)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What was said about who may come in, and how."""

    hosts: tuple[str, ...] = LOCAL
    """Names, without ports, under which this server may be called."""
    base_path: str = ""
    secure: bool = False
    """Whether it is called by https."""
    may_submit: bool = False
    """Whether anything may be made to run through this server."""
    read_only: bool = False
    proxy: Proxy = field(default_factory=Proxy)
    session_lasts: int = 7 * 24 * 3600 * 1000
    """Milliseconds after which one has to sign in again."""


class Tries:
    """Counts wrong secrets by address, and says that they are when there are many of them.

    A right one is let in whatever else comes from there: many may share an address. What keeps
    secrets from being guessed is how long they are.
    """

    def __init__(self) -> None:
        self._failed: dict[str, list[float]] = {}

    def failed(self, address: str) -> None:
        """Note that a secret was wrong; refuse who has failed too often of late."""
        now = monotonic()
        recent = [at for at in self._failed.get(address, ()) if at > now - TRIES_WITHIN]
        self._note(address, now)
        if len(recent) >= TRIES:
            wait = int(recent[0] + TRIES_WITHIN - now) + 1
            raise refused(
                429,
                "too-many-tries",
                "Too many tries",
                f"Too many secrets that were wrong came from there; try again in {wait} s.",
                Retry_After=str(wait),
            )

    def _note(self, address: str, now: float) -> None:
        if len(self._failed) >= MOST_KNOWN:
            self._failed = {
                who: at for who, at in self._failed.items() if at[-1] > now - TRIES_WITHIN
            }
        if len(self._failed) >= MOST_KNOWN:
            self._failed.clear()
        kept = self._failed.setdefault(address, [])
        kept.append(now)
        del kept[:-TRIES]


class Gate:
    """Lets requests in, or says why not. It asks the store, so it is asked in a thread."""

    def __init__(self, queue: "Queue", rules: Rules) -> None:
        self._queue = queue
        self.rules = rules
        self._hosts: set[str] = set()
        """Names of this server that were found to be good, as they were sent."""
        self._is_gone = False
        """Whether it has been said that the database is gone."""
        self._known: dict[str, tuple[Grant, float]] = {}
        self._used: dict[str, int] = {}
        """When grants were used, by their ids, which is to be noted yet."""
        self.tries = Tries()
        name = sha256(f"{queue.url}{rules.base_path}".encode()).hexdigest()[:8]
        # The first one is for the whole host, and nothing below it.
        whole = "__Host-" if not rules.base_path else "__Secure-"
        prefix = whole if rules.secure else ""
        self.cookie = f"{prefix}queuectl-{name}"
        """Cookies know no ports: two servers on one host would take each other's for theirs."""

    # -- what there is to be let in to ----------------------------------------------------

    def check_database(self) -> None:
        """Refuse everything while the database isn't the one at its place: it would be a ghost."""
        try:
            self._queue.check_place()
        except StoreMissingError as error:
            if not self._is_gone:
                _log.error(StoreMissingError(str(error), advice=_RESTART).advised)
            self._is_gone = True
            raise RefusedError(problem_of(_GONE)) from None
        self._is_gone = False

    # -- where it comes from --------------------------------------------------------------

    def check_host(self, headers: Mapping[str, str]) -> None:
        """Refuse a request that calls us by a name that isn't ours."""
        host = headers.get("host", "")
        if host in self._hosts:
            return
        name = urlsplit(f"//{host}").hostname if _is_host(host) else None
        known = {one.strip("[]").lower() for one in self.rules.hosts}
        if name is None or (name not in known and "*" not in known):
            raise refused(
                421,
                "unknown-host",
                "Unknown name of the server",
                f"This server isn't known as {host[:100]!r}; --allow-host adds a name.",
            )
        if len(self._hosts) < MOST_KNOWN:
            self._hosts.add(host)

    def check_once(self, repeated: Collection[str]) -> None:
        """Refuse a request that says twice what it is, or who: somebody else may read the other."""
        if twice := {*ONCE, self.rules.proxy.header.lower()} & set(repeated):
            raise refused(400, "twice", "Said twice", f"There may be one header {min(twice)} only.")

    def check_same_site(self, method: str, headers: Mapping[str, str]) -> None:
        """Refuse what a page of somebody else has a browser send along with our cookie."""
        if method in SAFE:
            return
        site = headers.get("sec-fetch-site")
        origin = headers.get("origin")
        ours = f"{'https' if self.rules.secure else 'http'}://{headers.get('host', '')}".lower()
        if site not in (None, "same-origin") or (origin is not None and origin.lower() != ours):
            raise refused(
                403, "cross-site", "From another site", "That came from a page of another site."
            )
        if site is None and origin is None:
            # Every browser of the last years says one of the two with a change.
            raise refused(
                403,
                "cross-site",
                "From nowhere",
                "A change by a session must say from where it comes; programs use a token.",
            )

    # -- who it is ------------------------------------------------------------------------

    def who(self, headers: Mapping[str, str], cookies: Mapping[str, str], address: str) -> Any:
        """Return who asks: a grant; None if nothing says so.

        A secret that isn't good is refused.
        """
        proxy = self.rules.proxy
        if proxy.header and (name := headers.get(proxy.header.lower())):
            if not proxy.is_at(address):
                raise refused(
                    403,
                    "not-the-proxy",
                    "Not the proxy",
                    f"{proxy.header} isn't believed from there.",
                )
            return _of_proxy(name, proxy)
        if (given := headers.get("authorization")) is not None:
            return self._by_token(given, address)
        if (secret := cookies.get(self.cookie)) is not None:
            grant = self._ask(secret, Kind.SESSION)
            if grant is not None:
                return grant
        return None

    def remembered(self, headers: Mapping[str, str]) -> Grant | None:
        """Return who asks with a token that was good a moment ago, without asking anybody."""
        scheme, _, secret = headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or self.rules.proxy.header:
            return None
        grant, until = self._known.get(digest_of(secret.strip()), (None, 0.0))
        return grant if grant and grant.kind is Kind.TOKEN and until >= monotonic() else None

    def _by_token(self, given: str, address: str) -> Grant:
        scheme, _, secret = given.partition(" ")
        grant = self._ask(secret.strip(), Kind.TOKEN) if scheme.lower() == "bearer" else None
        if grant is None:
            self.tries.failed(address)
            raise unknown("That token isn't good, or is no longer.", wrong=True)
        return grant

    def _ask(self, secret: str, kind: Kind) -> Grant | None:
        digest, now = digest_of(secret), monotonic()
        grant, until = self._known.get(digest, (None, 0.0))
        if until < now:
            grant = self._queue.access.known(secret, (kind,), note=False)
            if grant is None:
                self._known.pop(digest, None)
                return None
            at = self._queue.now()
            if is_to_be_noted(grant, at):
                self._used[grant.id] = at
            if len(self._known) >= MOST_KNOWN:
                self._known.clear()
            left = inf if grant.expires_at is None else grant.expires_at - at
            self._known[digest] = grant, now + min(KNOWN_FOR, left / 1000)
        return grant if grant is not None and grant.kind is kind else None

    def note_use(self) -> None:
        """Note who has come, as far as that can be written: no request waits for that."""
        used, self._used = self._used, {}
        with suppress(StoreError):
            # A copy, as somebody may still be at adding to it.
            self._queue.access.note_use(dict(used))

    def forget(self, secret: str) -> None:
        """Ask again for a secret: it was just taken away."""
        self._known.pop(digest_of(secret), None)


def unknown(detail: str, *, wrong: bool = False) -> RefusedError:
    """Refuse somebody who isn't known."""
    challenge = 'Bearer realm="queuectl"' + (', error="invalid_token"' if wrong else "")
    return refused(401, "unknown", "Not signed in", detail, WWW_Authenticate=challenge)


def _of_proxy(name: str, proxy: Proxy) -> Grant:
    shown = "".join(letter for letter in name[:64] if letter.isprintable())
    return Grant(
        id=f"{OF_PROXY}{shown}",
        kind=Kind.SESSION,
        name=shown,
        digest="",
        roles=proxy.roles,
        created_at=0,
        created_by="the proxy",
    )


def _is_host(text: str) -> bool:
    """Tell whether a text can be the name of a host, and a port."""
    if not 0 < len(text) <= LONGEST_HOST or set(text) & set("/\\@?#% \t\r\n"):
        return False
    _, bracket, behind = text.rpartition("]")
    return (not bracket or not behind or behind.startswith(":")) and _has_port(text)


def _has_port(text: str) -> bool:
    try:
        urlsplit(f"//{text}").port  # noqa: B018 - it raises
    except ValueError:
        return False
    return True


def networks(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the networks of these addresses, or raise `ValueError`."""
    return tuple(text if text == UNIX else str(ip_network(text, strict=False)) for text in texts)
