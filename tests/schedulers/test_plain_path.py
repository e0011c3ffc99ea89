"""Plain Kubernetes from finding to outcome on the fake API: reader, planner, issuer and adapter together."""

from __future__ import annotations

import pytest
from tests.schedulers.plain_rig import PlainRig


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
