"""`login` and `logout`: keeps the token by which a `queuectl web` knows us, or forgets it."""

import sys
from typing import TYPE_CHECKING

import click

from queuectl.access import write_roles
from queuectl.address import Remote, is_remote, read_remote
from queuectl.cli.command import DB, Command
from queuectl.cli.render import is_terminal, safe, say, write
from queuectl.errors import NotFoundError

if TYPE_CHECKING:
    from queuectl.access import Grant

LONGEST_LINE = 2_000


@click.command(
    cls=Command,
    examples="""
    queuectl login https://jobs.example.com/queue        # asks for the token
    queuectl login https://jobs.example.com < token.txt
    queuectl --db https://jobs.example.com list
    """,
)
@click.argument("url", required=False)
def login(url: str | None) -> None:
    """Keep a token for a server, so that --db with its URL finds it.

    The token is asked for, or read from stdin, and the server is asked whether it knows it. It is
    kept in tokens.json in your folder of configuration, which only you can read. A token in
    $QUEUECTL_TOKEN goes before all that are kept. Whoever runs `queuectl web` makes one with:
    queuectl token add NAME --role ROLE.
    """
    from queuectl.remote.tokens import check_token, check_way, keep

    remote = _remote(url)
    check_way(remote)
    token = check_token(_ask(remote))
    grant = _who(remote, token)
    path = keep(remote, token)
    some = f", for {', '.join(grant.queues)}" if grant.queues else ""
    write(safe(f"Signed in to {remote.url} as {grant.name} ({write_roles(grant.roles)}{some})."))
    say(f"The token is kept in {path}.")


@click.command(cls=Command, examples="queuectl logout https://jobs.example.com/queue")
@click.argument("url", required=False)
def logout(url: str | None) -> None:
    """Forget the token that is kept for a server.

    It stays good: `queuectl token rm` ends it.
    """
    from queuectl.remote.tokens import is_kept, keep

    remote = _remote(url)
    if not is_kept(remote):
        raise NotFoundError(f"No token is kept for {remote.url}.")
    keep(remote, None)
    write(safe(f"Forgot the token for {remote.url}."))


def _remote(url: str | None) -> Remote:
    url = url or click.get_current_context().meta.get(DB)
    if url is None or not is_remote(url):
        raise click.UsageError("Give the URL of a queuectl web, such as https://jobs.example.com")
    return read_remote(url)


def _ask(remote: Remote) -> str:
    """Return the token that somebody types, unseen, or that comes on stdin."""
    if is_terminal(sys.stdin):
        from getpass import getpass

        return getpass(f"Token for {remote.url}: ")
    return sys.stdin.readline(LONGEST_LINE)


def _who(remote: Remote, token: str) -> "Grant":
    """Return what the server knows of a token."""
    from queuectl.remote.caller import caller
    from queuectl.remote.http import Client

    client = Client(remote, lambda: token)
    try:
        return caller(client, lambda: None).whoami()
    finally:
        client.close()
