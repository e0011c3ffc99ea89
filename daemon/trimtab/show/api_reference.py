"""The reference page of the API, made from the route table as the OpenAPI document is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from trimtab.show.api_routes import Route, Scope

_ROLES = {
    Scope.OPEN: "anybody",
    Scope.METRICS: "metrics token",
    Scope.VIEWER: "viewer",
    Scope.OPERATOR: "operator",
    Scope.ADMIN: "admin",
    Scope.WEBHOOK: "webhook",
}

_HEAD = """# HTTP API

Made from the code (`make docs`). The daemon describes itself in full: `GET /openapi.json` on the people listener
(`people.listen`, 127.0.0.1:9740) is an OpenAPI 3.1 document written from the types that the handlers take and give;
each operation names its role as `x-trimtab-role`. Tests try it with schemathesis.

Sign in with a token (`Authorization: Bearer …`; the operator's own is in `operator.token` of the state directory,
others are given by `trimtab token person`), with the page's session cookie (`POST /api/v1/sign-in`, or a one-time
link), or by a proxy that is listed ([how-to/people.md](how-to/people.md)). A request that changes something and comes
without a token of its own must have the page's own `Origin` and the `X-Trimtab-CSRF` that `GET /api/v1/me` tells.

A role contains those before it: viewer, operator, admin. The role webhook is apart: its tokens open the webhooks alone.
Errors are `{"error": "a sentence"}`: 401 not signed in, 403 not with this role or not from our page, 404 no such
thing, 409 the decision cannot be taken as it stands, 422 the query or body is not right, 429 too many wrong tokens
(`Retry-After` says how long), 503 not now.
"""

_OTHERS = """
## Beside JSON

| Method, path | Role | What |
|---|---|---|
| GET /api/v1/events | viewer | server-sent events: `board` at each beat, whose data is the answer of `/api/v1/board` |
| GET /api/v1/stream | viewer | the page's own stream: columns once, then what changed |
| GET /open/{secret} | anybody who has it | a one-time link: signs in, once, within ten minutes |
| GET /metrics, /sd | metrics token, a person's, a listed address, or this host where none is set | for Prometheus |
| GET /openapi.json, / and the page's files | anybody | hold nothing of the cluster |
"""


def api_reference(routes: Sequence[Route]) -> str:
    """The page, in Markdown."""
    tags = list(dict.fromkeys(tag for route in routes for tag in route.tags[:1]))
    lines = [_HEAD]
    for tag in tags:
        lines += [
            f"## {tag.replace('-', ' ').capitalize()}",
            "",
            "| Method, path | Role | Takes | What |",
            "|---|---|---|---|",
        ]
        lines += [_row(route) for route in routes if route.tags[:1] == (tag,)]
        lines.append("")
    return "\n".join(lines).rstrip("\n") + "\n" + _OTHERS


def _row(route: Route) -> str:
    takes = ", ".join(f"`{name}`" for name in _takes(route))
    summary = route.summary.replace("|", "\\|")
    return f"| {route.method} {route.path} | {_ROLES[route.scope]} | {takes} | {summary} |"


def _takes(route: Route) -> Iterator[str]:
    """Fields of the query and the body; what may be left out ends in a question mark."""
    for kind in (route.query, route.body):
        yield from _fields(kind) if kind is not None else ()


def _fields(kind: type[Struct]) -> Iterator[str]:
    for field in msgspec.structs.fields(kind):
        yield field.name if field.required else f"{field.name}?"
