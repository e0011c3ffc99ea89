"""Stories on the real Kueue: a hot swap, a gang moved whole, room made; with and without our AdmissionCheck."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from collections.abc import Iterator
from itertools import count

import pytest
from tests.cluster import objects
from tests.cluster.kueue_hall import REPLACEABLE, Hall
from tests.cluster.plane import Plane
from tests.cluster.space import Space

from trimtab.model.command import CommandState

IN_A_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
RUNS = range(int(os.environ.get("TRIMTAB_STORY_C_RUNS", "1")))
"""Each form of story c so often: one run says little about a share."""
NORMAL_95 = 1.96


@pytest.fixture(scope="module")
def shares() -> Iterator[dict[str, list[tuple[int, int]]]]:
    """Seats that were hit, and planned, in each run, by form; printed at the end as shares with their interval."""
    found: dict[str, list[tuple[int, int]]] = defaultdict(list)
    yield found
    for form, runs in found.items():
        hit, planned = sum(one[0] for one in runs), sum(one[1] for one in runs)
        low, high = wilson(hit, planned)
        print(f"\nstory c, {form}: {len(runs)} runs, {hit} of {planned} seats as planned ({low:.1%} to {high:.1%})")


def wilson(hit: int, tried: int) -> tuple[float, float]:
    """The 95 % interval of a share: Wilson's score interval."""
    if not tried:
        return 0.0, 1.0
    share, square = hit / tried, NORMAL_95**2
    middle = share + square / (2 * tried)
    half = NORMAL_95 * math.sqrt(share * (1 - share) / tried + square / (4 * tried**2))
    return (middle - half) / (1 + square / tried), (middle + half) / (1 + square / tried)


@pytest.fixture
def hall(plane: Plane, space: Space) -> Iterator[Hall]:
    made = Hall(plane, space)
    yield made
    made.close()


def test_story_a_one_pod_is_replaced_in_the_rack_and_the_others_run_on(hall: Hall, space: Space) -> None:
    space.add_racks(2, 5)
    space.run_gang("train", topology=IN_A_RACK, can_replace_pods=True, annotations=REPLACEABLE)
    before = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in space.pods("train")}
    bad = sorted(before.values())[0]
    hall.bad(bad)
    hall.beat_until(hall.has_settled, "the pod replaced")
    after = {pod["metadata"]["uid"]: pod["spec"]["nodeName"] for pod in space.pods("train")}
    assert len(after) == 4
    assert bad not in after.values()
    assert {space.rack_of(node) for node in after.values()} == {space.rack_of(bad)}
    assert {uid for uid, node in before.items() if node != bad} <= set(after)
    assert hall.left() == [f"(nodes {bad}: cordon)"]
    print(f"\nstory a: {hall.seconds_of(hall.only()):.1f} s from approval")


def test_story_b_a_gang_that_loses_no_pod_moves_whole(hall: Hall, space: Space) -> None:
    space.add_racks(2, 5)
    space.run_gang("train", topology=IN_A_RACK)
    bad = space.seats("train")[0]
    hall.bad(bad)
    hall.beat_until(hall.has_settled, "the gang moved")
    assert bad not in space.wait_running("train", 4)
    assert hall.left() == [f"(nodes {bad}: cordon)"]
    print(f"\nstory b: {hall.seconds_of(hall.only()):.1f} s from approval")


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("queue", ["tas", pytest.param("flat", marks=pytest.mark.long)])
def test_story_c_room_is_made_for_the_one_who_waits(
    hall: Hall, space: Space, queue: str, run: int, shares: dict[str, list[tuple[int, int]]]
) -> None:
    """In a queue without topology the one who waits is admitted, and its pod waits for a node."""
    nodes = space.add_racks(1, 6)
    _fill(space, nodes, queue=queue)
    space.gang("big", pods=1, gpus=8, queue=queue)
    hall.beat_until(lambda: space.seats("big") and hall.is_over(), "room made", deadline_seconds=120, may_fail=True)
    outcome = hall.ledger.results[hall.only().id]
    shares[f"no check, {queue}"].append((outcome.seats_hit, outcome.seats_planned))
    assert hall.left() == []
    assert sum(len(space.seats(f"v{index}{job}")) for index in range(6) for job in "ab") == 12, "nobody lost a seat"
    print(f"\nstory c, {queue}: seats as planned {outcome.seats_hit} of {outcome.seats_planned}; {outcome.sentence}")


@pytest.fixture
def checked(plane: Plane, space: Space) -> Iterator[Hall]:
    """A hall whose queues `seats` (topology) and `loose` (none) ask for our AdmissionCheck."""
    name = f"{space.namespace}-check"
    space.add("admissionchecks", objects.admission_check(name, controller="trimtab/seats"))
    for local, flavor in (("seats", "tas"), ("loose", "flat")):
        queue = f"{space.namespace}-{local}"
        space.add("clusterqueues", objects.cluster_queue(queue, flavors=[f"{space.namespace}-{flavor}"], checks=[name]))
        space.add("localqueues", objects.local_queue(local, space.namespace, cluster_queue=queue))
    made = Hall(plane, space, admission_check=name)
    yield made
    made.close()


@pytest.mark.parametrize("queue", ["seats", pytest.param("loose", marks=pytest.mark.long)])
def test_with_our_check_a_gang_lands_on_the_seats_of_the_plan(checked: Hall, space: Space, queue: str) -> None:
    space.add_racks(2, 4)
    topology = IN_A_RACK if queue == "seats" else None
    space.gang("train", queue=queue, pods=2, topology=topology)
    checked.beat_until(lambda: len(space.seats("train")) == 2, "let in and running")
    bad = space.seats("train")[0]
    checked.bad(bad)
    checked.beat_until(checked.has_settled, "moved")
    planned = sorted(seat.node for seat in checked.only().recommendation.moves[0].after)
    assert space.wait_running("train", 2) == planned
    job = space.workload("train")["metadata"]["name"]
    assert f"(workloads {job}: podSetUpdates label trimtab/seat" in str(checked.left())
    assert [one for one in checked.left() if not one.startswith("(")] == []
    print(f"\n{queue}: {checked.seconds_of(checked.only()):.1f} s from approval")
    space.client.delete("jobs", "train", space.namespace, propagation="Background")
    checked.beat_until(lambda: checked.left() == [f"(nodes {bad}: cordon)"], "seats swept when the job is gone")


@pytest.mark.parametrize("run", RUNS)
def test_story_c_with_our_check_everybody_lands_where_planned(
    checked: Hall, space: Space, run: int, shares: dict[str, list[tuple[int, int]]]
) -> None:
    nodes = space.add_racks(1, 6)
    _fill(space, nodes, queue="seats", hall=checked)
    space.gang("big", pods=1, gpus=8, queue="seats")
    checked.beat_until(checked.has_settled, "room made", deadline_seconds=120)
    space.wait_running("big", 1)
    outcome = checked.ledger.results[checked.only().id]
    shares["our check"].append((outcome.seats_hit, outcome.seats_planned))
    assert outcome.seats_hit == outcome.seats_planned == 3
    print(f"\nstory c, exact: {outcome.sentence}")


@pytest.mark.long
@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("is_exact", [False, True])
def test_story_c_while_small_jobs_stream_in(
    request: pytest.FixtureRequest, space: Space, is_exact: bool, run: int, shares: dict[str, list[tuple[int, int]]]
) -> None:
    hall: Hall = request.getfixturevalue("checked" if is_exact else "hall")
    queue = "seats" if is_exact else "tas"
    nodes = space.add_racks(1, 6)
    _fill(space, nodes, queue=queue, hall=hall if is_exact else None)
    space.gang("big", pods=1, gpus=8, queue=queue)
    stream = (f"s{number}" for number in count())

    def runs() -> bool:
        small = [pod for pod in space.pods() if pod["metadata"]["name"].startswith("s")]
        if hall.is_due and len(small) < 12:
            space.gang(next(stream), pods=1, gpus=1, queue=queue, pod_annotations={"fake/run-s": "20"})
        return bool(space.seats("big")) and hall.is_over()

    hall.beat_until(runs, "big runs", deadline_seconds=150, may_fail=True)
    ended = [one.state.value for one in hall.commands]
    results = [hall.ledger.results[one.id] for one in hall.commands if one.id in hall.ledger.results]
    planned, hit = sum(one.seats_planned for one in results), sum(one.seats_hit for one in results)
    print(f"\nstory c, stream, {'exact' if is_exact else 'loose'}: {ended}, seats as planned {hit} of {planned}")
    shares[f"{'our check' if is_exact else 'no check'}, stream"].append((hit, planned))
    assert [one for one in hall.left() if not one.startswith("(")] == []
    assert not is_exact or hit >= 0.95 * planned > 0, hall.told()


@pytest.mark.long
def test_a_thief_in_a_peer_queue_gets_neither_quota_nor_seat(hall: Hall, space: Space) -> None:
    """A peer of the cohort without quota of its own borrows what is freed 0.85 s after that, unless it is held."""
    space.add_racks(1, 4)
    for name, gpus in (("a", 16), ("b", 0)):
        queue = f"{space.namespace}-{name}"
        made = objects.cluster_queue(queue, flavors=[f"{space.namespace}-tas"], gpus=gpus, cohort=space.namespace)
        space.add("clusterqueues", made)
        space.add("localqueues", objects.local_queue(name, space.namespace, cluster_queue=queue))
    space.run_gang("train", pods=2, queue="a")
    space.gang("thief", pods=1, queue="b")
    space.wait_condition("thief", "QuotaReserved=False/Pending")
    bad = space.seats("train")[0]
    hall.bad(bad)
    hall.beat_until(hall.has_settled, "moved")
    assert len(space.wait_running("train", 2)) == 2
    assert space.seats("thief") == []
    assert hall.left() == [f"(nodes {bad}: cordon)"]


def test_a_persons_hold_on_the_queue_stays_and_is_a_refusal(hall: Hall, space: Space) -> None:
    space.add_racks(1, 4)
    space.run_gang("train", pods=2)
    queue = f"{space.namespace}-tas"
    space.client.patch("clusterqueues", queue, {"spec": {"stopPolicy": "Hold"}}, fieldManager="kubectl-edit")
    hall.bad(space.seats("train")[0])
    wanted = f"Not moved: queue {queue} is on Hold by somebody; train would not come back."
    hall.beat_until(lambda: hall.plan and wanted in [one.sentence for one in hall.plan.refusals], "the refusal")
    hall.beat_until(hall.has_settled, "the node alone is cordoned")
    assert not [line for line in hall.lines if "activate" in line.what]
    assert space.client.get("clusterqueues", queue)["spec"]["stopPolicy"] == "Hold"


@pytest.mark.long
def test_a_persons_touch_of_the_stopped_job_is_left_to_them(hall: Hall, space: Space) -> None:
    space.add_racks(1, 4)
    space.run_gang("train", pods=2, pod_annotations={"fake/term-s": "4"}, pod_spec={"terminationGracePeriodSeconds": 5})
    hall.bad(space.seats("train")[0])
    hall.beat_until(lambda: any("deactivate" in line.what for line in hall.lines), "stopped by us")
    space.set_active("train", is_active=True)
    space.set_active("train", is_active=False)
    hall.beat_until(lambda: hall.commands[0].state.is_over, "the command ends", may_fail=True)
    assert hall.commands[0].state is CommandState.UNDONE
    assert space.workload("train")["spec"]["active"] is False
    assert [one for one in hall.left() if "inactive" not in one and not one.startswith("(")] == []


def test_the_check_fails_closed_and_opens_when_a_daemon_is_back(plane: Plane, checked: Hall, space: Space) -> None:
    space.add_racks(1, 4)
    space.gang("train", pods=2, queue="seats")
    checked.beat_until(lambda: len(space.seats("train")) == 2, "let in")
    space.gang("late", pods=1, queue="seats")  # nobody beats now
    late = space.wait_condition("late", "QuotaReserved=True")
    assert late["status"]["admissionChecks"][0]["state"] == "Pending"
    assert len(space.seats("train")) == 2
    back = Hall(plane, space, admission_check=checked.settings.admission_check)
    back.beat_until(lambda: space.seats("late"), "let in by the next daemon")
    back.close()


def _fill(space: Space, nodes: list[str], *, queue: str = "tas", hall: Hall | None = None) -> None:
    """A job of one GPU and one of two on every node, five left on each."""
    for index, node in enumerate(nodes):
        names = [f"v{index}a", f"v{index}b"]
        space.cordon(*(other for other in nodes if other != node))
        for gpus, name in enumerate(names, start=1):
            space.gang(name, pods=1, gpus=gpus, queue=queue)
        if hall is not None:
            hall.beat_until(lambda names=names: all(space.seats(name) for name in names), "let in")
        for name in names:
            space.wait_running(name, 1)
        space.uncordon(*nodes)
