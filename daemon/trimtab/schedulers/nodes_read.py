"""A node as the snapshot shows it: ready, cordoned and by whom, what closes it, what it offers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from trimtab.schedulers.marks import CORDON, UNREADABLE, Hold, read_holds
from trimtab.schedulers.movers import other_mover_of
from trimtab.schedulers.objects import NodeObject, Taint
from trimtab.schedulers.places import PRODUCT_LABEL, Places
from trimtab.schedulers.pods import Resources, quantity
from trimtab.schedulers.slots import Offer
from trimtab.settings import KubernetesSettings

SOMEBODY = "somebody"
_CORDON_TAINT = "node.kubernetes.io/unschedulable"
_KEEPS_OFF = ("NoSchedule", "NoExecute")
REPLICAS_LABEL, COUNT_LABEL = "nvidia.com/gpu.replicas", "nvidia.com/gpu.count"
SHARED = "shared GPUs"
"""What closes a node whose GPUs are given out in parts: nothing is planned there."""
_NO_CLAIMS: dict[str, str] = {}
_NOBODY: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeFacts:
    """What one version of a node says."""

    node: NodeObject
    offer: Offer
    has_gpus: bool
    rack: str | None
    pool: str | None
    is_ready: bool
    is_spare: bool
    is_cordoned: bool
    cordoned_by: str | None
    taints: tuple[Taint, ...]
    """Those that keep off what does not tolerate them; the cordon's own is not among them."""
    own_taints: tuple[Taint, ...]
    holds: tuple[Hold, ...]
    mover: str | None
    """Another mover, as far as the node's own marks say."""

    @property
    def name(self) -> str:
        """The node's name."""
        return self.node.metadata.name

    @property
    def why_closed(self) -> str | None:
        """What keeps off work that does not tolerate it."""
        if self.offer.is_parted:
            return SHARED
        return closed_text((*self.taints, *self.own_taints))


def closed_text(taints: Iterable[Taint]) -> str | None:
    """`taint dedicated=research`; None where there is none."""
    texts = sorted({taint.key + (f"={taint.value}" if taint.value else "") for taint in taints})
    return None if not texts else f"taint{'s' if len(texts) > 1 else ''} {', '.join(texts)}"


def node_facts(node: NodeObject, places: Places, settings: KubernetesSettings, resources: Resources) -> NodeFacts:
    """The facts of a node."""
    labels = node.metadata.labels
    holds = read_holds(node.metadata.annotations, settings.prefix)
    closing = [one for one in node.spec.taints if one.effect in _KEEPS_OFF and one.key != _CORDON_TAINT]
    own = {text for hold in holds if hold.mark != UNREADABLE for text in hold.what if text.startswith("taint ")}
    return NodeFacts(
        node=node,
        offer=_offer(node, resources),
        has_gpus=_has_gpus(node, resources),
        rack=places.rack(node),
        pool=places.pool(node),
        is_ready=any(one.type == "Ready" and one.status == "True" for one in node.status.conditions),
        is_spare=labels.get(settings.spare_label) == "true",
        is_cordoned=node.spec.unschedulable,
        cordoned_by=_cordoned_by(node, holds, settings.prefix),
        taints=tuple(one for one in closing if f"taint {taint_text(one)}" not in own),
        own_taints=tuple(one for one in closing if f"taint {taint_text(one)}" in own),
        holds=holds,
        mover=other_mover_of(node, claims=_NO_CLAIMS, evicted=_NOBODY),
    )


def taint_text(taint: Taint) -> str:
    """`key=value:effect`, as our holds name a taint."""
    return f"{taint.key}={taint.value}:{taint.effect}"


def _cordoned_by(node: NodeObject, holds: Iterable[Hold], prefix: str) -> str | None:
    """The mark of our command; else whoever wrote it, as the server says."""
    if not node.spec.unschedulable:
        return None
    closer = node.closer
    mark = next((one.mark for one in holds if CORDON in one.what), None)
    return mark if mark is not None and closer in (None, prefix) else closer or SOMEBODY


def _has_gpus(node: NodeObject, resources: Resources) -> bool:
    """Whether it is a GPU node at all: its plugin may be down, so a capacity of 0 counts."""
    names = {*node.status.capacity, *node.status.allocatable}
    is_labelled = node.metadata.labels.get(f"{resources.gpu}.present") == "true"
    return is_labelled or any(resources.is_ours(name) for name in names)


def _offer(node: NodeObject, resources: Resources) -> Offer:
    labels, status = node.metadata.labels, node.status
    capacity = int(quantity(status.capacity.get(resources.gpu, "0")))
    allocatable = int(quantity(status.allocatable.get(resources.gpu, "0")))
    product = labels.get(PRODUCT_LABEL)
    replicas = max(int(quantity(labels.get(REPLICAS_LABEL, "1"))), 1)
    is_parted = replicas > 1 or (product is not None and ("-MIG-" in product or product.endswith("-SHARED")))
    if is_parted:
        count = int(quantity(labels.get(COUNT_LABEL, "0"))) or capacity // replicas
        capacity = allocatable = count
    return Offer(
        name=node.metadata.name,
        capacity=capacity,
        allocatable=min(allocatable, capacity),
        model=product,
        is_parted=is_parted,
    )
