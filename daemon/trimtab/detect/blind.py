"""blind: nodes that report while none of their GPUs can be read; nothing is claimed about those."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.detect.fleet import Fleet
from trimtab.detect.gpus_missing import shown_gpus
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.window import NodeNow, Window

RULE = "blind"


class Blind:
    """Finds fresh nodes with errors and without a single GPU in their last report."""

    name = RULE
    span_seconds = 60.0

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per node."""
        failing = [node for node in window.nodes.values() if node.errors]
        if not failing:
            return
        fleet = Fleet(window)
        shown = shown_gpus(fleet)
        for node in failing:
            if fleet.is_node_fresh(node.name) and not shown.get(node.name):
                yield _blind(node, fleet)


def _blind(node: NodeNow, fleet: Fleet) -> Finding:
    why = next(iter(sorted(f"{section}: {text}" for section, text in node.errors.items())))
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{node.name}",
        subject=Subject(cluster=fleet.cluster, node=node.name),
        action=Action.CONFIG_PROBLEM,
        severity=Severity.WARNING,
        sentence=f"{node.name} reports, but none of its GPUs can be read ({why})",
        impact="Nothing is claimed about its GPUs",
        advice="Look at the driver, the exporter and what the agent may open.",
        evidence=tuple(
            Evidence(source="reports", text=f"{section}: {text}", at=node.received_at)
            for section, text in sorted(node.errors.items())
        ),
        is_corroborated=True,
        began_at=node.received_at,
    )
