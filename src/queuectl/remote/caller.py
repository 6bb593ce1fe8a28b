"""Makes calls at a server: their arguments go there as JSON, what comes back is made values."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from queuectl.errors import UsageError
from queuectl.remote.calls import Calls, Shape, shape_of
from queuectl.remote.http import FOR_LONG, WITHIN, Client, LostError, Reply, Request
from queuectl.remote.wire import error_of

CHUNK = 1 << 16
SLOW = frozenset(
    {
        "enqueue_many",
        "change_named",
        "change_matching",
        "change_all",
        "undo",
        "prune",
        "test_webhook",
    }
)
"""What may take minutes, and says nothing meanwhile."""
Before = Callable[[], Callable[[], None] | None]


def caller(client: Client, before: Before) -> Calls:
    """Return what makes calls; before each that may change something, `before()` is called."""
    return cast(Calls, _Caller(client, before))


class _Caller:
    def __init__(self, client: Client, before: Before) -> None:
        self._client = client
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return partial(self._call, name, shape_of(name))

    def _call(self, name: str, shape: Shape, *given: Any) -> Any:
        if not shape.reads and (called := self._before()) is not None:
            called()
        made = self._lines if shape.takes_lines else self._plain
        request = made(f"/calls/{name}", shape, given)._replace(
            within=FOR_LONG if name in SLOW else WITHIN,
            changes=not shape.reads,
            again=shape.again,
        )
        if shape.yields:
            return self._values(self._client.ask(request), shape)
        body = self._client.fetch(request)
        return self._read(shape, self._parsed(shape, body))

    def _plain(self, path: str, shape: Shape, given: tuple[Any, ...]) -> Request:
        said = {
            word: form.write(value, _whole)
            for (word, form), value in zip(shape.takes.items(), given, strict=True)
            if value is not None
        }
        return Request(path, _json(said), {"Content-Type": "application/json"})

    def _lines(self, path: str, shape: Shape, given: tuple[Any, ...]) -> Request:
        *said, lines = given
        words = zip(shape.takes, said, strict=True)
        query = "&".join(f"{word}={json.dumps(value)}" for word, value in words)
        headers = {"Content-Type": "application/jsonl", "Transfer-Encoding": "chunked"}
        return Request(f"{path}?{query}", partial(_chunks, lines), headers)

    def _values(self, reply: Reply, shape: Shape) -> Iterator[Any]:
        try:
            for line in reply.lines():
                value = self._parsed(shape, line)
                if isinstance(value, dict) and isinstance(said := value.get("problem"), dict):
                    raise error_of({"text": said.get("detail"), **said})
                yield self._read(shape, value)
        except LostError as error:
            raise self._client.lost(error, changes=not shape.reads) from None

    def _parsed(self, shape: Shape, text: bytes) -> Any:
        return self._client.parsed(text, changes=not shape.reads)

    def _read(self, shape: Shape, value: Any) -> Any:
        try:
            return shape.gives.read(value)
        except UsageError as error:
            why = str(error).rstrip(".")
            raise self._client.odd(why, changes=not shape.reads) from None


def _whole(value: Any) -> Any:
    return value


def _json(value: Any) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _chunks(lines: Iterable[Any]) -> Iterator[bytes]:
    """Yield lines of JSON, several at a time."""
    made = bytearray()
    for one in lines:
        made += _json(one) + b"\n"
        if len(made) >= CHUNK:
            yield bytes(made)
            made.clear()
    if made:
        yield bytes(made)
