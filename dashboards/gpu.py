"""GPU: everything that is known of one card."""

from __future__ import annotations

from dashboards.node import per_gpu
from dashboards.panels import GREEN, RED, Ask, Panel
from dashboards.queries import GPU, gpu, gpu_increase, gpu_rate, indexed
from dashboards.sheet import Row, Sheet

_NAME = "{{node}} GPU {{index}}"

IDENTITY = Row(
    title="Which card",
    panels=(
        Panel(
            kind="table",
            title="Identity",
            text="What the card says of itself; serial and PCI address are what a repair ticket needs.",
            unit="none",
            asks=(Ask(f"max by (node, index, gpu, model, pci, serial, vbios, driver) (trimtab_gpu_info{{{GPU}}})"),),
            names={
                "node": "Node",
                "index": "GPU",
                "gpu": "UUID",
                "model": "Model",
                "pci": "PCI address",
                "serial": "Serial",
                "vbios": "VBIOS",
                "driver": "Driver",
            },
            goes_to={"Node": "/d/trimtab-node?var-node=${__data.fields.Node}&${__url_time_range}"},
            width=16,
            height=5,
        ),
        Panel(
            kind="stat",
            title="Answers",
            text="Whether the GPU answers its driver; one that does not has usually fallen off the bus.",
            unit="none",
            asks=(Ask(f"min({gpu('up')})"),),
            width=4,
            height=5,
            mappings={"0": ("no", RED), "1": ("yes", GREEN)},
        ),
        Panel(
            kind="stat",
            title="The driver asks for",
            text="What the driver itself says must be done before the GPU may be used again; it beats every table.",
            unit="none",
            asks=(Ask(f"max({gpu('recovery_action')})"),),
            width=4,
            height=5,
            mappings={
                "0": ("nothing", GREEN),
                "1": ("a reset", RED),
                "2": ("a reboot", RED),
                "3": ("draining its peers", RED),
                "4": ("a drain, then a reset", RED),
                "5": ("the fabric", RED),
            },
        ),
    ),
)

WORK = Row(
    title="Work",
    panels=(
        Panel(
            kind="timeseries",
            title="How it is used",
            text="Multiprocessors, tensor cores and memory bandwidth: work that leaves the tensor cores "
            "idle may not suit the card.",
            unit="percentunit",
            asks=(
                Ask(f"avg({gpu('sm_active_ratio')})", "SM activity"),
                Ask(f"avg({gpu('tensor_active_ratio')})", "tensor cores"),
                Ask(f"avg({gpu('dram_active_ratio')})", "memory bandwidth"),
                Ask(f"avg({gpu('sm_occupancy_ratio')})", "SM occupancy"),
            ),
            minimum=0.0,
            maximum=1.0,
        ),
        Panel(
            kind="timeseries",
            title="Memory",
            text="Device memory in use, and what is installed.",
            unit="bytes",
            asks=(
                Ask(indexed(gpu("memory_used_bytes")), f"{_NAME} used"),
                Ask(f"max({gpu('memory_total_bytes')})", "installed"),
            ),
            minimum=0.0,
        ),
        per_gpu("Processes", "Compute processes on the GPU.", "none", gpu("compute_processes"), minimum=0.0),
        Panel(
            kind="timeseries",
            title="Age of the last reading",
            text="A silent node's values end, and this grows: a gap is not idleness.",
            unit="s",
            asks=(Ask(indexed(f"min by (cluster, node, gpu) (trimtab_gpu_sample_age_seconds{{{GPU}}})"), _NAME),),
            minimum=0.0,
        ),
    ),
)

HEAT = Row(
    title="Heat, power and clocks",
    panels=(
        Panel(
            kind="timeseries",
            title="Temperature",
            text="Core and memory, beside the core temperature at which the GPU slows itself down.",
            unit="celsius",
            asks=(
                Ask(indexed(gpu("temperature_celsius")), f"{_NAME} core"),
                Ask(indexed(gpu("memory_temperature_celsius")), f"{_NAME} memory"),
                Ask(f"min({gpu('temperature_slowdown_celsius')})", "slows down at"),
            ),
        ),
        Panel(
            kind="timeseries",
            title="Power",
            text="What the board draws, beside the limit in force: a board at its limit is not hot, it is capped.",
            unit="watt",
            asks=(
                Ask(indexed(gpu("power_watts")), _NAME),
                Ask(f"min({gpu('power_limit_watts')})", "limit"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="SM clock",
            text="The clock, beside the highest that the card can run at.",
            unit="hertz",
            asks=(
                Ask(indexed(gpu("sm_clock_hertz")), _NAME),
                Ask(f"max({gpu('sm_clock_max_hertz')})", "highest"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="Time for which the clocks were held down",
            text="Share of the time in which each reason held the clocks: thermal and brake reasons are hardware.",
            unit="percentunit",
            asks=(
                Ask(
                    f"sum by (reason) ({gpu_rate('clock_event_seconds_total', by='cluster, node, gpu, reason')})",
                    "{{reason}}",
                ),
            ),
            minimum=0.0,
        ),
    ),
)

LINKS = Row(
    title="Links",
    panels=(
        Panel(
            kind="timeseries",
            title="NVLink",
            text="Bytes a second over all NVLinks, both ways.",
            unit="Bps",
            asks=(
                Ask(indexed(gpu("nvlink_transmit_bytes_per_second")), f"{_NAME} sent"),
                Ask(indexed(gpu("nvlink_receive_bytes_per_second")), f"{_NAME} received"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="PCIe",
            text="Bytes a second over PCIe, both ways.",
            unit="Bps",
            asks=(
                Ask(indexed(gpu("pcie_transmit_bytes_per_second")), f"{_NAME} sent"),
                Ask(indexed(gpu("pcie_receive_bytes_per_second")), f"{_NAME} received"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="NVLinks that are up",
            text="How many links are active, beside how many the GPU has: a missing one slows every collective.",
            unit="none",
            asks=(
                Ask(f"sum by (node, gpu) ({gpu('nvlink_up', by='cluster, node, gpu, link')})", "{{node}} {{gpu}} up"),
                Ask(f"max({gpu('nvlink_links')})", "has"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="timeseries",
            title="PCIe link",
            text="Lanes in use beside the most that the link can have; fewer under load is a bad seat or riser.",
            unit="none",
            asks=(
                Ask(indexed(gpu("pcie_link_width_lanes")), _NAME),
                Ask(f"max({gpu('pcie_link_width_lanes_max')})", "most"),
            ),
            minimum=0.0,
        ),
    ),
)

ERRORS = Row(
    title="Errors",
    panels=(
        Panel(
            kind="bars",
            title="Errors over the time shown",
            text="What has been counted in this time, by kind; any uncorrected memory error counts.",
            unit="none",
            asks=(
                Ask(
                    f"sum by (kind) ({gpu_increase('ecc_errors_total', by='cluster, node, gpu, kind')})", "ECC {{kind}}"
                ),
                Ask(f"sum({gpu_increase('nvlink_crc_errors_total', by='cluster, node, gpu, link')})", "NVLink CRC"),
                Ask(f"sum({gpu_increase('nvlink_replay_total', by='cluster, node, gpu, link')})", "NVLink replays"),
                Ask(f"sum({gpu_increase('pcie_replay_total')})", "PCIe replays"),
            ),
            minimum=0.0,
        ),
        Panel(
            kind="bars",
            title="Memory rows remapped",
            text="Rows that the card has taken out of use over its life; pending wants a reset, failed an RMA.",
            unit="none",
            asks=(
                Ask(f"sum by (cause) ({gpu('remapped_rows', by='cluster, node, gpu, cause')})", "{{cause}}"),
                Ask(f"sum({gpu('row_remap_pending')})", "pending"),
                Ask(f"sum({gpu('row_remap_failed')})", "failed"),
            ),
            minimum=0.0,
            steps=((None, GREEN), (1.0, RED)),
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-gpu",
    title="trimtab: GPU",
    text="One card: what it is, how it is used, what holds it back, and every error that it has counted.",
    rows=(IDENTITY, WORK, HEAT, LINKS, ERRORS),
    variables=("cluster", "node", "gpu"),
    one_of=("node", "gpu"),
    since="now-3h",
)
