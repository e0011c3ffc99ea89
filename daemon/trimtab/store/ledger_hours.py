"""GPU-time between two moments by workload, queue, owner, cause and state: what the digest and GPU-hour reports count.

Whole hours come from the hours' rows, what sticks out at both ends from finer ones: every GPU-millisecond once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.past import GpuTime, GpuTimes
from trimtab.model.rollup import HOUR, MINUTE, QUARTER, STATES, Tenure, Tier, state_column
from trimtab.store.rollup_read import RollupReader
from trimtab.store.tables_rollup import SUMS, rollup_usage


@dataclass(frozen=True, slots=True)
class Stretch:
    """A part of the span and the tier that it is read from."""

    tier: Tier
    since_ms: int
    until_ms: int


class LedgerHours:
    """Reads GPU-time. Any thread; methods raise StoreError."""

    def __init__(self, reader: RollupReader) -> None:
        """Use open roll-ups."""
        self._reader = reader

    def gpu_times(self, since: datetime, until: datetime) -> GpuTimes:
        """GPU-time of [since, until), both rounded down to whole minutes; further where minutes are gone.

        The answer's `since` and `until` say which span it is of, `edge_seconds` how coarse its ends are.
        """
        kept = self._reader.kept()
        with self._reader.database.read() as connection:
            bounds = {tier.name: self._reader.bounds(connection, tier) for tier in (MINUTE, QUARTER, HOUR)}
            stretches = list(parts(MINUTE.floor_ms(unix_ms(since)), MINUTE.floor_ms(unix_ms(until)), bounds))
            sums = self._sums(connection, stretches)
            tenures = self._reader.tenures(connection, sums)
        begin = stretches[0].since_ms if stretches else unix_ms(since)
        end = stretches[-1].until_ms if stretches else unix_ms(since)
        ends = [one.tier.seconds for one in (stretches[:1] + stretches[-1:])]
        return GpuTimes(
            cluster=self._reader.cluster,
            since=from_unix_ms(begin),
            until=from_unix_ms(end),
            rows=tuple(_row(tenures[number], row) for number, row in sorted(sums.items()) if number in tenures),
            kept=kept,
            edge_seconds=float(max(ends, default=MINUTE.seconds)),
        )

    def _sums(self, connection: Connection, stretches: Iterable[Stretch]) -> dict[int, dict[str, int]]:
        usage = rollup_usage.c
        found: dict[int, dict[str, int]] = {}
        for one in stretches:
            wanted = (
                usage.cluster == self._reader.cluster,
                usage.tier_seconds == one.tier.seconds,
                usage.at_ms >= one.since_ms,
                usage.at_ms < one.until_ms,
            )
            sums: list[Any] = [sa.cast(sa.func.sum(usage[name]), sa.BigInteger).label(name) for name in SUMS]
            for row in connection.execute(sa.select(usage.tenure_id, *sums).where(*wanted).group_by(usage.tenure_id)):
                total = found.setdefault(row.tenure_id, dict.fromkeys(SUMS, 0))
                for name in SUMS:
                    total[name] += getattr(row, name)
        return found


def parts(since_ms: int, until_ms: int, bounds: dict[str, tuple[int, int] | None]) -> Iterator[Stretch]:
    """Cut a span into stretches: hours where whole hours are built, finer at the ends; where the finer is gone, the
    coarser takes its place and the span begins a little later, so that nothing is counted that was not asked for.
    """
    at_ms = since_ms
    while at_ms < until_ms:
        tier = _tier_at(at_ms, until_ms, bounds)
        if tier is None:
            later = _next_begin(at_ms, bounds)
            if later is None or later >= until_ms:
                return
            at_ms = later
            continue
        end_ms = _run_end(tier, at_ms, until_ms, bounds)
        yield Stretch(tier, at_ms, end_ms)
        at_ms = end_ms


def _tier_at(at_ms: int, until_ms: int, bounds: dict[str, tuple[int, int] | None]) -> Tier | None:
    """The coarsest tier of which a whole step begins here and is built and wanted."""
    for tier in (HOUR, QUARTER, MINUTE):
        bound = bounds[tier.name]
        if bound is None or at_ms % tier.ms or at_ms + tier.ms > until_ms:
            continue
        if bound[0] <= at_ms and at_ms + tier.ms <= bound[1]:
            return tier
    return None


def _run_end(tier: Tier, at_ms: int, until_ms: int, bounds: dict[str, tuple[int, int] | None]) -> int:
    """How far this tier goes: to its last whole step, or to where a coarser one can take over."""
    bound = bounds[tier.name]
    end_ms = min(until_ms, bound[1] if bound is not None else at_ms)
    last_ms = at_ms + (end_ms - at_ms) // tier.ms * tier.ms
    coarser = {MINUTE: QUARTER, QUARTER: HOUR}.get(tier)
    if coarser is not None:
        next_ms = coarser.floor_ms(at_ms) + coarser.ms
        if next_ms < last_ms and _tier_at(next_ms, until_ms, bounds) not in (None, tier):
            return next_ms
    return last_ms


def _next_begin(at_ms: int, bounds: dict[str, tuple[int, int] | None]) -> int | None:
    """Where the next step of any tier begins that is built."""
    found = []
    for tier in (HOUR, QUARTER, MINUTE):
        bound = bounds[tier.name]
        if bound is not None:
            begin = max(-(-(at_ms + 1) // tier.ms) * tier.ms, bound[0])
            if begin + tier.ms <= bound[1]:
                found.append(begin)
    return min(found, default=None)


def _row(tenure: Tenure, sums: dict[str, int]) -> GpuTime:
    return GpuTime(
        workload=tenure.workload,
        queue=tenure.queue,
        owner=tenure.owner,
        cause=tenure.cause,
        seconds={state: sums[state_column(state)] / 1000 for state in STATES},
        lost_seconds=sums["lost_ms"] / 1000,
        energy_joules=sums["energy_millijoules"] / 1000,
    )
