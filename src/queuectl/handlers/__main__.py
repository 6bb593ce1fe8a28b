"""Starts the program that runs Python for jobs.

`python -m queuectl.handlers app MODULE:QUEUE IN OUT` imports an application, and runs its tasks;
with `many` before that, many async ones at once; with `run FILE CLASS` in the place of that, it is
a class that runs jobs. `list MODULE:QUEUE` says which tasks there are, and `check` and the words of
one of these whether it can be imported.
"""

import gc
import json
import logging
import os
import sys
from collections.abc import Callable

from queuectl.handlers import lines
from queuectl.handlers.application import ANSWER
from queuectl.handlers.child import Child, in_words, tell_traceback
from queuectl.handlers.many import Many
from queuectl.handlers.work import NoAppError, Work, app_at, load_app, load_class

EXIT_NO_APP = 65
"""The application can't be imported."""


def load(kind: str, *what: str) -> Callable[[str], Work]:
    """Import what is to be run, and return what finds it by the type of a job."""
    if kind == "run":
        work = load_class(*what)
        return lambda type: work
    return load_app(*what).__getitem__


def _tell(argv: list[str]) -> None:
    """Say what there is, or that it can be had."""
    try:
        if argv[0] == "check":
            load(*argv[1:])
            print(f"\n{ANSWER}[]")
            return
        tasks = {name: task.is_async for name, task in sorted(load_app(argv[1]).items())}
        queue = app_at(argv[1])
        place = getattr(getattr(queue, "place", None), "url", "")
        print(f"\n{ANSWER}{json.dumps([tasks, place, str(getattr(queue, 'url', ''))])}")
    except NoAppError as error:
        sys.exit(str(error))


def main(argv: list[str]) -> None:
    """Import what is to be run, and serve; or, with `list`, say what there is."""
    if argv[0] in ("list", "check"):
        _tell(argv)
        return
    many = argv[0] == "many"
    *what, into, out = argv[1:] if many else argv
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    inlet, outlet = os.open(into, os.O_RDONLY), os.open(out, os.O_WRONLY)
    try:
        works = load(*what)
    except BaseException as error:  # noqa: BLE001 - whatever importing it raises
        tell_traceback(error)
        words = str(error) if isinstance(error, NoAppError) else in_words(error)
        os.write(outlet, lines.line({"unable": words}))
        sys.exit(EXIT_NO_APP)
    # What was imported stays; the collector needn't look at it again and again.
    gc.collect()
    gc.freeze()
    kind: type[Child] = Child
    if many:
        kind = Many
    kind(works, inlet, outlet).serve()


main(sys.argv[1:])
