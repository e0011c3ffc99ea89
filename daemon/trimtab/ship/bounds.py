"""What a report from outside may hold at most: refuses with a path, cuts long texts, drops NaN and infinities."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime
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

V = TypeVar("V")


class Unfit(ValueError):
    """The report breaks a bound; `path` says where, as in `$[0].gpus[3].info.uuid`."""

    def __init__(self, path: str, why: str) -> None:
        """Keep the place and the reason."""
        super().__init__(f"{path}: {why}")
        self.path = path


def fit(report: Report, path: str) -> Report:
    """The report within all bounds: texts cut, NaN and infinities dropped and counted. Raises Unfit."""
    _check_head(report, path)
    dropped: dict[str, int] = {}
    gpus = _fit_each(report.gpus, f"{path}.gpus", GPUS_MAX, lambda gpu, at: _fit_gpu(gpu, at, dropped))
    if len({gpu.info.uuid for gpu in gpus}) < len(gpus):
        raise Unfit(f"{path}.gpus", "two GPUs have the same uuid")
    events = _fit_each(report.events, f"{path}.events", EVENTS_MAX, _fit_event)
    changes: dict[str, Any] = {}
    _note(changes, "gpus", report.gpus, gpus)
    _note(changes, "events", report.events, events)
    _note(changes, "errors", report.errors, _fit_texts(report.errors, f"{path}.errors", ENTRIES_MAX))
    node_values = _fit_values(report.node_values, f"{path}.node_values", ENTRIES_MAX, dropped)
    _note(changes, "node_values", report.node_values, node_values)
    _note(changes, "sampled_at", report.sampled_at, _moment(report.sampled_at, f"{path}.sampled_at"))
    _check_counts(report.bad_samples, f"{path}.bad_samples")
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


def _check_head(report: Report, path: str) -> None:
    for name in ("cluster", "node", "boot_id"):
        _check_name(getattr(report, name), f"{path}.{name}")
    if not report.spool_id:
        raise Unfit(
            f"{path}.spool_id",
            "empty. Send an id made whenever the sequence starts at 1; without it a restart would look like duplicates",
        )
    for name in ("spool_id", "agent_version", "source", "driver"):
        _check_name(getattr(report, name) or "-", f"{path}.{name}")
    if not 1 <= report.sequence <= INTEGER_MAX:
        raise Unfit(f"{path}.sequence", "not within 1 and 2^63 - 1")
    _check_integers({"gpus_expected": report.gpus_expected}, path)


def _check_counts(counts: Mapping[str, int], path: str) -> None:
    _check_length(counts, path, ENTRIES_MAX)
    for key, count in counts.items():
        _check_name(key, path)
        if not 0 <= count <= INTEGER_MAX:
            raise Unfit(f"{path}[{key!r}]", "not a count")


def _fit_gpu(gpu: GpuReading, path: str, dropped: dict[str, int]) -> GpuReading:
    _check_info(gpu.info, f"{path}.info")
    changes: dict[str, Any] = {}
    _note(changes, "values", gpu.values, _fit_values(gpu.values, f"{path}.values", VALUES_MAX, dropped))
    instances = _fit_each(
        gpu.instances, f"{path}.instances", INSTANCES_MAX, lambda instance, at: _fit_instance(instance, at, dropped)
    )
    _note(changes, "instances", gpu.instances, instances)
    if gpu.processes:
        processes = _fit_each(gpu.processes, f"{path}.processes", PROCESSES_MAX, _fit_process)
        _note(changes, "processes", gpu.processes, processes)
    _check_holder(gpu.holder, f"{path}.holder")
    _check_length(gpu.shared_by, f"{path}.shared_by", HOLDERS_MAX)
    for index, holder in enumerate(gpu.shared_by):
        _check_holder(holder, f"{path}.shared_by[{index}]")
    if gpu.read_seconds is not None and not math.isfinite(gpu.read_seconds):
        changes["read_seconds"] = None
        dropped["read_seconds"] = dropped.get("read_seconds", 0) + 1
    return replace(gpu, **changes) if changes else gpu


def _check_info(info: GpuInfo, path: str) -> None:
    _check_name(info.uuid, f"{path}.uuid")
    for name in ("pci", "serial", "model", "vbios", "driver"):
        value = getattr(info, name)
        if value is not None:
            _check_length(value, f"{path}.{name}", NAME_CHARS_MAX)
            _check_printable(value, f"{path}.{name}")
    _check_integers({"index": info.index, "minor": info.minor}, path)


def _fit_instance(instance: MigReading, path: str, dropped: dict[str, int]) -> MigReading:
    _check_integers({"gi": instance.gi, "ci": instance.ci}, path)
    _check_name(instance.profile or "-", f"{path}.profile")
    _check_holder(instance.holder, f"{path}.holder")
    values = _fit_values(instance.values, f"{path}.values", VALUES_MAX, dropped)
    return instance if values is instance.values else replace(instance, values=values)


def _fit_process(process: Process, path: str) -> Process:
    _check_integers({"pid": process.pid, "memory_used_bytes": process.memory_used_bytes}, path)
    name = _cut(process.name) if process.name else process.name
    return process if name is process.name else replace(process, name=name)


def _fit_event(event: Event, path: str) -> Event:
    numbers = {name: getattr(event, name) for name in ("code", "link", "pid", "gi", "count")}
    _check_integers(numbers, path)
    for name in ("gpu", "pci", "boot_id", "severity", "subcode", "engine"):
        value = getattr(event, name)
        if value is not None:
            _check_length(value, f"{path}.{name}", NAME_CHARS_MAX)
            _check_printable(value, f"{path}.{name}")
    changes: dict[str, Any] = {}
    for name in ("text", "cursor", "process_name"):
        value = getattr(event, name)
        if value:
            _note(changes, name, value, _cut(value))
    _note(changes, "details", event.details, _fit_texts(event.details, f"{path}.details", DETAILS_MAX))
    _note(changes, "at", event.at, _moment(event.at, f"{path}.at"))
    return replace(event, **changes) if changes else event


def _fit_each(items: tuple[V, ...], path: str, items_max: int, fit_one: Callable[[V, str], V]) -> tuple[V, ...]:
    if not items:
        return items
    _check_length(items, path, items_max)
    fitted = tuple([fit_one(item, f"{path}[{index}]") for index, item in enumerate(items)])
    is_same = all(after is before for after, before in zip(fitted, items, strict=True))
    return items if is_same else fitted


def _fit_values(
    values: Mapping[str, float], path: str, values_max: int, dropped: dict[str, int]
) -> Mapping[str, float]:
    if not values:
        return values
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
    """The text without NUL, which PostgreSQL refuses, and not longer than the bound."""
    if "\0" in text:
        text = text.replace("\0", "\N{REPLACEMENT CHARACTER}")
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


def _check_integers(numbers: Mapping[str, int | None], path: str) -> None:
    for name, number in numbers.items():
        if number is not None and not -INTEGER_MAX <= number <= INTEGER_MAX:
            raise Unfit(f"{path}.{name}", "a number of more than 64 bits")
