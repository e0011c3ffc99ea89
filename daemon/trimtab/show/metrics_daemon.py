"""The daemon's own families: the fleet's latest readings, the board as numbers, and the daemon itself."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from trimtab.model.advice import FindingState, OpenFinding
from trimtab.model.board import Board, CellState, Strip
from trimtab.model.command import Mode
from trimtab.model.window import GpuNow, Window
from trimtab.show.metrics_alerting import fill_alerting
from trimtab.show.metrics_certificates import fill_certificates
from trimtab.show.metrics_facts import ClusterFacts, DaemonFacts, DaemonView
from trimtab.show.metrics_families import Families, instance_labels, timestamp
from trimtab.show.metrics_limits import fill_limits
from trimtab.show.metrics_oncall import fill_oncall
from trimtab.show.metrics_pair import fill_pair
from trimtab.show.metrics_plans import fill_plans
from trimtab.show.metrics_rollup import fill_rollup
from trimtab.show.metrics_settings import fill_settings

YOUNG_SECONDS = 120.0
"""A daemon has heard of every node that lives by then: twelve reports at the default interval."""
FINDINGS_MAX = 1000
"""More open findings than this are not listed one by one; their number is exported all the same."""

_Held = Mapping[tuple[str, str], str]


def fill_daemon(families: Families, view: DaemonView, *, gpu_series_max: int | None) -> None:
    """Everything on the daemon's page; no GPU's own values where `gpu_series_max` is None."""
    families.add("trimtab_build_info", 1.0, view.facts.version)
    _fill_facts(families, view.facts)
    if view.board is None:
        return
    _fill_strip(families, view.board.cluster, view.board.strip)
    _fill_board(families, view, view.board)
    _fill_findings(families, view.board, view.facts.oncall.pagers if view.facts.oncall is not None else {})
    _fill_racks(families, view.board, is_young=_is_young(view))
    fill_plans(families, view, view.board)
    if view.facts.page_url:
        families.add("trimtab_page_info", 1.0, view.board.cluster, view.facts.page_url)
    if view.window is not None:
        _fill_nodes(families, view, view.board, view.window)
        if gpu_series_max is not None:
            _fill_gpus(families, view, view.board, view.window, gpu_series_max=gpu_series_max)


def _fill_facts(families: Families, facts: DaemonFacts) -> None:
    families.add("trimtab_daemon_start_timestamp_seconds", timestamp(facts.started_at))
    fill_certificates(families, "daemon", facts.certificates)
    for beat in facts.beats:
        families.add("trimtab_beats_total", beat.beats_total, beat.name)
        families.add("trimtab_beat_failures_total", beat.failures_total, beat.name)
        families.add("trimtab_beats_dropped_total", beat.dropped_total, beat.name)
        families.add("trimtab_beat_duration_seconds", beat.last_duration_seconds, beat.name)
        families.add("trimtab_beat_interval_seconds", beat.interval_seconds, beat.name)
        families.add("trimtab_beat_age_seconds", beat.age_seconds, beat.name)
    for name, value in (
        ("inbox_reports", facts.inbox_reports),
        ("inbox_reports_max", facts.inbox_reports_max),
        ("ingest_body_bytes_total", facts.body_bytes_total),
        ("reports_replayed_total", facts.reports_replayed_total),
        ("reports_received_total", facts.reports_received_total),
        ("reports_stored_total", facts.reports_stored_total),
        ("reports_duplicate_total", facts.reports_duplicate_total),
        ("bad_samples_total", facts.bad_samples_total),
        ("ring_gpus", facts.ring_gpus),
        ("ring_bytes", facts.ring_bytes),
        ("ring_gpus_dropped_total", facts.ring_gpus_dropped_total),
        ("ring_events_dropped_total", facts.ring_events_dropped_total),
        ("snapshot_age_seconds", facts.snapshot_age_seconds),
        ("scheduler_failures_total", facts.scheduler_failures_total),
        ("board_readers", facts.board_readers),
    ):
        families.add(f"trimtab_{name}", value)
    families.add_counts("trimtab_inbox_total", facts.inbox_total)
    families.add_counts("trimtab_reports_refused_total", facts.reports_refused_total)
    families.add_counts("trimtab_detector_seconds", facts.detector_seconds)
    families.add_counts("trimtab_detector_errors_total", facts.detector_errors_total)
    families.add_counts("trimtab_scrape_failures_total", facts.scrape_failures_total)
    families.add_counts("trimtab_door_answers_total", facts.door_answers_total)
    families.add_counts("trimtab_enrolment_answers_total", facts.enrolment_answers_total)
    for (rule, state), count in sorted(facts.command_changes_total.items()):
        families.add("trimtab_command_changes_total", count, rule, state)
    _fill_parts(families, facts)


def _fill_parts(families: Families, facts: DaemonFacts) -> None:
    """What not every daemon has."""
    if facts.oncall is not None:
        fill_oncall(families, facts.oncall)
    if facts.rollup is not None:
        fill_rollup(families, facts.rollup)
    if facts.limits is not None:
        fill_limits(families, facts.limits)
    if facts.cluster is not None:
        _fill_link(families, facts.cluster)
    if facts.alerting is not None:
        fill_alerting(families, facts.alerting)
    if facts.pair is not None:
        fill_pair(families, facts.pair)
    if facts.settings is not None:
        fill_settings(families, facts.settings)


def _fill_link(families: Families, facts: ClusterFacts) -> None:
    """What was done with the cluster's API."""
    for (what, result), count in sorted(facts.writes_total.items()):
        families.add("trimtab_scheduler_writes_total", count, what, result)
    families.add_counts("trimtab_scheduler_events_total", facts.events_total)
    families.add_counts("trimtab_token_reviews_total", facts.token_reviews_total)
    for kind, reads in sorted(facts.reads.items()):
        families.add("trimtab_reader_attempts_total", reads.attempts_total, kind)
        families.add("trimtab_reader_lists_total", reads.lists_total, kind)
        families.add("trimtab_reader_watches_total", reads.watches_total, kind)
        families.add("trimtab_reader_changes_total", reads.changes_total, kind)
        families.add("trimtab_reader_missed_changes_total", reads.missed_changes_total, kind)
        families.add_counts("trimtab_reader_errors_total", reads.errors_total, kind)
    if facts.is_lease_held is not None:
        families.add("trimtab_lease_held", float(facts.is_lease_held))
    families.add("trimtab_lease_epoch", facts.lease_epoch)


def _fill_strip(families: Families, cluster: str, strip: Strip) -> None:
    for state, gpus in (
        ("working", strip.gpus_working),
        ("held_idle", strip.gpus_held_idle),
        ("free", strip.gpus_free),
        ("spare", strip.gpus_spare),
        ("out_of_service", strip.gpus_out_of_service),
        ("unknown", strip.gpus_unknown),
    ):
        families.add("trimtab_cluster_gpus", gpus, cluster, state)
    families.add("trimtab_cluster_gpus_reporting", strip.gpus_reporting, cluster)
    families.add("trimtab_cluster_goodput_ratio", strip.goodput_ratio, cluster)
    for size, gpus in sorted(strip.stranded.items()):
        families.add("trimtab_cluster_gpus_stranded", gpus, cluster, str(size))


def _fill_board(families: Families, view: DaemonView, board: Board) -> None:
    cluster = board.cluster
    for mode in Mode:
        families.add("trimtab_mode", float(mode is board.mode), cluster, mode.value)
    families.add("trimtab_paused", float(board.is_paused), cluster)
    families.add("trimtab_blind_spots", len(board.blind), cluster)
    families.add("trimtab_board_age_seconds", max((view.now - board.at).total_seconds(), 0.0), cluster)
    families.add_counts("trimtab_workloads", Counter(job.state for job in board.jobs), cluster)
    waits = [(view.now - job.waiting_since).total_seconds() for job in board.jobs if job.waiting_since]
    families.add("trimtab_workload_wait_seconds_max", max(waits, default=None), cluster)
    commands = Counter((row.command.recommendation.rule, row.command.state.value) for row in board.commands)
    for (rule, state), count in sorted(commands.items()):
        families.add("trimtab_commands", count, cluster, rule, state)
    _fill_circumstances(families, board)


def _fill_circumstances(families: Families, board: Board) -> None:
    """What stands beside the plan, and how true each rule's forecasts were."""
    cluster = board.cluster
    for record in board.records:
        families.add("trimtab_rule_outcomes", record.right, cluster, record.rule, "right")
        families.add("trimtab_rule_outcomes", record.measured - record.right, cluster, record.rule, "wrong")
        families.add("trimtab_rule_duration_ratio", record.duration_ratio, cluster, record.rule)
        families.add("trimtab_rule_gain_ratio", record.gain_ratio, cluster, record.rule)
    for one in board.breakers:
        families.add("trimtab_breaker_open", 1.0, cluster, one.name)
    families.add("trimtab_vetoes", len(board.vetoes), cluster)
    families.add("trimtab_foreign_marks", len(board.foreign), cluster)
    if board.release is not None:
        families.add("trimtab_release_left", len(board.release.left), cluster)


def _fill_findings(families: Families, board: Board, pagers: Mapping[int, str]) -> None:
    found = [item for item in board.findings if item.state is FindingState.OPEN]
    counts = Counter((item.finding.rule, item.finding.severity.value) for item in found)
    for (rule, severity), count in sorted(counts.items()):
        families.add("trimtab_findings", count, board.cluster, rule, severity)
    families.add("trimtab_cluster_loss_gpus", sum(item.finding.loss_gpus for item in found), board.cluster)
    # What is over already pages nobody, and must not keep the rules on the GPUs' own values from it either.
    listed = [item for item in found if not item.finding.is_history_only]
    for item in listed[:FINDINGS_MAX]:  # the board has the worst first
        _fill_finding(families, board.cluster, item, pagers.get(item.id, ""))
    families.add("trimtab_findings_unlisted", max(len(listed) - FINDINGS_MAX, 0), board.cluster)


def _fill_finding(families: Families, cluster: str, item: OpenFinding, pager: str) -> None:
    finding, subject = item.finding, item.finding.subject
    texts = (finding.rule, finding.severity, finding.action, finding.incident)
    names = (subject.node or "", subject.gpu or "", subject.workload or "")
    families.add("trimtab_finding_info", 1.0, cluster, item.name, *texts, *names, pager)


def _is_young(view: DaemonView) -> bool:
    started_at = view.facts.started_at
    return started_at is not None and (view.now - started_at).total_seconds() < YOUNG_SECONDS


def _fill_racks(families: Families, board: Board, *, is_young: bool) -> None:
    nodes = Counter(row.rack for row in board.nodes if row.rack)
    reporting = Counter(row.rack for row in board.nodes if row.rack and not row.is_silent)
    for rack, count in sorted(nodes.items()):
        families.add("trimtab_rack_nodes", count, board.cluster, rack)
        if is_young and not reporting[rack]:
            continue  # a daemon that has just begun has not heard of it yet: that is no rack that fell silent
        families.add("trimtab_rack_nodes_reporting", reporting[rack], board.cluster, rack)


def _fill_nodes(families: Families, view: DaemonView, board: Board, window: Window) -> None:
    gpus = Counter(key.node for key in window.gpus)
    for row in board.nodes:
        place = (board.cluster, row.name)
        families.add("trimtab_node_reporting", float(not row.is_silent), *place)
        families.add("trimtab_node_cordoned", float(row.is_cordoned), *place)
        now = window.nodes.get(row.name)
        if now is None:
            continue
        families.add("trimtab_node_report_age_seconds", max((view.now - now.received_at).total_seconds(), 0.0), *place)
        families.add("trimtab_node_clock_skew_seconds", now.clock_skew_seconds, *place)
        families.add("trimtab_node_gpus", gpus[row.name], *place)
        families.add("trimtab_node_gpus_expected", now.gpus_expected, *place)
        families.add("trimtab_node_read_errors", len(now.errors), *place)


def _fill_gpus(families: Families, view: DaemonView, board: Board, window: Window, *, gpu_series_max: int) -> None:
    silent = {row.name for row in board.nodes if row.is_silent}
    held = {
        (row.name, cell.uuid): cell.workload
        for row in board.nodes
        for cell in row.cells
        if cell.workload and cell.state is not CellState.STRANDED
    }
    queues = {job.id: job.queue or "" for job in board.jobs}
    by_node: dict[str, list[GpuNow]] = defaultdict(list)
    for key, now in window.gpus.items():
        by_node[key.node].append(now)
    series_left = gpu_series_max
    for node in sorted(by_node):
        size = sum(_size(now) for now in by_node[node])
        if size > series_left:
            families.dropped[board.cluster, node] += size
            continue
        series_left -= size
        for now in by_node[node]:
            _fill_gpu(families, view, now, is_silent=node in silent)
            _fill_job(families, now, held, queues)


def _size(now: GpuNow) -> int:
    return len(now.reading.values) + sum(len(instance.values) for instance in now.reading.instances)


def _fill_gpu(families: Families, view: DaemonView, now: GpuNow, *, is_silent: bool) -> None:
    cluster, node = now.key.cluster, now.key.node
    families.add_info(now.reading, cluster=cluster, node=node)
    age_seconds = max((view.now - now.received_at).total_seconds(), 0.0)
    families.add("trimtab_gpu_sample_age_seconds", age_seconds, cluster, node, now.key.uuid)
    if not is_silent:
        families.add_gpu(now.reading, cluster=cluster, node=node)


def _fill_job(families: Families, now: GpuNow, held: _Held, queues: Mapping[str, str]) -> None:
    where = {"cluster": now.key.cluster, "node": now.key.node, "gpu": now.key.uuid}
    workload = held.get((now.key.node, now.key.uuid))
    if workload:
        families.add_job(where, job=workload, queue=queues.get(workload, ""))
    for instance in now.reading.instances:
        if instance.holder:
            families.add_job({**where, **instance_labels(instance)}, job=instance.holder, queue="")
