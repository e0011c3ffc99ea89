"""Faults and RMA: what breaks, where it breaks again, and what a repair ticket needs."""

from __future__ import annotations

from dashboards.fleet import AT_GPU, AT_NODE, open_findings
from dashboards.panels import BLUE, GREEN, ORANGE, RED, TO_GPU, TO_NODE, Ask, bars, lines, number, rows, stack
from dashboards.queries import BY_GPU, CLUSTER, NODE, cluster, gpu, gpu_increase, node
from dashboards.sheet import Row, Sheet

_INFO = "cluster, finding, rule, severity, action, node, gpu"


def _open(more: str = "") -> str:
    return cluster("finding_info", more, by=_INFO)


def _seen(by: str, more: str = "") -> str:
    """Each finding once that was open at any time shown, whatever became of its severity and action meanwhile."""
    where = f"{CLUSTER}, {more}" if more else CLUSTER
    return f"max by (cluster, finding, {by}) (max_over_time(trimtab_finding_info{{{where}}}[$__range]))"


def _xids(offset: str = "") -> str:
    return f'max by (cluster, node, code) (trimtab_node_events_total{{{NODE}, kind="xid"}}{offset})'


# No increase(): it does not see a counter's first count, and of most XIDs there is only one.
_XIDS = f"({_xids()} - {_xids(' offset $__range')} >= 0) or {_xids()}"
_PLACE, _AT_NODES = "node, gpu", 'node!=""'
_CARDS = f"max by ({BY_GPU}, index, model, pci, serial, vbios) (trimtab_gpu_info{{{CLUSTER}}})"
_HURT = f'max by ({BY_GPU}) (trimtab_finding_info{{{CLUSTER}, gpu!=""}})'

STANDS = Row(
    title="How it stands",
    panels=(
        number(
            "Open findings",
            "Everything that is wrong now.",
            "none",
            Ask("sum(" + cluster("findings", by="cluster, rule, severity") + ")"),
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        number(
            "GPUs that do not answer",
            "They have usually fallen off the bus; the node keeps the rest.",
            "none",
            Ask("sum(1 - " + gpu("up") + ")"),
            steps=((None, GREEN), (1.0, RED)),
        ),
        number(
            "Asked for by drivers",
            "GPUs whose driver asks for a reset, a drain or a reboot.",
            "none",
            Ask("sum(" + gpu("recovery_action") + " > bool 0)"),
            steps=((None, GREEN), (1.0, RED)),
        ),
        number(
            "Row remaps failed",
            "GPUs whose memory can no longer mend itself: they are due for RMA.",
            "none",
            Ask("sum(" + gpu("row_remap_failed") + ")"),
            steps=((None, GREEN), (1.0, RED)),
        ),
        number(
            "Nodes cordoned",
            "By us or anybody.",
            "none",
            Ask("sum(" + node("cordoned") + ")"),
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        number(
            "Work lost now",
            "GPUs' worth of work that open findings cost as long as they stay open.",
            "none",
            Ask("sum(" + cluster("cluster_loss_gpus") + ")"),
            decimals=1,
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
    ),
)

FINDINGS = Row(
    title="Findings",
    panels=(
        stack(
            "Open findings by severity",
            "Critical ones wake somebody, warnings wait for the day.",
            "none",
            Ask(f"sum by (severity) ({cluster('findings', by='cluster, rule, severity')})", "{{severity}}"),
        ),
        stack(
            "Open findings by what to do",
            "From watching, over telling an owner, to taking hardware out.",
            "none",
            Ask(f"count by (action) ({_open()})", "{{action}}"),
        ),
        stack(
            "Work lost, by rule",
            "GPUs' worth of work that each kind of finding costs at each moment.",
            "none",
            Ask(f"sum by (rule) ({cluster('finding_loss_gpus', by='cluster, finding, rule')})", "{{rule}}"),
        ),
        bars(
            "Found over the time shown, by rule",
            "How many different findings there were in this time.",
            "none",
            Ask(f"count by (rule) ({_seen('rule')})", "{{rule}}"),
            steps=((None, BLUE),),
        ),
        open_findings(
            "Findings open now",
            "What is wrong now, what to do and whom it hits; the number leads to the evidence on the page.",
            width=24,
            height=8,
        ),
    ),
)

AGAIN = Row(
    title="What breaks again, and repair tickets",
    panels=(
        bars(
            "Repeat offenders",
            "The ten nodes and GPUs with the most different findings over the time shown.",
            "none",
            Ask(f"topk(10, count by (node, gpu) ({_seen(_PLACE, _AT_NODES)}))", "{{node}} {{gpu}}"),
            height=9,
            steps=((None, GREEN), (2.0, ORANGE), (4.0, RED)),
            links=TO_GPU,
        ),
        bars(
            "XIDs over the time shown, by code",
            "What the drivers logged, by code: 13, 31, 43 and 45 are usually the job's own, 79 and 154 the hardware's.",
            "none",
            Ask(f"sum by (code) ({_XIDS})", "XID {{code}}"),
            height=9,
            steps=((None, BLUE),),
        ),
        rows(
            "Cards with an open finding",
            "What a repair ticket needs of each card: model, serial, address, firmware.",
            Ask(f"{_CARDS} * on ({BY_GPU}) group_left () {_HURT}"),
            names={
                "node": "Node",
                "index": "GPU",
                "gpu": "UUID",
                "model": "Model",
                "serial": "Serial",
                "pci": "PCI address",
                "vbios": "VBIOS",
                "cluster": "Cluster",
            },
            goes_to={
                "Node": AT_NODE,
                "UUID": AT_GPU.replace("fields.GPU", "fields.UUID"),
            },
        ),
    ),
)

ERRORS = Row(
    title="Errors that are counted",
    panels=(
        bars(
            "Uncorrected memory errors",
            "The ten GPUs with the most over the time shown; each one can cost a job.",
            "none",
            Ask("topk(10, " + gpu_increase("ecc_errors_total", 'kind="uncorrected"') + ")", "{{node}} {{gpu}}"),
            links=TO_GPU,
            steps=((None, GREEN), (1.0, RED)),
        ),
        bars(
            "Memory rows remapped",
            "The ten GPUs with the most rows replaced over their life.",
            "none",
            Ask(f"topk(10, sum by (node, gpu) ({gpu('remapped_rows', by=f'{BY_GPU}, cause')}))", "{{node}} {{gpu}}"),
            links=TO_GPU,
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        bars(
            "NVLink checksum errors",
            "The ten GPUs with the most over the time shown.",
            "none",
            Ask(
                f"topk(10, sum by (node, gpu) ({gpu_increase('nvlink_crc_errors_total', by=f'{BY_GPU}, link')}))",
                "{{node}} {{gpu}}",
            ),
            links=TO_GPU,
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        bars(
            "PCIe packets sent again",
            "The ten GPUs with the most over the time shown.",
            "none",
            Ask(f"topk(10, {gpu_increase('pcie_replay_total')})", "{{node}} {{gpu}}"),
            links=TO_GPU,
            steps=((None, GREEN), (1.0, ORANGE)),
        ),
        lines(
            "GPUs that a node lacks",
            "GPUs that a node should have, less those in its last report.",
            "none",
            Ask(f"sum by (cluster) ({node('gpus_expected')} - {node('gpus')})", "{{cluster}}"),
            links=TO_NODE,
        ),
        lines(
            "GPUs held down by hardware",
            "GPUs whose clocks are held by heat or a power brake, as the hardware says.",
            "none",
            Ask(
                "sum by (reason) (" + gpu("clock_event_active", 'reason=~"hw_.*"', by=f"{BY_GPU}, reason") + ")",
                "{{reason}}",
            ),
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-faults",
    title="trimtab: Faults and RMA",
    text="What breaks, what it costs, where it breaks again, and what a repair ticket needs.",
    rows=(STANDS, FINDINGS, AGAIN, ERRORS),
    variables=("cluster", "node", "gpu"),
    since="now-24h",
)
