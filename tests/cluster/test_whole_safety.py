"""The whole daemon's brakes on the real control plane: holds, gates, breakers, pauses, vetoes, giving all back.

Each with the sentence that a person reads on the board.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.cluster import objects, owed
from tests.cluster.audit import Audit, assert_allowed, kinds
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole, act
from tests.system.processes import eventually

from trimtab.model.board import CommandRow

installed = _installed

ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
DECLARED = {"trimtab/replaceable-pods": "true"}
SLOW = {"fake/term-s": "8"}
"""Pods that take their time to end, so that a command can be caught in the middle."""
STATES = ("held", "confirmed", "submitted")
OVER = ("settled", "missed", "abandoned", "refused", "undone", "rejected", "expired")


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Whole]:
    """In mode act with wide budgets; a test may add lines to [issue] and [kubernetes] by its parameter."""
    issue, kubernetes = getattr(request, "param", ("breaker_cordons = 100", ""))
    audit = Audit(installed)
    made = Whole(installed, space, tmp_path, settings=act(issue), kubernetes=kubernetes)
    yield made
    made.close()
    made.daemon.assert_had_no_trouble()
    assert_allowed(audit.writes())


def evacuation(whole: Whole, node: str, *states: str) -> CommandRow:
    """The newest command that takes a node out, once it is in one of these states."""

    def find() -> CommandRow | None:
        rows = [
            one for one in whole.daemon.board().commands if one.command.recommendation.purpose == f"evacuate:{node}"
        ]
        newest = max(rows, key=lambda one: one.command.id, default=None)
        return newest if newest is not None and newest.command.state.value in states else None

    return eventually(find, seconds=90.0, said=whole.told)


def moved(whole: Whole, job: str, *, off: str, pods: int = 1) -> list[str]:
    """Until a job runs whole and no pod of it is on this node."""

    def look() -> list[str] | None:
        seats = whole.space.seats(job)
        return seats if len(seats) == pods and off not in seats else None

    return eventually(look, seconds=90.0, said=whole.told)


def is_closed(whole: Whole, node: str) -> bool:
    return bool(whole.space.client.get("nodes", node)["spec"].get("unschedulable"))


def test_a_persons_hold_on_a_queue_keeps_its_jobs_where_they_are(whole: Whole) -> None:
    space = whole.space
    space.add_racks(racks=1, nodes_per_rack=4)
    space.run_gang("train", pods=2, gpus=8, topology=ONE_RACK)
    before = space.seats("train")
    queue = f"{space.namespace}-tas"
    space.client.patch("clusterqueues", queue, {"spec": {"stopPolicy": "Hold"}}, fieldManager="kubectl")
    whole.up()
    whole.reporter.break_gpu(before[0])
    said = whole.refused(f"queue {queue} is on Hold", "train would not come back")
    assert "somebody" in said
    wait_for(lambda: is_closed(whole, before[0]), "the bad node is closed all the same")
    assert space.seats("train") == before
    assert space.client.get("clusterqueues", queue)["spec"]["stopPolicy"] == "Hold"
    space.client.patch("clusterqueues", queue, {"spec": {"stopPolicy": "None"}}, fieldManager="kubectl")


def test_a_gate_a_veto_and_a_repair(whole: Whole) -> None:
    space = whole.space
    first, second, *_ = space.add_racks(racks=1, nodes_per_rack=4)
    whole.up()
    for node in (first, second):
        whole.reporter.break_gpu(node)
        evacuation(whole, node, "settled")
        assert is_closed(whole, node)
        whole.refused(f"{node} stays out: F", "its gate is: ")
    # Rebooted and well again: the gate asks for ten minutes of that, and the node waits for them, closed.
    whole.reporter.mend(first)
    eventually(
        lambda: (
            any(one.finding.subject.node == first and one.clear_since for one in whole.daemon.findings("device_fault"))
            or None
        ),
        said=whole.told,
    )
    assert "its gate is: well for 10 min" in whole.refused(f"{first} stays out: F")
    assert is_closed(whole, first)
    # A person does not agree about the other one, which is still bad: that is a veto, and it is left alone.
    space.uncordon(second)
    evacuation(whole, second, "undone")
    veto = eventually(lambda: whole.daemon.board().vetoes, said=whole.told)[0]
    assert (veto.name, "Somebody uncordoned" in veto.why, "left alone until" in veto.why) == (second, True, True)
    whole.refused("Somebody uncordoned", second)
    assert not is_closed(whole, second)
    assert owed.cordoned_by_us(space) == [first]


@pytest.mark.parametrize("whole", [("breaker_cordons = 2", "")], indirect=True)
def test_a_rule_that_closes_too_many_nodes_is_stopped_until_a_person_looks(whole: Whole) -> None:
    space = whole.space
    nodes = space.add_racks(racks=1, nodes_per_rack=4)
    whole.up()
    for node in nodes[:2]:
        whole.reporter.break_gpu(node)
        evacuation(whole, node, "settled")
    breaker = eventually(lambda: whole.daemon.board().breakers, said=whole.told)[0]
    assert breaker.why.startswith("device_fault made 2 of the last 2 cordons")
    whole.reporter.break_gpu(nodes[2])
    waits = evacuation(whole, nodes[2], "proposed")
    whole.approve(waits)  # not even a person's yes to this one lets it begin: somebody must look at the rule
    whole.refused(f"{waits.name} waits: device_fault made 2 of the last 2 cordons", "trimtab resume --rule")
    assert not is_closed(whole, nodes[2])
    code, out, err = whole.verb("resume", "--rule", "device_fault")
    assert (code, err) == (0, ""), out
    evacuation(whole, nodes[2], "settled")
    assert is_closed(whole, nodes[2])


@pytest.mark.long
def test_a_config_map_pauses_in_the_middle_of_a_command(whole: Whole) -> None:
    space, client = whole.space, whole.plane.client
    space.add_racks(racks=1, nodes_per_rack=5)
    space.run_gang("train", pods=2, gpus=8, topology=ONE_RACK, pod_annotations=SLOW)
    bad = space.seats("train")[0]
    other = next(node for node in space.nodes if node not in space.seats("train"))
    whole.up()
    whole.reporter.break_gpu(bad)
    evacuation(whole, bad, "submitted")
    pause = {"metadata": {"name": "trimtab-pause", "namespace": "trimtab"}, "data": {"reason": "power works in hall a"}}
    client.create("configmaps", pause, "trimtab")
    try:
        said = eventually(lambda: whole.daemon.board().pauses, said=whole.told)
        assert any("power works in hall a" in one for one in said)
        whole.reporter.break_gpu(other)
        waits = evacuation(whole, other, "proposed", "approved")
        assert evacuation(whole, bad, *OVER).command.state.value == "settled", "what had begun is finished"
        moved(whole, "train", off=bad, pods=2)
        assert evacuation(whole, other, *OVER, "proposed", "approved", "held").command.id == waits.command.id
        assert not is_closed(whole, other), "nothing new begins"
        whole.refused("Nothing new begins", "power works in hall a")
    finally:
        client.delete("configmaps", "trimtab-pause", "trimtab")
    evacuation(whole, other, "settled")
    assert not whole.daemon.board().is_paused


@pytest.mark.long
@pytest.mark.parametrize(
    "state",
    [pytest.param("held", marks=pytest.mark.long), pytest.param("confirmed", marks=pytest.mark.long), "submitted"],
)
def test_everything_is_given_back_in_the_middle_of_every_kind_of_command(
    whole: Whole, capsys: pytest.CaptureFixture[str], state: str
) -> None:
    space, audit = whole.space, Audit(whole.plane)
    kinds_of_work = five_kinds(space)
    whole.up()
    bad = break_under(whole, kinds_of_work)
    idle = next(node for node in space.nodes if node not in space.seats())
    whole.reporter.break_gpu(idle)
    for node in (*bad.values(), idle):
        evacuation(whole, node, *STATES[STATES.index(state) :], *OVER)
    begun = {name: str(evacuation(whole, node, *STATES, *OVER).command.state) for name, node in bad.items()}
    code, out, err = whole.verb("release", "--all", "--reason", "a drill", "--wait")
    assert (code, err) == (0, ""), out
    assert owed.left_of_ours(space) == []
    assert owed.stopped(space) == []
    # All come back at the same moment onto the same nodes. kube-scheduler may be quicker than a pod that Kueue has
    # pinned, which then waits for its node: known of topology queues beside others, and none of our doing.
    for name, pods in kinds_of_work.items():
        wait_for(lambda name=name, pods=pods: len(space.pods(name)) >= pods, f"{pods} pods of {name} made again")
    assert owed.stopped(space) == []
    assert not [node for node in space.nodes if is_closed(whole, node)]
    ended = {name: str(evacuation(whole, node, *OVER).command.state) for name, node in bad.items()}
    with capsys.disabled():
        print(f"\n  asked while {begun}, ended {ended}; {kinds(audit.writes())}")
    # One that had settled by then is undone too: what it keeps out is given back.
    assert set(ended.values()) == {"undone"}, ended
    assert whole.daemon.board().is_paused


def five_kinds(space: Space, *, only: str = "") -> dict[str, int]:
    """Work of each kind that a command moves in its own way (or of one), all of it slow to stop -> its pods."""
    space.add_racks(racks=1, nodes_per_rack=6 if only else 14)
    gang = {"pods": 2, "gpus": 8, "topology": ONE_RACK, "pod_annotations": SLOW}
    one = {"gpus": 8, "pod_annotations": SLOW}
    make: dict[str, tuple[int, Callable[[], object]]] = {
        "whole": (2, lambda: space.gang("whole", **gang)),
        "declared": (2, lambda: space.gang("declared", can_replace_pods=True, annotations=DECLARED, **gang)),
        "plain": (1, lambda: space.gang("plain", queue=None, pods=1, **one)),
        "scaled": (1, lambda: space.deployment("scaled", replicas=1, **one)),
        "stateful": (1, lambda: space.stateful_set("stateful", replicas=1, **one)),
    }
    pods = {name: count for name, (count, _) in make.items() if only in ("", name)}
    for name, count in pods.items():
        make[name][1]()
        space.wait_running(name, count)
    return pods


def break_under(whole: Whole, names: dict[str, int]) -> dict[str, str]:
    """A GPU falls off under each of them -> the node."""
    bad = {name: whole.space.seats(name)[0] for name in names}
    for node in bad.values():
        whole.reporter.break_gpu(node)
    return bad


@pytest.mark.parametrize("whole", [("breaker_cordons = 100", 'admission_check = "trimtab"')], indirect=True)
def test_without_a_daemon_nothing_new_comes_in_where_the_check_is_asked_for(whole: Whole) -> None:
    space = whole.space
    space.add_racks(racks=1, nodes_per_rack=2)
    checked = f"{space.namespace}-checked"
    queue = objects.cluster_queue(checked, flavors=[f"{space.namespace}-flat"], checks=["trimtab"])
    space.add("clusterqueues", queue)
    space.add("localqueues", objects.local_queue("checked", space.namespace, cluster_queue=checked))
    whole.up()
    space.run_gang("first", queue="checked", pods=1, gpus=8)
    whole.daemon.kill()
    space.gang("second", queue="checked", pods=1, gpus=4)
    held = wait_for(lambda: reserved(space, "second"), "second has its quota and waits for the check")
    assert held == ["Pending"]
    assert space.seats("second") == []
    assert space.seats("first") != [], "what runs goes on"
    whole.again()
    space.wait_running("second", 1)
    assert space.seats("first") != []


def reserved(space: Space, job: str) -> list[str]:
    """States of the checks of a job that has its quota."""
    workload = space.workload(job)
    status = workload.get("status", {}) if workload else {}
    has_quota = any(one["type"] == "QuotaReserved" and one["status"] == "True" for one in status.get("conditions", []))
    return [one["state"] for one in status.get("admissionChecks", [])] if has_quota else []
