"""What can be run, as a program that imports it says: a node never does that itself."""

import json
import os
import re
import subprocess
import sys
from typing import NamedTuple

from queuectl.errors import UsageError

PROGRAM = (sys.executable, "-P", "-m", "queuectl.handlers")


ANSWER = "queuectl: "
"""What the line with the answer begins with."""
_OTHERS = "/(queuectl/handlers|importlib)/"
"""Files of which it is no use to say that something went wrong there."""


class Application(NamedTuple):
    """An application of Python."""

    tasks: dict[str, bool]
    """The names of its tasks, each with whether it is async."""
    db: str
    """Where its queue is; it may have a password."""
    shown: str
    """The same for everybody's eyes."""


def application(app: str, db: str | None) -> Application:
    """Import an application, `module:queue`, whose queue is there unless it says otherwise.

    Raises `UsageError` if it can't be imported, or has no tasks.
    """
    found = Application(*json.loads(_ask(f"The application {app}", "list", app, db=db)))
    if not found.tasks:
        raise UsageError(f"The application {app} has no tasks; register some with @queue.task.")
    return found


def check_class(file: str, name: str) -> None:
    """See that a file has a class that can run jobs, or raise `UsageError`."""
    _ask(f"The file {file}", "check", "run", file, name)


def _ask(what: str, *words: str, db: str | None = None) -> str:
    env = os.environ if db is None else {**os.environ, "QUEUECTL_DB": db}
    done = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False, env=env)
    if done.returncode:
        said = done.stderr.strip()
        last = said.rpartition("\n")[2] or f"exit code {done.returncode}"
        *_, (file, line) = [("", ""), *re.findall(r'File "([^"<]+)", line (\d+)', said)]
        where = f" ({file}, line {line})" if file and not re.search(_OTHERS, file) else ""
        raise UsageError(f"{what} can't be used: {last.rstrip('.')}{where}.")
    # It may print something itself, before and after.
    answers = [line for line in done.stdout.splitlines() if line.startswith(ANSWER)]
    if not answers:
        raise UsageError(f"{what} can't be used: it ended while it was imported.")
    return answers[-1].removeprefix(ANSWER)
