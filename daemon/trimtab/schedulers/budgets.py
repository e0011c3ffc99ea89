"""Disruption budgets: which one covers a pod, and whether it lets so many pods go now. Pure; every adapter asks here.

Whole-workload stops (suspended Jobs, Kueue's and Volcano's) do not go through budgets: whoever plans one asks instead.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.view import View

BUDGETS = "poddisruptionbudgets.policy"


def selects(selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector takes these labels; none takes nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    return all(_holds(one, labels) for one in selector.get("matchExpressions") or ())


def _holds(expression: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    key, values = expression.get("key", ""), expression.get("values") or ()
    operator = expression.get("operator")
    if operator == "In":
        return labels.get(key) in values
    if operator == "NotIn":
        return labels.get(key) not in values
    return (key in labels) is (operator == "Exists")


def selector_text(selector: Mapping[str, Any] | None) -> str:
    """A label selector as the query of a list."""
    selector = selector or {}
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for one in selector.get("matchExpressions") or ():
        key, values, operator = one.get("key", ""), ",".join(one.get("values") or ()), one.get("operator")
        words = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})", "Exists": key}
        terms.append(words.get(operator, f"!{key}"))
    return ",".join(terms)


def budgets_of(pod: Pod, view: View) -> list[Loose]:
    """The budgets that cover a pod."""
    return [
        one
        for one in view.kind(BUDGETS).values()
        if one.metadata.namespace == pod.metadata.namespace and selects(one.spec.get("selector"), pod.metadata.labels)
    ]


def why_not_evict(pods: Sequence[Pod], view: View) -> str | None:
    """Why pods cannot be evicted one after the other now, as the end of a sentence; None = they can."""
    for pod in pods:
        sentence = _why_never(pod, view)
        if sentence is not None:
            return sentence
        for budget in budgets_of(pod, view):
            if _allowed(budget) < 1:
                return _in_words(budget, 1)
    return None


def why_not_stop(pods: Sequence[Pod], view: View) -> str | None:
    """Why pods cannot all be stopped at once now, as the end of a sentence; None = they can."""
    count: Counter[str] = Counter()
    found: dict[str, Loose] = {}
    for pod in pods:
        for budget in budgets_of(pod, view):
            count[budget.metadata.key] += 1
            found[budget.metadata.key] = budget
    return next((_in_words(found[key], pods) for key, pods in count.items() if pods > _allowed(found[key])), None)


def _why_never(pod: Pod, view: View) -> str | None:
    names = [one.metadata.name for one in budgets_of(pod, view)]
    if len(names) > 1:
        return (
            f"{len(names)} disruption budgets ({', '.join(sorted(names))}) cover {pod.metadata.name}: no eviction works"
        )
    return None


def _allowed(budget: Loose) -> int:
    return int(budget.status.get("disruptionsAllowed") or 0)


def _in_words(budget: Loose, pods: int) -> str:
    status, name = budget.status, budget.metadata.name
    failed = _failure(budget.conditions.values())
    if failed is not None:
        return f"the disruption budget {name} does not work ({failed}) and so allows nothing"
    healthy, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    wanted = f"{pods} pods" if pods > 1 else "one pod"
    return (
        f"the disruption budget {name} lets {_allowed(budget)} pods go now and {wanted} would "
        f"({healthy} healthy, {desired} must be)"
    )


def _failure(conditions: Iterable[Any]) -> str | None:
    return next((one.message for one in conditions if one.reason == "SyncFailed"), None)
