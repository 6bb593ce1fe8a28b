"""The `token` commands: who is let in over HTTP, and the sessions of those who are."""

from datetime import timedelta

import click

from queuectl.access import Grant, Role, check_name, read_roles
from queuectl.cli.command import Group
from queuectl.cli.confirm import confirm
from queuectl.cli.interrupts import truthful
from queuectl.cli.options import Duration, json_option, open_queue, quiet_names_option, yes_option
from queuectl.cli.outlet import outlet
from queuectl.cli.render import Column, plural, safe, say, write, write_json, write_table
from queuectl.errors import NotFoundError, QueuectlError, UsageError
from queuectl.queue import Queue

LINK_NAME, LINK_ROLES = "link", "operate,admin"
"""Whom a link to sign in with is for, and what it allows, if nobody says otherwise: who asks for it
at a command line could do as much by hand."""


@click.group(
    cls=Group,
    examples="""
    queuectl token add ci --role submit --queue builds --expires 90d
    queuectl token link ann --role view
    queuectl token list
    queuectl token rm ci
    queuectl token sessions
    """,
)
def token() -> None:
    """Let programs and people in over HTTP, and see who is signed in.

    A token is a secret for a program, which sends it along with each request; a person signs in
    with it, and gets a session. It has roles: view is to see jobs and their output; operate, to
    cancel, retry, hold and pause as well; submit, to have something run; admin, to change settings,
    limits and tokens, and to see data and variables. Of a secret only a digest is kept.
    """


@token.command(
    "add",
    examples="""
    queuectl token add ci --role submit --queue builds --expires 90d
    queuectl token add ann --role admin,submit
    queuectl token add grafana --role view > grafana.secret
    """,
)
@click.argument("new_name", metavar="NAME")
@click.option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    metavar="ROLE",
    help=f"What it is good for: {', '.join(Role)}. Repeat it, or use commas.",
)
@click.option(
    "--queue", "-Q", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable."
)
@click.option(
    "--expires",
    metavar="TIME",
    help="Until when: 90d (from now), 2030-01-31.  [default: until it is removed]",
)
@json_option
def add(
    new_name: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    expires: str | None,
    as_json: bool,
) -> None:
    """Add a token, and print its secret.

    Now is the only time that it is shown. Whoever has it may do what the token is good for, so keep
    it where nobody else can read it.
    """
    # What can't be is found out before a database is made for it.
    name, chosen = check_name(new_name), read_roles(",".join(roles))
    with open_queue(create=True) as queue, truthful(queue):
        made, secret = queue.access.add_token(name, chosen, queues=queues, expires=expires)
        outlet.done = lambda: f"Token {made.name} is stored, and nobody knows its secret; remove it"
        if as_json:
            write_json({**_dict(queue, made), "secret": secret})
            return
        write(secret)
        say(f"Token {made.name} may {_may(made)}. Its secret is shown only now; keep it safe.")


def _may(made: Grant) -> str:
    """Say what a token is good for."""
    from queuectl.when import local

    text = ", ".join(made.roles)
    if made.queues:
        text += f" in {', '.join(made.queues)}"
    return text if made.expires_at is None else f"{text}, until {local(made.expires_at)}"


def _dict(queue: Queue, made: Grant) -> dict[str, object]:
    from queuectl.report import grant_dict

    return grant_dict(made, queue.now())


@token.command(
    "link",
    examples="""
    queuectl token link
    queuectl token link ann --role view --queue mail --url https://jobs.example.com/queue
    queuectl token link ann --role operate --expires 8h
    """,
)
@click.argument("whom", metavar="[NAME]", default=LINK_NAME)
@click.option(
    "--role",
    "roles",
    multiple=True,
    metavar="ROLE",
    help=f"What one may do who signs in by it: {', '.join(Role)}. Repeat it, or use commas."
    f"  [default: {LINK_ROLES}]",
)
@click.option(
    "--queue", "-Q", "queues", multiple=True, metavar="NAME", help="Only this queue; repeatable."
)
@click.option(
    "--expires",
    type=Duration(),
    metavar="DURATION",
    help="For how long one can sign in with it: up to 24h.  [default: 15m]",
)
@click.option(
    "--url",
    metavar="ADDRESS",
    help="Where the dashboard is, so that all of the link can be printed.",
)
@json_option
def link(
    whom: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    expires: int | None,
    url: str | None,
    as_json: bool,
) -> None:
    """Print a link with which one browser can sign in, once.

    It is good for every server of this queue, also those that run already. Without --url it is a
    secret to be pasted into the sign-in page. It signs in as NAME, which is on record then.
    """
    from queuectl.grants import GOOD_FOR, LONGEST_LINK
    from queuectl.job_json import moment
    from queuectl.when import format_duration

    chosen = read_roles(",".join(roles) or LINK_ROLES)
    if url is not None and not url.startswith(("http://", "https://")):
        raise UsageError("--url is where the dashboard is, such as https://jobs.example.com/queue.")
    if expires is not None and not 0 < expires <= LONGEST_LINK:
        raise UsageError(f"--expires can be up to {format_duration(LONGEST_LINK)}.")
    with open_queue(create=True) as queue, truthful(queue):
        good_for = GOOD_FOR if expires is None else timedelta(milliseconds=expires)
        secret = queue.access.link(whom, chosen, queues=queues, good_for=good_for)
        made = secret if url is None else f"{url.rstrip('/')}/sign-in#{secret}"
        outlet.done = lambda: "A link is stored, and nobody knows its secret"
        if as_json:
            until = queue.now() + round(good_for.total_seconds() * 1000)
            write_json({"name": whom, "roles": chosen, "link": made, "expires_at": moment(until)})
            return
        write(made)
        where = "" if url else "; paste it into the sign-in page"
        say(f"{whom} may {', '.join(chosen)}. It signs in once{where}.")


@token.command(
    "list",
    examples="""
    queuectl token list
    queuectl token list --json | jq -r '.[] | select(.used_at == null).name'
    """,
)
@quiet_names_option
@json_option
def list_tokens(quiet: bool, as_json: bool) -> None:
    """List all tokens: what they are good for, until when, and when they were last used."""
    with open_queue() as queue:
        found = queue.access.tokens()
        if as_json:
            write_json([_dict(queue, one) for one in found])
        elif quiet:
            for one in found:
                write(safe(one.name))
        elif found:
            _write_tokens(found, queue.now())
        else:
            say("There are no tokens, so nobody is let in with one.")


_TOKENS = (
    Column("NAME", least=8),
    Column("ROLES", least=8),
    Column("QUEUES", least=6),
    Column("ADDED", drop=1),
    Column("BY", least=6, drop=2),
    Column("UNTIL"),
    Column("USED"),
)


def _write_tokens(tokens: list[Grant], now: int) -> None:
    from queuectl.when import local

    write_table(
        _TOKENS,
        [
            (
                one.name,
                *_good_for(one),
                local(one.created_at),
                one.created_by,
                _until(one, now),
                _used(one, now),
            )
            for one in tokens
        ],
    )


def _good_for(grant: Grant) -> tuple[str, str]:
    return ",".join(grant.roles), ",".join(grant.queues) or "all"


def _until(grant: Grant, now: int) -> str:
    from queuectl.when import local

    if grant.expires_at is None:
        return "it is removed"
    return "expired" if grant.is_over(now) else local(grant.expires_at)


def _used(grant: Grant, now: int) -> str:
    from queuectl.when import ago

    return "never" if grant.used_at is None else f"{ago(now - grant.used_at)} ago"


@token.command(
    "rm",
    examples="""
    queuectl token rm ci
    queuectl token rm ci grafana --json
    """,
)
@click.argument("token_names", metavar="NAME...", nargs=-1, required=True)
@json_option
def rm(token_names: tuple[str, ...], as_json: bool) -> None:
    """Remove tokens, with the sessions of all who signed in with them.

    Who has one is let in no more, from the next request on.
    """
    with open_queue() as queue, truthful(queue):
        names = [queue.access.get_token(name).name for name in dict.fromkeys(token_names)]
        removed: dict[str, int] = {}
        outlet.done = lambda: f"{plural(len(removed), 'token')} removed"
        try:
            for name in names:
                of, *derived = queue.access.remove_token(name)
                removed[name] = sum(
                    one.parent == of.id and not one.is_over(queue.now()) for one in derived
                )
        except QueuectlError:
            for name, sessions in removed.items():
                say(_removed(name, sessions))
            raise
        if as_json:
            write_json(
                [
                    {"name": name, "removed": True, "sessions": sessions}
                    for name, sessions in removed.items()
                ]
            )
            return
        for name, sessions in removed.items():
            write(safe(_removed(name, sessions)))


def _removed(name: str, sessions: int) -> str:
    ended = f", and {plural(sessions, 'session')} with it" if sessions else ""
    return f"Token {name!r} removed{ended}."


@token.command(
    "sessions",
    examples="""
    queuectl token sessions
    queuectl token sessions --json | jq -r '.[] | select(.name == "ann").id'
    """,
)
@click.option("--quiet", "-q", is_flag=True, help="Print bare ids, one per line.")
@json_option
def list_sessions(quiet: bool, as_json: bool) -> None:
    """List the sessions of those who have signed in: whose they are, and until when they last."""
    with open_queue() as queue:
        found = queue.access.sessions()
        if as_json:
            write_json([_dict(queue, one) for one in found])
        elif quiet:
            for one in found:
                write(safe(one.id))
        elif found:
            _write_sessions(found, queue.now())
        else:
            say("Nobody is signed in.")


_SESSIONS = (
    Column("ID"),
    Column("NAME", least=8),
    Column("ROLES", least=8),
    Column("QUEUES", least=6, drop=1),
    Column("UNTIL"),
    Column("USED"),
)


def _write_sessions(sessions: list[Grant], now: int) -> None:
    write_table(
        _SESSIONS,
        [
            (one.id, one.name, *_good_for(one), _until(one, now), _used(one, now))
            for one in sessions
        ],
    )


@token.command(
    "sign-out",
    examples="""
    queuectl token sign-out k3bqzp2m6xwd
    queuectl token sign-out --of ann
    queuectl token sign-out --all --yes
    """,
)
@click.argument("session_ids", metavar="[ID]...", nargs=-1)
@click.option("--of", metavar="NAME", help="All sessions of this token, or person.")
@click.option("--all", "everybody", is_flag=True, help="All sessions that there are.")
@yes_option
@json_option
def sign_out(
    session_ids: tuple[str, ...], of: str | None, everybody: bool, yes: bool, as_json: bool
) -> None:
    """End sessions: who has one must sign in again.

    A token that somebody has signed in with is as good as before: remove it with token rm.
    """
    if sum((bool(session_ids), of is not None, everybody)) != 1:
        raise click.UsageError("Say which: ids of sessions, --of NAME, or --all")
    with open_queue() as queue, truthful(queue):
        if everybody:
            confirm(lambda: _losses(queue), yes=yes)
        ended: list[Grant] = []
        outlet.done = lambda: f"{plural(len(ended), 'session')} ended"
        try:
            if session_ids:
                wanted = dict.fromkeys(session_ids)
                ended.extend(queue.access.remove_session(id) for id in wanted)
            else:
                ended += queue.access.remove_sessions(of)
        except QueuectlError:
            for one in ended:
                say(_ended(one))
            raise
        if of is not None and not ended:
            raise NotFoundError(f"Nobody called {of!r} is signed in; see queuectl token sessions.")
        if as_json:
            write_json([{"id": one.id, "name": one.name, "ended": True} for one in ended])
            return
        for one in ended:
            write(safe(_ended(one)))
        if not ended:
            say("Nobody was signed in.")


def _losses(queue: Queue) -> str:
    count = len(queue.access.sessions())
    return f"End {plural(count, 'session')}?" if count else ""


def _ended(session: Grant) -> str:
    return f"Session {session.id} of {session.name!r} ended."
