"""Every alert's fault as series that change: what a page says while all is well, and while it is not.

promtool's tests (alerts/trimtab.test.yml is written from here) and the chain of real servers both play these.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

CLUSTER = "hall-a"
NODE = f'cluster="{CLUSTER}",node="gpu-07"'
GPU = f'{NODE},gpu="GPU-1"'
AGENT = 'instance="gpu-07:9742",job="trimtab-agents",rack="r1"'
"""As our own scrape configuration labels an agent."""
DAEMON = 'instance="daemon:9740",job="trimtab-daemon"'


@dataclass(frozen=True)
class Gauge:
    """A value while all is well and while it is not; None = the series is not there."""

    well: float | None
    ill: float | None


@dataclass(frozen=True)
class Counter:
    """What a counter grows by each minute, well and ill."""

    well: float = 0.0
    ill: float = 1.0


Source = Gauge | Counter

WELL: Mapping[str, Source] = {
    f'trimtab_board_age_seconds{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(3, 3),
    f'trimtab_page_info{{cluster="{CLUSTER}",url="https://trimtab.example",{DAEMON}}}': Gauge(1, 1),
    f'trimtab_cluster_gpus_reporting{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(8, 8),
    f'trimtab_findings_unlisted{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(0, 0),
    f'trimtab_rack_nodes{{cluster="{CLUSTER}",rack="r1",{DAEMON}}}': Gauge(8, 8),
    f'trimtab_rack_nodes_reporting{{cluster="{CLUSTER}",rack="r1",{DAEMON}}}': Gauge(8, 8),
    f'trimtab_beat_age_seconds{{beat="judge",{DAEMON}}}': Gauge(3, 3),
    f'trimtab_beat_interval_seconds{{beat="judge",{DAEMON}}}': Gauge(5, 5),
    f'trimtab_beats_total{{beat="remember",{DAEMON}}}': Counter(60, 60),
    f'trimtab_beat_failures_total{{beat="remember",{DAEMON}}}': Counter(0, 0),
    f'trimtab_detector_errors_total{{detector="straggler",{DAEMON}}}': Counter(0, 0),
    f"trimtab_inbox_reports{{{DAEMON}}}": Gauge(40, 40),
    f"trimtab_inbox_reports_max{{{DAEMON}}}": Gauge(20000, 20000),
    f'trimtab_reports_refused_total{{status="401",{DAEMON}}}': Counter(0, 0),
    f"trimtab_ring_gpus_dropped_total{{{DAEMON}}}": Counter(0, 0),
    f'trimtab_scrape_failures_total{{node="gpu-03",{DAEMON}}}': Counter(0, 0),
    f"trimtab_snapshot_age_seconds{{{DAEMON}}}": Gauge(2, 2),
    f'trimtab_scheduler_writes_total{{what="cordon",result="refused",{DAEMON}}}': Counter(0, 0),
    f"trimtab_lease_held{{{DAEMON}}}": Gauge(1, 1),
    f'trimtab_paused{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(0, 0),
    f'trimtab_daemon_active{{cluster="{CLUSTER}",daemon="anna",{DAEMON}}}': Gauge(1, 1),
    f'trimtab_daemons_expected{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(2, 2),
    f'trimtab_daemon_standbys{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(1, 1),
    f"up{{{NODE},{AGENT}}}": Gauge(1, 1),
    f"trimtab_agent_ticks_total{{{NODE},{AGENT}}}": Counter(6, 6),
    f"trimtab_agent_tick_seconds{{{NODE},{AGENT}}}": Gauge(0.02, 0.02),
    f"trimtab_agent_ticks_dropped_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_spool_reports{{{NODE},{AGENT}}}": Gauge(1, 1),
    f"trimtab_agent_send_failures_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_spool_dropped_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_spool_lost_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_spool_damaged_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_events_dropped_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_agent_set_aside_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f"trimtab_series_dropped_total{{{NODE},{AGENT}}}": Counter(0, 0),
    f'trimtab_node_events_total{{{NODE},kind="xid",code="31",{AGENT}}}': Counter(1, 1),
    f"trimtab_node_read_errors{{{NODE},{AGENT}}}": Gauge(0, 0),
    f"trimtab_node_gpus{{{NODE},{AGENT}}}": Gauge(8, 8),
    f"trimtab_gpu_up{{{GPU},{AGENT}}}": Gauge(1, 1),
    f"trimtab_gpu_sample_age_seconds{{{GPU},{AGENT}}}": Gauge(5, 5),
    f"trimtab_gpu_recovery_action{{{GPU},{AGENT}}}": Gauge(0, 0),
    f"trimtab_gpu_row_remap_failed{{{GPU},{AGENT}}}": Gauge(0, 0),
    f"trimtab_gpu_row_remap_pending{{{GPU},{AGENT}}}": Gauge(0, 0),
    f"trimtab_gpu_retired_pages_pending{{{GPU},{AGENT}}}": Gauge(0, 0),
    f'trimtab_gpu_ecc_errors_total{{{GPU},kind="uncorrected",{AGENT}}}': Counter(0, 0),
    f'trimtab_gpu_clock_event_active{{{GPU},reason="hw_thermal",{AGENT}}}': Gauge(0, 0),
    f'trimtab_gpu_clock_event_active{{{GPU},reason="hw_power_brake",{AGENT}}}': Gauge(0, 0),
    f'trimtab_gpu_clock_event_active{{{GPU},reason="sw_thermal",{AGENT}}}': Gauge(0, 0),
}
"""A fleet in which nothing is wrong: only the dead-man fires on it."""


@dataclass(frozen=True, kw_only=True)
class Fault:
    """One alert, what makes it fire, and the labels that on-call then sees."""

    alert: str
    series: Mapping[str, Source]
    labels: Mapping[str, str] = field(default_factory=dict)
    """Beside alertname, severity, incident and theme."""
    severity: str
    incident: str
    theme: str
    for_minutes: float = 0.0
    before_minutes: int = 0
    """How long what it looks back on must have been well first."""
    after_minutes: int = 0
    """How long it takes to be over once all is well: the window that it looks back on."""


def _finding(alert: str, rule: str, *, labels: Mapping[str, str], severity: str, incident: str, action: str = "watch",
             for_minutes: float = 0.0, audience: str = "") -> Fault:  # fmt: skip
    told = {"finding": "F31", "rule": rule, "severity": severity, "action": action, "incident": incident,
            "node": "", "gpu": "", "workload": "", **labels}  # fmt: skip
    text = ",".join(f'{name}="{value}"' for name, value in told.items())
    extra = {"audience": audience} if audience else {}
    return Fault(
        alert=alert,
        series={f'trimtab_finding_info{{cluster="{CLUSTER}",{text},{DAEMON}}}': Gauge(None, 1)},
        labels={"cluster": CLUSTER, "finding": "F31", **labels, **extra},
        severity=severity,
        incident=incident,
        theme="finding",
        for_minutes=for_minutes,
    )


_GPU_LABELS = {"cluster": CLUSTER, "node": "gpu-07", "gpu": "GPU-1"}
_NODE_LABELS = {"cluster": CLUSTER, "node": "gpu-07"}
_WHERE = {"node": "gpu-07", "gpu": "GPU-1"}
_JOB = {"workload": "research/llama-70b"}
_ON_DAEMON = {"instance": "daemon:9740"}

FINDINGS: tuple[Fault, ...] = (
    _finding("TrimtabDeviceFault", "device_fault", labels={**_WHERE, **_JOB}, severity="critical",
             incident="device:gpu-07/GPU-1", action="cordon_reboot"),
    _finding("TrimtabProgramFault", "device_fault", labels={**_WHERE, **_JOB}, severity="info",
             incident="app:gpu-07/GPU-1/XID 31", action="alert_owner", audience="owner"),
    _finding("TrimtabGpusMissing", "gpus_missing", labels={"node": "gpu-07"}, severity="critical",
             incident="gpus_missing:gpu-07", action="cordon_reboot"),
    _finding("TrimtabNodeSilent", "node_silent", labels={"node": "gpu-07"}, severity="warning",
             incident="node_silent:gpu-07"),
    _finding("TrimtabNodeBlind", "blind", labels={"node": "gpu-07"}, severity="warning", incident="blind:gpu-07",
             action="config_problem", for_minutes=1),
    _finding("TrimtabClockSkew", "clock_skew", labels={"node": "gpu-07"}, severity="warning",
             incident="clock_skew:gpu-07", action="config_problem", for_minutes=5),
    _finding("TrimtabContradiction", "contradiction", labels=_WHERE, severity="warning",
             incident="contradiction:gpu-07", action="config_problem", for_minutes=5),
    _finding("TrimtabHungJob", "hung_job", labels=_JOB, severity="warning", incident="hung_job:research/llama-70b",
             action="alert_owner", for_minutes=1, audience="owner"),
    _finding("TrimtabFragmentation", "fragmentation", labels=_JOB, severity="warning",
             incident="fragmentation:research/llama-70b", for_minutes=5),
    _finding("TrimtabStraggler", "straggler", labels={**_WHERE, **_JOB}, severity="warning",
             incident="straggler:research/llama-70b", action="reset_after_drain", for_minutes=1, audience="owner"),
    _finding("TrimtabHotspot", "hotspot", labels=_WHERE, severity="warning", incident="hotspot:gpu-07/GPU-1",
             action="reset_after_drain", for_minutes=1),
    _finding("TrimtabIdleGpu", "idle_gpu", labels=_JOB, severity="warning", incident="idle_gpu:research/llama-70b",
             action="alert_owner", for_minutes=5, audience="owner"),
    Fault(alert="TrimtabRackBlind", labels={"cluster": CLUSTER, "rack": "r1"}, severity="critical", theme="finding",
          incident="node_silent:rack:r1", for_minutes=0.5,
          series={f'trimtab_rack_nodes_reporting{{cluster="{CLUSTER}",rack="r1",{DAEMON}}}': Gauge(8, 0)}),
    Fault(alert="TrimtabFindingsUnlisted", labels={"cluster": CLUSTER}, severity="critical", theme="finding",
          incident="findings_unlisted", for_minutes=1,
          series={f'trimtab_findings_unlisted{{cluster="{CLUSTER}",{DAEMON}}}': Gauge(0, 12)}),
)  # fmt: skip


def _gpu(alert: str, metric: str, incident: str, *, severity: str = "warning", for_minutes: float, label: str = "",
         source: Source | None = None, after_minutes: int = 6) -> Fault:  # fmt: skip
    more = f",{label}" if label else ""
    return Fault(
        alert=alert,
        series={f"{metric}{{{GPU}{more},{AGENT}}}": source or Gauge(0, 1)},
        labels=_GPU_LABELS,
        severity=severity,
        incident=f"{incident}:gpu-07/GPU-1",
        theme="hardware",
        for_minutes=for_minutes,
        after_minutes=after_minutes,
    )


def _event(alert: str, kind: str, code: int, severity: str) -> Fault:
    return Fault(
        alert=alert,
        series={f'trimtab_node_events_total{{{NODE},kind="{kind}",code="{code}",{AGENT}}}': Gauge(None, 1)},
        labels={**_NODE_LABELS, "code": str(code)},
        severity=severity,
        incident=f"{kind}:gpu-07:{code}",
        theme="hardware",
        for_minutes=1,
        before_minutes=12,
        after_minutes=12,
    )


def _node(alert: str, metric: str, incident: str, source: Source, *, theme: str, for_minutes: float,
          after_minutes: int = 0, more: Mapping[str, Source] | None = None, label: str = "") -> Fault:  # fmt: skip
    own = f"{label}," if label else ""
    return Fault(
        alert=alert,
        series={f"{metric}{{{own}{NODE},{AGENT}}}": source, **(more or {})},
        labels=_NODE_LABELS,
        severity="warning",
        incident=f"{incident}:gpu-07",
        theme=theme,
        for_minutes=for_minutes,
        after_minutes=after_minutes,
    )


HARDWARE: tuple[Fault, ...] = (
    _gpu("TrimtabGpuDoesNotAnswer", "trimtab_gpu_up", "up", severity="critical", for_minutes=2, source=Gauge(1, 0)),
    _gpu("TrimtabRecoveryAsked", "trimtab_gpu_recovery_action", "recovery", severity="critical", for_minutes=1,
         source=Gauge(0, 2)),
    _event("TrimtabXidCritical", "xid", 79, "critical"),
    _event("TrimtabXidWarning", "xid", 48, "warning"),
    _event("TrimtabSxidFatal", "sxid", 12020, "critical"),
    _gpu("TrimtabEccUncorrected", "trimtab_gpu_ecc_errors_total", "ecc", label='kind="uncorrected"', for_minutes=1),
    _gpu("TrimtabRowRemapFailed", "trimtab_gpu_row_remap_failed", "remap_failed", severity="critical", for_minutes=1),
    _gpu("TrimtabRowRemapPending", "trimtab_gpu_row_remap_pending", "remap_pending", for_minutes=5),
    _gpu("TrimtabRetiredPagesPending", "trimtab_gpu_retired_pages_pending", "retired_pending", for_minutes=5,
         source=Gauge(0, 3)),
    _gpu("TrimtabHwThermal", "trimtab_gpu_clock_event_active", "hw_thermal", label='reason="hw_thermal"',
         for_minutes=6),
    _gpu("TrimtabPowerBrake", "trimtab_gpu_clock_event_active", "power_brake", label='reason="hw_power_brake"',
         for_minutes=6),
    _node("TrimtabCollectFailing", "trimtab_node_read_errors", "collect", Gauge(0, 2), theme="hardware",
          for_minutes=10),
    _node("TrimtabCollectSlow", "trimtab_agent_tick_seconds", "slow", Gauge(0.02, 7), theme="hardware",
          for_minutes=10),
    Fault(alert="TrimtabReadingStale", labels=_NODE_LABELS, severity="warning", incident="stale:gpu-07",
          theme="hardware", for_minutes=1,
          series={f"trimtab_gpu_sample_age_seconds{{{GPU},{AGENT}}}": Gauge(5, 400)}),
    Fault(alert="TrimtabHealthReadingsGone", severity="warning", incident="readings_gone:gpu-07/GPU-1",
          labels={**_GPU_LABELS, "instance": "gpu-07:9742", "job": "trimtab-agents"}, theme="hardware",
          for_minutes=10, before_minutes=65,
          series={f"trimtab_gpu_recovery_action{{{GPU},{AGENT}}}": Gauge(0, None),
                  f"trimtab_gpu_row_remap_failed{{{GPU},{AGENT}}}": Gauge(0, None)}),
    Fault(alert="TrimtabGpuSeriesAbsent", severity="critical", incident="gpu_series_absent", theme="hardware",
          for_minutes=5, series={f"trimtab_gpu_up{{{GPU},{AGENT}}}": Gauge(1, None)}),
    _gpu("TrimtabSwThermal", "trimtab_gpu_clock_event_active", "sw_thermal", label='reason="sw_thermal"',
         for_minutes=30),
    _node("TrimtabGpuCountFell", "trimtab_node_gpus", "gpu_count", Gauge(8, 7), theme="hardware", for_minutes=10),
)  # fmt: skip

AGENTS: tuple[Fault, ...] = (
    _node("TrimtabAgentAbsent", "up", "agent", Gauge(1, 0), theme="agent", for_minutes=5),
    Fault(alert="TrimtabAgentsUnlisted", labels={"cluster": "hall-b"}, severity="warning", incident="agents_unlisted",
          theme="agent", for_minutes=10,
          series={f'trimtab_cluster_gpus_reporting{{cluster="hall-b",{DAEMON}}}': Gauge(0, 8)}),
    _node("TrimtabAgentNotDelivering", "trimtab_agent_spool_reports", "not_delivering", Gauge(1, 90), theme="agent",
          for_minutes=5, more={f"trimtab_agent_send_failures_total{{{NODE},{AGENT}}}": Counter(0, 6)}),
    _node("TrimtabAgentNotEnrolled", "trimtab_agent_enrolment_refusals_total", "not_enrolled", Counter(0, 2),
          label='reason="revoked"', theme="agent", for_minutes=10, after_minutes=31),
    _node("TrimtabAgentReportsLost", "trimtab_agent_spool_dropped_total", "reports_lost", Counter(0, 3),
          theme="agent", for_minutes=1, after_minutes=16),
    _node("TrimtabAgentDiskLow", "trimtab_agent_disk_free_bytes", "agent_disk", Gauge(4e10, 5e7), theme="agent",
          for_minutes=5, more={f"trimtab_agent_spool_bytes_max{{{NODE},{AGENT}}}": Gauge(268435456, 268435456),
                               f"trimtab_agent_spool_bytes{{{NODE},{AGENT}}}": Gauge(4096, 4096)}),
    _node("TrimtabAgentSpoolFilling", "trimtab_agent_spool_bytes", "spool", Gauge(4096, 250000000), theme="agent",
          for_minutes=5, more={f"trimtab_agent_spool_bytes_max{{{NODE},{AGENT}}}": Gauge(268435456, 268435456)}),
    _node("TrimtabAgentReportsSetAside", "trimtab_agent_set_aside_total", "set_aside", Counter(0, 3), theme="agent",
          for_minutes=1, after_minutes=16),
    _node("TrimtabAgentTicksDropped", "trimtab_agent_ticks_dropped_total", "ticks_dropped", Counter(0, 4),
          theme="agent", for_minutes=5, after_minutes=16),
    Fault(alert="TrimtabSeriesDropped", labels={"cluster": CLUSTER}, severity="warning", incident="series_dropped",
          theme="agent", for_minutes=5, after_minutes=16,
          series={f"trimtab_series_dropped_total{{{NODE},{AGENT}}}": Counter(0, 40)}),
)  # fmt: skip


def _daemon(alert: str, metric: str, incident: str, source: Source, *, severity: str = "warning", label: str = "",
            for_minutes: float, after_minutes: int = 0, labels: Mapping[str, str] | None = None) -> Fault:  # fmt: skip
    more = f"{label}," if label else ""
    return Fault(
        alert=alert,
        series={f"{metric}{{{more}{DAEMON}}}": source},
        labels=_ON_DAEMON if labels is None else labels,
        severity=severity,
        incident=incident,
        theme="daemon",
        for_minutes=for_minutes,
        after_minutes=after_minutes,
    )


_OF_CLUSTER = f'cluster="{CLUSTER}"'

THE_DAEMON: tuple[Fault, ...] = (
    _daemon("TrimtabDaemonAbsent", "trimtab_board_age_seconds", "daemon_absent", Gauge(3, None), severity="critical",
            label=_OF_CLUSTER, for_minutes=2, labels={"cluster": CLUSTER}),
    _daemon("TrimtabBeatStalled", "trimtab_beat_age_seconds", "beat_stalled:judge", Gauge(3, 200),
            severity="critical", label='beat="judge"', for_minutes=1, labels={**_ON_DAEMON, "beat": "judge"}),
    _daemon("TrimtabBeatFailing", "trimtab_beat_failures_total", "beat_failing:remember", Counter(0, 60),
            severity="critical", label='beat="remember"', for_minutes=2, after_minutes=6,
            labels={**_ON_DAEMON, "beat": "remember"}),
    _daemon("TrimtabBoardOld", "trimtab_board_age_seconds", "board_old", Gauge(3, 300), severity="critical",
            label=_OF_CLUSTER, for_minutes=1, labels={**_ON_DAEMON, "cluster": CLUSTER}),
    _daemon("TrimtabDetectorFailing", "trimtab_detector_errors_total", "detector:straggler", Counter(0, 12),
            label='detector="straggler"', for_minutes=2, after_minutes=11,
            labels={**_ON_DAEMON, "detector": "straggler"}),
    _daemon("TrimtabInboxFull", "trimtab_inbox_reports", "inbox", Gauge(40, 15000), for_minutes=2),
    _daemon("TrimtabReportsRefused", "trimtab_reports_refused_total", "refused:401", Counter(0, 30),
            label='status="401"', for_minutes=5, after_minutes=11, labels={**_ON_DAEMON, "status": "401"}),
    _daemon("TrimtabRingFull", "trimtab_ring_gpus_dropped_total", "ring", Counter(0, 8), severity="critical",
            for_minutes=1, after_minutes=11),
    _daemon("TrimtabExporterUnread", "trimtab_scrape_failures_total", "exporter:gpu-03", Counter(0, 4),
            label='node="gpu-03"', for_minutes=5, after_minutes=11, labels={**_ON_DAEMON, "node": "gpu-03"}),
    _daemon("TrimtabSchedulerUnread", "trimtab_snapshot_age_seconds", "scheduler_unread", Gauge(2, 300),
            for_minutes=2),
    _daemon("TrimtabSchedulerWritesFailing", "trimtab_scheduler_writes_total", "writes:cordon", Counter(0, 6),
            label='what="cordon",result="refused"', for_minutes=2, after_minutes=11,
            labels={**_ON_DAEMON, "what": "cordon"}),
    _daemon("TrimtabNobodyMayWrite", "trimtab_lease_held", "lease", Gauge(1, 0), for_minutes=5,
            labels={"job": "trimtab-daemon"}),
    _daemon("TrimtabNobodyActive", "trimtab_daemon_active", "nobody_active", Gauge(1, 0), severity="critical",
            label=f'{_OF_CLUSTER},daemon="anna"', for_minutes=1, labels={"cluster": CLUSTER}),
    _daemon("TrimtabTwoActive", "trimtab_daemon_active", "two_active", Gauge(0, 1), severity="critical",
            label=f'{_OF_CLUSTER},daemon="berta"', for_minutes=1, labels={"cluster": CLUSTER}),
    _daemon("TrimtabNoStandby", "trimtab_daemon_standbys", "no_standby", Gauge(1, 0), label=_OF_CLUSTER,
            for_minutes=5, labels={"cluster": CLUSTER}),
    _daemon("TrimtabBreakerOpen", "trimtab_breaker_open", "breaker:device_fault", Gauge(None, 1),
            label=f'{_OF_CLUSTER},rule="device_fault"', for_minutes=1,
            labels={"cluster": CLUSTER, "rule": "device_fault"}),
    _daemon("TrimtabPausedLong", "trimtab_paused", "paused", Gauge(0, 1), label=_OF_CLUSTER, for_minutes=240,
            labels={"cluster": CLUSTER}),
    _daemon("TrimtabOutboxStuck", "trimtab_outbox_oldest_waiting_seconds", "outbox:ops", Gauge(None, 400),
            severity="critical", label='target="ops"', for_minutes=1, labels={**_ON_DAEMON, "target": "ops"}),
    _daemon("TrimtabOutboxDead", "trimtab_outbox_attempts_total", "outbox_dead:ops", Gauge(None, 1),
            severity="critical", label='target="ops",result="dead"', for_minutes=1, after_minutes=62,
            labels={**_ON_DAEMON, "target": "ops"}),
    _daemon("TrimtabPushFailing", "trimtab_alertmanager_failing", "alertmanager", Gauge(0, 1), severity="critical",
            label='peer="am-0:9093"', for_minutes=2),
    _daemon("TrimtabSilencesUnread", "trimtab_silence_reads_total", "silences", Counter(0, 4),
            label='result="failed"', for_minutes=5, after_minutes=11),
    _daemon("TrimtabNobodyPages", "trimtab_alertmanager_unheard_incidents", "nobody_pages", Gauge(0, 2),
            severity="critical", for_minutes=5),
    _daemon("TrimtabPagedTwice", "trimtab_alertmanager_doubled_incidents", "paged_twice", Gauge(0, 2),
            for_minutes=10),
    Fault(alert="TrimtabDiskLow", severity="critical", incident="disk", theme="daemon", labels=_ON_DAEMON,
          for_minutes=5, series={f"trimtab_disk_free_bytes{{{DAEMON}}}": Gauge(4e10, 1e8),
                                 f"trimtab_disk_free_bytes_min{{{DAEMON}}}": Gauge(536870912, 536870912)}),
    _daemon("TrimtabHistoryShort", "trimtab_quota_rows_total", "history:raw", Counter(0, 4000), label='level="raw"',
            for_minutes=10, after_minutes=62, labels={**_ON_DAEMON, "level": "raw"}),
    Fault(alert="TrimtabFilesRunningOut", severity="warning", incident="files:daemon:9740", theme="daemon",
          labels={**_ON_DAEMON, "job": "trimtab-daemon"}, for_minutes=5,
          series={f"process_open_fds{{{DAEMON}}}": Gauge(90, 60000),
                  f"process_max_fds{{{DAEMON}}}": Gauge(65536, 65536)}),
    _daemon("TrimtabConnectionsCrowded", "trimtab_connections_closed_total", "crowd:ingest", Counter(0, 60),
            label='listener="ingest",why="made_room"', for_minutes=5, after_minutes=11,
            labels={**_ON_DAEMON, "listener": "ingest"}),
    _daemon("TrimtabRollupLate", "trimtab_rollup_lag_seconds", "rollup", Gauge(90, 900), for_minutes=5),
    _daemon("TrimtabCertificateEnds", "trimtab_daemon_certificate_remaining_seconds", "certificate:daemon:9740:ingest",
            Gauge(5_000_000, 600_000), label='certificate="ingest"', for_minutes=10,
            labels={**_ON_DAEMON, "certificate": "ingest"}),
    _daemon("TrimtabReleaseStuck", "trimtab_release_left", "release", Gauge(None, 3), label=_OF_CLUSTER,
            for_minutes=60, labels={"cluster": CLUSTER}),
)  # fmt: skip

FAULTS: tuple[Fault, ...] = (*FINDINGS, *HARDWARE, *AGENTS, *THE_DAEMON)
BY_ALERT: Mapping[str, Fault] = {fault.alert: fault for fault in FAULTS}
