"""Statements about many rows take the values that they say they take."""

import re
from types import ModuleType

import pytest

from queuectl.store.dialects import MYSQL, POSTGRESQL, SQLITE, TABLES
from queuectl.store.statements import ForRows, mysql, postgresql, sqlite

MODULES = {"sqlite": sqlite, "postgresql": postgresql, "mysql": mysql}
DIALECTS = {"sqlite": SQLITE, "postgresql": POSTGRESQL, "mysql": MYSQL}
LISTING = {"conditions", "direction", "page", "order", "n", "types"}
"""Holes of listings, which are filled as they are made."""


def statements(module: ModuleType) -> dict[str, str]:
    return {
        name: text
        for name, text in vars(module).items()
        if name.isupper() and isinstance(text, str)
    }


def taken(text: str) -> list[str]:
    """Return the values of a row that a statement names, as it names them to its table of rows."""
    if table := re.search(r"given \(([^)]*)\)|AS r \(([^)]*)\)", text):
        columns = (table[1] or table[2]).split(",")
        return [column.split()[0].removesuffix("_") for column in columns]
    if ":rows" in text:
        return [name.strip(' "\n') for name in text.partition("(")[2].partition(")")[0].split(",")]
    return re.findall(r":([a-z_]+)", text)


@pytest.mark.parametrize("kind", MODULES)
def test_rows_have_the_values_that_are_taken(kind: str) -> None:
    found = {n: t for n, t in statements(MODULES[kind]).items() if isinstance(t, ForRows)}
    assert {"PUT_BACK", "APPLY", "ASK_CANCEL", "ADD_ROLLUPS", "RECORD"} <= found.keys()
    for name, text in found.items():
        named = ["attempt" if value == "number" else value for value in taken(text)]
        if kind == "mysql":
            assert set(named) == set(text.names), name
        else:
            assert tuple(named) == text.names, name


@pytest.mark.parametrize("kind", MODULES)
def test_the_holes_are_few(kind: str) -> None:
    texts = " ".join(statements(MODULES[kind]).values())
    holes = set(re.findall(r"\{([a-z_]+)", texts)) - {*TABLES, "job_columns", "texts"}
    assert len(holes - LISTING) <= 14


@pytest.mark.parametrize("kind", MODULES)
def test_all_holes_can_be_filled(kind: str) -> None:
    listing = dict.fromkeys(LISTING, "1")
    for name, text in statements(MODULES[kind]).items():
        if name != "NEW_JOB":
            assert "{jobs}" not in DIALECTS[kind].render(text, **listing), name
