"""Windows as the detectors see them, built around the few things that a test is about."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from tests.builders import CLUSTER, a_node, a_reading, a_snapshot, a_window, a_workload, gpu_uuid
from tests.fakes.clock import START

from trimtab.model.cluster import ClusterSnapshot, GpuKey
from trimtab.model.reading import Event, GpuReading
from trimtab.model.window import Series, Window


def key(node: str, index: int) -> GpuKey:
    return GpuKey(cluster=CLUSTER, node=node, uuid=gpu_uuid(node, index))


def readings(node: str = "gpu-07", *, gpus: int = 8, **changes: Any) -> list[GpuReading]:
    return [a_reading(node, index, **changes) for index in range(gpus)]


def with_values(found: list[GpuReading], index: int, **values: float) -> list[GpuReading]:
    """The readings with some values of one GPU set."""
    changed = list(found)
    changed[index] = replace(found[index], values={**found[index].values, **values})
    return changed


def with_reading(found: list[GpuReading], index: int, **changes: Any) -> list[GpuReading]:
    changed = list(found)
    changed[index] = replace(found[index], **changes)
    return changed


def with_node(window: Window, name: str, **changes: Any) -> Window:
    """The window with some facts of one node's reporting set."""
    return replace(window, nodes={**window.nodes, name: replace(window.nodes[name], **changes)})


def stale(window: Window, name: str, *, seconds: float) -> Window:
    """The window with one node that was last heard so long ago, its readings included."""
    then = window.at - timedelta(seconds=seconds)
    gpus = {
        each: replace(now, at=then, received_at=then) if each.node == name else now for each, now in window.gpus.items()
    }
    return with_node(replace(window, gpus=gpus), name, received_at=then, sampled_at=then)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def a_job_window(
    *, nodes: int = 4, events: Iterable[tuple[str, Event]] = (), seen_at: datetime = START, **workload: Any
) -> Window:
    """One gang, llama-70b, on gpu-00 … with 8 GPUs each."""
    names = [f"gpu-{number:02}" for number in range(nodes)]
    gang = a_workload("llama-70b", on={name: range(8) for name in names}, **workload)
    return a_window(
        {name: readings(name) for name in names},
        events=events,
        snapshot=a_snapshot([a_node(name) for name in names], [gang]),
        at=seen_at,
    )


def series_of(
    values: Mapping[str, Mapping[GpuKey, Any]], *, end: datetime, seconds: float = 900.0, step_seconds: float = 10.0
) -> dict[str, Series]:
    """Metric -> GPU -> a constant or one value a row, over `seconds` before `end`."""
    rows = round(seconds / step_seconds) + 1
    moments = end.timestamp() - step_seconds * np.arange(rows)[::-1]
    gpus = tuple(dict.fromkeys(gpu for by_gpu in values.values() for gpu in by_gpu))
    found = {}
    for metric, by_gpu in values.items():
        block = np.full((rows, len(gpus)), np.nan, dtype=np.float32)
        for column, gpu in enumerate(gpus):
            if gpu in by_gpu:
                block[:, column] = by_gpu[gpu]
        found[metric] = Series(gpus=gpus, at_seconds=moments, values=block)
    return found


def without_snapshot(window: Window) -> Window:
    return replace(window, snapshot=None)


def with_snapshot(window: Window, snapshot: ClusterSnapshot | None) -> Window:
    return replace(window, snapshot=snapshot)
