"""A process that enqueues with one of the apps: `python -m bench.peers.client huey_sqlite_app`.

It is told what to do by lines of JSON, and answers each with one. This is the process of an
application; so no queue is slowed down by what the benchmarks do besides.
"""

import importlib
import json
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


class Client:
    """Does what it is told with an app."""

    def __init__(self, app: Any) -> None:
        self._app = app
        self._over = threading.Event()
        self._stream: threading.Thread | None = None

    def one(self, command: str, **more: Any) -> Json:
        """Enqueue a command, and say when that began."""
        began = time.monotonic_ns()
        self._app.enqueue(command, **more)
        return {"began": began}

    def single(self, command: str, times: int) -> Json:
        """Enqueue a command so many times, one after the other."""
        began = time.perf_counter()
        for _ in range(times):
            self._app.enqueue(command)
        return {"seconds": time.perf_counter() - began}

    def threaded(self, command: str, times: int, threads: int) -> Json:
        """The same from several threads, so many times in all."""
        each = times // threads

        def run() -> None:
            for _ in range(each):
                self._app.enqueue(command)

        crew = [threading.Thread(target=run) for _ in range(threads)]
        began = time.perf_counter()
        for thread in crew:
            thread.start()
        for thread in crew:
            thread.join()
        return {"seconds": time.perf_counter() - began, "times": each * threads}

    def connected(self, command: str, times: int, connections: int) -> Json:
        """The same over several connections of an app that has them, so many times in all."""
        began = time.perf_counter()
        self._app.enqueue_from(command, times, connections)
        return {"seconds": time.perf_counter() - began}

    def many(self, command: str, times: int) -> Json:
        """Enqueue a command so many times, in the quickest way that the app has."""
        began = time.perf_counter()
        self._app.enqueue_many(command, times)
        return {"seconds": time.perf_counter() - began}

    def task(self, number: int) -> Json:
        """Enqueue a task that does nothing, and say when that began and when it was stored."""
        began = time.monotonic_ns()
        self._app.enqueue_task(number)
        return {"began": began, "stored": time.monotonic_ns()}

    def tasks(self, times: int) -> Json:
        """Enqueue so many of them, from 1 on, in the quickest way that the app has."""
        began = time.perf_counter()
        self._app.enqueue_tasks(times)
        return {"seconds": time.perf_counter() - began}

    def stream(self, command: str, rate: float) -> Json:
        """Begin to enqueue a command so many times a second."""

        def run() -> None:
            due = time.monotonic()
            while not self._over.wait(max(0, due - time.monotonic())):
                self._app.enqueue(command)
                due += 1 / rate

        self._stream = threading.Thread(target=run)
        self._stream.start()
        return {}

    def stop(self) -> Json:
        """End that."""
        self._over.set()
        if self._stream is not None:
            self._stream.join()
        return {}


def main() -> None:
    """Answer until there are no more questions."""
    app = importlib.import_module(f"bench.peers.{sys.argv[1]}")
    if hasattr(app, "connect"):
        app.connect()
    client = Client(app)
    print("{}", flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        do: Callable[..., Json] = getattr(client, asked.pop("do"))
        print(json.dumps(do(**asked)), flush=True)
    client.stop()


if __name__ == "__main__":
    main()
