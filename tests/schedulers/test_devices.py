"""Device taints: one GPU where the cluster can, signed, given back, and a reason where it cannot."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.fakes.kube import FakeKube
from tests.schedulers.hands import Desk, a_command, over

from trimtab.errors import SchedulerBusy, SchedulerConflict, SchedulerRefused
from trimtab.issue.hands import Hands
from trimtab.model.command import Command, CommandState, Move, MoveKind, Verb, Write
from trimtab.schedulers.devices import RULES, SLICES, Devices, Place, lines_of, place_of, why_not_one_gpu
from trimtab.schedulers.marks import read_holds
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.view import View

DEVICES = [
    {"name": f"gpu-{index}", "attributes": {"uuid": {"string": f"GPU-{index}"}, "type": {"string": "gpu"}}}
    for index in range(2)
]
SPEC = {"driver": "gpu.nvidia.com", "nodeName": "gpu-07", "pool": {"name": "gpu-07"}, "devices": DEVICES}
SERVED = {SLICES: "v1", RULES: "v1alpha3"}


@pytest.fixture
def kube() -> FakeKube:
    made = FakeKube()
    made.add({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "s"}, "spec": SPEC})
    return made


def a_view(kube: FakeKube, served: dict[str, str] = SERVED) -> View:
    others = {kind: {one["metadata"]["name"]: msgspec.convert(one, Loose) for one in kube.all(kind)} for kind in served}
    return View(others=others, served=served)


@pytest.fixture
def devices(kube: FakeKube) -> Devices:
    desk = Desk(kube)
    return Devices(pen=desk.pen, view=lambda: a_view(kube), settings=desk.settings)


def rules(kube: FakeKube) -> list[dict[str, Any]]:
    return kube.all(RULES)


def test_one_gpu_is_tainted_once_and_signed(kube: FakeKube, devices: Devices) -> None:
    devices.taint(a_command(), "gpu-07", "GPU-1")
    devices.taint(a_command(), "gpu-07", "GPU-1")
    (rule,) = rules(kube)
    assert rule["spec"] == {
        "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "gpu-07", "device": "gpu-1"},
        "taint": {"key": "trimtab/out-of-service", "value": "3fa9c1-R11", "effect": "NoSchedule"},
    }
    (hold,) = read_holds(rule["metadata"]["annotations"], "trimtab")
    assert (hold.mark, hold.what, hold.why, hold.lasts) == (
        "trimtab:3fa9c1:R11",
        ("device taint gpu-1 of gpu-07",),
        "XID 79",
        True,
    )


def test_a_lost_reply_makes_no_second_rule(kube: FakeKube, devices: Devices) -> None:
    kube.fail(SchedulerConflict("the reply was lost"), at="POST", is_after=True)
    devices.taint(a_command(), "gpu-07", "GPU-1")
    assert len(rules(kube)) == 1


def test_it_lasts_when_settled_and_goes_when_undone(kube: FakeKube, devices: Devices) -> None:
    command = a_command()
    devices.taint(command, "gpu-07", "GPU-1", lasts=True)
    devices.taint(command, "gpu-07", "GPU-0", lasts=False)
    devices.taint(a_command(12), "gpu-07", "GPU-0")
    devices.give_back(over(command, CommandState.SETTLED))
    assert [(rule["spec"]["taint"]["value"], rule["spec"]["deviceSelector"]["device"]) for rule in rules(kube)] == [
        ("3fa9c1-R11", "gpu-1"),
        ("3fa9c1-R12", "gpu-0"),
    ]
    devices.give_back(over(command, CommandState.UNDONE))
    devices.untaint(a_command(12), "gpu-07", "GPU-0")
    assert rules(kube) == []


def test_a_rule_of_somebody_else_is_never_touched(kube: FakeKube, devices: Devices) -> None:
    command = a_command()
    devices.taint(command, "gpu-07", "GPU-1")
    (rule,) = rules(kube)
    path = f"/apis/resource.k8s.io/v1alpha3/devicetaintrules/{rule['metadata']['name']}"
    kube.edit(path, {"metadata": {"annotations": None}})
    with pytest.raises(SchedulerBusy, match="has the name of ours"):
        devices.taint(command, "gpu-07", "GPU-1")
    devices.untaint(command, "gpu-07", "GPU-1")
    devices.give_back(over(command))
    assert len(rules(kube)) == 1


def test_why_a_whole_node_is_needed_is_said(kube: FakeKube, devices: Devices) -> None:
    view = a_view(kube)
    assert why_not_one_gpu(view, "gpu-07", "GPU-1") is None
    assert "does not hand out GPUs by DRA" in str(why_not_one_gpu(View(), "gpu-07", "GPU-1"))
    assert "serves no DeviceTaintRule" in str(why_not_one_gpu(a_view(kube, {SLICES: "v1"}), "gpu-07", "GPU-1"))
    with pytest.raises(SchedulerRefused, match="No ResourceSlice of gpu-08 names GPU-1"):
        devices.taint(a_command(), "gpu-08", "GPU-1")
    assert rules(kube) == []


def test_a_mig_instance_stands_for_its_gpu_and_old_slices_are_read(kube: FakeKube) -> None:
    view = a_view(kube)
    expected = Place(driver="gpu.nvidia.com", pool="gpu-07", device="gpu-1")
    assert place_of(view, "gpu-07", "GPU-1/2/0") == expected
    basic = [{"name": one["name"], "basic": {"attributes": one["attributes"]}} for one in DEVICES]
    old = {"s": Loose(spec={**SPEC, "devices": basic})}
    assert place_of(replace(view, others={SLICES: old}), "gpu-07", "GPU-1") == expected


def test_the_line_to_copy_makes_and_ends_the_rule(kube: FakeKube, devices: Devices) -> None:
    write = Write(verb=Verb.TAINT_DEVICE, node="gpu-07", gpu="GPU-1", lasts=True)
    (line,) = lines_of([write], a_view(kube), "trimtab")
    assert line.startswith("kubectl create -f - <<< '{")
    assert '"device":"gpu-1"' in line
    command = a_command()
    devices.taint(command, "gpu-07", "GPU-1")
    back = Write(verb=Verb.UNTAINT_DEVICE, node="gpu-07", gpu="GPU-1", lifts=command.mark)
    (rule,) = rules(kube)
    assert list(lines_of([back], a_view(kube), "trimtab")) == [
        f"kubectl delete devicetaintrule {rule['metadata']['name']}"
    ]
    other = replace(back, lifts="trimtab:3fa9c1:R12")
    assert list(lines_of([other], a_view(kube), "trimtab")) == []


class Noting:
    """An adapter that notes what it is asked to hold."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: list[str] = []

    def hold(self, command: Command) -> None:
        self.held += [write.text for write in command.recommendation.writes]

    def submit(self, command: Command) -> None:
        raise AssertionError(f"nobody asked to submit {command.name}")

    def release(self, command: Command) -> None:
        raise AssertionError(f"nobody asked to release {command.name}")


@pytest.mark.parametrize(("controller", "asked"), [(None, ["kubernetes"]), ("kueue", ["kueue", "kubernetes"])])
def test_single_gpus_are_plain_kubernetes_duty_whoevers_work_is_on_them(
    controller: str | None, asked: list[str]
) -> None:
    adapters = {name: Noting(name) for name in ("kueue", "kubernetes")}
    write = Write(verb=Verb.TAINT_DEVICE, node="gpu-07", gpu="GPU-1", lasts=True)
    moves = [Move(kind=MoveKind.DRAIN, workload="a/job/b", controller=controller)] if controller else []
    Hands(adapters, is_dry_run=False).do("hold", a_command(writes=[write], moves=moves))  # type: ignore[arg-type]
    assert [name for name, one in adapters.items() if one.held == ["taint_device GPU-1 of gpu-07"]] == asked
