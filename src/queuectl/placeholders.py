"""Placeholders in a command: `{}` and its forms, as GNU parallel has them, and names in braces.

In a command for the shell, a value takes the place as exactly one word of that shell, whatever is
in it. So a placeholder can't stand where quotes mean something else: inside quotes, or behind `<<`.
The number of an element is digits, which are the same inside of quotes, so it can stand there.
Bytes that aren't valid text come by a variable.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from itertools import repeat
from typing import NamedTuple

from queuectl.errors import BadJobError, did_you_mean
from queuectl.parameters import INDEX, LINE, Value, is_plain, variable_of
from queuectl.values import dataclass

SHELLS = frozenset("sh dash ash bash rbash ksh ksh93 mksh oksh zsh yash posh".split())
"""Those that read quotes as POSIX has them."""


def stem(path: str) -> str:
    """Return a path without its last extension."""
    dot = path.rfind(".")
    return path[:dot] if dot > path.rfind("/") else path


def name(path: str) -> str:
    """Return what stands behind the last slash of a path."""
    return path[path.rfind("/") + 1 :]


def folder(path: str) -> str:
    """Return the folder of a path, as dirname(1) does."""
    end = path.rstrip("/")
    if not end:
        return "/" if path else "."
    if "/" not in end:
        return "."
    return end[: end.rfind("/")].rstrip("/") or "/"


class Form(NamedTuple):
    """A form of a placeholder: the parameter that its value would be, and how it is made."""

    parameter: str
    make: Callable[[str], str] | None


FORMS = {
    "": Form(LINE, None),
    ".": Form(f"{LINE}_stem", stem),
    "/": Form(f"{LINE}_name", name),
    "//": Form(f"{LINE}_folder", folder),
    "/.": Form(f"{LINE}_name_stem", lambda path: stem(name(path))),
}
"""The forms of a line, by what stands in the braces."""
PLACEHOLDERS = tuple(f"{{{form}}}" for form in (*FORMS, "#"))
_PLACE = re.compile(
    r"\{(|\.|/|//|/\.|#|[A-Za-z_][A-Za-z0-9_]*"
    # These are others of GNU parallel, and names with more behind them: they stand for nothing.
    r"|%|\.\.\.?|/\.\.\.?|\+[./]|-?[0-9]+(?:\.|/|//|/\.)?|[A-Za-z_][A-Za-z0-9_]*(?:\.[A-Za-z0-9_]+)+)\}"
)
_HAVE_BRACES = re.compile(
    r"(?<!\S)-(?:exec|ok)(?:dir)?\b|(?<![\w.-])(?:xargs|parallel|fd|fdfind)(?![\w.-])"
).search
"""Finds what takes braces for something itself."""
_BEFORE_COUNT = ("@", "]", ")")
"""What stands before a number in braces that is none of ours: `stash@{1}`, `[0-9]{4}`."""


class Place(NamedTuple):
    """A place in a command that a value takes."""

    name: str
    """The parameter that it is made of."""
    parameter: str
    """The parameter by which it comes, if it can't stand in the command."""
    make: Callable[[str], str] | None

    def of(self, element: Mapping[str, Value]) -> str:
        """Return the value of an element."""
        value = str(element[self.name])
        return value if self.make is None else self.make(value)


def _place(inner: str, known: Collection[str]) -> Place | None:
    """Return what a placeholder stands for; None if that is nothing."""
    if inner == "#" or (inner == "" and LINE not in known and known == (INDEX,)):
        return Place(INDEX, INDEX, None)
    if inner in FORMS:
        form = FORMS[inner]
        return Place(LINE, form.parameter, form.make) if LINE in known else None
    return Place(inner, inner, None) if inner in known else None


@dataclass(frozen=True, slots=True)
class Template:
    """A command, or one argument of a program, with places for values."""

    parts: tuple[str | Place, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The parameters that it has places for."""
        return tuple(dict.fromkeys(part.name for part in self.parts if isinstance(part, Place)))

    def numbered(self, numbers: Iterable[int]) -> Iterator[str]:
        """Yield it for whole numbers, which take all its places."""
        places = sum(isinstance(part, Place) for part in self.parts)
        if not places:
            return repeat("".join(part for part in self.parts if isinstance(part, str)))
        text = "".join(
            "%d" if isinstance(part, Place) else part.replace("%", "%%") for part in self.parts
        )
        if places == 1:
            return map(text.__mod__, numbers)
        return (text % ((number,) * places) for number in numbers)

    def plain(self, element: Mapping[str, Value]) -> str:
        """Return it with the values as they are."""
        return "".join(part if isinstance(part, str) else part.of(element) for part in self.parts)

    def shell(self, element: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
        """Return it with each value as a word of the shell, and what has to come by variables."""
        return self._filled(element, lambda text: text)

    def as_word(self, element: Mapping[str, Value]) -> tuple[str, dict[str, Value]]:
        """Return all of it as one word of the shell, and what has to come by variables."""
        word, more = self._filled(element, lambda text: quoted(text) if text else "")
        return word or "''", more

    def _filled(
        self, element: Mapping[str, Value], write: Callable[[str], str]
    ) -> tuple[str, dict[str, Value]]:
        words: list[str] = []
        more: dict[str, Value] = {}
        for part in self.parts:
            if isinstance(part, str):
                words.append(write(part))
                continue
            value = part.of(element)
            if is_plain(value):
                words.append(quoted(value))
            else:
                more[part.parameter] = value
                words.append(f'"${{{variable_of(part.parameter)}}}"')
        return "".join(words), more


_UNSAFE = re.compile(r"[^A-Za-z0-9_@%+=:,./-]").search


def quoted(text: str) -> str:
    """Return a text as one word of a POSIX shell."""
    if text and _UNSAFE(text) is None:
        return text
    return "'" + text.replace("'", "'\"'\"'") + "'"


def argv_template(text: str, known: Collection[str]) -> Template:
    """Read an argument of a program. What stands for nothing there is what it is."""
    return Template(tuple(_parts(text, lambda at, inner: _place(inner, known))))


def shell_template(command: str, known: Collection[str]) -> Template:
    """Read a command for the shell, or raise where a value could not be one word."""
    where = _contexts(command)

    def place(at: int, inner: str) -> Place | None:
        context = where[at]
        found = _place(inner, known)
        if context == _ESCAPED:
            return None
        if found is None:
            if context == _PLAIN:
                _check_no_slip(command, at, inner, known)
            return None
        if context != _PLAIN:
            is_number = found.name == INDEX and command[at - 1 : at] != "\\"
            if is_number and context in _QUOTES:
                return found
            instead = "" if found.make else f", or write ${{{variable_of(found.name)}}} there"
            raise BadJobError(
                f"{{{inner}}} stands {context}, where a value can't be one word; put it outside, as"
                f" it is quoted already{instead}."
            )
        return found

    return Template(tuple(_parts(command, place)))


def _check_no_slip(command: str, at: int, inner: str, known: Collection[str]) -> None:
    """Raise that braces stand for nothing, if they look as if they were to stand for a value."""
    text = f"{{{inner}}}"
    if inner.isidentifier():
        hint = did_you_mean(inner, known, f"there are {', '.join(known)}.")
        raise BadJobError(f"Nothing called {inner!r} is there for {text}; {hint}")
    is_count = inner.isdecimal() and command[at - 1 : at] in _BEFORE_COUNT
    if not is_count and _HAVE_BRACES(command) is None:
        raise BadJobError(
            f"{text} stands for nothing here; there are {', '.join(_braced(known))}, and"
            f" \\{text} is the braces themselves."
        )


def _braced(known: Collection[str]) -> Iterator[str]:
    """Yield the placeholders that stand for something."""
    for one in known:
        if one == LINE:
            yield from (f"{{{form}}}" for form in FORMS)
        else:
            yield "{#}" if one == INDEX else f"{{{one}}}"


def _parts(text: str, place: Callable[[int, str], Place | None]) -> Iterator[str | Place]:
    start = 0
    for match in _PLACE.finditer(text):
        if text[match.start() - 1 : match.start()] == "$":
            # That is how a shell calls a variable.
            continue
        found = place(match.start(), match[1])
        if found is not None:
            if match.start() > start:
                yield text[start : match.start()]
            yield found
            start = match.end()
    if start < len(text):
        yield text[start:]


# -- where in a command for the shell ------------------------------------------------------

_PLAIN = ""
_ESCAPED = "behind a backslash"
_SAID = {
    "'": "in single quotes",
    '"': "in double quotes",
    "$'": "in quotes",
    "`": "in backquotes",
    "{": "in ${...}",
    "<": "behind <<",
    "#": "in a comment",
}
"""Where values can't be words, by what begins it. In `$(` and `(` they can."""
_QUOTES = (_SAID["'"], _SAID['"'])
"""Where digits are what they are outside."""


def _contexts(command: str) -> list[str]:
    """Say of each character where it stands: nothing for where words are read as usual."""
    found: list[str] = []
    open_: list[str] = []
    """What was begun and isn't over, the innermost last."""
    document_follows = False
    at = 0
    while at < len(command):
        inside = open_[-1] if open_ else _PLAIN
        size, effect = _step(command, at, inside)
        here = _SAID.get(inside, _PLAIN)
        found += [here] * size
        match effect:
            case "escape":
                found[-1] = here or _ESCAPED
            case "end":
                open_.pop()
            case "<<":
                document_follows = True
            case "line":
                if inside == "#":
                    open_.pop()
                if document_follows:
                    open_.append("<")
            case begun if begun:
                open_.append(begun)
        at += size
    return found


def _step(command: str, at: int, inside: str) -> tuple[int, str]:
    """Return how many characters belong together, and what they do: begin something, or `end` it.

    `escape` is a character behind a backslash, `line` the end of a line, and `<<` announces a
    document behind that.
    """
    one, two = command[at], command[at : at + 2]
    if inside == "<":
        return 1, ""
    if inside == "'":
        return 1, "end" if one == "'" else ""
    if inside == "#":
        return 1, "line" if one == "\n" else ""
    if one == "\\" and len(two) == 2:
        return 2, "escape"
    if inside in ("$'", "`"):
        return 1, "end" if one == inside[-1] else ""
    if two in ("$(", "${"):
        return 2, two[1]
    if one == "`":
        return 1, one
    if inside == '"':
        return 1, "end" if one == '"' else ""
    if two == "$'":
        return 2, two
    if one in ("'", '"'):
        return 1, one
    if inside == "{":
        return 1, "end" if one == "}" else ""
    return _step_in_plain(command, at, inside)


def _step_in_plain(command: str, at: int, inside: str) -> tuple[int, str]:
    one = command[at]
    if one == "\n":
        return 1, "line"
    if command.startswith("<<<", at):
        return 3, ""
    if command.startswith("<<", at):
        return 2, "<<"
    if one == "#" and (at == 0 or command[at - 1] in " \t\n;&|()"):
        return 1, "#"
    if one == "(":
        return 1, "("
    return 1, "end" if one == ")" and inside == "(" else ""
