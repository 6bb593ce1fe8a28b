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
from queuectl.errors import EXIT_DONE, EXIT_FAILED, EXIT_STORE
from queuectl.place import near

if TYPE_CHECKING:
    from queuectl.guard.abilities import Ability

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

    It also says which bounds of runs (--memory, --cpus ...) a worker started from here could
    enforce, and what the others would take.

    It changes nothing. The exit code is 0 when nothing is broken (there may be
    notes and warnings), 1 with an error, and 5 when the queue can't be opened: then it says which
    step fails. Jobs aren't read: for that there is queuectl db check.
    """
    from queuectl.address import without_secrets
    from queuectl.guard.abilities import abilities
    from queuectl.maintenance import examine
    from queuectl.report import finding_dict

    place = near(here(check=False))
    found, trouble = examine(place)
    findings = [finding_dict(finding) for finding in found]
    if trouble is not None:
        complain(trouble.advised)
    healthy = trouble is None and all(finding["level"] != "error" for finding in findings)
    if as_json:
        told = {"database": without_secrets(place.url), "ok": healthy, "findings": findings}
        write_json({**told, "bounds": [ability.as_dict() for ability in abilities()]})
    else:
        _write(findings, abilities())
        if trouble is None:
            say("Jobs weren't read; queuectl db check sees whether all of them are whole.")
    if trouble is not None:
        return EXIT_STORE
    return EXIT_DONE if healthy else EXIT_FAILED


def _write_abilities(abilities: "Sequence[Ability]") -> None:
    """Print what a worker that is started from here could keep runs to."""
    heading("Bounds of runs")
    write_facts(
        [
            (
                one.name.replace("_", "-"),
                f"by {one.by}" if one.by is not None else f"not enforced: {one.why_not}",
            )
            for one in abilities
        ]
    )
    write()


def _write(findings: Sequence[dict[str, Any]], abilities: "Sequence[Ability]") -> None:
    """Print what is wrong, the worst first, then what is in order and can be, then the sum."""
    for level, name in TITLES.items():
        if chosen := [finding for finding in findings if finding["level"] == level]:
            heading(name)
            for finding in chosen:
                write(f"{paint(safe(finding['subject']), COLOURS[level])}: {safe(finding['text'])}")
                write(f"    {safe(finding['advice'] or '')}")
            write()
    fine = [(found["subject"], found["text"]) for found in findings if found["level"] == "ok"]
    if fine:
        heading("OK")
        write_facts(fine)
        write()
    _write_abilities(abilities)
    counts = [sum(finding["level"] == level for finding in findings) for level in TITLES]
    nouns = ("error", "warning", "note")
    told = ", ".join(plural(count, noun) for count, noun in zip(counts, nouns, strict=True))
    write(f"{told}.")
