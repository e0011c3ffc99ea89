"""Families of samples for prometheus_client: own metrics by name, GPU metrics by sample key, capped per node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.samples import Sample

from trimtab.model.metric import BY_NAME, CATALOGUE, Kind, split_key
from trimtab.model.metric import Metric as CatalogueMetric
from trimtab.model.reading import GpuReading, GpuState, MigReading
from trimtab.show.metrics_table import OWN, OWN_BY_NAME

SERIES_PER_NODE_MAX = 2500
"""An 8-GPU node with 18 NVLinks a GPU gives about 1,400."""

_LABEL_LENGTH_MAX = 128
_LINKS_MAX = 64


class Families:
    """Collects samples into families, and yields those that have any, in the order of the tables."""

    def __init__(self, *, series_per_node_max: int = SERIES_PER_NODE_MAX) -> None:
        """Empty."""
        self.dropped: Counter[tuple[str, str]] = Counter()
        """Series left out, by cluster and node; 0 for a node that is within its cap."""
        self._series_per_node_max = series_per_node_max
        self._per_node: Counter[tuple[str, str]] = Counter()
        self._own: dict[str, Metric] = {}
        self._gpu: dict[str, Metric] = {}

    def add(self, name: str, value: float | None, *labels: str) -> None:
        """One sample of an own metric; labels in the table's order. Absent values are not exported."""
        if value is None:
            return
        row = OWN_BY_NAME[name]
        family = self._own.get(name)
        if family is None:
            family = self._own[name] = _family(name, row.help, row.kind)
        named = {key: _label(text) for key, text in zip(row.labels, labels, strict=True)}
        family.samples.append(Sample(name, named, float(value)))

    def add_counts(self, name: str, counts: Mapping[str, float], *labels: str) -> None:
        """One sample for each key, which is the last label."""
        for key, value in sorted(counts.items()):
            self.add(name, value, *labels, key)

    def add_gpu(self, reading: GpuReading, *, cluster: str, node: str) -> None:
        """The values of one GPU and its MIG instances; beyond the node's cap they are counted instead."""
        where = {"cluster": cluster, "node": node, "gpu": reading.uuid}
        is_up = 1.0 if reading.state is GpuState.OK else 0.0
        self._add_values({**reading.values, "up": is_up}, where)
        for instance in reading.instances:
            self._add_values(instance.values, {**where, **instance_labels(instance)})

    def add_job(self, where: Mapping[str, str], *, job: str, queue: str) -> None:
        """Who holds a GPU or an instance. The label is not `job`, which is Prometheus's own for what it scrapes."""
        row = OWN_BY_NAME["trimtab_gpu_job_info"]
        family = self._own.setdefault(row.name, _family(row.name, row.help, row.kind))
        family.samples.append(Sample(row.name, {**where, "workload": _label(job), "queue": _label(queue)}, 1.0))

    def add_info(self, reading: GpuReading, *, cluster: str, node: str) -> None:
        """What describes a GPU."""
        info = reading.info
        texts = (info.index, info.model, info.pci, info.serial, info.minor, info.vbios, info.driver)
        labels = ("" if text is None else str(text) for text in texts)
        self.add("trimtab_gpu_info", 1.0, cluster, node, reading.uuid, *labels)

    def collect(self) -> Iterator[Metric]:
        """The families that have samples."""
        for row in OWN:
            if row.name in self._own:
                yield self._own[row.name]
        for metric in CATALOGUE:
            if metric.name in self._gpu:
                yield self._gpu[metric.name]

    def _add_values(self, values: Mapping[str, float], where: Mapping[str, str]) -> None:
        place = (where["cluster"], where["node"])
        self.dropped[place] += 0
        for key, value in values.items():
            name, label_value = split_key(key)
            metric = BY_NAME.get(name)
            if metric is None or not _is_label_known(metric, label_value):
                continue
            if self._per_node[place] >= self._series_per_node_max:
                self.dropped[place] += 1
                continue
            self._per_node[place] += 1
            labels = {**where, metric.label: label_value} if metric.label and label_value else dict(where)
            self._gpu_family(metric).samples.append(Sample(f"trimtab_gpu_{name}", labels, value))

    def _gpu_family(self, metric: CatalogueMetric) -> Metric:
        family = self._gpu.get(metric.name)
        if family is None:
            family = self._gpu[metric.name] = _family(f"trimtab_gpu_{metric.name}", metric.help, metric.kind)
        return family


def instance_labels(instance: MigReading) -> dict[str, str]:
    """`gi` and, where there is one, `ci`."""
    labels = {"gi": str(instance.gi)}
    return labels if instance.ci is None else {**labels, "ci": str(instance.ci)}


def holders_of(reading: GpuReading) -> Iterable[tuple[Mapping[str, str], str]]:
    """(instance labels, holder) of everything on the GPU that is held, as the source says."""
    names = reading.shared_by or ((reading.holder,) if reading.holder else ())
    yield from (({}, name) for name in names)
    yield from ((instance_labels(each), each.holder) for each in reading.instances if each.holder)


def timestamp(moment: datetime | None) -> float | None:
    """Unix seconds, as metrics carry moments."""
    return None if moment is None else moment.timestamp()


def _family(name: str, text: str, kind: Kind) -> Metric:
    if kind is Kind.COUNTER:
        return CounterMetricFamily(name.removesuffix("_total"), text)
    return GaugeMetricFamily(name, text)


def _is_label_known(metric: CatalogueMetric, label_value: str | None) -> bool:
    """Nothing from the wire makes up a label value: the catalogue's own, or the number of a link, or `all`."""
    if metric.label is None or label_value is None:
        return metric.label is None and label_value is None
    if metric.label_values:
        return label_value in metric.label_values
    return label_value == "all" or (label_value.isdecimal() and int(label_value) < _LINKS_MAX)


def _label(text: str) -> str:
    return text[:_LABEL_LENGTH_MAX]
