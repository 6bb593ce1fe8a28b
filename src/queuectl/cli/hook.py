"""The `hook` commands: webhooks, which tell others over HTTP what became of jobs."""

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Group
from queuectl.cli.interrupts import truthful
from queuectl.cli.options import json_option, open_queue, queues_option, quiet_names_option
from queuectl.cli.outlet import outlet
from queuectl.cli.render import (
    Column,
    heading,
    safe,
    say,
    shorten,
    write,
    write_facts,
    write_json,
    write_table,
)
from queuectl.errors import EXIT_DONE, EXIT_FAILED, QueuectlError, StoreDeniedError, UsageError

if TYPE_CHECKING:
    from queuectl.job import Job
    from queuectl.webhook import Webhook

DELIVERIES_SHOWN = 10
LONGEST_SECRET_FILE = 4_096
LONGEST_ERROR = 60

name_argument = click.argument("webhook_name", metavar="NAME")
names_argument = click.argument("webhook_names", metavar="NAME...", nargs=-1, required=True)


@click.group(
    cls=Group,
    examples="""
    queuectl hook add https://example.com/hook --on dead,completed --queue mail
    queuectl hook test example.com
    queuectl hook list
    queuectl hook show example.com --secret
    """,
)
def hook() -> None:
    """Tell others over HTTP what became of jobs: webhooks.

    Each end of a job that a webhook is told of makes one delivery: a job of its own, in the
    transaction that ends the other. It sends a signed message, and tries again for three days.
    """


@hook.command(
    "add",
    examples="""
    queuectl hook add https://example.com/hook
    queuectl hook add https://example.com/hook --on dead,completed --queue mail --name ops
    queuectl hook add http://10.0.0.7:8080/jobs --allow-private --secret @secret.txt
    """,
)
@click.argument("url", metavar="URL")
@click.option(
    "--on",
    default="dead",
    metavar="WHAT",
    help="What it is told: completed, failed, dead, cancelled; several with commas."
    "  [default: dead]",
)
@queues_option("Only of jobs of this queue; repeatable.  [default: all queues]")
@click.option("--name", metavar="NAME", help="What it is called.  [default: the host of the URL]")
@click.option(
    "--secret",
    metavar="@FILE",
    help="What messages are signed with, whsec_...: in a file, or - for stdin."
    "  [default: a new one]",
)
@click.option("--allow-private", is_flag=True, help="Let it be at an address that isn't public.")
@click.option("--data", "with_data", is_flag=True, help="Tell the data of data jobs as well.")
@click.option(
    "--via", metavar="QUEUE", help="The queue its deliveries wait in.  [default: webhooks]"
)
@json_option
def add(
    url: str,
    on: str,
    queues: tuple[str, ...],
    name: str | None,
    secret: str | None,
    allow_private: bool,
    with_data: bool,
    via: str | None,
    as_json: bool,
) -> int:
    """Add a webhook, and print the secret that its messages are signed with.

    It is told of what ends from now on; nodes hear of it within a second. Deliveries are run by any
    node that runs commands of the queue webhooks, or that of --via.
    """
    from queuectl.cli.notes import note_idle
    from queuectl.webhook import QUEUE
    from queuectl.webhooks import read_webhook, webhook_dict

    more: dict[str, Any] = {
        "name": name,
        "queues": queues,
        "secret": None if secret is None else _read_secret(secret),
        "private": allow_private,
        "with_data": with_data,
        "via": QUEUE if via is None else via,
    }
    # Before a database is made for it.
    read_webhook(url, on, **more)
    with open_queue(create=True) as queue, truthful(queue):
        made = queue.webhooks.add(url, on, **more)
        outlet.done = lambda: f"Webhook {made.name} is stored"
        if as_json:
            write_json(webhook_dict(made, with_secret=True))
        else:
            write(safe(f"Added webhook {made.name}: tells {_told(made)} to {made.url}"))
            write(f"Its secret is {made.secret}")
        note_idle(queue, [made.via])
        return EXIT_DONE


def _read_secret(given: str) -> str:
    """Read a secret from where nobody else can see it."""
    if given == "-":
        return sys.stdin.read(LONGEST_SECRET_FILE).strip()
    if not given.startswith("@"):
        raise UsageError(
            "A secret on the command line can be read by others; put it into a file and give"
            " --secret @FILE, or - to read it from stdin."
        )
    try:
        with open(given[1:], encoding="utf-8") as file:
            return file.read(LONGEST_SECRET_FILE).strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it isn't text"
        raise UsageError(f"{given[1:]} can't be read: {why}.") from None


def _told(webhook: "Webhook") -> str:
    return f"{', '.join(webhook.news)} of {_queues(webhook)}"


def _queues(webhook: "Webhook") -> str:
    return ", ".join(webhook.queues) or "all queues"


@hook.command(
    "list",
    examples="""
    queuectl hook list
    queuectl hook list --json
    """,
)
@quiet_names_option
@json_option
def list_webhooks(quiet: bool, as_json: bool) -> None:
    """List all webhooks: what they are told of, and where they are."""
    from queuectl.webhooks import webhook_dict

    with open_queue() as queue:
        found = queue.webhooks.all()
    if as_json:
        write_json([webhook_dict(one) for one in found])
    elif quiet:
        for one in found:
            write(safe(one.name))
    elif found:
        write_table(
            _COLUMNS, [(w.name, ", ".join(w.news), _queues(w), w.url, _state(w)) for w in found]
        )
    else:
        say("There are no webhooks.")


_COLUMNS = (
    Column("NAME", least=10),
    Column("TOLD OF", least=9),
    Column("QUEUES", least=8, drop=1),
    Column("URL", least=12),
    Column("STATE", least=6),
)


def _state(webhook: "Webhook") -> str:
    return "active" if webhook.paused_at is None else f"paused by {webhook.paused_by}"


@hook.command(
    "show",
    examples="""
    queuectl hook show ops
    queuectl hook show ops --secret --json
    """,
)
@name_argument
@click.option("--secret", "with_secret", is_flag=True, help="Show what messages are signed with.")
@json_option
def show(webhook_name: str, with_secret: bool, as_json: bool) -> None:
    """Show all about a webhook, and its newest deliveries."""
    from queuectl.webhooks import delivery_dict, webhook_dict
    from queuectl.when import local

    with open_queue() as queue:
        found = queue.webhooks.get(webhook_name)
        newest = queue.webhooks.deliveries(found.name, limit=DELIVERIES_SHOWN)
    if with_secret and not found.secret:
        raise StoreDeniedError(
            f"The server doesn't tell the secret of webhook {found.name!r}.",
            advice="where the database is, this prints it.",
        )
    if as_json:
        told = webhook_dict(found, with_secret=with_secret)
        write_json(told | {"deliveries": [delivery_dict(job) for job in newest]})
        return
    write_facts(
        (
            ("Webhook", found.name),
            ("URL", found.url),
            ("Told of", _told(found)),
            ("Secret", found.secret if with_secret else "(shown with --secret)"),
            ("Data", "of data jobs as well" if found.with_data else None),
            ("Addresses", "private ones as well" if found.private else "public ones only"),
            ("Deliveries in", f"queue {found.via}"),
            ("Added", local(found.created_at)),
            ("Paused", None if found.paused_at is None else _paused(found)),
        )
    )
    if newest:
        write()
        heading("Newest deliveries")
        write_table(_DELIVERIES, [_row(job) for job in newest])


def _paused(webhook: "Webhook") -> str:
    from queuectl.when import local

    return f"{local(webhook.paused_at or 0)} by {webhook.paused_by}"


_DELIVERIES = (
    Column("ID"),
    Column("OF JOB", least=8),
    Column("STATE"),
    Column("RUNS"),
    Column("LAST ERROR", least=12, drop=1),
)


def _row(job: "Job") -> Sequence[str]:
    error = shorten(job.error or "", LONGEST_ERROR)
    return job.id, job.hook_of or "", str(job.state), str(job.attempts), error


@hook.command(
    "test",
    examples="""
    queuectl hook test ops
    queuectl hook test ops --json
    """,
)
@name_argument
@json_option
def test(webhook_name: str, as_json: bool) -> int:
    """Send a message of the type webhook.test from this host, and say what came back.

    It exits with 0 if the answer would have been a delivery (a status of 200 to 299), else with 1.
    """
    from queuectl.webhooks import tested_dict

    with open_queue() as queue:
        tested = queue.webhooks.test(webhook_name)
    answer = tested.answer
    if as_json:
        write_json(tested_dict(webhook_name, tested))
    else:
        write(safe(f"{tested.describe()} ({tested.seconds:.2f} s)"))
        if answer is not None and answer.text.strip():
            write(safe(answer.text.strip()))
    return EXIT_DONE if tested.is_good else EXIT_FAILED


@hook.command(
    "pause",
    examples="""
    queuectl hook pause ops
    queuectl hook pause ops chat --json
    """,
)
@names_argument
@json_option
def pause(webhook_names: tuple[str, ...], as_json: bool) -> None:
    """Tell webhooks nothing until they are resumed.

    What ends meanwhile they are never told. Deliveries that wait fail, and are tried again later.
    """
    _switch(webhook_names, paused=True, as_json=as_json)


@hook.command(
    "resume",
    examples="""
    queuectl hook resume ops
    queuectl hook resume ops chat --json
    """,
)
@names_argument
@json_option
def resume(webhook_names: tuple[str, ...], as_json: bool) -> None:
    """Tell webhooks again what ends from now on; also one whose receiver was gone."""
    _switch(webhook_names, paused=False, as_json=as_json)


def _switch(names: tuple[str, ...], *, paused: bool, as_json: bool) -> None:
    done, was_so = (
        ("is paused", "was paused already") if paused else ("is resumed", "wasn't paused")
    )
    with open_queue() as queue, truthful(queue):
        webhooks = queue.webhooks
        chosen = [webhooks.get(name).name for name in dict.fromkeys(names)]
        change = webhooks.pause if paused else webhooks.resume
        changed = {name: change(name) for name in chosen}
        if as_json:
            write_json(
                [{"name": n, "paused": paused, "changed": is_new} for n, is_new in changed.items()]
            )
            return
        for name, is_new in changed.items():
            write(safe(f"Webhook {name!r} {done if is_new else was_so}."))


@hook.command(
    "rm",
    examples="""
    queuectl hook rm ops
    queuectl hook rm ops chat --json
    """,
)
@names_argument
@json_option
def rm(webhook_names: tuple[str, ...], as_json: bool) -> None:
    """Remove webhooks, and cancel their deliveries that wait."""
    with open_queue() as queue, truthful(queue):
        chosen = [queue.webhooks.get(name).name for name in dict.fromkeys(webhook_names)]
        removed: dict[str, int] = {}
        try:
            for name in chosen:
                removed[name] = queue.webhooks.remove(name)
        except QueuectlError:
            for name in removed:
                say(f"Webhook {name!r} removed.")
            raise
        if as_json:
            write_json(
                [{"name": n, "removed": True, "cancelled": left} for n, left in removed.items()]
            )
            return
        for name, left in removed.items():
            rest = f" Deliveries cancelled that waited: {left:,}." if left else ""
            write(safe(f"Webhook {name!r} removed.{rest}"))
