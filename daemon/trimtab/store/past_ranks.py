"""A job's ranks × time, from the roll-ups, with the rank that stands out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from statistics import median

import msgspec
import numpy as np
import sqlalchemy as sa
from numpy.typing import NDArray
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.advice import OpenFinding
from trimtab.model.past import RankRow, Ranks
from trimtab.model.rollup import BY_ROLLED_NAME, MINUTE, RolledMetric, Tier
from trimtab.store.rollup_claims import Placed
from trimtab.store.rollup_facts import PLACEMENT
from trimtab.store.rollup_read import GpuName, RollupReader, steps
from trimtab.store.tables import findings
from trimtab.store.tables_rollup import rollup_facts, rollup_tenures
from trimtab.store.text import from_json

ROWS_MAX = 4096
LOOKS = 8
"""Steps that are looked through for a job's GPUs where no scheduler said which they are."""
AWAY_RATIO = 0.1
"""A rank stands out from so far off the median on …"""
AWAY_SPREADS = 5.0
"""… if that is so many times what the ranks usually differ by."""
RANKS_MIN = 3
_WORDS = {
    "hertz": (1e-9, "GHz"), "ratio": (100.0, "%"), "watts": (1.0, "W"), "celsius": (1.0, "°C"),
    "bytes": (2.0**-30, "GiB"), "bytes_per_second": (1e-9, "GB/s"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Seat:
    """A GPU of the job, and which rank it served."""

    gpu: GpuName
    rank: int | None = None
    pod: str = ""


def ranks(
    reader: RollupReader, job: str, metric: str, *, since: datetime, until: datetime, points_max: int
) -> Ranks | None:
    """The matrix, in at most `points_max` steps; None for a job that never held a GPU. Raises StoreError."""
    rolled = BY_ROLLED_NAME[metric]
    since_ms, until_ms = unix_ms(since), unix_ms(until)
    with reader.database.read() as connection:
        tenures = _tenures(connection, reader.cluster, job)
        if not tenures:
            return None
        tier = reader.tier_for(connection, since_ms, until_ms, points_max=points_max * 4)
        seats = _seats(connection, reader, job, tenures, tier=tier, span=(since_ms, until_ms))
        shown = seats[:ROWS_MAX]
        width_ms = -(-max(until_ms - since_ms, 1) // points_max // tier.ms) * tier.ms or tier.ms
        begins = range(since_ms - since_ms % width_ms, until_ms, width_ms)
        cells = _cells(connection, reader, rolled, shown, tenures=tenures, tier=tier, begins=begins, until_ms=until_ms)
        about = _findings(connection, reader.cluster, job, shown, span=(since_ms, until_ms))
    rows = _with_ratios(
        RankRow(
            rank=seat.rank,
            pod=seat.pod,
            node=seat.gpu.node,
            gpu=seat.gpu.gpu,
            index=seat.gpu.index,
            values=tuple(None if np.isnan(value) else round(float(value), 6) for value in cells[place]),
            mean=_mean(cells[place]),
        )
        for place, seat in enumerate(shown)
    )
    suspect, text = _suspect(rows, rolled, about)
    known = cells[~np.isnan(cells)]
    return Ranks(
        job=job,
        metric=metric,
        unit=rolled.unit,
        since=since,
        until=until,
        bucket_seconds=width_ms / 1000,
        at_seconds=tuple(begin / 1000 for begin in begins),
        rows=tuple(replace(row, is_suspect=place == suspect) for place, row in enumerate(rows)),
        rows_left_out=max(len(seats) - ROWS_MAX, 0),
        low=float(np.percentile(known, 2)) if len(known) else None,
        high=float(np.percentile(known, 98)) if len(known) else None,
        suspect=suspect,
        suspect_text=text,
        findings=tuple(one.id for one in about),
    )


def _tenures(connection: Connection, cluster: str, job: str) -> set[int]:
    wanted = (rollup_tenures.c.cluster == cluster, rollup_tenures.c.workload == job)
    return set(connection.execute(sa.select(rollup_tenures.c.id).where(*wanted)).scalars())


def _seats(
    connection: Connection,
    reader: RollupReader,
    job: str,
    tenures: set[int],
    *,
    tier: Tier,
    span: tuple[int, int],
) -> list[_Seat]:
    """GPUs of the job within the span, by rank; as the scheduler placed them, else as the rows have it."""
    names = reader.names(connection)
    by_name = {(one.node, one.gpu): one for one in names.values()}
    found: dict[int, _Seat] = {}
    for placed in _placements(connection, reader.cluster, job, span):
        for rank, pod, node, gpus in placed:
            for uuid in gpus:
                gpu = by_name.get((node, uuid)) or by_name.get((node, uuid.partition("/")[0]))
                if gpu is not None:
                    found[gpu.id] = _Seat(gpu, rank, pod)
    if not found:
        every = steps(tier, *span)
        looks = every[:: max(len(every) // LOOKS, 1)]
        rows = reader.gpu_rows(connection, tier, (*looks, *every[-2:]), ("gpu_id", "tenure_id"), None)
        found = {gpu: _Seat(names[gpu]) for gpu, tenure in rows if tenure in tenures and gpu in names}
    return sorted(found.values(), key=_order)


def _order(seat: _Seat) -> tuple[bool, int, str, int, str]:
    return (seat.rank is None, seat.rank or 0, seat.gpu.node, seat.gpu.index or 0, seat.gpu.gpu)


def _placements(connection: Connection, cluster: str, job: str, span: tuple[int, int]) -> Iterable[tuple[Placed, ...]]:
    """What the scheduler said within the span, oldest first."""
    facts = rollup_facts.c
    wanted = (
        facts.cluster == cluster,
        facts.kind == PLACEMENT,
        facts.name == job,
        facts.since_ms < span[1],
        sa.or_(facts.until_ms.is_(None), facts.until_ms > span[0]),
    )
    bodies = connection.execute(sa.select(facts.body).where(*wanted).order_by(facts.since_ms)).scalars()
    return [msgspec.json.decode(body, type=tuple[Placed, ...]) for body in bodies]


def _cells(
    connection: Connection,
    reader: RollupReader,
    rolled: RolledMetric,
    seats: Sequence[_Seat],
    *,
    tenures: set[int],
    tier: Tier,
    begins: range,
    until_ms: int,
) -> NDArray[np.float64]:
    """Means by seat and step, weighed by samples; NaN where there is nothing."""
    place = {seat.gpu.id: number for number, seat in enumerate(seats)}
    total = np.zeros((len(seats), len(begins)))
    weight = np.zeros((len(seats), len(begins)))
    if not seats or not len(begins):
        return total
    columns = ("at_ms", "gpu_id", "tenure_id", rolled.stored("mean"), rolled.samples)
    rows = reader.gpu_rows(connection, tier, steps(tier, begins.start, until_ms), columns, place)
    if tier is not MINUTE:  # what the tier has not built yet
        last_ms = max((row[0] for row in rows), default=begins.start - tier.ms) + tier.ms
        rows += reader.gpu_rows(connection, MINUTE, steps(MINUTE, max(last_ms, begins.start), until_ms), columns, place)
    for at_ms, gpu, tenure, mean, samples in rows:
        if tenure in tenures and samples and mean is not None:
            step = (at_ms - begins.start) // begins.step
            total[place[gpu], step] += mean * samples
            weight[place[gpu], step] += samples
    with np.errstate(invalid="ignore"):
        return np.where(weight > 0, total / np.where(weight > 0, weight, 1.0) / rolled.per_unit, np.nan)


def _mean(values: NDArray[np.float64]) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _with_ratios(rows: Iterable[RankRow]) -> list[RankRow]:
    found = list(rows)
    means = [row.mean for row in found if row.mean is not None]
    middle = median(means) if means else 0.0
    if not middle:
        return found
    return [row if row.mean is None else replace(row, to_median_ratio=round(row.mean / middle, 4)) for row in found]


def _findings(
    connection: Connection, cluster: str, job: str, seats: Sequence[_Seat], *, span: tuple[int, int]
) -> list[OpenFinding]:
    """Findings about the job or its GPUs that stood within the span."""
    nodes = sorted({seat.gpu.node for seat in seats})
    table = findings.c
    wanted = (
        table.cluster == cluster,
        table.opened_at_ms < span[1],
        sa.or_(table.closed_at_ms.is_(None), table.closed_at_ms >= span[0]),
        sa.or_(table.workload == job, table.node.in_(nodes)),
    )
    bodies = connection.execute(sa.select(table.body).where(*wanted).order_by(table.id).limit(500)).scalars()
    gpus = {(seat.gpu.node, seat.gpu.gpu) for seat in seats}
    found = (from_json(body, OpenFinding) for body in bodies)
    return [one for one in found if _is_about(one, job, gpus)]


def _is_about(one: OpenFinding, job: str, gpus: set[tuple[str, str]]) -> bool:
    finding = one.finding
    subject = finding.subject
    if subject.workload == job or job in finding.workloads_hit:
        return True
    return subject.gpu is not None and (subject.node or "", subject.gpu) in gpus


def _suspect(rows: Sequence[RankRow], rolled: RolledMetric, about: Sequence[OpenFinding]) -> tuple[int | None, str]:
    """Which row a finding points at, else which stands out by itself; and why."""
    place_of = {(row.node, row.gpu): place for place, row in enumerate(rows)}
    for one in sorted(about, key=lambda one: (one.finding.rule != "straggler", -one.id)):
        subject = one.finding.subject
        place = place_of.get((subject.node or "", subject.gpu or ""))
        if place is not None:
            return place, f"{one.name}: {one.finding.sentence}"
    return _outlier(rows, rolled)


def _outlier(rows: Sequence[RankRow], rolled: RolledMetric) -> tuple[int | None, str]:
    means: Mapping[int, float] = {place: row.mean for place, row in enumerate(rows) if row.mean is not None}
    if len(means) < RANKS_MIN:
        return None, ""
    middle = median(means.values())
    spread = median(abs(mean - middle) for mean in means.values())
    # Heat is bad when it is high; of everything else too little is what holds the others up.
    sign = 1.0 if rolled.unit == "celsius" else -1.0
    worst = max(means, key=lambda place: sign * (means[place] - middle))
    away = sign * (means[worst] - middle)
    if not middle or away < AWAY_RATIO * abs(middle) or away < AWAY_SPREADS * spread:
        return None, ""
    factor, unit = _WORDS[rolled.unit]
    row = rows[worst]
    who = f"rank {row.rank} " if row.rank is not None else ""
    where = f"{row.node} GPU {row.index if row.index is not None else row.gpu}"
    text = f"{who}({where})" if who else where
    said = f"{means[worst] * factor:.3g} {unit}, the median of {len(means)} GPUs is {middle * factor:.3g} {unit}"
    return worst, f"{text} runs at {said}"
