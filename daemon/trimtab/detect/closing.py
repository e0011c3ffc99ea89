"""When a finding ends: rules as data, and what must be seen before one may. Missing data never ends a finding. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from trimtab.detect.fleet import Fleet
from trimtab.detect.incident import HOLDERS, digest, members_of, moment_of
from trimtab.detect.xid import RECOVERY, recovery_of
from trimtab.model.advice import Finding, OpenFinding
from trimtab.model.cluster import GpuKey, WorkloadState
from trimtab.model.reading import EventKind, GpuState
from trimtab.model.window import GpuNow, Window

RESET_SEEN = "reset_seen_at"
"""Fact: when the reset or reboot that the finding waited for was seen."""
NODES = "nodes"
"""Fact: the nodes of a finding about several, space separated."""
ENERGY = "energy_joules"
"""Fact: the GPU's energy counter while it was at fault; a smaller one later means that the driver began anew."""
SERIES, SERIES_SECONDS = "series", "series_seconds"
"""Facts: any of these series, seen for so long, is what the detector needs to say that all is well."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseRule:
    """How long all must be well, what must be seen for that, and from when it counts."""

    quiet_seconds: float
    reason: str
    needs_node: bool = True
    needs_snapshot: bool = False
    needs_device: bool = False
    """GPUs answer, the driver asks for nothing, and the reset that was needed has been seen."""
    is_since_last_event: bool = False
    needs_load: bool = False
    """Its sign shows only while work runs: that it ends on an empty node proves nothing."""

    @property
    def gate(self) -> str:
        """What ends it, and what lets a node that was taken out for it return."""
        if not self.needs_load:
            return self.reason
        return (
            f"{self.reason} with work on it; of an empty node that proves nothing, so a person says that it is repaired"
        )


_DEFAULT = CloseRule(quiet_seconds=60.0, reason="clear for a minute")
# The key is the rule, or rule:kind where a rule has several lives.
CLOSE_RULES: Mapping[str, CloseRule] = {
    "device_fault:device": CloseRule(
        quiet_seconds=600.0, reason="well for 10 min, and the driver asks for nothing", needs_device=True
    ),
    "device_fault:app": CloseRule(quiet_seconds=3600.0, reason="quiet for 1 h", is_since_last_event=True),
    "device_fault:watch": CloseRule(quiet_seconds=3600.0, reason="quiet for 1 h", is_since_last_event=True),
    "device_fault:past": CloseRule(quiet_seconds=60.0, reason="old news", needs_node=False),
    "gpus_missing": CloseRule(quiet_seconds=600.0, reason="all GPUs back for 10 min"),
    "node_silent": CloseRule(quiet_seconds=60.0, reason="reports again"),
    "blind": CloseRule(quiet_seconds=60.0, reason="its GPUs can be read again"),
    "clock_skew": CloseRule(quiet_seconds=60.0, reason="the clock is right again"),
    "fragmentation": CloseRule(
        quiet_seconds=60.0, reason="it no longer waits for placement", needs_node=False, needs_snapshot=True
    ),
    "contradiction": CloseRule(quiet_seconds=120.0, reason="the agent and the API agree again", needs_snapshot=True),
    "hung_job": CloseRule(quiet_seconds=60.0, reason="it moves again, or is over"),
    "idle_gpu": CloseRule(quiet_seconds=60.0, reason="used, or given back", needs_snapshot=True),
    "straggler": CloseRule(quiet_seconds=60.0, reason="no longer slow", needs_snapshot=True, needs_load=True),
    "hotspot": CloseRule(quiet_seconds=60.0, reason="no longer hot", needs_load=True),
}


def rule_of(finding: Finding) -> CloseRule:
    """The close rule of a finding."""
    kind = finding.facts.get("kind")
    return CLOSE_RULES.get(f"{finding.rule}:{kind}", CLOSE_RULES.get(finding.rule, _DEFAULT))


def unproved(finding: Finding, fleet: Fleet) -> str | None:
    """Why it proves nothing that the sign of a finding is gone now, as the end of "it ended while"; None = it does."""
    nodes = _nodes(finding)
    if not rule_of(finding).needs_load or not nodes:
        return None
    if fleet.window.snapshot is None:
        return "nobody knew what ran on it"
    gpu = finding.subject.gpu
    places = [(node, each) for node in nodes for each in ((gpu,) if gpu else fleet.node_gpus(node))]
    # Work on the node's other GPUs warms nothing of those that the finding is about.
    members = members_of(finding)
    own = [(node, each) for node, each in places if digest(f"slow:{node}/{each}") in members]
    held = [workload for place in own or places if (workload := fleet.workload(*place)) is not None]
    return None if any(one.state is WorkloadState.RUNNING for one in held) else "nothing ran on it"


class Sight(StrEnum):
    """What can be said of a finding that its detector no longer raises."""

    WELL = "well"
    WAITS = "waits"
    """Seen, and something is still owed: a reset, an answer, the driver's all-clear."""
    UNSEEN = "unseen"
    GONE = "gone"


def sight_of(found: OpenFinding, window: Window, fleet: Fleet) -> tuple[Sight, str]:
    """Whether what a finding is about is seen to be well, with the reason in words."""
    rule = rule_of(found.finding)
    nodes = _nodes(found.finding)
    left = [node for node in nodes if _has_left(node, window, fleet)]
    if nodes and len(left) == len(nodes):
        return Sight.GONE, f"{', '.join(left[:3])} left the cluster"
    if rule.needs_snapshot and window.snapshot is None and found.finding.facts.get(HOLDERS) != "reports":
        return Sight.UNSEEN, "the scheduler cannot be read"
    blind = [node for node in nodes if node not in left and not fleet.is_node_fresh(node)]
    if rule.needs_node and (blind or not (nodes or _anybody_reports(window, fleet))):
        return Sight.UNSEEN, f"no report from {blind[0]}" if blind else "no report from any node"
    if not _series_seen(found.finding, window, fleet):
        return Sight.UNSEEN, "too little history"
    return _device_sight(found, window, fleet) if rule.needs_device else (Sight.WELL, rule.reason)


def clear_from(found: OpenFinding, at: datetime) -> datetime:
    """The moment from which quiet counts, were it seen to be clear at `at` for the first time."""
    last = moment_of(found.finding.facts.get("last_at"))
    if rule_of(found.finding).is_since_last_event and last is not None:
        return min(last, at)
    return at


def is_over(found: OpenFinding, clear_since: datetime, at: datetime) -> bool:
    """Whether quiet has lasted long enough."""
    return at - clear_since >= timedelta(seconds=rule_of(found.finding).quiet_seconds)


def _nodes(finding: Finding) -> list[str]:
    listed = finding.facts.get(NODES, "").split()
    return listed or ([finding.subject.node] if finding.subject.node else [])


def _has_left(node: str, window: Window, fleet: Fleet) -> bool:
    """Deleted or scaled in: the scheduler no longer has it, and it does not report."""
    known = window.nodes.get(node)
    if known is not None and not known.is_expected:
        return True
    return window.snapshot is not None and node not in window.snapshot.node_by_name and not fleet.is_node_fresh(node)


def _anybody_reports(window: Window, fleet: Fleet) -> bool:
    return any(name not in fleet.stale_nodes for name in window.nodes)


# ---- series: a detector that sees too little says nothing, which is no all-clear ----


def _series_seen(finding: Finding, window: Window, fleet: Fleet) -> bool:
    metrics = finding.facts.get(SERIES, "").split()
    keys = [key for key in _scope(finding, fleet) if _answers(key, window)] if metrics else []
    if not keys:
        return True
    from trimtab.detect.series import SeriesView  # noqa: PLC0415 - numpy only with series

    view = SeriesView(window)
    columns = view.columns(keys)
    seconds = float(finding.facts.get(SERIES_SECONDS, "0"))
    blocks = (view.block(metric, columns, seconds) for metric in metrics)
    return any(block is not None and bool(view.is_covered(block, keys).all()) for block in blocks)


def _answers(key: GpuKey, window: Window) -> bool:
    """A GPU that is lost has no series; that is device_fault's business."""
    now = window.gpus.get(key)
    return now is None or now.reading.state is GpuState.OK


def _scope(finding: Finding, fleet: Fleet) -> list[GpuKey]:
    """The GPUs whose series matter: of the workload while it runs, else of the node. A job that is over needs none."""
    snapshot, subject = fleet.window.snapshot, finding.subject
    if subject.workload is not None and finding.rule != "hotspot":
        workload = snapshot.workload_by_id.get(subject.workload) if snapshot else None
        if snapshot is not None and (workload is None or not workload.is_running):
            return []
        if workload is not None:
            places = [(each.node, gpu) for each in workload.placements for gpu in each.gpus]
            return [GpuKey(cluster=fleet.cluster, node=node, uuid=gpu) for node, gpu in places]
    return [key for key in fleet.window.gpus if key.node == subject.node]


# ---- devices: well means that they answer, that nothing is asked for, and that the reset has been ----


def _device_sight(found: OpenFinding, window: Window, fleet: Fleet) -> tuple[Sight, str]:
    finding = found.finding
    shown = _shown(finding, fleet)
    if finding.subject.gpu is not None and not shown:
        if _is_replaced(finding, window, fleet):
            return Sight.GONE, "the card was replaced"
        return Sight.UNSEEN, f"{finding.subject.node} does not show this GPU"
    if any(now.reading.state is not GpuState.OK for now in shown):
        return Sight.WAITS, "it does not answer"
    if any(now.value("recovery_action") for now in shown):
        return Sight.WAITS, "the driver still asks for an action"
    if needs_reset(finding) and RESET_SEEN not in finding.facts:
        return Sight.WAITS, f"its {finding.facts['needs']} has not been seen"
    return Sight.WELL, rule_of(finding).reason


def _shown(finding: Finding, fleet: Fleet) -> list[GpuNow]:
    """Fresh readings of the GPU, or of all GPUs of the nodes where no single one is meant."""
    nodes, gpu = set(_nodes(finding)), finding.subject.gpu
    return [
        now
        for key, now in fleet.window.gpus.items()
        if key.node in nodes and (gpu is None or key.uuid == gpu) and fleet.is_fresh(now)
    ]


def _is_replaced(finding: Finding, window: Window, fleet: Fleet) -> bool:
    """The node shows all GPUs that it should have, all well, and this one is not among them."""
    node = finding.subject.node or ""
    known = window.nodes.get(node)
    shown = [now for key, now in window.gpus.items() if key.node == node and fleet.is_fresh(now)]
    well = [now for now in shown if now.reading.state is GpuState.OK]
    return known is not None and bool(known.gpus_expected) and len(well) >= (known.gpus_expected or 0)


def needs_reset(finding: Finding) -> bool:
    """Whether a reset or reboot must be seen: where events said so. A state that ends is its own proof."""
    return bool(finding.facts.get("needs")) and finding.facts.get("rests_on") == "events"


def reset_seen_at(finding: Finding, window: Window, fleet: Fleet) -> datetime | None:
    """When the reset or reboot that a finding waits for was seen in this window; None where it was not."""
    if not needs_reset(finding):
        return None
    nodes = set(_nodes(finding))
    boot = finding.facts.get("boot_id")
    booted = [node for node in nodes if boot and (now := window.nodes.get(node)) and now.boot_id not in ("", boot)]
    if booted:
        return window.nodes[booted[0]].sampled_at
    returned = _return_of(finding, window, nodes)
    if returned is not None or finding.facts["needs"] == "reboot":
        return returned
    return _restarted_at(finding, fleet)


def _return_of(finding: Finding, window: Window, nodes: Iterable[str]) -> datetime | None:
    """When the GPU came back, or (where a reset is enough) its driver took its wish back."""
    takes_wish = finding.facts["needs"] != "reboot"
    since = moment_of(finding.facts.get("last_at"))
    for item in window.events:
        event = item.event
        if item.node not in nodes or (since is not None and event.at <= since):
            continue
        if finding.subject.gpu is not None and event.gpu not in (None, finding.subject.gpu):
            continue
        is_withdrawn = takes_wish and event.code == RECOVERY and recovery_of(event) == 0
        if event.kind is EventKind.GPU_RETURNED or is_withdrawn:
            return event.at
    return None


def _restarted_at(finding: Finding, fleet: Fleet) -> datetime | None:
    """A counter that the driver keeps since it was loaded has begun anew."""
    before = finding.facts.get(ENERGY)
    if before is None or finding.subject.gpu is None:
        return None
    for now in _shown(finding, fleet):
        energy = now.value("energy_joules_total")
        if energy is not None and energy < float(before):
            return now.at
    return None
