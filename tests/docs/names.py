"""Reads which names our code has, and which names our texts say it has."""

import ast
import builtins
import keyword
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from tests.docs.markdown import ROOT, prose

PACKAGE = ROOT / "src" / "queuectl"
_TICKED = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
_NAME = r"[A-Za-z_]\w*"
_DOTTED = re.compile(rf"({_NAME}(?:\.{_NAME})+)(?:\(.*\))?")
_PLAIN = re.compile(rf"({_NAME})(\(.*\))?")
_PATH = re.compile(r"[\w./-]+(?:\.py|\.md|/)")
WORDS = re.compile(r"[A-Za-z_]\w+")


@dataclass
class Class:
    """A class of ours: what its instances have, and what it is made of."""

    members: set[str] = field(default_factory=set)
    bases: set[str] = field(default_factory=set)


@dataclass
class Code:
    """All names in some folders of Python."""

    modules: dict[str, set[str]] = field(default_factory=dict)
    """What each module defines at its top, by its dotted name without `queuectl`."""
    classes: dict[str, Class] = field(default_factory=dict)
    defined: set[str] = field(default_factory=set)
    """What all modules, classes and functions define."""
    words: set[str] = field(default_factory=set)
    """Names of values besides, and the words of texts that are no prose: SQL, settings."""

    def add(self, path: Path, name: str) -> None:
        """Take in a module."""
        tree = ast.parse(path.read_text(encoding="utf-8"))
        self.modules[name] = set(_defined(tree.body))
        prose_here = {id(text) for text in _docstrings(tree)}
        for node in ast.walk(tree):
            self.words |= _words(node, prose_here)
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                self.defined |= {*_defined(node.body)}
            if isinstance(node, ast.ClassDef):
                known = self.classes.setdefault(node.name, Class())
                known.members |= {*_defined(node.body), *_own(node)}
                known.bases |= {b.id for b in node.bases if isinstance(b, ast.Name)}

    def members(self, name: str) -> set[str]:
        """Return what instances of a class have, by themselves and from other classes of ours."""
        found = self.classes.get(name, Class())
        return found.members.union(*(self.members(base) for base in found.bases))

    def modules_called(self, name: str) -> list[str]:
        """Return the modules whose last name, or whole name, is this one."""
        return [m for m in self.modules if m == name or m.endswith(f".{name}")]


def _defined(body: list[ast.stmt]) -> Iterator[str]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Assign(targets=targets):
                yield from (n.id for t in targets for n in ast.walk(t) if isinstance(n, ast.Name))
            case ast.AnnAssign(target=ast.Name(id=name)):
                yield name
            case ast.If() | ast.Try() | ast.With():
                yield from _defined(node.body)


def _own(node: ast.ClassDef) -> Iterator[str]:
    """Yield what the methods of a class give to `self`."""
    for inner in ast.walk(node):
        match inner:
            case ast.Attribute(value=ast.Name(id="self"), attr=name, ctx=ast.Store()):
                yield name


def _docstrings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Yield the texts that are there for readers, below whatever they are about."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str()) as text):
                yield text


def _words(node: ast.AST, prose_here: set[int]) -> set[str]:
    match node:
        case ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str() as name):
            return {name}
        case ast.Constant(value=str() as text) if id(node) not in prose_here:
            return {*WORDS.findall(text), text}
    return set()


@cache
def ours() -> Code:
    """Return all names of the package."""
    code = Code()
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        code.add(path, ".".join(part for part in parts if part != "__init__") or "queuectl")
    return code


@cache
def around() -> Code:
    """Return all names of what is around it: tests and benchmarks."""
    code = Code()
    for path in sorted([*(ROOT / "tests").rglob("*.py"), *(ROOT / "bench").rglob("*.py")]):
        parts = path.relative_to(ROOT).with_suffix("").parts
        code.add(path, ".".join(part for part in parts if part != "__init__"))
    return code


@dataclass(frozen=True)
class Said:
    """What a text says between backticks, and where."""

    text: str
    where: str
    folder: Path
    """From where its paths are meant."""


def said_on(page: str) -> list[Said]:
    """Return what a page says."""
    path = ROOT / page
    found = _TICKED.findall(prose(path.read_text(encoding="utf-8")))
    return [Said(text, page, path.parent) for text in found]


def said_in_docstrings() -> list[Said]:
    """Return what the docstrings of the package say."""
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for text in _docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            where = f"{path.relative_to(ROOT)}:{text.lineno}"
            found += [Said(name, where, path.parent) for name in _TICKED.findall(str(text.value))]
    return found


def is_wrong(said: Said, foreign: set[str]) -> bool:
    """Tell whether a text names code of ours that isn't there; not what isn't a name at all."""
    text = said.text
    if text in foreign:
        return False
    if _PATH.fullmatch(text):
        return not _is_path(said)
    if dotted := _DOTTED.fullmatch(text):
        return not _is_dotted(dotted[1], foreign)
    if plain := _PLAIN.fullmatch(text):
        # A class, a constant or a call must be there by that name; a word may be a value of ours.
        strict = plain[2] is not None or plain[1] != plain[1].lower()
        return not _is_plain(plain[1], strict=strict)
    return False


def _is_path(said: Said) -> bool:
    return any((base / said.text).exists() for base in (ROOT, PACKAGE, said.folder))


def _is_dotted(name: str, foreign: set[str]) -> bool:
    """Tell whether `module.name`, `Class.name` or `instance.name` is there."""
    name = name.removeprefix("queuectl.")
    first, _, last = name.rpartition(".")
    kind = first.rpartition(".")[2]
    return first in foreign or any(
        code.modules_called(name)
        or any(last in code.modules[module] for module in code.modules_called(first))
        or any(last in code.members(known) for known in code.classes if kind in _called(known))
        for code in (ours(), around())
    )


def _called(kind: str) -> tuple[str, str]:
    """Return what a class and an instance of it are called."""
    return kind, kind.lower()


def _is_plain(name: str, *, strict: bool) -> bool:
    code = ours()
    if name in code.defined or name in around().defined or hasattr(builtins, name):
        return True
    return not strict and (
        name in code.words or bool(code.modules_called(name)) or keyword.iskeyword(name)
    )
