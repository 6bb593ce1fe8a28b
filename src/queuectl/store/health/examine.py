"""Examines a queue that can't be opened: which step fails, and how is everything before it?"""

import socket
from collections.abc import Iterator
from shlex import quote

from queuectl.address import Address, is_server, read_address
from queuectl.errors import (
    QueuectlError,
    StateError,
    StoreCorruptError,
    StoreDeniedError,
    StoreError,
    StoreMissingError,
    StoreTooNewError,
    StoreTooOldError,
    StoreUnreachableError,
)
from queuectl.place import Place
from queuectl.store import access, file_of
from queuectl.store.contract import Store
from queuectl.store.health import check_store
from queuectl.store.health.common import (
    check_place,
    check_settings,
    error,
    gather,
    note,
    ok,
    sentence,
)
from queuectl.store.health.findings import Finding, Level

PORTS = {"postgresql": 5432, "mysql": 3306}
ANSWER_WITHIN = 3.0
"""Seconds a host has to answer."""


def examine(place: Place, trouble: QueuectlError) -> list[Finding]:
    """Check what can be checked of a queue whose opening ended in trouble."""
    found = list(check_place(place))
    if is_server(place.url):
        return found + _examine_server(read_address(place.url), trouble)
    return found + _examine_file(place.url, trouble)


def examine_absent(place: Place) -> list[Finding]:
    """Check where the default queue will be: that nobody has made it yet is no fault."""
    from queuectl.store.health.sqlite import check_sqlite_files

    absent = note(
        "file",
        f"There is no queue at {place.url} yet: to whoever reads it is empty.",
        'Add a job, which makes it: queuectl enqueue "echo Hello World"',
    )
    return [
        *check_place(place),
        absent,
        *gather({"settings": lambda: check_settings(place, {})}),
        *check_sqlite_files(place.url),
    ]


# -- files --------------------------------------------------------------------------------


def _examine_file(url: str, trouble: QueuectlError) -> list[Finding]:
    from queuectl.store.health.sqlite import check_sqlite_files

    path = file_of(url)
    assert path is not None
    if isinstance(trouble, StateError):
        from queuectl.store.sqlite.administration import open_file

        return _examine_tables(open_file(path), trouble)
    if (found := access.hindrance(path)) is not None and not found.readable:
        # What more could be said of a file that we may not look into?
        return [error("file", f"{found.what}.", sentence(found.advice))]
    return [error("file", str(trouble), _advice_on_file(trouble)), *check_sqlite_files(path)]


def _advice_on_file(trouble: QueuectlError) -> str:
    match trouble:
        case StoreMissingError():
            return (
                "If there should be one, another is meant: see --db, QUEUECTL_DB and the nearest"
                " queuectl.toml. Else add a job, which makes it."
            )
        case StoreTooNewError():
            return "Upgrade queuectl on this host."
        case StoreCorruptError():
            return "See whether the path is right; if it is, restore a backup."
        case _:
            return "See who owns the file and its folder, and what else is said here."


def _examine_tables(store: Store, trouble: QueuectlError) -> list[Finding]:
    """Check a store that is open, but no queue to be used."""
    try:
        found = check_store(store)
    finally:
        store.close()
    if any(f.level == Level.ERROR and f.subject in ("schema", "grants", "copy") for f in found):
        return found
    return [*found, error("opening", str(trouble), "Mend that, then run this again.")]


# -- servers ------------------------------------------------------------------------------


def _examine_server(address: Address, trouble: QueuectlError) -> list[Finding]:
    if isinstance(trouble, StoreUnreachableError):
        # To try once more could take as long again.
        return _examine_connection(address, trouble)
    from queuectl.store.opening import open_server

    try:
        store = open_server(address, any_schema=True)
    except StoreError as refusal:
        return _examine_connection(address, refusal)
    return _examine_tables(store, trouble)


def _examine_connection(address: Address, refusal: StoreError) -> list[Finding]:
    network = list(_check_network(address))
    unreachable = any(finding.level == Level.ERROR for finding in network)
    return network if unreachable else [*network, _refused(address, refusal)]


def _refused(address: Address, refusal: StoreError) -> Finding:
    text = str(refusal)
    match refusal:
        case StoreDeniedError():
            return error(
                "login",
                text,
                f"Try it by hand: {_by_hand(address)}. If the database is missing, make it; if the"
                " user or the password is wrong, correct the URL.",
            )
        case StoreTooOldError():
            return error("engine", text, "Upgrade the server, or choose another.")
        case StoreUnreachableError():
            return error(
                "connection",
                text,
                "See in the server's log why it doesn't answer as a database does, and whether it"
                " has connections left.",
            )
        case _:
            return error("connection", text, "Mend that, then run this again.")


def _by_hand(address: Address) -> str:
    """Write the command that connects to the same place, and asks for the password."""
    if "," in address.hosts:
        return "psql to each of the hosts"
    host, port = address.host or "localhost", address.port or PORTS[address.dialect]
    to = quote(address.database)
    if address.dialect == "postgresql":
        return f"psql -h {quote(host)} -p {port} -U {quote(address.user or '...')} -W {to}"
    return f"mariadb -h {quote(host)} -P {port} -u {quote(address.user or '...')} -p {to}"


def _check_network(address: Address) -> Iterator[Finding]:
    """See whether the host is known and its port answers, where the URL names one of them."""
    if "," in address.hosts:
        return
    host, port = address.host, address.port or PORTS[address.dialect]
    if not host or host.startswith("/"):
        return
    try:
        places = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as problem:
        advice = "Check how it is spelled, and the DNS of this host."
        yield error("network", f"{host} is no known host ({problem.strerror}).", advice)
        return
    try:
        socket.create_connection((host, port), ANSWER_WITHIN).close()
    except TimeoutError:
        advice = "See that the host is up, and that no firewall drops the connection."
        yield error("network", f"{host} doesn't answer at port {port}.", advice)
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        advice = "Start the server, or correct the port; does it listen on that address?"
        yield error("network", f"Nothing answers at {host}, port {port} ({reason}).", advice)
    else:
        shown = places[0][4][0]
        yield ok("network", f"Something answers at {host} ({shown}), port {port}.")
