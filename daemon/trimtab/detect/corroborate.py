"""Counts the independent sources behind a case: two, or one that is self-sufficient, and a move may rest on it.

Sources: the driver's event (kernel line and NVML event of one XID are one), the GPU's own state, its presence, the
other end of a link, the failure of its job. Userspace's lines and exporters' echoes are no source.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from trimtab.detect.case import Case, CaseKind
from trimtab.detect.fleet import Fleet
from trimtab.detect.runs import EPISODE_GAP_SECONDS, Device, Run
from trimtab.model.cluster import WorkloadState
from trimtab.model.reading import EventKind

_FELL_CODES = frozenset({79})
_ECC_CODES = frozenset({48, 63, 64, 94, 95, 140})
_ECC_KEYS = ("ecc_errors_total/uncorrected", "remapped_rows/uncorrectable", "row_remap_pending")


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """Whether a move may rest on a case, on which sources, and what speaks against it."""

    is_corroborated: bool
    sources: tuple[str, ...]
    against: tuple[str, ...] = ()


class LinkPeers:
    """Which GPUs saw link faults in which minute, to find the other end of a link."""

    def __init__(self, devices: Iterable[Device]) -> None:
        """Index the link runs of all devices."""
        self._places: Mapping[int, set[tuple[str, str]]] = defaultdict(set)
        for device in devices:
            for run in device.runs:
                if run.sign.row.is_link and run.is_believed:
                    self._places[_minute(run)].add((device.node, device.gpu))

    def has_peer(self, run: Run) -> bool:
        """Whether another GPU saw a link fault within a minute of this one."""
        minute = _minute(run)
        seen = set().union(*(self._places.get(minute + step, set()) for step in (-1, 0, 1)))
        return bool(seen - {(run.node, run.gpu)})


def _minute(run: Run) -> int:
    return int(run.first_at.timestamp() // EPISODE_GAP_SECONDS)


def proof_of(case: Case, fleet: Fleet, peers: LinkPeers) -> Proof:
    """The sources of a case and whether they suffice."""
    if case.kind is CaseKind.PAST:
        return Proof(is_corroborated=False, sources=())
    sources = {
        name
        for name, found in (
            ("driver event", any(run.is_believed for run in case.runs)),
            ("GPU state", _has_state(case, fleet)),
            ("presence", _has_presence(case, fleet)),
            ("other end of the link", _has_peer(case, peers)),
            ("failed job", _has_failed_job(case, fleet)),
        )
        if found
    }
    contradiction = _contradiction(case)
    suffices = len(sources) >= 2 or _is_self_sufficient(case)
    return Proof(
        is_corroborated=suffices and not contradiction,
        sources=tuple(sorted(sources)),
        against=contradiction,
    )


def _is_self_sufficient(case: Case) -> bool:
    """One deciding sign that is enough alone; for programs' own errors nothing more is wanted than the line."""
    action = case.action
    believed = [run for run in case.deciding if run.is_believed and run.sign.action is action]
    if any(run.sign.row.is_self_sufficient or run.sign.recovery for run in believed):
        return True
    if any(condition.is_sufficient and condition.action is action for condition in case.conditions):
        return True
    codes = {run.sign.code for run in case.runs if run.is_believed}
    if any(run.sign.row.proof_codes & codes for run in believed):
        return True
    return case.kind is not CaseKind.DEVICE and bool(believed)


def _has_state(case: Case, fleet: Fleet) -> bool:
    # An exporter's copy of the state is an echo (is_sufficient is False there), and no source.
    if any(condition.is_sufficient and not condition.is_presence for condition in case.conditions):
        return True
    if case.root is None or case.root.sign.code not in _ECC_CODES:
        return False
    return any(_value(fleet, place, key) > 0 for place in case.places for key in _ECC_KEYS)


def _value(fleet: Fleet, place: tuple[str, str], key: str) -> float:
    now = fleet.now(*place)
    return (now.value(key) or 0.0) if now is not None and fleet.is_fresh(now) else 0.0


def _has_presence(case: Case, fleet: Fleet) -> bool:
    if any(condition.is_presence for condition in case.conditions):
        return True
    if any(run.first.kind is EventKind.GPU_LOST and run.is_believed for run in case.runs):
        return True
    return case.kind is CaseKind.DEVICE and any(_is_gone(fleet, place) for place in case.places)


def _is_gone(fleet: Fleet, place: tuple[str, str]) -> bool:
    """The node reports, it is to have more GPUs than it shows, and this one is not among those it shows."""
    node, gpu = place
    known = fleet.window.nodes.get(node)
    if not gpu or known is None or known.gpus_expected is None or not fleet.is_node_fresh(node):
        return False
    now = fleet.now(node, gpu)
    return now is None or not fleet.is_fresh(now)


def _has_peer(case: Case, peers: LinkPeers) -> bool:
    return any(run.sign.row.is_link and peers.has_peer(run) for run in case.runs if run.is_believed)


def _has_failed_job(case: Case, fleet: Fleet) -> bool:
    held = (fleet.workload(*place) for place in case.places)
    return any(workload is not None and workload.state is WorkloadState.FAILED for workload in held)


def _contradiction(case: Case) -> tuple[str, ...]:
    fell = any(run.sign.code in _FELL_CODES or run.first.kind is EventKind.FALLEN_OFF for run in case.runs)
    return ("It still answers the driver, well after the line.",) if fell and case.is_answering else ()
