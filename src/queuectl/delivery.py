"""Delivering a message of a webhook: signed, over HTTP, to an address that may be reached.

It is a program as well, which a node runs for each delivery: what to send where comes on its stdin,
so that no secret is in its arguments or its environment. It knows nothing of the queue.

What a name means is looked up once, each address is checked, and the connection is made to one that
was checked: a name that means another address a moment later leads nowhere else.
"""

import sys
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from queuectl import __version__
from queuectl.errors import QueuectlError, UsageError
from queuectl.values import dataclass

if TYPE_CHECKING:
    from http.client import HTTPConnection
    from ipaddress import IPv4Address, IPv6Address
    from socket import socket
    from urllib.parse import SplitResult

PROGRAM = (sys.executable, "-P", "-m", "queuectl.delivery")
GONE = 69
"""The exit code that says that the receiver wants no more messages."""
PATIENCE = 15.0
"""Seconds that all of a delivery may take, once the name of the receiver is known."""
LONGEST_ANSWER = 2_048
"""Bytes of an answer that are read."""
LONGEST_URL = 2_048
SECRET_PREFIX = "whsec_"
SHORTEST_SECRET, LONGEST_SECRET = 24, 64
"""Bytes of a secret: what the Standard Webhooks specification allows."""
NEW_SECRET = 32
_GONE_STATUS = 410
_NAT64 = "64:ff9b::/96"
"""IPv6 addresses that stand for those of IPv4."""
_OWN = (
    "192.0.0.0/24",  # of protocols
    "192.88.99.0/24",  # to relays of 6to4
    "168.63.129.16/32",  # of the host beneath, in a cloud
    "64:ff9b:1::/48",  # for IPv4 addresses of a network of one's own
    "100::/64",  # for what is dropped
    "2001::/23",  # of protocols
    "3fff::/20",  # for documentation
    "5f00::/16",  # of segments of a network
    "fec0::/10",  # of sites, once
)
"""Addresses that Python, in one version or another, takes for public."""


class UndeliveredError(QueuectlError):
    """A message didn't get an answer, for a reason that is said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a receiver said to a message."""

    status: int
    reason: str
    text: str
    """The beginning of its body."""

    @property
    def is_good(self) -> bool:
        """Whether the message is delivered."""
        return 200 <= self.status < 300

    @property
    def is_gone(self) -> bool:
        """Whether the receiver wants no more messages, ever."""
        return self.status == _GONE_STATUS

    def describe(self) -> str:
        """Say in one line what came back."""
        said = f"HTTP {self.status} {self.reason}".strip()
        return f"{said} (redirects aren't followed)" if 300 <= self.status < 400 else said


# -- secrets and signatures -------------------------------------------------------------


def new_secret() -> str:
    """Make a secret, by chance."""
    import os

    return SECRET_PREFIX + b64encode(os.urandom(NEW_SECRET)).decode()


def check_secret(text: str) -> str:
    """Return a secret that messages can be signed with; one that can't be is a `UsageError`."""
    try:
        key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except ValueError:
        key = b""
    fits = SHORTEST_SECRET <= len(key) <= LONGEST_SECRET
    if not text.startswith(SECRET_PREFIX) or not fits:
        raise UsageError(
            f"A secret is {SECRET_PREFIX} and, in base64, {SHORTEST_SECRET} to {LONGEST_SECRET}"
            " random bytes; leave it out, and one is made."
        )
    return text


def sign(secret: str, id: str, timestamp: int, body: bytes) -> str:
    """Sign a message, as the Standard Webhooks specification says (version 1: HMAC-SHA256)."""
    import hashlib
    import hmac

    key = b64decode(secret.removeprefix(SECRET_PREFIX))
    signed = hmac.new(key, b"%b.%d.%b" % (id.encode(), timestamp, body), hashlib.sha256)
    return f"v1,{b64encode(signed.digest()).decode()}"


# -- where it goes ----------------------------------------------------------------------


def check_url(url: str) -> str:
    """Return the URL of a receiver; one that messages can't be sent to is a `UsageError`."""
    if len(url) > LONGEST_URL:
        raise UsageError(f"A URL can have {LONGEST_URL:,} characters at most.")
    if not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError("A URL has neither spaces nor letters beyond ASCII; write them as %20.")
    parts = _split(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise UsageError(f"A webhook needs a URL such as https://example.com/hook, not {url!r}.")
    if "@" in parts.netloc:
        raise UsageError("A webhook can't have a user or password in its URL: messages are signed.")
    if parts.fragment:
        raise UsageError("What stands behind # in a URL is never sent; leave it out.")
    return url


def _split(url: str) -> "SplitResult":
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        # A port that is none is only found out when somebody looks.
        parts.port  # noqa: B018
    except ValueError as error:
        raise UsageError(f"{url!r} is no URL: {error}.") from None
    return parts


def is_public(address: str) -> bool:
    """Tell whether an address is one of the internet, and of no network that is somebody's own."""
    from ipaddress import IPv6Address, ip_address, ip_network

    ip = ip_address(address)
    if isinstance(ip, IPv6Address):
        if ip in ip_network(_NAT64):
            return is_public(str(ip_address(int(ip) & 0xFFFF_FFFF)))
        inner = ip.ipv4_mapped or ip.sixtofour or (ip.teredo[1] if ip.teredo else None)
        if inner is not None and not is_public(str(inner)):
            return False
        if ip.ipv4_mapped is not None:
            return True
    return _is_global(ip)


def is_of_a_private_network(host: str) -> bool:
    """Tell whether the host of a URL is plainly no public one; what a name means isn't asked."""
    import socket

    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        # In any of the ways in which an address can be written: 127.1 as well.
        name = socket.inet_ntoa(socket.inet_aton(name))
    except OSError:
        if ":" not in name:
            return False
    try:
        return not is_public(name)
    except ValueError:
        return False


def _is_global(ip: "IPv4Address | IPv6Address") -> bool:
    from ipaddress import ip_network

    is_own = any(ip in ip_network(network) for network in _OWN)
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or is_own)


def _addresses(host: str, port: int, *, private: bool) -> "list[tuple[Any, Any]]":
    """Return what a name means, as far as it may be reached: families and socket addresses."""
    import socket

    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise UndeliveredError(f"{host} can't be found: {why}") from None
    known = list(dict.fromkeys((family, where) for family, _, _, _, where in found))
    allowed = [one for one in known if private or is_public(str(one[1][0]))]
    if not allowed:
        where = ", ".join(dict.fromkeys(str(address[0]) for _, address in known))
        means = "" if where == host else f", which is {where},"
        raise UndeliveredError(
            f"{host}{means} is no public address, so nothing was sent",
            advice="a webhook that was added with --allow-private may go there",
        )
    return allowed


# -- sending ----------------------------------------------------------------------------


def send(
    url: str,
    body: bytes,
    *,
    id: str,
    secret: str,
    timestamp: int,
    private: bool = False,
    patience: float = PATIENCE,
) -> Answer:
    """Send a message, signed, and return what came back; no answer is an `UndeliveredError`.

    The time is that of this attempt, in seconds. With `private`, it may go to any address.
    """
    parts = _split(check_url(url))
    host, is_secure = str(parts.hostname), parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    headers = {
        "content-type": "application/json",
        "user-agent": f"queuectl/{__version__}",
        "connection": "close",
        "webhook-id": id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": sign(secret, id, timestamp, body),
    }
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    addresses = _addresses(host, port, private=private)
    with _connected(addresses, host, patience) as (sock, overdue):
        late = UndeliveredError(f"{host} didn't answer within {patience:g} s")
        try:
            speaking = _speaking(host, port, sock, is_secure=is_secure)
            answer = _ask(speaking, target, body, headers)
        except Exception as error:
            explained = late if overdue() else _explained(host, error)
            if explained is None:
                raise
            raise explained from None
        if overdue():
            # What came may end where we hung up.
            raise late
        return answer


@contextmanager
def _connected(
    addresses: "list[tuple[Any, Any]]", host: str, patience: float
) -> "Iterator[tuple[socket, Callable[[], bool]]]":
    """Connect to the first of some addresses that answers, for so long; tells if that is over."""
    import socket
    from threading import Event, Timer
    from time import monotonic

    until = monotonic() + patience
    failed: OSError | None = None
    for left, (family, where) in zip(range(len(addresses), 0, -1), addresses, strict=True):
        sock = socket.socket(family, socket.SOCK_STREAM)
        # One that says nothing leaves the others their share of the time.
        sock.settimeout(max(0.1, (until - monotonic()) / left))
        try:
            sock.connect(where)
        except OSError as error:
            sock.close()
            failed = error
            continue
        break
    else:
        assert failed is not None
        raise _explained(host, failed) or failed
    sock.settimeout(patience)
    # A timeout of the socket is that of one read, and a receiver may send a byte now and then.
    over, line = Event(), sock.dup()

    def hang_up() -> None:
        over.set()
        try:
            line.shutdown(socket.SHUT_RDWR)
        except OSError:
            return

    timer = Timer(max(0.1, until - monotonic()), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield sock, lambda: over.is_set() or monotonic() >= until
    finally:
        timer.cancel()
        line.close()
        sock.close()


def _speaking(host: str, port: int, sock: "socket", *, is_secure: bool) -> "HTTPConnection":
    """Return what speaks HTTP over a connection, with TLS that knows whom it speaks to."""
    from http.client import HTTPConnection, HTTPSConnection

    connection: HTTPConnection
    if is_secure:
        import ssl

        context = ssl.create_default_context()
        connection = HTTPSConnection(host, port, context=context)
        connection.sock = context.wrap_socket(sock, server_hostname=host)
    else:
        connection = HTTPConnection(host, port)
        connection.sock = sock
    return connection


def _ask(
    connection: "HTTPConnection", target: str, body: bytes, headers: Mapping[str, str]
) -> Answer:
    try:
        connection.request("POST", target, body, headers)
        response = connection.getresponse()
        text = response.read(LONGEST_ANSWER).decode("utf-8", "replace")
        return Answer(status=response.status, reason=response.reason, text=text)
    finally:
        connection.close()


def _explained(host: str, error: Exception) -> UndeliveredError | None:
    """Say in words why there is no answer; None if that isn't the reason."""
    import ssl
    from http.client import HTTPException

    if isinstance(error, TimeoutError):
        return UndeliveredError(f"{host} didn't answer in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return UndeliveredError(f"{host} has no valid certificate: {error.verify_message}")
    if isinstance(error, OSError):
        return UndeliveredError(f"{host} can't be reached: {error.strerror or error}")
    if isinstance(error, HTTPException):
        return UndeliveredError(f"{host} doesn't speak HTTP: {type(error).__name__}")
    return None


# -- the program ------------------------------------------------------------------------


def main() -> int:
    """Send the message that is described on stdin; the exit code says what came of it."""
    import json
    from time import time

    order = json.load(sys.stdin.buffer)
    try:
        answer = send(
            order["url"],
            order["body"].encode(),
            id=order["id"],
            secret=order["secret"],
            timestamp=int(time()),
            private=order["private"],
        )
    except QueuectlError as error:
        print(error.advised, file=sys.stderr)
        return 1
    if answer.is_good:
        print(answer.describe())
        return 0
    # Its last line is what the job is said to have failed of.
    print(answer.text, answer.describe(), sep="\n", file=sys.stderr)
    return GONE if answer.is_gone else 1


if __name__ == "__main__":
    sys.exit(main())
