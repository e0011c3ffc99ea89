"""What a report from outside may hold at most: refuses with a path, cuts long texts, drops NaN and infinities."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from trimtab.model.metric import CATALOGUE, sample_key
from trimtab.model.reading import Event, GpuInfo, GpuReading, MigReading, Process, Report

NAME_CHARS_MAX = 253
"""As long as a Kubernetes name can be."""
HOLDER_CHARS_MAX = 2 * NAME_CHARS_MAX + 1
"""`namespace/pod`."""
TEXT_CHARS_MAX = 4096
GPUS_MAX = 64
EVENTS_MAX = 1000
VALUES_MAX = 512
INSTANCES_MAX = 64
PROCESSES_MAX = 4096
HOLDERS_MAX = 256
DETAILS_MAX = 64
ENTRIES_MAX = 1024
INTEGER_MAX = 2**63 - 1
"""Both databases hold 64-bit integers; a larger number would poison a whole commit."""

_KEY = re.compile(r"[a-z][a-z0-9_]*(/[\x21-\x7e]+)?")
_KNOWN_KEYS_MAX = 20_000
_known_keys: set[str] = {
    sample_key(metric.name, label) for metric in CATALOGUE for label in (metric.label_values or (None,))
}
"""Keys seen to be well formed: the check of a usual report is one set comparison. Bounded, grows with what is sent."""

_UNSEEN = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

V = TypeVar("V")


class Unfit(ValueError):
    """The report breaks a bound; `path` says where, as in `$[0].gpus[3].info.uuid`. Paths grow on the way up only."""

    def __init__(self, path: str, why: str) -> None:
        """Keep the place and the reason."""
        super().__init__(f"{path}: {why}")
        self.path = path
        self.why = why

    def within(self, outer: str) -> Unfit:
        """The same, seen from what holds it."""
        return Unfit(outer + self.path, self.why)


def fit(report: Report, path: str) -> Report:
    """The report within all bounds: texts cut, NaN and infinities dropped and counted. Raises Unfit."""
    try:
        return _fit_report(report)
    except Unfit as error:
        raise error.within(path) from None


def _fit_report(report: Report) -> Report:
    _check_head(report)
    dropped: dict[str, int] = {}
    changes: dict[str, Any] = {}
    gpus = _fit_each(report.gpus, ".gpus", GPUS_MAX, partial(_fit_gpu, dropped=dropped))
    if len({gpu.info.uuid for gpu in gpus}) < len(gpus):
        raise Unfit(".gpus", "two GPUs have the same uuid")
    _note(changes, "gpus", report.gpus, gpus)
    _note(changes, "events", report.events, _fit_each(report.events, ".events", EVENTS_MAX, _fit_event))
    _note(changes, "errors", report.errors, _fit_texts(report.errors, ".errors", ENTRIES_MAX))
    node_values = _fit_values(report.node_values, ".node_values", ENTRIES_MAX, dropped)
    _note(changes, "node_values", report.node_values, node_values)
    _note(changes, "sampled_at", report.sampled_at, _moment(report.sampled_at, ".sampled_at"))
    _check_counts(report.bad_samples)
    if dropped:
        counted = dict(report.bad_samples)
        for key, count in dropped.items():
            counted[key] = counted.get(key, 0) + count
        changes["bad_samples"] = counted
    return replace(report, **changes) if changes else report


def _note(changes: dict[str, Any], name: str, before: object, after: object) -> None:
    # Nearly every report is fit as it came; a copy is made only where something changed.
    if after is not before:
        changes[name] = after


def _check_head(report: Report) -> None:
    if not report.spool_id:
        raise Unfit(
            ".spool_id",
            "empty. Send an id made whenever the sequence starts at 1; without it a restart would look like duplicates",
        )
    for name in ("cluster", "node", "boot_id", "spool_id"):
        _check_name(getattr(report, name), f".{name}")
    optional = (report.agent_version, report.source, report.driver, report.metrics_url)
    _check_names(report, ("agent_version", "source", "driver", "metrics_url"), optional)
    if not 1 <= report.sequence <= INTEGER_MAX:
        raise Unfit(".sequence", "not within 1 and 2^63 - 1")
    _check_integers(report, ("gpus_expected",))


def _check_counts(counts: Mapping[str, int]) -> None:
    _check_length(counts, ".bad_samples", ENTRIES_MAX)
    for key, count in counts.items():
        _check_name(key, ".bad_samples")
        if not 0 <= count <= INTEGER_MAX:
            raise Unfit(f".bad_samples[{key!r}]", "not a count")


def _fit_gpu(gpu: GpuReading, dropped: dict[str, int]) -> GpuReading:
    try:
        _check_info(gpu.info)
    except Unfit as error:
        raise error.within(".info") from None
    changes: dict[str, Any] = {}
    _note(changes, "values", gpu.values, _fit_values(gpu.values, ".values", VALUES_MAX, dropped))
    if gpu.instances:
        fit_instance = partial(_fit_instance, dropped=dropped)
        _note(changes, "instances", gpu.instances, _fit_each(gpu.instances, ".instances", INSTANCES_MAX, fit_instance))
    if gpu.processes:
        _note(changes, "processes", gpu.processes, _fit_each(gpu.processes, ".processes", PROCESSES_MAX, _fit_process))
    _check_holder(gpu.holder, ".holder")
    if gpu.shared_by:
        _check_length(gpu.shared_by, ".shared_by", HOLDERS_MAX)
        for holder in gpu.shared_by:
            _check_holder(holder, ".shared_by")
    if gpu.read_seconds is not None and not math.isfinite(gpu.read_seconds):
        changes["read_seconds"] = None
        dropped["read_seconds"] = dropped.get("read_seconds", 0) + 1
    return replace(gpu, **changes) if changes else gpu


def _check_info(info: GpuInfo) -> None:
    if not info.uuid:
        raise Unfit(".uuid", "empty")
    names = (info.uuid, info.pci, info.serial, info.model, info.vbios, info.driver)
    _check_names(info, ("uuid", "pci", "serial", "model", "vbios", "driver"), names)
    _check_integers(info, ("index", "minor"))


def _fit_instance(instance: MigReading, dropped: dict[str, int]) -> MigReading:
    _check_integers(instance, ("gi", "ci"))
    _check_names(instance, ("profile",), (instance.profile,))
    _check_holder(instance.holder, ".holder")
    values = _fit_values(instance.values, ".values", VALUES_MAX, dropped)
    return instance if values is instance.values else replace(instance, values=values)


def _fit_process(process: Process) -> Process:
    _check_integers(process, ("pid", "memory_used_bytes"))
    name = _cut(process.name) if process.name else process.name
    return process if name is process.name else replace(process, name=name)


def _fit_event(event: Event) -> Event:
    _check_integers(event, ("code", "link", "pid", "gi", "count"))
    names = (event.gpu, event.pci, event.boot_id, event.severity, event.subcode, event.engine)
    _check_names(event, ("gpu", "pci", "boot_id", "severity", "subcode", "engine"), names)
    changes: dict[str, Any] = {}
    for name in ("text", "cursor", "process_name"):
        value = getattr(event, name)
        if value:
            _note(changes, name, value, _cut(value))
    _note(changes, "details", event.details, _fit_texts(event.details, ".details", DETAILS_MAX))
    _note(changes, "at", event.at, _moment(event.at, ".at"))
    return replace(event, **changes) if changes else event


def _fit_each(items: tuple[V, ...], name: str, items_max: int, fit_one: Callable[[V], V]) -> tuple[V, ...]:
    _check_length(items, name, items_max)
    fitted: list[V] = []
    for item in items:
        try:
            fitted.append(fit_one(item))
        except Unfit as error:
            raise error.within(f"{name}[{len(fitted)}]") from None
    is_same = all(map(operator.is_, fitted, items))
    return items if is_same else tuple(fitted)


def _fit_values(
    values: Mapping[str, float], path: str, values_max: int, dropped: dict[str, int]
) -> Mapping[str, float]:
    _check_length(values, path, values_max)
    if not values.keys() <= _known_keys:
        _check_keys(values, path)
    # The sum is finite only if every value is (or, for absurd values, is not: then the slow way decides).
    if math.isfinite(sum(values.values())):
        return values
    kept = {key: value for key, value in values.items() if math.isfinite(value)}
    for key in values.keys() - kept.keys():
        dropped[key] = dropped.get(key, 0) + 1
    return kept if len(kept) < len(values) else values


def _check_keys(values: Mapping[str, float], path: str) -> None:
    for key in values.keys() - _known_keys:
        if len(key) > NAME_CHARS_MAX or not _KEY.fullmatch(key):
            raise Unfit(f"{path}[{key[:80]!r}]", "not a sample key such as `power_watts` or `nvlink_up/3`")
        if len(_known_keys) < _KNOWN_KEYS_MAX:
            _known_keys.add(key)


def _fit_texts(texts: Mapping[str, str], path: str, entries_max: int) -> Mapping[str, str]:
    if not texts:
        return texts
    _check_length(texts, path, entries_max)
    for key in texts:
        _check_name(key, path)
    cut = {key: _cut(text) for key, text in texts.items()}
    is_same = all(cut[key] is text for key, text in texts.items())
    return texts if is_same else cut


def _cut(text: str) -> str:
    """The text without what ends a line, steers a terminal or turns a text round, and not longer than the bound."""
    if not text.isprintable():
        text = _UNSEEN.sub("\N{REPLACEMENT CHARACTER}", text)
    return text if len(text) <= TEXT_CHARS_MAX else text[: TEXT_CHARS_MAX - 1] + "…"


def _moment(moment: datetime, path: str) -> datetime:
    if moment.tzinfo is None:
        raise Unfit(path, "a moment without its zone. Write it as in 2026-11-02T09:00:00Z")
    if moment.tzinfo is UTC:
        return moment
    try:
        return moment.astimezone(UTC)
    except OverflowError as error:
        raise Unfit(path, "not a moment of this calendar in UTC") from error


def _check_names(holder: object, names: Iterable[str], values: tuple[str | None, ...]) -> None:
    joined = "".join([value for value in values if value])
    # Together no longer than one may be, and printable: so is each of them. Nearly all reports end here.
    if len(joined) <= NAME_CHARS_MAX and joined.isprintable():
        return
    for name in names:
        value = getattr(holder, name)
        if value:
            _check_name(value, f".{name}")


def _check_name(name: str, path: str) -> None:
    if not name:
        raise Unfit(path, "empty")
    _check_length(name, path, NAME_CHARS_MAX)
    _check_printable(name, path)


def _check_holder(holder: str | None, path: str) -> None:
    if holder is not None:
        _check_length(holder, path, HOLDER_CHARS_MAX)
        _check_printable(holder, path)


def _check_printable(name: str, path: str) -> None:
    if not name.isprintable():
        raise Unfit(path, "control characters in a name")


def _check_length(held: Collection[object] | str, path: str, length_max: int) -> None:
    if len(held) > length_max:
        what = "characters" if isinstance(held, str) else "entries"
        raise Unfit(path, f"{len(held)} {what}, and {length_max} are the most")


def _check_integers(holder: object, names: Iterable[str]) -> None:
    for name in names:
        number = getattr(holder, name)
        if number is not None and not -INTEGER_MAX <= number <= INTEGER_MAX:
            raise Unfit(f".{name}", "a number of more than 64 bits")
