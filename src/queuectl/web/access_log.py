"""The access log: a line for each request that is over. No secret gets into it."""

import logging
import re
from collections.abc import Mapping
from logging.handlers import WatchedFileHandler
from time import monotonic, time
from typing import Any

from queuectl.access import PREFIXES
from queuectl.errors import UsageError
from queuectl.web.app import App
from queuectl.web.http import UNIX, Message, Receive, Send
from queuectl.when import iso

STDERR = "-"
LONGEST = 2_000
"""Characters of a path, with its query, that are noted."""
_SECRET = re.compile(rf"({'|'.join(PREFIXES.values())})[\w-]+")
_ODD = re.compile(r"[^\x21-\x7e]")


class AccessLog:
    """What is served, and noted."""

    def __init__(self, app: App, file: str) -> None:
        """A file that can't be written is a `UsageError`."""
        self._app = app
        self._log = logging.getLogger(__name__)
        self._log.addHandler(_handler(file))
        self._log.setLevel(logging.INFO)
        self._log.propagate = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer a request, and note it."""
        began = monotonic()
        status = length = 0

        async def counted(message: Message) -> None:
            nonlocal status, length
            status = message.get("status", status)
            length += len(message.get("body", b""))
            await send(message)

        try:
            await self._app(scope, receive, counted)
        finally:
            took = round((monotonic() - began) * 1000)
            self._log.info("%s", line(scope, status, length, took))


def line(scope: Mapping[str, Any], status: int, length: int, took: int) -> str:
    """Describe a request that is over; without a status, who asked didn't wait for an answer."""
    target = scope["raw_path"].decode("latin-1")
    if query := scope["query_string"].decode("latin-1"):
        target += f"?{query}"
    shown = _SECRET.sub(r"\1...", _ODD.sub("?", target))[:LONGEST]
    address = scope["client"][0] if scope["client"] else UNIX
    now = iso(round(time() * 1000))
    return f"{now} {address} {scope['method']} {shown} {status or '-'} {length} {took}ms"


def _handler(file: str) -> logging.Handler:
    if file == STDERR:
        return logging.StreamHandler()
    try:
        # One that is moved away is opened anew.
        return WatchedFileHandler(file, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"The access log {file} can't be written: {error.strerror}.") from None
