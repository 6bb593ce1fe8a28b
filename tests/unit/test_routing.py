"""Who answers at a path."""

import pytest

from queuectl.web.http import Request, Response
from queuectl.web.routing import Answering, Routes


def found(*paths: str, asked: str) -> tuple[str, dict[str, str]] | None:
    """Return which of these paths is found, and what its names stand for."""
    routes = Routes()
    by_answer: dict[Answering, str] = {}
    for path in paths:

        async def answer(_: Request) -> Response:
            return Response()

        by_answer[answer] = path
        routes.add("GET", path, answer)
    place = routes.find(asked)
    return None if place is None else (by_answer[place[0]["GET"]], place[1])


@pytest.mark.parametrize(
    ("asked", "path", "names"),
    [
        ("/", "/", {}),
        ("/jobs", "/jobs", {}),
        ("/jobs/a%2Fb", "/jobs/{id}", {"id": "a%2Fb"}),
        ("/jobs/counts", "/jobs/counts", {}),
        ("/jobs/counts/runs/7", "/jobs/{id}/runs/{number}", {"id": "counts", "number": "7"}),
        ("/jobs/{id}", "/jobs/{id}", {"id": "{id}"}),
    ],
)
def test_what_is_written_goes_before_a_name(asked: str, path: str, names: dict[str, str]) -> None:
    there = "/", "/jobs", "/jobs/{id}", "/jobs/counts", "/jobs/{id}/runs/{number}"
    assert found(*there, asked=asked) == (path, names)


@pytest.mark.parametrize(
    "asked",
    ["", "jobs", "//", "/jobs/", "/jobs//", "/jobs/a/", "/jobs/a/runs", "/Jobs", "/jobs/a/b"],
)
def test_nothing_else_is_found(asked: str) -> None:
    assert found("/", "/jobs", "/jobs/{id}", "/jobs/{id}/runs/{number}", asked=asked) is None


def test_each_method_has_its_own_and_head_is_answered_as_get() -> None:
    async def show(_: Request) -> Response:
        return Response()

    async def change(_: Request) -> Response:
        return Response()

    routes = Routes()
    routes.add("GET", "/jobs/{id}", show)
    routes.add("PATCH", "/jobs/{id}", change)
    methods, _ = routes.find("/jobs/1") or ({}, {})
    assert methods == {"GET": show, "HEAD": show, "PATCH": change}
