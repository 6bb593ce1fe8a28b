"""A process that enqueues jobs one by one, and writes down what it was told, synced to disk.

`python -m tests.faults.enqueuer NAME MANY FILE COMMAND` with the queue in the environment. The
ids are NAME-0, NAME-1 and so on. What the lines of the file mean is told in `ledger.py`.

Where `ENQUEUER_BARRIER` names a file, it waits before each job while that is there; with `over` in
it, that was all.
"""

import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from queuectl import Queue
from queuectl.errors import QueuectlError, StoreError, StoreUnsettledError


def enqueue(queue: Queue, name: str, many: int, command: str, note: Callable[..., None]) -> None:
    """Enqueue jobs, and note each step before the next."""
    for n in range(many):
        if is_over():
            return
        id = f"{name}-{n}"
        note("ask", id)
        try:
            job = queue.enqueue(command, id=id)
        except StoreUnsettledError as error:
            note("said", id, str(error))
            note("unknown", id)
        except QueuectlError as error:
            note("said", id, str(error))
            note("refused", id)
        else:
            note("ack", job.id)


def is_over() -> bool:
    """Wait while the barrier is down, and tell whether it will stay so."""
    barrier = Path(os.environ.get("ENQUEUER_BARRIER", os.devnull))
    while barrier.is_file():
        with suppress(FileNotFoundError):
            if barrier.read_text() == "over":
                return True
        time.sleep(0.01)
    return False


def opened() -> Queue:
    """Open the queue, as soon as its server lets us."""
    while True:
        try:
            return Queue()
        except StoreError as error:
            print(error, file=sys.stderr, flush=True)
            time.sleep(0.05)


def main(name: str, many: str, path: str, command: str) -> None:
    """Enqueue as the command line says."""
    with open(path, "a", encoding="utf-8") as file, opened() as queue:

        def note(*words: str) -> None:
            # What wasn't asked yet can't be lost: only the answers must be on the disk.
            print(*words, file=file, flush=True)
            if words[0] != "ask":
                os.fdatasync(file.fileno())

        enqueue(queue, name, int(many), command, note)


if __name__ == "__main__":
    main(*sys.argv[1:])
