"""device_fault: GPUs and switches that fail, from driver events and the GPUs' own state; one finding per incident.

Works on a live window and on one made of a file (no snapshot, no node names, PCI addresses only). Needs no numpy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from trimtab.detect.case import Case, CaseKind, Context, cases_of
from trimtab.detect.closing import ENERGY, NODES
from trimtab.detect.condition import Condition, conditions_of
from trimtab.detect.corroborate import LinkPeers, Proof, proof_of
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.hits import PLACES, places_text
from trimtab.detect.incident import MEMBERS, members_text, moment_text
from trimtab.detect.merge import merge
from trimtab.detect.runs import Device, Run, devices_of
from trimtab.detect.xid_table import FaultClass, Tier, XidTable, load_table
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.reading import EventSource, GpuState
from trimtab.model.window import Window

RULE = "device_fault"
EVIDENCE_MAX = 12
_TEXT_MAX = 300
_AT_FAULT_SECONDS = 60.0
_SEVERITIES: Mapping[Tier, Severity] = {
    Tier.PAGE: Severity.CRITICAL,
    Tier.CORDON: Severity.WARNING,
    Tier.TICKET: Severity.WARNING,
    Tier.OWNER: Severity.INFO,
    Tier.STORE: Severity.INFO,
}
_ADVICE: Mapping[Action, str] = {
    Action.CORDON_REBOOT: "Cordon the node, bring its jobs back elsewhere, reboot it.",
    Action.CORDON_RESET: "Cordon, drain the jobs of this GPU, reset it; reboot if the reset fails.",
    Action.RESET_AFTER_DRAIN: "Start nothing new on it, let its jobs end, then reset the GPU.",
    Action.HARDWARE_RMA: "Cordon, drain, run the field diagnostic; replace the card if it fails.",
    Action.ALERT_OWNER: "Tell the job's owner; the GPU is well.",
    Action.UNKNOWN: "Ask the driver for its recovery action; nothing is done for this alone.",
}
_NEEDS: Mapping[Action, str] = {
    Action.CORDON_REBOOT: "reboot",
    Action.CORDON_RESET: "reset",
    Action.RESET_AFTER_DRAIN: "reset",
    Action.HARDWARE_RMA: "replacement",
}


class DeviceFault:
    """Finds failed GPUs and switches, programs' own faults, and memory that wants a reset."""

    name = RULE

    def __init__(self, *, span_seconds: float = 900.0, table: XidTable | None = None) -> None:
        """Events older than `span_seconds` raise nothing, but count when the same comes back."""
        self.span_seconds = span_seconds
        self._table = table or load_table()

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per incident, worst first."""
        fleet = Fleet(window)
        devices = {(device.node, device.gpu): device for device in devices_of(window, self._table)}
        conditions = conditions_of(fleet, self._table)
        for place in conditions:
            devices.setdefault(place, Device(node=place[0], gpu=place[1]))
        peers = LinkPeers(devices.values())
        raise_after = _before(window.at, self.span_seconds)
        cases = [
            case
            for place, device in devices.items()
            for case in cases_of(device, _context(fleet, place, conditions.get(place, ()), raise_after))
        ]
        found = [_finding(case, proof_of(case, fleet, peers), fleet) for case in merge(cases, fleet)]
        return sorted(found, key=lambda finding: (-finding.action.rank, finding.sentence))


def _before(at: datetime, seconds: float) -> datetime:
    try:
        return at - timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)


def _context(fleet: Fleet, place: tuple[str, str], conditions: Sequence[Condition], raise_after: datetime) -> Context:
    now = fleet.now(*place)
    is_seen = now is not None and fleet.is_fresh(now)
    return Context(
        conditions=conditions,
        values=now.reading.values if now is not None and is_seen else None,
        read_at=now.at if now is not None and is_seen else None,
        is_present=now.reading.state is GpuState.OK if now is not None and is_seen else None,
        at=fleet.window.at,
        raise_after=raise_after,
    )


def _finding(case: Case, proof: Proof, fleet: Fleet) -> Finding:
    action = Action.WATCH if case.kind is CaseKind.WATCH and case.action is Action.NONE else case.action
    is_stopped = case.kind is CaseKind.DEVICE and _stops_work(case)
    hit = fleet.hit(case.places, is_stopped=is_stopped)
    return Finding(
        rule=RULE,
        incident=min(case.members) if case.root is None else _incident(case),
        subject=_subject(case, fleet),
        action=action,
        severity=_severity(case),
        sentence=_sentence(case, fleet),
        impact=hit.impact,
        advice=_advice(case, action),
        evidence=tuple(_evidence(case)),
        against=tuple(_against(case, proof)),
        workloads_hit=hit.workloads,
        gpus_hit=hit.gpus,
        loss_gpus=hit.loss_gpus,
        is_corroborated=proof.is_corroborated,
        began_at=case.began_at or fleet.window.at,
        is_history_only=case.kind is CaseKind.PAST,
        facts=_facts(case, action, proof, fleet),
    )


def _incident(case: Case) -> str:
    """The member of the root: stays while the incident grows."""
    root = case.root
    prefix = f"{case.kind}:{root.node}/{root.gpu}" if root else ""
    return next((member for member in sorted(case.members) if member.startswith(prefix)), min(case.members))


def _stops_work(case: Case) -> bool:
    fatal = (FaultClass.FATAL_GPU, FaultClass.FATAL_NODE)
    by_run = any(run.sign.row.fault_class in fatal and run.sign.action.takes_node_out for run in case.deciding)
    return by_run or any(condition.stops_work for condition in case.conditions)


def _subject(case: Case, fleet: Fleet) -> Subject:
    nodes = {node for node, _ in case.places}
    node, gpu = case.places[0]
    workload = fleet.workload(node, gpu)
    is_one_job = case.kind is CaseKind.APP or len(nodes) > 1
    return Subject(
        cluster=fleet.cluster,
        node=(node or None) if len(nodes) == 1 else None,
        gpu=gpu if len(case.places) == 1 and gpu and not _is_address(gpu) else None,
        workload=workload.id if workload and is_one_job else None,
    )


def _is_address(gpu: str) -> bool:
    return gpu.count(":") == 2 and "." in gpu


def _severity(case: Case) -> Severity:
    if case.kind is CaseKind.PAST:
        return Severity.INFO
    severity = _SEVERITIES[case.tier]
    if case.repeat is not None and severity is Severity.INFO:
        return Severity.WARNING
    only_userspace = all(run.first.source is EventSource.USERSPACE for run in case.runs) and not case.conditions
    return Severity.WARNING if severity is Severity.CRITICAL and only_userspace else severity


def _sentence(case: Case, fleet: Fleet) -> str:
    sign = case.root.sign if case.root else None
    says = sign.sentence if sign else case.conditions[0].says
    again = " again" if case.repeat is not None else ""
    nodes = list(dict.fromkeys(node for node, _ in case.places))
    if len(nodes) > 1:
        workload = fleet.workload(*case.places[0])
        who = workload.name if workload else fleet.holder(*case.places[0])
        first = fleet.place(nodes[0], [case.places[0][1]])
        where = f"{count_text(len(case.places), 'GPU')} on {count_text(len(nodes), 'node')}"
        return f"{who}: {first} {says}{again}, {where} in all"
    gpus = [gpu for _, gpu in case.places]
    if sign is not None and sign.is_switch:
        switch = f"NVSwitch {case.root.first.pci}" if case.root and case.root.first.pci else "An NVSwitch"
        return " ".join(part for part in (nodes[0], switch, says) if part)
    place = fleet.place(nodes[0], gpus)
    if not any(gpus):
        place = f"{nodes[0]}: a GPU" if nodes[0] else "A GPU"
    return f"{place}: each {says}{again}" if len(gpus) > 1 else f"{place} {says}{again}"


def _advice(case: Case, action: Action) -> str:
    if case.repeat is not None:
        return case.repeat.advice
    if case.root is not None and case.root.sign.advice and case.root.sign.action is action:
        return case.root.sign.advice
    own = next((condition.advice for condition in case.conditions if condition.action is action), "")
    return own or _ADVICE.get(action, "Keep it as a trend.")


def _evidence(case: Case) -> Iterator[Evidence]:
    runs = sorted(case.runs, key=lambda run: (run is not case.root, run.first_at))
    for run in runs[:EVIDENCE_MAX]:
        yield Evidence(source=run.first.source, text=_raw(run.first.text), at=run.first_at)
        if run.lines > 1:
            text = f"{run.lines} lines of {run.sign.label or run.first.kind}; the last: {_raw(run.last.text)}"
            yield Evidence(source=run.last.source, text=text, at=run.last_at, value=float(run.lines), unit="lines")
    if len(runs) > EVIDENCE_MAX:
        more = sum(run.lines for run in runs[EVIDENCE_MAX:])
        yield Evidence(source="kernel", text=f"{more} more lines", value=float(more), unit="lines")
    for condition in case.conditions[:EVIDENCE_MAX]:
        yield Evidence(source="nvml", text=condition.text, value=condition.value, threshold=condition.threshold)


def _raw(text: str) -> str:
    return text if len(text) <= _TEXT_MAX else f"{text[:_TEXT_MAX]}…"


def _against(case: Case, proof: Proof) -> Iterator[Evidence]:
    for text in proof.against:
        yield Evidence(source="nvml", text=text)
    for run in _told_once(case.runs):
        for text in run.sign.against:
            yield Evidence(source="driver", text=text)
    if case.root is not None and case.root.sign.row.disagreement:
        yield Evidence(source="catalogue", text=case.root.sign.row.disagreement)
    if case.kind is CaseKind.DEVICE and not proof.is_corroborated and not proof.against:
        missing = "Only userspace or an exporter says so." if not proof.sources else "One source only."
        yield Evidence(source="rule", text=f"{missing} No move rests on it before a second one agrees.")


def _told_once(runs: Iterable[Run]) -> list[Run]:
    return list({run.sign.against: run for run in runs if run.sign.against}.values())


def _facts(case: Case, action: Action, proof: Proof, fleet: Fleet) -> dict[str, str]:
    node, gpu = case.places[0]
    known = fleet.window.nodes.get(node)
    nodes = list(dict.fromkeys(place[0] for place in case.places))
    boot = (case.root.first.boot_id if case.root else None) or (known.boot_id if known else "")
    facts = {
        "kind": case.kind.value,
        "needs": _NEEDS.get(action, "") if case.kind is CaseKind.DEVICE else "",
        "rests_on": "events" if case.runs else "state",
        "label": case.label,
        "lines": str(sum(run.lines for run in case.runs)),
        "gpus": str(len(case.places)),
        "sources": ", ".join(proof.sources),
        MEMBERS: members_text(case.members),
    }
    optional = {
        "boot_id": boot,
        "pci": next((run.first.pci for run in case.runs if run.first.pci), None),
        "last_at": moment_text(case.last_at) if case.last_at else None,
        "link": next((str(run.first.link) for run in case.runs if run.first.link is not None), None),
        "gpu_hint": next((hint for run in case.runs if (hint := run.first.details.get("gpu_text"))), None),
        "gpu": gpu or None,
        ENERGY: _energy(case, fleet),
        NODES: " ".join(nodes) if len(nodes) > 1 else None,
        PLACES: places_text(case.places) if case.kind in (CaseKind.DEVICE, CaseKind.WATCH) and nodes[0] else None,
    }
    return facts | {key: value for key, value in optional.items() if value}


def _energy(case: Case, fleet: Fleet) -> str | None:
    """The energy counter as it stood at the fault; later readings may already be those of a reset GPU."""
    now = fleet.now(*case.places[0])
    energy = now.value("energy_joules_total") if now is not None else None
    if now is None or energy is None or case.last_at is None or len(case.places) > 1:
        return None
    return f"{energy:.0f}" if abs((now.at - case.last_at).total_seconds()) <= _AT_FAULT_SECONDS else None
