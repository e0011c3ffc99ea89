"""Job: the ranks of one job side by side, so that the one that is slow is seen."""

from __future__ import annotations

from dashboards.fleet import open_findings
from dashboards.panels import TO_GPU, Ask, lines, number, ranks
from dashboards.queries import BY_GPU, CLUSTER, gpu, holders, indexed, of_job
from dashboards.sheet import Row, Sheet

_NAME = "{{node}} GPU {{index}}"


def _value(name: str) -> str:
    return of_job(gpu(name, where=CLUSTER))


def _rank(name: str) -> Ask:
    return Ask(of_job(indexed(gpu(name, where=CLUSTER), where=CLUSTER)), _NAME)


_MINE = holders('workload="$workload"')

STANDS = Row(
    title="How it stands",
    panels=(
        number("GPUs held", "GPUs that the job holds now.", "none", Ask(f"count({_MINE})")),
        number(
            "Nodes",
            "Nodes that it is spread over; fewer is closer together.",
            "none",
            Ask(f"count(count by (cluster, node) ({_MINE}))"),
        ),
        number(
            "SM activity",
            "Mean over all its ranks.",
            "percentunit",
            Ask(f"avg({_value('sm_active_ratio')})"),
            maximum=1.0,
        ),
        number(
            "Slowest rank",
            "The lowest SM activity of its ranks: compare with the mean.",
            "percentunit",
            Ask(f"min({_value('sm_active_ratio')})"),
            maximum=1.0,
        ),
        number("Power", "What its GPUs draw together.", "watt", Ask(f"sum({_value('power_watts')})")),
        number(
            "Memory used",
            "Device memory in use, as a share of what its GPUs have.",
            "percentunit",
            Ask(f"sum({_value('memory_used_bytes')}) / sum({_value('memory_total_bytes')})"),
            maximum=1.0,
        ),
    ),
)

RANKS = Row(
    title="Ranks side by side",
    panels=(
        ranks(
            "SM activity by rank",
            "A row is a rank, a cell a moment: a row of another colour is the straggler that all others wait for.",
            "percentunit",
            _rank("sm_active_ratio"),
            minimum=0.0,
            maximum=1.0,
            links=TO_GPU,
        ),
        ranks(
            "SM clock by rank",
            "A rank whose clock is lower than its peers' is held down by heat, power or the driver.",
            "hertz",
            _rank("sm_clock_hertz"),
            minimum=0.0,
            links=TO_GPU,
        ),
        ranks(
            "Temperature by rank",
            "A rank that is hotter than its peers at the same work has a cooling problem.",
            "celsius",
            _rank("temperature_celsius"),
            minimum=20.0,
            maximum=95.0,
            links=TO_GPU,
        ),
        ranks(
            "Power by rank",
            "Ranks that do the same work draw the same; one that draws less waits, or is held down.",
            "watt",
            _rank("power_watts"),
            minimum=0.0,
            links=TO_GPU,
        ),
    ),
)

SPREAD = Row(
    title="How far apart they are",
    panels=(
        lines(
            "SM activity: slowest, middle, fastest",
            "The further the lines are apart, the more the fast ranks wait for the slow ones.",
            "percentunit",
            Ask(f"min({_value('sm_active_ratio')})", "slowest"),
            Ask(f"quantile(0.5, {_value('sm_active_ratio')})", "middle"),
            Ask(f"max({_value('sm_active_ratio')})", "fastest"),
            maximum=1.0,
        ),
        lines(
            "NVLink sent by rank",
            "What each rank sends to its peers on the node: in step with the others while collectives run.",
            "Bps",
            _rank("nvlink_transmit_bytes_per_second"),
            links=TO_GPU,
        ),
        lines(
            "PCIe received by rank",
            "What each rank reads from its host: a data loader that cannot keep up shows here.",
            "Bps",
            _rank("pcie_receive_bytes_per_second"),
            links=TO_GPU,
        ),
        lines(
            "What holds its clocks down",
            "Ranks whose clocks are held, by reason.",
            "none",
            Ask(
                "sum by (reason) (" + of_job(gpu("clock_event_active", where=CLUSTER, by=f"{BY_GPU}, reason")) + ")",
                "{{reason}}",
            ),
        ),
    ),
)

WRONG = Row(
    title="What is wrong with it",
    panels=(
        open_findings(
            "Open findings of this cluster",
            "What is wrong now; the job column says whom it hits, the number leads to the evidence on the page.",
            width=24,
            height=7,
        ),
    ),
)

SHEET = Sheet(
    uid="trimtab-job",
    title="trimtab: Job",
    text="One job: its ranks side by side over time, how far apart they are, and what is wrong under it.",
    rows=(STANDS, RANKS, SPREAD, WRONG),
    variables=("cluster", "queue", "workload"),
    since="now-3h",
)
