"""Plain Kubernetes from finding to outcome on the fake API: reader, planner, issuer and adapter together."""

from __future__ import annotations

import pytest
from tests.schedulers.plain_hall import NAMESPACE
from tests.schedulers.plain_rig import PlainRig

from trimtab.model.command import CommandState


def a_rig_with(kind: str) -> PlainRig:
    rig = PlainRig()
    rig.hall.add(kind, "web", pods=2, gpus=8, on=["n1", "n2"])
    return rig


@pytest.mark.parametrize("kind", ["job", "deployment", "statefulset"])
def test_a_bad_node_is_emptied_and_stays_closed(kind: str) -> None:
    rig = a_rig_with(kind)
    rig.bad("n1")
    rig.beat_until(rig.has_settled)
    rig.beat()
    assert "n1" not in rig.hall.seats("web")
    assert len(rig.hall.seats("web")) == 2
    assert rig.left() == ["(n1: cordon)"]
    stopped = [line.what for line in rig.lines if line.what.startswith(("suspend", "evict"))]
    assert len(stopped) == 1


def test_room_is_made_for_a_job_that_waits() -> None:
    rig = PlainRig(nodes=2)
    rig.hall.add("job", "a", pods=1, gpus=2, on=["n1"])
    rig.hall.add("job", "b", pods=1, gpus=2, on=["n2"])
    rig.hall.add("job", "wide", pods=1, gpus=8)
    rig.hall.step()
    rig.beat_until(lambda: any(one.state.is_begun for one in rig.commands))
    for number in range(8):
        rig.hall.add_small_pod(f"small-{number}")
    rig.beat_until(lambda: rig.hall.seats("wide"))
    rig.beat_until(rig.has_settled)
    rig.beat()
    assert (len(rig.hall.seats("a")), len(rig.hall.seats("b"))) == (1, 1)
    assert rig.left() == []


@pytest.mark.parametrize("text", [None, "not a list"], ids=["wiped", "garbled"])
def test_a_job_whose_mark_is_taken_off_while_it_is_stopped_is_started_again(text: str | None) -> None:
    rig = a_rig_with("job")
    rig.bad("n1")
    rig.beat_until(lambda: rig.hall.owner("job", "web")["spec"].get("suspend"))
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/web"
    rig.kube.edit(path, {"metadata": {"annotations": {"trimtab/hold": text}}})
    rig.beat()
    assert rig.commands[0].state is CommandState.REFUSED
    assert "took our mark off job/web" in rig.commands[0].reason
    rig.beat_until(lambda: len(rig.hall.seats("web")) == 2)
    assert rig.hall.owner("job", "web")["spec"]["suspend"] is False


def test_a_job_that_a_person_suspended_stays_theirs_when_our_mark_is_gone() -> None:
    rig = a_rig_with("job")
    rig.bad("n1")
    rig.beat_until(lambda: rig.hall.owner("job", "web")["spec"].get("suspend"))
    path = f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/web"
    rig.kube.edit(path, {"metadata": {"annotations": {"trimtab/hold": None}}, "spec": {"suspend": False}}, by="kubectl")
    rig.kube.edit(path, {"spec": {"suspend": True}}, by="kubectl")
    for _ in range(6):
        rig.beat()
    assert rig.hall.owner("job", "web")["spec"]["suspend"] is True


@pytest.mark.parametrize("kind", ["job", "deployment"])
def test_nothing_is_stopped_whose_seat_a_person_opened(kind: str) -> None:
    rig = a_rig_with(kind)
    rig.bad("n1")

    def kept() -> list[str]:
        nodes = rig.kube.all("nodes")
        return [one["metadata"]["name"] for one in nodes if "trimtab/seat" in str(one["spec"].get("taints"))]

    rig.beat_until(kept)
    rig.kube.edit(f"/api/v1/nodes/{kept()[0]}", {"spec": {"taints": []}})
    for _ in range(2):
        rig.beat()
    assert not [line.what for line in rig.lines if line.what.startswith(("suspend", "evict"))]
    first = rig.commands[0]
    assert (first.state, "a veto" in first.reason) == (CommandState.UNDONE, True)
    assert rig.left() in ([], ["(n1: cordon)"])
