"""Fragmentation and capacity: what room there is, for pods of which size, and what is scattered."""

from __future__ import annotations

from dashboards.panels import BLUE, GREEN, ORANGE, Ask, bars, lines, number, rows, stack
from dashboards.queries import CLUSTER, cluster, node
from dashboards.sheet import Row, Sheet

_FREE = node("gpus_free", where=CLUSTER)
_INFO = f"max by (cluster, node, rack, model) (trimtab_node_info{{{CLUSTER}}})"


def _pods(size: int) -> str:
    return "sum(" + cluster("cluster_pods_placeable", f'k="{size}"') + ")"


def _stranded(size: int) -> str:
    return "sum(" + cluster("cluster_gpus_stranded", f'k="{size}"') + ")"


STANDS = Row(
    title="Room now",
    panels=(
        number(
            "Free GPUs",
            "GPUs that nobody holds, spares left out.",
            "none",
            Ask("sum(" + cluster("cluster_gpus", 'state="free"') + ")"),
        ),
        number(
            "Spares",
            "Nodes kept free for faults: what is evacuated goes there.",
            "none",
            Ask("sum(" + cluster("cluster_gpus", 'state="spare"') + ")"),
        ),
        number("Pods of 8", "Pods of 8 GPUs that would start now.", "none", Ask(_pods(8))),
        number("Pods of 4", "Pods of 4 GPUs that would start now.", "none", Ask(_pods(4))),
        number(
            "Stranded for 8",
            "Free GPUs that are of no use to a pod of 8.",
            "none",
            Ask(_stranded(8)),
            steps=((None, GREEN), (8.0, ORANGE)),
        ),
        number(
            "Longest wait",
            "How long the longest-waiting job has waited, whatever it waits for.",
            "s",
            Ask("max(" + cluster("workload_wait_seconds_max") + ")"),
            decimals=0,
        ),
    ),
)

OVER_TIME = Row(
    title="Over time",
    panels=(
        lines(
            "Stranded GPUs by pod size",
            "Free GPUs that no pod of k GPUs can use: the gap between k = 1 and k = 8 is fragmentation.",
            "none",
            Ask(f"sum by (k) ({cluster('cluster_gpus_stranded', by='cluster, k')})", "k = {{k}}"),
        ),
        lines(
            "Pods that find room, by size",
            "How many pods of k GPUs would start now on single nodes.",
            "none",
            Ask(f"sum by (k) ({cluster('cluster_pods_placeable', by='cluster, k')})", "k = {{k}}"),
        ),
        stack(
            "GPUs by state",
            "Every GPU is in one state; free and stranded ones together are what could be given out.",
            "none",
            Ask(f"sum by (state) ({cluster('cluster_gpus', by='cluster, state')})", "{{state}}"),
        ),
        lines(
            "Jobs by state",
            "A line of waiting jobs that stays up while GPUs are free is what consolidation is for.",
            "none",
            Ask(f"sum by (state) ({cluster('workloads', by='cluster, state')})", "{{state}}"),
        ),
    ),
)

WHERE = Row(
    title="Where the room is",
    panels=(
        bars(
            "Nodes by free GPUs",
            "How many nodes have so many GPUs free: full and empty ones are good, the middle is scattered.",
            "none",
            Ask(f'count_values by (cluster) ("free", {_FREE})', "{{free}} free"),
            steps=((None, BLUE),),
        ),
        bars(
            "Free GPUs by rack",
            "Room within one rack is room close together.",
            "none",
            Ask(f"sum by (rack) ({_INFO} * on (cluster, node) group_left () {_FREE})", "{{rack}}"),
            steps=((None, BLUE),),
        ),
        rows(
            "Nodes and their room",
            "Every node with its free GPUs, rack and model; sort by the column to find what is almost empty.",
            Ask(f"{_INFO} * on (cluster, node) group_left () {_FREE}"),
            names={"node": "Node", "rack": "Rack", "model": "Model", "Value": "Free GPUs", "cluster": "Cluster"},
            goes_to={"Node": "/d/trimtab-node?var-node=${__data.fields.Node}&${__url_time_range}"},
            height=10,
        ),
    ),
)

RACKS = Row(
    title="Racks",
    panels=(
        lines(
            "Nodes that report, by rack",
            "A rack whose line falls to 0 is not seen: nothing is claimed about its room.",
            "none",
            Ask(cluster("rack_nodes_reporting", by="cluster, rack"), "{{rack}}"),
            width=24,
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-capacity",
    title="trimtab: Fragmentation and capacity",
    text="What room there is for pods of which size, what of it is scattered, and where it lies.",
    rows=(STANDS, OVER_TIME, WHERE, RACKS),
    variables=("cluster",),
)
