"""One GPU out of service, and Events, on the real API server: what its scheduler and it make of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from tests.cluster import objects
from tests.cluster.client import wait_for
from tests.cluster.plane import Plane
from tests.cluster.space import Space
from tests.schedulers.hands import Desk, a_command, over
from tests.schedulers.views import view_of

from trimtab.clock import SystemClock
from trimtab.model.command import CommandState, Move, MoveKind, Seat, Verb, Write
from trimtab.schedulers.connect import connect
from trimtab.schedulers.events import Events
from trimtab.schedulers.plain import Plain
from trimtab.settings import KubernetesSettings

DRIVER = "gpu.nvidia.com"


@pytest.fixture
def desk(plane: Plane) -> Iterator[Desk]:
    api = connect(KubernetesSettings(kubeconfig=str(plane.admin_kubeconfig)))
    yield Desk(api, clock=SystemClock())
    api.close()


def test_a_tainted_gpu_gets_no_new_work_until_it_is_given_back(desk: Desk, space: Space) -> None:
    node = space.add_node("n1")
    uuids = [f"GPU-{space.namespace}-{index}" for index in range(2)]
    _offer(space, node, uuids)
    plain = Plain(desk.pen, lambda: view_of(desk.api), desk.settings, desk.clock)
    command = a_command(writes=[Write(verb=Verb.TAINT_DEVICE, node=node, gpu=uuids[0], lasts=True)])
    plain.hold(command)
    for name in ("first", "second"):
        _claim(space, name)
    wait_for(lambda: len(space.seats()) == 1, "one of the two pods running")
    assert _devices_in_use(space) == ["gpu-1"]
    plain.release(over(command, CommandState.SETTLED))
    assert len(_rules(space)) == 1
    plain.release(over(command, CommandState.UNDONE))
    wait_for(lambda: len(space.seats()) == 2, "both pods running once the taint is given back")
    assert _rules(space) == []
    assert [what.split(" ")[0] for what in desk.said] == ["taint", "untaint"]


def test_a_tainted_gpu_returns_to_service_by_another_command(desk: Desk, space: Space) -> None:
    node = space.add_node("n1")
    uuid = f"GPU-{space.namespace}-0"
    _offer(space, node, [uuid])
    plain = Plain(desk.pen, lambda: view_of(desk.api), desk.settings, desk.clock)
    first = a_command(11, writes=[Write(verb=Verb.TAINT_DEVICE, node=node, gpu=uuid, lasts=True)])
    plain.hold(first)
    assert len(_rules(space)) == 1
    back = Write(verb=Verb.UNTAINT_DEVICE, node=node, gpu=uuid, lifts=first.mark)
    plain.submit(a_command(12, writes=[back]))
    assert _rules(space) == []


def _rules(space: Space) -> list[str]:
    names = [rule["metadata"]["name"] for rule in space.client.list("devicetaintrules")]
    return [name for name in names if name.startswith("trimtab-3fa9c1-r11-")]


def _offer(space: Space, node: str, uuids: list[str]) -> None:
    devices = [{"name": f"gpu-{index}", "attributes": {"uuid": {"string": uuid}}} for index, uuid in enumerate(uuids)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": devices}
    space.add("resourceslices", {"metadata": {"name": space.namespace}, "spec": spec})
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    space.add("deviceclasses", {"metadata": {"name": space.namespace}, "spec": {"selectors": [selector]}})


def _claim(space: Space, name: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": space.namespace}}
    claim = {"metadata": {"name": name, "namespace": space.namespace}, "spec": {"devices": {"requests": [request]}}}
    space.add("resourceclaims", claim)
    selector = {objects.POOL: space.namespace}
    spec = {"resourceClaims": [{"name": "gpu", "resourceClaimName": name}], "nodeSelector": selector}
    pod = objects.pod(name, space.namespace, gpus=0, spec=spec)
    pod["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
    space.add("pods", pod)


def _devices_in_use(space: Space) -> list[str]:
    claims = space.client.list("resourceclaims", space.namespace)
    allocations = [claim["status"]["allocation"] for claim in claims if "allocation" in claim.get("status", {})]
    return [found["device"] for one in allocations for found in one["devices"]["results"]]


def test_events_are_taken_and_counted_up_by_the_real_server(desk: Desk, space: Space) -> None:
    node = space.add_node("n1")
    space.gang("train", queue=None, pods=1, gpus=1)
    space.wait_running("train", 1)
    seat = Seat(pod=space.pods("train")[0]["metadata"]["name"], node=node, gpus=1)
    workload = f"{space.namespace}/job/train"
    move = Move(kind=MoveKind.DRAIN, workload=workload, controller="kubernetes", before=(seat,), after=(seat,))
    writes = [Write(verb=Verb.CORDON, node=node)]
    command = a_command(writes=writes, moves=[move], state=CommandState.HELD)
    events = Events(desk.api, lambda: view_of(desk.api), desk.clock, prefix="trimtab", instance="test")
    for _ in range(2):
        events.tell(replace(command, reason="keeping its room"), CommandState.APPROVED)
    assert events.counts() == {"told": 2, "repeated": 2, "failed": 0, "left_out": 0}
    path = "events.k8s.io/v1/events"
    about = {
        one["regarding"]["kind"]: one
        for one in (*space.client.list(path, "default"), *space.client.list(path, space.namespace))
        if one.get("reportingController") == "trimtab" and one["regarding"]["name"] in (node, "train")
    }
    assert about["Node"]["regarding"]["uid"] == space.client.get("nodes", node)["metadata"]["uid"]
    assert about["Job"]["regarding"]["uid"] == space.client.get("jobs", "train", space.namespace)["metadata"]["uid"]
    assert {one["series"]["count"] for one in about.values()} == {2}
