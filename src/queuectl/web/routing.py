"""Finds who answers by the path of a request, part by part: it costs the same however many do."""

from collections.abc import Awaitable, Callable, Mapping

from queuectl.web.http import Request, Response

Answering = Callable[[Request], Awaitable[Response]]


class _Place:
    """A beginning of paths, and who answers if that is all."""

    def __init__(self) -> None:
        self.named: dict[str, _Place] = {}
        self.any: _Place | None = None
        """What is below whatever name stands there."""
        self.names: tuple[str, ...] = ()
        self.methods: dict[str, Answering] = {}

    def find(self, parts: list[str], at: int, given: list[str]) -> "_Place | None":
        """Return the place of a path; `given` gets what stands where names do."""
        if at == len(parts):
            return self if self.methods else None
        part = parts[at]
        below = self.named.get(part)
        if below is not None and (found := below.find(parts, at + 1, given)) is not None:
            return found
        if self.any is None or not part:
            return None
        given.append(part)
        if (found := self.any.find(parts, at + 1, given)) is None:
            given.pop()
        return found


class Routes:
    """Who answers which method, at paths such as `/jobs/{id}`.

    Paths are compared as they were sent, part by part. One that is written goes before a name.
    """

    def __init__(self) -> None:
        self._root = _Place()

    def add(self, method: str, path: str, answer: Answering) -> None:
        """Have somebody answer; who answers GET answers HEAD as well."""
        place, names = self._root, []
        for part in path.split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                place.any = place.any or _Place()
                place = place.any
            else:
                place = place.named.setdefault(part, _Place())
        place.names = tuple(names)
        place.methods[method] = answer
        if method == "GET":
            place.methods["HEAD"] = answer

    def find(self, path: str) -> tuple[Mapping[str, Answering], dict[str, str]] | None:
        """Return who answers at a path, by method, and what its names stand for."""
        given: list[str] = []
        place = self._root.find(path.split("/"), 0, given)
        return (
            None if place is None else (place.methods, dict(zip(place.names, given, strict=True)))
        )
