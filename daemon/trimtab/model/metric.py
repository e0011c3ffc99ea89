"""The metric catalogue: every per-GPU metric, its unit, kind and aliases, as one literal table.

Read by the collectors (what to fetch, how to convert), by the exposition and by the detectors.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """How a metric's values relate over time."""

    GAUGE = "gauge"
    COUNTER = "counter"


class Cadence(StrEnum):
    """How often a metric is read: every tick, every minute, or once and on change."""

    CHEAP = "cheap"
    EXPENSIVE = "expensive"
    STATIC = "static"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alias:
    """A name under which dcgm-exporter publishes this metric, and the factor to our base unit.

    `scale` converts the exporter's number into ours (MiB to bytes = 1048576, percent to ratio = 0.01).
    `label_value` is the value of our `label` that this alias stands for, where the metric has one.
    """

    name: str
    scale: float = 1.0
    label_value: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One row of the catalogue. `name` is without the `trimtab_gpu_` prefix; its last word is the unit."""

    name: str
    unit: str
    kind: Kind
    nvml: str
    help: str
    cadence: Cadence = Cadence.CHEAP
    label: str | None = None
    label_values: tuple[str, ...] = ()
    dcgm: tuple[Alias, ...] = ()
    minimum: float | None = 0.0
    maximum: float | None = None
    is_per_instance: bool = False
