"""Where a stand-in of Kueue puts pods: domains of a Topology by what is free, as the real one answers. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.fakes.kube import FakeKube
from tests.fakes.kube_paths import address_of
from tests.fakes.kube_store import State

Json = dict[str, Any]
GPU = "nvidia.com/gpu"
HOSTNAME = "kubernetes.io/hostname"
CORDONED = "node.kubernetes.io/unschedulable"


class Seen:
    """What the fake server has, without copies: what comes back is not to be changed."""

    def __init__(self, kube: FakeKube) -> None:
        self._kube = kube
        self._state: State | None = None
        self._kinds: dict[str, list[Json]] = {}

    def all(self, kind: str) -> list[Json]:
        """All objects of a kind, by key."""
        state = self._kube.snapshot()
        if state is not self._state:
            self._state, self._kinds = state, {}
            for key, one in sorted(state.objects.items()):
                self._kinds.setdefault(key[0], []).append(one)
        return self._kinds.get(kind, [])

    def see(self, path: str) -> Json | None:
        """One object, or None."""
        address = address_of(path)
        return self._kube.snapshot().objects.get(address.key) if address else None


@dataclass(frozen=True)
class Wish:
    """What one Workload asks for: so many pods of so many GPUs, on nodes with these labels, in one domain."""

    pods: int
    gpus: int
    selector: Mapping[str, str]
    required: str | None = None


def conditions(one: Json) -> dict[str, tuple[str, str]]:
    """Type -> (status, reason)."""
    found = (one.get("status") or {}).get("conditions") or []
    return {item["type"]: (item["status"], item.get("reason", "")) for item in found}


def is_true(one: Json, kind: str) -> bool:
    return conditions(one).get(kind, ("", ""))[0] == "True"


def gpus_of(pod_spec: Json) -> int:
    """GPUs of a pod's containers together."""
    asked = ((one.get("resources") or {}).get("limits") or {} for one in pod_spec.get("containers") or [])
    return sum(int(one.get(GPU, 0)) for one in asked)


def is_open(node: Json) -> bool:
    """Whether TAS counts the node: ready, not cordoned, no taint that keeps pods off."""
    if (node.get("spec") or {}).get("unschedulable") or not is_true(node, "Ready"):
        return False
    return not any(one.get("effect") in ("NoSchedule", "NoExecute") for one in node["spec"].get("taints") or [])


def assignment_of(workload: Json) -> Counter[str]:
    """Node -> pods by the topology assignment; each slice names one node, as this stand-in writes it."""
    found: Counter[str] = Counter()
    for item in ((workload.get("status") or {}).get("admission") or {}).get("podSetAssignments") or []:
        for part in (item.get("topologyAssignment") or {}).get("slices") or []:
            found[part["valuesPerLevel"][-1]["universal"]] += part["podCounts"]["universal"]
    return found


def topology_of(seats: Mapping[str, int]) -> Json:
    """An assignment in the API's shape."""
    slices = [
        {"domainCount": 1, "podCounts": {"universal": pods}, "valuesPerLevel": [{"universal": node}]}
        for node, pods in sorted(seats.items())
    ]
    return {"levels": [HOSTNAME], "slices": slices}


def free_gpus(nodes: Iterable[Json], workloads: Iterable[Json], pods: Iterable[Json]) -> dict[str, int]:
    """Node -> GPUs that no assignment and no pod of another queue has."""
    free = {one["metadata"]["name"]: int(one["status"]["allocatable"].get(GPU, 0)) for one in nodes}
    for workload in workloads:
        pod_set = workload["spec"]["podSets"][0]
        for node, count in assignment_of(workload).items():
            if node in free:
                free[node] -= count * gpus_of(pod_set["template"]["spec"])
    for pod in pods:
        node, is_over = pod["spec"].get("nodeName"), pod.get("status", {}).get("phase") in ("Succeeded", "Failed")
        has_topology = HOSTNAME in (pod["spec"].get("nodeSelector") or {})
        if node in free and not is_over and not has_topology:
            free[node] -= gpus_of(pod["spec"])
    return free


def place(wish: Wish, nodes: Iterable[Json], free: Mapping[str, int]) -> Counter[str] | str:
    """Node -> pods, all in one domain where that is required; or what Kueue says where it cannot."""
    able = [
        one
        for one in nodes
        if is_open(one) and dict(wish.selector).items() <= (one["metadata"].get("labels") or {}).items()
    ]
    if not able:
        return f"no topology domains at level: {wish.required or HOSTNAME}"
    domains: dict[str, list[str]] = {}
    for node in able:
        labels = node["metadata"]["labels"]
        domains.setdefault(labels.get(wish.required, "") if wish.required else "", []).append(node["metadata"]["name"])
    best = 0
    for _, names in sorted(domains.items(), key=lambda item: (sum(free[name] for name in item[1]), item[0])):
        seats = _fill(wish, names, free)
        if sum(seats.values()) == wish.pods:
            return seats
        best = max(best, sum(seats.values()))
    if best:
        return f'topology "dc" allows to fit only {best} out of {wish.pods} pod(s)'
    return (
        f'topology "dc" doesn\'t allow to fit any of {wish.pods} pod(s). Total nodes: {len(able)}; '
        f'excluded: resource "{GPU}": {len(able)}'
    )


def _fill(wish: Wish, names: list[str], free: Mapping[str, int]) -> Counter[str]:
    """The node that one pod fits most tightly; several pods over the fewest nodes."""
    order = sorted(names, key=lambda name: (free[name] if wish.pods == 1 else -free[name], name))
    seats: Counter[str] = Counter()
    for name in order:
        fits = min(free[name] // wish.gpus if wish.gpus else wish.pods, wish.pods - sum(seats.values()))
        if fits > 0:
            seats[name] = fits
    return seats
