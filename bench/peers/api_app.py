"""The API of queuectl, as a program asks it that has several connections, all of them in one loop.

BENCH_BROKER is the URL of a server, with the secret of a token in the place of a password.
"""

import json
import os
import select
import socket
from urllib.parse import urlsplit

server = urlsplit(os.environ["BENCH_BROKER"])
LONGEST = 1 << 16


class Connection:
    """One that is kept alive; a request is on its way on it all the time."""

    def __init__(self) -> None:
        assert server.hostname is not None
        self.socket = socket.create_connection((server.hostname, server.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answer = b""

    def hear(self) -> bool:
        """Read what has come; tells whether that is the whole answer, which must be a new job."""
        part = self.socket.recv(LONGEST)
        self._answer += part
        head, end, body = self._answer.partition(b"\r\n\r\n")
        if part and (not end or len(body) < _length(head)):
            return False
        if not head.startswith(b"HTTP/1.1 201 "):
            raise RuntimeError(f"it answered {self._answer[:500]!r}")
        self._answer = b""
        return True


def _length(head: bytes) -> int:
    return int(head.lower().partition(b"\ncontent-length:")[2].partition(b"\r")[0])


def enqueue_from(command: str, times: int, connections: int) -> None:
    """Enqueue a command so many times, over so many connections, each one by one."""
    body = json.dumps({"command": command}).encode()
    request = (
        f"POST /api/v1/jobs HTTP/1.1\r\nHost: {server.hostname}:{server.port}\r\n"
        f"Authorization: Bearer {server.password}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    ).encode() + body
    poll = select.epoll()
    crew = {}
    for _ in range(connections):
        one = Connection()
        crew[one.socket.fileno()] = one
        poll.register(one.socket, select.EPOLLIN)
    begun = done = 0
    for one in crew.values():
        one.socket.sendall(request)
        begun += 1
    while done < times:
        for number, _ in poll.poll():
            one = crew[number]
            if one.hear():
                done += 1
                if begun < times:
                    one.socket.sendall(request)
                    begun += 1
    for one in crew.values():
        one.socket.close()
    poll.close()
