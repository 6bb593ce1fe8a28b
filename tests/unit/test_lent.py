"""Connections of others, where nothing of theirs is loaded yet."""

import subprocess
import sys

PROGRAM = """
import apsw, django.db, sys
from queuectl.store.lent import unwrapped
assert "django.db.backends.base.base" not in sys.modules
connection = apsw.Connection(":memory:")
assert unwrapped(connection) is connection
"""


def test_django_without_a_connection_is_none_of_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
