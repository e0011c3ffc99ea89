"""Other people's alerts as Alertmanager's webhook brings them (version 4, and what Grafana makes of it). Pure.

State is per alert, whatever the group's; an end in the year 1 means `not ended`; unknown fields are passed over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime

import msgspec

from trimtab.model.alerts import AlertPlace, AlertState, ForeignAlert
from trimtab.settings.alertmanager import OthersSettings
from trimtab.show.alertmanager.alerts import fingerprint_of, is_ours

LABELS_MAX = 64
TEXT_CHARACTERS_MAX = 1000
ALERTS_PER_BODY_MAX = 2000


class WebhookAlert(msgspec.Struct):
    """One alert of a delivery."""

    labels: dict[str, str]
    startsAt: datetime  # noqa: N815 - Alertmanager's own names
    status: str = ""
    """`firing` or `resolved`; where it is missing, the end says."""
    annotations: dict[str, str] = {}
    endsAt: datetime | None = None  # noqa: N815
    fingerprint: str = ""


class Webhook(msgspec.Struct):
    """One delivery. Its own `status` is the group's, and says nothing of an alert."""

    alerts: list[WebhookAlert]
    receiver: str = ""
    groupKey: str = ""  # noqa: N815


@dataclass(frozen=True, slots=True, kw_only=True)
class Heard:
    """What of a delivery is about this cluster, and how many alerts were not."""

    alerts: tuple[ForeignAlert, ...]
    ignored: Mapping[str, int] = field(default_factory=dict)
    """Reason -> alerts: ours, elsewhere, nameless."""


def read_webhook(webhook: Webhook, *, settings: OthersSettings, cluster: str, source: str, heard_at: datetime) -> Heard:
    """The alerts of a delivery that are somebody else's and about this cluster."""
    ignored: Counter[str] = Counter()
    found: dict[tuple[str, datetime], ForeignAlert] = {}
    for told in webhook.alerts:
        reason = _why_ignored(told, settings, cluster)
        if reason:
            ignored[reason] += 1
            continue
        alert = _alert(told, webhook, settings=settings, source=source, heard_at=heard_at)
        found[alert.fingerprint, alert.starts_at] = alert
    return Heard(alerts=tuple(found.values()), ignored=ignored)


def _why_ignored(told: WebhookAlert, settings: OthersSettings, cluster: str) -> str:
    if not told.labels.get("alertname"):
        return "nameless"
    if is_ours(told.labels):
        return "ours"
    names = (*settings.clusters, cluster) if settings.clusters else ()
    where = told.labels.get(settings.cluster_label)
    return "elsewhere" if names and where is not None and where not in names else ""


def _alert(
    told: WebhookAlert, webhook: Webhook, *, settings: OthersSettings, source: str, heard_at: datetime
) -> ForeignAlert:
    ends_at = _utc(told.endsAt)
    is_over = told.status == "resolved" if told.status else ends_at is not None and ends_at <= heard_at
    return ForeignAlert(
        fingerprint=told.fingerprint[:64] or fingerprint_of(told.labels),
        starts_at=_utc(told.startsAt) or heard_at,
        state=AlertState.RESOLVED if is_over else AlertState.FIRING,
        name=told.labels["alertname"][:TEXT_CHARACTERS_MAX],
        labels=_bounded(told.labels),
        annotations=_bounded(told.annotations),
        place=place_of(told.labels, settings),
        heard_at=heard_at,
        ends_at=ends_at if is_over else None,
        group_key=webhook.groupKey[:TEXT_CHARACTERS_MAX],
        source=source,
    )


def _utc(moment: datetime | None) -> datetime | None:
    """The moment in UTC; None for the year 1, which means `none`, and for what no calendar has."""
    if moment is None or moment.year <= 1:
        return None
    try:
        return moment.astimezone(UTC)
    except OverflowError:
        return None


def place_of(labels: Mapping[str, str], settings: OthersSettings) -> AlertPlace:
    """What the labels say it is about; of each kind of thing the first label that is there counts."""
    pod, namespace = _first(labels, settings.pod_labels), _first(labels, settings.namespace_labels)
    node = _first(labels, settings.node_labels)
    return AlertPlace(
        node=_without_port(node) if node else None,
        gpu=_first(labels, settings.gpu_labels),
        pod=f"{namespace}/{pod}" if pod and namespace else pod,
        workload=_first(labels, settings.workload_labels),
    )


def _first(labels: Mapping[str, str], names: Iterable[str]) -> str | None:
    return next((labels[name][:TEXT_CHARACTERS_MAX] for name in names if labels.get(name)), None)


def _without_port(text: str) -> str:
    """`gpu-07:9400` -> `gpu-07`, `[fe80::1]:9400` -> `fe80::1`; an address without a port stays as it is."""
    if text.startswith("["):
        return text[1:].partition("]")[0]
    host, colon, port = text.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else text


def _bounded(texts: Mapping[str, str]) -> dict[str, str]:
    return {name[:200]: value[:TEXT_CHARACTERS_MAX] for name, value in list(texts.items())[:LABELS_MAX]}
