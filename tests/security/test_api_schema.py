"""The whole API of a real daemon on PostgreSQL, tried by schemathesis: no answer but those that the document names."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)
from tests import postgres
from tests.security.hall import Hall

from trimtab.show.api_routes import Route, Scope
from trimtab.show.api_table import ROUTES
from trimtab.show.openapi import openapi_document

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    ignored_auth,
]
SCHEMA = schemathesis.openapi.from_dict(openapi_document(ROUTES))
EXAMPLES = int(os.environ.get("TRIMTAB_EXAMPLES", "3"))
LONG_EXAMPLES = 400
SEED = 20261130
ENDS_IT_ALL = ("/api/v1/release",)
"""Gives everything back and stays paused: tried last."""


@pytest.fixture(scope="module")
def hall(tmp_path_factory: pytest.TempPathFactory, postgresql: postgres.PostgresServer) -> Iterator[Hall]:
    folder = tmp_path_factory.mktemp("hall")
    made = Hall(folder, database_url=postgresql.new_database(), failures=1_000_000)
    try:
        yield made.up()
        made.daemon.assert_had_no_trouble()
    finally:
        made.close()


@pytest.fixture(scope="module")
def tokens(hall: Hall) -> dict[Scope, str]:
    """A token a route's scope: of their own, so that what is tried may revoke those of others."""
    return {Scope.WEBHOOK: hall.credential("webhook")}


def try_it(hall: Hall, route: Route, mode: GenerationMode, token: str, *, examples: int, checks=CHECKS):
    @seed(SEED)
    @settings(
        max_examples=examples,
        deadline=None,
        derandomize=False,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=SCHEMA[route.path][route.method].as_strategy(generation_mode=mode))
    def one(case: schemathesis.Case) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        case.call_and_validate(base_url=hall.url, headers=headers, checks=checks, timeout=20)

    one()


def in_turn() -> list[Route]:
    return sorted(ROUTES, key=lambda route: route.path in ENDS_IT_ALL)


@pytest.mark.parametrize("route", in_turn(), ids=lambda route: f"{route.method} {route.path}")
def test_whatever_is_sent_is_answered_as_the_document_says(hall: Hall, tokens: dict[Scope, str], route: Route) -> None:
    token = tokens.get(route.scope, hall.credential("admin"))
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        if mode is GenerationMode.NEGATIVE and not (route.query or route.body or "{" in route.path):
            continue
        try_it(hall, route, mode, token, examples=EXAMPLES)


@pytest.mark.long
@pytest.mark.parametrize("route", in_turn(), ids=lambda route: f"{route.method} {route.path}")
def test_the_same_for_long(hall: Hall, tokens: dict[Scope, str], route: Route) -> None:
    token = tokens.get(route.scope, hall.credential("admin"))
    for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
        if mode is GenerationMode.NEGATIVE and not (route.query or route.body or "{" in route.path):
            continue
        # Hundreds of wrong tokens are answered 429, as they should be: whether one opens anything is tried above.
        checks = [one for one in CHECKS if one is not ignored_auth]
        try_it(hall, route, mode, token, examples=LONG_EXAMPLES, checks=checks)


def test_what_both_engines_keep_differently_is_taken(hall: Hall) -> None:
    """NUL, lone halves of emoji and texts that look like SQL, in each text of a decision."""
    headers = {"Authorization": f"Bearer {hall.credential('admin')}", "Content-Type": "application/json"}
    for text in ("\\u0000", "a\\u0000b", "x'); DROP TABLE audit;--", "\\u001b[2J", "a\\nb", "\\u202e"):
        for path, body in (("pause", f'{{"reason": "{text}"}}'), ("resume", "{}")):
            answer = requests.post(f"{hall.url}/api/v1/{path}", data=body, headers=headers, timeout=20)
            assert answer.status_code in (200, 422), (text, path, answer.text)
    assert requests.get(f"{hall.url}/api/v1/audit", headers=headers, timeout=20).status_code == 200
