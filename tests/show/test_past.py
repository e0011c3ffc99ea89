"""The past over the API: a real journal, real roll-ups, a real listener."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
import requests
from starlette.applications import Starlette
from tests.builders import (
    BUSY,
    CLUSTER,
    a_delivery,
    a_finding,
    a_node,
    a_reading,
    a_report,
    a_snapshot,
    a_window,
    a_workload,
    gpu_uuid,
)
from tests.fakes.clock import START, FakeClock
from tests.fakes.people import Served, a_board, a_recommendation, listening, serving, web_files

from trimtab.clock import SystemClock, iso
from trimtab.detect.tracker import Changes
from trimtab.issue.verdicts import Verdicts
from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.command import CommandState, Mode
from trimtab.model.past import SAME_STEPS
from trimtab.model.reading import GpuState
from trimtab.settings import DaemonSettings, IssueSettings
from trimtab.settings.rollup import RollupSettings
from trimtab.show.api import people_app
from trimtab.show.board import BoardBox, build_board
from trimtab.store.database import Database, open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.past import Past
from trimtab.store.rollup import Rollup

JOB = "research/llama-70b"
NODES = ("gpu-00", "gpu-01", "gpu-02")
SLOW = ("gpu-01", 3)
GONE = ("gpu-02", 7)


class Day:
    """Forty minutes of a hall: a job on two nodes, one slow rank, a fault that opens and closes, a command."""

    def __init__(self, directory: Path) -> None:
        self.clock = FakeClock()
        self.database: Database = open_database("sqlite:///trimtab.db", state_directory=directory)
        self.history = History(self.database, cluster=CLUSTER)
        self.journal = Journal(self.database)
        self.rollup = Rollup(
            self.database, cluster=CLUSTER, clock=self.clock, settings=RollupSettings(), hold_seconds=60.0
        )
        self.box = BoardBox()
        self.boards: list[Board] = []
        self._chance = random.Random(2)

    def snapshot(self, minute: int) -> ClusterSnapshot:
        nodes = [a_node(name, is_cordoned=name == "gpu-02" and minute >= 30) for name in NODES]
        runs = a_workload("llama-70b", on={"gpu-00": range(8), "gpu-01": range(8)})
        waits = a_workload("eval-9", pods=4, gpus_per_pod=8)
        return a_snapshot(nodes, [runs, waits] if minute >= 10 else [runs])

    def live(self) -> None:
        fault: OpenFinding | None = None
        for minute in range(40):
            if minute == 15:
                fault = replace(a_finding(id=1, node="gpu-02", gpu=0), opened_at=self.clock.now())
                self.history.record_findings(Changes(at=self.clock.now(), opened=(fault,)))
            if minute == 20 and fault is not None:
                words = replace(
                    fault.finding, sentence="gpu-02 GPU 0 fell off again.", workloads_hit=(JOB,), loss_gpus=4.0
                )
                fault = replace(fault, finding=words, changed_at=self.clock.now())
                self.history.record_findings(Changes(at=self.clock.now(), changed=(fault,)))
            if minute == 25 and fault is not None:
                fault = replace(fault, state=FindingState.CLOSED, closed_at=self.clock.now(), close_reason="well again")
                self.history.record_findings(Changes(at=self.clock.now(), closed=(fault,)))
            if minute == 16:
                created = replace(a_recommendation(), created_at=self.clock.now())
                self.command = self.history.add(created, self.clock.now())
            if minute == 17:  # the same once more, dearer
                again, was = replace(self.command, changed_at=self.clock.now()), self.command
                self.command = again
                self.history.record(again, was=was, who="plan", why=SAME_STEPS, at=self.clock.now())
            if minute == 18:
                approved = replace(
                    self.command, state=CommandState.APPROVED, changed_at=self.clock.now(), approved_by="ann",
                    approved_at=self.clock.now(),
                )  # fmt: skip
                self.history.record(approved, was=self.command, who="ann", why="yes", at=self.clock.now())
            self.minute(minute, fault)
        self.rollup.roll()

    def minute(self, minute: int, fault: OpenFinding | None) -> None:
        snapshot = replace(self.snapshot(minute), taken_at=self.clock.now())
        said = {node: self.readings(node) for node in NODES}
        is_open = fault is not None and fault.state is FindingState.OPEN
        board = build_board(
            cluster=CLUSTER, at=self.clock.now(), window=a_window(said, snapshot=snapshot, at=self.clock.now()),
            snapshot=snapshot, findings=(fault,) if fault is not None and is_open else (), commands=(),
            mode=Mode.APPROVE, is_paused=False, stranded={8: 0},
        )  # fmt: skip
        self.boards.append(board)
        self.box.publish(board)
        self.rollup.see(board, snapshot)
        for tick in range(0, 60, 20):
            names = NODES if minute < 35 else NODES[:2]  # gpu-02 says nothing any more
            at = self.clock.now()
            found = [
                a_delivery(
                    replace(a_report(node, sequence=minute * 60 + tick + 1, at=at), gpus=self.readings(node, minute))
                )
                for node in names
            ]
            self.rollup.add(self.journal.append(found).new)
            self.rollup.roll()
            self.clock.advance(20)

    def readings(self, node: str, minute: int = 0) -> tuple[object, ...]:
        found = []
        for index in range(8):
            is_held = node != "gpu-02"
            values = dict(BUSY) if is_held else {**BUSY, "sm_active_ratio": 0.0, "power_watts": 70.0}
            if (node, index) == SLOW:
                values["sm_clock_hertz"] = 1.1e9
            elif is_held:
                values["sm_clock_hertz"] = 1.75e9 + self._chance.uniform(-1e7, 1e7)
            is_lost = (node, index) == GONE and 26 <= minute < 29
            state = GpuState.LOST if is_lost else GpuState.OK
            found.append(a_reading(node, index, values={} if is_lost else values, state=state))
        return tuple(found)


@pytest.fixture(scope="module")
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Day]:
    made = Day(tmp_path_factory.mktemp("day"))
    made.live()
    yield made
    made.database.close()


@pytest.fixture(scope="module")
def served(day: Day, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = DaemonSettings(cluster=CLUSTER, issue=IssueSettings(mode=Mode.APPROVE))

    def app(door: object) -> Starlette:
        return people_app(
            settings=settings,
            box=day.box,
            decisions=Verdicts(ledger=day.history, clock=day.clock, settings=settings),
            memory=day.history,
            past=Past(day.database, day.history),
            door=door,
            clock=day.clock,
            checks=lambda: (),
            exposition=lambda accept: (b"", "text/plain"),
            web_directory=web_files(tmp_path_factory.mktemp("web")),
        )

    with listening(app, box=day.box, clock=day.clock, wall=SystemClock(), memory=day.history) as running:
        yield running


def then(minute: float) -> str:
    return iso(START + timedelta(minutes=minute))


def board_at(served: Served, minute: float) -> dict[str, object]:
    answer = served.get("/api/v1/board", params={"at": then(minute)})
    assert answer.status_code == 200, answer.text
    return answer.json()


def states(board: dict[str, object]) -> list[tuple[str, str, str, str | None]]:
    return [
        (row["name"], cell["uuid"], cell["state"], cell["workload"]) for row in board["nodes"] for cell in row["cells"]
    ]


def test_a_board_of_the_past_is_the_board_that_was(served: Served, day: Day) -> None:
    was = day.boards[8]
    board = board_at(served, 8.5)
    assert (board["is_past"], board["bucket_seconds"], board["at"]) == (True, 60.0, then(8.5))
    wanted = [(row.name, cell.uuid, cell.state.value, cell.workload) for row in was.nodes for cell in row.cells]
    assert states(board) == wanted
    assert board["strip"]["gpus_working"] == was.strip.gpus_working == 16
    assert board["strip"]["gpus_total"] == was.strip.gpus_total == 24
    assert [row["rack"] for row in board["nodes"]] == ["r1"] * 3
    cell = board["nodes"][1]["cells"][3]
    assert (cell["sm_clock_hertz"], cell["power_watts"], cell["memory_used_ratio"]) == (1.1e9, 620.0, 0.875)


def test_jobs_are_there_as_they_ran_and_waited(served: Served) -> None:
    early, later = board_at(served, 5), board_at(served, 12)
    assert [job["id"] for job in early["jobs"]] == [JOB]
    assert [(job["id"], job["state"]) for job in later["jobs"]] == [("research/eval-9", "waiting"), (JOB, "running")]
    assert later["jobs"][1]["nodes"] == ["gpu-00", "gpu-01"]
    assert later["jobs"][0]["why"]


def test_findings_are_those_that_stood_then_in_their_words_of_then(served: Served) -> None:
    assert board_at(served, 14.5)["findings"] == []
    (opened,) = board_at(served, 17)["findings"]
    (changed,) = board_at(served, 22)["findings"]
    (closed,) = board_at(served, 27)["findings"]
    assert [one["state"] for one in (opened, changed, closed)] == ["open", "open", "closed"]
    assert opened["finding"]["sentence"] == "gpu-02 GPU 0 fell off the bus (XID 79)."
    assert changed["finding"]["sentence"] == "gpu-02 GPU 0 fell off again."
    assert opened["closed_at"] is None
    # Whom it hit is kept as it was said last only: that is told.
    assert opened["finding"]["facts"]["told_later_at"] == then(20)
    assert "told_later_at" not in changed["finding"]["facts"]
    assert "told_later_at" not in closed["finding"]["facts"]
    assert board_at(served, 17)["nodes"][2]["cells"][0]["findings"] == [1]


def test_commands_are_in_the_state_of_then_and_cannot_be_decided(served: Served) -> None:
    assert board_at(served, 15.5)["commands"] == []
    (proposed,) = board_at(served, 17)["commands"]
    (approved,) = board_at(served, 19)["commands"]
    assert (proposed["command"]["state"], proposed["command"]["approved_by"]) == ("proposed", None)
    assert (approved["command"]["state"], approved["command"]["approved_by"]) == ("approved", "ann")
    assert not proposed["is_approvable"]


def test_a_node_that_said_nothing_is_silent_in_the_past_too(served: Served) -> None:
    board = board_at(served, 38.5)
    row = board["nodes"][2]
    assert row["is_silent"]
    assert row["is_cordoned"]
    assert {cell["state"] for cell in row["cells"]} == {"silent"}
    assert {cell["power_watts"] for cell in row["cells"]} == {None}
    assert board["blind"] == ["No report from 1 of 3 nodes then."]
    assert board["strip"]["gpus_unknown"] == 8


def test_a_cordoned_node_is_out_of_service_then(served: Served) -> None:
    assert {cell["state"] for cell in board_at(served, 32.5)["nodes"][2]["cells"]} == {"unusable"}


def test_goodput_is_what_the_boards_said_then_and_not_what_later_words_make_of_it(served: Served, day: Day) -> None:
    for minute in (17, 22):
        assert board_at(served, minute + 0.5)["strip"]["goodput_ratio"] == day.boards[minute].strip.goodput_ratio
    assert day.boards[17].strip.goodput_ratio == 1.0
    assert day.boards[22].strip.goodput_ratio == 0.75


def test_a_lost_gpu_is_lost_then_and_not_out_of_use(served: Served) -> None:
    cells = {cell["uuid"]: cell["state"] for cell in board_at(served, 27.5)["nodes"][2]["cells"]}
    assert cells.pop(gpu_uuid(*GONE)) == "lost"
    assert set(cells.values()) == {"free"}


def test_where_nothing_was_kept_the_answer_says_what_is(served: Served) -> None:
    early = served.get("/api/v1/board", params={"at": iso(START - timedelta(days=2))})
    assert early.status_code == 404
    assert "roll-ups reach from 2026-11-02T09:00:00Z to" in early.json()["error"]
    ahead = served.get("/api/v1/board", params={"at": iso(START + timedelta(days=2))})
    assert (ahead.status_code, "has not come yet" in ahead.json()["error"]) == (422, True)
    for text in ("yesterday", "2026-11-02T09:00:00", "9999-99-99T00:00:00Z", "0001-01-01T00:00:00Z"):
        refused = served.get("/api/v1/board", params={"at": text})
        assert (refused.status_code, refused.json()["error"].startswith("at: ")) == (422, True)


def test_the_board_of_now_is_the_one_that_was_published(served: Served, day: Day) -> None:
    board = served.get("/api/v1/board").json()
    assert (board["is_past"], board["bucket_seconds"]) == (False, None)
    fresh = served.get("/api/v1/board", params={"at": iso(day.clock.now())}).json()
    assert fresh["is_past"]


def test_trends_tell_the_strips_numbers_and_what_happened(served: Served) -> None:
    said = served.get("/api/v1/trends", params={"since": then(0), "until": then(40), "points": 40}).json()
    assert said["bucket_seconds"] == 60.0
    assert len(said["at_seconds"]) == 40
    series = said["series"]
    assert series["gpus_working"][:38] == [16.0] * 38
    assert series["gpus_total"][5] == 24.0
    assert series["gpus_free"][5] == 8.0
    assert series["gpus_out_of_service"][32] == 8.0
    assert series["gpus_unknown"][37] == 8.0
    assert series["stranded/8"][3] == 0.0
    assert series["power_watts"][5] == pytest.approx(16 * 620 + 8 * 70, rel=0.01)
    marks = [(mark["kind"], mark["name"], mark["state"]) for mark in said["marks"]]
    assert marks == [
        ("finding_opened", "F1", ""),
        ("command", "R1", "proposed"),
        ("command", "R1", "approved"),
        ("finding_closed", "F1", ""),
    ]
    coarse = served.get("/api/v1/trends", params={"since": then(0), "until": then(40), "points": 4, "marks": 1}).json()
    assert coarse["bucket_seconds"] == 900.0
    assert coarse["series"]["gpus_working"][0] == 16.0
    assert (len(coarse["marks"]), coarse["marks_left_out"]) == (1, 3)
    queue = served.get("/api/v1/trends", params={"since": then(0), "until": then(40), "queue": "research"}).json()
    assert queue["series"]["gpus_working"][5] == 16.0
    assert queue["series"]["gpus_free"][5] == 0.0
    empty = served.get("/api/v1/trends", params={"since": then(-900), "until": then(-600)}).json()
    assert set(empty["series"]["gpus_working"]) == {None}


def test_a_jobs_ranks_show_the_straggler(served: Served) -> None:
    asked = {"metric": "sm_clock_hertz", "since": then(0), "until": then(40)}
    said = served.get(f"/api/v1/jobs/{JOB}/ranks", params=asked).json()
    assert len(said["rows"]) == 16
    assert [row["rank"] for row in said["rows"]] == [0] * 8 + [1] * 8
    row = said["rows"][said["suspect"]]
    assert (row["node"], row["gpu"], row["is_suspect"]) == ("gpu-01", gpu_uuid(*SLOW), True)
    assert "rank 1 (gpu-01 GPU 3) runs at 1.1 GHz, the median of 16 GPUs is 1.75 GHz" in said["suspect_text"]
    assert row["values"][5] == 1.1e9
    assert row["to_median_ratio"] == pytest.approx(0.629, abs=0.01)
    assert len(row["values"]) == len(said["at_seconds"])
    even = served.get(f"/api/v1/jobs/{JOB}/ranks", params={**asked, "metric": "power_watts"}).json()
    assert (even["suspect"], even["suspect_text"]) == (None, "")
    assert served.get("/api/v1/jobs/research/nobody/ranks").status_code == 404
    assert served.get(f"/api/v1/jobs/{JOB}/ranks", params={"metric": "mood"}).status_code == 422


def test_charts_have_a_band_of_peers_and_other_gpus(served: Served) -> None:
    asked = {
        "node": "gpu-01", "gpu": gpu_uuid(*SLOW), "metric": "sm_clock_hertz,power_watts", "since": then(0),
        "until": then(40), "peers": "job", "also": f"gpu-02/{gpu_uuid('gpu-02', 0)}",
    }  # fmt: skip
    said = served.get("/api/v1/history", params=asked).json()
    assert said["bucket_seconds"] is None
    assert {value for _, value in said["series"]["sm_clock_hertz"] if value is not None} == {1.1e9}
    band = said["bands"]["sm_clock_hertz"]
    assert band["gpus"] == 15
    assert all(1.73e9 < low <= middle <= high < 1.77e9 for _, low, middle, high in band["points"])
    (other,) = said["others"]
    assert (other["node"], other["series"]["power_watts"][0][1]) == ("gpu-02", 70.0)
    node = served.get("/api/v1/history", params={**asked, "peers": "node"}).json()
    assert node["bands"]["power_watts"]["gpus"] == 7
    refused = served.get("/api/v1/history", params={**asked, "also": "gpu-02"})
    assert (refused.status_code, "node/uuid" in refused.json()["error"]) == (422, True)


def test_a_long_stretch_comes_from_the_roll_ups(served: Served) -> None:
    asked = {"node": "gpu-00", "gpu": gpu_uuid("gpu-00", 0), "metric": "power_watts", "since_seconds": 7 * 86400}
    said = served.get("/api/v1/history", params={**asked, "until": then(40)}).json()
    assert said["bucket_seconds"] in (60.0, 900.0, 3600.0)
    assert next(value for _, value in said["series"]["power_watts"] if value is not None) == 620.0


def test_without_roll_ups_the_past_says_so(tmp_path: Path) -> None:
    with serving(board=a_board(), web=web_files(tmp_path)) as running:
        answer: requests.Response = running.get("/api/v1/board", params={"at": iso(START)})
        assert (answer.status_code, "rollup.is_on" in answer.json()["error"]) == (404, True)
