"""Notes when something is written to a named pipe: `python -m bench.stamper PIPE`.

A job that writes its number there, by a builtin of the shell, does so in its first instruction.
This process does nothing but wait for that, so that its clock is read at once.
"""

import os
import sys
import time


def main() -> None:
    """Print what was written, and when, until our reader is gone."""
    # Also opened for writing: it must not end when a job has closed it.
    pipe = os.open(sys.argv[1], os.O_RDWR)
    print("ready", flush=True)
    while True:
        said = os.read(pipe, 4096)
        now = time.monotonic_ns()
        for word in said.split():
            print(word.decode(), now, flush=True)


if __name__ == "__main__":
    main()
