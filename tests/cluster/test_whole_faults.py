"""The whole daemon when the API server dies or freezes under a command, and when the daemon itself is killed.

TRIMTAB_LONG=1 makes the outages as long as the issue asks for (60 s down, 20 s frozen).
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.cluster import objects, owed
from tests.cluster.audit import Asked, Audit, assert_allowed, kinds
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.stories import fill
from tests.cluster.test_rights import installed as _installed
from tests.cluster.test_whole_safety import OVER, STATES, evacuation, five_kinds
from tests.cluster.whole import Whole, act
from tests.system.processes import eventually

from trimtab.model.board import CommandRow

installed = _installed

IS_LONG = bool(os.environ.get("TRIMTAB_LONG"))
DOWN_SECONDS = 60.0 if IS_LONG else 8.0
FROZEN_SECONDS = 20.0 if IS_LONG else 5.0
ATTEMPTS_A_MINUTE = 10
ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
TERM_SECONDS = 4


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path) -> Iterator[Whole]:
    made = Whole(installed, space, tmp_path)
    yield made
    made.close()


def submitted(whole: Whole) -> tuple[CommandRow, str]:
    """A gang of Kueue's that is being stopped for a bad node: its pods take their time to end."""
    space = whole.space
    space.add_racks(racks=1, nodes_per_rack=4)
    space.run_gang("train", pods=2, gpus=8, topology=ONE_RACK, pod_annotations={"fake/term-s": str(TERM_SECONDS)})
    bad = space.seats("train")[0]
    whole.up()
    whole.reporter.break_gpu(bad)
    row = whole.command(f"evacuate:{bad}")
    whole.approve(row)
    whole.until(row.command.id, "submitted")
    workload = wait_for(lambda: space.workload("train"), "its Workload")
    name = workload["metadata"]["name"]
    wait_for(
        lambda: space.client.get("workloads", name, space.namespace)["spec"].get("active") is False, "it is stopped"
    )
    return row, bad


def ends_well(whole: Whole, row: CommandRow, bad: str) -> None:
    """What had begun is finished, nothing is left stopped or held, and the bad node stays out."""
    settled = whole.until(row.command.id, "settled", "missed", "abandoned", "refused", "undone")
    assert settled.command.state.value == "settled", f"{settled.command.reason}\n{whole.told()}"
    seats = whole.space.wait_running("train", 2)
    assert bad not in seats
    assert owed.stopped(whole.space) == []
    eventually(lambda: not owed.left_of_ours(whole.space, but_lasting=True) or None, said=whole.told)
    assert owed.cordoned_by_us(whole.space) == [bad]
    whole.daemon.assert_had_no_trouble()


def lasting(seconds: float) -> None:
    """Let an outage last; what happens in it is asserted afterwards, never by time."""
    time.sleep(seconds)


def blind(whole: Whole, words: str) -> str:
    """What the board says that it does not see, once it says so."""

    def said() -> str | None:
        return next((one for one in whole.daemon.board().blind if words in one), None)

    return eventually(said, seconds=60.0, said=whole.told)


def assert_paced(before: dict[str, float], after: dict[str, float], seconds: float) -> float:
    """No kind was tried more than ten times a minute; an outage begins within any minute. The most of any."""
    assert before, "the metric is on the page"
    minutes = 1 + int(seconds // 60)
    tried = {kind: after[kind] - before[kind] for kind in before}
    assert all(count <= ATTEMPTS_A_MINUTE * minutes for count in tried.values()), tried
    return max(tried.values())


def written_between(whole: Whole, since: datetime, until: datetime) -> list[str]:
    """The daemon's own lines of writes that it began in this time; each stands in the log before it is sent."""
    lines = [json.loads(line) for line in whole.daemon.text().splitlines() if line.startswith("{")]
    writes = [one for one in lines if one["event"] == "write"]
    return [str(one) for one in writes if since <= datetime.fromisoformat(one["timestamp"]) <= until]


def written_unseen(asked: list[Asked], since: datetime) -> list[Asked]:
    """What was written from then on before pods, nodes and Workloads had been read again."""
    needed, found = {"pods", "nodes", "workloads.kueue.x-k8s.io"}, []
    for one in asked:
        if one.at < since:
            continue
        if one.verb in ("list", "watch") and one.code in (0, 200):
            needed.discard(one.what)
        if one.is_act and needed:
            found.append(one)
    return found


Strike = tuple[Callable[[Plane, str], None], Callable[[Plane, str], None], float, str]
"""How the API server goes and comes, for how long, and what the board says of it."""


@pytest.mark.parametrize(
    "how",
    [
        (Plane.kill, Plane.start, DOWN_SECONDS, "cannot be reached"),
        pytest.param((Plane.pause, Plane.resume, FROZEN_SECONDS, "no answer from"), marks=pytest.mark.long),
    ],
    ids=["killed", "frozen"],
)
def test_the_api_server_goes_away_under_a_command(
    whole: Whole, capsys: pytest.CaptureFixture[str], how: Strike
) -> None:
    strike, mend, seconds, words = how
    audit = Audit(whole.plane)
    row, bad = submitted(whole)
    attempts, began = whole.metrics("trimtab_reader_attempts_total"), time.monotonic()
    struck = datetime.now(UTC)
    strike(whole.plane, "kube-apiserver")
    try:
        said = blind(whole, words)
        state = whole.row(row.command.id).command.state
        lasting(seconds)
        assert whole.row(row.command.id).command.state is state, "no step without a whole snapshot"
        assert whole.daemon.board().blind
    finally:
        mended = datetime.now(UTC)
        mend(whole.plane, "kube-apiserver")
    back = time.monotonic()
    eventually(lambda: not whole.daemon.board().blind or None, seconds=90.0, said=whole.told)
    back = time.monotonic() - back
    most = assert_paced(attempts, whole.metrics("trimtab_reader_attempts_total"), time.monotonic() - began)
    ends_well(whole, row, bad)
    assert written_between(whole, struck, mended) == [], "nothing is written blind"
    # A server that was killed has ended all watches; one that was frozen goes on with them, and what it missed comes.
    unseen = written_unseen(audit.asked(), struck) if strike is Plane.kill else []
    assert not unseen, "written on a plan of before the outage:\n" + "\n".join(map(str, unseen))
    assert_allowed(audit.writes())
    with capsys.disabled():
        print(f"\n  away for {seconds:.0f} s: {said}; sees again {back:.1f} s after it is back")
        print(f"  at most {most:.0f} attempts at a kind; {kinds(audit.writes())}")


KILLED_KINDS = ("whole", "declared", "plain", "scaled", "stateful", "idle")


@pytest.mark.long
@pytest.mark.parametrize("kind", KILLED_KINDS)
def test_killed_at_every_step_of_every_kind_all_ends_well(
    installed: Plane, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    """Three moves of the same work (the day's limit), and the daemon dies in another step of each."""
    audit, whole = Audit(installed), Whole(installed, space, tmp_path, settings=act())
    pods, caught, out = five_kinds(space, only=kind), [], []
    try:
        whole.up()
        for step in STATES:
            idle = next(node for node in space.nodes if node not in (*out, *space.seats()))
            bad = space.seats(kind)[0] if kind in pods else idle
            out.append(bad)
            whole.reporter.break_gpu(bad)
            row = evacuation(whole, bad, *STATES[STATES.index(step) :], *OVER)
            whole.daemon.kill()
            caught.append(f"{step}: {row.command.state}")
            whole.again()
            ended = whole.until(row.command.id, *OVER)
            assert ended.command.state.value == "settled", f"{ended.command.reason}\n{whole.told()}"
            for name, count in pods.items():
                assert not set(out) & set(space.wait_running(name, count))
            assert owed.stopped(space) == []
            eventually(lambda: not owed.left_of_ours(space, but_lasting=True) or None, seconds=60.0, said=whole.told)
            assert sorted(owed.cordoned_by_us(space)) == sorted(out)
        assert_allowed(audit.writes())
        with capsys.disabled():
            print(f"\n  {kind}: killed while {caught}; {kinds(audit.writes())}")
    finally:
        whole.close()


@pytest.mark.long
@pytest.mark.parametrize("step", STATES)
def test_killed_while_it_makes_room_all_ends_well(
    installed: Plane, space: Space, tmp_path: Path, capsys: pytest.CaptureFixture[str], step: str
) -> None:
    whole = Whole(installed, space, tmp_path, settings=act())
    try:
        whole.up()
        fill(space, space.add_racks(racks=1, nodes_per_rack=3))
        space.gang("big", pods=1, gpus=8)
        row = whole.command(f"make-room:{space.namespace}/job/big")
        caught = whole.until(row.command.id, *STATES[STATES.index(step) :], *OVER)
        whole.daemon.kill()
        whole.again()
        ended = whole.until(row.command.id, *OVER)
        with capsys.disabled():
            state = caught.command.state
            print(f"\n  make room: killed while {state} ({step} was asked for), ended {ended.command.state}")
        space.wait_running("big", 1, deadline_seconds=120.0)
        for index in range(3):
            space.wait_running(f"v{index}a", 1)
            space.wait_running(f"v{index}b", 1)
        assert owed.stopped(space) == []
        eventually(lambda: not owed.left_of_ours(space) or None, seconds=60.0, said=whole.told)
    finally:
        whole.close()
