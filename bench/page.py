"""Writes what was measured: as JSON, as the results of docs/performance.md, and as plots.

`python -m bench.page FILE` renews the page from a file that `python -m bench --json` has written,
without measuring anything.
"""

import json
import re
import sys
from pathlib import Path

from bench.figures import Book, Json
from bench.goals import GOALS, judge
from bench.lab import CHECKOUT
from bench.measures import MEASURES
from bench.peers.roster import PEERS, TASK_PEERS
from bench.plots import PLOTS, draw
from bench.run import TRIES
from bench.tables import Table, all_tables, goals
from bench.weather import MOST_SLOWER, MOST_STOLEN

PAGE = CHECKOUT / "docs" / "performance.md"
RESULTS = CHECKOUT / "docs" / "performance.json"
PLOTTED = CHECKOUT / "docs" / "performance"
NOTED = {"drain": PEERS, "tasks": TASK_PEERS}
"""Whose notes are told with a measure."""
BEGIN, END = "<!-- results -->\n", "<!-- end of results -->\n"


def as_json(book: Book, about: Json) -> Json:
    """Return everything of a run: what was measured, on what, and what became of the goals."""
    verdicts = [judge(goal, book) for goal in GOALS]
    return {
        "about": about,
        **book.as_json(),
        "goals": [
            {
                "goal": verdict.goal.about,
                "must_be": verdict.goal.bound,
                "is": None if verdict.found is None else verdict.found.median,
                "verdict": verdict.status,
                "of": list(verdict.of),
            }
            for verdict in verdicts
        ],
    }


def write_page(results: Json) -> None:
    """Write the results beside the page, draw them, and put them on the page."""
    book = Book.from_json(results)
    RESULTS.write_text(json.dumps(results, indent=1, ensure_ascii=False) + "\n")
    drawn = draw(book, PLOTTED)
    PAGE.write_text(renewed(PAGE.read_text(), render(book, results["about"], drawn)))


def renewed(page: str, text: str) -> str:
    """Return the page with other results between the marks."""
    block = re.compile(re.escape(BEGIN) + ".*" + re.escape(END), re.DOTALL)
    return block.sub(lambda _: BEGIN + text + END, page)


def render(book: Book, about: Json, drawn: list[str]) -> str:
    """Return the results in Markdown."""
    parts = [_machine(about), *_again(book, about), "### Goals", goals(book).markdown()]
    parts += _missing(book)
    for table in all_tables(book):
        parts += _section(table, book, drawn)
    return "\n\n".join(parts) + "\n"


def _machine(about: Json) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    rounds = ", ".join(f"{name} {count}" for name, count in about["rounds"].items())
    return (
        f"Measured on {about['on']}, version {about['commit']}: {about['cores']} cores"
        f" ({about['processor']}), Linux {about['linux']}, Python {about['python']}, SQLite"
        f" {about['sqlite']}. The disk takes {about['fdatasync_ms']:.2f} ms to sync a page."
        f" {_load(about)} Size: {about['size']}. Rounds: {rounds}.\n\n"
        f"Versions: {versions}."
    )


def _again(book: Book, about: Json) -> list[str]:
    """Say what was measured more than once, and why."""
    said = []
    if book.disturbed:
        said.append(
            f"{book.disturbed} times, others on the same host took more than {MOST_STOLEN:.0%} of"
            f" the processors away from what was measured, or made them more than {MOST_SLOWER:.0%}"
            f" slower. It was measured again, up to {TRIES} times in all, and what was disturbed"
            " least counts."
        )
    for name, how in about.get("renewed", {}).items():
        said.append(f"`{name}` was measured by itself on {how['on']}, version {how['commit']}.")
    return [" ".join(said)] if said else []


def _load(about: Json) -> str:
    load, cores = about["load"][0], about["cores"]
    said = f"The load before the run was {load}"
    if load > cores / 2:
        return f"{said}: the machine was busy with something else, so the figures are too low."
    return f"{said}."


def _missing(book: Book) -> list[str]:
    if not book.missing:
        return []
    lines = "\n".join(f"- {what}: {why}" for what, why in book.missing.items())
    return ["### Not measured", lines]


def _section(table: Table, book: Book, drawn: list[str]) -> list[str]:
    measure = MEASURES[table.measure]
    parts = [f"### {measure.title}"]
    parts += [
        f"![{PLOTS[name].title}](performance/{name}.svg)"
        for name in drawn
        if PLOTS[name].measure == table.measure
    ]
    parts += [table.markdown()]
    setups = {
        name.removeprefix(f"{table.measure}: "): how
        for name, how in book.configured.items()
        if name.startswith(f"{table.measure}: ")
    }
    if setups:
        told = "; ".join(f"{name}: {how}" for name, how in setups.items())
        parts.append(f"Set up as: {told}.")
    if table.measure in NOTED:
        notes = [f"- {peer.title}: {peer.note}" for peer in NOTED[table.measure] if peer.note]
        parts.append("\n".join(notes))
    return parts


def main(path: str) -> None:
    """Renew the page from a file."""
    write_page(json.loads(Path(path).read_text()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else str(RESULTS))
