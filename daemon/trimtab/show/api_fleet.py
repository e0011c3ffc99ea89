"""What the fleet picture can be coloured by beside the board's own numbers: any metric of the last readings."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

from msgspec import Meta, Struct

from trimtab.model.cluster import GpuKey
from trimtab.model.window import Window
from trimtab.show.api_routes import ApiError, Call, People


class FleetMetric(Struct, frozen=True, kw_only=True):
    """A metric that some GPU has now, and how many have it."""

    name: str
    gpus: int


class FleetMetrics(Struct, frozen=True, kw_only=True):
    """What may be asked for as `metric`."""

    metrics: tuple[FleetMetric, ...]


class FleetValuesQuery(Struct, frozen=True, kw_only=True):
    """Which metric: a sample key, `pcie_transmit_bytes_per_second` or `ecc_errors_total/uncorrected`."""

    metric: Annotated[str, Meta(min_length=1, max_length=200)]


class FleetValues(Struct, frozen=True, kw_only=True):
    """The last value of each GPU, in the order of the board's nodes and cells; null = not known or not fresh."""

    metric: str
    gpus: int
    values: tuple[float | None, ...]


def fleet_metrics(people: People, call: Call) -> FleetMetrics:  # noqa: ARG001 - one shape for all handlers
    """What the GPUs have now, by name."""
    counts: Counter[str] = Counter()
    for now in _window(people).gpus.values():
        counts.update(now.reading.values.keys())
    return FleetMetrics(metrics=tuple(FleetMetric(name=name, gpus=counts[name]) for name in sorted(counts)))


def fleet_values(people: People, call: Call) -> FleetValues:
    """One metric of all GPUs; of a MIG instance its GPU's. A silent node's values are not told."""
    window, published = _window(people), people.box.latest()
    nodes = published.board.nodes if published else ()
    values = tuple(
        None if node.is_silent else _value(window, node.name, cell.uuid, call.query.metric)
        for node in nodes
        for cell in node.cells
    )
    return FleetValues(metric=call.query.metric, gpus=len(values), values=values)


def _value(window: Window, node: str, uuid: str, metric: str) -> float | None:
    for one in (uuid, uuid.partition("/")[0]):
        now = window.gpus.get(GpuKey(cluster=window.cluster, node=node, uuid=one))
        if now is not None:
            return now.value(metric)
    return None


def _window(people: People) -> Window:
    window = people.window() if people.window is not None else None
    if window is None:
        raise ApiError(503, "Nothing has been read yet. Try again in a few seconds.")
    return window
