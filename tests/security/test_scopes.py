"""Every route of both listeners with every kind of credential: what opens, what does not, and that the no is told."""

from __future__ import annotations

import re
from dataclasses import dataclass

import msgspec
import pytest
import requests
from starlette.routing import Route as WebRoute
from tests.fakes.people import a_board, serving
from tests.security.hall import Hall

from trimtab.model.people import Role
from trimtab.show.api_pages import PAGE_PATHS
from trimtab.show.api_routes import Route, Scope
from trimtab.show.api_table import ROUTES

OWN_CREDENTIALS = ("invented", "revoked", "node", "metrics")
"""Good for nothing at the API, whatever they open elsewhere."""
ROLES = {"viewer": Role.VIEWER, "operator": Role.OPERATOR, "admin": Role.ADMIN, "webhook": Role.WEBHOOK}
NOT_IN_THE_TABLE = {
    "/metrics": "read", "/sd": "read", "/api/v1/events": "stream", "/api/v1/stream": "stream",
    "/openapi.json": "open", "/static/{path:path}": "open", "/open/{secret}": "open",
    **dict.fromkeys(PAGE_PATHS, "open"),
}  # fmt: skip


@pytest.fixture(scope="module")
def hall(shared_hall: Hall) -> Hall:
    return shared_hall


@dataclass(frozen=True)
class Asked:
    status: int
    text: str

    @property
    def is_let_in(self) -> bool:
        """Past the door; what the route then says of an empty body or an unknown id is its own affair."""
        return self.status not in (401, 403)


def ask(hall: Hall, method: str, path: str, headers: dict[str, str], *, is_ingest: bool = False) -> Asked:
    base = f"http://127.0.0.1:{hall.ingest_port}" if is_ingest else hall.url
    data = b'{"nobody": "reads this"}' if method == "POST" else None
    given = {"Content-Type": "application/json", **headers}
    with requests.request(
        method, base + path, data=data, headers=given, timeout=20, stream=True, allow_redirects=False
    ) as answer:
        is_stream = "event-stream" in answer.headers.get("content-type", "")
        return Asked(answer.status_code, "" if is_stream else answer.text)


def bearer(hall: Hall, kind: str) -> dict[str, str]:
    return {} if kind == "nothing" else {"Authorization": f"Bearer {hall.credential(kind)}"}


def filled(path: str) -> str:
    return path.replace("{id}", "4711").replace("{job}", "research/none")


def should_open(route: Route, kind: str) -> bool:
    if route.scope.needed is None:
        return True
    return kind in ROLES and ROLES[kind].covers(route.scope.needed)


CASES = [
    (route, kind)
    for route in ROUTES
    if route.scope is not Scope.METRICS
    for kind in ("nothing", *OWN_CREDENTIALS, *ROLES)
    if not ("callbacks" in route.path or "sign-in" in route.path)
]


@pytest.mark.parametrize("kind", ["nothing", *OWN_CREDENTIALS, *ROLES])
def test_each_route_opens_to_whom_the_table_says(hall: Hall, kind: str) -> None:
    wrong = []
    for route, one in CASES:
        if one != kind:
            continue
        asked = ask(hall, route.method, filled(route.path), bearer(hall, kind))
        expected = should_open(route, kind)
        if asked.is_let_in is not expected:
            wrong.append((route.method, route.path, kind, asked))
        if not expected:
            assert asked.status == (403 if kind in ROLES else 401), (route.path, kind, asked)
    assert wrong == []


@pytest.mark.parametrize("role", ["viewer", "operator"])
def test_a_session_can_no_more_than_its_role_and_nothing_without_the_pages_proof(hall: Hall, role: str) -> None:
    cookie, csrf = hall.session(role)
    page = {"Cookie": cookie, "Origin": hall.url, "X-Trimtab-CSRF": csrf}
    for route in ROUTES:
        if route.scope.needed is None or "sign-out" in route.path:
            continue
        is_covered = ROLES[role].covers(route.scope.needed)
        asked = ask(hall, route.method, filled(route.path), page)
        is_let_in = asked.is_let_in or "the page's session does not do" in asked.text
        assert is_let_in is is_covered, (route.path, role, asked)
        if route.method == "POST":
            assert ask(hall, "POST", filled(route.path), {"Cookie": cookie}).status == 403, route.path
            assert ask(hall, "POST", filled(route.path), {**page, "Origin": "https://evil.example"}).status == 403


def test_what_is_not_in_the_table_is_listed_here(hall: Hall, tmp_path) -> None:
    with serving(board=a_board(), web=tmp_path) as running:
        routes = {one.path for one in running.app.routes if isinstance(one, WebRoute)}
    in_table = {re.sub(r"\{id\}", "{id:id}", route.path).replace("{job}", "{job:path}") for route in ROUTES}
    assert routes - in_table == set(NOT_IN_THE_TABLE)
    for path, kind in NOT_IN_THE_TABLE.items():
        if kind == "open":
            continue
        opens = {"viewer", "operator", "admin"} | ({"metrics"} if kind == "read" else set())
        for credential in ("nothing", *OWN_CREDENTIALS, *ROLES):
            asked = ask(hall, "GET", path, bearer(hall, credential))
            assert asked.is_let_in is (credential in opens), (path, credential, asked)


def test_the_ingest_takes_nodes_alone(hall: Hall) -> None:
    for kind in ("nothing", "invented", "revoked", "metrics", *ROLES):
        assert ask(hall, "POST", "/v1/reports", bearer(hall, kind), is_ingest=True).status == 401, kind
    assert ask(hall, "POST", "/v1/reports", bearer(hall, "node"), is_ingest=True).status == 422
    for path in ("/v1/enroll", "/v1/renew"):
        for kind in ("nothing", "invented", "metrics", *ROLES):
            asked = ask(hall, "POST", path, bearer(hall, kind), is_ingest=True)
            assert 400 <= asked.status < 500, (path, kind, asked)
            assert "trimtab_node_" not in asked.text
    for path in ("/api/v1/board", "/metrics", "/openapi.json", "/api/v1/tokens"):
        assert ask(hall, "GET", path, bearer(hall, "admin"), is_ingest=True).status == 404


def test_every_escalation_is_told(hall: Hall) -> None:
    told = {(who, what) for who, what, _ in hall.audit()}
    for who, what in (
        ("viewer-1", "refused POST /api/v1/pause"),
        ("operator-1", "refused POST /api/v1/tokens"),
        ("webhook-1", "refused GET /api/v1/board"),
        ("peer 127.0.0.1", "refused to sign in"),
        ("peer 127.0.0.1", "refused reports"),
    ):
        assert (who, what) in told or hall.answers()["role"] > 60, (who, what)


def test_no_answer_of_the_api_holds_a_secret(hall: Hall) -> None:
    secrets = [hall.credential(kind) for kind in hall.kinds if kind != "invented"]
    for route in ROUTES:
        if route.method != "GET" or "{" in route.path:
            continue
        text = ask(hall, "GET", route.path, bearer(hall, "admin")).text
        assert not [one for one in secrets if one in text], route.path
    assert msgspec.json.decode(ask(hall, "GET", "/api/v1/me", bearer(hall, "admin")).text)["role"] == "admin"
