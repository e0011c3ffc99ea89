"""Files of the alerting chain: webhooks and posts, rules, dashboards and data sources; what in them goes wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from trimtab.collect.alerting_files import (
    Alert,
    identities,
    is_alert,
    read_alert,
    read_dashboard,
    read_rules,
    unstable_labels,
)
from trimtab.collect.documents import Document, list_of, tables_of, text_at
from trimtab.inspect.inspection import Counted, Inspection, Refused, in_order, remark
from trimtab.model.advice import Action, Finding


def reader_of(documents: Sequence[Document]) -> Callable[[], Inspection] | None:
    """The reader for an alerting file; None for any other documents."""
    if not documents:
        return None
    first = documents[0]
    if isinstance(first, Mapping):
        return _reader_of_table(first)
    items = list_of(first)
    if items and all(is_alert(item) for item in items):
        return lambda: _read_post([read_alert(item) for item in tables_of(first)])
    if items and all(list_of(post) and all(is_alert(item) for item in list_of(post)) for post in items):
        return lambda: _read_posts([[read_alert(item) for item in tables_of(post)] for post in items])
    return None


def _reader_of_table(table: Mapping[str, Document]) -> Callable[[], Inspection] | None:
    if "alerts" in table and "receiver" in table:
        return lambda: _read_webhook(table)
    if "panels" in table and ("schemaVersion" in table or "title" in table):
        return lambda: _read_dashboard(table)
    if "groups" in table or table.get("kind") == "PrometheusRule":
        return lambda: _read_rules(table)
    if "datasources" in table:
        return lambda: _read_datasources(table)
    return None


def _read_webhook(table: Mapping[str, Document]) -> Inspection:
    """State is per alert, whatever the group's; an end in year 1 means `not ended`."""
    alerts = [read_alert(item) for item in tables_of(table.get("alerts"))]
    over = [alert for alert in alerts if alert.is_ended]
    return Inspection(
        kind="Alertmanager webhook",
        reading={
            "alerts": len(alerts),
            "firing": len(alerts) - len(over),
            "resolved": len(over),
            "nodes": [alert.labels["node"] for alert in alerts if "node" in alert.labels],
            "resolved_nodes": [alert.labels["node"] for alert in over if "node" in alert.labels],
        },
        sentence=f"{Counted(len(alerts), 'alert')}: {len(alerts) - len(over)} firing, {len(over)} resolved",
        notes=("An alert from outside adds context; alone it never suffices to act.",),
    )


def _read_post(alerts: Sequence[Alert]) -> Inspection:
    kind = "post to Alertmanager"
    bad = [place for place, alert in enumerate(alerts) if alert.is_over_at_start]
    reading: dict[str, object] = {
        "alerts": len(alerts),
        "has_endsat": all(alert.has_end for alert in alerts),
        "bad": bad,
        "good": [place for place in range(len(alerts)) if place not in bad],
    }
    if bad:
        raise Refused(
            f"alert {bad[0]} ends when it starts: Alertmanager takes it for resolved and pages nobody. Not to be sent; "
            "set endsAt ahead, or leave the hold time above zero",
            kind=kind,
            reading=reading,
        )
    return Inspection(
        kind=kind,
        reading=reading,
        sentence=str(Counted(len(alerts), "alert")),
        findings=in_order(_without_end(alerts)),
    )


def _without_end(alerts: Sequence[Alert]) -> Iterator[Finding]:
    for alert in alerts:
        if not alert.has_end:
            name = alert.labels.get("alertname", "?")
            yield remark(
                "alert_end",
                name,
                Action.CONFIG_PROBLEM,
                f"{name} has no endsAt: Alertmanager resolves it after 5 minutes while the fault goes on",
                advice="Send it again well within 5 minutes, or set endsAt ahead and refresh it.",
            )


def _read_posts(posts: Sequence[Sequence[Alert]]) -> Inspection:
    unstable = unstable_labels(posts)
    names = sorted({label for labels in unstable.values() for label in labels})
    faults = {
        (alert.labels.get("alertname"), alert.labels.get("node"), alert.labels.get("gpu"))
        for post in posts
        for alert in post
    }
    findings = [
        remark(
            "alert_labels",
            alert,
            Action.CONFIG_PROBLEM,
            f"{alert} changes its labels between posts ({', '.join(labels)}): each post is a new alert, "
            "and the old ones never resolve properly",
            advice="Keep labels stable (alertname, node, gpu_uuid, severity); values and pods belong in annotations.",
        )
        for alert, labels in unstable.items()
    ]
    return Inspection(
        kind="posts to Alertmanager",
        reading={
            "posts": len(posts),
            "identities": identities(posts),
            "faults": len(faults),
            "unstable_labels": names,
        },
        sentence=f"{Counted(len(posts), 'post')}, seen as {Counted(identities(posts), 'alert')}",
        findings=in_order(findings),
    )


def _read_dashboard(table: Mapping[str, Document]) -> Inspection:
    kind = "Grafana dashboard"
    board = read_dashboard(table)
    names = list(board.unresolved)
    reading: dict[str, object] = {
        "panels": board.panels,
        "unresolved": names[0] if len(names) == 1 else names or None,
        "occurrences": sum(board.unresolved.values()),
    }
    if names:
        raise Refused(
            f"dashboard `{board.title}` was exported for sharing: ${{{names[0]}}} stands unresolved in "
            f"{reading['occurrences']} places, and provisioning does not fill it in, so that its {board.panels} panels "
            "stay empty. Give the data source a fixed uid, or a template variable",
            kind=kind,
            reading=reading,
        )
    return Inspection(kind=kind, reading=reading, sentence=f"`{board.title}`, {Counted(board.panels, 'panel')}")


def _read_rules(table: Mapping[str, Document]) -> Inspection:
    rules = read_rules(table)
    bad = [rule.name for rule in rules if rule.counts_xid_gauge]
    findings = [
        remark(
            "rule_counts_gauge",
            name,
            Action.CONFIG_PROBLEM,
            f"Rule {name} counts DCGM_FI_DEV_XID_ERRORS, which is no counter: it holds the last XID code",
            advice="Match on the code's value, without the programs' own codes (13, 31, 43, 45), or count "
            "DCGM_EXP_XID_ERRORS_COUNT; the kernel log is the truth.",
        )
        for name in bad
    ]
    return Inspection(
        kind="Prometheus rules",
        reading={"rules": len(rules), "bad": bad},
        sentence=str(Counted(len(rules), "alert rule")),
        findings=in_order(findings),
    )


def _read_datasources(table: Mapping[str, Document]) -> Inspection:
    sources = tables_of(table.get("datasources"))
    defaults = [source for source in sources if source.get("isDefault") is True]
    reading: dict[str, object] = {"datasources": len(sources), "default": bool(defaults)}
    if len(sources) == 1:
        reading["uid"] = text_at(sources[0], "uid")
    findings = [
        remark(
            "datasource_uid",
            text_at(source, "name") or "?",
            Action.CONFIG_PROBLEM,
            f"Data source {text_at(source, 'name')} has no fixed uid: dashboards cannot refer to it",
            advice="Give it a uid.",
        )
        for source in sources
        if text_at(source, "uid") is None
    ]
    if len(defaults) > 1:
        findings.append(
            remark("datasource_default", "datasources", Action.CONFIG_PROBLEM,
                   f"{len(defaults)} data sources are marked default, and only one per organisation can be",
                   advice="Leave isDefault on one.")
        )  # fmt: skip
    return Inspection(
        kind="Grafana data sources",
        reading=reading,
        sentence=str(Counted(len(sources), "data source")),
        findings=in_order(findings),
    )
