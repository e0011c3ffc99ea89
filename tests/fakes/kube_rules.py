"""What a server and its disruption controller decide: budgets, evictions, and which fields of a pod may change."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

Json = dict[str, Any]

DISRUPTED_SECONDS = 120
"""How long the controller believes that an evicted pod is about to go."""
OVER = ("Succeeded", "Failed")


class Denied(Exception):
    """An answer of 400 and above."""

    def __init__(self, code: int, message: str, **details: Any) -> None:
        super().__init__(message)
        self.code = code
        self.status = {"kind": "Status", "status": "Failure", "code": code, "message": message, "details": details}


def selects(selector: Json | None, labels: Json) -> bool:
    """Whether a label selector (matchLabels, matchExpressions) takes these labels; none takes nothing."""
    if selector is None:
        return False
    if any(labels.get(key) != value for key, value in (selector.get("matchLabels") or {}).items()):
        return False
    return all(_expression(one, labels) for one in selector.get("matchExpressions") or [])


def is_selected(one: Json, params: Mapping[str, str]) -> bool:
    """Whether labelSelector and fieldSelector (equality only) take an object."""
    labels = one["metadata"].get("labels") or {}
    terms = [term for term in (params.get("labelSelector") or "").split(",") if term]
    wanted = dict(term.split("=", 1) for term in terms if "=" in term)
    if not selects({"matchLabels": wanted}, labels) or any(term not in labels for term in terms if "=" not in term):
        return False
    for term in (params.get("fieldSelector") or "").split(","):
        if term:
            name, _, value = term.replace("!=", "=!").partition("=")
            found: Any = one
            for part in name.split("."):
                found = (found or {}).get(part)
            is_same = (found or "") == value.removeprefix("!")
            if is_same is value.startswith("!"):
                return False
    return True


def _expression(one: Json, labels: Json) -> bool:
    key, values = one["key"], one.get("values") or []
    holds = {
        "In": labels.get(key) in values,
        "NotIn": labels.get(key) not in values,
        "Exists": key in labels,
        "DoesNotExist": key not in labels,
    }
    return holds[one["operator"]]


def is_healthy(pod: Json) -> bool:
    """Running and ready, and nobody deleted it."""
    ready = [one for one in pod.get("status", {}).get("conditions", []) if one.get("type") == "Ready"]
    return bool(ready) and ready[0].get("status") == "True" and "deletionTimestamp" not in pod["metadata"]


def budgets_of(pod: Json, budgets: Iterable[Json]) -> list[Json]:
    """The budgets that cover a pod."""
    meta = pod["metadata"]
    return [
        one
        for one in budgets
        if one["metadata"]["namespace"] == meta["namespace"]
        and selects(one["spec"].get("selector"), meta.get("labels") or {})
    ]


def budget_status(budget: Json, pods: Iterable[Json], scale_of: Callable[[Json], int | None], now: datetime) -> Json:
    """The status that the disruption controller writes."""
    status, spec = dict(budget.get("status") or {}), budget["spec"]
    mine = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == budget["metadata"]["namespace"]
        and selects(spec.get("selector"), pod["metadata"].get("labels") or {})
        and pod.get("status", {}).get("phase") not in OVER
    ]
    there = {pod["metadata"]["name"]: pod for pod in mine}
    disrupted = {
        name: at
        for name, at in (status.get("disruptedPods") or {}).items()
        if name in there
        and "deletionTimestamp" not in there[name]["metadata"]
        and now < datetime.fromisoformat(at) + timedelta(seconds=DISRUPTED_SECONDS)
    }
    expected = _expected(spec, mine, scale_of)
    healthy = sum(1 for pod in mine if is_healthy(pod) and pod["metadata"]["name"] not in disrupted)
    desired = _desired(spec, expected)
    allowed = max(0, healthy - desired) if expected > 0 else 0
    status.update(currentHealthy=healthy, desiredHealthy=desired, expectedPods=expected, disruptionsAllowed=allowed)
    status.pop("disruptedPods", None)
    if disrupted:
        status["disruptedPods"] = disrupted
    return status


def _expected(spec: Json, pods: list[Json], scale_of: Callable[[Json], int | None]) -> int:
    if "maxUnavailable" not in spec and isinstance(spec.get("minAvailable"), int):
        return len(pods)
    owners: dict[str, int] = {}
    alone = 0
    for pod in pods:
        owner = next((one for one in pod["metadata"].get("ownerReferences") or [] if one.get("controller")), None)
        scale = scale_of(pod) if owner else None
        if owner is None or scale is None:
            alone += 1
        else:
            owners[owner["uid"]] = scale
    return sum(owners.values()) + alone


def _desired(spec: Json, expected: int) -> int:
    if "maxUnavailable" in spec:
        return max(0, expected - _share(spec["maxUnavailable"], expected))
    return _share(spec.get("minAvailable", 1), expected)


def _share(value: int | str, of: int) -> int:
    return math.ceil(of * int(value.rstrip("%")) / 100) if isinstance(value, str) else value


def budget_to_use(pod: Json, budgets: list[Json]) -> Json | None:
    """The budget that an eviction of this pod uses up; None = none; Denied where it may not go."""
    phase = pod.get("status", {}).get("phase")
    if phase in (*OVER, "Pending") or "deletionTimestamp" in pod["metadata"] or not budgets:
        return None
    if len(budgets) > 1:
        raise Denied(
            500, "This pod has more than one PodDisruptionBudget, which the eviction subresource cannot handle"
        )
    budget = budgets[0]
    status, name = budget.get("status") or {}, budget["metadata"]["name"]
    if not is_healthy(pod):
        enough = status.get("currentHealthy", 0) >= status.get("desiredHealthy", 0) > 0
        if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow" or enough:
            return None
    if status.get("disruptionsAllowed", 0) <= 0:
        cause = (
            f"The disruption budget {name} needs {status.get('desiredHealthy', 0)} healthy pods "
            f"and has {status.get('currentHealthy', 0)} currently"
        )
        raise Denied(
            429,
            "Cannot evict pod as it would violate the pod's disruption budget.",
            causes=[{"reason": "DisruptionBudget", "message": cause}],
        )
    return budget


def check_pod_change(old: Json, new: Json) -> None:
    """A pod's spec is fixed but for added tolerations, taken gates, and a gated pod's selector."""
    before, after = dict(old.get("spec") or {}), dict(new.get("spec") or {})
    kept, now = before.pop("tolerations", None) or [], after.pop("tolerations", None) or []
    gates, left = before.pop("schedulingGates", None) or [], after.pop("schedulingGates", None) or []
    if gates:
        chosen, choice = before.pop("nodeSelector", None) or {}, after.pop("nodeSelector", None) or {}
        if any(choice.get(key) != value for key, value in chosen.items()):
            raise _pod_denied(new, "spec.nodeSelector: Invalid value: only additions are allowed")
    if any(one not in now for one in kept):
        raise _pod_denied(new, "spec.tolerations: Forbidden: existing toleration can not be modified")
    if any(gate not in gates for gate in left):
        raise _pod_denied(new, "spec.schedulingGates: Forbidden: only deletion is allowed")
    if before != after:
        raise _pod_denied(
            new,
            "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds`",
        )


def _pod_denied(pod: Json, why: str) -> Denied:
    return Denied(422, f'Pod "{pod["metadata"]["name"]}" is invalid: {why}')
