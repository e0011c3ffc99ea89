"""Fleet: all clusters at a glance, what is wrong, and where to look next."""

from __future__ import annotations

from dashboards.panels import GREEN, GREY, ORANGE, RED, TO_GPU, TO_NODE, Ask, Panel, lines
from dashboards.queries import cluster, gpu, node
from dashboards.sheet import Row, Sheet

AT_NODE = "/d/trimtab-node?var-node=${__data.fields.Node}&${__url_time_range}"
AT_GPU = "/d/trimtab-gpu?var-node=${__data.fields.Node}&var-gpu=${__data.fields.GPU}&${__url_time_range}"
"""Where a table's cells lead: a GPU is listed under its node."""
FINDING_COLUMNS = {
    "finding": "Finding",
    "severity": "Severity",
    "rule": "Rule",
    "action": "What to do",
    "node": "Node",
    "gpu": "GPU",
    "workload": "Job",
    "cluster": "Cluster",
}
FINDING_GOES_TO = {
    "Finding": "${page}/f/${__data.fields.Finding}",
    "Node": AT_NODE,
    "GPU": AT_GPU,
    "Job": "/d/trimtab-job?var-workload=${__data.fields.Job}&${__url_time_range}",
}


def _count(title: str, text: str, query: str, **more: object) -> Panel:
    return Panel(kind="stat", title=title, text=text, unit="none", asks=(Ask(query),), width=4, height=4, **more)  # type: ignore[arg-type]


def _gpus(state: str) -> str:
    return "sum(" + cluster("cluster_gpus", f'state="{state}"') + ")"


def open_findings(title: str, text: str, more: str = "", **size: int) -> Panel:
    """A table of the findings that are open now, each with its way to the page."""
    return Panel(
        kind="table",
        title=title,
        text=text,
        unit="none",
        asks=(Ask(cluster("finding_info", more, by=", ".join(FINDING_COLUMNS))),),
        names=FINDING_COLUMNS,
        goes_to=FINDING_GOES_TO,
        **size,  # type: ignore[arg-type]
    )


STRIP = Row(
    title="How it stands",
    panels=(
        _count("GPUs working", "GPUs that are held and whose work shows in their own counters.", _gpus("working")),
        _count(
            "Held but idle",
            "GPUs that a job holds and does not use: the owner is told, nothing is taken away.",
            _gpus("held_idle"),
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        _count(
            "Stranded for 8",
            "Free GPUs that no pod of 8 GPUs can use, because they are scattered over nodes.",
            "sum(" + cluster("cluster_gpus_stranded", 'k="8"') + ")",
            steps=((None, GREEN), (8.0, ORANGE)),
        ),
        _count(
            "Out of service",
            "GPUs that are lost, unusable or on a node that takes no new work.",
            _gpus("out_of_service"),
            steps=((None, GREEN), (1.0, RED)),
        ),
        _count(
            "Not seen",
            "GPUs without a fresh report: nothing is claimed about them, least of all that they are idle.",
            _gpus("unknown"),
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        Panel(
            kind="stat",
            title="Goodput",
            text="Working GPUs less what open findings say is lost, as a share of all GPUs that are held.",
            unit="percentunit",
            asks=(Ask(f"min({cluster('cluster_goodput_ratio')})"),),
            width=4,
            height=4,
            maximum=1.0,
            steps=((None, RED), (0.8, ORANGE), (0.95, GREEN)),
        ),
    ),
)

OVER_TIME = Row(
    title="Over time",
    panels=(
        Panel(
            kind="timeseries",
            title="GPUs by state",
            text="Every GPU is in one state: the stack is the fleet, and what is not working shows on top of it.",
            unit="none",
            asks=(Ask(f"sum by (state) ({cluster('cluster_gpus', by='cluster, state')})", "{{state}}"),),
            is_stacked=True,
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="Goodput over time",
            text="Working GPUs less what open findings say is lost, as a share of all GPUs that are held.",
            unit="percentunit",
            asks=(Ask(cluster("cluster_goodput_ratio"), "{{cluster}}"),),
            minimum=0.0,
            maximum=1.0,
        ),
        Panel(
            kind="timeseries",
            title="GPUs' worth of work lost to findings",
            text="What open findings cost at each moment: 8 = the work of 8 GPUs, as long as it stays so.",
            unit="none",
            asks=(Ask(cluster("cluster_loss_gpus"), "{{cluster}}"),),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="Open findings by rule",
            text="How many things are wrong, by the rule that says so; a step up is a new one.",
            unit="none",
            asks=(Ask(f"sum by (rule) ({cluster('findings', by='cluster, rule, severity')})", "{{rule}}"),),
            is_stacked=True,
            minimum=0.0,
        ),
    ),
)

WRONG = Row(
    title="What is wrong",
    panels=(
        open_findings(
            "Open findings",
            "What is wrong now, what to do about it and whom it hits; the number leads to the evidence on the page.",
            width=24,
            height=9,
        ),
    ),
)

LOAD = Row(
    title="Load",
    panels=(
        lines(
            "Activity",
            "Mean share of the multiprocessors that had work, over all GPUs of a cluster that report it.",
            "percentunit",
            Ask(cluster("cluster_activity_ratio"), "{{cluster}}"),
            maximum=1.0,
        ),
        lines(
            "Power",
            "What all boards of a cluster draw together.",
            "watt",
            Ask(cluster("cluster_power_watts"), "{{cluster}}"),
        ),
        lines(
            "Hottest GPUs",
            "The ten highest core temperatures: one beside cool neighbours is a sick fan.",
            "celsius",
            Ask(f"topk(10, {gpu('temperature_celsius')})", "{{node}} {{gpu}}"),
            minimum=None,
            links=TO_GPU,
        ),
        lines(
            "Memory used",
            "Mean share of device memory in use, by cluster.",
            "percentunit",
            Ask(cluster("cluster_memory_used_ratio"), "{{cluster}}"),
            maximum=1.0,
        ),
    ),
)

RACKS = Row(
    title="Racks",
    panels=(
        lines(
            "Hottest GPU of each rack",
            "One rack that rises alone has lost its cooling; all of them together have a warm hall.",
            "celsius",
            Ask(cluster("rack_temperature_celsius_max", by="cluster, rack"), "{{rack}}"),
            minimum=None,
            width=8,
        ),
        lines(
            "Power by rack",
            "What all boards of a rack draw together; compare with what its feed can give.",
            "watt",
            Ask(cluster("rack_power_watts", by="cluster, rack"), "{{rack}}"),
            width=8,
        ),
        lines(
            "Activity by rack",
            "Mean over the GPUs of a rack that report it.",
            "percentunit",
            Ask(cluster("rack_activity_ratio", by="cluster, rack"), "{{rack}}"),
            width=8,
            maximum=1.0,
        ),
    ),
)

NODES = Row(
    title="Nodes",
    panels=(
        Panel(
            kind="timeseries",
            title="Nodes that report",
            text="Nodes with fresh reports, and all that are known: the gap between the lines is silent.",
            unit="none",
            asks=(
                Ask(f"sum by (cluster) ({node('reporting')})", "{{cluster}} report"),
                Ask(f"count by (cluster) ({node('reporting')})", "{{cluster}} known"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="Nodes that take no new work",
            text="Nodes that are cordoned, by us or anybody.",
            unit="none",
            asks=(Ask(f"sum by (cluster) ({node('cordoned')})", "{{cluster}}"),),
            minimum=0.0,
        ),
        Panel(
            kind="bars",
            title="Age of the last report",
            text="The ten nodes that were silent longest; a report is due every ten seconds.",
            unit="s",
            asks=(Ask(f"topk(10, {node('report_age_seconds')})", "{{node}}"),),
            height=9,
            minimum=0.0,
            steps=((None, GREEN), (60.0, ORANGE), (300.0, RED)),
            links=TO_NODE,
        ),
        Panel(
            kind="bars",
            title="GPUs that a node lacks",
            text="GPUs that a node should have, less those in its last report: the ten largest gaps, 0 where none is.",
            unit="none",
            asks=(Ask(f"topk(10, {node('gpus_expected')} - {node('gpus')})", "{{node}}"),),
            height=9,
            minimum=0.0,
            steps=((None, GREY), (1.0, RED)),
            links=TO_NODE,
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-fleet",
    title="trimtab: Fleet",
    text="All clusters at a glance: how many GPUs work, what is wrong and what it costs, and where to look next.",
    rows=(STRIP, OVER_TIME, WRONG, LOAD, RACKS, NODES),
    variables=("cluster", "node", "gpu"),
)
