"""What the stand-in reads out of Kubernetes objects. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from tests.cluster.volcano.api import Object

GPU = "nvidia.com/gpu"
COUNTED = ("cpu", "memory", GPU)
"""The resources that are weighed; Volcano weighs every one, these are those that the recordings have."""

Resources = dict[str, float]

_SUFFIXES = {
    "m": 1e-3,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
}


def quantity(text: object) -> float:
    """The number that a Kubernetes quantity stands for."""
    raw = str(text)
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if raw.endswith(suffix):
            return float(raw[: -len(suffix)]) * _SUFFIXES[suffix]
    return float(raw)


def text_of(value: float) -> str:
    """A quantity as Volcano writes it."""
    return str(int(value)) if value == int(value) else f"{int(value * 1000)}m"


def requests_of(pod_spec: Object) -> Resources:
    """A pod's effective requests: its containers together with native sidecars, or its biggest init container."""
    total: Resources = {}
    for container in pod_spec.get("containers", []):
        total = plus(total, _requests(container))
    biggest: Resources = {}
    for container in pod_spec.get("initContainers", []):
        if container.get("restartPolicy") == "Always":
            total = plus(total, _requests(container))
        else:
            biggest = most(biggest, _requests(container))
    return most(total, biggest)


def _requests(container: Object) -> Resources:
    resources = container.get("resources", {})
    named = {**resources.get("limits", {}), **resources.get("requests", {})}
    return {name: quantity(value) for name, value in named.items() if name in COUNTED}


def plus(left: Resources, right: Resources) -> Resources:
    """The sum, resource by resource."""
    return {name: left.get(name, 0.0) + right.get(name, 0.0) for name in {**left, **right}}


def minus(left: Resources, right: Resources) -> Resources:
    """The difference, resource by resource, never below zero."""
    return {name: max(0.0, value - right.get(name, 0.0)) for name, value in left.items()}


def most(left: Resources, right: Resources) -> Resources:
    """The larger of the two, resource by resource."""
    return {name: max(left.get(name, 0.0), right.get(name, 0.0)) for name in {**left, **right}}


def times(count: int, resources: Resources) -> Resources:
    """The same resources `count` times."""
    return {name: value * count for name, value in resources.items()}


def added(many: Iterable[Resources]) -> Resources:
    """The sum of many."""
    total: Resources = {}
    for one in many:
        total = plus(total, one)
    return total


def missing(wanted: Resources, there: Resources) -> list[str]:
    """Names of the resources of which there is not enough."""
    return sorted(name for name, value in wanted.items() if value > there.get(name, 0.0) + 1e-9)


def key_of(obj: Object) -> tuple[str, str]:
    """Namespace and name."""
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def uid_of(obj: Object) -> str:
    return str(obj["metadata"].get("uid", ""))


def version_of(obj: Object) -> int:
    """The resource version as a number: etcd's are."""
    return int(obj["metadata"].get("resourceVersion", 0))


def annotation(obj: Object, name: str, default: str = "") -> str:
    return str((obj["metadata"].get("annotations") or {}).get(name, default))


def is_terminating(obj: Object) -> bool:
    return "deletionTimestamp" in obj["metadata"]


def controller_of(obj: Object) -> Object | None:
    """The owner that controls it, if any."""
    for owner in obj["metadata"].get("ownerReferences") or []:
        if owner.get("controller"):
            return dict(owner)
    return None


def phase_of(obj: Object) -> str:
    return str((obj.get("status") or {}).get("phase", ""))


def condition(obj: Object, type_: str) -> Object | None:
    """The condition of that type, if it has one."""
    for one in (obj.get("status") or {}).get("conditions") or []:
        if one.get("type") == type_:
            return dict(one)
    return None


def with_condition(conditions: list[Object], new: Object) -> list[Object]:
    """The list with that condition in place of the one of its type."""
    if any(one.get("type") == new["type"] for one in conditions):
        return [new if one.get("type") == new["type"] else one for one in conditions]
    return [*conditions, new]


def owned_by(obj: Object, *, api_version: str, kind: str) -> list[Object]:
    """What a new object writes to be owned and controlled by this one."""
    return [
        {
            "apiVersion": api_version,
            "kind": kind,
            "name": obj["metadata"]["name"],
            "uid": uid_of(obj),
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]
