"""One verdict of many findings, for a file or a node. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from trimtab.model.advice import Action, Finding, worst


def verdict_of(findings: Iterable[Finding]) -> Action:
    """The worst action, except that an unknown fault is not called the owner's: what is unknown may be the GPU's."""
    actions = [finding.action for finding in findings if not finding.is_history_only]
    found = worst(actions)
    if Action.UNKNOWN in actions and found.rank <= Action.ALERT_OWNER.rank:
        return Action.UNKNOWN
    return found
