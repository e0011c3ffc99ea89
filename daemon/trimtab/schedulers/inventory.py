"""Nodes with their GPUs and who holds them: made anew only where a node, its pods or its agent's words changed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.model.cluster import Gpu, Node
from trimtab.model.devices import NodeDevices
from trimtab.schedulers.devices_read import Dra, DraDevice
from trimtab.schedulers.drafts import Memo
from trimtab.schedulers.movers import dying_claims
from trimtab.schedulers.nodes_read import NodeFacts
from trimtab.schedulers.objects import Loose
from trimtab.schedulers.pods import PodFacts
from trimtab.schedulers.slots import Offer, Want, gpus_of, held_gpus

NODE_CLAIMS = "nodeclaims.karpenter.sh"
_NO_DRA: tuple[DraDevice, ...] = ()


@dataclass(frozen=True, slots=True)
class _Dealt:
    """One node's GPUs, and who holds which."""

    gpus: tuple[Gpu, ...]
    held: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Stock:
    """All GPU nodes of one moment."""

    facts: Mapping[str, NodeFacts]
    gpus: Mapping[str, tuple[Gpu, ...]]
    held: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Pod -> GPUs that it holds."""


class Inventory:
    """Deals GPUs out to pods, and remembers how, so that nobody changes places without need."""

    def __init__(self) -> None:
        """Nothing is dealt yet."""
        self._dealt: Memo[_Dealt] = Memo()
        self._nodes: Memo[Node] = Memo()
        self._last: dict[str, tuple[str, ...]] = {}
        self._reported: set[str] = set()

    def stock(
        self,
        nodes: Mapping[str, NodeFacts],
        pods: Iterable[PodFacts],
        devices: Mapping[str, NodeDevices],
        dra: Dra,
    ) -> Stock:
        """The nodes that have GPUs, by what they offer or because an agent once spoke for them."""
        self._reported |= devices.keys()
        facts = {
            name: one for name, one in nodes.items() if one.has_gpus or name in self._reported or name in dra.by_node
        }
        wants = _wants(pods, facts, dra)
        gpus: dict[str, tuple[Gpu, ...]] = {}
        held: dict[str, tuple[str, ...]] = {}
        last: dict[str, tuple[str, ...]] = {}
        for name, one in facts.items():
            wanted = tuple(wants.get(name, ()))
            dealt = self._deal(one, devices.get(name), tuple(dra.by_node.get(name, _NO_DRA)), wanted)
            gpus[name] = dealt.gpus
            held.update(dealt.held)
            last.update({want.uid: dealt.held[want.pod] for want in wanted})
        self._last = last
        self._reported &= nodes.keys()
        self._dealt.keep(facts)
        return Stock(facts=facts, gpus=gpus, held=held)

    def _deal(
        self, facts: NodeFacts, known: NodeDevices | None, dra: tuple[DraDevice, ...], wanted: tuple[Want, ...]
    ) -> _Dealt:
        version = (facts.offer, known, dra, wanted)
        return self._dealt.get(facts.name, version, _dealt, *version, self._last)

    def nodes(
        self, stock: Stock, pods: Iterable[PodFacts], others: Mapping[str, Mapping[str, Loose]]
    ) -> tuple[Node, ...]:
        """The snapshot's nodes."""
        claims = dying_claims(others.get(NODE_CLAIMS, {}))
        evicted = frozenset(one.pod.spec.node_name for one in pods if one.is_evicted_by_others)
        self._nodes.keep(stock.facts)
        return tuple(
            self._node(facts, stock.gpus[name], _mover(facts, claims, evicted))
            for name, facts in sorted(stock.facts.items())
        )

    def _node(self, facts: NodeFacts, gpus: tuple[Gpu, ...], mover: str | None) -> Node:
        version = (facts, gpus, mover)
        return self._nodes.get(facts.name, version, _node_of, *version)


def _dealt(
    offer: Offer,
    known: NodeDevices | None,
    dra: tuple[DraDevice, ...],
    wanted: tuple[Want, ...],
    last: Mapping[str, tuple[str, ...]],
) -> _Dealt:
    gpus = gpus_of(offer, known, dra)
    return _Dealt(gpus=gpus, held=held_gpus(gpus, known, wanted, last))


def _mover(facts: NodeFacts, claims: Mapping[str, str], evicted: frozenset[str]) -> str | None:
    if facts.mover is not None:
        return facts.mover
    if facts.name in claims:
        return f"Karpenter (it deletes NodeClaim {claims[facts.name]})"
    return "a descheduler" if facts.name in evicted else None


def _wants(pods: Iterable[PodFacts], nodes: Mapping[str, NodeFacts], dra: Dra) -> Mapping[str, list[Want]]:
    """Node -> the pods on it that hold GPUs; those on their way out still do."""
    found: dict[str, list[Want]] = {}
    for one in pods:
        pod = one.pod
        node = nodes.get(pod.spec.node_name)
        if node is None or pod.is_over or not (one.need or one.claims):
            continue
        certain = dra.gpus(one.claims) if one.claims else ()
        gpus = 0 if node.offer.is_parted else one.need.gpus + len(certain)
        found.setdefault(node.name, []).append(
            Want(pod=pod.metadata.key, uid=pod.metadata.uid, gpus=gpus, certain=certain)
        )
    for wants in found.values():
        if len(wants) > 1:
            wants.sort(key=lambda want: want.pod)
    return found


def _node_of(facts: NodeFacts, gpus: tuple[Gpu, ...], mover: str | None) -> Node:
    return Node(
        name=facts.name,
        gpus=gpus,
        rack=facts.rack,
        is_ready=facts.is_ready,
        is_cordoned=facts.is_cordoned,
        cordoned_by=facts.cordoned_by,
        is_spare=facts.is_spare,
        other_mover=mover,
        labels=facts.node.metadata.labels,
        pool=facts.pool,
        why_closed=facts.why_closed,
    )
