"""What a mutant is: edits of the product's text, and the tests that must notice."""

import ast
import difflib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

Sources = dict[str, str]
"""The modules of the product, by their paths below src/queuectl."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Edit:
    """One text of the product that becomes another; it must be there exactly once.

    It is found by its words, in whatever module, on whatever lines: so it stays what it is when
    code moves.
    """

    old: str
    new: str
    inside: str = ""
    """Where, if there are several of that text: a function, a method or a constant, with its module
    if need be. `Store.commit`, `sqlite:FINISH`."""

    def apply(self, root: Path) -> str:
        """Make the change in a copy, and return it as a patch."""
        before = sources(root)
        name, after = self.applied_to(before)
        file = f"src/queuectl/{name}"
        (root / file).write_text(after, encoding="utf-8")
        lines = difflib.unified_diff(
            before[name].splitlines(keepends=True),
            after.splitlines(keepends=True),
            f"a/{file}",
            f"b/{file}",
            n=2,
        )
        return "".join(lines)

    def applied_to(self, texts: Sources) -> tuple[str, str]:
        """Return the module that it changes, and its text then."""
        words = re.compile(r"\s+".join(map(re.escape, self.old.split())))
        found = [
            (name, match)
            for name, text in texts.items()
            for match in words.finditer(text)
            if not self.inside or _is_inside(name, text, match.start(), self.inside)
        ]
        if len(found) != 1:
            places = ", ".join(name for name, _ in found)
            raise LookupError(f"{self.old!r} is there {len(found)} times, not once: {places}")
        [(name, match)] = found
        text = texts[name]
        return name, text[: match.start()] + self._new_at(text, match.start()) + text[match.end() :]

    def _new_at(self, text: str, start: int) -> str:
        """Return the new text, with the indentation of the place it comes to."""
        before = text[text.rfind("\n", 0, start) + 1 : start]
        if before.strip() or not self.old[:1].isspace():
            return self.new.rstrip("\n")
        shift = len(before) - _indentation(self.new)
        lines = self.new.rstrip("\n").splitlines()
        return "\n".join(" " * (_indentation(n) + shift) + n.lstrip() for n in lines).lstrip()


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def sources(root: Path) -> Sources:
    """Read all modules of the product in a checkout."""
    top = root / "src/queuectl"
    return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*.py"))}


def _is_inside(file: str, text: str, start: int, place: str) -> bool:
    """Tell whether a part of a module is in a function, or the text of a constant, of a name."""
    module, _, name = place.rpartition(":")
    if module and Path(file).stem != module:
        return False
    line = text.count("\n", 0, start) + 1
    return any(
        name == found and node.lineno <= line <= (node.end_lineno or 0)
        for found, node in _named(ast.parse(text))
    )


def _named(tree: ast.AST, above: str = "") -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield above + node.name, node
            yield from _named(node, f"{above}{node.name}.")
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            yield above + node.targets[0].id, node


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutant:
    """A broken build, and who must notice."""

    name: str
    broken: str
    """What is wrong with it, in a sentence."""
    edits: Sequence[Edit]
    tests: Sequence[str]
    """Their node ids; in the checkout all of them are green."""
