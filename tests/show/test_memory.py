"""The real history behind the API: what was recorded is what people read, and decisions are durable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.applications import Starlette
from tests.builders import CLUSTER, a_delivery, a_report, gpu_uuid
from tests.fakes.clock import FakeClock
from tests.fakes.people import NOW, Served, a_board, a_fault, a_recommendation, listening, web_files

from trimtab.clock import SystemClock
from trimtab.detect.tracker import Changes
from trimtab.issue.verdicts import Verdicts
from trimtab.model.command import Mode
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.show.api import people_app
from trimtab.show.board import BoardBox
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    database = open_database("sqlite:///trimtab.db", state_directory=tmp_path)
    history, clock, box = History(database, cluster=CLUSTER), FakeClock(NOW), BoardBox()
    history.record_findings(Changes(at=NOW, opened=(a_fault(),)))
    history.add(a_recommendation(), NOW)
    Journal(database).append([a_delivery(a_report("gpu-00", at=NOW))])
    settings = DaemonSettings(cluster=CLUSTER, issue=IssueSettings(mode=Mode.APPROVE))
    box.publish(a_board())

    def app(door: object) -> Starlette:
        return people_app(
            settings=settings,
            box=box,
            decisions=Verdicts(ledger=history, clock=clock, settings=settings),
            memory=history,
            door=door,
            clock=clock,
            checks=lambda: (),
            exposition=lambda accept: (b"", "text/plain"),
            web_directory=web_files(tmp_path),
        )

    with listening(app, box=box, clock=clock, wall=SystemClock(), memory=history) as running:
        yield running
    database.close()


def test_what_was_recorded_is_what_people_read(served: Served) -> None:
    assert served.get("/api/v1/findings/31").json()["finding"]["sentence"] == a_fault().finding.sentence
    assert [item["id"] for item in served.get("/api/v1/findings?state=all").json()["findings"]] == [31]
    row = served.get("/api/v1/recommendations/1").json()
    assert (row["name"], row["is_approvable"]) == ("R1", True)
    assert [row["name"] for row in served.get("/api/v1/recommendations?state=all").json()["recommendations"]] == ["R1"]
    params = {"node": "gpu-00", "gpu": gpu_uuid("gpu-00", 0), "metric": "power_watts"}
    assert served.get("/api/v1/history", params=params).json()["series"] == {"power_watts": [[NOW.timestamp(), 620.0]]}


def test_a_decision_is_in_the_ledger_with_its_audit_line(served: Served) -> None:
    body = {"fingerprint": a_recommendation().fingerprint}
    approved = served.post("/api/v1/recommendations/1/approve", body, headers={"X-Trimtab-Who": "anna"})
    assert approved.json()["command"]["approved_by"] == "operator:anna"
    assert served.post("/api/v1/pause", {"reason": "driver upgrade"}).json()["is_paused"]
    lines = served.get("/api/v1/audit").json()["lines"]
    assert [(line["who"], line["what"]) for line in lines] == [
        ("trimtab", "R1 proposed"),
        ("operator:anna", "R1 proposed → approved"),
        ("operator", "paused"),
    ]


def test_ids_at_the_edge_of_the_database_are_404(served: Served) -> None:
    for number in (0, 2**53, 2**63, 10**30):
        assert served.get(f"/api/v1/findings/{number}").status_code == 404
        assert served.get(f"/api/v1/recommendations/{number}").status_code == 404
