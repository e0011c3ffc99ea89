"""hotspot: GPUs that throttle on heat or power brake for long, or run hot against peers of their model and load."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from trimtab.detect.closing import SERIES, SERIES_SECONDS
from trimtab.detect.fleet import Fleet, count_text
from trimtab.detect.incident import MEMBERS, members_text
from trimtab.detect.series import SeriesView, keys_at, mean_of
from trimtab.detect.slowdown import slowed_by
from trimtab.model.advice import Action, Evidence, Finding, Severity, Subject
from trimtab.model.cluster import GpuKey
from trimtab.model.window import Window
from trimtab.settings import DetectSettings

RULE = "hotspot"
_ACTIVE_RATIO = 0.9
"""Active in this share of the rows counts as all the time: one row may fall between two readings."""
_PEERS_MIN = 8
_PEER_SECONDS = 120.0
_PEER_Z = 6.0
_PEER_CELSIUS = 12.0
_PEER_FLOOR_CELSIUS = 70.0
"""Below this nobody is hurt by being warmer than others."""
_LOAD_WATTS = 75.0
"""Peers draw the same power to within this."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reason:
    label: str
    says: str
    advice: str
    after_seconds: float


class Hotspot:
    """Finds throttled and hot GPUs; one finding per node and reason."""

    name = RULE

    def __init__(self, settings: DetectSettings) -> None:
        """Judge by the settings' `thermal_after_seconds` and `power_brake_after_seconds`."""
        self._reasons = (
            _Reason(
                label="hw_thermal",
                says="throttle on heat",
                advice="Move what suffers, then look at fans, inlet temperature and heat sink of the node.",
                after_seconds=settings.thermal_after_seconds,
            ),
            _Reason(
                label="hw_power_brake",
                says="are held down by the power brake",
                advice="Move what suffers, then look at the node's power supplies and the rack's feed.",
                after_seconds=settings.power_brake_after_seconds,
            ),
        )
        self.span_seconds = max(reason.after_seconds for reason in self._reasons)

    def detect(self, window: Window) -> Iterable[Finding]:
        """Throttled GPUs first; a GPU that throttles is not told again as hot."""
        if not window.series:
            return
        view, fleet = SeriesView(window), Fleet(window)
        told: set[GpuKey] = set()
        for reason in self._reasons:
            for node, keys in _by_node(_throttled(view, reason), fleet):
                told.update(keys)
                yield _throttle_finding(node, keys, reason, fleet)
        for node, found in _hot_by_node(view, fleet, told):
            yield _hot_finding(node, found, fleet)


def _by_node(keys: Iterable[GpuKey], fleet: Fleet) -> Iterator[tuple[str, list[GpuKey]]]:
    found: dict[str, list[GpuKey]] = defaultdict(list)
    for key in keys:
        if key.node not in fleet.stale_nodes:
            found[key.node].append(key)
    yield from sorted(found.items())


def _throttled(view: SeriesView, reason: _Reason) -> list[GpuKey]:
    """GPUs for which the reason has been active all the time, by the reason's bit or by its counter of seconds."""
    bit = f"clock_event_active/{reason.label}"
    latest, bits = view.last(bit), view.span(bit, reason.after_seconds)
    if bits is not None and latest is not None:
        _, rows = bits
        suspects = np.flatnonzero(latest > 0)
        block = rows[:, suspects]
        is_active = (mean_of(block) >= _ACTIVE_RATIO) & view.is_covered(block, keys_at(view, suspects))
        return keys_at(view, suspects[is_active])
    counters = view.span(f"clock_event_seconds_total/{reason.label}", reason.after_seconds)
    if counters is None:
        return []
    moments, rows = counters
    # From the second row to the last but one: the outermost may lack those who report between two slots.
    share = (rows[-2] - rows[1]) / float(moments[-2] - moments[1]) if len(moments) > 3 else rows[-1] * np.nan
    return keys_at(view, np.flatnonzero(share >= _ACTIVE_RATIO))


def _throttle_finding(node: str, keys: Sequence[GpuKey], reason: _Reason, fleet: Fleet) -> Finding:
    slowed = slowed_by(_clock_ratios(keys, fleet), fleet)
    total = len(fleet.node_gpus(node))
    says = reason.says if len(keys) > 1 else _singular(reason.says)
    who = fleet.place(node, [keys[0].uuid]) if len(keys) == 1 else f"{node}: {len(keys)} of {count_text(total, 'GPU')}"
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{node}:{reason.label}",
        subject=_subject(node, keys, fleet, slowed.workloads),
        action=Action.RESET_AFTER_DRAIN,
        severity=Severity.WARNING,
        sentence=f"{who} {says}",
        impact=slowed.impact,
        advice=reason.advice,
        evidence=tuple(_throttle_evidence(keys, reason, fleet)),
        workloads_hit=slowed.workloads,
        gpus_hit=slowed.gpus,
        loss_gpus=slowed.loss_gpus,
        is_corroborated=True,
        began_at=fleet.window.at - timedelta(seconds=reason.after_seconds),
        facts={
            "reason": reason.label,
            "gpus": str(len(keys)),
            SERIES: f"clock_event_active/{reason.label} clock_event_seconds_total/{reason.label}",
            SERIES_SECONDS: f"{reason.after_seconds:g}",
            MEMBERS: _members(keys),
        },
    )


def _singular(says: str) -> str:
    return says.replace("throttle ", "throttles ").replace("are ", "is ")


def _members(keys: Iterable[GpuKey]) -> str:
    """Shared with straggler: a GPU that is slow because it is hot is one incident."""
    return members_text(f"slow:{key.node}/{key.uuid}" for key in keys)


def _subject(node: str, keys: Sequence[GpuKey], fleet: Fleet, workloads: Sequence[str]) -> Subject:
    return Subject(
        cluster=fleet.cluster,
        node=node,
        gpu=keys[0].uuid if len(keys) == 1 else None,
        workload=workloads[0] if len(workloads) == 1 else None,
    )


def _clock_ratios(keys: Sequence[GpuKey], fleet: Fleet) -> Mapping[GpuKey, float]:
    """Each GPU's clock as a share of what it would run at: its highest among its job's GPUs, else the card's own."""
    return {key: _clock_ratio(key, fleet) for key in keys}


def _clock_ratio(key: GpuKey, fleet: Fleet) -> float:
    now = fleet.now(key.node, key.uuid)
    clock = now.value("sm_clock_hertz") if now else None
    if now is None or clock is None:
        return 1.0
    workload = fleet.workload(key.node, key.uuid)
    peers = [(each.node, gpu) for each in workload.placements for gpu in each.gpus] if workload else []
    clocks = [value for place in peers if (peer := fleet.now(*place)) and (value := peer.value("sm_clock_hertz"))]
    best = max(clocks, default=0.0) if len(clocks) > 1 else now.value("sm_clock_max_hertz") or clock
    return min(clock / best, 1.0) if best else 1.0


def _throttle_evidence(keys: Sequence[GpuKey], reason: _Reason, fleet: Fleet) -> Iterator[Evidence]:
    for key in keys[:8]:
        now, place = fleet.now(key.node, key.uuid), fleet.place(key.node, [key.uuid])
        yield Evidence(
            source="nvml",
            text=f"{place}: {reason.label} active for {reason.after_seconds / 60:.0f} min",
            at=now.at if now else None,
            value=1.0,
            threshold=reason.after_seconds,
            unit="seconds",
        )
        for metric, unit in (("temperature_celsius", "celsius"), ("sm_clock_hertz", "hertz")):
            value = now.value(metric) if now else None
            if value is not None:
                yield Evidence(source="nvml", text=f"{place}: {metric}", value=value, unit=unit)


# ---- hot against peers ----


@dataclass(frozen=True, slots=True, kw_only=True)
class _Hot:
    key: GpuKey
    celsius: float
    peers_celsius: float
    peers: int


def _hot_by_node(view: SeriesView, fleet: Fleet, told: set[GpuKey]) -> Iterator[tuple[str, list[_Hot]]]:
    temperature = view.span("temperature_celsius", _PEER_SECONDS)
    power = view.span("power_watts", _PEER_SECONDS)
    last = view.last("temperature_celsius")
    if temperature is None or power is None or last is None:
        return
    if not np.any(last >= _PEER_FLOOR_CELSIUS):
        return
    celsius, watts = mean_of(temperature[1]), mean_of(power[1])
    found: dict[str, list[_Hot]] = defaultdict(list)
    for columns in _models(view, fleet):
        for hot in _hot_of_model(view, columns, celsius, watts):
            if hot.key not in told and hot.key.node not in fleet.stale_nodes:
                found[hot.key.node].append(hot)
    yield from sorted(found.items())


def _models(view: SeriesView, fleet: Fleet) -> list[NDArray[np.intp]]:
    """Columns of each card model that is known; other cards have no peers."""
    found: dict[str, list[int]] = defaultdict(list)
    gpus = fleet.window.gpus
    for column, key in enumerate(view.gpus):
        now = gpus.get(key)
        if now is not None and now.reading.info.model is not None:
            found[now.reading.info.model].append(column)
    return [np.array(columns, dtype=np.intp) for columns in found.values() if len(columns) > _PEERS_MIN]


def _hot_of_model(
    view: SeriesView, columns: NDArray[np.intp], celsius: NDArray[np.float64], watts: NDArray[np.float64]
) -> Iterator[_Hot]:
    known = columns[~np.isnan(celsius[columns]) & ~np.isnan(watts[columns])]
    bands = np.floor(watts[known] / _LOAD_WATTS).astype(int)
    for band in np.unique(bands[celsius[known] >= _PEER_FLOOR_CELSIUS]):
        peers = known[bands == band]
        if len(peers) <= _PEERS_MIN:
            continue
        values = celsius[peers]
        middle = float(np.median(values))
        spread = 1.4826 * float(np.median(np.abs(values - middle))) + 1.0
        is_hot = ((values - middle) / spread >= _PEER_Z) & (values - middle >= _PEER_CELSIUS)
        for place in np.flatnonzero(is_hot & (values >= _PEER_FLOOR_CELSIUS)):
            key = view.gpus[int(peers[place])]
            yield _Hot(key=key, celsius=float(values[place]), peers_celsius=middle, peers=len(peers) - 1)


def _hot_finding(node: str, found: Sequence[_Hot], fleet: Fleet) -> Finding:
    keys = [hot.key for hot in found]
    hit = fleet.hit([(key.node, key.uuid) for key in keys], is_stopped=False)
    runs = "runs" if len(keys) == 1 else "run"
    return Finding(
        rule=RULE,
        incident=f"{RULE}:{node}:peers",
        subject=_subject(node, keys, fleet, hit.workloads),
        action=Action.WATCH,
        severity=Severity.INFO,
        sentence=f"{fleet.place(node, [key.uuid for key in keys])} {runs} hot against peers of its model and load",
        impact=hit.impact,
        advice="Look at the fans and the air of that slot before it throttles.",
        evidence=tuple(
            Evidence(
                source="peers",
                text=f"{fleet.place(node, [hot.key.uuid])}: mean of {_PEER_SECONDS:.0f} s against {hot.peers} peers",
                value=round(hot.celsius, 1),
                threshold=round(hot.peers_celsius + _PEER_CELSIUS, 1),
                unit="celsius",
            )
            for hot in found[:8]
        ),
        against=(Evidence(source="nvml", text="It does not throttle."),),
        workloads_hit=hit.workloads,
        gpus_hit=len(keys),
        is_corroborated=False,
        began_at=fleet.window.at - timedelta(seconds=_PEER_SECONDS),
        facts={
            "reason": "peers",
            SERIES: "temperature_celsius",
            SERIES_SECONDS: f"{_PEER_SECONDS:g}",
            MEMBERS: _members(keys),
        },
    )
