"""Every fault, and which of them are short enough for each run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.limits import disk_faults, net_faults, process_faults
from tests.limits.scene import Row

SHORT: tuple[Callable[[Path], Row], ...] = (
    disk_faults.daemon_disk_full,
    disk_faults.spool_disk_full,
    process_faults.daemon_without_files,
    process_faults.slow_clients,
)
LONG: tuple[Callable[[Path], Row], ...] = (
    net_faults.oversized_backlog,
    disk_faults.daemon_disk_read_only,
    disk_faults.spool_disk_full_while_the_daemon_is_away,
    disk_faults.spool_disk_read_only,
    disk_faults.log_disk_full,
    process_faults.agent_without_files,
    process_faults.daemon_stopped,
    process_faults.agent_stopped,
    process_faults.clock_of_daemon_jumps,
    process_faults.clock_of_agent_jumps,
    net_faults.dns_gone,
    net_faults.postgresql_full,
    net_faults.postgresql_gone,
    net_faults.agents_come_together,
)
FAULTS = (*SHORT, *LONG)


def text_of(row: Row) -> str:
    """One row for people, a line a question."""
    return "\n".join((
        f"## {row.fault}",
        f"  done          {row.done}",
        f"  reports       {row.acknowledged} acknowledged, {row.lost} lost, {row.doubled} doubled",
        f"  log           {row.log}",
        f"  status        {row.status}",
        f"  metric        {row.metric}",
        f"  alert         {row.alert}",
        f"  by itself in  {row.recovered}",
    ))  # fmt: skip
