"""clock_skew: nodes whose clock is so far off that their moments are not believed."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.detect.fleet import Fleet
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

RULE = "clock_skew"


class ClockSkew:
    """Finds fresh nodes whose clock differs from ours by more than the settings allow."""

    name = RULE
    span_seconds = 60.0

    def __init__(self, settings: DetectSettings) -> None:
        """Judge by the settings' `clock_skew_seconds_max`."""
        self._max_seconds = settings.clock_skew_seconds_max

    def detect(self, window: Window) -> Iterable[Finding]:
        """One finding per node."""
        off = [node for node in window.nodes.values() if abs(node.clock_skew_seconds) > self._max_seconds]
        fleet = Fleet(window)
        for node in off:
            if not fleet.is_node_fresh(node.name):
                continue
            direction = "behind" if node.clock_skew_seconds > 0 else "ahead of"
            yield Finding(
                rule=RULE,
                incident=f"{RULE}:{node.name}",
                subject=Subject(cluster=window.cluster, node=node.name),
                action=Action.CONFIG_PROBLEM,
                severity=Severity.WARNING,
                sentence=f"{node.name}'s clock is more than {self._max_seconds / 60:.0f} min {direction} ours",
                impact="Its moments are not believed; the time of receipt is used",
                advice="Look at chronyd or systemd-timesyncd on the node.",
                evidence=(
                    Evidence(
                        source="reports",
                        text="receipt less the node's own time",
                        at=node.received_at,
                        value=node.clock_skew_seconds,
                        threshold=self._max_seconds,
                        unit="seconds",
                    ),
                ),
                is_corroborated=True,
                began_at=node.received_at,
            )
