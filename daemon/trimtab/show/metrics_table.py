"""The metrics that are not in the GPU catalogue, as one literal table; docs/metrics.md is written from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.model.metric import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnMetric:
    """One row: full name, kind, help, labels beside those of its subject, and who exports it."""

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE
    agent: bool = False
    daemon: bool = False


_GPU, _NODE, _CLUSTER, _COUNTER = ("cluster", "node", "gpu"), ("cluster", "node"), ("cluster",), Kind.COUNTER

# fmt: off
OWN: tuple[OwnMetric, ...] = (
    OwnMetric(name="trimtab_build_info", labels=("version",), agent=True, daemon=True,
              help="Always 1; carries the version."),
    # --- per GPU, beside the catalogue
    OwnMetric(name="trimtab_gpu_info", agent=True, daemon=True,
              labels=(*_GPU, "index", "model", "pci", "serial", "minor", "vbios", "driver"),
              help="Always 1; carries what describes a GPU. Join on cluster, node, gpu."),
    OwnMetric(name="trimtab_gpu_job_info", labels=(*_GPU, "job", "queue"), agent=True, daemon=True,
              help="Always 1 while a GPU is held; carries who holds it. MIG instances add gi and ci."),
    OwnMetric(name="trimtab_gpu_sample_age_seconds", labels=_GPU, agent=True, daemon=True,
              help="Age of the GPU's last reading. Values of a silent node are absent; this grows."),
    # --- per node
    OwnMetric(name="trimtab_node_gpus", labels=_NODE, agent=True, daemon=True,
              help="GPUs in the node's last report, readable or not."),
    OwnMetric(name="trimtab_node_gpus_expected", labels=_NODE, agent=True, daemon=True,
              help="GPUs that the node should have."),
    OwnMetric(name="trimtab_node_read_errors", labels=_NODE, agent=True, daemon=True,
              help="Sections or fields that could not be read at the last tick."),
    OwnMetric(name="trimtab_node_events_total", labels=(*_NODE, "kind", "code"), kind=_COUNTER, agent=True,
              help="Events seen since the agent started; code is the XID or SXid number, else empty."),
    OwnMetric(name="trimtab_node_reporting", labels=_NODE, daemon=True,
              help="1 while the node's reports are fresh, else 0."),
    OwnMetric(name="trimtab_node_report_age_seconds", labels=_NODE, daemon=True,
              help="Time since the last report was received."),
    OwnMetric(name="trimtab_node_clock_skew_seconds", labels=_NODE, daemon=True,
              help="Receipt time less sample time of the last report; large in a replay as well."),
    OwnMetric(name="trimtab_node_cordoned", labels=_NODE, daemon=True,
              help="1 while the node is cordoned, by us or anybody."),
    OwnMetric(name="trimtab_series_dropped_total", labels=_NODE, kind=_COUNTER, agent=True, daemon=True,
              help="Series left out of answers because the node has more than the cap."),
    # --- the agent itself
    OwnMetric(name="trimtab_agent_ticks_total", labels=_NODE, kind=_COUNTER, agent=True, help="Ticks run."),
    OwnMetric(name="trimtab_agent_ticks_dropped_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Ticks left out because the one before took too long."),
    OwnMetric(name="trimtab_agent_tick_seconds", labels=_NODE, agent=True, help="How long the last tick took."),
    OwnMetric(name="trimtab_agent_report_timestamp_seconds", labels=_NODE, agent=True,
              help="When the last report was sampled."),
    OwnMetric(name="trimtab_agent_collector_seconds", labels=(*_NODE, "collector"), agent=True,
              help="How long a collector took at the last tick."),
    OwnMetric(name="trimtab_agent_collector_errors_total", labels=(*_NODE, "collector"), kind=_COUNTER, agent=True,
              help="Times that a collector failed as a whole."),
    OwnMetric(name="trimtab_agent_bad_samples_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Values left out as blank, NaN, infinite or out of range."),
    OwnMetric(name="trimtab_agent_spool_reports", labels=_NODE, agent=True,
              help="Reports on disk that the daemon has not acknowledged."),
    OwnMetric(name="trimtab_agent_spool_bytes", labels=_NODE, agent=True, help="Size of the spool on disk."),
    OwnMetric(name="trimtab_agent_spool_dropped_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Reports dropped because the spool was full."),
    OwnMetric(name="trimtab_agent_spool_lost_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Reports that could not be written to disk and were lost with the next one."),
    OwnMetric(name="trimtab_agent_spool_damaged_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Records on disk that were cut or changed and could not be read back."),
    OwnMetric(name="trimtab_agent_events_dropped_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Events dropped because too many waited for a report that could be kept."),
    OwnMetric(name="trimtab_agent_set_aside_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Reports that the daemon refused for good; kept on disk, not sent again."),
    OwnMetric(name="trimtab_agent_acknowledged_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Reports that the daemon has acknowledged."),
    OwnMetric(name="trimtab_agent_acknowledged_timestamp_seconds", labels=_NODE, agent=True,
              help="When the daemon last acknowledged a report."),
    OwnMetric(name="trimtab_agent_send_failures_total", labels=_NODE, kind=_COUNTER, agent=True,
              help="Times that a report could not be delivered and stayed in the spool."),
    # --- the cluster as the board shows it
    OwnMetric(name="trimtab_cluster_gpus", labels=(*_CLUSTER, "state"), daemon=True,
              help="GPUs by state: working, held_idle, free, spare, out_of_service, unknown. They add up to all."),
    OwnMetric(name="trimtab_cluster_gpus_reporting", labels=_CLUSTER, daemon=True, help="GPUs with a fresh reading."),
    OwnMetric(name="trimtab_cluster_gpus_stranded", labels=(*_CLUSTER, "k"), daemon=True,
              help="Free GPUs that cannot serve a pod of k GPUs."),
    OwnMetric(name="trimtab_cluster_goodput_ratio", labels=_CLUSTER, daemon=True,
              help="Working GPUs less those that findings say are lost, over all GPUs that are held."),
    OwnMetric(name="trimtab_cluster_loss_gpus", labels=_CLUSTER, daemon=True,
              help="GPUs' worth of work lost to open findings: GPU-hours per hour."),
    OwnMetric(name="trimtab_workloads", labels=(*_CLUSTER, "state"), daemon=True, help="Workloads by state."),
    OwnMetric(name="trimtab_workload_wait_seconds_max", labels=_CLUSTER, daemon=True,
              help="How long the longest-waiting workload has waited; absent when none waits."),
    OwnMetric(name="trimtab_findings", labels=(*_CLUSTER, "rule", "severity"), daemon=True,
              help="Open findings by rule and severity."),
    OwnMetric(name="trimtab_finding_info", daemon=True,
              labels=(*_CLUSTER, "finding", "rule", "severity", "action", "incident", "node", "gpu", "workload"),
              help="Always 1 for each open finding; what alerts fire on."),
    OwnMetric(name="trimtab_commands", labels=(*_CLUSTER, "rule", "state"), daemon=True,
              help="Live commands, and those over in the last hour, by rule and state."),
    OwnMetric(name="trimtab_mode", labels=(*_CLUSTER, "mode"), daemon=True, help="1 for the mode that is set."),
    OwnMetric(name="trimtab_paused", labels=_CLUSTER, daemon=True, help="1 while new commands are stopped."),
    OwnMetric(name="trimtab_blind_spots", labels=_CLUSTER, daemon=True,
              help="Things that are not seen: silent racks or nodes, a scheduler that cannot be read."),
    OwnMetric(name="trimtab_board_age_seconds", labels=_CLUSTER, daemon=True,
              help="Age of what people see; grows when the daemon no longer judges."),
    # --- the daemon itself
    OwnMetric(name="trimtab_daemon_start_timestamp_seconds", daemon=True, help="When the daemon started."),
    OwnMetric(name="trimtab_beats_total", labels=("beat",), kind=_COUNTER, daemon=True, help="Beats run."),
    OwnMetric(name="trimtab_beat_failures_total", labels=("beat",), kind=_COUNTER, daemon=True,
              help="Beats that ended with an error; the others went on."),
    OwnMetric(name="trimtab_beats_dropped_total", labels=("beat",), kind=_COUNTER, daemon=True,
              help="Beats left out because the one before took too long."),
    OwnMetric(name="trimtab_beat_duration_seconds", labels=("beat",), daemon=True, help="How long the last beat took."),
    OwnMetric(name="trimtab_beat_interval_seconds", labels=("beat",), daemon=True, help="How often a beat is due."),
    OwnMetric(name="trimtab_beat_age_seconds", labels=("beat",), daemon=True, help="Time since a beat last ended."),
    OwnMetric(name="trimtab_inbox_reports", daemon=True, help="Reports received and not yet committed."),
    OwnMetric(name="trimtab_inbox_reports_max", daemon=True, help="Past this many, agents are told to keep theirs."),
    OwnMetric(name="trimtab_inbox_total", labels=("outcome",), kind=_COUNTER, daemon=True,
              help="Reports by what the inbox did: accepted, committed, failed, withdrawn, turned_away."),
    OwnMetric(name="trimtab_ingest_body_bytes_total", kind=_COUNTER, daemon=True,
              help="Bodies of agents as they came, compressed."),
    OwnMetric(name="trimtab_reports_received_total", kind=_COUNTER, daemon=True, help="Reports of agents received."),
    OwnMetric(name="trimtab_reports_replayed_total", kind=_COUNTER, daemon=True,
              help="Reports received too late to page anybody: an agent's backlog."),
    OwnMetric(name="trimtab_reports_stored_total", kind=_COUNTER, daemon=True, help="Reports in the journal."),
    OwnMetric(name="trimtab_reports_duplicate_total", kind=_COUNTER, daemon=True,
              help="Reports seen before: acknowledged, not stored again."),
    OwnMetric(name="trimtab_reports_refused_total", labels=("status",), kind=_COUNTER, daemon=True,
              help="Requests of agents that were refused, by HTTP status."),
    OwnMetric(name="trimtab_bad_samples_total", kind=_COUNTER, daemon=True,
              help="Values from the wire left out as NaN or infinite."),
    OwnMetric(name="trimtab_ring_gpus", daemon=True, help="GPUs in the in-memory ring."),
    OwnMetric(name="trimtab_ring_bytes", daemon=True, help="Memory of the ring's arrays."),
    OwnMetric(name="trimtab_ring_gpus_dropped_total", kind=_COUNTER, daemon=True,
              help="GPUs that found no room in the ring: they are stored and not judged."),
    OwnMetric(name="trimtab_ring_events_dropped_total", kind=_COUNTER, daemon=True,
              help="Events that left the ring before their time because too many came."),
    OwnMetric(name="trimtab_detector_seconds", labels=("detector",), daemon=True,
              help="How long a detector took at the last beat."),
    OwnMetric(name="trimtab_detector_errors_total", labels=("detector",), kind=_COUNTER, daemon=True,
              help="Times that a detector failed; the others went on."),
    OwnMetric(name="trimtab_snapshot_age_seconds", daemon=True, help="Age of the last whole snapshot of the cluster."),
    OwnMetric(name="trimtab_scheduler_failures_total", kind=_COUNTER, daemon=True,
              help="Times that the scheduler could not be read or refused a write."),
    OwnMetric(name="trimtab_scrape_failures_total", labels=("node",), kind=_COUNTER, daemon=True,
              help="Exporter pages that could not be read."),
    OwnMetric(name="trimtab_board_readers", daemon=True, help="Pages that are open on the events stream."),
)
# fmt: on

OWN_BY_NAME: Mapping[str, OwnMetric] = {metric.name: metric for metric in OWN}
