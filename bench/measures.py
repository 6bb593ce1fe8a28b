"""What is measured. Each function returns numbers; `__main__` turns them into a table."""

import os
import subprocess
import time
from statistics import median
from tempfile import TemporaryDirectory

from bench import lab
from queuectl import Queue, State
from queuectl.store.contract import Filter


def xargs_rate(jobs: int, workers: int) -> float:
    """Commands per second that `xargs -P` runs: the limit of this machine."""
    began = time.perf_counter()
    subprocess.run(
        ["/bin/sh", "-c", f"seq {jobs} | xargs -P {workers} -I N sh -c true"], check=True
    )
    return jobs / (time.perf_counter() - began)


def drain_rate(jobs: int, workers: int, url: str | None = None) -> float:
    """Jobs per second that a node drains, its start and stop not counted."""
    with lab.queue(url) as queue, lab.node(queue, workers):
        queue.pause("default")
        queue.enqueue_many(["true"] * jobs)
        began = time.perf_counter()
        queue.resume("default")
        queue.wait_until(lambda: jobs - queue.status().states[State.COMPLETED])
        return jobs / (time.perf_counter() - began)


def wake_ups(times: int, url: str | None = None) -> list[float]:
    """Milliseconds from `Queue.enqueue` on an idle node to the command's first instruction."""
    found = []
    with lab.queue(url) as queue, lab.node(queue, 4), TemporaryDirectory() as folder:
        for n in range(times):
            time.sleep(0.05)
            path = os.path.join(folder, f"stamp{n}")
            began = time.time_ns()
            job = queue.enqueue(f"date +%s%N > {path}")
            queue.wait(job.id)
            with open(path) as file:
                found.append((int(file.read()) - began) / 1e6)
    return sorted(found)


def date_cost(times: int) -> float:
    """Milliseconds that the stamp itself takes: `sh` and `date`, without any queue."""
    found = []
    for _ in range(times):
        began = time.time_ns()
        out = subprocess.run(["/bin/sh", "-c", "date +%s%N"], capture_output=True, check=True)
        found.append((int(out.stdout) - began) / 1e6)
    return median(found)


def idle(workers: int, seconds: float, url: str | None = None) -> tuple[float, float]:
    """Percent of a CPU, and megabytes, that an idle node takes."""
    with lab.queue(url) as queue, lab.node(queue, workers) as process:
        queue.wait(queue.enqueue("true").id)
        time.sleep(1)
        before = lab.cpu_seconds(process.pid)
        time.sleep(seconds)
        used = lab.cpu_seconds(process.pid) - before
        return 100 * used / seconds, lab.memory_mb(process.pid)


def enqueue_rates(single: int, bulk: int, url: str | None = None) -> tuple[float, float]:
    """Durable enqueues per second, one at a time and in bulk."""
    with lab.queue(url) as queue:
        began = time.perf_counter()
        for _ in range(single):
            queue.enqueue("true")
        one = single / (time.perf_counter() - began)
        began = time.perf_counter()
        queue.enqueue_many(["true"] * bulk)
        return one, bulk / (time.perf_counter() - began)


def fill(queue: Queue, waiting: int, finished: int) -> None:
    """Fill a queue: half of the waiting jobs are delayed ones of high priority."""
    half = waiting // 2
    queue.enqueue_many(["true"] * (waiting - half))
    queue.enqueue_many([{"command": "true", "delay": "1d", "priority": 100}] * half)
    queue.enqueue_many([{"command": "true", "queue": "old"}] * finished)
    store = queue.store
    with store.transaction():
        # History, written as a node would have left it.
        store._run(  # type: ignore[attr-defined]
            "UPDATE jobs SET state = 'completed', ready = NULL, finished_at = created_at,"
            " duration_ms = 1 + seq % 1000, attempts = 1, exit_code = 0 WHERE queue = 'old'",
            {},
        )


def backlog_cost(waiting: int, finished: int) -> dict[str, float]:
    """Milliseconds of claim, status, list and stats over a queue of that size."""
    with lab.queue() as queue:
        fill(queue, waiting, finished)
        store = queue.store
        from queuectl.store.contract import Node

        now = store.now()
        node = Node(
            id="bench", host="h", boot="b", pid=1, pid_start=1, workers=1, queues=(), spool="",
            version="0", started_at=now, seen_at=now, lease_until=store.steady() + 3_600_000,
        )  # fmt: skip
        store.register(node)
        return {
            "claim": _ms(lambda: store.claim("bench", [1], (), now=store.now())),
            "status": _ms(queue.status),
            "list": _ms(lambda: queue.list(limit=20)),
            "list pending": _ms(lambda: queue.list(Filter(states=(State.PENDING,)), limit=20)),
            "stats": _ms(queue.stats),
            "enqueue": _ms(lambda: queue.enqueue("true")),
        }


def _ms(action: object, times: int = 30) -> float:
    assert callable(action)
    found = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        found.append((time.perf_counter() - began) * 1000)
    return median(found)
