"""Many who have a dashboard open, in one process: `python -m bench.audience PORT MANY [PAGE]`.

Each listens to what happens. With a PAGE, each also asks for what is new of it, as its script does
in a browser: once that something has happened, and again and again no sooner than it was told to.

It finds the secret of a token in QUEUECTL_TOKEN. A line on stdout says when all are heard of, as
JSON; each line on stdin is answered with what they have heard since the last one: how many events,
how often they were shown a page, and how many who listen are left.
"""

import asyncio
import json
import os
import re
import sys
from contextlib import suppress

PATH = "/api/v1/live"
AT_ONCE = 50
"""Connections that are opened at a time."""
LONGEST = 1 << 22
"""Bytes of one event at most."""
PACE = re.compile(rb'event: pace\ndata: \{"seconds": ?(\d+)')
NEWS = re.compile(rb"event: (status|event|reset)\n")
LENGTH = re.compile(rb"\r\ncontent-length: (\d+)", re.IGNORECASE)
TAG = re.compile(rb"\r\netag: ([^\r]+)", re.IGNORECASE)


class Audience:
    """All who have a dashboard open."""

    def __init__(self, port: int, secret: str, page: str | None) -> None:
        self._port = port
        self._page = page
        self._who = f"Host: 127.0.0.1:{port}\r\nAuthorization: Bearer {secret}\r\n"
        self.here = 0
        self.events = 0
        self.shown = 0
        self.refused: dict[str, int] = {}

    async def run(self, many: int) -> None:
        """Have all of them listen, and say of them what is asked."""
        gate = asyncio.Semaphore(AT_ONCE)
        tasks = [asyncio.create_task(self._look_on(gate)) for _ in range(many)]
        while self.here + sum(self.refused.values()) < many:
            await asyncio.sleep(0.01)
        self._say()
        asked = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
        while await asked.readline():
            self._say()
            self.events = self.shown = 0
        for task in tasks:
            task.cancel()

    def _say(self) -> None:
        said = {
            "here": self.here,
            "events": self.events,
            "shown": self.shown,
            "refused": self.refused,
        }
        print(json.dumps(said), flush=True)

    async def _look_on(self, gate: asyncio.Semaphore) -> None:
        """Have a dashboard open until it is over."""
        dashboard = _Dashboard()
        async with gate:
            reader, writer = await self._ask(PATH)
            status = (await reader.readline()).split(b" ")[1].decode()
            if status == "200":
                await reader.readuntil(b"\r\n\r\n")
                dashboard.hear(await reader.readuntil(b"\n\n"))
        if status != "200":
            self.refused[status] = self.refused.get(status, 0) + 1
            return
        self.here += 1
        looking = None if self._page is None else asyncio.create_task(self._look(dashboard))
        try:
            while part := await reader.read(LONGEST):
                self.events += dashboard.hear(part)
        finally:
            self.here -= 1
            writer.close()
            if looking is not None:
                looking.cancel()

    async def _look(self, dashboard: "_Dashboard") -> None:
        """Ask for what is new of the page."""
        known = ""
        while True:
            await asyncio.sleep(dashboard.every)
            if not dashboard.stale:
                continue
            dashboard.stale -= 1
            reader, writer = await self._ask(
                self._page or "", f"X-Part: main\r\nIf-None-Match: {known}\r\n"
            )
            with suppress(asyncio.IncompleteReadError):
                head = await reader.readuntil(b"\r\n\r\n")
                length, tag = LENGTH.search(head), TAG.search(head)
                await reader.readexactly(int(length[1]) if length else 0)
                known = tag[1].decode() if tag else ""
                self.shown += 1
            writer.close()

    async def _ask(
        self, path: str, more: str = ""
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LONGEST)
        writer.write(f"GET {path} HTTP/1.1\r\n{self._who}{more}\r\n".encode())
        return reader, writer


class _Dashboard:
    """What one of them was told."""

    def __init__(self) -> None:
        self.every = 2
        self.stale = 0

    def hear(self, part: bytes) -> int:
        """Take in what has come, and return how many events that were."""
        if pace := PACE.search(part):
            self.every = int(pace[1])
        if NEWS.search(part):
            self.stale = 2
        return part.count(b"event: ")


if __name__ == "__main__":
    page = sys.argv[3] if sys.argv[3:] else None
    audience = Audience(int(sys.argv[1]), os.environ["QUEUECTL_TOKEN"], page)
    asyncio.run(audience.run(int(sys.argv[2])))
