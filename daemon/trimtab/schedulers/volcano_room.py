"""Where a Volcano gang may sit and whether its queue lets it start again: HyperNodes, quota, queue state. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.schedulers.objects import Loose, NodeObject
from trimtab.schedulers.pods import quantity

TIER_DEFAULT = 1
"""`highestTierAllowed` where a hard topology names none."""
DEPTH_MAX = 16
"""HyperNodes that name each other in a ring end here."""

Amounts = Mapping[str, float]


def amounts(raw: Mapping[str, Any] | None) -> dict[str, float]:
    """A map of quantities as numbers."""
    return {name: quantity(value) for name, value in (raw or {}).items()}


# --- topology


@dataclass(frozen=True, slots=True, kw_only=True)
class Domain:
    """A HyperNode with all nodes under it."""

    name: str
    tier: int
    nodes: frozenset[str]


def domains(hyper_nodes: Mapping[str, Loose], nodes: Mapping[str, NodeObject]) -> tuple[Domain, ...]:
    """Every HyperNode, narrowest tiers first."""
    found = [
        Domain(name=name, tier=_tier(one), nodes=_members(name, hyper_nodes, nodes, DEPTH_MAX))
        for name, one in hyper_nodes.items()
    ]
    return tuple(sorted(found, key=lambda one: (one.tier, one.name)))


def _tier(one: Loose) -> int:
    return int(one.spec.get("tier") or 0)


def _members(
    name: str, hyper_nodes: Mapping[str, Loose], nodes: Mapping[str, NodeObject], depth: int
) -> frozenset[str]:
    one = hyper_nodes.get(name)
    if one is None or not depth:
        return frozenset()
    found: set[str] = set()
    labels = {key: node.metadata.labels for key, node in nodes.items()}
    others: dict[str, dict[str, str]] = {key: {} for key in hyper_nodes if key != name}
    for member in one.spec.get("members") or ():
        if member.get("type") == "HyperNode":
            found.update(*(_members(below, hyper_nodes, nodes, depth - 1) for below in _meant(member, others)))
        else:
            found.update(_meant(member, labels))
    return frozenset(found)


def _meant(member: Mapping[str, Any], known: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Of the known (name -> labels), those that a member selects."""
    exact = (member.get("selector") or {}).get("exactMatch")
    if exact is not None:
        return [exact["name"]] if exact.get("name") in known else []
    return [name for name, labels in known.items() if _is_meant(member, name, labels)]


def _is_meant(member: Mapping[str, Any], name: str, labels: Mapping[str, str]) -> bool:
    selector = member.get("selector") or {}
    if "regexMatch" in selector:
        try:
            return re.search(str(selector["regexMatch"].get("pattern", "")), name) is not None
        except re.error:
            return False
    wanted = (selector.get("labelMatch") or {}).get("matchLabels") or {}
    return bool(wanted) and all(labels.get(key) == value for key, value in wanted.items())


def hard_tier(topology: Mapping[str, Any] | None, hyper_nodes: Mapping[str, Loose]) -> int | None:
    """The widest tier within which the gang must stay together; None where it is free to spread."""
    if not topology or topology.get("mode", "hard") != "hard":
        return None
    name = topology.get("highestTierName")
    if name:
        return max((_tier(one) for one in hyper_nodes.values() if one.spec.get("tierName") == name), default=0)
    allowed = topology.get("highestTierAllowed")
    return TIER_DEFAULT if allowed is None else int(allowed)


def why_not_together(nodes: Iterable[str], tier: int | None, known: Sequence[Domain]) -> str | None:
    """Why a gang of this hard tier cannot sit on these nodes, or None."""
    wanted = frozenset(nodes)
    if tier is None or not wanted:
        return None
    allowed = [one for one in known if one.tier <= tier]
    if any(wanted <= one.nodes for one in allowed):
        return None
    holds_most = max(allowed, key=lambda one: len(one.nodes & wanted), default=None)
    if holds_most is None or not holds_most.nodes & wanted:
        return f"it must stay within one HyperNode of tier {tier} and {', '.join(sorted(wanted))} are in none"
    outside = ", ".join(sorted(wanted - holds_most.nodes))
    return f"it must stay within one HyperNode of tier {tier} and {outside} is outside of {holds_most.name}"


# --- quota


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """What a PodGroup asks of its queue before it may have pods."""

    name: str
    phase: str
    amounts: Amounts


def claim_of(group: Loose) -> Claim:
    """Of a PodGroup."""
    return Claim(
        name=group.metadata.key,
        phase=str(group.status.get("phase") or "Pending"),
        amounts=amounts(group.spec.get("minResources")),
    )


def claims_of(groups: Iterable[Loose]) -> dict[str, tuple[Claim, ...]]:
    """Queue -> the claims in it, by name."""
    found: dict[str, list[Claim]] = {}
    for one in groups:
        found.setdefault(str(one.spec.get("queue") or "default"), []).append(claim_of(one))
    return {queue: tuple(sorted(claims, key=lambda one: one.name)) for queue, claims in found.items()}


def cluster_total(nodes: Iterable[NodeObject]) -> dict[str, float]:
    """What all nodes together allow; Volcano counts the cordoned ones too."""
    total: dict[str, float] = {}
    for node in nodes:
        for name, value in amounts(node.status.allocatable).items():
            total[name] = total.get(name, 0.0) + value
    return total


def why_queue_closed(queue: Loose | None, name: str) -> str | None:
    """Why nothing of this queue would be started again, or None."""
    if queue is None:
        return f"there is no queue {name}"
    state = str(queue.status.get("state") or "")
    if state in ("", "Open"):
        return None
    return f"queue {name} is {state}: a restart in it ends the job after some minutes. Open it first"


def why_locked_out(
    queue: Loose, own: Claim, others: Sequence[Claim], total: Amounts, *, is_allocated: bool
) -> str | None:
    """Why a job that gives up all its pods may not get its quota back, or None.

    An Inqueue group counts as taken, and a Pending one that fits into what we set free is let in before us: after the
    stop we are the one that waits. `is_allocated`: the queue's `allocated` holds our own share now.
    """
    limits = _limits(queue, total)
    allocated = amounts(queue.status.get("allocated"))
    for resource, limit in limits.items():
        mine = own.amounts.get(resource, 0.0)
        if not mine:
            continue
        held = allocated.get(resource, 0.0) - (mine if is_allocated else 0.0)
        taken = held + sum(one.amounts.get(resource, 0.0) for one in others if one.phase == "Inqueue")
        if taken + mine > limit:
            return f"queue {queue.metadata.name} has {limit:g} {resource}, {taken:g} are spoken for, it needs {mine:g}"
        first = [one for one in others if one.phase == "Pending" and taken + one.amounts.get(resource, 0.0) <= limit]
        eager = sum(one.amounts.get(resource, 0.0) for one in first)
        if eager and taken + eager + mine > limit:
            waits = f"{first[0].name} waits for {first[0].amounts.get(resource, 0.0):g} {resource}"
            return f"{waits} in queue {queue.metadata.name} and would take its quota ({limit:g}) while it is stopped"
    return None


def _limits(queue: Loose, total: Amounts) -> dict[str, float]:
    """Per resource, the queue's capability, and never more than there is."""
    capability = amounts(queue.spec.get("capability"))
    limits = {name: min(value, total.get(name, value)) for name, value in capability.items()}
    return {**total, **limits}
