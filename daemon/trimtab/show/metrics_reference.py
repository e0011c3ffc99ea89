"""Writes docs/metrics.md from the tables, so that the page is never behind the code."""

from __future__ import annotations

from collections.abc import Iterator

from trimtab.model.metric import CATALOGUE, Metric
from trimtab.show.metrics_table import OWN, OwnMetric

_HEAD = """# Metrics

Written from `model/metric.py` and `show/metrics_table.py` by `make docs`; a test keeps it current.

Names carry their unit (`_bytes`, `_seconds`, `_celsius`, `_watts`, `_joules`, `_hertz`, `_ratio` from 0 to 1);
counters end in `_total`. A value that is not known is absent, never 0. Names of `dcgm-exporter` (last column) are read
as aliases, and published beside ours with `[metrics] dcgm_aliases`. How to scrape:
[how-to/prometheus.md](how-to/prometheus.md).
Agents serve `http://127.0.0.1:9742/metrics`, the daemon `http://127.0.0.1:9740/metrics`; both speak OpenMetrics when
asked.
"""

_GPU_HEAD = """
## Per GPU

Labels: `cluster`, `node`, `gpu` (the UUID), and the one that the table names; MIG instances add `gi` and `ci`. What
describes a GPU or its job hangs on `trimtab_gpu_info` and `trimtab_gpu_job_info`; join on `cluster, node, gpu`.

| Name | Kind | Label | What it says | Read from | dcgm-exporter |
|---|---|---|---|---|---|
"""

_OWN_HEAD = """
## Nodes, cluster, agent and daemon

| Name | Kind | Labels | Agent | Daemon | What it says |
|---|---|---|---|---|---|
"""


def metrics_reference() -> str:
    """The whole page."""
    return "".join([_HEAD, _GPU_HEAD, *_gpu_rows(), _OWN_HEAD, *_own_rows()])


def _gpu_rows() -> Iterator[str]:
    for metric in CATALOGUE:
        yield _row(
            f"`trimtab_gpu_{metric.name}`",
            metric.kind.value,
            f"`{metric.label}`" if metric.label else "",
            metric.help + (" Per MIG instance too." if metric.is_per_instance else ""),
            metric.nvml,
            _aliases(metric),
        )


def _aliases(metric: Metric) -> str:
    return " ".join(dict.fromkeys(f"`{alias.name}`" for alias in metric.dcgm))


def _own_rows() -> Iterator[str]:
    for metric in OWN:
        yield _row(
            f"`{metric.name}`",
            metric.kind.value,
            ", ".join(f"`{label}`" for label in metric.labels),
            _mark(metric, is_agent=True),
            _mark(metric, is_agent=False),
            metric.help,
        )


def _mark(metric: OwnMetric, *, is_agent: bool) -> str:
    return "yes" if (metric.agent if is_agent else metric.daemon) else ""


def _row(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |\n"
