"""What `kubectl get …` gave: nodes, pods, queues and workloads; fragmentation, and a plan for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from trimtab.collect.documents import Document
from trimtab.collect.kubectl import KubeNode
from trimtab.errors import UnreadableInput
from trimtab.inspect.cluster_findings import cluster_findings
from trimtab.inspect.cluster_objects import Objects, sort_objects
from trimtab.inspect.cluster_plan import Planned, planned
from trimtab.inspect.cluster_reading import cluster_reading
from trimtab.inspect.cluster_state import sketch_of, snapshot_of
from trimtab.inspect.inspection import Counted, Inspection, Table, in_order
from trimtab.model.cluster import ClusterSnapshot


def is_kubernetes(documents: Sequence[Document]) -> bool:
    """Whether these are Kubernetes objects, or a sketch of a cluster."""
    first = next((document for document in documents if isinstance(document, Mapping)), None)
    if first is None:
        return False
    return ("kind" in first and ("apiVersion" in first or "items" in first)) or sketch_of(first) is not None


def read_cluster(documents: Sequence[Document], *, now: datetime) -> Inspection:
    """Objects of one file, or several documents of one. Raises UnreadableInput when none is of use."""
    found = sort_objects(documents)
    if found.is_empty:
        kinds = ", ".join(f"{count} {kind}" for kind, count in list(found.others.items())[:5])
        raise UnreadableInput(
            f"has Kubernetes objects, but none that says anything of GPUs ({kinds or 'an empty list'}). "
            "Try: kubectl get nodes,pods -A -o json"
        )
    snapshot = snapshot_of(found.nodes, found.pods, now=now)
    plan = planned(snapshot, now=now)
    reading = cluster_reading(found, snapshot) | _plan_reading(plan)
    findings = in_order([*cluster_findings(found), *plan.findings])
    return Inspection(
        kind="Kubernetes objects",
        reading=reading,
        sentence=_sentence(found, snapshot),
        findings=findings,
        notes=(*_notes(found), *plan.notes),
        steps=plan.steps,
        meaning=_meaning(snapshot, has_findings=bool(findings), has_plan=bool(plan.steps)),
        tables=(_table(found.nodes, snapshot),) if found.nodes else (),
    )


def _plan_reading(plan: Planned) -> dict[str, object]:
    return {"plan": plan.reading} if plan.reading else {}


def _sentence(found: Objects, snapshot: ClusterSnapshot) -> str:
    counts = (
        Counted(len(found.nodes), "node"),
        Counted(len(found.pods), "pod"),
        Counted(len(found.queues), "queue"),
        Counted(len(found.workloads), "workload"),
        Counted(len(found.flavors), "flavor"),
    )
    parts = [str(count) for count in counts if count.number]
    free = sum(len(gpus) for gpus in snapshot.free_gpus.values())
    if found.nodes and found.pods:
        parts.append(f"{free} GPUs free, {Counted(len(snapshot.waiting), 'workload')} waiting")
    return ", ".join(parts)


def _meaning(snapshot: ClusterSnapshot, *, has_findings: bool, has_plan: bool) -> str:
    waiting = Counted(len(snapshot.waiting), "workload")
    if has_plan:
        return f"Nothing is broken by this file; room can be made for who waits ({waiting}): see the plan."
    if waiting.number and not has_findings:
        return f"Nothing is broken by this file; {waiting} cannot start: the note says why."
    return ""


def _notes(found: Objects) -> Iterator[str]:
    if found.nodes and not found.pods:
        yield "Without pods in the file it cannot be told which GPUs are free: kubectl get nodes,pods -A -o json"
    for pod in found.pods:
        if pod.vgpus and pod.phase == "Pending" and pod.distinct_cards > 1:
            yield (
                f"{pod.key} needs {pod.distinct_cards} different cards on one node for one container: a real lack, "
                "which no move cures."
            )
        if pod.annotated and not pod.holds_gpus:
            yield f"{pod.key} is {pod.phase}: it holds nothing, though its annotation still names {pod.annotated[0]}."
        if pod.has_init_gpus and pod.gpus > pod.gpus_used:
            yield f"{pod.key} must be placed with {pod.gpus} GPUs for its init container and uses {pod.gpus_used} then."
    if found.others:
        kinds = ", ".join(f"{count} {kind or 'without a kind'}" for kind, count in list(found.others.items())[:5])
        yield f"Not looked at: {kinds}."


def _table(nodes: Sequence[KubeNode], snapshot: ClusterSnapshot) -> Table:
    rows = []
    for node in sorted(nodes, key=lambda one: one.name)[:60]:
        free = len(snapshot.free_gpus.get(node.name, ()))
        rows.append((
            node.name,
            "?" if node.gpus is None else str(node.gpus),
            "?" if node.allocatable is None else str(sum(node.allocatable.values())),
            str(free) if node.allocatable_gpus else "?",
            "" if node.is_schedulable else "cordoned",
        ))  # fmt: skip
    return Table(head=("node", "cards", "allocatable", "free", ""), rows=tuple(rows))
