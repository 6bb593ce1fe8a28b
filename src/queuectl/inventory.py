"""What this host has for jobs: cores, memory, and the GPUs that NVIDIA's own program finds."""

import os
import re
import shutil
import subprocess

from queuectl.resources import BETWEEN, AmountError

AUTO = "auto"
FOUND_WITHIN = 20.0
"""Seconds that nvidia-smi may take: it wakes the driver up."""


def with_found(resources: str) -> str:
    """Put what is found in the place of `auto`, but for what is said besides."""
    parts = [part.strip() for part in re.split(BETWEEN, resources)]
    if AUTO not in parts:
        return resources
    if parts.count(AUTO) > 1:
        raise AmountError(f"{AUTO} twice; say it once")
    said = ",".join(part for part in parts if part != AUTO)
    named = {part.partition("=")[0] for part in parts}
    found = [f"{name}={text}" for name, text in _found().items() if name not in named]
    return ",".join(filter(None, [*found, said]))


def _found() -> dict[str, str]:
    found = {"cpu": str(cores()), "mem": str(memory())}
    if gpus := find_gpus():
        found["gpu"] = f"[{','.join(map(str, gpus))}]"
    return found


def cores() -> int:
    """Count the cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


def memory() -> int:
    """Return how many bytes of memory there are for it: of the host, or of its control group."""
    there = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    try:
        with open("/sys/fs/cgroup/memory.max", encoding="ascii") as file:
            return min(there, int(file.read()))
    except (OSError, ValueError):
        # There is no such group, or no limit of it.
        return there


def find_gpus() -> list[int]:
    """Return the numbers of the NVIDIA GPUs that are here, as nvidia-smi says them.

    Of a process that is shown only some, these.
    """
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    asked = [program, "--query-gpu=index", "--format=csv,noheader"]
    try:
        told = subprocess.run(
            asked, capture_output=True, text=True, timeout=FOUND_WITHIN, check=True
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    there = [int(line) for line in told.split() if line.isdecimal()]
    shown = os.environ.get("CUDA_VISIBLE_DEVICES")
    if shown is None:
        return there
    listed = [part.strip() for part in shown.split(",")]
    return [at for at in there if str(at) in listed]
