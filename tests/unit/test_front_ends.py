"""Front ends translate: they speak to `Queue` and its values, and never to a store."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import queuectl

SOURCE = Path(queuectl.__file__).parent
FRONT_ENDS = ("cli", "web")
FILES = sorted(path for name in FRONT_ENDS for path in (SOURCE / name).rglob("*.py"))
QUEUES = {"queue", "_queue"}
"""What a queue is called there."""


def imported(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that are imported, also for types, and late."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def name_of(node: ast.expr) -> str | None:
    """Return the last name of what an attribute is asked of."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name
    return None


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_front_end_knows_no_store(path: Path) -> None:
    tree = ast.parse(path.read_text())
    assert not [name for name in imported(tree) if f"{name}.".startswith("queuectl.store.")]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            assert node.attr != "store", f"line {node.lineno} names a store"
            private = node.attr.startswith("_") and name_of(node.value) in QUEUES
            assert not private, f"line {node.lineno} uses a private of Queue: {node.attr}"
