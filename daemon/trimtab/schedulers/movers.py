"""Others that move work off nodes, seen by their marks: where one is at work, we stand back. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.schedulers.objects import Loose, NodeObject

UPGRADE_STATE = "nvidia.com/gpu-driver-upgrade-state"
UPGRADE_OVER = frozenset({"", "upgrade-done", "unknown"})
SENTINEL_STATE = "dgxc.nvidia.com/nvsentinel-state"
SENTINEL = "k8saas.nvidia.com/"
TAINTS: Mapping[str, str] = {
    "karpenter.sh/disrupted": "Karpenter",
    "karpenter.sh/disruption": "Karpenter",
    "ToBeDeletedByClusterAutoscaler": "the cluster autoscaler",
    "DeletionCandidateOfClusterAutoscaler": "the cluster autoscaler",
    "node.cloudprovider.kubernetes.io/shutdown": "the cloud provider",
    "aws-node-termination-handler/": "the AWS node termination handler",
}
"""Start of a taint's key -> who sets it while it takes a node away."""
ANNOTATIONS: Mapping[str, str] = {
    "weave.works/kured-reboot-in-progress": "kured",
}
HANDS_OFF: Mapping[str, str] = {f"{SENTINEL}ManagedByNVSentinel": "false", "karpenter.sh/do-not-disrupt": "true"}
"""Marks by which a person keeps automation off a node."""


def other_mover_of(node: NodeObject, *, claims: Mapping[str, str], evicted: frozenset[str]) -> str | None:
    """Who is at work on the node, in words that fit before "is at work on it"; None = nobody.

    `claims`: node -> name of its Karpenter NodeClaim that is being deleted. `evicted`: nodes where a descheduler has
    evictions under way.
    """
    name = node.metadata.name
    if node.metadata.deletion_timestamp is not None:
        return "whoever deletes the node"
    return (
        _by_taint(node)
        or _upgrade(node)
        or _sentinel(node)
        or (f"Karpenter (it deletes NodeClaim {claims[name]})" if name in claims else None)
        or ("a descheduler" if name in evicted else None)
        or _by_annotation(node)
        or _hands_off(node)
    )


def _by_taint(node: NodeObject) -> str | None:
    for taint in node.spec.taints:
        for key, mover in TAINTS.items():
            if taint.key == key or (key.endswith("/") and taint.key.startswith(key)):
                return f"{mover} (taint {taint.key})"
    return None


def _upgrade(node: NodeObject) -> str | None:
    state = node.metadata.labels.get(UPGRADE_STATE, "")
    return None if state in UPGRADE_OVER else f"the GPU Operator's driver upgrade ({state})"


def _sentinel(node: NodeObject) -> str | None:
    marks = {**node.metadata.annotations, **node.metadata.labels}
    state = marks.get(SENTINEL_STATE)
    if state:
        return f"NVSentinel ({state})"
    is_cordoned = bool(marks.get(f"{SENTINEL}cordon-by")) and not marks.get(f"{SENTINEL}uncordon-by")
    return "NVSentinel (it cordoned the node)" if is_cordoned and node.spec.unschedulable else None


def _by_annotation(node: NodeObject) -> str | None:
    return next((mover for key, mover in ANNOTATIONS.items() if key in node.metadata.annotations), None)


def _hands_off(node: NodeObject) -> str | None:
    marks = {**node.metadata.annotations, **node.metadata.labels}
    found = next((f"{key}={value}" for key, value in HANDS_OFF.items() if marks.get(key) == value), None)
    return None if found is None else f"somebody who keeps automation off it ({found})"


def dying_claims(claims: Mapping[str, Loose]) -> Mapping[str, str]:
    """Node -> its NodeClaim, of those that are being deleted."""
    return {
        str(one.status["nodeName"]): one.metadata.name
        for one in claims.values()
        if one.metadata.deletion_timestamp is not None and one.status.get("nodeName")
    }
