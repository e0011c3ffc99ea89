"""node_silent: nodes that are expected to report and do not; a rack or the whole cluster at once is one incident."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from trimtab.detect.closing import NODES
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.incident import MEMBERS, members_text
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import Node
from trimtab.model.window import NodeNow, Window
from trimtab.settings import DetectSettings

RULE = "node_silent"
_MOST = 0.5
"""From this share of the expected nodes on, the fault is sought on our side of the wire first."""
_FEW = 3
"""Fewer silent nodes than this are never called the cluster's fault."""


class NodeSilent:
    """Finds nodes without a report; what the scheduler deleted is gone, not silent."""

    name = RULE

    def __init__(self, settings: DetectSettings) -> None:
        """Judge by the settings' `silent_after_seconds`."""
        self.span_seconds = settings.silent_after_seconds
        self._after_seconds = settings.silent_after_seconds

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per silent node, rack or cluster."""
        expected = [node for node in window.nodes.values() if _is_expected(node, window)]
        silent = [node for node in expected if self._is_silent(node, window)]
        if not silent:
            return
        fleet = Fleet(window)
        if len(silent) >= _FEW and len(silent) >= _MOST * len(expected):
            yield _cluster(silent, len(expected), fleet)
            return
        for rack, nodes in _by_rack(silent, expected, fleet):
            yield _rack(rack, nodes, fleet) if rack else _node(nodes[0], fleet)

    def _is_silent(self, node: NodeNow, window: Window) -> bool:
        after_seconds = max(self._after_seconds, 3 * node.interval_seconds)
        return (window.at - node.received_at).total_seconds() > after_seconds


def _is_expected(node: NodeNow, window: Window) -> bool:
    return node.is_expected and (window.snapshot is None or node.name in window.snapshot.node_by_name)


def _known(fleet: Fleet, name: str) -> Node | None:
    return fleet.window.snapshot.node_by_name.get(name) if fleet.window.snapshot else None


def _by_rack(
    silent: Sequence[NodeNow], expected: Sequence[NodeNow], fleet: Fleet
) -> Iterator[tuple[str | None, list[NodeNow]]]:
    """(rack, nodes) for racks that are silent as a whole, then (None, [node]) for the rest."""
    totals: dict[str, int] = defaultdict(int)
    found: dict[str | None, list[NodeNow]] = defaultdict(list)
    for node in expected:
        known = _known(fleet, node.name)
        if known is not None and known.rack:
            totals[known.rack] += 1
    for node in silent:
        known = _known(fleet, node.name)
        found[known.rack if known else None].append(node)
    for rack, nodes in found.items():
        if rack and len(nodes) > 1 and len(nodes) == totals[rack]:
            yield rack, nodes
        else:
            yield from ((None, [node]) for node in nodes)


def _node(node: NodeNow, fleet: Fleet) -> Finding:
    known = _known(fleet, node.name)
    is_down = known is not None and not known.is_ready
    hit = fleet.hit([(node.name, "")], is_stopped=is_down)
    says = "is down: no report, and its scheduler calls it not ready" if is_down else "is silent: no report"
    against = () if is_down or known is None else (Evidence(source="scheduler", text="It is ready to its scheduler."),)
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{node.name}",
        subject=Subject(cluster=fleet.cluster, node=node.name),
        action=Action.CORDON_REBOOT if is_down else Action.WATCH,
        severity=Severity.CRITICAL if is_down else Severity.WARNING,
        sentence=f"{node.name} {says}",
        impact=hit.impact,
        advice=_NODE_DOWN if is_down else _NODE_QUIET,
        evidence=(_last_report(node), *((_not_ready(node.name),) if is_down else ())),
        against=against,
        workloads_hit=hit.workloads,
        gpus_hit=hit.gpus,
        loss_gpus=hit.loss_gpus,
        is_corroborated=is_down,
        began_at=node.received_at,
        facts={MEMBERS: members_text([f"{RULE}:{node.name}"])},
    )


_NODE_DOWN = "Cordon the node, bring its jobs back elsewhere, look at its console."
_NODE_QUIET = "Look at the agent (systemctl status trimtab-agent) and at the way from the node to here."


def _rack(rack: str, nodes: Sequence[NodeNow], fleet: Fleet) -> Finding:
    down = [node for node in nodes if (known := _known(fleet, node.name)) is not None and not known.is_ready]
    is_down = len(down) == len(nodes)
    hit = fleet.hit([(node.name, "") for node in nodes], is_stopped=is_down)
    says = "is down" if is_down else "is silent"
    return Finding(
        rule=RULE,
        incident=f"{RULE}:rack:{rack}",
        subject=Subject(cluster=fleet.cluster),
        action=Action.WATCH,
        severity=Severity.CRITICAL if is_down else Severity.WARNING,
        sentence=f"rack {rack} {says}: no report from {_names(nodes)}",
        impact=hit.impact,
        advice="Look at what the rack shares: its switch and its power.",
        evidence=tuple(_last_report(node) for node in nodes[:8]),
        against=() if is_down else (_ready(len(nodes) - len(down)),),
        workloads_hit=hit.workloads,
        gpus_hit=hit.gpus,
        loss_gpus=hit.loss_gpus,
        is_corroborated=is_down,
        began_at=_began_at(nodes),
        facts={"rack": rack, NODES: _listed(nodes), MEMBERS: members_text(f"{RULE}:{node.name}" for node in nodes)},
    )


def _cluster(nodes: Sequence[NodeNow], expected: int, fleet: Fleet) -> Finding:
    return Finding(
        rule=RULE,
        incident=f"{RULE}:cluster",
        subject=Subject(cluster=fleet.cluster),
        action=Action.CONFIG_PROBLEM,
        severity=Severity.CRITICAL,
        sentence=f"{fleet.cluster}: most nodes are silent, {count_text(expected, 'node')} expected",
        impact="Nothing is judged or moved there meanwhile",
        advice="Look at this daemon's own network, certificate and clock first.",
        evidence=tuple(_last_report(node) for node in nodes[:8]),
        is_corroborated=False,
        began_at=_began_at(nodes),
        facts={NODES: _listed(nodes), MEMBERS: members_text(f"{RULE}:{node.name}" for node in nodes)},
    )


def _names(nodes: Sequence[NodeNow]) -> str:
    names = sorted(node.name for node in nodes)
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _listed(nodes: Sequence[NodeNow]) -> str:
    """The nodes that must be seen again; of very many the first stand for the rest."""
    return " ".join(sorted(node.name for node in nodes)[:256])


def _began_at(nodes: Sequence[NodeNow]) -> datetime:
    return min(node.received_at for node in nodes)


def _last_report(node: NodeNow) -> Evidence:
    return Evidence(source="reports", text=f"last report from {node.name}", at=node.received_at)


def _not_ready(name: str) -> Evidence:
    return Evidence(source="scheduler", text=f"{name} is not ready")


def _ready(count: int) -> Evidence:
    return Evidence(source="scheduler", text=f"{count_text(count, 'node')} of the rack ready to the scheduler")
