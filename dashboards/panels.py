"""The kinds of panel, each with its unit, title and sentence, made by Grafana's foundation SDK."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grafana_foundation_sdk.builders import (
    bargauge,
    common,
    dashboard,
    prometheus,
    stat,
    statushistory,
    table,
    timeseries,
)
from grafana_foundation_sdk.cog import builder as cog
from grafana_foundation_sdk.cog import variants
from grafana_foundation_sdk.models import common as common_model
from grafana_foundation_sdk.models import dashboard as model
from grafana_foundation_sdk.models import prometheus as prometheus_model

PROMETHEUS = common_model.DataSourceRef(type_val="prometheus", uid="${datasource}")
POSTGRESQL = common_model.DataSourceRef(type_val="grafana-postgresql-datasource", uid="${sql}")

# Okabe and Ito's colours: told apart by everybody, and in grey.
GREEN, YELLOW, ORANGE, RED, BLUE, GREY = "#009E73", "#F0E442", "#E69F00", "#D55E00", "#0072B2", "#999999"

TO_NODE, TO_GPU, TO_JOB = "node", "gpu", "job"
_LINKS: Mapping[str, tuple[tuple[str, str], ...]] = {
    TO_NODE: (
        ("Node ${__field.labels.node}", "/d/trimtab-node?var-node=${__field.labels.node}&${__url_time_range}"),
        ("On the page", "${page}/node/${__field.labels.node}"),
    ),
    TO_GPU: (
        (
            "This GPU",
            "/d/trimtab-gpu?var-node=${__field.labels.node}&var-gpu=${__field.labels.gpu}&${__url_time_range}",
        ),
        ("On the page", "${page}/node/${__field.labels.node}?gpu=${__field.labels.gpu}"),
    ),
    TO_JOB: (
        (
            "Job ${__field.labels.workload}",
            "/d/trimtab-job?var-workload=${__field.labels.workload}&${__url_time_range}",
        ),
        ("On the page", "${page}/job/${__field.labels.workload}"),
    ),
}


@dataclass(frozen=True, slots=True)
class Ask:
    """One PromQL query and how its series are named."""

    expression: str
    legend: str = ""


@dataclass(frozen=True, slots=True)
class Sql:
    """One query for PostgreSQL; its columns are named as people read them."""

    text: str
    is_over_time: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One panel. `text` is the sentence that says what it shows and what is to be seen in it."""

    kind: str
    title: str
    text: str
    unit: str
    asks: tuple[Ask | Sql, ...]
    width: int = 12
    height: int = 8
    minimum: float | None = None
    maximum: float | None = None
    decimals: int | None = None
    is_stacked: bool = False
    steps: tuple[tuple[float | None, str], ...] = ()
    """Thresholds: from this value on, this colour; the first is None."""
    links: str = ""
    names: Mapping[str, str] | None = None
    """Of a table: column -> what it is called; columns that are not named are left out."""
    units: Mapping[str, str] | None = None
    """Of a table: called so -> unit."""
    goes_to: Mapping[str, str] | None = None
    """Of a table: called so -> address that its cells lead to."""
    mappings: Mapping[str, tuple[str, str]] | None = None
    """Value -> (text, colour)."""
    shows_rows: bool = False
    """Of bars: each row of the answer is one, not each column's last value."""
    is_name_only: bool = False
    """Of a number: the series' name is what it says, not its value."""


def lines(title: str, text: str, unit: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """Lines over time."""
    return Panel(kind="timeseries", title=title, text=text, unit=unit, asks=asks, **{"minimum": 0.0, **more})


def stack(title: str, text: str, unit: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """Lines over time, on top of each other."""
    return lines(title, text, unit, *asks, is_stacked=True, **more)


def number(title: str, text: str, unit: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """One number, large."""
    return Panel(kind="stat", title=title, text=text, unit=unit, asks=asks, **{"width": 4, "height": 4, **more})


def bars(title: str, text: str, unit: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """A bar for each series, as it is now."""
    return Panel(kind="bars", title=title, text=text, unit=unit, asks=asks, **{"minimum": 0.0, **more})


def ranks(title: str, text: str, unit: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """Rows over time, a coloured cell a value."""
    return Panel(kind="strip", title=title, text=text, unit=unit, asks=asks, **{"width": 24, "height": 10, **more})


def rows(title: str, text: str, *asks: Ask | Sql, **more: Any) -> Panel:
    """A table."""
    return Panel(kind="table", title=title, text=text, unit="none", asks=asks, **{"width": 24, **more})


class SqlQuery(variants.Dataquery):
    """What Grafana's PostgreSQL data source is asked; the SDK has no type for it."""

    def __init__(self, sql: Sql, ref_id: str) -> None:
        """One raw query."""
        self._sql, self.ref_id = sql, ref_id

    def to_json(self) -> dict[str, object]:
        """As Grafana writes it."""
        return {
            "datasource": {"type": POSTGRESQL.type_val, "uid": POSTGRESQL.uid},
            "editorMode": "code",
            "format": "time_series" if self._sql.is_over_time else "table",
            "rawQuery": True,
            "rawSql": self._sql.text,
            "refId": self.ref_id,
        }


class _Built(cog.Builder[variants.Dataquery]):
    def __init__(self, query: variants.Dataquery) -> None:
        self._query = query

    def build(self) -> variants.Dataquery:
        return self._query


def to_builder(panel: Panel, number: int, x: int, y: int) -> cog.Builder[model.Panel]:
    """The panel as the SDK's builder, at its place."""
    made: Any = _KINDS[panel.kind](panel)
    is_sql = isinstance(panel.asks[0], Sql)
    made = (
        made.title(panel.title)
        .description(panel.text)
        .unit(panel.unit)
        .id(number)
        .datasource(POSTGRESQL if is_sql else PROMETHEUS)
        .grid_pos(model.GridPos(x=x, y=y, w=panel.width, h=panel.height))
        .targets([_target(panel, ask, chr(ord("A") + place)) for place, ask in enumerate(panel.asks)])
    )
    if panel.minimum is not None:
        made = made.min(panel.minimum)
    if panel.maximum is not None:
        made = made.max(panel.maximum)
    if panel.decimals is not None:
        made = made.decimals(panel.decimals)
    if panel.steps:
        made = made.thresholds(_thresholds(panel.steps))
    if panel.mappings:
        made = made.mappings(_mappings(panel.mappings))
    if panel.links:
        made = made.data_links([dashboard.DashboardLink(title).url(url) for title, url in _LINKS[panel.links]])
    built: cog.Builder[model.Panel] = made
    return built


def _target(panel: Panel, ask: Ask | Sql, ref_id: str) -> cog.Builder[variants.Dataquery]:
    if isinstance(ask, Sql):
        return _Built(SqlQuery(ask, ref_id))
    query = prometheus.Dataquery().expr(ask.expression).ref_id(ref_id).datasource(PROMETHEUS)
    if panel.kind == "table":
        return query.instant().format(prometheus_model.PromQueryFormat.TABLE)
    query = query.legend_format(ask.legend or "__auto")
    return query.instant() if panel.kind in ("stat", "bars") else query.range()


def _timeseries(panel: Panel) -> Any:
    made = (
        timeseries.Panel()
        .legend(
            common.VizLegendOptions()
            .show_legend(True)
            .display_mode(common_model.LegendDisplayMode.LIST)
            .placement(common_model.LegendPlacement.BOTTOM)
        )
        .tooltip(
            common.VizTooltipOptions()
            .mode(common_model.TooltipDisplayMode.MULTI)
            .sort(common_model.SortOrder.DESCENDING)
        )
        .show_points(common_model.VisibilityMode.NEVER)
        .line_width(1)
        .span_nulls(False)  # what was not reported is a gap, never a line across it
    )
    if panel.is_stacked:
        stacking = common.StackingConfig().mode(common_model.StackingMode.NORMAL).group("A")
        made = made.stacking(stacking).fill_opacity(40)
    if panel.steps:
        style = common.GraphThresholdsStyleConfig().mode(common_model.GraphThresholdsStyleMode.DASHED)
        made = made.thresholds_style(style)
    return made


def _stat(panel: Panel) -> Any:
    return (
        stat.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
        .color_mode(common_model.BigValueColorMode.VALUE)
        .graph_mode(common_model.BigValueGraphMode.NONE)
        .text_mode(common_model.BigValueTextMode.NAME if panel.is_name_only else common_model.BigValueTextMode.AUTO)
        .no_value("not known")
    )


def _bars(panel: Panel) -> Any:
    return (
        bargauge.Panel()
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]).values(panel.shows_rows))
        .orientation(common_model.VizOrientation.HORIZONTAL)
        .display_mode(common_model.BarGaugeDisplayMode.BASIC)
        .no_value("not known")
    )


def _strip(panel: Panel) -> Any:  # noqa: ARG001
    """Rows over time, a cell a value: the one that differs is seen at a glance."""
    return (
        statushistory.Panel()
        .show_value(common_model.VisibilityMode.NEVER)
        .row_height(0.9)
        .col_width(0.95)
        .legend(
            common.VizLegendOptions()
            .show_legend(False)
            .display_mode(common_model.LegendDisplayMode.LIST)
            .placement(common_model.LegendPlacement.BOTTOM)
        )
        .tooltip(common.VizTooltipOptions().mode(common_model.TooltipDisplayMode.SINGLE))
        .color_scheme(dashboard.FieldColor().mode(model.FieldColorModeId.CONTINUOUS_BL_YL_RD))
    )


def _table(panel: Panel) -> Any:
    made = (
        table.Panel()
        .cell_height(common_model.TableCellHeight.SM)
        .filterable(True)
        .cell_options(common_model.TableAutoCellOptions())
    )
    if isinstance(panel.asks[0], Ask) and panel.names:
        made = made.transformations(_columns(panel, panel.names))
    for name, unit in (panel.units or {}).items():
        made = made.override_by_name(name, [model.DynamicConfigValue(id_val="unit", value=unit)])
    for name, url in (panel.goes_to or {}).items():
        links = [{"title": f"Open {name}", "url": url}]
        made = made.override_by_name(name, [model.DynamicConfigValue(id_val="links", value=links)])
    return made


def _columns(panel: Panel, names: Mapping[str, str]) -> list[model.DataTransformerConfig]:
    """Several queries become one table, joined on their labels; then only what is named stays, in that order."""
    steps = []
    if len(panel.asks) > 1:
        steps.append(model.DataTransformerConfig(id_val="merge", options={}))
    order = {column: place for place, column in enumerate(names)}
    only = model.DataTransformerConfig(id_val="filterFieldsByName", options={"include": {"names": list(names)}})
    called = model.DataTransformerConfig(
        id_val="organize", options={"indexByName": order, "renameByName": dict(names), "excludeByName": {}}
    )
    return [*steps, only, called]


def _thresholds(steps: tuple[tuple[float | None, str], ...]) -> dashboard.ThresholdsConfig:
    return (
        dashboard.ThresholdsConfig()
        .mode(model.ThresholdsMode.ABSOLUTE)
        .steps([model.Threshold(value=value, color=color) for value, color in steps])
    )


def _mappings(mappings: Mapping[str, tuple[str, str]]) -> list[model.ValueMapping]:
    options = {
        value: model.ValueMappingResult(text=text, color=color, index=index)
        for index, (value, (text, color)) in enumerate(mappings.items())
    }
    return [model.ValueMap(options=options)]


_KINDS: Mapping[str, Any] = {
    "timeseries": _timeseries,
    "stat": _stat,
    "bars": _bars,
    "strip": _strip,
    "table": _table,
}
