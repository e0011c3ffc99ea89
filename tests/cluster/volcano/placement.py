"""Which nodes can take a task, why the others cannot, and which of them is best. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tests.cluster.volcano.api import Object
from tests.cluster.volcano.objects import GPU, missing
from tests.cluster.volcano.session import Seat, Task

UNSCHEDULABLE_TAINT = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@dataclass(frozen=True, kw_only=True)
class Weights:
    """How a node is scored; the default is the configuration of most recordings."""

    packed: tuple[str, ...] = (GPU,)
    pack: float = 10.0
    spread: float = 1.0
    topology: float = 5.0


@dataclass(frozen=True)
class HyperNodes:
    """The topology: each HyperNode's tier and the nodes under it."""

    tiers: Mapping[str, int] = field(default_factory=dict)
    members: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def lowest_tier_of(self, nodes: Iterable[str]) -> int | None:
        """Tier of the smallest HyperNode that holds all the nodes."""
        wanted = set(nodes)
        tiers = [self.tiers[name] for name, members in self.members.items() if wanted <= members]
        return min(tiers, default=None)

    def by_tier(self, highest: int, *, holding: set[str]) -> list[list[str]]:
        """HyperNodes up to a tier, the lowest tier first, that together with the nodes already taken stay within it."""
        allowed = [
            name
            for name in sorted(self.tiers)
            if self.tiers[name] <= highest
            and (tier := self.lowest_tier_of(self.members[name] | holding)) is not None
            and tier <= highest
        ]
        return [
            [name for name in allowed if self.tiers[name] == tier]
            for tier in sorted({self.tiers[name] for name in allowed})
        ]


def hyper_nodes(objects: Iterable[Object], nodes: Iterable[Object]) -> HyperNodes:
    """The topology that the HyperNode objects spell."""
    by_name = {obj["metadata"]["name"]: obj for obj in objects}
    all_nodes = list(nodes)

    def under(name: str, seen: frozenset[str]) -> frozenset[str]:
        found: set[str] = set()
        for member in (by_name.get(name, {}).get("spec") or {}).get("members") or []:
            if member["type"] == "Node":
                found |= {node["metadata"]["name"] for node in all_nodes if _is_selected(node, member["selector"])}
            else:
                below = [one for one in by_name if one not in seen and _is_selected(by_name[one], member["selector"])]
                found |= {node for one in below for node in under(one, seen | {one})}
        return frozenset(found)

    tiers = {name: int(obj["spec"]["tier"]) for name, obj in by_name.items()}
    return HyperNodes(tiers, {name: under(name, frozenset({name})) for name in by_name})


def _is_selected(obj: Object, selector: Object) -> bool:
    name = obj["metadata"]["name"]
    if "exactMatch" in selector:
        return bool(name == selector["exactMatch"]["name"])
    if "regexMatch" in selector:
        return re.fullmatch(selector["regexMatch"]["pattern"], name) is not None
    wanted = (selector.get("labelMatch") or {}).get("matchLabels") or {}
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in wanted.items())


def unfit(task: Task, seat: Seat) -> str:
    """Why the node cannot take the task even when all that leaves has left; empty when it can."""
    lacking = missing(task.requests, seat.future_idle)
    if lacking:
        return f"Insufficient {lacking[0]}"
    spec = seat.node.get("spec") or {}
    if spec.get("unschedulable") and not _tolerates(task, UNSCHEDULABLE_TAINT):
        return "node(s) were unschedulable"
    if not _is_wanted(task, seat.node):
        return "node(s) didn't match Pod's node affinity/selector"
    taints = [taint for taint in spec.get("taints") or [] if taint["effect"] in ("NoSchedule", "NoExecute")]
    if any(not _tolerates(task, taint) for taint in taints):
        return "node(s) had untolerated taint(s)"
    return ""


def _is_wanted(task: Task, node: Object) -> bool:
    labels = node["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in (task.pod["spec"].get("nodeSelector") or {}).items())


def _tolerates(task: Task, taint: Object) -> bool:
    return any(_is_for(toleration, taint) for toleration in task.pod["spec"].get("tolerations") or [])


def _is_for(toleration: Object, taint: Object) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    return bool(toleration.get("key") == taint["key"] and toleration.get("value", "") == taint.get("value", ""))


def fit_text(reasons: Iterable[str], *, hyper_node: str = "") -> str:
    """The sentence that a pod without a place carries."""
    counted = Counter(reasons)
    lines = sorted(f"{count} {reason}" for reason, count in counted.items())
    text = f"0/{counted.total()} nodes are unavailable" + (f": {', '.join(lines)}." if lines else "")
    return f"In hyperNode {hyper_node}: {text}" if hyper_node else text


def score(task: Task, seat: Seat, weights: Weights) -> float:
    """Packs the named resources, spreads by cpu a little."""
    packed = [_share(task, seat, name) for name in task.requests if name in weights.packed]
    spread = [1.0 - _share(task, seat, name) for name in ("cpu", "memory") if name in task.requests]
    return weights.pack * 100 * _mean(packed) + weights.spread * 100 * _mean(spread)


def _share(task: Task, seat: Seat, name: str) -> float:
    there = seat.allocatable.get(name, 0.0)
    return (task.requests[name] + seat.used.get(name, 0.0)) / there if there else 0.0


def _mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0
