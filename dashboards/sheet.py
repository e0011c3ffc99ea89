"""A dashboard: its rows of panels laid out, variables, annotations, and links to all the others and the page."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import dashboard
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as model

from dashboards.panels import BLUE, ORANGE, POSTGRESQL, PROMETHEUS, Panel, to_builder
from dashboards.queries import cluster

WIDTH = 24
TAG = "trimtab"
PROMETHEUS_UID, POSTGRESQL_UID = "trimtab-prometheus", "trimtab-postgresql"
PROMETHEUS_NAME, POSTGRESQL_NAME = "trimtab Prometheus", "trimtab history"
"""As `trimtab setup` makes them; a test holds the two together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Panels under one heading."""

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """One dashboard. Its file and address are `uid`; `variables` are names of `VARIABLES`."""

    uid: str
    title: str
    text: str
    rows: tuple[Row, ...]
    variables: tuple[str, ...] = ("cluster",)
    never_all: tuple[str, ...] = ()
    """Variables of which some must be chosen: all of a large fleet at once would be no answer."""
    one_of: tuple[str, ...] = ()
    """Variables of which exactly one is chosen."""
    is_history: bool = False
    """Asks PostgreSQL for what is kept for months, in place of Prometheus."""
    since: str = "now-6h"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One choice at the top; keyed on a series that every device (or queue, or job) has."""

    label: str
    query: str
    text: str
    is_multi: bool = True
    is_hidden: bool = False


VARIABLES: Mapping[str, Variable] = {
    "cluster": Variable(
        label="Cluster", query="label_values(trimtab_gpu_info, cluster)", text="Clusters that have a GPU."
    ),
    "node": Variable(
        label="Node",
        query='label_values(trimtab_gpu_info{cluster=~"$cluster"}, node)',
        text="Nodes of the chosen clusters.",
    ),
    "gpu": Variable(
        label="GPU",
        query='label_values(trimtab_gpu_info{cluster=~"$cluster", node=~"$node"}, gpu)',
        text="GPUs of the chosen nodes, by UUID.",
    ),
    "queue": Variable(
        label="Queue",
        query='label_values(trimtab_queue_gpus{cluster=~"$cluster"}, queue)',
        text="Queues of the chosen clusters.",
    ),
    "workload": Variable(
        label="Job",
        query='label_values(trimtab_gpu_job_info{cluster=~"$cluster", queue=~"$queue"}, workload)',
        text="Jobs that hold GPUs.",
        is_multi=False,
    ),
    "instance": Variable(
        label="Daemon", query="label_values(trimtab_beats_total, instance)", text="Daemons that are scraped."
    ),
    "page": Variable(
        label="Page",
        query='label_values(trimtab_page_info{cluster=~"$cluster"}, url)',
        text="Where trimtab's own page is; the daemon says it (people.public_url).",
        is_multi=False,
        is_hidden=True,
    ),
}
SQL_VARIABLES: Mapping[str, Variable] = {
    "cluster": Variable(
        label="Cluster", query="SELECT DISTINCT cluster FROM findings ORDER BY 1", text="Clusters with a history."
    ),
}


def to_json(sheet: Sheet) -> str:
    """The dashboard as Grafana reads it from a file."""
    built = (
        dashboard.Dashboard(sheet.title)
        .uid(sheet.uid)
        .description(sheet.text)
        .tags([TAG])
        .readonly()
        .time(sheet.since, "now")
        .refresh("1m" if sheet.is_history else "30s")
        .timezone("browser")
        .tooltip(model.DashboardCursorSync.CROSSHAIR)
        .variables([_source(sheet), *_variables(sheet)])
        .annotations(_annotations(sheet))
        .links(_links(sheet))
    )
    number, y = 1, 0
    for row in sheet.rows:
        built = built.with_row(dashboard.Row(row.title).id(number).grid_pos(model.GridPos(x=0, y=y, w=WIDTH, h=1)))
        number, y = number + 1, y + 1
        for panel, x, down in _placed(row):
            built = built.with_panel(to_builder(panel, number, x, y + down))
            number += 1
        y += _height(row)
    value = json.loads(JSONEncoder().encode(built.build()))
    for annotation in value["annotations"]["list"] if sheet.is_history else ():
        annotation["rawQuery"] = _MARKS[annotation["name"]][1]  # the SDK's type has no field for it
    return json.dumps(_tidied(value), indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _placed(row: Row) -> list[tuple[Panel, int, int]]:
    """Each panel with its place: from left to right, and on under the highest of a full line."""
    placed, x, y, line = [], 0, 0, 0
    for panel in row.panels:
        if x + panel.width > WIDTH:
            x, y, line = 0, y + line, 0
        placed.append((panel, x, y))
        x, line = x + panel.width, max(line, panel.height)
    return placed


def _height(row: Row) -> int:
    return max(y + panel.height for panel, _, y in _placed(row))


def _source(sheet: Sheet) -> dashboard.DatasourceVariable:
    name, label, kind, called, uid = (
        ("sql", "History", POSTGRESQL.type_val, POSTGRESQL_NAME, POSTGRESQL_UID)
        if sheet.is_history
        else ("datasource", "Prometheus", PROMETHEUS.type_val, PROMETHEUS_NAME, PROMETHEUS_UID)
    )
    chosen = model.VariableOption(selected=True, text=called, value=uid)
    return (
        dashboard.DatasourceVariable(name)
        .type(str(kind))
        .label(label)
        .description("Where the numbers come from.")
        .current(chosen)
    )


def _variables(sheet: Sheet) -> list[dashboard.QueryVariable]:
    table = SQL_VARIABLES if sheet.is_history else VARIABLES
    names = sheet.variables if sheet.is_history else (*sheet.variables, "page")
    source = POSTGRESQL if sheet.is_history else PROMETHEUS
    made = []
    for name in names:
        row = table[name]
        one = (
            dashboard.QueryVariable(name)
            .label(row.label)
            .description(row.text)
            .query(row.query if sheet.is_history else {"qryType": 1, "query": row.query, "refId": f"variable-{name}"})
            .datasource(source)
            .refresh(model.VariableRefresh.ON_TIME_RANGE_CHANGED)
            .sort(model.VariableSort.NATURAL_ASC)
            .multi(row.is_multi and name not in sheet.one_of)
        )
        if row.is_multi and name not in (*sheet.one_of, *sheet.never_all):
            chosen = model.VariableOption(selected=True, text=["All"], value=["$__all"])
            one = one.include_all(True).all_value("" if sheet.is_history else ".*").current(chosen)
        if row.is_hidden:
            one = one.hide(model.VariableHide.HIDE_VARIABLE)
        made.append(one)
    return made


_UNDER_WAY = 'state=~"held|confirmed|submitted"'


def _annotations(sheet: Sheet) -> list[cog.Builder[model.AnnotationQuery]]:
    if sheet.is_history:
        return [_marks(name, colour) for name, (colour, _) in _MARKS.items()]
    findings = (
        dashboard.AnnotationQuery()
        .name("Findings")
        .datasource(PROMETHEUS)
        .enable(True)
        .icon_color(ORANGE)
        .expr(cluster("finding_info", by="cluster, finding, rule, severity, action, node, gpu, workload"))
        .title_format("{{finding}} {{rule}}")
        .text_format("{{node}} {{gpu}} {{workload}}: {{action}}")
        .tag_keys("severity,rule")
        .step("30s")
    )
    commands = (
        dashboard.AnnotationQuery()
        .name("Commands under way")
        .datasource(PROMETHEUS)
        .enable(True)
        .icon_color(BLUE)
        .expr(cluster("command_info", _UNDER_WAY, by="cluster, command, rule, kind, state, node, workload"))
        .title_format("{{command}} {{rule}}")
        .text_format("{{kind}} {{node}} {{workload}}: {{state}}")
        .tag_keys("rule,kind")
        .step("30s")
    )
    return [findings, commands]


_SHOWN = "BETWEEN $__unixEpochFrom() * 1000::bigint AND $__unixEpochTo() * 1000::bigint"
_FINDINGS = (
    "SELECT opened_at_ms / 1000 AS time, COALESCE(closed_at_ms, last_seen_at_ms) / 1000 AS timeend, "
    "'F' || id || ' ' || sentence AS text, rule || ',' || severity AS tags FROM findings "
    f"WHERE cluster IN ($cluster) AND opened_at_ms {_SHOWN} AND severity = 'critical' ORDER BY 1"
)
_COMMANDS = (
    "SELECT changed_at_ms / 1000 AS time, 'R' || id || ' ' || sentence AS text, rule || ',' || state AS tags "
    f"FROM commands WHERE cluster IN ($cluster) AND changed_at_ms {_SHOWN} "
    "AND state IN ('settled', 'undone') ORDER BY 1"
)


_MARKS = {"Findings": (ORANGE, _FINDINGS), "Commands": (BLUE, _COMMANDS)}


def _marks(name: str, colour: str) -> cog.Builder[model.AnnotationQuery]:
    return dashboard.AnnotationQuery().name(name).datasource(POSTGRESQL).enable(True).icon_color(colour)


def _links(sheet: Sheet) -> list[cog.Builder[model.DashboardLink]]:
    others = (
        dashboard.DashboardLink("trimtab's dashboards")
        .type(model.DashboardLinkType.DASHBOARDS)
        .tags([TAG])
        .as_dropdown(True)
        .include_vars(True)
        .keep_time(True)
        .icon("external link")
        .tooltip("All dashboards of trimtab, with the same choice and time")
    )
    page = (
        dashboard.DashboardLink("trimtab's page")
        .type(model.DashboardLinkType.LINK)
        .url("${page}/")
        .target_blank(True)
        .icon("dashboard")
        .tooltip("What is wrong, what to do about it, and the buttons to agree")
    )
    return [others] if sheet.is_history else [others, page]


_LEFT_OUT = (("placement", "inControlsMenu"), ("auto", False), ("auto_count", 30), ("auto_min", "10s"))


def _tidied(value: Any) -> Any:
    """Without what this SDK writes and Grafana's own types do not know, or what would hide links in a menu."""
    if isinstance(value, list):
        return [_tidied(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.get("type") == "link" and not value.get("icon"):  # a link of a value, not of the dashboard
        return {key: value[key] for key in ("title", "url", "targetBlank")}
    if value.get("type") == "table":
        value["options"].pop("footer", None)
    return {key: _tidied(one) for key, one in value.items() if (key, one) not in _LEFT_OUT}
