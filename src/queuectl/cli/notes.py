"""What several commands say on stderr by the way: a queue was made, nobody works, a name is odd.

Nothing is said to programs (`--json`), nor to those who want bare results (`-q`), but for what is
odd about the environment.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import DB
from queuectl.cli.render import say
from queuectl.errors import StoreError, StoreUnreachableError
from queuectl.job import DEFAULT_QUEUE

if TYPE_CHECKING:
    from queuectl.explain import Reason
    from queuectl.job import Job
    from queuectl.place import Place
    from queuectl.queue import Queue

NOTED = "queuectl.cli.noted"
"""Where it is kept in the context that the environment was spoken of."""


NONE_RUNNING = "No workers are running."


def node_name(id: str, pid: int, host: str) -> str:
    """Name a node so that it can be found."""
    return f"{id} (PID: {pid}, host: {host})"


def are_wanted() -> bool:
    """Tell whether a person reads along."""
    given = click.get_current_context().params
    return not (given.get("quiet") or given.get("as_json"))


def note_oddities(place: "Place") -> None:
    """Say once, and to everybody, which variables of the environment mean nothing to us."""
    ctx = click.get_current_context()
    if not ctx.resilient_parsing and not ctx.meta.get(NOTED):
        ctx.meta[NOTED] = True
        for text in place.oddities:
            say(f"Note: {text}")


def note_new(queue: "Queue") -> None:
    """Say that the queue was made just now: whoever mistyped a path must see it."""
    if queue.is_new and are_wanted():
        say(f"Made a new queue at {queue.url}.")


def note_idle(queue: "Queue", names: Collection[str]) -> None:
    """Say that nobody works, or not on these queues, and how that is changed."""
    for reason in queue.hindrances(names) if are_wanted() else ():
        if reason.cause != "paused":  # which `note_paused` says
            say(sentence(reason))


def note_unhandled(queue: "Queue", job: "Job") -> None:
    """Say of a data job that nobody works on its queue, or has a program for it."""
    for reason in queue.explain(job.id) if are_wanted() else ():
        if reason.cause in ("no_worker", "not_served", "no_handler", "no_label", "too_large"):
            say(sentence(reason))


def sentence(reason: "Reason") -> str:
    """Write why a job waits as a sentence that says what to do, where something can be done."""
    text = reason.text[:1].upper() + reason.text[1:]
    if reason.remedy is None:
        return f"{text}."
    return f"{text}; {_WHAT_TO_DO[reason.cause]} with: {again(reason.remedy)}"


_WHAT_TO_DO = {
    "held": "let it run",
    "not_due": "run it now",
    "awaits": "let it go on",
    "retry": "run it now",
    "paused": "go on",
    "run_paused": "go on",
    "node_gone": "start one",
    "no_worker": "start one",
    "not_served": "start one",
    "no_handler": "start one",
    "no_label": "start one",
    "too_large": "start one",
    "root_cause": "repair that",
    "parent_gone": "let it run all the same",
}


def note_unused(queue: "Queue", names: Collection[str]) -> None:
    """Say which of these queues nobody has used: they may be misspelt."""
    if not are_wanted() or not names:
        return
    try:
        unused = queue.unused(names)
    except StoreError:  # such as text that isn't text: workers can deal with that
        return
    for name, near in unused.items():
        meant = f"; did you mean {near!r}?" if near else "."
        say(f"Note: no job is in queue {name!r}, and none has ever run there{meant}")


def near_queue(queue: "Queue", name: str) -> str | None:
    """Return the queue that may be meant by the name of one that nobody has used yet."""
    if not are_wanted() or name == DEFAULT_QUEUE:
        return None
    try:
        return queue.unused([name]).get(name)
    except StoreUnreachableError:  # to wait for it once is enough
        raise
    except StoreError:  # what is wrong is told by whoever stores the job
        return None


def note_near(name: str, near: str | None) -> None:
    """Say that a queue is new, if there is one whose name looks like it."""
    if near is not None:
        say(f"Note: no job was in queue {name!r} before; did you mean {near!r}?")


def note_paused(queue: "Queue", name: str) -> None:
    """Say that a queue is paused, to whoever has put jobs into it."""
    from shlex import quote

    paused = are_wanted() and any(q.name == name and q.paused_at for q in queue.queues())
    if paused:
        say(f"Queue {name!r} is paused; go on with: {again(f'resume {quote(name)}')}")


def note_unknown_tags(queue: "Queue", tags: Iterable[str]) -> None:
    """Say which of these tags no job has: they may be misspelt."""
    for tag, near in (queue.unknown_tags(tags) if are_wanted() else {}).items():
        meant = f"; did you mean {near!r}?" if near else "."
        say(f"Note: no job has the tag {tag!r}{meant}")


def note_unknown_groups(queue: "Queue", names: Sequence[str]) -> None:
    """Say which of these groups there aren't: they may be misspelt."""
    for name in queue.groups.unknown(names) if names and are_wanted() else ():
        say(f"Note: there is no group {name!r}; see {again('groups')}")


def note_followed(queue: "Queue", last: "Mapping[str, Any] | None") -> None:
    """Say that what is to run when a group is over won't: there is something for that already."""
    if last is None or not are_wanted():
        return
    from queuectl.dependencies import read_parent
    from queuectl.job import FINISHED

    name = read_parent(last["after_group"][0])[0]
    there = queue.groups.follower(name)
    if there is None:
        return
    if there.state in FINISHED:
        say(f"Note: group {name} has its --on-done already; it won't run again.")
    elif there.command != last.get("command"):
        say(f"Note: group {name} has its --on-done already, job {there.id}; this one is left out.")


def again(command: str) -> str:
    """Write a command for the same queue: with `--db`, if that was given."""
    from queuectl.address import is_remote, without_secrets

    url: str | None = click.get_current_context().meta.get(DB)
    if url is None:
        return f"queuectl {command}"
    if is_remote(url) and command.startswith("worker start"):
        return f"queuectl {command}, on a host that reaches the database"
    from shlex import quote

    return f"queuectl --db {quote(without_secrets(url))} {command}"
