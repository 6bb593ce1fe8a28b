"""What an application can run, as a program that imports it says: a node never does that itself."""

import json
import subprocess
import sys

from queuectl.errors import UsageError

PROGRAM = (sys.executable, "-P", "-m", "queuectl.handlers")


def tasks_of(app: str) -> dict[str, bool]:
    """Return the tasks of an application, `module:queue`, each with whether it is async.

    Raises `UsageError` if it can't be imported, or has none.
    """
    done = subprocess.run([*PROGRAM, "list", app], capture_output=True, text=True, check=False)
    if done.returncode:
        said = done.stderr.strip()
        last = said.rpartition("\n")[2] or f"exit code {done.returncode}"
        raise UsageError(f"The application {app} can't be imported: {last}.\n{said}")
    # What it prints itself while it is imported comes before.
    names: dict[str, bool] = json.loads(done.stdout.rstrip().rpartition("\n")[2])
    if not names:
        raise UsageError(f"The application {app} has no tasks; register some with @queue.task.")
    return names
