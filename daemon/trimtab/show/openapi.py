"""Writes the OpenAPI 3.1 document from the route table and the types; nothing in it is written by hand twice."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

import msgspec
from msgspec import Struct

from trimtab import __version__
from trimtab.show.api_routes import Route, Scope
from trimtab.show.api_types import ID_MAX, Problem

_REF = "#/components/schemas/{name}"

_ABOUT = (
    "What people and their tools ask of the daemon: the board, findings, recommendations, decisions, history. "
    "Sign in with the operator's token (`Authorization: Bearer …`) or with the page's cookie. "
    'Every error is `{"error": "a sentence"}`. `GET /api/v1/events` streams the board as server-sent events: '
    "event `board`, whose data is the answer of `GET /api/v1/board`."
)


def openapi_document(routes: Sequence[Route]) -> dict[str, Any]:
    """The document for these routes."""
    types = [Problem, *(route.response for route in routes), *(route.body for route in routes if route.body)]
    _, components = msgspec.json.schema_components(types, ref_template=_REF)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {"title": "trimtab", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "The operator's token."},
                "session": {"type": "apiKey", "in": "cookie", "name": "trimtab_session",
                            "description": "The page's session; the name ends in `_PORT` where Host has a port."},
            },
        },
    }  # fmt: skip


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": list(route.tags),
        "responses": {"200": {"description": route.summary, "content": _json(route.response)}, **_problems(route)},
    }
    if parameters := _parameters(route):
        operation["parameters"] = parameters
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": _json(route.body)}
    if route.scope in (Scope.METRICS, Scope.WEBHOOK):
        operation["security"] = [{"token": []}]
    elif route.scope is not Scope.OPEN:
        operation["security"] = [{"token": []}, {"session": []}]
    if route.scope.needed is not None:
        operation["x-trimtab-role"] = route.scope.value
    return operation


def _problems(route: Route) -> dict[str, Any]:
    # 400: a path or head that is not taken, whatever the route. 429: too many wrong tokens from where it comes from.
    statuses = {*route.errors, 400, 403, *((401, 429, 503) if route.scope is not Scope.OPEN else ())}
    if route.method != "GET":
        statuses.add(429)
    return {
        str(status): {"description": HTTPStatus(status).phrase, "content": _json(Problem)}
        for status in sorted(statuses)
    }


def _json(kind: Any) -> dict[str, Any]:  # noqa: ANN401 - any type that msgspec can describe
    return {"application/json": {"schema": {"$ref": _REF.format(name=kind.__name__)}}}


def _parameters(route: Route) -> list[dict[str, Any]]:
    found = []
    if "{id}" in route.path:
        schema = {"type": "integer", "minimum": 1, "maximum": ID_MAX}
        found.append({"name": "id", "in": "path", "required": True, "schema": schema})
    if "{job}" in route.path:
        about = "The job's id, `namespace/name`; its slash may stand as it is."
        schema = {"type": "string", "minLength": 1, "maxLength": 500}
        found.append({"name": "job", "in": "path", "required": True, "schema": schema, "description": about})
    return found + (_query_parameters(route.query) if route.query else [])


def _query_parameters(query: type[Struct]) -> list[dict[str, Any]]:
    schema = msgspec.json.schema(query)["$defs"][query.__name__]
    required = schema.get("required", [])
    return [
        {"name": name, "in": "query", "required": name in required, "schema": field}
        for name, field in schema["properties"].items()
    ]
