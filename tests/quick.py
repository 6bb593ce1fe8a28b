"""What `make quick` runs: these folders, without these files, and without a server.

It is a plugin that only `make quick` loads. `make test` knows nothing of it, and runs everything.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDERS = ("unit", "contract", "cli", "docs")
SLOW = {
    "contract/test_side_by_side.py",
    "cli/test_change.py",
    "cli/test_change_json.py",
    "cli/test_completion.py",
    "cli/test_confirm.py",
    "cli/test_db.py",
    "cli/test_demo.py",
    "cli/test_manners.py",
    "cli/test_narrow.py",
    "cli/test_output.py",
    "cli/test_place.py",
    "cli/test_reading.py",
    "cli/test_scenarios.py",
    "cli/test_shared.py",
    "cli/test_surroundings.py",
    "cli/test_terminal.py",
    "cli/test_wait.py",
    # They need a program that may have to be installed first.
    "docs/test_alerts.py",
}
_SERVER = re.compile("server|postgres|mariadb")
_TESTS = Path(__file__).parent


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out what is in other folders, or slow."""
    if not collection_path.is_relative_to(_TESTS) or collection_path.parent == _TESTS:
        return None
    where = collection_path.relative_to(_TESTS)
    return True if where.parts[0] not in FOLDERS or where.as_posix() in SLOW else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what needs a server."""
    left_out = [item for item in items if _needs_server(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if not _needs_server(item)]


def _needs_server(item: pytest.Item) -> bool:
    """Tell whether a test uses a server: by its file, its fixtures, or its parameters."""
    return not item.path.is_relative_to(_TESTS / "unit") and any(map(_SERVER.search, _says(item)))


def _says(item: pytest.Item) -> Iterator[str]:
    yield item.path.name
    yield from getattr(item, "fixturenames", ())
    yield item.name.partition("[")[2]
