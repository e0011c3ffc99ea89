"""Rebalancer: what is recommended, what it gives against what it takes, how often that was right, what may be spent."""

from __future__ import annotations

from dashboards.panels import BLUE, GREEN, ORANGE, RED, Ask, bars, lines, number, rows, stack
from dashboards.queries import cluster
from dashboards.sheet import Row, Sheet

_COMMAND = "cluster, command, rule"
# GPU time is exported in seconds, as Prometheus's naming asks; people count GPU-hours, and Grafana has no such unit.
_HOURS, _GPU_HOURS = "/ 3600", "suffix: GPU-h"


def _time(name: str) -> str:
    return f"{cluster(f'command_{name}_gpu_seconds', by=_COMMAND)} {_HOURS}"


def _sum(name: str) -> str:
    return f'sum(max by ({_COMMAND}) (trimtab_command_{name}_gpu_seconds{{cluster=~"$cluster"}})) {_HOURS}'


_OUTCOMES = cluster("rule_outcomes", by="cluster, rule, verdict")
_RIGHT = cluster("rule_outcomes", 'verdict="right"', by="cluster, rule")

STANDS = Row(
    title="How it stands",
    panels=(
        number(
            "Mode",
            "What the daemon may do: observe, recommend, approve (a person says yes) or act (a policy does).",
            "none",
            Ask(cluster("mode", by="cluster, mode") + " == 1", "{{mode}}"),
            is_name_only=True,
        ),
        number(
            "Begins new commands",
            "Whether something pauses it: a person, the cluster, a release of everything.",
            "none",
            Ask("max(" + cluster("paused") + ")"),
            mappings={"0": ("yes", GREEN), "1": ("paused", ORANGE)},
        ),
        number(
            "Right so far",
            "Measured outcomes that came out as they should, of all that were measured.",
            "percentunit",
            Ask(f"sum({_RIGHT}) / sum({_OUTCOMES})"),
            maximum=1.0,
            steps=((None, RED), (0.8, ORANGE), (0.95, GREEN)),
        ),
        number(
            "Expected gain, lately",
            "What commands of the last hour should give over their horizon, after what they really cost: a forecast.",
            _GPU_HOURS,
            Ask(_sum("saved")),
            decimals=1,
        ),
        number(
            "Lost lately",
            "What commands of the last hour are measured to have cost.",
            _GPU_HOURS,
            Ask(_sum("lost")),
            decimals=1,
        ),
        number(
            "Left alone",
            "Nodes that a person opened after a cordon of ours: a veto, until it is lifted or over.",
            "none",
            Ask("sum(" + cluster("vetoes") + ")"),
        ),
    ),
)

ADVICE = Row(
    title="Recommendations",
    panels=(
        rows(
            "Recommendations and commands",
            "What is proposed or under way, and what is over since an hour; the number leads to the page.",
            Ask(cluster("command_info", by="cluster, command, rule, kind, state, node, workload")),
            Ask(_time("gain")),
            Ask(_time("cost")),
            Ask(_time("saved")),
            Ask(_time("lost")),
            names={
                "command": "Command",
                "state": "State",
                "rule": "Rule",
                "kind": "Kind",
                "node": "Node",
                "workload": "Job",
                "Value #B": "Gain",
                "Value #C": "Cost",
                "Value #D": "Expected",
                "Value #E": "Lost",
                "cluster": "Cluster",
            },
            units={"Gain": _GPU_HOURS, "Cost": _GPU_HOURS, "Expected": _GPU_HOURS, "Lost": _GPU_HOURS},
            goes_to={"Command": "${page}/r/${__data.fields.Command}"},
            height=9,
        ),
        bars(
            "Gain against cost",
            "What each is said to give and to take, in GPU-hours: the same unit, so that the two can be compared.",
            _GPU_HOURS,
            Ask(_time("gain"), "{{command}} gain"),
            Ask(_time("cost"), "{{command}} cost"),
            height=9,
            steps=((None, BLUE),),
        ),
        stack(
            "Commands by state",
            "From proposed to settled; those over stay for an hour.",
            "none",
            Ask(f"sum by (state) ({cluster('commands', by='cluster, rule, state')})", "{{state}}"),
            height=9,
        ),
    ),
)

RECORD = Row(
    title="How right it was",
    panels=(
        lines(
            "Precision by rule",
            "Right outcomes as a share of those measured: a rule that falls is one to look at, or to stop.",
            "percentunit",
            Ask(f"{_RIGHT} / sum by (cluster, rule) ({_OUTCOMES})", "{{rule}}"),
            maximum=1.0,
        ),
        lines(
            "Forecast against outcome",
            "1 = as said. Takes: how long it took. Should give: the gain still expected after the real cost.",
            "none",
            Ask(cluster("rule_duration_ratio", by="cluster, rule"), "{{rule}} takes"),
            Ask(cluster("rule_gain_ratio", by="cluster, rule"), "{{rule}} should give"),
            decimals=2,
        ),
        bars(
            "Outcomes by rule",
            "Commands whose outcome was measured, right and wrong.",
            "none",
            Ask(_OUTCOMES, "{{rule}} {{verdict}}"),
            steps=((None, BLUE),),
        ),
        lines(
            "Expected gain and measured loss",
            "Commands of the last hour; the gain is a forecast over the horizon, less the cost.",
            _GPU_HOURS,
            Ask(_sum("saved"), "expected"),
            Ask(_sum("lost"), "lost"),
        ),
    ),
)

LIMITS = Row(
    title="What may still be spent, and what was refused",
    panels=(
        lines(
            "Budgets left",
            "What may still be done now; at 0 nothing more of it begins. What has no limit has no line.",
            "none",
            Ask(cluster("budget_left", by="cluster, budget"), "{{budget}}"),
        ),
        bars(
            "Nodes of each pool that may still be cordoned",
            "A rule gone wrong must not take all of one GPU model.",
            "none",
            Ask(cluster("pool_nodes_cordonable", by="cluster, pool"), "{{pool}}"),
            steps=((None, RED), (1.0, GREEN)),
        ),
        stack(
            "Refusals by rule",
            "What the last beat said no to, by the rule that said so; the page has each sentence with its number.",
            "none",
            Ask(f"sum by (rule) ({cluster('refusals', by='cluster, rule')})", "{{rule}}"),
        ),
        lines(
            "Stopped, left alone, not ours",
            "Rules stopped by their breaker, vetoes of people, and marks of other daemons.",
            "none",
            Ask(f"sum by (cluster) ({cluster('breaker_open', by='cluster, rule')})", "{{cluster}} rules stopped"),
            Ask(cluster("vetoes"), "{{cluster}} vetoes"),
            Ask(cluster("foreign_marks"), "{{cluster}} marks of others"),
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-rebalancer",
    title="trimtab: Rebalancer",
    text="What is recommended, what it gives against what it takes, how often that was right, and what may be spent.",
    rows=(STANDS, ADVICE, RECORD, LIMITS),
    variables=("cluster",),
)
