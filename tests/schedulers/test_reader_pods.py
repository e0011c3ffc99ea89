"""What pods take: requests, sidecars, MIG, shares, claims; and which GPU that is."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schedulers.reading import GPU, a_cluster, a_metadata, devices, job, job_pods, node, pod, unschedulable

from trimtab.model.cluster import WorkloadState
from trimtab.model.devices import Device, NodeDevices
from trimtab.schedulers.objects import Container, PodSpec
from trimtab.schedulers.objects import Resources as Asked
from trimtab.schedulers.pods import Resources, elastic_of, need_of, quantity
from trimtab.schedulers.slots import Offer, Want, gpus_of, held_gpus

GPUS = Resources(gpu=GPU)


def asking(gpus: int, *, limit_only: bool = False, restart: str = "") -> Container:
    amounts = {GPU: str(gpus)} if gpus else {}
    asked = Asked(limits=amounts) if limit_only else Asked(requests=amounts, limits=amounts)
    return Container(resources=asked, restart_policy=restart)


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("500m", 0.5), ("2Ti", 2 * 2**40), ("1e3", 1000), ("1k", 1000), (4, 4), ("0", 0), ("nonsense", 0)],
)
def test_quantities_are_read_as_kubernetes_writes_them(text: Any, number: float):
    assert quantity(text) == number


@pytest.mark.parametrize(
    ("containers", "inits", "gpus"),
    [
        ([asking(4), asking(2)], [], 6),
        ([asking(4, limit_only=True)], [], 4),
        ([asking(1)], [asking(8)], 8),  # an init container reserves 8 although 1 is used later
        ([asking(4)], [asking(2, restart="Always")], 6),  # a sidecar runs on beside the containers
        ([asking(1)], [asking(2, restart="Always"), asking(4)], 6),  # and beside the init containers after it
        ([asking(1)], [asking(4), asking(2, restart="Always")], 4),  # not beside those before it
        ([asking(0)], [], 0),
    ],
)
def test_the_effective_request_counts_sidecars_and_the_largest_init_container(containers, inits, gpus):
    need = need_of(PodSpec(containers=containers, init_containers=inits), GPUS)
    assert (need.gpus, bool(need)) == (gpus, gpus > 0)


def test_mig_instances_and_shares_are_parts_and_no_whole_gpus():
    asked = Asked(limits={"nvidia.com/mig-1g.10gb": "2", "nvidia.com/gpu.shared": "1", "cpu": "8"})
    need = need_of(PodSpec(containers=[Container(resources=asked)]), GPUS)
    assert (need.gpus, need.parts) == (0, (("nvidia.com/gpu.shared", 1), ("nvidia.com/mig-1g.10gb", 2)))


@pytest.mark.parametrize(
    ("container", "span"),
    [
        ({"command": ["torchrun", "--nnodes=2:8", "train.py"]}, (2, 8)),
        ({"args": ["--nnodes", "1:4"]}, (1, 4)),
        ({"command": ["sh", "-c", "torchrun --nnodes='2:4' train.py"]}, (2, 4)),
        ({"env": [{"name": "PET_NNODES", "value": "3:6"}]}, (3, 6)),
        ({"command": ["torchrun", "--nnodes=4"]}, None),
        ({"args": ["--nnodes=4:4"]}, None),
    ],
)
def test_torchruns_span_is_found_where_it_is_given(container, span):
    spec = PodSpec(containers=[msgspec.convert(container, Container)])
    assert elastic_of(spec) == span


# --- which GPU


def test_gpus_that_nothing_gives_out_are_not_usable_and_the_lost_one_is_it():
    says = {"n0": devices("n0", lost=(6,))}
    unusable = [one.index for one in a_cluster(node("n0", offered=7), says=says).node("n0").gpus if not one.is_usable]
    assert unusable == [6]


def test_a_gpu_that_the_driver_no_longer_shows_keeps_its_place_and_is_not_usable():
    says = {"n0": NodeDevices(devices=tuple(one for one in devices("n0").devices if one.index != 2))}
    found = a_cluster(node("n0", offered=7), says=says).node("n0").gpus
    assert [(one.uuid, one.is_usable) for one in found if one.index in (1, 2, 3)] == [
        ("GPU-n0-1", True),
        ("n0#2", False),
        ("GPU-n0-3", True),
    ]


def test_a_node_without_its_device_plugin_has_gpus_and_none_of_use():
    found = a_cluster(node("n0", gpus=0), says={"n0": devices("n0")}).node("n0").gpus
    assert (len(found), sum(one.is_usable for one in found)) == (8, 0)


def test_a_gpu_that_an_unknown_pod_holds_is_dealt_out_last():
    says = {"n0": devices("n0", {0: "other/pod"})}
    cluster = a_cluster(node("n0"), job("train"), *job_pods("train", "n0", gpus=2), says=says)
    assert cluster.workload("team-a/job/train").placements[0].gpus == ("GPU-n0-1", "GPU-n0-2")


names = st.sampled_from([f"pod-{index}" for index in range(6)])


@given(
    counts=st.tuples(st.integers(0, 8), st.integers(0, 8), st.integers(0, 8)),
    asked=st.lists(st.integers(1, 8), max_size=6),
    said=st.dictionaries(st.integers(0, 7), names, max_size=8),
    before=st.dictionaries(names, st.lists(st.integers(0, 7), max_size=8, unique=True), max_size=6),
)
def test_no_gpu_is_dealt_twice_and_nobody_gets_more_than_asked(counts, asked, said, before):
    capacity, out, shown = counts
    known = devices("n0", {index: pod for index, pod in said.items() if index < shown}, gpus=shown)
    offer = Offer(name="n0", capacity=capacity, allocatable=max(capacity - out, 0), model=None)
    gpus = gpus_of(offer, known, ())
    assert len({one.uuid for one in gpus}) == len(gpus) == max(capacity, shown)
    assert sum(one.is_usable for one in gpus) == min(offer.allocatable, len(gpus))
    wants, left = [], len(gpus)
    for index, count in enumerate(asked):
        if count <= left:
            wants.append(Want(pod=f"pod-{index}", uid=f"pod-{index}", gpus=count))
            left -= count
    dealt = {pod: tuple(f"GPU-n0-{index}" for index in indexes) for pod, indexes in before.items()}
    held = held_gpus(gpus, known, wants, dealt)
    flat = [uuid for want in wants for uuid in held[want.pod]]
    assert len(flat) == len(set(flat))
    assert set(flat) <= {one.uuid for one in gpus}
    assert all(len(held[want.pod]) == want.gpus for want in wants)


# --- parts of GPUs


def test_a_mig_pod_holds_the_parent_that_the_agent_names_and_is_not_moved():
    slices = Device(uuid="GPU-n0-0/3", index=0, holders=("team-a/small-0-x",), is_slice=True)
    says = {"n0": NodeDevices(devices=(*devices("n0").devices, slices))}
    asks = {"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}
    small = job_pods("small", "n0", spec={"containers": [asks]})
    cluster = a_cluster(node("n0", gpus=7, capacity={"nvidia.com/mig-1g.10gb": "7"}), job("small"), *small, says=says)
    workload = cluster.workload("team-a/job/small")
    assert workload.placements[0].gpus == ("GPU-n0-0",)
    assert workload.why_fixed == "runs on MIG instances or shared GPUs, which are not planned for"
    assert [one.is_usable for one in cluster.node("n0").gpus] == [False, *[True] * 7]


def test_a_waiting_mig_job_asks_for_no_whole_gpu():
    spec = {"containers": [{"resources": {"limits": {"nvidia.com/mig-1g.10gb": "1"}}}]}
    waiting = a_cluster(node("n0"), job("small", pod_spec=spec), pod("x", gpus=1)).workload("team-a/job/small")
    assert (waiting.state, waiting.gpus_per_pod) == (WorkloadState.WAITING, 0)


def test_a_node_that_gives_its_gpus_out_in_shares_is_closed_to_plans():
    labels = {
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.product": "NVIDIA-H200-SHARED",
        "nvidia.com/gpu.count": "8",
    }
    says = {"n0": NodeDevices(devices=(Device(uuid="GPU-n0-0", index=0, holders=("team-a/a-0-x", "team-a/b-0-x")),))}
    cluster = a_cluster(
        node("n0", gpus=32, labels=labels),
        *(each for name in "ab" for each in (job(name, gpus=1), *job_pods(name, "n0", gpus=1))),
        says=says,
    )
    found = cluster.node("n0")
    assert (found.why_closed, len(found.gpus), found.pool) == ("shared GPUs", 8, "NVIDIA-H200-SHARED")
    assert [cluster.workload(f"team-a/job/{name}").placements[0].gpus for name in "ab"] == [("GPU-n0-0",)] * 2
    assert "shared" in (cluster.workload("team-a/job/a").why_fixed or "")


# --- DRA


def dra_slice(name: str) -> dict[str, Any]:
    devices_ = [
        {
            "name": f"gpu-{index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": f"GPU-dra-{name}-{index}"},
                "productName": {"string": "NVIDIA H200"},
            },
        }
        for index in range(4)
    ]
    spec = {"driver": "gpu.nvidia.com", "pool": {"name": name}, "nodeName": name, "devices": devices_}
    return {"kind": "ResourceSlice", "metadata": a_metadata(f"{name}-slice", ""), "spec": spec}


def dra_claim(name: str, node_: str, *indexes: int, count: int = 2) -> dict[str, Any]:
    results = [{"driver": "gpu.nvidia.com", "pool": node_, "device": f"gpu-{index}"} for index in indexes]
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.nvidia.com", "count": count}}
    status = {"allocation": {"devices": {"results": results}}} if results else {}
    return {
        "kind": "ResourceClaim",
        "metadata": a_metadata(name),
        "spec": {"devices": {"requests": [request]}},
        "status": status,
    }


def dra_pods(name: str, on: str, claim: str, **more: Any):
    return job_pods(
        name,
        on,
        gpus=0,
        spec={"resourceClaims": [{"name": "gpus", "resourceClaimTemplateName": "two"}]},
        **{
            "status": {
                "resourceClaimStatuses": [{"name": "gpus", "resourceClaimName": claim}],
                **more.get("status", {}),
            }
        },
    )


def test_claims_say_which_gpus_a_pod_holds():
    cluster = a_cluster(
        node("n0", gpus=0),
        dra_slice("n0"),
        dra_claim("two-x", "n0", 1, 3),
        job("train", gpus=0),
        *dra_pods("train", "n0", "two-x"),
    )
    workload = cluster.workload("team-a/job/train")
    assert workload.gpus_per_pod == 2
    assert workload.placements[0].gpus == ("GPU-dra-n0-1", "GPU-dra-n0-3")
    assert [one.uuid for one in cluster.snapshot().free_gpus["n0"]] == ["GPU-dra-n0-0", "GPU-dra-n0-2"]


def test_a_claim_that_is_not_allocated_counts_what_it_asks_for():
    waits = dra_pods("train", "", "two-x", status=unschedulable("0/1 nodes are available: cannot allocate all claims."))
    cluster = a_cluster(node("n0", gpus=0), dra_slice("n0"), dra_claim("two-x", "n0"), job("train", gpus=0), *waits)
    workload = cluster.workload("team-a/job/train")
    assert (workload.state, workload.gpus_per_pod) == (WorkloadState.WAITING, 2)
    assert workload.waiting_reason == "0/1 nodes are available: cannot allocate all claims."


def test_a_device_that_a_rule_taints_is_not_usable():
    rule = {
        "kind": "DeviceTaintRule",
        "metadata": a_metadata("bad", ""),
        "spec": {
            "deviceSelector": {"driver": "gpu.nvidia.com", "pool": "n0", "device": "gpu-2"},
            "taint": {"key": "trimtab/unhealthy", "effect": "NoSchedule"},
        },
    }
    found = a_cluster(node("n0", gpus=0), dra_slice("n0"), rule).node("n0").gpus
    assert [one.is_usable for one in found] == [True, True, False, True]
