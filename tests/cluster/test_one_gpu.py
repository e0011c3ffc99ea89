"""One GPU is taken out alone, by a device taint, while its node goes on: on the real API server, and back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.builders import gpu_uuid
from tests.cluster.client import Json, wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.cluster.test_rights import installed as _installed
from tests.cluster.whole import Whole

installed = _installed
SLICES = "resource.k8s.io/v1/resourceslices"
RULES = "resource.k8s.io/v1alpha3/devicetaintrules"


@pytest.fixture
def whole(installed: Plane, space: Space, tmp_path: Path) -> Iterator[Whole]:
    made = Whole(installed, space, tmp_path)
    yield made
    made.close()


def a_slice(node: str) -> Json:
    """What NVIDIA's DRA driver says of a node of eight GPUs."""
    devices = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": gpu_uuid(node, index)},
                "index": {"int": index},
            },
        }
        for index in range(8)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": node,
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }


def test_a_gpu_that_needs_a_reset_goes_alone_and_comes_back(whole: Whole) -> None:
    space, client = whole.space, whole.plane.client
    node = space.add_node("n1")
    space.add(SLICES, a_slice(node))
    space.run_gang("small", pods=1, gpus=2, queue="flat")  # holds GPUs 0 and 1
    whole.up()
    whole.reporter.fail_memory(node)
    row = whole.command(f"evacuate:{node}")
    assert [write.text for write in row.command.recommendation.writes] == [
        f"taint_device {gpu_uuid(node, 3)} of {node}"
    ]
    whole.approve(row)
    whole.until(row.command.id, "settled")
    (rule,) = client.list(RULES)
    assert rule["spec"]["deviceSelector"] == {"driver": "gpu.nvidia.com", "pool": node, "device": "gpu-3"}
    assert rule["spec"]["taint"]["effect"] == "NoSchedule"
    assert not client.get("nodes", node)["spec"].get("unschedulable")
    assert space.seats("small") == [node]  # and whoever sits beside it was left alone
    answer = whole.daemon.ask("POST", f"/api/v1/recommendations/{row.command.id}/undo", {"reason": "reset by hand"})
    assert answer.status_code == 200, answer.text
    wait_for(lambda: not client.list(RULES), "the device taint gone")
