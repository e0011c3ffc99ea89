"""Every route of the API over a real listener: answers, noes, and what they do to the ledger."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import requests
from tests.builders import a_node, a_snapshot, a_window
from tests.fakes.people import (
    NOW,
    TOKEN,
    WEB_PAGE,
    Served,
    a_board,
    a_breaker,
    a_record,
    a_veto,
    serving,
)

from trimtab.errors import StoreError
from trimtab.model.advice import OpenFinding
from trimtab.model.board import Board, CommandRow, GpuHistory, ReleaseRow
from trimtab.model.command import CommandState, Refusal
from trimtab.model.standing import StandingKind
from trimtab.settings import DaemonSettings, KubernetesSettings
from trimtab.show.api_table import ROUTES
from trimtab.show.api_types import Audit, Findings, Health, Recommendations
from trimtab.show.circumstances import Circumstances


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path) as running:
        yield running


@pytest.fixture(scope="module")
def steady(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One listener for the tests that change nothing."""
    with serving(board=a_board(), web=tmp_path_factory.mktemp("web")) as running:
        yield running


@pytest.fixture
def fingerprint(served: Served) -> str:
    return served.memory.stored[11].recommendation.fingerprint


def test_the_board_comes_whole(steady: Served) -> None:
    answer = steady.get("/api/v1/board")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert msgspec.json.decode(answer.content, type=Board) == a_board()


def test_a_large_board_is_compressed_where_that_is_understood(tmp_path: Path) -> None:
    nodes = [a_node(f"gpu-{number:03}") for number in range(100)]
    board = a_board(snapshot=a_snapshot(nodes), window=a_window(at=NOW), findings=(), commands=())
    with serving(board=board, web=tmp_path) as served:
        raw = served.get("/api/v1/board", headers={"Accept-Encoding": "gzip"}, stream=True).raw.read()
        plain = served.get("/api/v1/board", headers={"Accept-Encoding": "identity"})
    assert gzip.decompress(raw) == plain.content
    assert "content-encoding" not in plain.headers
    assert len(raw) < len(plain.content) / 5


def test_before_the_first_beat_it_says_so(tmp_path: Path) -> None:
    with serving(board=None, web=tmp_path) as served:
        answer = served.get("/api/v1/board")
        health = msgspec.json.decode(served.get("/healthz").content, type=Health)
    assert (answer.status_code, health) == (503, Health(status="starting", board_age_seconds=None))
    assert "has not judged yet" in answer.json()["error"]


def test_health_gives_the_age_of_what_is_shown(served: Served) -> None:
    served.clock.advance(7.0)
    assert requests.get(served.url + "/healthz", timeout=5).json() == {"status": "ok", "board_age_seconds": 7.0}


@pytest.mark.parametrize(("state", "ids"), [("open", [31]), ("closed", [7]), ("all", [31, 7])])
def test_findings_by_state(steady: Served, state: str, ids: list[int]) -> None:
    answer = steady.get("/api/v1/findings", params={"state": state})
    assert [item.id for item in msgspec.json.decode(answer.content, type=Findings).findings] == ids


def test_one_finding_open_or_closed(steady: Served) -> None:
    found = msgspec.json.decode(steady.get("/api/v1/findings/7").content, type=OpenFinding)
    assert (found.name, found.close_reason) == ("F7", "the GPU answers again")
    assert steady.get("/api/v1/findings/8").json() == {"error": "There is no finding F8."}


def test_recommendations_live_and_all(served: Served) -> None:
    rejected = served.memory.stored[11]
    served.post("/api/v1/recommendations/11/reject", {"reason": "the spare is needed"})
    live = served.get("/api/v1/recommendations").json()["recommendations"]
    everything = served.get("/api/v1/recommendations", params={"state": "all"})
    rows = msgspec.json.decode(everything.content, type=Recommendations).recommendations
    assert [row["name"] for row in live] == ["R11"]  # the board of the last beat, as it was
    assert [(row.name, row.command.state) for row in rows] == [("R11", CommandState.REJECTED)]
    assert rows[0].record.startswith("right in 46 of 49, last wrong on 12 Nov; takes 1.4× as long as said")
    assert rejected.state is CommandState.PROPOSED


def test_an_approval_of_what_was_shown_reaches_the_ledger(served: Served, fingerprint: str) -> None:
    answer = served.post(
        "/api/v1/recommendations/11/approve", {"fingerprint": fingerprint}, headers={"X-Trimtab-Who": "anna"}
    )
    row = msgspec.json.decode(answer.content, type=CommandRow)
    assert (row.command.state, row.command.approved_by) == (CommandState.APPROVED, "operator:anna")
    assert not row.is_approvable
    assert served.memory.stored[11].approved_fingerprint == fingerprint


def test_an_approval_of_other_writes_is_refused_with_the_sentence(served: Served) -> None:
    answer = served.post("/api/v1/recommendations/11/approve", {"fingerprint": "0" * 16})
    assert answer.status_code == 409
    assert answer.json()["error"].startswith("The steps of R11 have changed since you saw them.")
    assert served.memory.stored[11].state is CommandState.PROPOSED


def test_reject_snooze_and_undo_reach_the_ledger(served: Served, fingerprint: str) -> None:
    assert served.post("/api/v1/recommendations/11/snooze", {"seconds": 600}).json()["command"]["snoozed_until"]
    served.post("/api/v1/recommendations/11/approve", {"fingerprint": fingerprint})
    assert served.post("/api/v1/recommendations/11/undo", {"reason": "too early"}).json()["command"]["state"] == (
        "proposed"
    )
    assert served.post("/api/v1/recommendations/11/reject", {"reason": "no"}).json()["command"]["state"] == "rejected"
    again = served.post("/api/v1/recommendations/11/reject", {"reason": "no"})
    assert (again.status_code, again.json()) == (409, {"error": "R11 is rejected already."})
    said = [line.why for line in served.memory.lines]
    assert said == ["snoozed for 600 s", "approved", "too early", "no"]


def test_a_decision_about_nothing_is_404(steady: Served) -> None:
    for path, body in (("approve", {"fingerprint": "0" * 16}), ("reject", {"reason": "x"}), ("undo", {"reason": "x"})):
        answer = steady.post(f"/api/v1/recommendations/99/{path}", body)
        assert (answer.status_code, answer.json()) == (404, {"error": "There is no recommendation R99."})


def test_pause_and_resume(served: Served) -> None:
    paused = served.post("/api/v1/pause", {"reason": "driver upgrade"}).json()
    assert paused == {"is_paused": True, "sentence": ""}
    assert served.memory.paused
    assert served.post("/api/v1/resume", {}).json() == {"is_paused": False, "sentence": ""}
    assert not served.memory.paused
    lines = msgspec.json.decode(served.get("/api/v1/audit").content, type=Audit).lines
    assert [(line.who, line.what, line.why) for line in lines] == [
        ("operator", "paused", "driver upgrade"),
        ("operator", "resumed", ""),
    ]


def test_a_resume_does_not_hide_that_the_cluster_itself_says_to_pause(tmp_path: Path) -> None:
    settings = DaemonSettings(kubernetes=KubernetesSettings(namespace="ops", prefix="tt"))
    with serving(
        board=a_board(), web=tmp_path, settings=settings, pause_reason=lambda: "upgrade of the control plane"
    ) as served:
        answer = served.post("/api/v1/resume", {}).json()
    assert answer == {
        "is_paused": True,
        "sentence": "Still paused in the cluster itself: upgrade of the control plane. To end that: "
        "kubectl --namespace ops delete configmap tt-pause",
    }


def test_one_rule_goes_on_and_its_breaker_is_gone(served: Served) -> None:
    refused = served.post("/api/v1/resume", {"rule": "device_fault"})
    assert (refused.status_code, refused.json()["error"]) == (
        409,
        "No breaker has stopped device_fault; stopped: none.",
    )
    served.memory.stand(a_breaker(), what="breaker of device_fault", at=NOW)
    answer = served.post("/api/v1/resume", {"rule": "device_fault"}).json()
    assert answer == {"is_paused": False, "sentence": "device_fault goes on."}
    assert served.memory.standing(StandingKind.BREAKER) == ()
    reset = served.memory.standing(StandingKind.RESET)
    assert [(one.name, one.who, one.since) for one in reset] == [("device_fault", "operator", NOW)]


def test_a_veto_is_lifted_and_only_where_one_stands(served: Served) -> None:
    served.memory.stand(a_veto(), what="veto on gpu-01", at=NOW)
    assert served.post("/api/v1/allow", {"node": "gpu-01"}).json() == {"node": "gpu-01"}
    assert served.memory.standing(StandingKind.VETO) == ()
    again = served.post("/api/v1/allow", {"node": "gpu-01"})
    assert (again.status_code, again.json()) == (409, {"error": "No veto stands on gpu-01."})


def test_a_release_of_everything_is_asked_for_and_pauses(served: Served) -> None:
    body = {"reason": "we move to another cluster", "marks": ["trimtab:3fa9c1d2:R11"]}
    answer = served.post("/api/v1/release", body, headers={"X-Trimtab-Who": "anna"}).json()
    request = served.memory.standing(StandingKind.RELEASE)[0]
    assert (request.who, request.marks) == ("operator:anna", ("trimtab:3fa9c1d2:R11",))
    assert answer == {"asked_at": "2026-11-02T09:10:00Z"}
    assert served.memory.paused
    assert "another cluster" in request.why
    still = served.post("/api/v1/resume", {}).json()
    assert still == {"is_paused": True, "sentence": "Nothing new begins before everything is given back."}


@pytest.mark.parametrize("mark", ["R11", "trimtab:R11x", "trimtab:zz:R11", "gpu-07", f"trimtab:R{'1' * 200}"])
def test_a_release_takes_no_mark_that_is_none(steady: Served, mark: str) -> None:
    assert steady.post("/api/v1/release", {"marks": [mark]}).status_code == 422
    assert steady.memory.standing(StandingKind.RELEASE) == ()


def test_a_release_needs_the_token_not_just_a_page(steady: Served) -> None:
    opened = requests.get(f"{steady.url}/open/{steady.door.new_link()}", allow_redirects=False, timeout=5)
    answer = requests.post(
        steady.url + "/api/v1/release", json={}, cookies=opened.cookies, headers={"Origin": steady.url}, timeout=5
    )
    assert answer.status_code == 403
    assert steady.memory.standing(StandingKind.RELEASE) == ()


def test_what_stands_beside_the_plan_is_on_the_board(tmp_path: Path) -> None:
    release = ReleaseRow(asked_by="anna", asked_at=NOW, at=NOW, left=("trimtab:1ed9e0:R11: cordon of gpu-01",))
    around = Circumstances(
        pauses=("Paused by anna: driver upgrade.",),
        why_not_written="the lease is held by hall-b-1",
        breakers=(a_breaker(),),
        vetoes=(a_veto(),),
        release=release,
        notes=("we may not list devicetaintrules.resource.k8s.io",),
    )
    foreign = "trimtab:9f:R3 is of another daemon and is left alone: cordon of gpu-02."
    refusals = (Refusal(rule="foreign_mark", sentence=foreign), Refusal(rule="budget", sentence="Not moved."))
    board = a_board(circumstances=around, is_paused=True, refusals=refusals)
    with serving(board=board, web=tmp_path) as served:
        told = msgspec.json.decode(served.get("/api/v1/board").content, type=Board)
    assert told == board
    assert (told.pauses, told.why_not_written) == (around.pauses, around.why_not_written)
    assert (told.breakers, told.vetoes, told.release, told.notes) == (
        (a_breaker(),),
        (a_veto(),),
        release,
        around.notes,
    )
    assert (told.foreign, [one.sentence for one in told.refusals]) == ((foreign,), ["Not moved."])
    assert told.records == (a_record(),)


def test_history_asks_for_what_was_asked(steady: Served) -> None:
    answer = steady.get(
        "/api/v1/history",
        params={"node": "gpu-01", "gpu": "GPU-gpu-01-3", "metric": "power_watts,sm_clock_hertz", "since_seconds": "60"},
    )
    history = msgspec.json.decode(answer.content, type=GpuHistory)
    assert list(history.series) == ["power_watts", "sm_clock_hertz"]
    cluster, node, gpu, since, until, metrics = steady.memory.asked_histories[0]
    assert (cluster, node, gpu, metrics) == ("hall-a", "gpu-01", "GPU-gpu-01-3", ("power_watts", "sm_clock_hertz"))
    assert (until, (until - since).total_seconds()) == (NOW, 60.0)


def test_doctor_says_how_the_daemon_is(steady: Served) -> None:
    assert steady.get("/api/v1/doctor").json()["checks"][0]["name"] == "beat judge"


@pytest.mark.parametrize(
    ("path", "params"),
    [
        ("/api/v1/findings", {"state": "some"}),
        ("/api/v1/findings", {"limit": "0"}),
        ("/api/v1/findings", {"since_seconds": "1e300"}),
        ("/api/v1/history", {"node": "gpu-01"}),
        ("/api/v1/history", {"node": "gpu-01", "gpu": "GPU-x", "metric": ""}),
        ("/api/v1/history", {"node": "gpu-01", "gpu": "GPU-x", "metric": ",".join(["a"] * 21)}),
        ("/api/v1/audit", {"since_seconds": "soon"}),
        ("/api/v1/audit", {"since_seconds": "nan"}),
    ],
)
def test_a_query_that_is_not_right_is_422_with_a_sentence(steady: Served, path: str, params: dict[str, str]) -> None:
    answer = steady.get(path, params=params)
    assert answer.status_code == 422
    assert answer.json()["error"]


@pytest.mark.parametrize(
    ("data", "content_type", "status"),
    [
        (b'{"reason": "x"', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b'{"reason": ""}', "application/json", 422),
        (b'{"reason": "x", "why": "y"}', "application/json", 422),
        (b"[]", "application/json", 422),
        (b"", "application/json", 422),
        (b"reason=x", "application/x-www-form-urlencoded", 415),
        (b'{"reason": "' + b"x" * 70_000 + b'"}', "application/json", 413),
    ],
)
def test_a_body_that_is_not_right_changes_nothing(steady: Served, data: bytes, content_type: str, status: int) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": content_type}
    answer = requests.post(steady.url + "/api/v1/pause", data=data, headers=headers, timeout=5)
    assert (answer.status_code, list(answer.json())) == (status, ["error"])
    assert not steady.memory.paused


def test_unknown_paths_and_methods_get_sentences(steady: Served) -> None:
    assert steady.get("/api/v1/nothing").json() == {"error": "There is nothing at /api/v1/nothing."}
    assert steady.get("/api/v1/findings/F31").status_code == 404
    wrong = steady.post("/api/v1/board", {})
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "GET")
    assert wrong.json() == {"error": "/api/v1/board does not take POST."}


def test_a_database_out_of_reach_is_503_and_an_unknown_failure_500(served: Served) -> None:
    served.memory.next_error = StoreError("The database does not answer.")
    answer = served.get("/api/v1/findings/31")
    assert (answer.status_code, answer.json()) == (503, {"error": "The database does not answer."})
    served.memory.next_error = ValueError("a secret detail")
    answer = served.get("/api/v1/findings/31")
    assert (answer.status_code, answer.json()) == (
        500,
        {"error": "The daemon failed on this request; its log says how."},
    )
    assert served.get("/api/v1/findings/31").status_code == 200


@pytest.mark.parametrize("path", ["/", "/r/11", "/f/31", "/node/gpu-01", "/job/research/llama-70b"])
def test_every_deep_link_is_the_page(steady: Served, path: str) -> None:
    answer = requests.get(steady.url + path, timeout=5)
    assert (answer.text, answer.headers["content-type"]) == (WEB_PAGE, "text/html; charset=utf-8")
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy


def test_static_files_are_typed_and_revalidated(steady: Served) -> None:
    first = requests.get(steady.url + "/static/app.js", timeout=5)
    assert (first.text, first.headers["content-type"]) == ("'use strict';", "text/javascript; charset=utf-8")
    assert first.headers["cache-control"] == "no-cache"
    again = requests.get(
        steady.url + "/static/app.js", headers={"If-None-Match": f'W/"x", {first.headers["etag"]}'}, timeout=5
    )
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/static/secret.key", "/static/../api.py", "/static/%2e%2e/api.py", "/static/"])
def test_only_the_pages_own_files_are_served(steady: Served, path: str) -> None:
    prepared = requests.Request("GET", steady.url).prepare()
    prepared.url = steady.url + path
    with requests.Session() as session:
        assert session.send(prepared, timeout=5).status_code in (400, 404)


def test_answers_with_data_are_not_stored_and_every_answer_is_guarded(steady: Served) -> None:
    answer = steady.get("/api/v1/board")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in answer.headers
    assert requests.get(steady.url + "/api/v1/nothing", timeout=5).headers["x-frame-options"] == "DENY"


def test_the_openapi_document_names_every_route_and_refers_to_nothing_that_is_missing(steady: Served) -> None:
    text = requests.get(steady.url + "/openapi.json", timeout=5).text
    document = json.loads(text)
    told = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert told == {(route.method, route.path) for route in ROUTES}
    wanted = {part.partition('"')[0] for part in text.split("#/components/schemas/")[1:]}
    assert wanted <= set(document["components"]["schemas"])
    parameters = {item["name"]: item for item in document["paths"]["/api/v1/history"]["get"]["parameters"]}
    assert parameters["node"]["required"]
    assert not parameters["since_seconds"]["required"]
