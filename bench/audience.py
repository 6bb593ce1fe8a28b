"""Many who listen to a server, in one process: `python -m bench.audience PORT MANY`.

It finds the secret of a token in QUEUECTL_TOKEN. A line on stdout says when all are heard of, as
JSON; each line on stdin is answered with what they have heard since the last one: how many events,
and how many who listen are left.
"""

import asyncio
import json
import os
import sys

PATH = "/api/v1/live"
AT_ONCE = 50
"""Connections that are opened at a time."""
LONGEST = 1 << 22
"""Bytes of one event at most."""


class Audience:
    """All who listen."""

    def __init__(self) -> None:
        self.here = 0
        self.events = 0
        self.refused: dict[str, int] = {}

    async def listen(self, port: int, secret: str, gate: asyncio.Semaphore) -> None:
        """Listen until it is over."""
        async with gate:
            reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=LONGEST)
            head = (
                f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {secret}"
            )
            writer.write(f"{head}\r\n\r\n".encode())
            status = (await reader.readline()).split(b" ")[1].decode()
            if status == "200":
                await reader.readuntil(b"\r\n\r\n")
                await reader.readuntil(b"\n\n")
        if status != "200":
            self.refused[status] = self.refused.get(status, 0) + 1
            return
        self.here += 1
        try:
            while part := await reader.read(LONGEST):
                self.events += part.count(b"event: ")
        finally:
            self.here -= 1
            writer.close()

    async def run(self, port: int, many: int, secret: str) -> None:
        """Have all of them listen, and say of them what is asked."""
        gate = asyncio.Semaphore(AT_ONCE)
        tasks = [asyncio.create_task(self.listen(port, secret, gate)) for _ in range(many)]
        while self.here + sum(self.refused.values()) < many:
            await asyncio.sleep(0.01)
        self.say()
        asked = asyncio.StreamReader()
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(asked), sys.stdin)
        while await asked.readline():
            self.say()
            self.events = 0
        for task in tasks:
            task.cancel()

    def say(self) -> None:
        """Say how it stands."""
        said = {"here": self.here, "events": self.events, "refused": self.refused}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    asyncio.run(Audience().run(int(sys.argv[1]), int(sys.argv[2]), os.environ["QUEUECTL_TOKEN"]))
