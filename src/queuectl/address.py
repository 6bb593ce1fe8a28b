"""The URL of a server: where it is, whom to be there, and which tables are ours. No secrets leak.

`postgresql://user:password@host:5432/database?schema=queuectl` and
`mysql://user:password@host:3306/database?prefix=queuectl_`. Everything else after the question
mark goes to the driver.

Every command asks whether its queue is on a server. Only when it is, `urllib` is imported.
"""

from queuectl.errors import UsageError
from queuectl.values import dataclass, field

SCHEMES = {"postgresql": "postgresql", "postgres": "postgresql", "mysql": "mysql"} | {
    "mariadb": "mysql"
}
"""What URLs begin with, and which dialect is spoken there."""
SECRET = frozenset({"password", "sslpassword", "passwd"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A server URL, taken apart."""

    scheme: str
    dialect: str
    user: str
    password: str | None = field(repr=False)
    hosts: str
    """Everything between `@` and the path: a host, host and port, or several for PostgreSQL."""
    database: str
    namespace: str | None
    """The schema (PostgreSQL) or the prefix of the tables (MySQL); None for the usual one."""
    options: dict[str, str] = field(repr=False)

    @property
    def public(self) -> str:
        """The URL without secrets: what may be shown, logged and handed to jobs."""
        from urllib.parse import quote, urlencode

        options = {k: v for k, v in self.options.items() if k not in SECRET}
        if self.namespace is not None:
            options[_namespace_option(self.dialect)] = self.namespace
        user = quote(self.user, safe="") + "@" if self.user else ""
        query = "?" + urlencode(options) if options else ""
        return f"{self.scheme}://{user}{self.hosts}/{quote(self.database, safe='')}{query}"

    @property
    def host(self) -> str:
        """The one host, without its port and brackets."""
        return self._host_and_port()[0]

    @property
    def port(self) -> int | None:
        """Its port, if the URL names one."""
        return self._host_and_port()[1]

    def _host_and_port(self) -> tuple[str, int | None]:
        from urllib.parse import unquote, urlsplit

        try:
            parts = urlsplit(f"//{self.hosts}")
            return unquote(parts.hostname or ""), parts.port
        except ValueError:
            raise UsageError(f"{self.hosts!r} isn't a host and port.") from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Remote:
    """Where a `queuectl web` is that is asked for its queue."""

    is_secure: bool
    host: str
    port: int
    base: str
    """What comes before all paths there."""

    @property
    def url(self) -> str:
        """Its URL, in one way of writing it."""
        usual = 443 if self.is_secure else 80
        host = f"[{self.host}]" if ":" in self.host else self.host
        port = "" if self.port == usual else f":{self.port}"
        return f"http{'s' if self.is_secure else ''}://{host}{port}{self.base}"

    @property
    def is_here(self) -> bool:
        """Whether it is on this host, so that nobody reads along."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def is_remote(url: str) -> bool:
    """Tell whether a URL names a queue behind `queuectl web`."""
    return url[:8].lower().startswith(("http://", "https://"))


def read_remote(url: str) -> Remote:
    """Take the URL of a `queuectl web` apart; a wrong one is a `UsageError`."""
    from urllib.parse import urlsplit

    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise UsageError(
            "A URL is no place for a token: others see it there.",
            advice="queuectl login URL keeps it, or $QUEUECTL_TOKEN has it.",
        )
    if parts.query or parts.fragment:
        raise UsageError(f"The URL of a server ends with its path, unlike {url!r}.")
    secure = parts.scheme.lower() == "https"
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not url.isascii() or not url.isprintable() or " " in url:
        raise UsageError(f"{url!r} isn't the URL of a host.")
    usual = 443 if secure else 80
    base = parts.path.rstrip("/")
    return Remote(is_secure=secure, host=host, port=port or usual, base=base)


def is_server(url: str) -> bool:
    """Tell whether a URL names a server rather than a file."""
    return url.partition("://")[0].lower() in SCHEMES and "://" in url


def read_address(url: str) -> Address:
    """Take a server URL apart; a wrong one is a `UsageError` that repeats no password."""
    from urllib.parse import parse_qsl, unquote

    scheme, _, rest = url.partition("://")
    scheme = scheme.lower()
    dialect = SCHEMES[scheme]
    rest, _, query = rest.partition("?")
    authority, slash, path = rest.partition("/")
    if "@" in path or "@" in query:
        # What looks like a path or an option is the rest of a password: it must not be shown.
        raise UsageError(
            "In a URL, the characters @ / : ? # % of a user name or password are written"
            " %40 %2F %3A %3F %23 %25."
        )
    # The last @: a password may contain one.
    userinfo, _, hosts = authority.rpartition("@")
    user, colon, password = userinfo.partition(":")
    options = dict(parse_qsl(query, keep_blank_values=True))
    namespace = options.pop(_namespace_option(dialect), None)
    if namespace is not None and not _is_name(namespace):
        raise UsageError(
            f"{_namespace_option(dialect)}={namespace} can't be used; take up to 32 letters,"
            " digits and underscores."
        )
    found = Address(
        scheme=scheme,
        dialect=dialect,
        user=unquote(user),
        password=unquote(password) if colon else None,
        hosts=hosts,
        database=unquote(path) if slash else "",
        namespace=namespace,
        options=options,
    )
    if not found.database:
        raise UsageError(
            f"The URL {found.public} names no database; it ends with one, as in"
            f" {scheme}://user@host/jobs."
        )
    return found


def without_secrets(url: str) -> str:
    """Return a URL or path as it may be shown to anybody."""
    if is_remote(url):
        before, at, after = url.partition("@")
        return f"{before.partition(':')[0]}://{after}" if at else url
    if not is_server(url):
        return url
    try:
        return read_address(url).public
    except UsageError:
        return url.partition("://")[0] + "://..."


def _namespace_option(dialect: str) -> str:
    return "schema" if dialect == "postgresql" else "prefix"


def _is_name(text: str) -> bool:
    """Tell whether it may be (a part of) a name in SQL without further ado."""
    return text.isascii() and text.isidentifier() and len(text) <= 32
