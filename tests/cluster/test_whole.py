"""The daemon as a process on the real control plane: from the kernel's line to the pod on another node."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cluster import objects
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole

installed = _installed
ONE_RACK = {objects.REQUIRED_TOPOLOGY: objects.RACK}
DECLARED = {"trimtab/replaceable-pods": "true"}


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path) -> Iterator[Whole]:
    made = Whole(installed, space, tmp_path)
    yield made
    made.close()


def test_a_fallen_gpu_under_a_gang_that_declares_it_costs_one_pod(whole: Whole, capsys) -> None:
    space = whole.space
    space.add_racks(racks=2, nodes_per_rack=5)
    space.run_gang("train", pods=4, gpus=8, topology=ONE_RACK, can_replace_pods=True, annotations=DECLARED)
    before = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in space.pods("train")}
    bad = space.seats("train")[0]
    whole.up()
    whole.reporter.break_gpu(bad)
    row = whole.command(f"evacuate:{bad}")
    assert [write.verb for write in row.command.recommendation.writes] == ["cordon", "reserve", "replace"]
    whole.approve(row)
    settled = whole.until(row.command.id, "settled")
    after = {one["metadata"]["uid"]: one["spec"]["nodeName"] for one in space.pods("train")}
    kept = {uid for uid, node in before.items() if node != bad}
    assert kept < set(after)
    assert bad not in after.values()
    assert len({space.rack_of(node) for node in after.values()}) == 1
    with capsys.disabled():
        print(f"\nstory a, whole: {settled.command.reason}")
