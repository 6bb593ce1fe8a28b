"""Every campaign in its short form: each promise is put to the test on each store."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import tests.faults.campaigns  # noqa: F401 - registers them
from tests.faults.arena import Access, OwnServer, arena_in, new_server
from tests.faults.campaign import CAMPAIGNS, SQLITE, Campaign

SEED = 1
ALL = [
    pytest.param(campaign, store, id=f"{campaign.name}-{store}")
    for campaign in CAMPAIGNS.values()
    for store in campaign.stores
]


class OwnServers(dict[str, OwnServer]):
    """Servers by their kind, made when they are first asked for."""

    def __missing__(self, store: str) -> OwnServer:
        server = self[store] = new_server(store)
        return server


@pytest.fixture(scope="module")
def own_servers() -> Iterator[OwnServers]:
    """Servers that campaigns may kill."""
    servers = OwnServers()
    yield servers
    for server in servers.values():
        server.close()


@pytest.mark.parametrize(("campaign", "store"), ALL)
def test_all_promises_are_kept(
    campaign: Campaign,
    store: str,
    own_servers: OwnServers,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    server: Access | None = None
    if campaign.owns_server and store != SQLITE:
        server = own_servers[store]
        server.start()
    elif store != SQLITE:
        server = request.getfixturevalue(f"{store}_server")
    with arena_in(tmp_path, SEED, store, server) as arena:
        # Less than a test may take, so that a lost job is told in a sentence.
        arena.patience = 60.0
        report = campaign.run(arena, campaign.short)
    assert report.broken == []
