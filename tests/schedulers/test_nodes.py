"""Cordons, taints, labels, seats and evictions: ours are signed and given back, nobody else's is ever touched."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fakes.kube import FakeKube
from tests.schedulers.hands import Desk, a_command, over

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused
from trimtab.model.command import CommandState, Seat, Verb, Write
from trimtab.schedulers.face import mark_of_value, value_of
from trimtab.schedulers.marks import Hold, read_holds, with_hold
from trimtab.schedulers.objects import Metadata, NodeObject, NodeSpec, Taint

NODE = "/api/v1/nodes/gpu-07"
FOREIGN = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
OURS = {"key": "trimtab/seat", "value": "3fa9c1-R11", "effect": "NoSchedule"}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "gpu-07"}, "spec": {}})
    return made


@pytest.fixture
def desk(kube: FakeKube) -> Desk:
    return Desk(kube)


def node(kube: FakeKube) -> dict[str, Any]:
    found = kube.see(NODE)
    assert found is not None
    return found


def is_closed(kube: FakeKube) -> bool:
    return bool(node(kube)["spec"].get("unschedulable"))


def taints(kube: FakeKube) -> list[dict[str, Any]]:
    return list(node(kube)["spec"].get("taints") or [])


def holds(kube: FakeKube) -> dict[str, tuple[str, ...]]:
    return {one.mark: one.what for one in read_holds(node(kube)["metadata"].get("annotations") or {}, "trimtab")}


def person(kube: FakeKube, *, closes: bool) -> None:
    kube.edit(NODE, {"spec": {"unschedulable": True if closes else None}}, by="kubectl-cordon")


def test_a_cordon_is_signed_in_the_same_patch_and_said_once(kube: FakeKube, desk: Desk) -> None:
    desk.nodes.cordon(a_command(), "gpu-07", lasts=True)
    desk.nodes.cordon(a_command(), "gpu-07", lasts=True)
    assert is_closed(kube)
    (hold,) = read_holds(node(kube)["metadata"]["annotations"], "trimtab")
    assert (hold.mark, hold.what, hold.why, hold.lasts, hold.until) == (
        "trimtab:3fa9c1:R11",
        ("cordon",),
        "XID 79",
        True,
        None,
    )
    assert desk.said == ["cordon gpu-07"]


def test_a_lasting_cordon_stays_when_settled_and_goes_when_undone(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.cordon(command, "gpu-07", lasts=True)
    desk.nodes.taint(command, "gpu-07", "seat")
    desk.nodes.give_back(over(command, CommandState.SETTLED), "gpu-07")
    assert (is_closed(kube), taints(kube), holds(kube)) == (True, [], {command.mark: ("cordon",)})
    desk.nodes.give_back(over(command, CommandState.UNDONE), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_a_cordon_that_does_not_last_goes_when_settled(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.cordon(command, "gpu-07")
    desk.nodes.give_back(over(command, CommandState.SETTLED), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_a_node_opens_when_the_last_of_two_commands_lets_go(kube: FakeKube, desk: Desk) -> None:
    first, second = a_command(11), a_command(12)
    desk.nodes.cordon(first, "gpu-07")
    desk.nodes.cordon(second, "gpu-07")
    desk.nodes.uncordon(first, "gpu-07")
    assert (is_closed(kube), holds(kube)) == (True, {second.mark: ("cordon",)})
    desk.nodes.uncordon(second, "gpu-07")
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_a_persons_cordon_is_claimed_and_stays_theirs(kube: FakeKube, desk: Desk) -> None:
    person(kube, closes=True)
    command = a_command()
    desk.nodes.cordon(command, "gpu-07", lasts=True)
    assert holds(kube) == {command.mark: ("claim",)}
    desk.nodes.give_back(over(command), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (True, {})


def test_a_persons_uncordon_is_a_veto_and_release_only_cleans_up(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.cordon(command, "gpu-07", lasts=True)
    person(kube, closes=False)
    with pytest.raises(SchedulerRefused, match="Somebody uncordoned gpu-07 since R11 cordoned it: a veto"):
        desk.nodes.cordon(command, "gpu-07", lasts=True)
    desk.nodes.give_back(over(command), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_a_node_that_a_person_opened_and_closed_again_stays_closed(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.cordon(command, "gpu-07")
    person(kube, closes=False)
    person(kube, closes=True)
    desk.nodes.give_back(over(command), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (True, {})


def test_return_to_service_takes_every_lasting_cordon_of_ours_off(kube: FakeKube, desk: Desk) -> None:
    for number in (5, 6):
        desk.nodes.cordon(a_command(number), "gpu-07", lasts=True)
    desk.nodes.open(a_command(12), "gpu-07")
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_a_named_cordon_is_lifted_and_another_commands_keeps_the_node_closed(kube: FakeKube, desk: Desk) -> None:
    first, second = a_command(5), a_command(6)
    for command in (first, second):
        desk.nodes.cordon(command, "gpu-07", lasts=True)
    desk.nodes.open(a_command(12), "gpu-07", lifts=first.mark)
    assert (is_closed(kube), holds(kube)) == (True, {second.mark: ("cordon",)})
    desk.nodes.open(a_command(12), "gpu-07", lifts=second.mark)
    assert (is_closed(kube), holds(kube)) == (False, {})


def test_return_to_service_waits_for_a_command_at_work_and_spares_a_persons_cordon(kube: FakeKube, desk: Desk) -> None:
    command = a_command(5)
    desk.nodes.cordon(command, "gpu-07")
    with pytest.raises(SchedulerBusy, match="being emptied by trimtab:3fa9c1:R5"):
        desk.nodes.open(a_command(12), "gpu-07")
    desk.nodes.uncordon(command, "gpu-07")
    person(kube, closes=True)
    with pytest.raises(SchedulerRefused, match="cordoned by kubectl-cordon"):
        desk.nodes.open(a_command(12), "gpu-07")


def test_a_taint_stands_beside_everybodys_and_only_ours_goes(kube: FakeKube, desk: Desk) -> None:
    kube.edit(NODE, {"spec": {"taints": [FOREIGN]}})
    command = a_command()
    desk.nodes.taint(command, "gpu-07", "seat")
    assert taints(kube) == [FOREIGN, OURS]
    desk.nodes.untaint(command, "gpu-07", "seat")
    assert (taints(kube), holds(kube)) == ([FOREIGN], {})


@pytest.mark.parametrize("rounds", [1, 2])
def test_a_writer_in_between_never_loses_its_taint(kube: FakeKube, desk: Desk, rounds: int) -> None:
    left = rounds
    other = {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}

    def write_in_between(point: str) -> None:
        nonlocal left
        if left and point.startswith("before PATCH"):
            left -= 1
            kube.edit(NODE, {"spec": {"taints": [FOREIGN, {**other, "value": str(left)}]}}, by="karpenter")

    kube.at_point = write_in_between
    desk.nodes.taint(a_command(), "gpu-07", "seat")
    assert taints(kube) == [FOREIGN, {**other, "value": "0"}, OURS]


def test_a_node_that_is_written_all_the_time_is_left_for_the_next_beat(kube: FakeKube, desk: Desk) -> None:
    def write_in_between(point: str) -> None:
        if point.startswith("before PATCH"):
            kube.edit(NODE, {"metadata": {"labels": {"beat": str(len(kube.calls))}}})

    kube.at_point = write_in_between
    with pytest.raises(SchedulerConflict):
        desk.nodes.taint(a_command(), "gpu-07", "seat")
    assert (taints(kube), holds(kube)) == ([], {})


def test_two_commands_do_not_share_one_seat_taint(desk: Desk) -> None:
    desk.nodes.taint(a_command(11), "gpu-07", "seat")
    with pytest.raises(SchedulerBusy, match="gpu-07 is kept by trimtab:3fa9c1:R11"):
        desk.nodes.taint(a_command(12), "gpu-07", "seat")


def test_a_taint_that_a_person_took_off_is_not_set_again(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.taint(command, "gpu-07", "seat")
    kube.edit(NODE, {"spec": {"taints": None}}, by="kubectl-taint")
    with pytest.raises(SchedulerRefused, match="a veto"):
        desk.nodes.taint(command, "gpu-07", "seat")


def test_a_taint_whose_annotation_somebody_wiped_is_still_given_back(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    desk.nodes.taint(command, "gpu-07", "seat")
    desk.nodes.label(command, "gpu-07", "seat")
    kube.edit(NODE, {"metadata": {"annotations": None}})
    desk.nodes.give_back(over(command), "gpu-07")
    assert (taints(kube), holds(kube)) == ([], {})
    assert "trimtab/seat" not in (node(kube)["metadata"].get("labels") or {})


def test_labels_come_and_go_beside_others(kube: FakeKube, desk: Desk) -> None:
    kube.edit(NODE, {"metadata": {"labels": {"pool": "a"}}})
    desk.nodes.label(a_command(), "gpu-07", "seat")
    assert node(kube)["metadata"]["labels"] == {"pool": "a", "trimtab/seat": "3fa9c1-R11"}
    desk.nodes.give_back(over(a_command()), "gpu-07")
    assert (node(kube)["metadata"]["labels"], holds(kube)) == ({"pool": "a"}, {})


def test_seats_of_two_workloads_lie_side_by_side_on_one_node(kube: FakeKube, desk: Desk) -> None:
    command = a_command()
    for name, gpus in (("a", 2), ("b", 4)):
        desk.nodes.reserve(command, f"team/job/{name}", [Seat(pod=f"{name}-0", node="gpu-07", gpus=gpus)])
    found = read_holds(node(kube)["metadata"]["annotations"], "trimtab")
    assert {(one.workload, one.seats[0].gpus) for one in found} == {("team/job/a", 2), ("team/job/b", 4)}
    desk.nodes.give_back(over(command), "gpu-07")
    assert holds(kube) == {}


def test_a_crash_after_any_write_is_recovered_by_doing_it_again(kube: FakeKube, desk: Desk) -> None:
    """The reply is lost: the next beat repeats the same calls and nothing is done twice."""
    command = a_command()
    steps = (
        lambda: desk.nodes.cordon(command, "gpu-07"),
        lambda: desk.nodes.taint(command, "gpu-07", "seat"),
        lambda: desk.nodes.give_back(over(command), "gpu-07"),
    )
    for step in steps:
        kube.fail(SchedulerConflict("the reply was lost"), at="PATCH", is_after=True)
        step()
    assert len(kube.writes) == 3
    assert (is_closed(kube), taints(kube), holds(kube)) == (False, [], {})


def test_giving_back_on_a_node_that_is_gone_is_no_error_and_holding_is_refused(kube: FakeKube, desk: Desk) -> None:
    kube.remove(NODE)
    desk.nodes.give_back(a_command(), "gpu-07")
    with pytest.raises(SchedulerRefused, match="There is no node gpu-07 any more"):
        desk.nodes.cordon(a_command(), "gpu-07")


def test_a_damaged_annotation_claims_nothing_and_opens_nothing(kube: FakeKube, desk: Desk) -> None:
    kube.edit(NODE, {"metadata": {"annotations": {"trimtab/hold": "[{"}}, "spec": {"unschedulable": True}})
    before = node(kube)
    desk.nodes.give_back(a_command(), "gpu-07")
    assert node(kube) == before


def test_nodes_that_bear_a_mark_are_found_by_annotation_taint_and_name(desk: Desk) -> None:
    command = a_command(writes=[Write(verb=Verb.CORDON, node="gpu-01")])
    held = f'[{{"mark":"{command.mark}","what":["cordon"]}}]'
    nodes = {
        "gpu-02": NodeObject(metadata=Metadata(name="gpu-02", annotations={"trimtab/hold": held})),
        "gpu-03": NodeObject(spec=NodeSpec(taints=[Taint(key="trimtab/seat", value="3fa9c1-R11")])),
        "gpu-04": NodeObject(spec=NodeSpec(taints=[Taint(key="trimtab/seat", value="3fa9c1-R12")])),
    }
    assert desk.nodes.bearing(command, nodes) == ("gpu-01", "gpu-02", "gpu-03")


def test_a_mark_becomes_a_label_value_and_comes_back() -> None:
    assert [mark_of_value(value_of(mark)) for mark in ("trimtab:3fa9c1:R11", "trimtab:R7")] == [
        "trimtab:3fa9c1:R11",
        "trimtab:R7",
    ]
    assert mark_of_value("present") is None


# --- pods


def unreadable(kube: FakeKube) -> dict[str, Any]:
    """Somebody, or a later version of ours, wrote what we cannot read."""
    kube.edit(NODE, {"metadata": {"annotations": {"trimtab/hold": "{not ours"}}})
    return node(kube)


def test_an_annotation_that_cannot_be_read_is_never_written_over(kube: FakeKube, desk: Desk) -> None:
    before = unreadable(kube)
    for write in (
        lambda: desk.nodes.cordon(a_command(), "gpu-07", lasts=True),
        lambda: desk.nodes.taint(a_command(), "gpu-07", "seat"),
        lambda: desk.nodes.reserve(a_command(), "team-a/job/train", [Seat(pod="train-0", node="gpu-07", gpus=8)]),
    ):
        with pytest.raises(SchedulerRefused, match=r"cannot be read .* kubectl annotate node gpu-07 trimtab/hold-"):
            write()
    assert node(kube) == before


def test_beside_an_annotation_that_cannot_be_read_our_taint_goes_by_its_value(kube: FakeKube, desk: Desk) -> None:
    desk.nodes.taint(a_command(), "gpu-07", "seat")
    text = unreadable(kube)["metadata"]["annotations"]["trimtab/hold"]
    desk.nodes.give_back(over(a_command(), CommandState.UNDONE), "gpu-07")
    assert taints(kube) == []
    assert node(kube)["metadata"]["annotations"] == {"trimtab/hold": text}


def test_on_a_pod_too_what_cannot_be_read_is_not_written_over() -> None:
    holds = read_holds({"trimtab/hold": "{not ours"}, "trimtab")
    with pytest.raises(SchedulerRefused, match="annotation trimtab/hold cannot be read"):
        with_hold(holds, Hold(mark="trimtab:3fa9c1:R11", what=("move",)))
