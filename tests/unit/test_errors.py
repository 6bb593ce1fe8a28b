"""The error tree: what its docstring draws is what the classes are."""

import re

import pytest

from queuectl import errors
from queuectl.errors import QueuectlError


def drawn() -> list[tuple[str, str | None, int, str]]:
    """Read the tree from the docstring: (name, parent, exit code, meaning) per line."""
    found: list[tuple[str, str | None, int, str]] = []
    path: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.fullmatch(r"([│├└─ ]*)(\w+Error) +(\d+) +(\S.*)", line)
        if match:
            branch, name, code, meaning = match.groups()
            depth = len(branch) // 4
            del path[depth:]
            found.append((name, path[-1] if path else None, int(code), meaning))
            path.append(name)
    return found


def classes() -> dict[str, type[QueuectlError]]:
    """Return all errors the module defines."""
    return {
        name: thing
        for name, thing in vars(errors).items()
        if isinstance(thing, type) and issubclass(thing, QueuectlError)
    }


def test_the_drawing_shows_every_class_once() -> None:
    names = [name for name, *_ in drawn()]
    assert len(names) == len(set(names))
    assert set(names) == set(classes()) == set(errors.__all__)


@pytest.mark.parametrize(("name", "parent", "code", "_meaning"), drawn())
def test_the_drawing_is_right(name: str, parent: str | None, code: int, _meaning: str) -> None:
    error = classes()[name]
    base = classes()[parent] if parent else Exception
    assert error.__bases__ == (base,)
    assert error.exit_code == code
    assert error.__doc__


def test_exit_codes_mean_what_the_commands_promise() -> None:
    assert (errors.EXIT_DONE, errors.EXIT_FAILED, errors.EXIT_USAGE) == (0, 1, 2)
    assert (errors.EXIT_NOT_FOUND, errors.EXIT_STATE, errors.EXIT_STORE) == (3, 4, 5)
    assert errors.EXIT_INTERRUPTED == 130
    codes = {error.exit_code for error in classes().values()}
    assert codes == {1, 2, 3, 4, 5}


def test_one_handler_catches_them_all() -> None:
    for error in classes().values():
        with pytest.raises(QueuectlError, match="one sentence"):
            raise error("one sentence")
