"""Bodies of the objects that the Volcano scenarios create."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.cluster.volcano.api import HYPER_NODE, JOB, Object


def a_job(
    name: str,
    namespace: str,
    *,
    tasks: Sequence[Object] | None = None,
    replicas: int = 4,
    gpus: int = 8,
    min_available: int | None = None,
    **spec: Any,
) -> Object:
    """A vcjob's body: one task `worker`, unless others are given."""
    chosen = list(tasks) if tasks is not None else [a_task("worker", replicas, gpus=gpus)]
    needed = sum(task["replicas"] for task in chosen) if min_available is None else min_available
    filled = {"schedulerName": "volcano", "queue": "default", "minAvailable": needed, "tasks": chosen, **spec}
    return {
        "apiVersion": JOB.version,
        "kind": "Job",
        "metadata": {"name": name, "namespace": namespace},
        "spec": filled,
    }


def a_task(name: str, replicas: int, *, gpus: int = 8, annotations: Object | None = None, **more: Any) -> Object:
    """A task of a vcjob."""
    metadata = {"annotations": dict(annotations or {}), "labels": {}}
    return {"name": name, "replicas": replicas, "template": {"metadata": metadata, "spec": _pod_spec(gpus)}, **more}


def a_pod(name: str, namespace: str, *, gpus: int = 1, annotations: Object | None = None) -> Object:
    """A bare pod for Volcano."""
    metadata = {"name": name, "namespace": namespace, "annotations": dict(annotations or {}), "labels": {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {**_pod_spec(gpus), "schedulerName": "volcano"},
    }


def _pod_spec(gpus: int) -> Object:
    resources = {"requests": {"nvidia.com/gpu": str(gpus), "cpu": "1"}, "limits": {"nvidia.com/gpu": str(gpus)}}
    return {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x", "resources": resources}]}


def a_hyper_node(name: str, tier: int, type_: str, members: Sequence[str]) -> Object:
    """A HyperNode over nodes or other HyperNodes."""
    chosen = [{"type": type_, "selector": {"exactMatch": {"name": member}}} for member in members]
    spec = {"tier": tier, "members": chosen}
    return {"apiVersion": HYPER_NODE.version, "kind": "HyperNode", "metadata": {"name": name}, "spec": spec}
