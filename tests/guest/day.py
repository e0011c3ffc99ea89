"""A day of one node, written by the installed daemon's own code: `python day.py URL_DIRECTORY`; run inside a guest.

1,440 reports of 8 GPUs, their roll-ups, findings that opened and closed, and an audit line.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from trimtab.model.command import AuditLine
from trimtab.model.reading import Delivery, GpuInfo, GpuReading, Report
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import open_database
from trimtab.store.history import History
from trimtab.store.journal import Journal
from trimtab.store.rollup import Rollup

CLUSTER, NODE, MINUTES, BATCH = "hall-a", "gpu-07", 24 * 60, 10


class Moved:
    """A clock that stands where it is put."""

    def __init__(self, at: datetime) -> None:
        self.at = at

    def now(self) -> datetime:
        return self.at

    def monotonic_seconds(self) -> float:
        return time.monotonic()

    def wall_seconds(self, seconds: float) -> float:
        return seconds


def main(directory: Path) -> None:
    """Write it, minute by minute, to end at the present one."""
    began = datetime.now(UTC).replace(second=0, microsecond=0) - timedelta(minutes=MINUTES)
    clock = Moved(began)
    database = open_database("sqlite:///trimtab.db", state_directory=directory)
    history, journal = History(database, cluster=CLUSTER), Journal(database)
    rollup = Rollup(database, cluster=CLUSTER, clock=clock, settings=RollupSettings(), hold_seconds=90.0)
    for first in range(0, MINUTES, BATCH):
        reports = [report(minute, began + timedelta(minutes=minute)) for minute in range(first, first + BATCH)]
        clock.at = reports[-1].received_at
        rollup.add(journal.append(reports).new)
        rollup.roll()
    clock.at += timedelta(minutes=2)
    rollup.roll()
    history.audit([AuditLine(at=clock.at, who="operator:anna", what="looked after the day")])
    database.close()


def report(minute: int, at: datetime) -> Delivery:
    """One report of eight GPUs at work."""
    values = {"sm_active_ratio": 0.5 + 0.3 * (minute % 2), "power_watts": 400.0 + minute % 60}
    gpus = tuple(
        GpuReading(info=GpuInfo(uuid=f"GPU-day-{index}", index=index, model="NVIDIA H100"), values=values)
        for index in range(8)
    )
    made = Report(
        cluster=CLUSTER, node=NODE, boot_id="day", spool_id="day", sequence=minute + 1, sampled_at=at, gpus=gpus
    )  # fmt: skip
    return Delivery(report=made, received_at=at)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
