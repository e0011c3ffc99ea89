"""/metrics of agent and daemon: custom collectors over the latest values, classic text or OpenMetrics.

The agent imports this; nothing here needs more than the base install.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Set
from datetime import datetime

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from trimtab.model.reading import EventKind, EventSource, GpuReading
from trimtab.model.window import Window
from trimtab.settings.exposition import AgentMetricsSettings
from trimtab.show.metrics_certificates import fill_certificates
from trimtab.show.metrics_daemon import fill_daemon
from trimtab.show.metrics_dcgm import DcgmFamilies, with_counters
from trimtab.show.metrics_facts import AgentView, DaemonView
from trimtab.show.metrics_families import SERIES_PER_NODE_MAX, Families, holders_of, timestamp
from trimtab.show.metrics_server import MetricsServer

GPU_SERIES_MAX = 200_000
"""The daemon's page leaves whole nodes out beyond this: then let Prometheus scrape the agents, and set
[metrics] gpu_series = false here."""


def agent_exposition(view: AgentView, *, accept: str = "", has_dcgm_names: bool = False) -> tuple[bytes, str]:
    """The text of an agent's /metrics and its content type, as the Accept header asks."""
    return _encoded(_AgentCollector(lambda: view, has_dcgm_names=has_dcgm_names), accept)


def daemon_exposition(
    view: DaemonView, *, accept: str = "", has_dcgm_names: bool = False, has_gpu_series: bool = True
) -> tuple[bytes, str]:
    """The text of the daemon's /metrics and its content type, as the Accept header asks."""
    collector = _DaemonCollector(lambda: view, has_dcgm_names=has_dcgm_names, has_gpu_series=has_gpu_series)
    return _encoded(collector, accept)


def daemon_metrics(
    supplier: Callable[[], DaemonView], *, has_dcgm_names: bool = False, has_gpu_series: bool = True
) -> Callable[[str], tuple[bytes, str]]:
    """What the API serves at /metrics: the daemon's view at each call, and the process's own memory and CPU.

    Without `has_gpu_series` each GPU's values are the agents' to tell: none is here, and none counts as dropped.
    """
    registry = CollectorRegistry()
    registry.register(_DaemonCollector(supplier, has_dcgm_names=has_dcgm_names, has_gpu_series=has_gpu_series))
    ProcessCollector(registry=registry)
    return lambda accept: _encoded(registry, accept)


def serve_agent_metrics(
    listen: str, supplier: Callable[[], AgentView], *, settings: AgentMetricsSettings | None = None
) -> MetricsServer:
    """Serve an agent's /metrics on threads of its own. Raises SettingsError."""
    settings = settings or AgentMetricsSettings()
    registry = CollectorRegistry()
    registry.register(_AgentCollector(supplier, has_dcgm_names=settings.dcgm_aliases))
    ProcessCollector(registry=registry)
    return MetricsServer(listen, lambda accept: _encoded(registry, accept), settings)


class _AgentCollector(Collector):
    def __init__(self, supplier: Callable[[], AgentView], *, has_dcgm_names: bool = False) -> None:
        self._supplier = supplier
        self._has_dcgm_names = has_dcgm_names
        self._dropped: Counter[tuple[str, str]] = Counter()

    def collect(self) -> Iterator[Metric]:
        view = self._supplier()
        families = Families(series_per_node_max=SERIES_PER_NODE_MAX)
        families.add("trimtab_build_info", 1.0, view.facts.version)
        if view.report is not None:
            _fill_report(families, view)
            _fill_agent(families, view, view.report.cluster, view.report.node)
        _fill_dropped(families, self._dropped)
        yield from families.collect()
        if self._has_dcgm_names and view.report is not None:
            dcgm = DcgmFamilies()
            for reading in view.report.gpus:
                dcgm.add(reading, node=view.report.node, last_xid=view.facts.last_xids.get(reading.uuid))
            yield from dcgm.collect()


class _DaemonCollector(Collector):
    def __init__(
        self, supplier: Callable[[], DaemonView], *, has_dcgm_names: bool = False, has_gpu_series: bool = True
    ) -> None:
        self._supplier = supplier
        self._has_dcgm_names = has_dcgm_names and has_gpu_series
        self._gpu_series_max = GPU_SERIES_MAX if has_gpu_series else None
        self._dropped: Counter[tuple[str, str]] = Counter()
        self._last_xids: dict[tuple[str, str], tuple[datetime, int]] = {}

    def collect(self) -> Iterator[Metric]:
        view = self._supplier()
        families = Families(series_per_node_max=SERIES_PER_NODE_MAX)
        fill_daemon(families, view, gpu_series_max=self._gpu_series_max)
        left_out = {node for (_, node), count in families.dropped.items() if count}
        _fill_dropped(families, self._dropped)
        yield from families.collect()
        if self._has_dcgm_names and view.window is not None and view.board is not None:
            silent = {row.name for row in view.board.nodes if row.is_silent}
            yield from self._dcgm(view.window, silent | left_out).collect()

    def _dcgm(self, window: Window, left_out: Set[str]) -> DcgmFamilies:
        for told in window.events:
            event = told.event
            is_written = event.source is EventSource.USERSPACE  # anybody may have
            if event.kind is not EventKind.XID or is_written or event.gpu is None or event.code is None:
                continue
            place = (told.node, event.gpu)
            if place not in self._last_xids or event.at >= self._last_xids[place][0]:
                self._last_xids[place] = (event.at, event.code)
        # A GPU that is gone from the window will be another's when its place is filled again.
        known = {(key.node, key.uuid) for key in window.gpus}
        self._last_xids = {place: last for place, last in self._last_xids.items() if place in known}
        dcgm = DcgmFamilies()
        for key, now in window.gpus.items():
            if key.node not in left_out:
                _, code = self._last_xids.get((key.node, key.uuid), (None, None))
                dcgm.add(now.reading, node=key.node, last_xid=code)
        return dcgm


def _fill_report(families: Families, view: AgentView) -> None:
    report = view.report
    if report is None:
        return
    place = (report.cluster, report.node)
    families.add("trimtab_node_gpus", len(report.gpus), *place)
    families.add("trimtab_node_gpus_expected", report.gpus_expected, *place)
    families.add("trimtab_node_read_errors", len(report.errors), *place)
    age_seconds = (view.now - report.sampled_at).total_seconds()
    for reading in report.gpus:
        _fill_gpu(families, reading, place, age_seconds)


def _fill_gpu(families: Families, reading: GpuReading, place: tuple[str, str], age_seconds: float) -> None:
    cluster, node = place
    families.add_info(reading, cluster=cluster, node=node)
    families.add("trimtab_gpu_sample_age_seconds", max(age_seconds, 0.0), cluster, node, reading.uuid)
    families.add_gpu(reading, cluster=cluster, node=node)
    where = {"cluster": cluster, "node": node, "gpu": reading.uuid}
    for instance, holder in holders_of(reading):
        families.add_job({**where, **instance}, job=holder, queue="")


def _fill_agent(families: Families, view: AgentView, cluster: str, node: str) -> None:
    facts, place = view.facts, (cluster, node)
    sampled_at = view.report.sampled_at if view.report else None
    for name, value in (
        ("ticks_total", facts.ticks_total),
        ("ticks_dropped_total", facts.ticks_dropped_total),
        ("tick_seconds", facts.tick_seconds),
        ("report_timestamp_seconds", timestamp(sampled_at)),
        ("bad_samples_total", facts.bad_samples_total),
        ("spool_reports", facts.spool_reports),
        ("spool_bytes", facts.spool_bytes),
        ("spool_bytes_max", facts.spool_bytes_max),
        ("disk_free_bytes", facts.disk_free_bytes),
        ("put_off_total", facts.put_off_total),
        ("spool_dropped_total", facts.spool_dropped_total),
        ("spool_lost_total", facts.spool_lost_total),
        ("spool_damaged_total", facts.spool_damaged_total),
        ("events_dropped_total", facts.events_dropped_total),
        ("set_aside_total", facts.set_aside_total),
        ("acknowledged_total", facts.acknowledged_total),
        ("acknowledged_timestamp_seconds", timestamp(facts.acknowledged_at)),
        ("send_failures_total", facts.send_failures_total),
        ("enrolled", None if facts.is_enrolled is None else int(facts.is_enrolled)),
        ("credential_end_timestamp_seconds", timestamp(facts.credential_expires_at)),
        ("credentials_received_total", facts.credentials_received_total),
    ):
        families.add(f"trimtab_agent_{name}", value, *place)
    fill_certificates(families, "agent", facts.certificates, *place)
    families.add_counts("trimtab_agent_collector_seconds", facts.collector_seconds, *place)
    families.add_counts("trimtab_agent_collector_errors_total", facts.collector_errors_total, *place)
    families.add_counts("trimtab_agent_enrolment_refusals_total", facts.enrolment_refusals_total, *place)
    for (kind, code), count in sorted(facts.events_total.items()):
        families.add("trimtab_node_events_total", count, *place, kind, code)


def _fill_dropped(families: Families, total: Counter[tuple[str, str]]) -> None:
    """The running count over all answers, which is what a counter must be."""
    total.update(families.dropped)
    for (cluster, node), count in sorted(total.items()):
        families.add("trimtab_series_dropped_total", count, cluster, node)


def _encoded(registry: Collector, accept: str) -> tuple[bytes, str]:
    encoder, content_type = choose_encoder(accept)
    text = encoder(registry)
    return text if content_type.startswith("application/openmetrics") else with_counters(text), content_type
