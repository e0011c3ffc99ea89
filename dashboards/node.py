"""Node: one node's GPUs side by side."""

from __future__ import annotations

from dashboards.fleet import open_findings
from dashboards.panels import GREEN, ORANGE, RED, TO_GPU, Ask, Panel
from dashboards.queries import NODE, gpu, gpu_rate, indexed, node
from dashboards.sheet import Row, Sheet

_NAME = "{{node}} GPU {{index}}"


def per_gpu(title: str, text: str, unit: str, query: str, **more: object) -> Panel:
    """One line a GPU, named by its node and index."""
    return Panel(
        kind="timeseries",
        title=title,
        text=text,
        unit=unit,
        asks=(Ask(indexed(query), _NAME),),
        links=TO_GPU,
        **more,  # type: ignore[arg-type]
    )


STANDS = Row(
    title="How it stands",
    panels=(
        Panel(
            kind="stat",
            title="GPUs in the last report",
            text="Readable or not; compare with the GPUs that the node should have.",
            unit="none",
            asks=(Ask(node("gpus"), "{{node}}"),),
            width=6,
            height=4,
        ),
        Panel(
            kind="stat",
            title="GPUs expected",
            text="GPUs that the node has shown before, or that its settings say it has.",
            unit="none",
            asks=(Ask(node("gpus_expected"), "{{node}}"),),
            width=6,
            height=4,
        ),
        Panel(
            kind="stat",
            title="Takes new work",
            text="Whether the node is cordoned, by us or anybody.",
            unit="none",
            asks=(Ask(node("cordoned"), "{{node}}"),),
            width=6,
            height=4,
            mappings={"0": ("open", GREEN), "1": ("cordoned", ORANGE)},
        ),
        Panel(
            kind="stat",
            title="Last report",
            text="Time since the daemon received the node's last report; one is due every ten seconds.",
            unit="s",
            asks=(Ask(node("report_age_seconds"), "{{node}}"),),
            width=6,
            height=4,
            decimals=0,
            steps=((None, GREEN), (60.0, ORANGE), (300.0, RED)),
        ),
    ),
)

WORK = Row(
    title="Work",
    panels=(
        per_gpu(
            "SM activity",
            "Share of the multiprocessors that had work: GPUs of one job go up and down together, or one is slow.",
            "percentunit",
            gpu("sm_active_ratio"),
            minimum=0.0,
            maximum=1.0,
        ),
        per_gpu(
            "Memory used",
            "Device memory in use; memory held with no activity is a job that forgot its GPU.",
            "bytes",
            gpu("memory_used_bytes"),
            minimum=0.0,
        ),
        Panel(
            kind="table",
            title="Who holds what",
            text="Jobs that hold GPUs of this node, with their queue.",
            unit="none",
            asks=(
                Ask(
                    f"count by (cluster, node, workload, queue) (max by (cluster, node, gpu, workload, queue) "
                    f"(trimtab_gpu_job_info{{{NODE}}}))"
                ),
            ),
            names={"node": "Node", "workload": "Job", "queue": "Queue", "Value": "GPUs"},
            goes_to={"Job": "/d/trimtab-job?var-workload=${__data.fields.Job}&${__url_time_range}"},
            width=24,
            height=7,
        ),
    ),
)

HEAT = Row(
    title="Heat and power",
    panels=(
        per_gpu(
            "Temperature",
            "Core temperatures: one that stands out from its neighbours under the same load has a cooling problem.",
            "celsius",
            gpu("temperature_celsius"),
        ),
        per_gpu("Power", "What each board draws.", "watt", gpu("power_watts"), minimum=0.0),
        per_gpu(
            "SM clock",
            "Clocks of the multiprocessors: a step down under load means that something holds them.",
            "hertz",
            gpu("sm_clock_hertz"),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="What holds the clocks down",
            text="GPUs of the node whose clocks are held, by reason; hw_ reasons are hardware protecting itself.",
            unit="none",
            asks=(
                Ask(f"sum by (reason) ({gpu('clock_event_active', by='cluster, node, gpu, reason')})", "{{reason}}"),
            ),
            minimum=0.0,
        ),
    ),
)

LINKS = Row(
    title="Links and errors",
    panels=(
        per_gpu(
            "NVLink sent",
            "Rate at which each GPU sends over all its NVLinks.",
            "Bps",
            gpu("nvlink_transmit_bytes_per_second"),
            minimum=0.0,
        ),
        per_gpu(
            "PCIe received",
            "Rate at which each GPU receives over PCIe: data loading shows here.",
            "Bps",
            gpu("pcie_receive_bytes_per_second"),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="ECC errors by kind",
            text="Memory errors a second; uncorrected ones cost a job, corrected ones are a trend to watch.",
            unit="none",
            asks=(
                Ask(
                    f"sum by (node, kind) ({gpu_rate('ecc_errors_total', by='cluster, node, gpu, kind')})",
                    "{{node}} {{kind}}",
                ),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="PCIe packets sent again",
            text="Replays a second, by GPU: a link that has to repeat itself is a riser, a slot or a board.",
            unit="none",
            asks=(Ask(indexed(gpu_rate("pcie_replay_total")), _NAME),),
            minimum=0.0,
            links=TO_GPU,
        ),
    ),
)

WRONG = Row(
    title="What is wrong here",
    panels=(
        open_findings(
            "Open findings of this node",
            "What is wrong with this node or its GPUs now; the number leads to the evidence on the page.",
            'node=~"$node"',
            width=24,
            height=7,
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-node",
    title="trimtab: Node",
    text="One node (or several): its GPUs side by side, who holds them, heat, clocks, links and errors.",
    rows=(STANDS, WORK, HEAT, LINKS, WRONG),
    variables=("cluster", "node", "gpu"),
    never_all=("node",),
    since="now-3h",
)
