"""The page of Python tasks does what it says: its files, its worker, its program, its tests."""

import sys
from pathlib import Path

import pytest

from tests.docs.markdown import blocks, read
from tests.docs.test_examples import Home, check_program, home

__all__ = ["home"]
PAGES = ["README.md", "docs/tasks.md"]


def files(page: str) -> dict[str, str]:
    """Return the files of a page: `py` and `ini` blocks, which begin with a name, put together."""
    found: dict[str, str] = {}
    for block in [*blocks(read(page), "py"), *blocks(read(page), "ini")]:
        name = block.lines[0].removeprefix("# ")
        found[name] = found.get(name, "") + "\n".join(block.lines[1:]) + "\n\n"
    return found


@pytest.mark.parametrize("page", PAGES)
def test_a_worker_runs_its_tasks(page: str, home: Home) -> None:
    """The `python` blocks, or `ask.py`, are one program."""
    found = files(page)
    for name, text in found.items():
        (home.folder / name).write_text(text)
    python = [line for block in blocks(read(page), "python") for line in block.lines]
    lines = found["ask.py"].splitlines() if "ask.py" in found else python
    check_program(home, lines, "--app", "shop:queue")


def test_its_tests_pass(home: Home) -> None:
    for name, text in files("docs/tasks.md").items():
        (home.folder / name).write_text(text)
    printed = home.run(sys.executable, "-m", "pytest", "-q", "test_shop.py")
    assert "3 passed" in printed, printed
    assert not [*Path(home.folder).glob("*.db.d/spool/*")]


def test_its_settings_for_django_are_those_of_the_example() -> None:
    from examples.django_shop import settings

    shown: dict[str, dict[str, dict[str, object]]] = {}
    exec(files("docs/tasks.md")["settings.py"], shown)
    mine, theirs = shown["TASKS"]["default"], settings.TASKS["default"]
    assert (mine["BACKEND"], mine.keys()) == (theirs["BACKEND"], theirs.keys())
