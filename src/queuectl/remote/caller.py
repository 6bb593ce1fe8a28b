"""Makes calls at a server: their arguments go there as JSON, what comes back is made values."""

import json
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, cast

from queuectl.errors import StoreError
from queuectl.remote.calls import Calls, Shape, shape_of
from queuectl.remote.http import FOR_LONG, WITHIN, Client, LostError, Reply
from queuectl.remote.wire import MisfitError, error_of

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
        within = FOR_LONG if name in SLOW else WITHIN
        send = self._lines if shape.takes_lines else self._plain
        reply = send(f"/calls/{name}", shape, given, within)
        if shape.yields:
            return self._values(reply, shape)
        try:
            body = reply.whole()
        except LostError as error:
            if shape.again and not shape.takes_lines:
                # It broke off amid the answer: that can be had once more.
                return self._read(shape, send(f"/calls/{name}", shape, given, within).whole())
            raise self._client.lost(error, again=shape.again) from None
        return self._read(shape, body)

    def _plain(self, path: str, shape: Shape, given: tuple[Any, ...], within: float) -> Reply:
        said = {
            word: form.write(value, _whole)
            for (word, form), value in zip(shape.takes.items(), given, strict=True)
            if value is not None
        }
        headers = {"Content-Type": "application/json"}
        return self._client.ask(
            path, _json(said), again=shape.again, headers=headers, within=within
        )

    def _lines(self, path: str, shape: Shape, given: tuple[Any, ...], within: float) -> Reply:
        *said, lines = given
        words = zip(shape.takes, said, strict=True)
        query = "&".join(f"{word}={json.dumps(value)}" for word, value in words)
        headers = {"Content-Type": "application/jsonl", "Transfer-Encoding": "chunked"}
        return self._client.ask(
            f"{path}?{query}",
            partial(_chunks, lines),
            again=shape.again,
            headers=headers,
            within=within,
        )

    def _values(self, reply: Reply, shape: Shape) -> Iterator[Any]:
        try:
            for line in reply.lines():
                value = self._parsed(line)
                if isinstance(value, dict) and "problem" in value:
                    said = value["problem"]
                    raise error_of({"text": said.get("detail"), **said})
                yield self._made(shape, value)
        except LostError as error:
            raise self._client.lost(error, again=shape.reads) from None

    def _read(self, shape: Shape, body: bytes) -> Any:
        return self._made(shape, self._parsed(body))

    def _parsed(self, text: bytes) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            raise StoreError(f"{self._client.remote.url} answered what is no JSON.") from None

    def _made(self, shape: Shape, value: Any) -> Any:
        try:
            return shape.gives.read(value)
        except MisfitError as error:
            raise StoreError(
                f"{self._client.remote.url} answered what can't be read here: {error}"
            ) from None


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
