"""Families about what the daemon may use and uses: disk, database, connections."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from trimtab.show.metrics_families import Families


@dataclass(frozen=True, slots=True, kw_only=True)
class DiskFacts:
    """The database's room. None = not bounded, or not ours to know."""

    held_bytes: int | None = None
    held_bytes_max: int | None = None
    free_bytes: int | None = None
    free_bytes_min: int | None = None
    rows_gone_total: Mapping[str, int] = field(default_factory=dict)
    is_short: bool = False
    """Whether nothing more may go and it is still not enough."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrowdFacts:
    """The open connections of one listener; those that we closed are by why."""

    listener: str
    connections: int
    connections_max: int
    closed_total: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitsFacts:
    """All of it."""

    disk: DiskFacts | None = None
    crowds: tuple[CrowdFacts, ...] = ()


def fill_limits(families: Families, facts: LimitsFacts) -> None:
    """All families of it."""
    if facts.disk is not None:
        disk = facts.disk
        families.add("trimtab_database_bytes", disk.held_bytes)
        families.add("trimtab_database_bytes_max", disk.held_bytes_max)
        families.add("trimtab_disk_free_bytes", disk.free_bytes)
        families.add("trimtab_disk_free_bytes_min", disk.free_bytes_min)
        families.add("trimtab_quota_short", float(disk.is_short))
        families.add_counts("trimtab_quota_rows_total", disk.rows_gone_total)
    for crowd in facts.crowds:
        families.add("trimtab_connections", crowd.connections, crowd.listener)
        families.add("trimtab_connections_max", crowd.connections_max, crowd.listener)
        families.add_counts("trimtab_connections_closed_total", crowd.closed_total, crowd.listener)
