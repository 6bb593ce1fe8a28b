"""A TCP proxy that breaks connections when a test wants it: a bad network, on demand."""

import asyncio
import re
import socket
import struct
import threading
from collections.abc import Coroutine
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal, Self, TypeVar

from tests.servers import HOST, PATIENCE, free_port

T = TypeVar("T")
Moment = Literal["before", "during", "after"]
CHUNK = 65_536
RESET = struct.pack("ii", 1, 0)
NO_RESET = struct.pack("ii", 0, 0)
"""What SO_LINGER makes of a close."""
NAMING = re.compile(rb"P.{4}(_pg3_\d+)\0([^\0]*)\0", re.DOTALL)
CALLING = re.compile(rb"B.{4}\0(_pg3_\d+)\0", re.DOTALL)
"""How psycopg gives a name to a statement that it uses often, and calls it by that name then."""


class _CutError(Exception):
    """Ends a link from within."""


@dataclass(slots=True)
class _Trap:
    """Bytes to wait for, and what to do then."""

    needle: bytes
    when: Moment
    left: int
    shut: bool


def _close(client: socket.socket, _: object) -> None:
    client.close()


@dataclass(eq=False, slots=True)
class _Link:
    """A client, and its connection to the server."""

    client: socket.socket
    server: socket.socket
    drops_answer: bool = False
    """The next thing the server says is dropped, and the link is cut."""
    before: bytes = b""
    """What the client sent last."""
    named: dict[bytes, bytes] = field(default_factory=dict)
    """The statements that have names."""

    def meaning(self, data: bytes, overlap: int) -> bytes:
        """Return what the client wants to be done, with the end of what it sent before.

        A statement that it calls by its name is there in full; to name it does nothing yet.
        """
        self.named |= dict(NAMING.findall(data))
        called = [self.named.get(name, b"") for name in CALLING.findall(data)]
        before, self.before = self.before[max(0, len(self.before) - overlap) :], data
        return b"\0".join([before + NAMING.sub(b"", data), *called])


class Proxy:
    """Forwards a port of loopback to a server, until it is told to misbehave."""

    def __init__(self, target_host: str, target_port: int) -> None:
        self.port = free_port()
        self.fired = 0
        """How often a trap of `cut_when` has cut a connection."""
        self._target = (target_host, target_port)
        self._trap: _Trap | None = None
        self._links: set[asyncio.Task[None]] = set()
        self._asked: set[_Link] = set()
        """Those whose server hasn't answered yet what the client sent last."""
        self._listener: socket.socket | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._call(self._listen())

    @property
    def connections(self) -> int:
        """The number of clients that are connected."""
        return len(self._links)

    @property
    def is_frozen(self) -> bool:
        """Whether it forwards nothing."""
        return not self._flowing.is_set()

    def cut(self) -> None:
        """Reset all connections, on both sides. New ones are welcome."""
        self._call(self._cut())

    def refuse(self, refusing: bool = True) -> None:
        """Refuse new connections, or accept them again. Those there are go on."""
        self._call(self._unlisten() if refusing else self._listen())

    def freeze(self) -> None:
        """Forward nothing any more, without a word to either side, also for new connections."""
        self._call(self._flow(False))

    def thaw(self) -> None:
        """Forward again, first what has piled up."""
        self._call(self._flow(True))

    def cut_when(self, needle: bytes, *, when: Moment, times: int = 1, shut: bool = False) -> None:
        """Reset a connection when its client sends some bytes; replaces what was set before.

        What is under way is waited for: it has been sent already, and might do afterwards what
        was to be cut. With `shut`, new connections are refused from then on.

        - before: the server never gets what the client sent with them.
        - during: the server gets it; nobody waits for the answer.
        - after: the server has begun to answer; the client never gets the answer.
        """
        self._call(self._set(_Trap(needle, when, times, shut)))

    def close(self) -> None:
        """Reset all connections and end the proxy."""
        if self._loop.is_closed():
            return
        self._call(self._unlisten())
        self._call(self._cut())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run something in the thread of the proxy."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE)

    async def _set(self, trap: _Trap) -> None:
        while self._asked:
            await asyncio.sleep(0.001)
        self._trap = trap

    async def _flow(self, flowing: bool) -> None:
        if flowing:
            self._flowing.set()
        else:
            self._flowing.clear()

    async def _listen(self) -> None:
        if self._listener is None:
            self._listener = socket.create_server((HOST, self.port))
            self._listener.setblocking(False)
            self._loop.add_reader(self._listener, self._accept, self._listener)

    async def _unlisten(self) -> None:
        self._shut()

    def _shut(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    async def _cut(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        if links:
            await asyncio.wait(links)

    def _accept(self, listener: socket.socket) -> None:
        """Take in a client. Not a task: one that is cancelled may have just accepted somebody."""
        try:
            client, _ = listener.accept()
        except OSError:
            return  # It has gone again.
        link = self._loop.create_task(self._serve(client))
        self._links.add(link)
        link.add_done_callback(self._links.discard)
        # A task that is cancelled before it has begun closes nothing.
        link.add_done_callback(partial(_close, client))

    async def _serve(self, client: socket.socket) -> None:
        with client, socket.socket() as server:
            for side in (client, server):
                side.setblocking(False)
                side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            link = _Link(client, server)
            try:
                await self._flowing.wait()
                await self._loop.sock_connect(server, self._target)
                async with asyncio.TaskGroup() as both:
                    both.create_task(self._forward_requests(link))
                    both.create_task(self._forward_answers(link))
            except* (_CutError, OSError):
                pass  # closing resets both sides
            else:
                # Both sides have said goodbye, and what is under way may still arrive.
                for side in (client, server):
                    side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, NO_RESET)
            finally:
                self._asked.discard(link)

    async def _forward_requests(self, link: _Link) -> None:
        while data := await self._loop.sock_recv(link.client, CHUNK):
            await self._flowing.wait()
            self._asked.add(link)
            moment = self._spring(link, data)
            if moment == "before":
                self._fire()
            link.drops_answer |= moment == "after"
            await self._loop.sock_sendall(link.server, data)
            if moment == "during":
                self._fire()
        link.server.shutdown(socket.SHUT_WR)

    async def _forward_answers(self, link: _Link) -> None:
        while data := await self._loop.sock_recv(link.server, CHUNK):
            self._asked.discard(link)
            await self._flowing.wait()
            if link.drops_answer:
                self._fire()
            await self._loop.sock_sendall(link.client, data)
        if link.drops_answer:
            self._fire()
        link.client.shutdown(socket.SHUT_WR)

    def _spring(self, link: _Link, data: bytes) -> Moment | None:
        """Tell when to cut, if the trap is set and its needle ends in the data."""
        trap = self._trap
        meant = link.meaning(data, len(trap.needle) - 1 if trap else 0)
        if trap is None or trap.left == 0 or trap.needle not in meant:
            return None
        trap.left -= 1
        return trap.when

    def _fire(self) -> None:
        if self._trap is not None and self._trap.shut:
            self._shut()
        self.fired += 1
        raise _CutError
