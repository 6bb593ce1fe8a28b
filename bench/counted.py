"""Runs the command and counts what SQLite is asked: `python -m bench.counted FILE ARGS...`.

FILE has the number of statements so far, in eight bytes, for whoever looks meanwhile.
"""

import mmap
import struct
import sys
from pathlib import Path
from threading import Lock
from typing import Any

import apsw

from queuectl.__main__ import main

COUNT = struct.Struct("=Q")


def run(path: str, *args: str) -> None:
    """Run the command."""
    Path(path).write_bytes(COUNT.pack(0))
    with open(path, "r+b") as file:
        shared = mmap.mmap(file.fileno(), COUNT.size)
    lock = Lock()

    def count(*_: Any) -> bool:
        with lock:
            COUNT.pack_into(shared, 0, COUNT.unpack_from(shared)[0] + 1)
        return True

    def watch(connection: apsw.Connection) -> None:
        connection.exec_trace = count

    apsw.connection_hooks.append(watch)
    sys.argv = ["queuectl", *args]
    main()


def counted(path: Path) -> int:
    """Return how many statements there were so far."""
    found: int = COUNT.unpack(path.read_bytes())[0]
    return found


if __name__ == "__main__":
    run(*sys.argv[1:])
