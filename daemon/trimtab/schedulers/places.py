"""Racks and pools of nodes: by settings, else as Kueue or Volcano know them, else by well-known labels. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trimtab.schedulers.budgets import selects
from trimtab.schedulers.objects import Loose, NodeObject
from trimtab.settings import KubernetesSettings

HOSTNAME = "kubernetes.io/hostname"
TOPOLOGIES, FLAVORS = "topologies.kueue.x-k8s.io", "resourceflavors.kueue.x-k8s.io"
HYPER_NODES = "hypernodes.topology.volcano.sh"
RACK = "rack"
"""What `Workload.together` says of pods that must be in one rack."""
KNOWN_RACK_LABELS = (
    "fabric.topograph.run/tier-0",
    "network.topology.nvidia.com/leaf",
    "topology.kubernetes.io/rack",
    "nvidia.com/gpu.clique",
)
PRODUCT_LABEL = "nvidia.com/gpu.product"
KINDS = (TOPOLOGIES, FLAVORS, HYPER_NODES)
"""The kinds that racks and pools are made from."""
Labels = Mapping[str, str]


class Places:
    """Racks and pools as of one moment; asked once for each version of a node."""

    def __init__(self, others: Mapping[str, Mapping[str, Loose]], settings: KubernetesSettings) -> None:
        """Look at topologies, flavors and HyperNodes."""
        self._settings = settings
        self.flavors = others.get(FLAVORS, {})
        self.topologies = others.get(TOPOLOGIES, {})
        self.hyper_nodes = others.get(HYPER_NODES, {})
        self._rack_labels = settings.rack_labels or (*_levels_of_racks(self.topologies.values()), *KNOWN_RACK_LABELS)
        self._tier_one = [one for one in self.hyper_nodes.values() if one.spec.get("tier") == 1]
        self._by_most_labels = sorted(
            self.flavors.values(), key=lambda one: (-len(flavor_labels(one)), one.metadata.name)
        )

    def rack(self, node: NodeObject) -> str | None:
        """The node's rack; None where nothing says so."""
        labels = node.metadata.labels
        count = len(self._settings.rack_labels) or len(self._rack_labels) - len(KNOWN_RACK_LABELS)
        named = next((labels[name] for name in self._rack_labels[:count] if labels.get(name)), None)
        if named is not None or self._settings.rack_labels:
            return named
        hyper = next((one.metadata.name for one in self._tier_one if _is_member(node, one)), None)
        return hyper or next((labels[name] for name in KNOWN_RACK_LABELS if labels.get(name)), None)

    def pool(self, node: NodeObject) -> str | None:
        """The node's pool; None where nothing says so."""
        labels = node.metadata.labels
        if self._settings.pool_label:
            return labels.get(self._settings.pool_label) or None
        for flavor in self._by_most_labels:
            wanted = flavor_labels(flavor)
            if wanted and is_within(wanted, labels):
                return flavor.metadata.name
        return labels.get(PRODUCT_LABEL) or None

    def is_rack_level(self, label: str | None, domains: int) -> bool:
        """Whether pods that must share this level must share a rack. `domains`: how many domains of it there are.

        A level above the rack counts as the rack where there is more than one of it: narrower than asked for, and safe.
        """
        return label is not None and label != HOSTNAME and (domains > 1 or label in self._rack_labels)


def _levels_of_racks(topologies: Iterable[Loose]) -> tuple[str, ...]:
    """The level above the node of each topology, each once."""
    found: dict[str, None] = {}
    for topology in sorted(topologies, key=lambda one: one.metadata.name):
        levels = [str(one.get("nodeLabel", "")) for one in topology.spec.get("levels") or ()]
        above = [level for level in levels if level and level != HOSTNAME]
        if above:
            found[above[-1]] = None
    return tuple(found)


def flavor_labels(flavor: Loose) -> Labels:
    """The node labels of a ResourceFlavor."""
    labels: Labels = flavor.spec.get("nodeLabels") or {}
    return labels


def is_within(wanted: Labels, labels: Labels) -> bool:
    """Whether a node with these labels has all that are wanted."""
    return all(labels.get(name) == value for name, value in wanted.items())


def _is_member(node: NodeObject, hyper: Loose) -> bool:
    return any(_selects(node, one.get("selector") or {}) for one in hyper.spec.get("members") or ())


def _selects(node: NodeObject, selector: Mapping[str, Any]) -> bool:
    name = node.metadata.name
    if "exactMatch" in selector:
        return bool((selector["exactMatch"] or {}).get("name") == name)
    if "regexMatch" in selector:
        return _matches(str((selector["regexMatch"] or {}).get("pattern", "")), name)
    return "labelMatch" in selector and selects(selector["labelMatch"], node.metadata.labels)


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern, name) is not None
    except re.error:
        return False


# ---- where a workload may run: its node selector and affinity ----


def selector_of(node_selector: Labels, affinity: Mapping[str, Any]) -> tuple[Labels, Sequence[Mapping[str, Any]]]:
    """What a pod asks of its node by labels: a selector, and terms of which one must hold."""
    required = (affinity.get("nodeAffinity") or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return node_selector, tuple(required.get("nodeSelectorTerms") or ())


def fits(node: NodeObject, wanted: Labels, terms: Sequence[Mapping[str, Any]]) -> bool:
    """Whether the node's labels are as a pod asks."""
    return is_within(wanted, node.metadata.labels) and (not terms or any(_holds(term, node) for term in terms))


def _holds(term: Mapping[str, Any], node: NodeObject) -> bool:
    fields = {"metadata.name": node.metadata.name}
    by_label = all(_test(one, node.metadata.labels) for one in term.get("matchExpressions") or ())
    return by_label and all(_test(one, fields) for one in term.get("matchFields") or ())


def _test(expression: Mapping[str, Any], labels: Labels) -> bool:
    operator, values = expression.get("operator"), expression.get("values") or ()
    value = labels.get(str(expression.get("key", "")))
    if operator in ("Gt", "Lt"):
        if value is None or not value.isdecimal() or not values or not str(values[0]).isdecimal():
            return False
        return int(value) > int(values[0]) if operator == "Gt" else int(value) < int(values[0])
    return _SETS[str(operator)](value, values) if operator in _SETS else False


_SETS: Mapping[str, Callable[[str | None, Sequence[str]], bool]] = {
    "In": lambda value, values: value in values,
    "NotIn": lambda value, values: value not in values,
    "Exists": lambda value, _: value is not None,
    "DoesNotExist": lambda value, _: value is None,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitting:
    """Where pods with one selector may run: pools of which every node fits, and whether all nodes do."""

    pools: frozenset[str | None]
    is_everywhere: bool


def fitting_of(allowed: Iterable[str], pools: Mapping[str, str | None]) -> Fitting:
    """`allowed`: nodes that fit a selector; `pools`: node -> pool of all GPU nodes."""
    fitting = frozenset(allowed)
    partly = {pool for node, pool in pools.items() if node not in fitting}
    return Fitting(pools=frozenset(pools.values()) - partly, is_everywhere=not partly)


def pool_for(fitting: Fitting, pools: Mapping[str, str | None], now: Iterable[str]) -> tuple[str | None, bool]:
    """The pool to stay in, and whether the selector can be planned for at all. `now`: nodes that it is on."""
    here = {pools.get(node) for node in now}
    if here:
        return next(iter(here)) if len(here) == 1 else None, here <= fitting.pools
    if fitting.is_everywhere:
        return (None if len(fitting.pools) > 1 else next(iter(fitting.pools), None)), True
    named = sorted(pool for pool in fitting.pools if pool is not None)
    return (named[0], True) if named else (None, False)
