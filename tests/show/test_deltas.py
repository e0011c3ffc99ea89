"""The page's stream: the whole as columns once, then what changed, packed once for all; any reader ends up right."""

from __future__ import annotations

import gzip
import random
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
import requests
from tests.fakes.people import NOW, TOKEN, Served, a_board, serving

from trimtab.model.board import Board, CellState
from trimtab.show.columns import STATES, Columns, change, frame


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with serving(board=a_board(), web=tmp_path, heartbeat_seconds=0.05) as running:
        yield running


class Follower:
    """Follows the stream as the page does, and holds what it was told."""

    def __init__(self, served: Served, *, since: str = "", encoding: str = "gzip") -> None:
        headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": encoding}
        query = {"since": since} if since else {}
        self.answer = requests.get(
            served.url + "/api/v1/stream", headers=headers, params=query, stream=True, timeout=10
        )
        self.told: dict[str, Any] = {}
        self.names: list[str] = []
        self.identity = ""
        self._lines = self._split()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.answer.close()

    def _split(self) -> Iterator[bytes]:
        rest = b""
        for chunk in self.answer.iter_content(chunk_size=None):
            *ended, rest = (rest + chunk).split(b"\n")
            yield from ended

    def next(self) -> str:
        """Take in one event; its name."""
        name = ""
        for line in self._lines:
            key, _, value = line.partition(b": ")
            if key == b"id":
                self.identity = value.decode()
            elif key == b"event":
                name = value.decode()
            elif key == b"data":
                self.names.append(name)
                self._take(name, msgspec.json.decode(value))
                return name
        raise AssertionError("the stream ended")

    def until(self, sequence: int) -> None:
        while self.told.get("sequence") != sequence:
            self.next()

    def _take(self, name: str, said: Any) -> None:
        if name == "uuids":
            self.told["uuids"] = said
            return
        if name == "frame":
            self.told = said
            self.told["jobs"] = {row["id"]: row for row in said["jobs"]["set"]}
            return
        assert said["base"] == self.told["sequence"]
        apply(self.told, said)


def apply(told: dict[str, Any], said: dict[str, Any]) -> None:
    for column, new in said["columns"].items():
        if "all" in new:
            told["columns"][column] = new["all"]
            continue
        place = 0
        for step, value in zip(new["steps"], new["to"], strict=True):
            place += step
            told["columns"][column][place] = value
    told["jobs"] |= {row["id"]: row for row in said["jobs"]["set"]}
    if said["jobs"]["order"] is not None:
        told["jobs"] = {name: told["jobs"][name] for name in said["jobs"]["order"]}
    told["board"] |= said["board"]
    told["sequence"] = said["sequence"]


def whole(board: Board, sequence: int) -> dict[str, Any]:
    made: dict[str, Any] = msgspec.json.decode(frame(Columns(board), sequence))
    made["jobs"] = {row["id"]: row for row in made["jobs"]["set"]}
    return made


def stirred(board: Board, seed: int, share: float) -> Board:
    """Some GPUs with other numbers, some jobs gone, another state here and there."""
    rnd = random.Random(seed)

    def cell(one: Any) -> Any:
        if rnd.random() > share:
            return one
        return replace(
            one,
            activity_ratio=rnd.choice([None, round(rnd.random(), 3)]),
            state=rnd.choice(list(CellState)),
            workload=rnd.choice([None, *(job.id for job in board.jobs)]),
        )

    nodes = tuple(
        replace(node, cells=tuple(map(cell, node.cells)), is_cordoned=rnd.random() < share) for node in board.nodes
    )
    jobs = tuple(job for job in board.jobs if rnd.random() > share / 2)
    return replace(board, nodes=nodes, jobs=jobs, at=board.at + timedelta(seconds=seed))


@pytest.mark.parametrize("share", [0.0, 0.05, 0.9])
def test_a_reader_that_applies_each_change_knows_what_a_fresh_one_is_told(share: float) -> None:
    boards = [stirred(a_board(), seed, share) for seed in range(6)]
    told = whole(boards[0], 0)
    for base, board in enumerate(boards[1:]):
        said = change(Columns(boards[base]), Columns(board), base=base, sequence=base + 1)
        assert said is not None
        apply(told, msgspec.json.decode(said))
        told["base"] = None
        assert told == whole(board, base + 1)


def test_another_fleet_is_told_whole() -> None:
    board = a_board()
    fewer = replace(board, nodes=board.nodes[1:])
    assert change(Columns(board), Columns(fewer), base=1, sequence=2) is None


def test_the_columns_say_what_the_rows_say() -> None:
    board = a_board()
    told = whole(board, 1)
    cells = [cell for node in board.nodes for cell in node.cells]
    assert [STATES[place] for place in told["columns"]["state"]] == [cell.state for cell in cells]
    holders = [None if place < 0 else board.jobs[place].id for place in told["columns"]["job"]]
    assert holders == [cell.workload for cell in cells]
    gang = next(job for job in board.jobs if job.name == "llama-70b")
    assert tuple(cells[place].uuid for place in told["jobs"][gang.id]["cells"]) == gang.gpus
    lost = [place for place, cell in enumerate(cells) if cell.state is CellState.LOST]
    assert [told["columns"]["temperature_celsius"][place] for place in lost] == [-1]


@pytest.mark.parametrize("encoding", ["gzip", "identity"])
def test_the_stream_begins_whole_and_goes_on_with_changes(served: Served, encoding: str) -> None:
    with Follower(served, encoding=encoding) as page:
        assert [page.next(), page.next()] == ["frame", "uuids"]
        assert page.told["uuids"][:2] == [cell.uuid for cell in a_board().nodes[0].cells[:2]]
        board = stirred(a_board(), 5, 0.2)
        served.box.publish(board)
        page.until(2)
        assert page.names == ["frame", "uuids", "change"]
        uuids = page.told.pop("uuids")
        assert (len(uuids), page.told) == (32, whole(board, 2))


def test_who_comes_back_is_told_what_changed_and_a_stranger_the_whole(served: Served) -> None:
    with Follower(served) as page:
        page.until(1)
        identity = page.identity
    served.box.publish(stirred(a_board(), 5, 0.2))
    with Follower(served, since=identity) as back, Follower(served, since="00000000-1") as stranger:
        back.told = page.told
        assert (back.next(), stranger.next()) == ("change", "frame")


def test_the_packed_stream_is_one_whole_gzip_file_at_its_end(served: Served) -> None:
    headers = {"Authorization": f"Bearer {TOKEN}", "Accept-Encoding": "gzip"}
    with requests.get(served.url + "/api/v1/stream", headers=headers, stream=True, timeout=10) as answer:
        served.box.publish(stirred(a_board(), 5, 0.2))
        served.box.close()
        raw = answer.raw.read(decode_content=False)
    assert gzip.decompress(raw).startswith(b"retry: 2000\n\n")


def test_the_stream_asks_who_reads(served: Served) -> None:
    assert requests.get(served.url + "/api/v1/stream", timeout=5).status_code == 401


def test_a_metric_of_all_gpus_needs_readings(served: Served) -> None:
    answer = served.get("/api/v1/fleet/values?metric=power_watts")
    assert (answer.status_code, answer.json()["error"][:31]) == (503, "Nothing has been read yet. Try ")


def test_nothing_changed_is_said_with_nothing() -> None:
    board = a_board()
    later = replace(board, at=NOW + timedelta(seconds=5))
    said = msgspec.json.decode(change(Columns(board), Columns(later), base=1, sequence=2) or b"")
    assert said["jobs"] == {"order": None, "set": []}
    assert set(said["board"]) == {"at"}
    assert set(said["columns"]) <= {"report_age_seconds"}
