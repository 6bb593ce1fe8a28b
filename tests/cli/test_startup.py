"""What short commands import: starting up is most of what they cost, so the list is fixed here.

What click and apsw import is free. Whoever needs one more module on this path should ask whether
it can be imported where it is used.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

_WATCH = """
import sys
import apsw
import click
free = set(sys.modules)
from queuectl.cli.main import run
code = run(sys.argv[1:])
more = sorted(name for name in set(sys.modules) - free if not name.startswith("encodings."))
import json
print(json.dumps([code, more]), file=sys.stderr)
"""

TRANSLATIONS = {"_locale", "locale"}
"""Imported by `gettext`, for click's own texts."""
WRAPPING = set(
    "_bz2 _compression _lzma bz2 click._textwrap fnmatch lzma shutil textwrap zlib".split()
)
"""Imported by click, to fit help into the terminal."""

FOR_ALL = TRANSLATIONS | {
    "gc",
    "queuectl",
    "queuectl.cli",
    "queuectl.cli.command",
    "queuectl.cli.interrupts",
    "queuectl.cli.main",
    "queuectl.cli.outlet",
    "queuectl.errors",
}
FOR_PLACE = FOR_ALL | {
    "queuectl.address",
    "queuectl.cli.widths",
    "queuectl.cli.render",
    "queuectl.job",
    "queuectl.place",
    "queuectl.settings",
    "queuectl.sizes",
    "queuectl.values",
    "queuectl.when",
}  # fmt: skip
FOR_HELP = FOR_PLACE | WRAPPING
QUOTING = {"shlex"}
"""Imported to write `--db` again, where no worker is running."""
FOR_ENQUEUE = (
    FOR_PLACE
    | QUOTING
    | {
        "_contextvars",
        "contextvars",
        "queuectl.cli.enqueue",
        "queuectl.cli.expand",
        "queuectl.cli.notes",
        "queuectl.cli.options",
        "queuectl.bound_values",
        "queuectl.cli.program",
        "queuectl.facts",
        "queuectl.fields",
        "queuectl.filter",
        "queuectl.host",
        "queuectl.overview",
        "queuectl.enqueueing",
        "queuectl.explain",
        "queuectl.queue",
        "queuectl.request",
        "queuectl.roster",
        "queuectl.scope",
        "queuectl.sharing",
        "queuectl.store",
        "queuectl.store.changed",
        "queuectl.store.administration",
        "queuectl.store.clock",
        "queuectl.store.contract",
        "queuectl.store.database",
        "queuectl.store.dialects",
        "queuectl.store.driver",
        "queuectl.store.files",
        "queuectl.store.idiom",
        "queuectl.store.ids",
        "queuectl.store.migrate",
        "queuectl.store.migrations",
        "queuectl.store.rows",
        "queuectl.store.session",
        "queuectl.store.sqlite",
        "queuectl.store.sqlite.administration",
        "queuectl.store.sqlite.driver",
        "queuectl.store.sqlite.idiom",
        "queuectl.store.sqlstore",
        "queuectl.store.statements",
        "queuectl.store.statements.around",
        "queuectl.store.statements.between",
        "queuectl.store.statements.shared",
        "queuectl.store.statements.sqlite",
        "queuectl.store.verbs",
        "queuectl.store.verbs.jobs",
        "queuectl.store.verbs.nodes",
        "queuectl.store.verbs.settings",
    }
)


@pytest.mark.parametrize(
    ("args", "allowed"),
    [
        pytest.param(["--version"], FOR_ALL, id="--version"),
        pytest.param(["--help"], FOR_HELP, id="--help"),
        pytest.param(["enqueue", "true"], FOR_ENQUEUE, id="enqueue"),
    ],
)
def test_a_short_command_imports_nothing_else(
    args: list[str], allowed: set[str], tmp_path: Path
) -> None:
    environment = {
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.pathsep.join(sys.path),
        "LANG": "C.UTF-8",
    }
    command = [sys.executable, "-c", _WATCH, "--db", str(tmp_path / "queue.db")]
    for _ in range(2):  # The first one makes the database.
        done = subprocess.run(
            [*command, *args],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        )
    code, imported = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    # Another Python may import less, or have it imported for click already.
    assert set(imported) <= allowed
    assert {name for name in imported if name.startswith("queuectl")} == {
        name for name in allowed if name.startswith("queuectl")
    }
