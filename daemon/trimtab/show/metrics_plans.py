"""Families about room and what is done with it: queues, capacity by pod size, commands with gain and cost, budgets."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from trimtab.model.advice import FindingState
from trimtab.model.board import Board, Cell, CellState, CommandRow, JobRow, NodeRow
from trimtab.model.command import Budget
from trimtab.show.metrics_facts import DaemonView
from trimtab.show.metrics_families import Families, timestamp

POD_SIZES = (1, 2, 4, 8)
"""Pods of so many GPUs are what clusters are asked for."""
ROWS_MAX = 1000
"""More findings or commands than this are not told one by one."""
NO_QUEUE = "none"
"""What jobs without a queue are counted under: an empty label is no label."""

_SECONDS_PER_HOUR = 3600.0
_FREE = (CellState.FREE, CellState.STRANDED)


def fill_plans(families: Families, view: DaemonView, board: Board) -> None:
    """All of them, as the board and the last budget say."""
    _fill_room(families, board)
    _fill_load(families, board)
    _fill_queues(families, view, board)
    for item in [one for one in board.findings if one.state is FindingState.OPEN][:ROWS_MAX]:
        labels = (board.cluster, item.name, item.finding.rule)
        families.add("trimtab_finding_opened_timestamp_seconds", timestamp(item.opened_at), *labels)
        families.add("trimtab_finding_gpus_hit", item.finding.gpus_hit, *labels)
        families.add("trimtab_finding_loss_gpus", item.finding.loss_gpus, *labels)
    for row in board.commands[:ROWS_MAX]:
        _fill_command(families, board.cluster, row)
    families.add_counts("trimtab_refusals", Counter(refusal.rule for refusal in board.refusals), board.cluster)
    if view.facts.budget is not None:
        _fill_budget(families, board.cluster, view.facts.budget)


def _fill_room(families: Families, board: Board) -> None:
    """Free GPUs by node, and how many pods of each size they hold: both silent where the fleet is not seen."""
    free = {row.name: _free(row) for row in board.nodes if not row.is_silent}
    for row in board.nodes:
        families.add("trimtab_node_info", 1.0, board.cluster, row.name, row.rack or "", row.model or "")
        families.add("trimtab_node_gpus_free", free.get(row.name), board.cluster, row.name)
    if not free:
        return
    for size in POD_SIZES:
        pods = sum(gpus // size for gpus in free.values())
        families.add("trimtab_cluster_pods_placeable", pods, board.cluster, str(size))


def _fill_load(families: Families, board: Board) -> None:
    """What clusters and racks draw and do, so that a view of a large fleet need not ask for every GPU."""
    by_rack: defaultdict[str, list[Cell]] = defaultdict(list)
    for row in board.nodes:
        by_rack[row.rack or ""].extend(row.cells)
    cells = [cell for some in by_rack.values() for cell in some]
    families.add("trimtab_cluster_power_watts", _sum(cell.power_watts for cell in cells), board.cluster)
    families.add("trimtab_cluster_activity_ratio", _mean(cell.activity_ratio for cell in cells), board.cluster)
    families.add("trimtab_cluster_memory_used_ratio", _mean(cell.memory_used_ratio for cell in cells), board.cluster)
    for rack, some in sorted(by_rack.items()):
        if rack:
            hottest = max(
                (cell.temperature_celsius for cell in some if cell.temperature_celsius is not None), default=None
            )
            families.add("trimtab_rack_power_watts", _sum(cell.power_watts for cell in some), board.cluster, rack)
            families.add(
                "trimtab_rack_activity_ratio", _mean(cell.activity_ratio for cell in some), board.cluster, rack
            )
            families.add("trimtab_rack_temperature_celsius_max", hottest, board.cluster, rack)


def _sum(values: Iterable[float | None]) -> float | None:
    """Over what is known; None where nothing is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def _free(row: NodeRow) -> int:
    return 0 if row.is_cordoned or not row.is_ready else sum(cell.state in _FREE for cell in row.cells)


def _fill_queues(families: Families, view: DaemonView, board: Board) -> None:
    for queue in board.queues:
        families.add("trimtab_queue_gpus", queue.gpus_used, board.cluster, queue.name, "held")
        families.add("trimtab_queue_gpus", queue.gpus_asked, board.cluster, queue.name, "asked_for")
        families.add("trimtab_queue_gpus_quota", queue.gpus_quota, board.cluster, queue.name)
    by_queue: defaultdict[str, list[JobRow]] = defaultdict(list)
    for job in board.jobs:
        by_queue[job.queue or NO_QUEUE].append(job)
    idle = _held_idle(board)
    for name, jobs in sorted(by_queue.items()):
        families.add_counts("trimtab_queue_workloads", Counter(job.state for job in jobs), board.cluster, name)
        families.add("trimtab_queue_gpus_held_idle", idle[name], board.cluster, name)
        waits = [(view.now - job.waiting_since).total_seconds() for job in jobs if job.waiting_since]
        families.add("trimtab_queue_wait_seconds_max", max(waits, default=None), board.cluster, name)


def _held_idle(board: Board) -> Counter[str]:
    queues = {job.id: job.queue or NO_QUEUE for job in board.jobs}
    return Counter(
        queues.get(cell.workload or "", NO_QUEUE)
        for row in board.nodes
        for cell in row.cells
        if cell.state is CellState.HELD_IDLE
    )


def _fill_command(families: Families, cluster: str, row: CommandRow) -> None:
    command, advice = row.command, row.command.recommendation
    subject = advice.subject
    texts = (advice.rule, advice.kind.value, command.state.value, subject.node or "", subject.workload or "")
    families.add("trimtab_command_info", 1.0, cluster, row.name, *texts)
    labels = (cluster, row.name, advice.rule)
    families.add("trimtab_command_gain_gpu_seconds", advice.gain.gpu_hours * _SECONDS_PER_HOUR, *labels)
    families.add("trimtab_command_cost_gpu_seconds", advice.cost.gpu_hours * _SECONDS_PER_HOUR, *labels)
    if row.outcome is not None:
        saved, lost = row.outcome.gpu_hours_saved, row.outcome.gpu_hours_lost
        families.add("trimtab_command_saved_gpu_seconds", saved * _SECONDS_PER_HOUR, *labels)
        families.add("trimtab_command_lost_gpu_seconds", lost * _SECONDS_PER_HOUR, *labels)


def _fill_budget(families: Families, cluster: str, budget: Budget) -> None:
    for name, left in (
        ("moves", budget.moves_left),
        ("moves_this_hour", budget.moves_left_this_hour),
        ("gpus_moved", budget.gpus_movable),
        ("nodes_cordoned", budget.nodes_cordonable),
        ("cordons_this_hour", budget.cordons_left_this_hour),
    ):
        families.add("trimtab_budget_left", left, cluster, name)
    for queue, left in sorted(budget.moves_left_by_queue.items()):
        families.add("trimtab_queue_moves_left", left, cluster, queue)
    for pool, left in sorted(budget.nodes_cordonable_by_pool.items()):
        families.add("trimtab_pool_nodes_cordonable", left, cluster, pool)
