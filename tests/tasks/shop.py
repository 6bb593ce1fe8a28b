"""An application with tasks of all kinds, for the tests of the program that runs them."""

import logging
import os
import subprocess
import sys
import time
from typing import Any

from queuectl import Queue
from queuectl.tasks.current import current_job
from queuectl.tasks.outcomes import Discard, Retry, Snooze

queue = Queue(os.environ["SHOP_DB"])


class UnprintableError(Exception):
    def __str__(self) -> str:
        raise ValueError("no words")


@queue.task
def add(a: int, b: int = 1) -> int:
    return a + b


@queue.task
def say(text: str, error: str = "") -> None:
    print(text)
    print(error, file=sys.stderr, end="")


@queue.task
def say_in_all_ways() -> None:
    print("python")
    os.write(1, b"bytes \xff\n")
    subprocess.run(["sh", "-c", "echo program; echo trouble >&2"], check=True)
    logging.getLogger("shop").info("logged")


@queue.task
def raise_it(how: str) -> None:
    match how:
        case "retry":
            raise Retry("busy", after="1m")
        case "discard":
            raise Discard("no use")
        case "snooze":
            raise Snooze(5)
        case "exit":
            sys.exit(3)
        case "unprintable":
            raise UnprintableError
        case _:
            raise ValueError("first line\nsecond line")


@queue.task
def close_streams() -> None:
    sys.stdout.close()
    os.close(1)
    os.close(2)


@queue.task
def big(size: int) -> str:
    return "x" * size


@queue.task
def name(job: dict[str, Any]) -> str:
    return f"{job['id']}: {job['ended']['hook']}"


@queue.task
def not_json() -> Any:
    return object()


@queue.task
async def later(x: int) -> int:
    import asyncio

    await asyncio.sleep(0)
    return current_job().attempt + x


@queue.task
def wait_for_stop() -> str:
    job = current_job()
    print("waiting", flush=True)
    while not job.stopped.wait(30):
        time.sleep(0)
    return job.why


@queue.task
def die(how: int) -> None:
    print("last words", flush=True)
    if how < 0:
        os.kill(os.getpid(), -how)
    os._exit(how)
