"""A server on loopback that webhooks are delivered to: it keeps what it is sent."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Answers as it is told, first with what is in `first`, one after the other."""

    daemon_threads = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, dict[str, str], bytes]] = []
        """Paths, headers and bodies, in the order in which they came."""
        self.first: list[int] = []
        self.status = 204
        self.headers: dict[str, str] = {}
        self.body = b""
        super().__init__(("127.0.0.1", 0), _Handler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook?a=1"


class _Handler(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        headers = {name.lower(): value for name, value in self.headers.items()}
        status = self.server.first.pop(0) if self.server.first else self.server.status
        self.server.seen.append((self.path, headers, body))
        self.send_response(status)
        for name, value in self.server.headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(self.server.body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def serving(server: Receiver) -> Iterator[Receiver]:
    """Serve until it is left."""
    thread = Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
