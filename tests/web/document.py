"""Writes what is made from the table of routes: `python -m tests.web.document`.

docs/openapi.json, and the table at the end of docs/api.md. Tests see that both are up to date.
"""

import json
from pathlib import Path

from queuectl.web import openapi
from queuectl.web.api import routes

DOCS = Path(__file__).parents[2] / "docs"
MARK = "<!-- routes -->\n"


def table() -> str:
    """Return the rows of the page, one for each route."""
    rows = []
    for route in routes():
        first = " ".join(route.about.split("\n\n")[0].split())
        needs = "" if route.needs is None else f"`{route.needs}`"
        rows.append(f"| `{route.method} {route.path}` | {needs} | {first} |\n")
    return "".join(rows)


def page(text: str) -> str:
    """Return the page with the table as it should be."""
    before, _, _ = text.partition(MARK)
    head, _, old = before.rpartition("|---|---|---|\n")
    assert "`" not in old or old.startswith("| `")
    return f"{head}|---|---|---|\n{table()}{MARK}"


def document() -> str:
    """Return the document as it should be."""
    return json.dumps(openapi.document(), indent=1, ensure_ascii=False) + "\n"


def main() -> None:
    """Write both."""
    (DOCS / "openapi.json").write_text(document())
    api = DOCS / "api.md"
    api.write_text(page(api.read_text()))


if __name__ == "__main__":
    main()
