"""GPUs' metrics over time for charts: the reports themselves where the stretch is short, else the tier that fits."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from statistics import median

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.board import GpuHistory, PeerBand, PeerSeries
from trimtab.model.rollup import BY_SAMPLE_KEY, MINUTE, RolledMetric, Tier
from trimtab.store.history import History
from trimtab.store.rollup_read import GpuName, RollupReader, steps
from trimtab.store.series import POINTS_MAX, downsample
from trimtab.store.tables import journal

RAW_SPAN = timedelta(hours=6)
"""Up to here the reports themselves are read: half a second of CPU and less."""
PEERS_MAX = 512

Point = tuple[float, float | None]
Place = tuple[str, str]
"""Node and UUID."""


class SeriesReader:
    """Reads charts of one cluster. Any thread; methods raise StoreError."""

    def __init__(self, reader: RollupReader, history: History) -> None:
        """Use open roll-ups and the history beside them."""
        self._reader = reader
        self._history = history

    def gpu_history(
        self,
        node: str,
        gpu: str,
        *,
        since: datetime,
        until: datetime,
        metrics: Sequence[str],
        also: Sequence[Place] = (),
        peers: str = "none",
    ) -> GpuHistory:
        """One GPU's series, those of others beside it, and a band of its peers."""
        is_raw = until - since <= RAW_SPAN and self._journal_reaches(node, since)
        asked = tuple(metrics)
        own, bucket = self._series((node, gpu), asked, since, until, is_raw=is_raw)
        history = GpuHistory(
            cluster=self._history.cluster,
            node=node,
            gpu=gpu,
            series=own,
            findings=self._history.findings_of_gpu(node, gpu, since, until),
            bucket_seconds=bucket,
        )
        others = tuple(
            PeerSeries(node=place[0], gpu=place[1], series=self._series(place, asked, since, until, is_raw=is_raw)[0])
            for place in also
        )
        bands = self._bands((node, gpu), asked, since, until, peers=peers) if peers != "none" else {}
        return replace(history, others=others, bands=bands)

    def _journal_reaches(self, node: str, since: datetime) -> bool:
        """Whether the reports of the stretch are still there: some are as old, or nothing older was ever kept."""
        own = (journal.c.cluster == self._history.cluster, journal.c.node == node)
        with self._reader.database.read() as connection:
            oldest = connection.execute(sa.select(sa.func.min(journal.c.at_ms)).where(*own)).scalar_one_or_none()
            kept = self._reader.bounds(connection, MINUTE)
        if kept is None:
            return True
        return oldest is not None and (oldest <= unix_ms(since) or oldest <= kept[0] + MINUTE.ms)

    def _series(
        self, place: Place, metrics: Sequence[str], since: datetime, until: datetime, *, is_raw: bool
    ) -> tuple[Mapping[str, tuple[Point, ...]], float | None]:
        """Points by metric, and how long each stands for; None = they are of the reports."""
        rolled = {} if is_raw else {name: BY_SAMPLE_KEY[name] for name in metrics if name in BY_SAMPLE_KEY}
        series: dict[str, tuple[Point, ...]] = {}
        rest = [name for name in metrics if name not in rolled]
        if rest:
            wanted = [_raw_key(name) for name in rest]
            raw = self._history.gpu_history(
                self._history.cluster, *place, since=since, until=until, metrics=wanted
            ).series
            series.update({name: raw[key] for name, key in zip(rest, wanted, strict=True)})
        if not rolled:
            return series, None
        with self._reader.database.read() as connection:
            span = (unix_ms(since), unix_ms(until))
            tier = self._reader.tier_for(connection, *span, points_max=POINTS_MAX)
            found = [one for one in self._reader.names(connection).values() if (one.node, one.gpu) == place]
            points = self._means(connection, tier, found, tuple(rolled.values()), span)
        for name, metric in rolled.items():
            own = points.get(metric.name, {}).get(found[0].id, []) if found else []
            series[name] = downsample([(at_ms / 1000, value) for at_ms, value in own])
        return {name: series[name] for name in metrics}, float(tier.seconds)

    def _means(
        self,
        connection: Connection,
        tier: Tier,
        gpus: Sequence[GpuName],
        metrics: Sequence[RolledMetric],
        span: tuple[int, int],
    ) -> Mapping[str, Mapping[int, list[tuple[int, float]]]]:
        """Metric -> GPU -> (moment, mean), ascending; over all who held it."""
        columns = ["at_ms", "gpu_id"]
        for metric in metrics:
            columns += [metric.stored("mean"), metric.samples]
        ids = [one.id for one in gpus]
        rows = self._reader.gpu_rows(connection, tier, steps(tier, *span), columns, ids) if ids else []
        if ids and tier is not MINUTE:  # what the tier has not built yet, a minute at a time
            last_ms = max((row[0] for row in rows), default=span[0] - tier.ms) + tier.ms
            rows += self._reader.gpu_rows(
                connection, MINUTE, steps(MINUTE, max(last_ms, span[0]), span[1]), columns, ids
            )
        found: dict[str, dict[int, list[tuple[int, float]]]] = {}
        for place, metric in enumerate(metrics):
            sums: dict[tuple[int, int], list[float]] = defaultdict(lambda: [0.0, 0.0])
            for row in rows:
                mean, samples = row[2 + 2 * place], row[3 + 2 * place]
                if samples and mean is not None:
                    one = sums[row[1], row[0]]
                    one[0] += mean * samples
                    one[1] += samples
            by_gpu: dict[int, list[tuple[int, float]]] = defaultdict(list)
            for (gpu, at_ms), (total, weight) in sorted(sums.items()):
                by_gpu[gpu].append((at_ms, round(total / weight / metric.per_unit, 6)))
            found[metric.name] = by_gpu
        return found

    def _bands(
        self, place: Place, metrics: Sequence[str], since: datetime, until: datetime, *, peers: str
    ) -> Mapping[str, PeerBand]:
        rolled = {name: BY_SAMPLE_KEY[name] for name in metrics if name in BY_SAMPLE_KEY}
        span = (unix_ms(since), unix_ms(until))
        with self._reader.database.read() as connection:
            tier = self._reader.tier_for(connection, *span, points_max=POINTS_MAX)
            gpus = self._peers(connection, place, tier, span, is_job=peers == "job")
            means = self._means(connection, tier, gpus, tuple(rolled.values()), span)
        return {name: _band(means.get(metric.name, {})) for name, metric in rolled.items()}

    def _peers(
        self, connection: Connection, place: Place, tier: Tier, span: tuple[int, int], *, is_job: bool
    ) -> Sequence[GpuName]:
        names = self._reader.names(connection)
        if not is_job:
            return [one for one in names.values() if one.node == place[0] and one.gpu != place[1]][:PEERS_MAX]
        own = next((one.id for one in names.values() if (one.node, one.gpu) == place), None)
        if own is None:
            return []
        for at_ms in reversed(steps(tier, *span)):
            held = self._reader.gpu_rows(connection, tier, [at_ms], ("gpu_id", "tenure_id"), [own])
            mine = self._reader.tenures(connection, (tenure for _, tenure in held))
            jobs = {tenure.workload for tenure in mine.values()} - {""}
            if jobs:
                rows = self._reader.gpu_rows(connection, tier, [at_ms], ("gpu_id", "tenure_id"), None)
                tenures = self._reader.tenures(connection, (tenure for _, tenure in rows))
                same = {gpu for gpu, tenure in rows if tenure in tenures and tenures[tenure].workload in jobs}
                return [names[gpu] for gpu in sorted(same - {own}) if gpu in names][:PEERS_MAX]
        return []


def _band(by_gpu: Mapping[int, Sequence[tuple[int, float]]]) -> PeerBand:
    by_moment: dict[int, list[float]] = defaultdict(list)
    for points in by_gpu.values():
        for at_ms, value in points:
            by_moment[at_ms].append(value)
    return PeerBand(
        gpus=len(by_gpu),
        points=tuple(
            (at_ms / 1000, min(values), float(median(values)), max(values))
            for at_ms, values in sorted(by_moment.items())
        ),
    )


def _raw_key(name: str) -> str:
    """The sample key of a rolled-up name, so that both may be asked for."""
    metric = BY_SAMPLE_KEY.get(name)
    return metric.keys[0] if metric is not None and name == metric.name and metric.keys else name
