"""Roll-ups as data: which metrics are rolled up, how they are kept as whole numbers, and the three tiers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from trimtab.model.past import GpuTimeState

STATISTICS = ("min", "mean", "max", "p95")
IDLE_RATIO = 0.01
"""Under this activity nothing worth the name ran; the fleet picture's own limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RolledMetric:
    """One metric of the roll-ups. In SQL a whole number of `stored_unit`s, `per_unit` of which make one base unit.

    `keys` are sample keys, best first; the first that a reading has counts. Where none of them is there, the sum of
    `parts` does, if all of those are.
    """

    stem: str
    unit: str
    keys: tuple[str, ...]
    stored_unit: str
    per_unit: float
    parts: tuple[str, ...] = ()
    is_small: bool = False
    """Whether 16 bits suffice."""

    @property
    def name(self) -> str:
        """`sm_clock_hertz`: as the API and the views call it."""
        return f"{self.stem}_{self.unit}"

    def stored(self, statistic: str) -> str:
        """The column of a statistic: `sm_clock_mean_megahertz`."""
        return f"{self.stem}_{statistic}_{self.stored_unit}"

    def shown(self, statistic: str) -> str:
        """The same in a view: `sm_clock_mean_hertz`."""
        return f"{self.stem}_{statistic}_{self.unit}"

    @property
    def samples(self) -> str:
        """The column that counts its samples."""
        return f"{self.stem}_samples"


ROLLED: tuple[RolledMetric, ...] = (
    RolledMetric(
        stem="activity",  # SM activity, else engine activity, else utilisation: as the fleet picture takes it
        unit="ratio",
        keys=("sm_active_ratio", "graphics_engine_active_ratio", "utilization_ratio"),
        stored_unit="permille",
        per_unit=1e3,
        is_small=True,
    ),
    RolledMetric(
        stem="dram_active",
        unit="ratio",
        keys=("dram_active_ratio",),
        stored_unit="permille",
        per_unit=1e3,
        is_small=True,
    ),
    RolledMetric(stem="power", unit="watts", keys=("power_watts",), stored_unit="deciwatts", per_unit=10.0),
    RolledMetric(
        stem="temperature",
        unit="celsius",
        keys=("temperature_celsius",),
        stored_unit="decicelsius",
        per_unit=10.0,
        is_small=True,
    ),
    RolledMetric(stem="sm_clock", unit="hertz", keys=("sm_clock_hertz",), stored_unit="megahertz", per_unit=1e-6),
    RolledMetric(
        stem="memory_used",
        unit="bytes",
        keys=("memory_used_bytes",),
        stored_unit="mebibytes",
        per_unit=1.0 / 1048576.0,
    ),
    RolledMetric(
        stem="nvlink",
        unit="bytes_per_second",
        keys=("nvlink_throughput_bytes_per_second",),
        parts=("nvlink_transmit_bytes_per_second", "nvlink_receive_bytes_per_second"),
        stored_unit="megabytes_per_second",
        per_unit=1e-6,
    ),
    RolledMetric(
        stem="pcie",
        unit="bytes_per_second",
        keys=(),
        parts=("pcie_transmit_bytes_per_second", "pcie_receive_bytes_per_second"),
        stored_unit="kilobytes_per_second",
        per_unit=1e-3,
    ),
)
"""What is rolled up, in the order of the columns."""

BY_ROLLED_NAME: Mapping[str, RolledMetric] = {metric.name: metric for metric in ROLLED}
BY_SAMPLE_KEY: Mapping[str, RolledMetric] = {key: metric for metric in ROLLED for key in (metric.name, *metric.keys)}
"""A sample key, or the rolled-up name itself -> what stands for it in the roll-ups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tier:
    """One fineness of roll-ups."""

    name: str
    seconds: int

    @property
    def ms(self) -> int:
        """Its step in milliseconds."""
        return self.seconds * 1000

    def floor_ms(self, at_ms: int) -> int:
        """Begin of the step that a moment is in."""
        return at_ms - at_ms % self.ms


MINUTE = Tier(name="1m", seconds=60)
QUARTER = Tier(name="15m", seconds=900)
HOUR = Tier(name="1h", seconds=3600)
TIERS: tuple[Tier, ...] = (MINUTE, QUARTER, HOUR)
"""Finest first."""

STATES: tuple[GpuTimeState, ...] = tuple(GpuTimeState)
"""In the order of their columns."""


def state_column(state: GpuTimeState) -> str:
    """The column of GPU-milliseconds in a state: `held_idle_ms`."""
    return f"{state.value}_ms"


class Standing(IntEnum):
    """What a GPU is for its scheduler, as the roll-ups keep it: with a sample it gives the state."""

    UNBOOKED = 0
    """Nobody says who holds what: busy is working, the rest is unknown."""
    HELD = 1
    FREE = 2
    STRANDED = 3
    SPARE = 4
    OUT_OF_SERVICE = 5


STATE_OF_STANDING: Mapping[Standing, GpuTimeState] = {
    Standing.FREE: GpuTimeState.FREE,
    Standing.STRANDED: GpuTimeState.STRANDED,
    Standing.SPARE: GpuTimeState.SPARE,
    Standing.OUT_OF_SERVICE: GpuTimeState.OUT_OF_SERVICE,
}
"""What a GPU that can be read and that nobody holds does with its time."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Tenure:
    """Who has a GPU, and under which finding (the rule of the one that marks it): what GPU-time is counted by."""

    workload: str = ""
    queue: str = ""
    owner: str = ""
    cause: str = ""
