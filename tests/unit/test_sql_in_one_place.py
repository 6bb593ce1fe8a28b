"""All queries of the product are under `store/statements/`; a schema, under `store/migrations/`.

What a driver says to its connection (BEGIN, SET, PRAGMA, VACUUM) is its own affair.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import queuectl

SOURCE = Path(queuectl.__file__).parent
ELSEWHERE = ("statements", "migrations")
QUERY = re.compile(r"\s*(SELECT|WITH|INSERT INTO|UPDATE|DELETE FROM|COPY|CREATE TABLE)\s")


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts in a file that aren't there to be read by people only."""
    tree = ast.parse(path.read_text())
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value


def queries(folder: Path) -> list[str]:
    return [
        f"{path.relative_to(folder)}:{line}"
        for path in sorted(folder.rglob("*.py"))
        if not any(part in ELSEWHERE for part in path.relative_to(folder).parts)
        for line, text in texts(path)
        if QUERY.match(text)
    ]


def test_no_query_is_anywhere_else() -> None:
    assert queries(SOURCE) == []


def test_one_would_be_found(tmp_path: Path) -> None:
    (tmp_path / "verbs.py").write_text('"""SELECT it."""\ndb.rows(f"SELECT 1 FROM {jobs}")\n')
    (tmp_path / "statements").mkdir()
    (tmp_path / "statements" / "shared.py").write_text('FOUND = "SELECT 1"\n')
    assert queries(tmp_path) == ["verbs.py:2"]
