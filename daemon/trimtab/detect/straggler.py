"""straggler: ranks that are slow against their own gang, and so hold all of it back.

In a synchronous job the slow rank is the busy one and the others wait; so the clock is the first sign, and a difference
in activity alone says nothing without a second one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from trimtab.detect.closing import SERIES, SERIES_SECONDS
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.incident import MEMBERS, members_text
from trimtab.detect.series import SeriesView, mean_of, upper_median
from trimtab.detect.slowdown import percent, slowed_by
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import GpuKey, Workload, WorkloadState
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

RULE = "straggler"
_RANKS_MIN = 3
_SEEN_RATIO = 0.75
"""Ranks of the gang that must be seen before one of them is called slow."""
_SUSTAINED_RATIO = 0.9
_BUSY_RATIO = 0.5
_ACTIVITY_FACTOR = 1.3
"""The slow rank works this much more of the time than the others, who wait."""
_HOT_CELSIUS = 10.0
_REASONS = ("hw_thermal", "hw_power_brake", "sw_thermal")
_AT_LIMIT_RATIO = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class _Gang:
    workload: Workload
    keys: tuple[GpuKey, ...]
    columns: NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Slow:
    """One slow rank: its share of the gang's clock, the signs for it and what speaks against."""

    key: GpuKey
    ratio: float
    signs: tuple[str, ...]
    against: tuple[str, ...]


class Straggler:
    """Finds slow ranks; one finding per gang and node."""

    name = RULE

    def __init__(self, settings: DetectSettings) -> None:
        """Judge by the settings' `straggler_after_seconds` and `straggler_ratio`."""
        self.span_seconds = settings.straggler_after_seconds
        self._ratio = settings.straggler_ratio

    def detect(self, window: Window) -> Iterable[Finding]:
        """Looks at running gangs that the series have seen long enough."""
        view = SeriesView(window)
        if window.snapshot is None or view.span("sm_clock_hertz", self.span_seconds) is None:
            return
        fleet = Fleet(window)
        for gang in self._gangs(view, fleet):
            slow = self._slow_ranks(gang, view, fleet)
            for node, found in _by_node(slow):
                yield _finding(gang, node, found, fleet, began_at=window.at - timedelta(seconds=self.span_seconds))

    def _gangs(self, view: SeriesView, fleet: Fleet) -> Iterator[_Gang]:
        """Gangs with a rank whose clock is low right now; the rest need no closer look."""
        snapshot, clocks = fleet.window.snapshot, view.last("sm_clock_hertz")
        activity = view.last("sm_active_ratio")
        for workload in snapshot.workloads if snapshot else ():
            if not self._may_be_judged(workload, fleet.window):
                continue
            places = [(each.node, gpu) for each in workload.placements for gpu in each.gpus]
            columns = view.columns_at(places)
            if clocks is None or not places or (columns >= 0).mean() < _SEEN_RATIO:
                continue
            seen = columns[columns >= 0]
            now = clocks[seen].astype(np.float64)
            if np.any(now < self._ratio * upper_median(now)) or _differs(activity, seen):
                keys = tuple(GpuKey(cluster=fleet.cluster, node=node, uuid=gpu) for node, gpu in places)
                yield _Gang(workload=workload, keys=keys, columns=columns)

    def _may_be_judged(self, workload: Workload, window: Window) -> bool:
        if not workload.is_gang or workload.state is not WorkloadState.RUNNING or workload.gpus < _RANKS_MIN:
            return False
        started = workload.started_at
        return started is None or (window.at - started).total_seconds() >= self.span_seconds

    def _slow_ranks(self, gang: _Gang, view: SeriesView, fleet: Fleet) -> list[_Slow]:
        clocks = view.block("sm_clock_hertz", gang.columns, self.span_seconds)
        busy = view.block("utilization_ratio", gang.columns, self.span_seconds)
        if clocks is None or (busy is not None and _median(mean_of(busy)) < _BUSY_RATIO):
            return []
        middle = np.array([upper_median(row.astype(np.float64)) for row in clocks])
        ratios = clocks / middle[:, None]
        with_value = ~np.isnan(ratios)
        is_low = (ratios < self._ratio).sum(axis=0) >= _SUSTAINED_RATIO * np.maximum(with_value.sum(axis=0), 1)
        is_low &= with_value.any(axis=0)
        activity = view.block("sm_active_ratio", gang.columns, self.span_seconds)
        works_more = _works_more(activity, len(gang.keys))
        mean = mean_of(ratios.astype(np.float32))
        found = []
        for place in np.flatnonzero(is_low | works_more):
            slow = _judge(
                gang.keys[place],
                gang,
                fleet,
                ratio=float(mean[place]),
                is_low=bool(is_low[place]),
                works_more=bool(works_more[place]),
            )
            if slow is not None:
                found.append(slow)
        return found if len(found) * 2 <= len(gang.keys) else []


def _judge(key: GpuKey, gang: _Gang, fleet: Fleet, *, ratio: float, is_low: bool, works_more: bool) -> _Slow | None:
    """The rank as slow, with its signs; None where one sign alone says too little."""
    if key.node in fleet.stale_nodes:
        return None
    others = _outer_signs(key, gang, fleet)
    capped = _is_power_capped(key, fleet)
    if not others and (capped or not is_low):
        return None  # a capped rank does more work than the others: no fault; activity alone is none either
    own = ((is_low, "its clock is low"), (works_more, "the others wait for it"))
    signs = [text for holds, text in own if holds]
    against = ((capped, "It is at its power limit."), (not is_low, "Its clock is that of its gang."))
    return _Slow(
        key=key,
        ratio=min(ratio, 1.0),
        signs=(*signs, *others),
        against=tuple(text for holds, text in against if holds),
    )


def _differs(activity: NDArray[np.float32] | None, columns: NDArray[np.intp]) -> bool:
    if activity is None:
        return False
    now = activity[columns].astype(np.float64)
    middle = _median(now)
    return bool(np.any(now >= _ACTIVITY_FACTOR * middle)) if middle > 0 else False


def _median(values: NDArray[np.float64]) -> float:
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _works_more(activity: NDArray[np.float32] | None, ranks: int) -> NDArray[np.bool_]:
    """Ranks that work clearly more of the time than most of their gang."""
    if activity is None:
        return np.zeros(ranks, dtype=np.bool_)
    means = mean_of(activity)
    known = np.sort(means[~np.isnan(means)])
    low = float(known[(len(known) - 1) // 2]) if len(known) else float("nan")
    found: NDArray[np.bool_] = (means >= _ACTIVITY_FACTOR * low) & (low > 0)
    return found


def _outer_signs(key: GpuKey, gang: _Gang, fleet: Fleet) -> list[str]:
    """Signs of the card itself: a reason that holds its clock, heat, a narrow PCIe link."""
    now = fleet.now(key.node, key.uuid)
    if now is None or not fleet.is_fresh(now):
        return []
    signs = [f"{reason} holds its clock" for reason in _REASONS if now.value(f"clock_event_active/{reason}")]
    celsius = now.value("temperature_celsius")
    middle = _gang_celsius(gang, fleet)
    if celsius is not None and middle is not None and celsius - middle >= _HOT_CELSIUS:
        signs.append(f"it is {_HOT_CELSIUS:.0f} °C and more over its gang")
    width, full = now.value("pcie_link_width_lanes"), now.value("pcie_link_width_lanes_max")
    if width and full and width < full:
        signs.append(f"its PCIe link has {width:.0f} of {full:.0f} lanes")
    return signs


def _gang_celsius(gang: _Gang, fleet: Fleet) -> float | None:
    """The cooler half's temperature, so that several hot ranks do not hide each other."""
    seen = [value for key in gang.keys if (now := fleet.now(key.node, key.uuid))
            and (value := now.value("temperature_celsius")) is not None]  # fmt: skip
    return sorted(seen)[(len(seen) - 1) // 2] if seen else None


def _is_power_capped(key: GpuKey, fleet: Fleet) -> bool:
    now = fleet.now(key.node, key.uuid)
    if now is None:
        return False
    power, limit = now.value("power_watts"), now.value("power_limit_watts")
    is_at_limit = power is not None and limit is not None and power >= _AT_LIMIT_RATIO * limit
    return is_at_limit or (power is None and bool(now.value("clock_event_active/sw_power_cap")))


def _by_node(slow: Iterable[_Slow]) -> Iterator[tuple[str, list[_Slow]]]:
    found: dict[str, list[_Slow]] = defaultdict(list)
    for each in slow:
        found[each.key.node].append(each)
    yield from sorted(found.items())


def _finding(gang: _Gang, node: str, slow: Sequence[_Slow], fleet: Fleet, *, began_at: datetime) -> Finding:
    worst = min(slow, key=lambda each: each.ratio)
    keys = [each.key for each in slow]
    ratios: Mapping[GpuKey, float] = {each.key: each.ratio for each in slow}
    slowed = slowed_by(ratios, fleet)
    is_sure = all(len(each.signs) >= 2 for each in slow)
    name = gang.workload.name
    doubt = "" if is_sure else f", likely ({len(worst.signs)} of 4 signs)"
    holds = "holds" if len(keys) == 1 else "hold"
    pace = f", at {percent(worst.ratio)} % of its clock" if worst.ratio < 1 else ""
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{gang.workload.id}:{node}",
        subject=Subject(
            cluster=fleet.cluster, node=node, gpu=keys[0].uuid if len(keys) == 1 else None, workload=gang.workload.id
        ),
        action=Action.RESET_AFTER_DRAIN if is_sure else Action.WATCH,
        severity=Severity.WARNING,
        sentence=f"{fleet.place(node, [key.uuid for key in keys])} {holds} {name} back{pace}{doubt}",
        impact=slowed.impact,
        advice="Move the job to a healthy node after its next checkpoint, then look at cooling and power of this one.",
        evidence=tuple(_evidence(gang, slow, fleet)),
        against=tuple(
            Evidence(source="nvml", text=text) for text in dict.fromkeys(text for each in slow for text in each.against)
        ),
        workloads_hit=(gang.workload.id,),
        gpus_hit=gang.workload.gpus,
        loss_gpus=slowed.loss_gpus,
        is_corroborated=is_sure,
        began_at=began_at,
        facts={
            "signs": "; ".join(worst.signs),
            SERIES: "sm_clock_hertz",
            SERIES_SECONDS: f"{(fleet.window.at - began_at).total_seconds():g}",
            "gpus": str(len(keys)),
            MEMBERS: members_text(f"slow:{key.node}/{key.uuid}" for key in keys),
        },
    )


def _evidence(gang: _Gang, slow: Sequence[_Slow], fleet: Fleet) -> Iterator[Evidence]:
    for each in slow[:8]:
        place = fleet.place(each.key.node, [each.key.uuid])
        now = fleet.now(each.key.node, each.key.uuid)
        yield Evidence(
            source="peers",
            text=f"{place}: SM clock as a share of the median of {count_text(len(gang.keys), 'rank')}",
            at=now.at if now else None,
            value=round(each.ratio, 2),
            threshold=1.0,
            unit="ratio",
        )
        for sign in each.signs:
            yield Evidence(source="nvml", text=f"{place}: {sign}")
