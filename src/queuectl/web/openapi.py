"""The OpenAPI document, made from the table of routes and the schemas that the code uses."""

import re
from typing import Any

from queuectl import __version__
from queuectl.access import RIGHTS
from queuectl.web import problems, schemas
from queuectl.web.api import GROUPS, PREFIX
from queuectl.web.route import JSON, Param, Route, Scope

_ALWAYS = (400, 401, 403, 404, 405, 409, 413, 415, 421, 422, 429, 503)
"""How any route may refuse a request."""


def document() -> dict[str, Any]:
    """Return the whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for group in GROUPS:
        for route in group:
            paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "queuectl",
            "version": __version__,
            "description": "A durable job queue. Errors are problem+json, with one sentence that"
            " says what is wrong.",
        },
        "tags": [{"name": group.name, "description": _plain(group.about)} for group in GROUPS],
        "paths": paths,
        "components": {
            "schemas": schemas.SCHEMAS,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {"Problem": _problem()},
        },
        "security": [{"token": []}],
    }


def _operation(route: Route) -> dict[str, Any]:
    first, _, rest = _plain(route.about).partition("\n\n")
    said: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.group],
        "summary": first.rstrip("."),
        "description": "\n\n".join(part for part in (rest, _needs(route)) if part),
        "parameters": [
            *(_in_path(name) for name in re.findall(r"{(\w+)}", route.path)),
            *(_param(param, "query") for param in route.query),
            *(_param(param, "header") for param in route.headers),
        ],
        "responses": _responses(route),
    }
    if route.takes is not None:
        content = {route.takes_as: {"schema": route.takes}}
        said["requestBody"] = {"required": not route.optional, "content": content}
    if route.needs is None:
        said["security"] = []
    return said


def _needs(route: Route) -> str:
    if route.needs is None:
        return ""
    roles = [role for role, rights in RIGHTS.items() if route.needs in rights]
    some = " Not for tokens of some queues only." if route.scope is Scope.ALL else ""
    many = "one of the roles" if len(roles) > 1 else "the role"
    return f"Needs {many} {', '.join(roles)}.{some}"


def _responses(route: Route) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": "As asked."}
    if route.answers is not None:
        answer["content"] = {route.answers_as: {"schema": route.answers}}
    found = {str(status): answer for status in (route.status, *route.also)}
    if route.method == "GET" and route.answers_as == JSON:
        found["304"] = {"description": "Nothing has changed since the answer with that ETag."}
    known = (*_ALWAYS, *problems.STATUSES)
    return found | {
        str(status): {"$ref": "#/components/responses/Problem"} for status in sorted({*known})
    }


def _problem() -> dict[str, Any]:
    content = {problems.CONTENT_TYPE: {"schema": schemas.ref("Problem")}}
    return {"description": "It isn't done, and why.", "content": content}


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": schemas.ID}


def _param(param: Param, place: str) -> dict[str, Any]:
    schema = schemas.array(dict(param.schema)) if param.many else param.schema
    return {"name": param.name, "in": place, "schema": schema, "description": param.about}


def _plain(docstring: str) -> str:
    """Return a docstring as text: paragraphs without line breaks."""
    parts = [" ".join(part.split()) for part in docstring.strip().split("\n\n")]
    return "\n\n".join(parts)
