"""Asks for jobs with unique keys, one for each line that it reads, and says what it was told.

Usage: asker.py, with lines such as `return key`; prints `id ID`, `no WHY` or `unknown`.
"""

import sys

from queuectl import Queue
from queuectl.errors import QueuectlError, StoreUnsettledError


def main() -> None:
    """Ask until stdin ends."""
    with Queue() as queue:
        print("ready", flush=True)
        for line in sys.stdin:
            how, key = line.split()
            delay = "1h" if how == "debounce" else "0s"
            try:
                job = queue.enqueue(
                    "true", unique=key, tags=[key], on_duplicate=how, delay=delay, expire="100d"
                )
                print("id", job.id, flush=True)
            except StoreUnsettledError:
                print("unknown", flush=True)
            except QueuectlError as error:
                print("no", error, flush=True)


if __name__ == "__main__":
    main()
