"""The same values under dcgm-exporter's names, units, types and labels, so that its dashboards go on working.

Names come from the catalogue's aliases: the first one of each is the name that stock dashboards ask for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from trimtab.model.metric import ALL_LINKS, CATALOGUE, CLOCK_EVENT_BITS, CLOCK_EVENT_MASK_ALIASES, Kind, split_key
from trimtab.model.metric import Metric as CatalogueMetric
from trimtab.model.reading import GpuReading, MigReading

XID_NAME = "DCGM_FI_DEV_XID_ERRORS"
"""A gauge that holds the last code seen, for ever: no count, and no function of a counter means anything on it."""

# Types are those of dcgm-exporter's own list of counters, also where its choice is odd (a bandwidth as a counter).
_COUNTERS_THERE = frozenset(
    {
        "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL",
        "DCGM_FI_DEV_ECC_SBE_AGG_TOTAL",
        "DCGM_FI_DEV_ECC_DBE_AGG_TOTAL",
        "DCGM_FI_DEV_RETIRED_SBE",
        "DCGM_FI_DEV_RETIRED_DBE",
        "DCGM_FI_DEV_RETIRED_PENDING",
        "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS",
        "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS",
    }
)


def _names() -> Mapping[tuple[str, str | None], tuple[str, float, CatalogueMetric]]:
    """(metric, label value) -> the alias to publish, its scale, and the metric."""
    found: dict[tuple[str, str | None], tuple[str, float, CatalogueMetric]] = {}
    for metric in CATALOGUE:
        for alias in metric.dcgm:
            found.setdefault((metric.name, alias.label_value), (alias.name, alias.scale, metric))
    return found


_NAMES = _names()
COUNTER_NAMES = frozenset(
    name for name, _, metric in _NAMES.values() if metric.kind is Kind.COUNTER or name in _COUNTERS_THERE
)
"""What dcgm-exporter calls a counter, though most of these names lack `_total`."""


class DcgmFamilies:
    """Collects samples under dcgm-exporter's names."""

    def __init__(self) -> None:
        """Empty."""
        self._families: dict[str, Metric] = {}

    def add(self, reading: GpuReading, *, node: str, last_xid: int | None = None) -> None:
        """One GPU and its MIG instances. `last_xid` is the last code that was seen on it, where no source says."""
        labels = _labels(reading, node)
        held = {**labels, **_holder(reading.holder)}
        values = _values(reading.values)
        if XID_NAME not in values:
            values[XID_NAME] = float(last_xid or 0)
        for name, value in values.items():
            self._add(name, value, held)
        for instance in reading.instances:
            where = {**labels, **_instance(instance), **_holder(instance.holder)}
            for name, value in _values(instance.values).items():
                self._add(name, value, where)

    def collect(self) -> Iterator[Metric]:
        """The families, in the order of their names."""
        for name in sorted(self._families):
            yield self._families[name]

    def _add(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        family = self._families.get(name)
        if family is None:
            # prometheus_client would call a counter `…_total`; see `with_counters`.
            kind = "unknown" if name in COUNTER_NAMES else "gauge"
            family = self._families[name] = Metric(name, f"{_HELP.get(name, name)} As dcgm-exporter names it.", kind)
        family.samples.append(Sample(name, dict(labels), value))


def with_counters(text: bytes) -> bytes:
    """A page in the classic format with dcgm-exporter's type for its counters. OpenMetrics would refuse the names."""
    lines = text.split(b"\n")
    for place, line in enumerate(lines):
        if line.startswith(b"# TYPE DCGM_") and line.endswith(b" untyped"):
            lines[place] = line.removesuffix(b"untyped") + b"counter"
    return b"\n".join(lines)


_HELP = {name: metric.help for name, _, metric in _NAMES.values()}


def _values(values: Mapping[str, float]) -> dict[str, float]:
    found: dict[str, float] = {}
    links: dict[str, float] = {}
    mask = None
    for key, value in values.items():
        name, label = split_key(key)
        if name == "clock_event_active":
            mask = (mask or 0) | (_BITS.get(label or "", 0) if value else 0)
        elif (known := _NAMES.get((name, label))) is not None:
            found.setdefault(known[0], _there(value, known[1]))
        elif label is not None and label.isdecimal() and (name, ALL_LINKS) in _NAMES:
            links[name] = links.get(name, 0.0) + value
    for name, total in links.items():
        alias, scale, metric = _NAMES[name, ALL_LINKS]
        if metric.kind is Kind.COUNTER:  # a sum of ratios or states over links would mean nothing
            found.setdefault(alias, _there(total, scale))
    if mask is not None:
        found |= dict.fromkeys(CLOCK_EVENT_MASK_ALIASES, float(mask))
    return found


_BITS = {reason: bit for bit, reason in CLOCK_EVENT_BITS.items()}


def _there(value: float, scale: float) -> float:
    """In dcgm-exporter's unit; where it converts, it publishes whole numbers (percent, MiB, MHz, mJ)."""
    return value if scale == 1.0 else float(round(value / scale))


def _labels(reading: GpuReading, node: str) -> dict[str, str]:
    info = reading.info
    minor = info.minor if info.minor is not None else info.index
    texts = {
        "gpu": "" if info.index is None else str(info.index),
        "UUID": info.uuid,
        "pci_bus_id": _pci(info.pci),
        "device": "" if minor is None else f"nvidia{minor}",
        "modelName": info.model or "",
        "Hostname": node,
        "DCGM_FI_DRIVER_VERSION": info.driver or "",
    }
    return {name: text[:128] for name, text in texts.items() if text}


def _pci(pci: str | None) -> str:
    """With eight digits of domain, as DCGM writes it."""
    domain, _, rest = (pci or "").partition(":")
    return f"{domain.upper():0>8}:{rest.upper()}" if rest else ""


def _holder(holder: str | None) -> dict[str, str]:
    """`namespace/pod` as Kubernetes' labels; any other name is a batch job's."""
    if not holder:
        return {}
    namespace, slash, pod = holder.partition("/")
    return {"namespace": namespace[:128], "pod": pod[:128]} if slash else {"hpc_job": holder[:128]}


def _instance(instance: MigReading) -> dict[str, str]:
    labels = {"GPU_I_ID": str(instance.gi)}
    return {**labels, "GPU_I_PROFILE": instance.profile[:128]} if instance.profile else labels
