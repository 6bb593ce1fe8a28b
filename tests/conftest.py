"""Fixtures all tests share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Lab, lab_in

pytest_plugins = ["tests.servers.shared"]


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    """A queue of its own, with real nodes on demand."""
    with lab_in(tmp_path) as lab:
        yield lab
