"""Pages of dcgm-exporter 2.x to 4.x -> readings of GPUs in our names and units. Pure, but for what it remembers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from trimtab.collect.exposition import Page, PageReader, Sample, Series
from trimtab.collect.pci import canonical_pci
from trimtab.model.metric import (
    ALL_LINKS,
    CLOCK_EVENT_BITS,
    CLOCK_EVENT_MASK_ALIASES,
    Metric,
    alias_index,
    sample_key,
)
from trimtab.model.reading import GpuInfo, GpuReading, MigReading

_INT64_BLANK = 9.223372036854775e18
_FP64_BLANK = 140737488355328.0
_INT32_BLANK = 2147483632.0
_BIG_UNITS = frozenset({"bytes", "bytes_per_second", "joules", "count"})
_MIB = 1048576.0
_NVLINK_TRAFFIC = frozenset({
    "nvlink_transmit_bytes_total", "nvlink_receive_bytes_total", "nvlink_throughput_bytes_per_second",
    "nvlink_transmit_bytes_per_second", "nvlink_receive_bytes_per_second",
})  # fmt: skip
_ACTIVITY = (("tensor_active_ratio", 0.1), ("sm_active_ratio", 0.3), ("utilization_ratio", 0.5))
_ZERO_IS_UNMEASURED = frozenset({"memory_temperature_celsius"})
SERIES_KNOWN_MAX = 200_000


@dataclass(frozen=True, slots=True)
class _Known:
    """What the labels of one series say, worked out once."""

    uuid: str | None
    gi: int | None
    profile: str | None
    holder: str | None
    own_holder: str | None
    """Holder from plain labels on a page that has `exported_…` ones: the exporter's own pod."""
    metric: Metric | None
    scale: float
    rank: int
    key: str
    """Sample key, or the family's own name where it is not in the catalogue."""


@dataclass(slots=True)
class _Gpu:
    """One GPU while its page is read."""

    labels: dict[str, str] = field(default_factory=dict)
    raw: dict[str, float | None] = field(default_factory=dict)
    values: dict[str, float] = field(default_factory=dict)
    ranks: dict[str, tuple[int, int]] = field(default_factory=dict)
    instances: dict[int, _Gpu] = field(default_factory=dict)
    holders: dict[str, None] = field(default_factory=dict)
    profile: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DcgmPage:
    """What a page says. `per_gpu` and `per_instance` keep the exporter's own names and units, None = blank."""

    gpus: tuple[GpuReading, ...]
    per_gpu: Mapping[str, Mapping[str, float | None]]
    per_instance: Mapping[str, Mapping[str, float | None]]
    families: frozenset[str]
    hostnames: frozenset[str] = frozenset()
    driver: str | None = None
    bad_samples: Mapping[str, int] = field(default_factory=dict)
    blanks: int = 0
    errors: int = 0
    xid_messages: Mapping[str, str] = field(default_factory=dict)
    """UUID -> the exporter's text for the last XID."""
    traffic_gap: bool = False
    """NVLink traffic was 0 on every GPU beside clear activity: a telemetry gap, so left out of the readings."""


def is_dcgm(page: Page) -> bool:
    """Whether a page comes from dcgm-exporter."""
    return any(name.startswith("DCGM_") for name in page.names)


class DcgmReader:
    """Reads pages of one dcgm-exporter; what series mean is kept from page to page."""

    def __init__(self) -> None:
        """Nothing known."""
        self._pages = PageReader()
        self._series: dict[Series, _Known] = {}

    def read(self, text: str) -> DcgmPage:
        """The readings of one page."""
        return self.read_page(self._pages.read(text))

    def read_page(self, page: Page) -> DcgmPage:
        """The readings of one page already taken apart."""
        if len(self._series) > SERIES_KNOWN_MAX:
            self._series.clear()
        reading = _PageReading(has_exported="exported_pod" in _label_names(page.samples))
        for sample in page.samples:
            series = sample.series
            if series.name.startswith("DCGM_FI_"):
                known = self._series.get(series) or self._learn(series)
                if known.uuid is not None:
                    reading.take(sample, known)
        return reading.finish(errors=page.errors)

    def _learn(self, series: Series) -> _Known:
        found = self._series[series] = _know(series)
        return found


def _label_names(samples: Iterable[Sample]) -> set[str]:
    names: set[str] = set()
    for sample in samples:
        names.update(sample.series.labels)
    return names


_ALIASES = alias_index()


def _know(series: Series) -> _Known:
    labels = series.folded
    metric, alias = _ALIASES.get(series.name, (None, None))
    key, scale, rank = series.name, 1.0, 0
    if metric is not None and alias is not None:
        label_value = alias.label_value
        if label_value == ALL_LINKS and labels.get("nvlink"):
            label_value = labels["nvlink"]
        key, scale, rank = sample_key(metric.name, label_value), alias.scale, metric.dcgm.index(alias)
    gi = labels.get("gpu_i_id", "")
    return _Known(
        uuid=labels.get("uuid") or labels.get("gpu_uuid") or None,
        gi=int(gi) if gi.isascii() and gi.isdigit() else None,
        profile=labels.get("gpu_i_profile") or None,
        holder=_holder(labels, "exported_") if "exported_pod" in labels else _holder(labels, ""),
        own_holder=_holder(labels, "exported_"),
        metric=metric,
        scale=scale,
        rank=rank,
        key=key,
    )


def _holder(labels: Mapping[str, str], prefix: str) -> str | None:
    """`namespace/pod`, or a Slurm job id; empty labels are none."""
    pod, namespace = labels.get(f"{prefix}pod"), labels.get(f"{prefix}namespace")
    if pod:
        return f"{namespace}/{pod}" if namespace else pod
    return labels.get("hpc_job") or None


def _is_blank(value: float, metric: Metric | None) -> bool:
    """DCGM's marks for `no value`: three types, four marks each; a float64 cannot hold the 64-bit ones exactly."""
    if not math.isfinite(value) or value >= _INT64_BLANK:
        return True
    if _FP64_BLANK <= value < _FP64_BLANK + 4:
        return True
    is_big = metric is not None and metric.unit in _BIG_UNITS
    return not is_big and _INT32_BLANK <= value < _INT32_BLANK + 4


class _PageReading:
    """Sorts the samples of one page to their GPUs."""

    def __init__(self, *, has_exported: bool) -> None:
        self._has_exported = has_exported
        self._gpus: dict[str, _Gpu] = {}
        self._families: set[str] = set()
        self._bad: dict[str, int] = {}
        self._blanks = 0

    def take(self, sample: Sample, known: _Known) -> None:
        name = sample.series.name
        self._families.add(name)
        gpu = self._gpus.setdefault(known.uuid or "", _Gpu())
        if len(gpu.labels) < len(sample.series.labels):
            gpu.labels = {**gpu.labels, **sample.series.folded}
        holder = known.own_holder if self._has_exported else known.holder
        part = gpu
        if known.gi is not None:
            part = gpu.instances.setdefault(known.gi, _Gpu())
            part.profile = known.profile or part.profile
        if holder is not None:
            part.holders[holder] = None
        value = self._clean(sample.value, known)
        self._keep_raw(part, sample, value, known, has_holder=holder is not None)
        if value is not None:
            is_own = known.gi is None or (known.metric is not None and known.metric.is_per_instance)
            self._keep(part if is_own else gpu, known, value, has_holder=holder is not None)

    def _clean(self, value: float, known: _Known) -> float | None:
        if _is_blank(value, known.metric):
            self._blanks += 1
            self._count_bad(known.key)
            return None
        if value == 0 and known.metric is not None and known.metric.name in _ZERO_IS_UNMEASURED:
            return None
        return value

    def _keep_raw(self, part: _Gpu, sample: Sample, value: float | None, known: _Known, *, has_holder: bool) -> None:
        """The exporter's own number, once a GPU: of duplicates the attributed row wins, never a mean or a sum."""
        if sample.series.labels.get("nvlink"):
            return
        name = sample.series.name
        if name not in part.raw or (has_holder and part.ranks.get(name, (1, 0))[0] > 0):
            low_high = (known.metric.minimum, known.metric.maximum) if known.metric else (None, None)
            part.raw[name] = None if value is None or not _is_in_range(value * known.scale, *low_high) else value
            part.ranks[name] = (0 if has_holder else 1, 0)

    def _keep(self, part: _Gpu, known: _Known, value: float, *, has_holder: bool) -> None:
        if known.metric is None:
            if known.key in CLOCK_EVENT_MASK_ALIASES:
                _keep_mask(part, int(value))
            return
        scaled = value * known.scale
        if not _is_in_range(scaled, known.metric.minimum, known.metric.maximum):
            self._count_bad(known.key)
            return
        rank = (0 if has_holder else 1, known.rank)
        if known.key not in part.values or rank < part.ranks.get(f"={known.key}", (9, 9)):
            part.values[known.key] = scaled
            part.ranks[f"={known.key}"] = rank

    def _count_bad(self, key: str) -> None:
        self._bad[key] = self._bad.get(key, 0) + 1

    def finish(self, *, errors: int) -> DcgmPage:
        for gpu in self._gpus.values():
            _add_memory_total(gpu.values)
        gap = self._drop_traffic_gap()
        hostnames = {gpu.labels.get("hostname", "") for gpu in self._gpus.values()} - {""}
        drivers = [gpu.labels.get("dcgm_fi_driver_version") for gpu in self._gpus.values()]
        return DcgmPage(
            gpus=tuple(_reading(uuid, gpu) for uuid, gpu in self._gpus.items()),
            per_gpu={uuid: dict(gpu.raw) for uuid, gpu in self._gpus.items()},
            per_instance={
                f"{uuid}/{gi}": dict(instance.raw)
                for uuid, gpu in self._gpus.items()
                for gi, instance in gpu.instances.items()
            },
            families=frozenset(self._families),
            hostnames=frozenset(hostnames),
            driver=next((driver for driver in drivers if driver), None),
            bad_samples=dict(self._bad),
            blanks=self._blanks,
            errors=errors,
            xid_messages={uuid: gpu.labels["err_msg"] for uuid, gpu in self._gpus.items() if gpu.labels.get("err_msg")},
            traffic_gap=gap,
        )

    def _drop_traffic_gap(self) -> bool:
        """NVLink at 0 on every GPU while they work is a gap of telemetry, no statement about traffic."""
        gpus = list(self._gpus.values())
        seen = [gpu.values[key] for gpu in gpus for key in gpu.values if _name_of(key) in _NVLINK_TRAFFIC]
        if not seen or any(seen) or not _most_are_active(gpus):
            return False
        for gpu in gpus:
            for key in [key for key in gpu.values if _name_of(key) in _NVLINK_TRAFFIC]:
                del gpu.values[key]
                self._count_bad(key)
        return True


def _name_of(key: str) -> str:
    return key.partition("/")[0]


def _is_in_range(value: float, low: float | None, high: float | None) -> bool:
    return (low is None or value >= low) and (high is None or value <= high)


def _keep_mask(part: _Gpu, mask: int) -> None:
    for bit, reason in CLOCK_EVENT_BITS.items():
        part.values[sample_key("clock_event_active", reason)] = 1.0 if mask & bit else 0.0


def _most_are_active(gpus: list[_Gpu]) -> bool:
    active = sum(any(gpu.values.get(name, 0.0) >= least for name, least in _ACTIVITY) for gpu in gpus)
    return len(gpus) > 1 and active * 2 > len(gpus)


def _add_memory_total(values: dict[str, float]) -> None:
    """Total = free + used + reserved, where all three are known and the page does not give it."""
    parts = [values.get(f"memory_{part}_bytes") for part in ("free", "used", "reserved")]
    known = [part for part in parts if part is not None]
    if "memory_total_bytes" not in values and len(known) == 3:
        values["memory_total_bytes"] = sum(known)


def _reading(uuid: str, gpu: _Gpu) -> GpuReading:
    labels = gpu.labels
    holders = tuple(gpu.holders)
    index, minor = labels.get("gpu", ""), labels.get("device", "").removeprefix("nvidia")
    return GpuReading(
        info=GpuInfo(
            uuid=uuid,
            pci=canonical_pci(labels.get("pci_bus_id", "")),
            serial=labels.get("serial") or None,
            model=labels.get("modelname") or labels.get("model_name") or None,
            index=_whole(index),
            minor=_whole(minor),
            driver=labels.get("dcgm_fi_driver_version") or None,
            is_mig=bool(gpu.instances),
        ),
        values=gpu.values,
        instances=tuple(_instance(gi, instance) for gi, instance in sorted(gpu.instances.items())),
        holder=holders[0] if len(holders) == 1 else None,
        shared_by=holders if len(holders) > 1 else (),
    )


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else None


def _instance(gi: int, instance: _Gpu) -> MigReading:
    holders = tuple(instance.holders)
    return MigReading(
        gi=gi,
        profile=instance.profile,
        values=instance.values,
        holder=", ".join(holders) or None,
    )
