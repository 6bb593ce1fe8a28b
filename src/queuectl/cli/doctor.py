"""`doctor`: what is wrong with the queue, its database or this host, and what to do."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from queuectl.cli.command import Command
from queuectl.cli.options import here, json_option
from queuectl.cli.render import (
    complain,
    heading,
    paint,
    plural,
    safe,
    say,
    write,
    write_facts,
    write_json,
)
from queuectl.errors import (
    EXIT_DONE,
    EXIT_FAILED,
    EXIT_STORE,
    QueuectlError,
    StateError,
    StoreError,
    StoreMissingError,
)

if TYPE_CHECKING:
    from queuectl.place import Place
    from queuectl.store.health.findings import Finding

TITLES = {"error": "Errors", "warning": "Warnings", "note": "Notes"}
COLOURS = {"error": "red", "warning": "yellow", "note": "cyan"}

EXAMPLES = """
queuectl doctor
queuectl doctor --db postgresql://queue@db.example/jobs
queuectl doctor --json | jq '.findings[] | select(.level == "error")'
queuectl doctor && queuectl worker start      # only if nothing is broken
"""


@click.command(cls=Command, examples=EXAMPLES)
@json_option
def doctor(as_json: bool) -> int:
    """Check the queue, its database and this host; say what to do.

    It changes nothing. The exit code is 0 when nothing is broken (there may be
    notes and warnings), 1 with an error, and 5 when the queue can't be opened: then it says which
    step fails. Jobs aren't read: for that there is queuectl db check.
    """
    from queuectl.address import without_secrets
    from queuectl.store.health.findings import Level

    place = here(check=False)
    findings, trouble = _examine(place)
    if trouble is not None:
        complain(trouble.advised)
    healthy = trouble is None and all(found.level != Level.ERROR for found in findings)
    if as_json:
        write_json(
            {
                "database": without_secrets(place.url),
                "ok": healthy,
                "findings": [_dict(finding) for finding in findings],
            }
        )
    else:
        _write(findings)
        if trouble is None:
            say("Jobs weren't read; queuectl db check sees whether all of them are whole.")
    if trouble is not None:
        return EXIT_STORE
    return EXIT_DONE if healthy else EXIT_FAILED


def _examine(place: "Place") -> "tuple[list[Finding], QueuectlError | None]":
    """Check a queue; if it can't be opened, say why, and check what can be checked."""
    from queuectl.queue import Queue

    try:
        queue = Queue(place=place, create=False)
    except (StoreError, StateError) as trouble:
        from queuectl.store.health.examine import examine, examine_absent

        if isinstance(trouble, StoreMissingError) and place.is_default:
            return examine_absent(place), None
        return examine(place, trouble), trouble
    with queue:
        return queue.checkup(), None


def _dict(finding: "Finding") -> dict[str, Any]:
    return {
        "level": finding.level.value,
        "subject": finding.subject,
        "text": finding.text,
        "advice": finding.advice or None,
    }


def _write(findings: "Sequence[Finding]") -> None:
    """Print what is wrong, the worst first, then what is in order, then the sum."""
    for level, name in TITLES.items():
        if chosen := [finding for finding in findings if finding.level == level]:
            heading(name)
            for finding in chosen:
                write(f"{paint(safe(finding.subject), COLOURS[level])}: {safe(finding.text)}")
                write(f"    {safe(finding.advice)}")
            write()
    fine = [(finding.subject, finding.text) for finding in findings if finding.level == "ok"]
    if fine:
        heading("OK")
        write_facts(fine)
        write()
    counts = [sum(finding.level == level for finding in findings) for level in TITLES]
    nouns = ("error", "warning", "note")
    told = ", ".join(plural(count, noun) for count, noun in zip(counts, nouns, strict=True))
    write(f"{told}.")
