"""The past of one cluster, in one value for the API: boards of then, trends, ranks, charts, GPU-time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from trimtab.model.board import GpuHistory
from trimtab.model.past import GpuTimes, Kept, PastFleet, Ranks, Trends
from trimtab.store.database import Database
from trimtab.store.history import History
from trimtab.store.ledger_hours import LedgerHours
from trimtab.store.past_fleet import fleet_at
from trimtab.store.past_ranks import ranks
from trimtab.store.past_series import SeriesReader
from trimtab.store.past_trends import trends
from trimtab.store.rollup_read import RollupReader
from trimtab.store.text import clean


class Past:
    """Everything that roll-ups tell. Safe to call from several threads; methods raise StoreError."""

    def __init__(self, database: Database, history: History) -> None:
        """Use an open database and the history of its cluster."""
        self._reader = RollupReader(database, cluster=history.cluster)
        self._series = SeriesReader(self._reader, history)
        self._hours = LedgerHours(self._reader)

    def kept(self) -> Kept:
        """From when to when there is something."""
        return self._reader.kept()

    def fleet_at(self, at: datetime) -> PastFleet | None:
        """The cluster as it was at a moment; None where nothing of it was kept."""
        return fleet_at(self._reader, at)

    def trends(
        self, since: datetime, until: datetime, *, points_max: int, marks_max: int, queue: str | None = None
    ) -> Trends:
        """The strip's numbers over time, with marks."""
        return trends(self._reader, since, until, points_max=points_max, marks_max=marks_max, queue=clean(queue))

    def ranks(self, job: str, metric: str, *, since: datetime, until: datetime, points_max: int) -> Ranks | None:
        """A job's ranks over time; None for a job that is not known."""
        return ranks(self._reader, clean(job), metric, since=since, until=until, points_max=points_max)

    def gpu_history(
        self,
        node: str,
        gpu: str,
        *,
        since: datetime,
        until: datetime,
        metrics: Sequence[str],
        also: Sequence[tuple[str, str]] = (),
        peers: str = "none",
    ) -> GpuHistory:
        """One GPU's series and those beside it, from the reports or from the roll-ups, whichever fits."""
        places = [(clean(one), clean(uuid)) for one, uuid in ((node, gpu), *also)]
        return self._series.gpu_history(
            *places[0], since=since, until=until, metrics=metrics, also=places[1:], peers=peers
        )

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        """GPU-time by workload, queue, owner, cause and state between two moments, to the minute where it can be."""
        return self._hours.gpu_times(since, until)
