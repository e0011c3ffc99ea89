"""One beat's world as the workloads see it: nodes, places, claims, who holds what; each question answered once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import msgspec

from trimtab.schedulers.devices_read import Dra
from trimtab.schedulers.drafts import Memo
from trimtab.schedulers.nodes_read import NodeFacts
from trimtab.schedulers.objects import Loose, Taint, Toleration
from trimtab.schedulers.places import Fitting, Places, fits, fitting_of
from trimtab.schedulers.pods import Resources, tolerated
from trimtab.schedulers.shapes import Shape
from trimtab.schedulers.wishes import Source
from trimtab.settings import KubernetesSettings

_EMPTY: Mapping[str, Loose] = {}


@dataclass(slots=True, kw_only=True)
class Scene:
    """One beat: everything that workloads are made from."""

    settings: KubernetesSettings
    resources: Resources
    at: datetime
    others: Mapping[str, Mapping[str, Loose]]
    nodes: Mapping[str, NodeFacts]
    """GPU nodes by name."""
    places: Places
    dra: Dra
    held: Mapping[str, tuple[str, ...]]
    """Pod -> GPUs that it holds."""
    reserved: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """Workload -> nodes where a command of ours keeps room for it."""
    shapes: Memo[Shape | None]
    sources: Memo[Source | None]
    pools: Mapping[str, str | None] = field(init=False)
    closed: Mapping[str, list[tuple[Taint, ...]]] = field(init=False)
    """Why nodes are closed -> the taints behind each of those words."""
    gpus_of_node: int = field(init=False)
    """GPUs of the largest node."""
    _tolerates: dict[Hashable, tuple[str, ...]] = field(default_factory=dict)
    _fitting: dict[Hashable, Fitting] = field(default_factory=dict)
    _domains: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Look once at what all workloads ask for."""
        self.pools = {name: facts.pool for name, facts in self.nodes.items()}
        self.gpus_of_node = max((facts.offer.capacity for facts in self.nodes.values()), default=0)
        closed: dict[str, list[tuple[Taint, ...]]] = {}
        for facts in self.nodes.values():
            why = facts.why_closed
            if why is not None and not facts.offer.is_parted:
                closed.setdefault(why, []).append((*facts.taints, *facts.own_taints))
        self.closed = {why: list(dict.fromkeys(taints)) for why, taints in closed.items()}

    def kind(self, name: str) -> Mapping[str, Loose]:
        """Objects of a kind."""
        return self.others.get(name, _EMPTY)

    def tolerates(self, tolerations: Sequence[Toleration], workload: str) -> tuple[str, ...]:
        """Reasons of closed nodes that do not keep off pods with these tolerations, nor this workload."""
        if not self.closed:
            return ()
        key = tuple(tolerations)
        found = self._tolerates.get(key)
        if found is None:
            found = self._tolerates[key] = tuple(
                why for why, taints in self.closed.items() if all(tolerated(tolerations, each) for each in taints)
            )
        mine = [self.nodes[name] for name in self.reserved.get(workload, ()) if name in self.nodes]
        kept = [facts.why_closed for facts in mine if facts.own_taints and tolerated(tolerations, facts.taints)]
        return tuple(dict.fromkeys((*found, *(why for why in kept if why is not None)))) if kept else found

    def fitting(self, wanted: Mapping[str, str], terms: Sequence[Mapping[str, object]]) -> Fitting:
        """Where pods may run that ask for such labels of their node."""
        key = (tuple(sorted(wanted.items())), msgspec.json.encode(terms) if terms else b"")
        found = self._fitting.get(key)
        if found is None:
            names = (name for name, facts in self.nodes.items() if fits(facts.node, wanted, terms))
            found = self._fitting[key] = fitting_of(names, self.pools)
        return found

    def domains(self, label: str) -> int:
        """How many values a label has on GPU nodes."""
        found = self._domains.get(label)
        if found is None:
            values = {facts.node.metadata.labels.get(label) for facts in self.nodes.values()}
            found = self._domains[label] = len(values - {None})
        return found
