"""What the cluster bears of ours besides cordons and stops: reservations and held things, by our annotation. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from trimtab.model.cluster import Held, Reservation
from trimtab.schedulers.face import mark_of_value
from trimtab.schedulers.kueue_objects import WORKLOADS
from trimtab.schedulers.marks import CORDON, SUSPEND, UNREADABLE, Hold, annotation, read_holds
from trimtab.schedulers.nodes_read import NodeFacts, taint_text
from trimtab.schedulers.objects import Loose, Pod
from trimtab.schedulers.owners import REPLICA_SETS, VOLCANO_JOBS
from trimtab.schedulers.standing import is_stopped
from trimtab.schedulers.volcano_policies import sizes_of
from trimtab.schedulers.volcano_read import POD_GROUPS, phase_of

UNSIGNED = "unsigned"
"""The mark of a taint or label of ours whose annotation somebody wiped, and whose value says nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Signed:
    """One object that bears our annotation: `node gpu-07`, `clusterqueue research`."""

    name: str
    holds: tuple[Hold, ...]
    node: str = ""
    """Where the seats are, for seats that do not say."""
    shows: str = ""
    """The mark whose cordon or stop the snapshot itself shows; those of all others count as held."""
    is_node: bool = False


def signed_others(others: Mapping[str, Mapping[str, Loose]], prefix: str) -> Iterator[tuple[str, Loose, Signed]]:
    """(kind, object, what it bears) of everything but nodes and pods that bears our annotation."""
    key = annotation(prefix)
    for plural, items in others.items():
        word = _singular(plural)
        for item in items.values():
            if key in item.metadata.annotations and not _is_copy(plural, item):
                holds = read_holds(item.metadata.annotations, prefix)
                name = f"{word} {item.metadata.key}"
                yield plural, item, Signed(name=name, holds=holds, shows=_stopped_by(plural, item, holds))


def _is_copy(plural: str, item: Loose) -> bool:
    """Volcano's Jobs and Deployments copy their annotations onto the PodGroups and ReplicaSets that they make."""
    return plural in (POD_GROUPS, REPLICA_SETS) and item.metadata.owner is not None


def _stopped_by(plural: str, item: Loose, holds: Iterable[Hold]) -> str:
    mark = next((one.mark for one in holds if SUSPEND in one.what), "")
    return mark if mark and _is_stopped(plural, item) else ""


def _is_stopped(plural: str, item: Loose) -> bool:
    """Whether the object is in the state into which `suspend` brings it."""
    if plural == WORKLOADS:
        return item.spec.get("active") is False
    if plural == VOLCANO_JOBS:
        return phase_of(item) in ("Aborting", "Aborted") or sizes_of(item.spec).pods_max == 0
    return is_stopped(plural, item)


def shown(signed: Iterable[Signed], suspended: Collection[str]) -> list[Signed]:
    """The same, where a stop that no workload shows counts as held. `suspended`: marks that workloads show."""
    return [one if one.is_node or one.shows in suspended else replace(one, shows="") for one in signed]


def _singular(plural: str) -> str:
    name = plural.partition(".")[0]
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name.removesuffix("s")


def signed_pods(pods: Iterable[Pod], prefix: str) -> Iterator[Signed]:
    """Pods that bear our annotation."""
    key = annotation(prefix)
    for pod in pods:
        if key in pod.metadata.annotations:
            holds = read_holds(pod.metadata.annotations, prefix)
            yield Signed(name=f"pod {pod.metadata.key}", holds=holds, node=pod.spec.node_name)


def signed_node(facts: NodeFacts) -> Signed:
    """What a node bears. A cordon that a person took off or set anew since is no longer in force as ours."""
    by = facts.cordoned_by or ""
    return Signed(name=f"node {facts.name}", holds=facts.holds, node=facts.name, shows=by, is_node=True)


Reserves = Callable[[str], Collection[str]]
"""Mark -> the nodes on which its command keeps room; none where no such command is known to be at work."""


def reservations_of(signed: Iterable[Signed], reserves: Reserves | None = None) -> tuple[Reservation, ...]:
    """Room that is kept. The same room written on two objects (its node, its workload) counts once.

    What stands on a node is believed. In a namespace its tenants write too: what stands there counts only where
    `reserves` confirms it (without it all does), or a made-up mark could keep the whole cluster.
    """
    kept: dict[tuple[str, str, str], int] = {}
    for one in signed:
        here: Counter[tuple[str, str, str]] = Counter()
        for hold in one.holds:
            known = None if one.is_node or reserves is None else reserves(hold.mark)
            for seat in hold.seats:
                node = seat.node or one.node
                if known is None or node in known:
                    here[hold.mark, hold.workload or "", node] += seat.gpus
        for key, gpus in here.items():
            kept[key] = max(kept.get(key, 0), gpus)
    return tuple(
        Reservation(node=node, gpus=gpus, workload=workload, command=mark)
        for (mark, workload, node), gpus in sorted(kept.items())
    )


def held_of(signed: Iterable[Signed], nodes: Iterable[NodeFacts], prefix: str) -> tuple[Held, ...]:
    """Everything else of ours, and what is left of an annotation that no longer tells the truth."""
    found: list[Held] = []
    for one in signed:
        for hold in one.holds:
            found += _held(hold, one)
    for facts in nodes:
        found += _orphans(facts, prefix)
    return tuple(found)


def _held(hold: Hold, one: Signed) -> Iterator[Held]:
    node = one.node if one.is_node else ""
    if hold.mark == UNREADABLE:
        yield Held(mark=UNREADABLE, what=f"{hold.what[0]} on {one.name}, which cannot be read", lasts=True, node=node)
        return
    for what in hold.what:
        is_shown = what in (CORDON, SUSPEND) and hold.mark == one.shows
        if not is_shown:
            # Of a node's own entry the cordon alone lasts; where it is for a workload, and on other objects, all of it.
            lasts = hold.lasts and (what == CORDON or not one.is_node or hold.workload is not None)
            yield Held(mark=hold.mark, what=f"{what} on {one.name}", lasts=lasts, node=node)


def _orphans(facts: NodeFacts, prefix: str) -> Iterator[Held]:
    """Taints and labels under our prefix that no annotation explains."""
    start = f"{prefix}/"
    for taint in facts.taints:
        if taint.key.startswith(start):
            mark = mark_of_value(taint.value) or UNSIGNED
            what = f"taint {taint_text(taint)} on node {facts.name}"
            yield Held(mark=mark, what=what, lasts=mark == UNSIGNED, node=facts.name)
    signed = {what for hold in facts.holds for what in hold.what}
    for key, value in facts.node.metadata.labels.items():
        if key.startswith(start) and f"label {key}={value}" not in signed and mark_of_value(value) is not None:
            what = f"label {key}={value} on node {facts.name}"
            yield Held(mark=mark_of_value(value) or UNSIGNED, what=what, node=facts.name)
