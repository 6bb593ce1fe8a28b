"""What a page of the dashboard is: the table that the site, its navigation and the tests share."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from queuectl.access import Right
from queuectl.errors import UsageError
from queuectl.values import dataclass, field
from queuectl.web.call import Call
from queuectl.web.route import Param, Scope

Shown = Mapping[str, Any]
"""What a template is given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """Bytes that a browser is to save, not to show."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """What there is to see at one path. Pages change nothing: their buttons ask the API."""

    path: str
    template: str
    title: str
    """What it is called in the navigation, or nothing."""
    run: Callable[[Call], Shown | File]
    needs: Right = Right.SEE
    scope: Scope = Scope.QUEUE
    query: tuple[Param, ...] = ()
    if_wrong: Callable[[Call, Mapping[str, list[str]], UsageError], Shown] | None = None
    """What its template is to show, with 400, if the query can't be understood: by default, an
    error in the place of the page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pages:
    """Pages about one subject."""

    pages: list[Page] = field(default_factory=list)

    def __iter__(self) -> Iterator[Page]:
        return iter(self.pages)

    def show(
        self, path: str, template: str = "", *, title: str = "", **more: Any
    ) -> Callable[[Callable[[Call], Any]], Callable[[Call], Any]]:
        """Have a template show, at a path, what a function returns."""

        def register(run: Callable[[Call], Any]) -> Callable[[Call], Any]:
            self.pages.append(Page(path=path, template=template, title=title, run=run, **more))
            return run

        return register
