"""Fixtures all tests share."""

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import Lab, lab_in

pytest_plugins = ["pytester", "tests.servers.shared"]

# Images of containers often forbid bytecode. Each of the thousands of processes that we start would
# then compile the program anew, which takes twice as long as all else that most of them do.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# A shell starts what is in the background with SIGINT and SIGQUIT ignored, and `nohup` with SIGHUP.
# What we start would inherit that.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for ended_by in (signal.SIGHUP, signal.SIGQUIT):
    if signal.getsignal(ended_by) == signal.SIG_IGN:
        signal.signal(ended_by, signal.SIG_DFL)


@pytest.fixture(scope="session", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A home of our own: queues on servers keep files there, on every host they are used from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.delenv("XDG_DATA_HOME", raising=False)
        # What we enqueue is no part of what has started us.
        patch.delenv("TRACEPARENT", raising=False)
        yield


@pytest.fixture
def lab(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lab]:
    """A queue of its own, with real nodes on demand.

    It is an SQLite file, or what `TEST_STORE` says: postgres or mariadb.
    """
    store = os.environ.get("TEST_STORE", "sqlite")
    url = None if store == "sqlite" else request.getfixturevalue(f"{store}_url")
    with lab_in(tmp_path, url) as lab:
        yield lab


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was collected: it stays, and is a lot."""
    gc.freeze()
