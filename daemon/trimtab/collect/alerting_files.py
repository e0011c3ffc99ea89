"""What people send to or keep for Alertmanager, Prometheus and Grafana: alerts, rules, dashboards, sources. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from trimtab.collect.documents import Document, at, labels_of, list_of, tables_of, text_at
from trimtab.collect.kubectl import moment

_XID_GAUGE = re.compile(r"\bDCGM_FI_DEV_XID_ERRORS?\b")
_AS_COUNTER = re.compile(r"\b(?:increase|rate|irate|delta|idelta|changes|resets|sum|avg|deriv)(?:_over_time)?\b")
_COMPARED = re.compile(r"DCGM_FI_DEV_XID_ERRORS?\s*(?:\{[^}]*\})?\s*(?:\)\s*)*(?:==|!=)\s*\d")
_INPUT = re.compile(r"\$\{(DS_[A-Za-z0-9_]+)\}")
DEPTH_MAX = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Alert:
    """One alert of a webhook or of a post to Alertmanager."""

    labels: Mapping[str, str]
    starts_at: datetime | None = None
    ends_at: datetime | None = None
    has_end: bool = False
    status: str | None = None

    @property
    def is_ended(self) -> bool:
        """Whether it is over: its status says so, else an end that is not the zero moment."""
        if self.status is not None:
            return self.status == "resolved"
        return self.ends_at is not None and self.ends_at.year > 1

    @property
    def is_over_at_start(self) -> bool:
        """Whether it ends when it starts: such an alert pages nobody."""
        return self.has_end and self.starts_at is not None and self.ends_at == self.starts_at


def is_alert(document: Document) -> bool:
    """Whether a table has an alert's labels."""
    return "alertname" in labels_of(document, "labels")


def read_alert(table: Mapping[str, Document]) -> Alert:
    """One alert."""
    return Alert(
        labels=labels_of(table, "labels"),
        starts_at=moment(text_at(table, "startsAt")),
        ends_at=moment(text_at(table, "endsAt")),
        has_end=text_at(table, "endsAt") is not None,
        status=text_at(table, "status"),
    )


def unstable_labels(posts: Sequence[Sequence[Alert]]) -> dict[str, tuple[str, ...]]:
    """Alert name -> labels whose value changes between posts of what is one fault (same name, node and GPU)."""
    seen: dict[tuple[str, str, str], list[Mapping[str, str]]] = {}
    for post in posts:
        for alert in post:
            labels = alert.labels
            device = labels.get("gpu_uuid") or labels.get("gpu", "")
            seen.setdefault((labels.get("alertname", ""), labels.get("node", ""), device), []).append(labels)
    return {
        key[0]: names
        for key, found in seen.items()
        if (names := tuple(sorted(name for name in _names(found) if len({labels.get(name) for labels in found}) > 1)))
    }


def _names(found: Sequence[Mapping[str, str]]) -> set[str]:
    return {name for labels in found for name in labels}


def identities(posts: Sequence[Sequence[Alert]]) -> int:
    """How many alerts Alertmanager would see: distinct label sets."""
    return len({tuple(sorted(alert.labels.items())) for post in posts for alert in post})


@dataclass(frozen=True, slots=True, kw_only=True)
class Dashboard:
    """A Grafana dashboard: its panels, and data sources that were left to be asked for."""

    title: str
    panels: int
    unresolved: Mapping[str, int] = field(default_factory=dict)
    """Name of an input -> how often it stands unresolved."""


def read_dashboard(document: Mapping[str, Document]) -> Dashboard:
    """A dashboard file. Inputs are filled in by the import dialog only, never by provisioning."""
    names = {text_at(one, "name") for one in tables_of(document.get("__inputs"))}
    counts: dict[str, int] = {}
    for text in _texts(document, 0):
        for name in _INPUT.findall(text):
            if not names or name in names:
                counts[name] = counts.get(name, 0) + 1
    return Dashboard(
        title=text_at(document, "title") or "(no title)",
        panels=len(_panels(document)),
        unresolved=counts,
    )


def _panels(document: Document) -> list[Mapping[str, Document]]:
    found = []
    for panel in tables_of(at(document, "panels")):
        found += [panel] if panel.get("type") != "row" else []
        found += tables_of(panel.get("panels"))
    return found


def _texts(value: Document, depth: int) -> list[str]:
    if isinstance(value, str):
        return [value]
    if depth > DEPTH_MAX:
        return []
    inner = value.values() if isinstance(value, Mapping) else list_of(value)
    return [text for one in inner for text in _texts(one, depth + 1)]


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertRule:
    """A Prometheus alert rule, and whether it reads the XID gauge as if it were a counter."""

    name: str
    expression: str

    @property
    def counts_xid_gauge(self) -> bool:
        """The gauge holds the last code: no function over it counts errors, and no sum of codes is a number."""
        if not _XID_GAUGE.search(self.expression):
            return False
        return _AS_COUNTER.search(self.expression) is not None and not _COMPARED.search(self.expression)


def read_rules(document: Mapping[str, Document]) -> tuple[AlertRule, ...]:
    """Alert rules of a rules file, or of a PrometheusRule object."""
    groups = tables_of(document.get("groups")) or tables_of(at(document, "spec", "groups"))
    return tuple(
        AlertRule(name=text_at(rule, "alert") or "?", expression=text_at(rule, "expr") or "")
        for group in groups
        for rule in tables_of(group.get("rules"))
        if text_at(rule, "alert") is not None
    )
