"""The strip's numbers over time, from the fleet's rows, and what happened meanwhile."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import unix_ms
from trimtab.model.past import GpuTimeState, Trends
from trimtab.model.rollup import MINUTE, STATES, Tier, state_column
from trimtab.store.past_facts import marks_between
from trimtab.store.rollup_read import RollupReader
from trimtab.store.tables_rollup import SUMS, rollup_boards, rollup_fleet

STRANDED_SIZES = (1, 2, 4, 8)


@dataclass(slots=True)
class _Step:
    """Sums of one step of the answer, and how much of it rows cover."""

    covered_ms: int = 0
    sums: dict[str, int] = field(default_factory=lambda: dict.fromkeys(SUMS, 0))
    boards: dict[str, float] = field(default_factory=dict)
    weights: dict[str, float] = field(default_factory=dict)


def trends(
    reader: RollupReader, since: datetime, until: datetime, *, points_max: int, marks_max: int, queue: str | None
) -> Trends:
    """Series of at most `points_max` steps and the latest marks. Raises StoreError."""
    since_ms, until_ms = unix_ms(since), unix_ms(until)
    kept = reader.kept()
    with reader.database.read() as connection:
        tier = reader.tier_for(connection, since_ms, until_ms, points_max=points_max)
        width_ms = -(-max(until_ms - since_ms, 1) // points_max // tier.ms) * tier.ms or tier.ms
        begins = range(since_ms - since_ms % width_ms, until_ms, width_ms)
        found = {begin: _Step() for begin in begins}
        span = (begins.start, until_ms)
        last_ms = _read(connection, reader, tier, found=found, width_ms=width_ms, span=span, queue=queue)
        if tier is not MINUTE:  # what the tier has not built yet
            span = (max(last_ms, begins.start), until_ms)
            _read(connection, reader, MINUTE, found=found, width_ms=width_ms, span=span, queue=queue)
        marks, left_out = marks_between(connection, reader.cluster, since_ms, until_ms, limit=marks_max)
    steps = list(found.values())
    return Trends(
        cluster=reader.cluster,
        since=since,
        until=until,
        bucket_seconds=width_ms / 1000,
        at_seconds=tuple(begin / 1000 for begin in begins),
        series=_series(steps, is_of_queue=queue is not None),
        marks=marks,
        marks_left_out=left_out,
        kept=kept,
        queue=queue,
    )


def _read(
    connection: Connection,
    reader: RollupReader,
    tier: Tier,
    *,
    found: dict[int, _Step],
    width_ms: int,
    span: tuple[int, int],
    queue: str | None,
) -> int:
    """Add a tier's rows to the steps; the end of its newest row."""
    last_ms = span[0]
    seen: set[int] = set()
    for row in _fleet_rows(connection, reader.cluster, tier, span, queue):
        step = found.get(row.at_ms - row.at_ms % width_ms)
        if step is None:
            continue
        if row.at_ms not in seen:
            seen.add(row.at_ms)
            step.covered_ms += tier.ms
            last_ms = max(last_ms, row.at_ms + tier.ms)
        for name in SUMS:
            step.sums[name] += getattr(row, name)
    for row in _board_rows(connection, reader.cluster, tier, span) if queue is None else ():
        step = found.get(row.at_ms - row.at_ms % width_ms)
        if step is not None:
            _add_boards(step, row)
    return last_ms


def _fleet_rows(
    connection: Connection, cluster: str, tier: Tier, span: tuple[int, int], queue: str | None
) -> Iterable[Any]:
    fleet = rollup_fleet.c
    wanted = [
        fleet.cluster == cluster,
        fleet.tier_seconds == tier.seconds,
        fleet.at_ms >= span[0],
        fleet.at_ms < span[1],
    ]
    sums = [sa.cast(sa.func.sum(fleet[name]), sa.BigInteger).label(name) for name in SUMS]
    if queue is not None:
        # Steps in which the queue held nothing are known too: they are zero, not absent.
        sums = [
            sa.cast(sa.func.sum(sa.case((fleet.queue == queue, fleet[name]), else_=0)), sa.BigInteger).label(name)
            for name in SUMS
        ]
    return connection.execute(sa.select(fleet.at_ms, *sums).where(*wanted).group_by(fleet.at_ms).order_by(fleet.at_ms))


def _board_rows(connection: Connection, cluster: str, tier: Tier, span: tuple[int, int]) -> Iterable[Any]:
    boards = rollup_boards.c
    wanted = (
        boards.cluster == cluster,
        boards.tier_seconds == tier.seconds,
        boards.at_ms >= span[0],
        boards.at_ms < span[1],
    )
    return connection.execute(sa.select(rollup_boards).where(*wanted))


def _add_boards(step: _Step, row: Any) -> None:  # noqa: ANN401 - a row
    for name in ("goodput_ratio", *(f"stranded_{size}" for size in STRANDED_SIZES)):
        value = getattr(row, name)
        if value is not None:
            step.boards[name] = step.boards.get(name, 0.0) + value * row.boards
            step.weights[name] = step.weights.get(name, 0.0) + row.boards


def _series(steps: list[_Step], *, is_of_queue: bool) -> dict[str, tuple[float | None, ...]]:
    found: dict[str, tuple[float | None, ...]] = {
        f"gpus_{state.value}": tuple(_over(step.sums[state_column(state)], step.covered_ms) for step in steps)
        for state in STATES
    }
    found["gpus_total"] = tuple(
        _over(sum(step.sums[state_column(state)] for state in STATES), step.covered_ms) for step in steps
    )
    found["activity_ratio"] = tuple(_over(step.sums["active_ms"], step.sums["activity_known_ms"]) for step in steps)
    found["power_watts"] = tuple(
        _over(step.sums["energy_millijoules"], step.covered_ms) if step.sums["power_known_ms"] else None
        for step in steps
    )
    if is_of_queue:
        found["goodput_ratio"] = tuple(_goodput(step) for step in steps)
        return found
    found["goodput_ratio"] = tuple(_board_mean(step, "goodput_ratio") for step in steps)
    for size in STRANDED_SIZES:
        found[f"stranded/{size}"] = tuple(_board_mean(step, f"stranded_{size}") for step in steps)
    return found


def _goodput(step: _Step) -> float | None:
    """Working time less what findings say is lost of it, over the time in which it is known what held GPUs did."""
    working = step.sums[state_column(GpuTimeState.WORKING)]
    held = working + step.sums[state_column(GpuTimeState.HELD_IDLE)]
    return _over(max(working - step.sums["lost_ms"], 0), held, digits=4)


def _board_mean(step: _Step, name: str) -> float | None:
    return _over(step.boards.get(name, 0.0), step.weights.get(name, 0.0), digits=4)


def _over(value: float, by: float, *, digits: int = 3) -> float | None:
    return round(value / by, digits) if by else None
