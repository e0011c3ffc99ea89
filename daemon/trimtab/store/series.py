"""One GPU's past as points for a chart, read from the journal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import fmean, median

import msgspec
import sqlalchemy as sa
import structlog

from trimtab.clock import unix_ms
from trimtab.errors import StoreError
from trimtab.store.database import Database
from trimtab.store.journal import dictionaries
from trimtab.store.packing import Unpacker
from trimtab.store.tables import journal

log = structlog.get_logger()

POINTS_MAX = 600
ROWS_MAX = 9_000
"""A day at one report in 10 s, half a second of CPU; of more, every second, third … report is read."""
GAP_INTERVALS = 3.0
"""Reports this many usual intervals apart have a hole between them, drawn as a hole."""

Point = tuple[float, float | None]
Readings = Sequence[tuple[float, Mapping[str, float]]]


class _Info(msgspec.Struct):
    uuid: str


class _Instance(msgspec.Struct):
    gi: int
    ci: int | None = None
    values: dict[str, float] = {}


class _Gpu(msgspec.Struct):
    info: _Info
    values: dict[str, float] = {}
    instances: tuple[_Instance, ...] = ()


class _Part(msgspec.Struct):
    """The part of a report that charts need: quicker to decode than the whole."""

    gpus: tuple[_Gpu, ...] = ()


def gpu_series(
    database: Database, *, cluster: str, node: str, gpu: str, since: datetime, until: datetime, metrics: Sequence[str]
) -> dict[str, tuple[Point, ...]]:
    """Metric -> its points between two moments, at most 600; None where nothing is known. Raises StoreError."""
    readings = _readings(database, cluster=cluster, node=node, gpu=gpu, since=since, until=until)
    return {metric: downsample([(at, values.get(metric)) for at, values in readings]) for metric in metrics}


def _readings(database: Database, *, cluster: str, node: str, gpu: str, since: datetime, until: datetime) -> Readings:
    wanted = [
        journal.c.cluster == cluster,
        journal.c.node == node,
        journal.c.at_ms.between(unix_ms(since), unix_ms(until)),
    ]
    with database.read() as connection:
        rows = connection.execute(sa.select(sa.func.count()).select_from(journal).where(*wanted)).scalar_one()
        if rows > ROWS_MAX:
            wanted.append(journal.c.sequence % (rows // ROWS_MAX + 1) == 0)
        columns = sa.select(journal.c.at_ms, journal.c.dictionary_id, journal.c.body).where(*wanted)
        found = connection.execute(columns.order_by(journal.c.at_ms, journal.c.id)).all()
    unpacker = Unpacker(_Part, dictionaries(database))
    parts = ((row.at_ms / 1000, _part(unpacker, row.body, row.dictionary_id)) for row in found)
    return [(at, values) for at, part in parts for values in _values_of(part, gpu)]


def _part(unpacker: Unpacker[_Part], body: bytes, dictionary_id: int) -> _Part:
    try:
        return unpacker.unpack(body, dictionary_id)
    except StoreError as error:
        log.warning("journal row left out of a chart", said=str(error))
        return _Part()


def _values_of(part: _Part, gpu: str) -> Iterable[Mapping[str, float]]:
    uuid, _, instance = gpu.partition("/")
    for reading in part.gpus:
        if reading.info.uuid != uuid:
            continue
        if not instance:
            yield reading.values
        yield from (one.values for one in reading.instances if instance in (f"{one.gi}", f"{one.gi}/{one.ci}"))


def downsample(points: Sequence[Point], points_max: int = POINTS_MAX) -> tuple[Point, ...]:
    """At most `points_max` points: means of equal stretches of time, with None where there was a hole."""
    if len(points) < 2:
        return tuple(points)
    gap_seconds = GAP_INTERVALS * median(after[0] - before[0] for before, after in pairwise(points))
    holed = _with_holes(points, gap_seconds)
    if len(holed) <= points_max:
        return tuple(holed)
    # Half the room for means, so that a hole after each of them still fits.
    return tuple(_with_holes(_means(points, points_max // 2), max(gap_seconds, 1.5 * _width(points, points_max // 2))))


def _width(points: Sequence[Point], stretches: int) -> float:
    return (points[-1][0] - points[0][0]) / stretches


def _means(points: Sequence[Point], stretches: int) -> list[Point]:
    width = _width(points, stretches)
    groups: dict[int, list[Point]] = {}
    for point in points:
        groups.setdefault(min(int((point[0] - points[0][0]) / width), stretches - 1), []).append(point)
    return [(fmean(at for at, _ in group), _mean(value for _, value in group)) for group in groups.values()]


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _with_holes(points: Sequence[Point], gap_seconds: float) -> list[Point]:
    drawn: list[Point] = [points[0]]
    for before, after in pairwise(points):
        if after[0] - before[0] > gap_seconds:
            drawn.append(((before[0] + after[0]) / 2, None))
        drawn.append(after)
    return drawn
