"""Writes the results of campaigns as the tables of docs/reliability.md.

`python -m tests.faults.table FILE ...` takes over results from files that `python -m tests.faults
--results` wrote, and renews the page. The last result of each campaign on each store counts. The
results themselves are kept beside the page, so that no figure on it is typed by hand.
"""

import json
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import tests.faults.campaigns  # noqa: F401 - registers them
from tests.faults.campaign import CAMPAIGNS, Campaign
from tests.faults.mutants import MUTANTS
from tests.servers.shared import CHECKOUT

PAGE = CHECKOUT / "docs" / "reliability.md"
RESULTS = CHECKOUT / "docs" / "reliability.jsonl"
RESULTS_HERE, MUTANTS_HERE = "results", "mutants"
"""Names of the parts of the page that are written here."""
NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "mariadb": "MariaDB"}

Result = dict[str, Any]


def read(*paths: Path) -> list[Result]:
    """Return the last result of each campaign on each store, in the order of the rows."""
    last: dict[tuple[int, str, str], Result] = {}
    for path in paths:
        for line in path.read_text().splitlines():
            result = json.loads(line)
            last[result["row"], result["campaign"], result["store"]] = result
    order = list(NAMES)
    return [last[key] for key in sorted(last, key=lambda key: (*key[:2], order.index(key[2])))]


def render(results: Sequence[Result]) -> str:
    """Return the overview, and a section for each campaign."""
    sections = [section(campaign, of(campaign, results)) for campaign in in_order()]
    return "\n".join([*overview(results), "", *sections])


def in_order() -> list[Campaign]:
    """Return all campaigns by their rows."""
    return sorted(CAMPAIGNS.values(), key=lambda campaign: (campaign.row, campaign.name))


def of(campaign: Campaign, results: Iterable[Result]) -> list[Result]:
    """Return the results of one campaign."""
    return [result for result in results if result["campaign"] == campaign.name]


def overview(results: Sequence[Result]) -> list[str]:
    """Return a table with one line for each campaign and store."""
    lines = [
        "| # | campaign | store | tried | broken | less than, at 95 % |",
        "|---|---|---|---:|---:|---:|",
    ]
    lines += [
        f"| {result['row']} | [{result['campaign']}](#{anchor(result)})"
        f" | {NAMES[result['store']]} | {tried(result)} | {len(result['broken'])}"
        f" | {bound(result)} |"
        for result in results
    ]
    return lines


def anchor(result: Result) -> str:
    """Return where its section is."""
    return f"{result['row']}-{result['campaign']}"


def tried(result: Result) -> str:
    """Say how often something could have gone wrong."""
    unit = CAMPAIGNS[result["campaign"]].trials.replace("_", " ")
    return f"{result['trials']:,} {unit}"


def bound(result: Result) -> str:
    """Say what never having seen it in so many tries means: the rule of three."""
    return "-" if result["broken"] else f"1 in {round(result['trials'] / 3):,}"


def section(campaign: Campaign, results: Sequence[Result]) -> str:
    """Return what is said of one campaign."""
    lines = [
        f"### {campaign.row} {campaign.name}",
        "",
        f"{campaign.about[0].upper()}{campaign.about[1:]}. Goal: {campaign.goal}.",
        "",
    ]
    if results:
        lines += figures(results)
        stores = ",".join(dict.fromkeys(result["store"] for result in results))
        for seed in dict.fromkeys(result["seed"] for result in results):
            lines.append(
                f"Again: `make faults-long ONLY={campaign.name} STORE={stores} SEED={seed}`"
            )
    else:
        lines.append("Not measured.")
    return "\n".join([*lines, ""])


def figures(results: Sequence[Result]) -> list[str]:
    """Return a table of all figures, a column for each store, and what was broken."""
    names = list(dict.fromkeys(name for result in results for name in result["figures"]))
    head = [NAMES[result["store"]] for result in results]
    lines = [f"| | {' | '.join(head)} |", f"|---|{'---:|' * len(results)}"]
    for name in names:
        cells = [number(result["figures"].get(name, "")) for result in results]
        lines.append(f"| {name.replace('_', ' ')} | {' | '.join(cells)} |")
    for title, key in (("seed", "seed"), ("seconds it took", "seconds"), ("version", "commit")):
        lines.append(f"| {title} | {' | '.join(str(result[key]) for result in results)} |")
    lines.append("")
    for result in results:
        if smaller := less(result):
            lines += [f"{NAMES[result['store']]} was done in a smaller size: {smaller}.", ""]
        for promise in result["broken"]:
            lines += [f"**Missed on {NAMES[result['store']]}**: {promise}", ""]
    return lines


def less(result: Result) -> str:
    """Say in what a run was smaller than the long form."""
    sizes = CAMPAIGNS[result["campaign"]].long
    done = {name: result["sizes"].get(name, many) for name, many in sizes.items()}
    return ", ".join(
        f"{done[name]:,} instead of {many:,} {name.replace('_', ' ')}"
        for name, many in sizes.items()
        if done[name] < many
    )


def number(figure: object) -> str:
    """Write a figure so that it can be read."""
    return f"{figure:,}" if isinstance(figure, (int, float)) else str(figure)


def renewed(page: str, results: Sequence[Result]) -> str:
    """Return the page with these results on it."""
    return _part(_part(page, RESULTS_HERE, render(results)), MUTANTS_HERE, mutants())


def _part(page: str, name: str, text: str) -> str:
    """Return the page with another text between two marks."""
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->\n"
    block = re.compile(re.escape(begin) + ".*" + re.escape(end), re.DOTALL)
    return block.sub(lambda _: begin + text + end, page)


def mutants() -> str:
    """Return a table of the broken builds, and who notices."""
    lines = ["| mutant | what is broken | caught by |", "|---|---|---|"]
    for mutant in MUTANTS:
        tests = "<br>".join(f"`{test.rpartition('::')[2]}`" for test in mutant.tests)
        lines.append(f"| {mutant.name} | {mutant.broken} | {tests} |")
    return "\n".join([*lines, ""])


def main(paths: Sequence[str]) -> None:
    """Take over results and renew the page."""
    results = read(*([RESULTS] if RESULTS.exists() else []), *map(Path, paths))
    RESULTS.write_text("".join(json.dumps(result) + "\n" for result in results))
    PAGE.write_text(renewed(PAGE.read_text(), results))


if __name__ == "__main__":
    main(sys.argv[1:])
