"""Which runbook goes with what: one file a finding kind and alert, in docs/runbooks. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from trimtab.model.advice import Action

RUNBOOKS_PATH = "docs/runbooks"
"""Where the files stand in the repository, and below the base address that a site sets."""

ALERT_OF_RULE: Mapping[str, str] = {
    "device_fault": "TrimtabDeviceFault",
    "gpus_missing": "TrimtabGpusMissing",
    "node_silent": "TrimtabNodeSilent",
    "blind": "TrimtabNodeBlind",
    "clock_skew": "TrimtabClockSkew",
    "contradiction": "TrimtabContradiction",
    "hung_job": "TrimtabHungJob",
    "fragmentation": "TrimtabFragmentation",
    "straggler": "TrimtabStraggler",
    "hotspot": "TrimtabHotspot",
    "idle_gpu": "TrimtabIdleGpu",
}
"""A detector's rule -> the alert that fires on its findings, which is also the name of their runbook."""

PROGRAM_FAULT = "TrimtabProgramFault"
"""device_fault of the program's own making: the owner's news, not the node's fault."""


def alert_of(rule: str, action: Action = Action.NONE) -> str:
    """The alert (and runbook) of a finding; empty for a rule that has none."""
    if rule == "device_fault" and action is Action.ALERT_OWNER:
        return PROGRAM_FAULT
    return ALERT_OF_RULE.get(rule, "")


def runbook_of(rule: str, action: Action = Action.NONE, *, base: str = "") -> str:
    """Where a finding's runbook is: below `base` (an address), else the file's path in the repository."""
    name = alert_of(rule, action)
    if not name:
        return ""
    return f"{base.rstrip('/')}/{name}.md" if base else f"{RUNBOOKS_PATH}/{name}.md"
