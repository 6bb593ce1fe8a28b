"""All stores and a plain model live through the same history, crashes included.

`HISTORIES=500` lets it try more histories than it has time for in every test run. The campaign
`histories` does the same with one store at a time.
"""

import os
from collections import Counter
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from tests.contract.crashes import live_through
from tests.contract.foreign import ServerClient
from tests.contract.places import ServerPlace, SqlitePlace
from tests.contract.victim import Victims

HISTORIES = int(os.environ.get("HISTORIES", "10"))
LENGTH = 40


@pytest.mark.timeout(600)
def test_all_stores_and_the_model_live_through_the_same_history(
    tmp_path: Path, postgresql_broom: ServerClient, mariadb_broom: ServerClient
) -> None:
    with ExitStack() as stack:
        for broom in (postgresql_broom, mariadb_broom):
            broom.wipe()
        places = [
            stack.enter_context(closing(place))
            for place in (
                SqlitePlace(tmp_path),
                ServerPlace("postgres", postgresql_broom.url),
                ServerPlace("mariadb", mariadb_broom.url),
            )
        ]
        victims = stack.enter_context(closing(Victims()))
        run = live_through(places, victims, length=LENGTH, seen=Counter())
        settings(max_examples=HISTORIES, deadline=None, suppress_health_check=list(HealthCheck))(
            run
        )()
