"""Our incidents as Alertmanager's alerts: which labels are their identity, what they say, when they end. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from trimtab.model.advice import Action, Severity
from trimtab.model.alerts import PushedAlert
from trimtab.model.oncall import Incident
from trimtab.model.runbook import alert_of, runbook_of
from trimtab.settings.alertmanager import AlertmanagerSettings

OTHER_NAME = "TrimtabFinding"
"""The alert of a rule that has none of its own."""

OURS_PREFIX = "Trimtab"
"""Names of alerts that are ours, pushed or fired by our rules; nobody else's may begin so."""

SEVERITY, INCIDENT_KEY = "severity", "incident_key"
"""Annotations: what changes while the alert stays the same one, and its name at pagers."""

_OF_RACK = "node_silent:rack:"
WORKLOADS_MAX = 20
ANNOTATION_CHARACTERS_MAX = 4000

_RANK = {Severity.INFO: 0, Severity.WARNING: 1, Severity.CRITICAL: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What all alerts of a daemon share."""

    settings: AlertmanagerSettings
    cluster: str
    """Whose windows and silences these are."""
    page_url: Callable[[], str] = str
    """Where people reach the page; empty = no link."""
    runbook_base: str = ""


def alert_for(incident: Incident, before: PushedAlert | None, frame: Frame, now: datetime) -> PushedAlert:
    """The alert of an open incident. What it was first pushed as (`before`) decides its identity from then on."""
    base = before.base_labels if before is not None else identity_labels(incident)
    labels = {**frame.settings.labels, **base}
    if frame.settings.severity_label is not None:
        labels[frame.settings.severity_label] = _worst(incident.severity, before, frame).value
    started_at = min(incident.opened_at, now - timedelta(milliseconds=1))
    return PushedAlert(
        incident=incident.number,
        labels=labels,
        base_labels=base,
        starts_at=before.starts_at if before is not None else started_at,
        annotations=_annotations(incident, frame),
        link=_link(incident, frame),
    )


def identity_labels(incident: Incident) -> dict[str, str]:
    """What names the incident and does not change while it lasts: no value, no pod, no severity."""
    subject = incident.subject
    told = {
        "alertname": alert_of(incident.rule, incident.action) or OTHER_NAME,
        "cluster": incident.cluster,
        "incident": incident.incident or incident.id,
        "node": subject.node,
        "gpu": subject.gpu,
        "workload": subject.workload if subject.node is None else None,
        "queue": incident.queue or subject.queue,
        "rack": _rack_of(incident),
        "audience": "owner" if incident.action is Action.ALERT_OWNER else None,
        "drill": "true" if incident.is_drill else None,
    }
    return {name: _sendable(value) for name, value in told.items() if value}


def _sendable(text: str) -> str:
    """The text as UTF-8 can hold it: one odd name of a job must not keep all alerts back."""
    return text.encode("utf-8", "replace").decode()


def _rack_of(incident: Incident) -> str | None:
    """The rack that is silent as a whole, as the rule TrimtabRackBlind names it."""
    return incident.incident.removeprefix(_OF_RACK) if incident.incident.startswith(_OF_RACK) else None


def _worst(severity: Severity, before: PushedAlert | None, frame: Frame) -> Severity:
    """The worst so far: a better one is told in the annotation, and pages nobody a second time."""
    said = before.labels.get(frame.settings.severity_label or "", "") if before is not None else ""
    earlier = Severity(said) if said in list(Severity) else Severity.INFO
    return max(severity, earlier, key=lambda one: _RANK[one])


def _annotations(incident: Incident, frame: Frame) -> dict[str, str]:
    told = {
        "summary": incident.first_line or incident.title,
        "impact": incident.impact,
        "action": incident.action.value,
        SEVERITY: incident.severity.value,
        "finding": f"F{incident.finding}" if incident.finding is not None else "",
        INCIDENT_KEY: incident.key,
        "workloads": ", ".join(incident.victims[:WORKLOADS_MAX]),
        "owner": incident.owner,
        "acknowledged_by": incident.acknowledged_by,
        "dry_run": "\n".join(incident.dry_run),
        "runbook": runbook_of(incident.rule, incident.action, base=frame.runbook_base),
    }
    return {name: _sendable(value[:ANNOTATION_CHARACTERS_MAX]) for name, value in told.items() if value}


def _link(incident: Incident, frame: Frame) -> str:
    base = frame.page_url().rstrip("/")
    if not base:
        return ""
    return f"{base}/f/{incident.finding}" if incident.finding is not None else f"{base}/"


def body_of(alert: PushedAlert, *, now: datetime, hold_seconds: float) -> dict[str, object]:
    """What is posted: it ends ahead of now while it is open, and in the past, after its start, once it is over."""
    ends_at = now + timedelta(seconds=hold_seconds)
    if alert.resolved_at is not None:
        # An alert that ends when it starts counts as over and was never paged: keep the two apart.
        ends_at = max(alert.resolved_at, alert.starts_at + timedelta(milliseconds=1))
    body: dict[str, object] = {
        "labels": dict(alert.labels),
        "annotations": dict(alert.annotations),
        "startsAt": _moment(alert.starts_at),
        "endsAt": _moment(ends_at),
    }
    if alert.link:
        body["generatorURL"] = alert.link
    return body


def resolved(alert: PushedAlert, at: datetime) -> PushedAlert:
    """The alert as over at that moment."""
    return replace(alert, resolved_at=at)


def faults_of(bodies: Sequence[Mapping[str, object]]) -> list[str]:
    """What is wrong with bodies that are about to be posted, as sentences; nothing such leaves this house."""
    said = []
    for body in bodies:
        name = _name(body)
        if not body.get("endsAt"):
            said.append(f"{name} has no endsAt: it would end by itself after 5 minutes while the fault goes on.")
        elif body.get("startsAt") == body["endsAt"]:
            said.append(f"{name} ends when it starts: it counts as over and pages nobody.")
        if "generatorURL" in body and body["generatorURL"] in ("", "null", None):
            said.append(f"{name} has an empty generatorURL.")
    return said


def _name(body: Mapping[str, object]) -> str:
    labels = body.get("labels")
    return str(labels.get("alertname", "?")) if isinstance(labels, Mapping) else "?"


def fingerprint_of(labels: Mapping[str, str]) -> str:
    """Alertmanager's own name for a label set: FNV-1a over its sorted names and values, 16 hex digits."""
    found = 14695981039346656037
    for name, value in sorted(labels.items()):
        for byte in (*name.encode(), 255, *value.encode(), 255):
            found = ((found ^ byte) * 1099511628211) & 0xFFFFFFFFFFFFFFFF
    return f"{found:016x}"


def pager_key_of(group_key: str) -> str:
    """The key under which Alertmanager's own pager receivers keep a group: SHA-256 of its group key, in hex."""
    return hashlib.sha256(group_key.encode()).hexdigest()


def is_ours(labels: Mapping[str, str]) -> bool:
    """Whether an alert is our own, pushed or fired by one of our rules, coming back."""
    return labels.get("alertname", "").startswith(OURS_PREFIX)


def _moment(at: datetime) -> str:
    """RFC 3339 with milliseconds."""
    return at.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
