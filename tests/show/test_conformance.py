"""The API tried against its own OpenAPI document by schemathesis, over a real listener."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    ignored_auth,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
    unsupported_method,
)
from tests.builders import CLUSTER
from tests.fakes.people import TOKEN, Served, a_board, a_recommendation, a_scene, serving

from trimtab.model.past import GpuTime, GpuTimes, GpuTimeState
from trimtab.model.people import Role
from trimtab.show.api_routes import Route, Scope
from trimtab.show.api_table import ROUTES
from trimtab.show.digest.desk import DigestDesk
from trimtab.show.digest.make import DigestSource
from trimtab.show.openapi import openapi_document
from trimtab.store.database import open_database
from trimtab.store.history import History

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
    unsupported_method,
    ignored_auth,
]


class Hours:
    """An hour of work in each hour that is asked about."""

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        seconds = {GpuTimeState.WORKING: (until - since).total_seconds()}
        row = GpuTime(workload="research/a", queue="research", owner="anna", cause="", seconds=seconds)
        return GpuTimes(cluster=CLUSTER, since=since, until=until, rows=(row,))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    # Wrong tokens are tried by the hundred here: their bound has tests of its own.
    bounds = {"failures_per_peer_per_minute": 10**6, "failures_per_minute": 10**6}
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path_factory.mktemp("store"))
    source = DigestSource(cluster=CLUSTER, hours=Hours(), facts=History(database, cluster=CLUSTER))
    with serving(
        board=a_board(),
        web=tmp_path_factory.mktemp("web"),
        window=lambda: a_scene()["window"],
        digests=DigestDesk(source=lambda: source, zone=UTC, page_url=lambda: ""),
        **bounds,
    ) as running:
        yield running
    database.close()


@pytest.fixture(scope="module")
def webhook_token(served: Served) -> str:
    given = served.door.passes.give_token(name="alertmanager", role=Role.WEBHOOK, lasts_seconds=None, by="operator")
    return given[1]


SCHEMA = schemathesis.openapi.from_dict(openapi_document(ROUTES))
TAKES_INPUT = [route for route in ROUTES if route.query or route.body or "{id}" in route.path]


THE_DOORS_OWN = (413, 414, 431)
"""An address, a head or a body past the listener's bounds comes to no route, so that no route's document names them."""


def try_it(served: Served, route: Route, mode: GenerationMode, webhook_token: str) -> None:
    token = webhook_token if route.scope is Scope.WEBHOOK else TOKEN

    @settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(case=SCHEMA[route.path][route.method].as_strategy(generation_mode=mode))
    def one(case: schemathesis.Case) -> None:
        answer = case.call(base_url=served.url, headers={"Authorization": f"Bearer {token}"}, timeout=10)
        if answer.status_code not in THE_DOORS_OWN:
            case.validate_response(answer, checks=CHECKS)

    one()


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_what_the_document_allows_is_answered_as_it_promises(served: Served, route: Route, webhook_token: str) -> None:
    try_it(served, route, GenerationMode.POSITIVE, webhook_token)


@pytest.mark.parametrize("route", TAKES_INPUT, ids=lambda route: f"{route.method} {route.path}")
def test_what_the_document_forbids_is_refused(served: Served, route: Route, webhook_token: str) -> None:
    try_it(served, route, GenerationMode.NEGATIVE, webhook_token)


@pytest.mark.parametrize(
    ("path", "id", "body"),
    [
        ("/api/v1/findings/{id}", 31, None),
        ("/api/v1/recommendations/{id}", 11, None),
        ("/api/v1/recommendations/{id}/snooze", 11, {"seconds": 60.0}),
        ("/api/v1/recommendations/{id}/approve", 11, {"fingerprint": a_recommendation().fingerprint}),
        ("/api/v1/recommendations/{id}/approve", 11, {"fingerprint": "0" * 16}),
        ("/api/v1/recommendations/{id}/undo", 11, {"reason": "too early"}),
        ("/api/v1/recommendations/{id}/reject", 11, {"reason": "the spare is needed"}),
    ],
)
def test_what_exists_is_answered_as_the_document_promises(
    served: Served, path: str, id: int, body: dict[str, object] | None
) -> None:
    operation = SCHEMA[path]["GET" if body is None else "POST"]
    given_body = {} if body is None else {"body": body, "media_type": "application/json"}
    case = operation.Case(path_parameters={"id": id}, **given_body)
    answer = case.call(base_url=served.url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=10)
    case.validate_response(answer, checks=[status_code_conformance, response_schema_conformance])
    assert answer.status_code in (200, 409)
