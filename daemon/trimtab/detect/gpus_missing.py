"""gpus_missing: nodes that report and show fewer GPUs than they should, without an event that says why."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from trimtab.detect.fleet import Fleet, count_text
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.reading import EventKind
from trimtab.model.window import GpuNow, NodeNow, Window

RULE = "gpus_missing"
_GONE_KINDS = frozenset({EventKind.FALLEN_OFF, EventKind.GPU_LOST, EventKind.RM_INIT})
_FELL_OFF = 79
_FABRIC_IN_PROGRESS = 2.0


class GpusMissing:
    """Finds nodes where GPUs are gone without a word. One whose GPUs cannot be read at all is blind's."""

    name = RULE
    span_seconds = 60.0

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per node."""
        short = {name: node for name, node in window.nodes.items() if node.gpus_expected}
        if not short:
            return
        fleet = Fleet(window)
        shown = shown_gpus(fleet)
        told = _told_gone(fleet, shown)
        for name, node in short.items():
            if not fleet.is_node_fresh(name):
                continue
            found = _judge(node, fleet, shown.get(name, {}), told.get(name, set()))
            if found is not None:
                yield found


def shown_gpus(fleet: Fleet) -> Mapping[str, Mapping[str, GpuNow]]:
    """Node -> GPUs of its last report, whatever their state."""
    shown: dict[str, dict[str, GpuNow]] = defaultdict(dict)
    for key, now in fleet.window.gpus.items():
        node = fleet.window.nodes.get(key.node)
        if node is not None and (node.received_at - now.received_at).total_seconds() <= 1.5 * node.interval_seconds:
            shown[key.node][key.uuid] = now
    return shown


def _told_gone(fleet: Fleet, shown: Mapping[str, Mapping[str, GpuNow]]) -> Mapping[str, set[str]]:
    """Node -> GPUs that an event says are gone and that are not shown: device_fault has those."""
    told: dict[str, set[str]] = defaultdict(set)
    for item in fleet.window.events:
        event = item.event
        if event.kind in _GONE_KINDS or event.code == _FELL_OFF:
            gpu = event.gpu or event.pci or ""
            pcis = {now.reading.info.pci for now in shown.get(item.node, {}).values()}
            if gpu not in shown.get(item.node, {}) and event.pci not in pcis:
                told[item.node].add(gpu)
    return told


def _judge(node: NodeNow, fleet: Fleet, shown: Mapping[str, GpuNow], told: set[str]) -> Finding | None:
    if not shown and node.errors:
        return None
    expected = node.gpus_expected or 0
    missing = expected - len(shown) - len(told)
    if missing <= 0:
        return None
    return _missing(node, fleet, shown, missing=missing, expected=expected)


def _missing(node: NodeNow, fleet: Fleet, shown: Mapping[str, GpuNow], *, missing: int, expected: int) -> Finding:
    gone = [gpu for gpu in fleet.node_gpus(node.name) if gpu not in shown]
    hit = fleet.hit([(node.name, gpu) for gpu in gone], is_stopped=True)
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{node.name}",
        subject=Subject(cluster=fleet.cluster, node=node.name, gpu=gone[0] if len(gone) == missing == 1 else None),
        action=Action.CORDON_REBOOT,
        severity=Severity.CRITICAL,
        sentence=f"{node.name} lacks {count_text(missing, 'GPU')} of {expected}, and no event says why",
        impact=hit.impact or f"{count_text(missing, 'GPU')} out of service",
        advice="Cordon the node, bring its jobs back elsewhere, reboot it; inspect the hardware if they stay away.",
        evidence=(
            Evidence(
                source="nvml",
                text=f"{count_text(len(shown), 'GPU')} shown, {expected} expected",
                at=node.received_at,
                value=float(len(shown)),
                threshold=float(expected),
                unit="gpus",
            ),
            *_fabric(shown),
            *_scheduler_agrees(node, fleet, expected),
        ),
        against=(Evidence(source="kernel", text="No line says that a GPU fell off."),),
        workloads_hit=hit.workloads,
        gpus_hit=max(hit.gpus, missing),
        loss_gpus=max(hit.loss_gpus, float(missing)),
        is_corroborated=bool(list(_scheduler_agrees(node, fleet, expected))),
        began_at=node.received_at,
        facts={"missing": str(missing)},
    )


def _fabric(shown: Mapping[str, GpuNow]) -> Iterator[Evidence]:
    waiting = sum(now.value("fabric_state") == _FABRIC_IN_PROGRESS for now in shown.values())
    if waiting:
        yield Evidence(source="nvml", text=f"the NVLink fabric is still being set up on {count_text(waiting, 'GPU')}")


def _scheduler_agrees(node: NodeNow, fleet: Fleet, expected: int) -> Iterator[Evidence]:
    """The second source: the scheduler too counts fewer usable GPUs than there should be.

    GPUs that are split into instances are not given out whole, and so say nothing.
    """
    if any(now.reading.instances for key, now in fleet.window.gpus.items() if key.node == node.name):
        return
    known = fleet.window.snapshot.node_by_name.get(node.name) if fleet.window.snapshot else None
    usable = sum(gpu.is_usable for gpu in known.gpus) if known else expected
    if usable < expected:
        yield Evidence(source="scheduler", text=f"{count_text(usable, 'GPU')} usable to the scheduler")
