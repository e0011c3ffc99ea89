"""What is kept for months, asked of PostgreSQL: roll-ups, findings, commands and what came of them."""

from __future__ import annotations

from dashboards.fleet import AT_GPU, AT_NODE
from dashboards.panels import BLUE, GREEN, ORANGE, RED, Sql, bars, lines, number, rows, stack
from dashboards.sheet import Row, Sheet

# Moments are whole milliseconds in the tables, with an index on them: what is shown is chosen by these, not by a date
# that would have to be made of every row first.
_SHOWN = "{} BETWEEN $__unixEpochFrom() * 1000::bigint AND $__unixEpochTo() * 1000::bigint"
_CLUSTER = "cluster IN ($cluster)"
_DAY = "date_trunc('day', to_timestamp({} / 1000.0))"
_HOUR = "date_trunc('hour', to_timestamp({} / 1000.0))"
_A_JOB, _AN_XID = "workload <> ''", "kind = 'xid'"
_GPU_HOURS = "suffix: GPU-h"


def _where(column: str = "at_ms", more: str = "") -> str:
    return f"WHERE {_CLUSTER} AND {_SHOWN.format(column)}" + (f" AND {more}" if more else "")


def over_time(select: str, table: str, *, by: str, column: str = "at_ms", step: str = _HOUR, more: str = "") -> Sql:
    """A series for each value of `by`, a point an hour (or a day)."""
    group = f", {by}" if by else ""
    name = f", COALESCE(NULLIF({by}, ''), 'none') AS metric" if by else ""
    text = (
        f"SELECT {step.format(column)} AS time{name}, {select} FROM {table} {_where(column, more)} "
        f"GROUP BY 1{group} ORDER BY 1"
    )
    return Sql(text, is_over_time=True)


_STATES = ("working", "held_idle", "free", "stranded", "spare", "out_of_service", "unknown")
_HOURS_BY_STATE = ", ".join(f'SUM({state}_gpu_seconds) / 3600.0 AS "{state.replace("_", " ")}"' for state in _STATES)

FLEET = Sheet(
    uid="trimtab-history",
    title="trimtab: History of the fleet",
    text="What the fleet gave over weeks and months: GPU-hours by state, queue and cause, from the hourly roll-ups.",
    is_history=True,
    since="now-30d",
    rows=(
        Row(
            title="GPU-hours",
            panels=(
                stack(
                    "GPU-hours by state",
                    "Every hour of every GPU is in one state: what does not work is idle, free, scattered or out.",
                    _GPU_HOURS,
                    over_time(_HOURS_BY_STATE, "fleet_1h", by=""),
                    width=24,
                ),
                stack(
                    "GPU-hours worked, by queue",
                    "What each queue's jobs really used.",
                    _GPU_HOURS,
                    over_time("SUM(working_gpu_seconds) / 3600.0 AS worked", "fleet_1h", by="queue"),
                ),
                stack(
                    "GPU-hours held and idle, by queue",
                    "What was held and not used, while others may have waited.",
                    _GPU_HOURS,
                    over_time("SUM(held_idle_gpu_seconds) / 3600.0 AS idle", "fleet_1h", by="queue"),
                ),
                stack(
                    "GPU-hours lost, by cause",
                    "What findings cost, by the rule that found them.",
                    _GPU_HOURS,
                    over_time("SUM(lost_gpu_seconds) / 3600.0 AS lost", "usage_1h", by="cause", more="cause <> ''"),
                ),
                lines(
                    "Power",
                    "Mean power that all GPUs of a cluster drew, hour by hour.",
                    "watt",
                    Sql(
                        "SELECT to_timestamp(at_ms / 1000.0) AS time, cluster AS metric, SUM(power_watts) AS power "
                        f"FROM fleet_1h {_where()} GROUP BY at_ms, cluster ORDER BY 1",
                        is_over_time=True,
                    ),
                ),
            ),
        ),
        Row(
            title="How well it was used",
            panels=(
                lines(
                    "Goodput",
                    "Working GPUs less what findings cost, as a share of all that were held; the mean of each hour.",
                    "percentunit",
                    Sql(
                        "SELECT to_timestamp(at_ms / 1000.0) AS time, cluster AS metric, goodput_ratio AS goodput "
                        f"FROM rollup_boards {_where(more='tier_seconds = 3600')} ORDER BY 1",
                        is_over_time=True,
                    ),
                    maximum=1.0,
                ),
                lines(
                    "Stranded GPUs by pod size",
                    "Free GPUs that no pod of k GPUs could use; the mean of each hour.",
                    "none",
                    Sql(
                        'SELECT to_timestamp(at_ms / 1000.0) AS time, SUM(stranded_2) AS "k = 2", '
                        'SUM(stranded_4) AS "k = 4", SUM(stranded_8) AS "k = 8" '
                        f"FROM rollup_boards {_where(more='tier_seconds = 3600')} GROUP BY at_ms ORDER BY 1",
                        is_over_time=True,
                    ),
                ),
                lines(
                    "Activity by queue",
                    "Mean SM activity of the GPUs that each queue held.",
                    "percentunit",
                    over_time("AVG(activity_mean_ratio) AS activity", "fleet_1h", by="queue", more="queue <> ''"),
                    maximum=1.0,
                ),
                rows(
                    "Who used most",
                    "The twenty jobs with the most GPU-hours over the time shown, with what they left idle.",
                    Sql(
                        'SELECT workload AS "Job", queue AS "Queue", '
                        'ROUND((SUM(working_gpu_seconds) / 3600.0)::numeric, 1) AS "Worked", '
                        'ROUND((SUM(held_idle_gpu_seconds) / 3600.0)::numeric, 1) AS "Held but idle", '
                        'ROUND((SUM(lost_gpu_seconds) / 3600.0)::numeric, 1) AS "Lost" '
                        f"FROM usage_1h {_where(more=_A_JOB)} "
                        "GROUP BY workload, queue ORDER BY SUM(working_gpu_seconds) DESC LIMIT 20"
                    ),
                    units={"Worked": _GPU_HOURS, "Held but idle": _GPU_HOURS, "Lost": _GPU_HOURS},
                    width=12,
                ),
            ),
        ),
    ),
)

FAULTS = Sheet(
    uid="trimtab-history-faults",
    title="trimtab: History of faults",
    text="What broke over weeks and months, where it broke again, and how long it took to mend.",
    is_history=True,
    since="now-90d",
    rows=(
        Row(
            title="Findings",
            panels=(
                number(
                    "Findings",
                    "Opened in the time shown.",
                    "none",
                    Sql(f'SELECT COUNT(*) AS "findings" FROM findings {_where("opened_at_ms")}'),
                    width=6,
                ),
                number(
                    "Still open",
                    "Of those that were opened in the time shown.",
                    "none",
                    Sql(
                        "SELECT COUNT(*) FILTER (WHERE state = 'open') AS \"open\" "
                        f"FROM findings {_where('opened_at_ms')}"
                    ),
                    width=6,
                    steps=((None, GREEN), (1.0, ORANGE)),
                ),
                number(
                    "Open for, in the middle",
                    "Half of the closed ones were open longer, half shorter.",
                    "s",
                    Sql(
                        "SELECT PERCENTILE_CONT(0.5) WITHIN GROUP (ORDER BY COALESCE(closed_at_ms, last_seen_at_ms) - "
                        f'opened_at_ms) / 1000.0 AS "seconds" FROM findings {_where("opened_at_ms")}'
                    ),
                    width=6,
                ),
                number(
                    "Nodes with a finding",
                    "Different nodes; compare with how many you have.",
                    "none",
                    Sql(f'SELECT COUNT(DISTINCT node) AS "nodes" FROM findings {_where("opened_at_ms")}'),
                    width=6,
                ),
                stack(
                    "Findings opened, by rule",
                    "A day's findings, by the rule that found them.",
                    "none",
                    over_time("COUNT(*) AS opened", "findings", by="rule", column="opened_at_ms", step=_DAY),
                ),
                stack(
                    "Findings opened, by what to do",
                    "A day's findings, by what was said to be done.",
                    "none",
                    over_time("COUNT(*) AS opened", "findings", by="action", column="opened_at_ms", step=_DAY),
                ),
                rows(
                    "Findings, one by one",
                    "The newest two hundred, open and closed.",
                    Sql(
                        'SELECT \'F\' || id AS "Finding", to_timestamp(opened_at_ms / 1000.0) AS "Opened", '
                        'rule AS "Rule", severity AS "Severity", action AS "What to do", node AS "Node", gpu AS "GPU", '
                        'sentence AS "What", state AS "State", close_reason AS "Why closed" '
                        f"FROM findings {_where('opened_at_ms')} ORDER BY opened_at_ms DESC LIMIT 200"
                    ),
                    goes_to={
                        "Node": AT_NODE,
                        "GPU": AT_GPU,
                    },
                    height=10,
                ),
            ),
        ),
        Row(
            title="What breaks again",
            panels=(
                rows(
                    "Repeat offenders",
                    "Nodes and GPUs with the most findings over the time shown: the dossier of a repair ticket.",
                    Sql(
                        'SELECT node AS "Node", gpu AS "GPU", COUNT(*) AS "Findings", '
                        "STRING_AGG(DISTINCT rule, ', ' ORDER BY rule) AS \"Rules\", "
                        'to_timestamp(MIN(opened_at_ms) / 1000.0) AS "First", '
                        'to_timestamp(MAX(opened_at_ms) / 1000.0) AS "Last", '
                        "ROUND(SUM(COALESCE(closed_at_ms, last_seen_at_ms) - opened_at_ms) / 3600000.0, 1) "
                        'AS "Hours open" '
                        f"FROM findings {_where('opened_at_ms', 'node IS NOT NULL')} "
                        'GROUP BY node, gpu ORDER BY "Findings" DESC, "Hours open" DESC LIMIT 50'
                    ),
                    goes_to={
                        "Node": AT_NODE,
                        "GPU": AT_GPU,
                    },
                    height=10,
                ),
                bars(
                    "XIDs by code",
                    "What the drivers logged over the time shown, by code.",
                    "none",
                    Sql(
                        'SELECT \'XID \' || code AS "XID", COUNT(*) AS "seen" '
                        f"FROM events {_where(more=_AN_XID)} "
                        "GROUP BY code ORDER BY 2 DESC LIMIT 20"
                    ),
                    steps=((None, BLUE),),
                    shows_rows=True,
                ),
                stack(
                    "Events by kind",
                    "What kernels and drivers told, day by day.",
                    "none",
                    over_time("COUNT(*) AS seen", "events", by="kind", step=_DAY),
                ),
            ),
        ),
    ),
)

REBALANCER = Sheet(
    uid="trimtab-history-rebalancer",
    title="trimtab: History of the rebalancer",
    text="What was recommended and done over weeks and months, what it gave against its forecast, and who decided.",
    is_history=True,
    since="now-90d",
    rows=(
        Row(
            title="What came of it",
            panels=(
                number(
                    "Right",
                    "Measured outcomes that came out as they should, of all measured.",
                    "percentunit",
                    Sql(
                        'SELECT AVG(CASE WHEN is_good THEN 1.0 ELSE 0.0 END) AS "right" '
                        f"FROM outcomes {_where('measured_at_ms')}"
                    ),
                    width=6,
                    maximum=1.0,
                    steps=((None, RED), (0.8, ORANGE), (0.95, GREEN)),
                ),
                number(
                    "Expected gain",
                    "GPU-hours that the moves should give over their horizon, after what they really cost: a forecast.",
                    _GPU_HOURS,
                    Sql(f'SELECT SUM(gpu_hours_saved) AS "expected" FROM outcomes {_where("measured_at_ms")}'),
                    width=6,
                    decimals=1,
                ),
                number(
                    "Lost",
                    "GPU-hours that the moves themselves took, as measured.",
                    _GPU_HOURS,
                    Sql(f'SELECT SUM(gpu_hours_lost) AS "lost" FROM outcomes {_where("measured_at_ms")}'),
                    width=6,
                    decimals=1,
                ),
                number(
                    "Unlocked",
                    "GPUs that waiting jobs could use after it.",
                    "none",
                    Sql(f'SELECT SUM(gpus_unlocked) AS "unlocked" FROM outcomes {_where("measured_at_ms")}'),
                    width=6,
                ),
                lines(
                    "Expected gain and measured loss, by day",
                    "GPU-hours; the gain is a forecast over the horizon, less the cost: it should stay far above.",
                    _GPU_HOURS,
                    over_time(
                        "SUM(gpu_hours_saved) AS expected, SUM(gpu_hours_lost) AS lost",
                        "outcomes",
                        by="",
                        column="measured_at_ms",
                        step=_DAY,
                    ),
                ),
                stack(
                    "Commands by how they ended",
                    "A day's commands by the state that they are in now.",
                    "none",
                    over_time("COUNT(*) AS commands", "commands", by="state", column="created_at_ms", step=_DAY),
                ),
                rows(
                    "Record by rule",
                    "How often each rule was right, what it should give over the horizon, and what it took.",
                    Sql(
                        'SELECT rule AS "Rule", COUNT(*) AS "Measured", COUNT(*) FILTER (WHERE is_good) AS "Right", '
                        'ROUND(SUM(gpu_hours_saved)::numeric, 1) AS "Expected", '
                        'ROUND(SUM(gpu_hours_lost)::numeric, 1) AS "Lost", '
                        'ROUND(AVG(seconds_to_settle)::numeric) AS "Seconds to settle" '
                        f"FROM outcomes {_where('measured_at_ms')} GROUP BY rule ORDER BY 2 DESC"
                    ),
                    units={"Expected": _GPU_HOURS, "Lost": _GPU_HOURS, "Seconds to settle": "s"},
                    height=6,
                ),
            ),
        ),
        Row(
            title="What was done, and who decided",
            panels=(
                rows(
                    "Commands",
                    "The newest two hundred, with what came of each.",
                    Sql(
                        'SELECT \'R\' || c.id AS "Command", to_timestamp(c.created_at_ms / 1000.0) AS "Made", '
                        'c.rule AS "Rule", c.state AS "State", c.sentence AS "What", c.approved_by AS "Approved by", '
                        'c.reason AS "Why it is so", o.gpu_hours_saved AS "Expected", o.gpu_hours_lost AS "Lost" '
                        "FROM commands c LEFT JOIN outcomes o ON o.cluster = c.cluster AND o.command_id = c.id "
                        f"WHERE c.{_CLUSTER} AND {_SHOWN.format('c.created_at_ms')} "
                        "ORDER BY c.created_at_ms DESC LIMIT 200"
                    ),
                    units={"Expected": _GPU_HOURS, "Lost": _GPU_HOURS},
                    height=10,
                ),
                rows(
                    "Who did what, and why",
                    "The newest two hundred lines of the audit; it can only be added to.",
                    Sql(
                        'SELECT to_timestamp(at_ms / 1000.0) AS "When", who AS "Who", what AS "What", why AS "Why", '
                        "'R' || command_id AS \"Command\" "
                        f"FROM audit {_where()} ORDER BY at_ms DESC LIMIT 200"
                    ),
                    height=10,
                ),
            ),
        ),
    ),
)
