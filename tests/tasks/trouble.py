"""An application whose tasks cause all kinds of trouble, for tests with real nodes."""

import asyncio
import ctypes
import io
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from queuectl import Queue
from queuectl.tasks.current import current_job
from queuectl.tasks.outcomes import Discard, Retry, Snooze

queue = Queue()


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@queue.task
def add(a: int, b: int = 1) -> int:
    print("adding", a, b)
    return a + b


@queue.task
def trouble(kind: str) -> Any:
    print("in", kind, flush=True)
    match kind:
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "segfault":
            ctypes.string_at(0)
        case "exits":
            os._exit(7)
        case "exits well":
            os._exit(0)
        case "sys.exit":
            sys.exit(3)
        case "unprintable":
            raise UnprintableError
        case "hangs in C":
            # It keeps the lock of the interpreter.
            ctypes.PyDLL(None).sleep(1000)
        case "closes":
            for fd in range(3, 64):
                with_no_error(os.close, fd)
        case "long result":
            return "x" * (5 << 20)
        case "much memory":
            kept = []
            while True:
                kept.append(bytearray(b"x" * (16 << 20)))
                time.sleep(0.02)
    return None


def with_no_error(call: Any, *args: Any) -> None:
    try:
        call(*args)
    except OSError:
        return


@queue.task
def fork() -> str:
    if os.fork() == 0:
        return "child"
    return "parent"


@queue.task
def leave_process(pid_file: str) -> None:
    left = subprocess.Popen(["sleep", "1000"])
    Path(pid_file).write_text(str(left.pid))


@queue.task
def leave_thread() -> None:
    threading.Thread(target=time.sleep, args=[1000]).start()


@queue.task
def many_lines(count: int) -> None:
    for n in range(count):
        print(n)


@queue.task
def close_streams() -> None:
    sys.stdout.close()
    os.close(1)
    os.close(2)


@queue.task
def hold(flag: str) -> str:
    """Go on until a file is there, or somebody wants an end."""
    print("holding", flush=True)
    Path(f"{flag}.pid").write_text(str(os.getpid()))
    while not Path(flag).exists():
        if current_job().stopped.wait(0.02):
            Path(f"{flag}.why").write_text(current_job().why)
            raise RuntimeError("asked to end")
    return "held"


@queue.task
def say_oddly(how: str) -> str:
    match how:
        case "raise":
            raise ValueError("file \udcff")
        case "discard":
            raise Discard("file \udcff")
        case "progress":
            current_job().progress(0.5, "file \udcff")
            return "told"
    sys.stdout.write("\0" * (3 << 20))
    sys.stderr.write("\0" * (3 << 20))
    return "printed"


@queue.task
def keep(flag: str) -> int:
    """Tell and keep things as soon as a file is there."""
    Path(f"{flag}.pid").write_text(str(os.getpid()))
    while not Path(flag).exists():
        time.sleep(0.02)
    job = current_job()
    job.progress(0.5, "half")
    Path(f"{flag}.tries").touch()
    return job.step("one", lambda: 1) + job.step("two", lambda: 2)


@queue.task
def own() -> dict[str, Any]:
    return dict(current_job().parameters)


@queue.task
def around() -> dict[str, Any]:
    job = current_job()
    planned = job.scheduled_for
    return {
        "group": job.group,
        "schedule": job.schedule,
        "planned": planned and planned.timestamp(),
        "given": sorted(job.given),
    }


@queue.task
def take_buffer() -> str:
    out: Any = sys.stdout
    sys.stdout = io.TextIOWrapper(out.detach(), encoding="utf-8")
    print("wrapped", flush=True)
    return "taken"


@queue.task
def heed(flag: str) -> int:
    Path(f"{flag}.pid").write_text(str(os.getpid()))
    current_job().stopped.wait(60)
    return -1


@queue.task
def sleep_badly() -> int:
    try:
        current_job().sleep("10ms")
    except BaseException:  # noqa: BLE001 - what mustn't be done
        return -1
    return current_job().attempt


@queue.task
async def wait_long(flag: str) -> None:
    try:
        await asyncio.sleep(1000)
    finally:
        Path(flag).write_text("cleaned up")


@queue.task
async def meet(folder: str, name: str, others: int) -> str:
    """Come to an end only when so many are there at once."""
    print("here is", name)
    Path(folder, name).touch()
    while len(os.listdir(folder)) < others:
        await asyncio.sleep(0.01)
    return f"{name} {os.getpid()}"


@queue.task
def fate(kind: str) -> int:
    job = current_job()
    match kind:
        case "retry" if job.attempt == 1:
            raise Retry("busy", after=0)
        case "discard":
            raise Discard("of no use")
        case "snooze" if job.attempt == 1:
            raise Snooze(0)
    return job.attempt


@queue.task
def mark(path: str) -> None:
    Path(path).touch(exist_ok=False)
    time.sleep(0.005)
    Path(path).unlink()


@queue.task
def pid() -> int:
    return os.getpid()


@queue.task
def grow(size: int) -> int:
    """Keep so many bytes for good."""
    _kept.append(bytearray(b"x" * size))
    return os.getpid()


_kept: list[bytearray] = []


@queue.task
def tell(flag: str) -> None:
    for n in range(100):
        current_job().progress(n / 200, f"rows {n}")
    while not Path(flag).exists():
        time.sleep(0.02)
