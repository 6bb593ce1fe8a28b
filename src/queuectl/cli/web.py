"""`web`: serve the API over HTTP, for programs and for people."""

import sys
from typing import TYPE_CHECKING, Any

import click

from queuectl.access import Role, read_roles
from queuectl.cli.command import Command
from queuectl.cli.options import here, open_queue
from queuectl.cli.render import say, write
from queuectl.cli.token import LINK_NAME, LINK_ROLES
from queuectl.errors import UsageError, how_to_install
from queuectl.place import near

if TYPE_CHECKING:
    from queuectl.web.gate import Rules
    from queuectl.web.server import Found

EVERYWHERE = ("0.0.0.0", "::")
HERE = "127.0.0.1"
EXAMPLES = """
queuectl web                              # prints a link to sign in with, and serves here
queuectl web --open                       # opens that in a browser
queuectl web --port 8080 --allow-submit   # programs with a token may enqueue
queuectl web --host 0.0.0.0 --port 443 --tls-cert c.pem --tls-key k.pem --allow-host jobs.lan
queuectl web --socket /run/queuectl.sock --base-path /queue --allow-host jobs.example.com
"""


@click.command(cls=Command, examples=EXAMPLES)
@click.option("--host", default=HERE, metavar="NAME", help="Listen on this address only.")
@click.option(
    "--port",
    "-p",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="N",
    help="Listen on this port; 0 is any that is free.",
)
@click.option("--socket", metavar="PATH", help="Listen on a socket in the file system instead.")
@click.option("--systemd", is_flag=True, help="Listen on what systemd has opened for us.")
@click.option("--base-path", default="", metavar="PATH", help="Where a proxy puts us: /queue.")
@click.option(
    "--allow-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name by which this server is called; repeatable. Others are refused.",
)
@click.option(
    "--tls-cert", metavar="FILE", type=click.Path(), help="Serve https with this certificate ..."
)
@click.option("--tls-key", metavar="FILE", type=click.Path(), help="... and its key.")
@click.option("--https", is_flag=True, help="A proxy serves https for us.")
@click.option("--read-only", is_flag=True, help="Change nothing, whoever asks.")
@click.option("--allow-submit", is_flag=True, help="Let who may submit have something run.")
@click.option(
    "--trust-proxy",
    "proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Believe a proxy at this address, or in this network, who asks; repeatable. With"
    " --socket it is unix.",
)
@click.option(
    "--proxy-header",
    default="",
    metavar="NAME",
    help="The header in which it says so, such as X-Forwarded-User.",
)
@click.option(
    "--proxy-role", default="view", metavar="ROLES", help="What those may do.  [default: view]"
)
@click.option(
    "--link-role",
    metavar="ROLES",
    help="What one may do who signs in by the link."
    f"  [default: {LINK_ROLES}; with --allow-submit {Role.SUBMIT} as well]",
)
@click.option(
    "--access-log",
    metavar="FILE",
    type=click.Path(),
    help="Note each request in this file, a line each; - is stderr.",
)
@click.option("--no-link", is_flag=True, help="Print no link to sign in with.")
@click.option("--open", "opens", is_flag=True, help="Open the link in a browser.")
def web(**given: Any) -> int:
    """Serve an HTTP API and a dashboard.

    It is closed to everybody who has neither a token (queuectl token add) nor the link that is
    printed here, which signs in one browser, once. It serves this host only, unless --host says
    otherwise. To enqueue is to run commands on the workers: that takes a token with the role
    submit, and a server that was started with --allow-submit.

    It needs the extra web; in a clone of queuectl: pip install '.[web]'.
    """
    try:
        from queuectl.web.server import Place, serve
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "queuectl":
            raise
        raise UsageError(
            f"The web needs the package {error.name}, which isn't installed.",
            advice=how_to_install("web"),
        ) from None
    place = Place(
        host=given["host"],
        port=given["port"],
        socket=given["socket"],
        systemd=given["systemd"],
        cert=given["tls_cert"],
        key=given["tls_key"],
        https=given["https"],
        names=given["hosts"],
        log=given["access_log"],
    )
    if (place.cert is None) != (place.key is None):
        raise click.UsageError("--tls-cert and --tls-key go together")
    rules = _rules(given)
    link_roles = _link_roles(given)
    near(here())
    # What is only shown needs something to be shown of.
    create = not rules.read_only
    with open_queue(create=create, must_exist=not create, for_others=True) as queue:

        def ready(found: "Found") -> None:
            say(f"Serving {queue.url} on {found.listens} (Ctrl+C stops it).")
            if given["host"] in EVERYWHERE and not given["hosts"]:
                say("Others get 421: --allow-host adds the names by which they call this server.")
            if given["no_link"]:
                return
            if Role.SUBMIT in link_roles and not rules.may_submit:
                say("Note: the link's role submit is of no use here without --allow-submit.")
            secret = queue.access.link(LINK_NAME, link_roles)
            links = [f"{url}/sign-in#{secret}" for url in found.urls]
            for link in links:
                write(link)
            # Whoever reads it from a pipe waits for it.
            sys.stdout.flush()
            if given["opens"]:
                click.launch(links[0])

        return serve(queue, place, rules, ready)


def _link_roles(given: dict[str, Any]) -> tuple[Role, ...]:
    """Return what the printed link is good for: all that may be done here, if nobody says."""
    if given["link_role"] is not None:
        return read_roles(given["link_role"])
    return read_roles(f"{Role.SUBMIT},{LINK_ROLES}" if given["allow_submit"] else LINK_ROLES)


def _rules(given: dict[str, Any]) -> "Rules":
    from queuectl.web.gate import LOCAL, Proxy, Rules, networks

    base = given["base_path"].rstrip("/")
    if base and (not base.startswith("/") or set(base) & set("?#%\\ ") or "//" in base):
        raise click.UsageError("--base-path is a path such as /queue, which begins with a slash")
    if given["socket"] and (given["port"] or given["host"] != HERE):
        raise click.UsageError("--socket is instead of --host and --port; leave these out")
    for name in given["hosts"]:
        if not name or set(name) & set("/@?# \t") or name.startswith(":"):
            raise click.UsageError(
                f"--allow-host takes a name such as jobs.example.com, not {name[:100]!r}"
            )
    if bool(given["proxies"]) != bool(given["proxy_header"]):
        raise click.UsageError("--trust-proxy and --proxy-header go together")
    try:
        trusted = networks(given["proxies"])
    except ValueError as error:
        raise click.UsageError(f"--trust-proxy: {error}") from None
    if given["read_only"] and given["allow_submit"]:
        raise click.UsageError(
            "With --read-only nothing is submitted; leave out one of --read-only and --allow-submit"
        )
    host = given["host"]
    own = (f"[{host}]" if ":" in host else host,)
    return Rules(
        hosts=(*LOCAL, *own, *given["hosts"]),
        base_path=base,
        secure=given["tls_cert"] is not None or given["https"],
        may_submit=given["allow_submit"],
        read_only=given["read_only"],
        proxy=Proxy(
            networks=trusted,
            header=given["proxy_header"],
            roles=read_roles(given["proxy_role"]),
        ),
    )
