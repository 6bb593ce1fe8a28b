"""Fixtures for attacks on queues in database servers: a place on each, a lab there."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.places import Place
from tests.servers.proxy import Proxy
from tests.support import Lab, lab_in


@pytest.fixture(params=["postgres", "mariadb"])
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Place:
    """An empty place on each of the servers that the test run shares."""
    kind = str(request.param)
    # The folders of the queue on this host belong into the test's.
    monkeypatch.setenv("HOME", str(tmp_path))
    server = request.getfixturevalue(f"{kind}_server")
    return Place(kind=kind, port=server.port, url=request.getfixturevalue(f"{kind}_url"))


@pytest.fixture
def proxy(place: Place) -> Iterator[Proxy]:
    """A bad network in front of the place."""
    with Proxy("127.0.0.1", place.port) as proxy:
        yield proxy


@pytest.fixture
def server_lab(place: Place, tmp_path: Path) -> Iterator[Lab]:
    """A lab whose queue is on a server."""
    with lab_in(tmp_path, place.url) as lab:
        yield lab
