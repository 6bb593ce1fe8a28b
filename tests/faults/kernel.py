"""What the kernel says: what time it is, and which runs of jobs are alive on this machine."""

import os
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.support import is_gone

Runs = Mapping[str, int]
"""Jobs, with the number of the attempt that is alive."""


def uptime() -> float:
    """Return the seconds since the kernel booted, as the ledger has them."""
    return float(Path("/proc/uptime").read_text().split()[0])


def live_runs() -> Mapping[str, Runs]:
    """Return, for each node, the runs of which some process is alive; nodes without are empty.

    They are found by the environment that every job is given, on all hosts of this machine.
    """
    found: dict[str, dict[str, int]] = defaultdict(dict)
    for pid in filter(str.isdigit, os.listdir("/proc")):
        environment = _environment(pid)
        if b"\0QUEUECTL_ATTEMPT=" in environment and not is_gone(int(pid)):
            attempt = int(_variable(environment, "ATTEMPT"))
            found[_variable(environment, "NODE")][_variable(environment, "JOB_ID")] = attempt
    return found


def _environment(pid: str) -> bytes:
    try:
        return b"\0" + Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return b""


def _variable(environment: bytes, name: str) -> str:
    after = environment.partition(f"\0QUEUECTL_{name}=".encode())[2]
    return after.partition(b"\0")[0].decode()
