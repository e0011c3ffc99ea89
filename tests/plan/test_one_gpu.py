"""One GPU is taken out alone where its reset suffices and the cluster can do it; else its node is."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import a_finding, a_node, a_snapshot, a_workload, gpu_uuid

from trimtab.model.advice import Action
from trimtab.model.command import Budget, Verb, Write
from trimtab.plan.planner import Planner
from trimtab.plan.restore import TakenOut
from trimtab.settings import PlanSettings

BAD = gpu_uuid("gpu-00", 3)
MARK = "trimtab:3fa9c1:R11"


def node(name="gpu-00", *, is_separable=True, **changes):
    made = a_node(name, **changes)
    return replace(made, gpus=tuple(replace(gpu, is_separable=is_separable) for gpu in made.gpus))


def propose(*nodes, action=Action.CORDON_RESET, gpu=3, workloads=(), taken_out=(), findings=None):
    found = [a_finding(node="gpu-00", gpu=gpu, action=action)] if findings is None else findings
    snapshot = a_snapshot([*nodes, node("gpu-01")], workloads)
    return Planner(PlanSettings(spares_kept=0)).propose(snapshot, found, Budget(), taken_out=taken_out)


def test_only_what_holds_the_bad_gpu_moves_and_the_node_goes_on():
    sits_on_it = a_workload("a", on={"gpu-00": [3]})
    beside_it = a_workload("b", on={"gpu-00": [0, 1]})
    (advice,) = propose(node(), workloads=[sits_on_it, beside_it]).recommendations
    assert advice.writes[0] == Write(verb=Verb.TAINT_DEVICE, node="gpu-00", gpu=BAD, lasts=True)
    assert Verb.CORDON not in [write.verb for write in advice.writes]
    assert [move.workload for move in advice.moves] == ["research/a"]
    assert advice.sentence.startswith("Take GPU 3 of gpu-00 out of service alone")


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"action": Action.CORDON_REBOOT}, "a reboot takes the node"),
        ({"action": Action.HARDWARE_RMA}, "a swap takes the node"),
        ({"gpu": None}, "nobody knows which GPU"),
    ],
)
def test_the_node_goes_where_one_gpu_does_not_suffice(changes, why):
    (advice,) = propose(node(), **changes).recommendations
    assert [write.verb for write in advice.writes] == [Verb.CORDON], why


def test_the_node_goes_where_the_cluster_cannot_take_one_gpu_out():
    (advice,) = propose(node(is_separable=False)).recommendations
    assert [write.verb for write in advice.writes] == [Verb.CORDON]


def test_one_that_is_out_already_is_not_taken_out_again():
    out = node()
    gpus = tuple(
        replace(gpu, is_usable=gpu.uuid != BAD, tainted_by=MARK if gpu.uuid == BAD else None) for gpu in out.gpus
    )
    assert propose(replace(out, gpus=gpus)).recommendations == ()


def test_it_comes_back_alone_when_its_gate_is_met():
    closed = replace(
        a_finding(node="gpu-00", action=Action.CORDON_RESET), state="closed", close_reason="well for 10 min"
    )
    out = TakenOut(node="gpu-00", gpu=BAD, mark=MARK, command="R11", findings=(closed,))
    (advice,) = propose(node(), taken_out=[out], findings=[]).recommendations
    assert advice.writes == (Write(verb=Verb.UNTAINT_DEVICE, node="gpu-00", gpu=BAD, lifts=MARK),)
    assert advice.sentence == "Return GPU 3 of gpu-00 to service"
    assert advice.gain.gpus_unlocked == 1
