"""Power, heat, clocks and counters of all GPUs at once: load draws power, power heats, heat takes clock away."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

CLOCK_MAX_MHZ = 1980.0
CLOCK_IDLE_MHZ = 345.0
MEMORY_CLOCK_MHZ = 2619
POWER_LIMIT_WATTS = 700.0
SLOWDOWN_CELSIUS = 87.0
MEMORY_TOTAL_BYTES = 81559 * 1024 * 1024
MEMORY_RESERVED_BYTES = 551 * 1024 * 1024
NVLINKS = 18

BIT_IDLE, BIT_SW_POWER_CAP, BIT_HW_SLOWDOWN, BIT_HW_THERMAL = 0x1, 0x4, 0x8, 0x40

_IDLE_WATTS = 71.0
_INLET_CELSIUS = 25.0
_CELSIUS_PER_WATT = 0.052
_POWER_LAG_SECONDS = 2.0
_HEAT_LAG_SECONDS = 45.0
_FAN_LAG_SECONDS = 25.0
_NOISE_LAG_SECONDS = 30.0
_POWER_CLOCK_EXPONENT = 2.2
"""Power falls faster than clock, since voltage falls with it."""
_THROTTLE_TARGET_CELSIUS = SLOWDOWN_CELSIUS - 1
_THROTTLE_GAIN, _THROTTLE_DAMPING = 0.0012, 0.018
"""Clock taken away per second: for each degree too many, and for each degree per second of rise."""
_CLOCK_RATIO_MIN = 0.35


@dataclass(slots=True)
class Load:
    """What the jobs ask of each GPU in one step; arrays over all GPUs."""

    is_held: Bools
    utilization: Floats
    sm_active: Floats
    tensor_active: Floats
    dram_active: Floats
    power: Floats
    memory: Floats
    nvlink_bytes_per_second: Floats
    pcie_bytes_per_second: Floats

    @classmethod
    def idle(cls, gpus: int) -> Load:
        """Nothing held, nothing asked."""
        return cls(np.zeros(gpus, bool), *(np.zeros(gpus) for _ in range(8)))


@dataclass(frozen=True, slots=True)
class Telemetry:
    """What every GPU shows after a step, as plain lists by column: read without a lock, replaced whole."""

    utilization_percent: list[int]
    memory_utilization_percent: list[int]
    sm_active: list[float]
    sm_occupancy: list[float]
    tensor_active: list[float]
    dram_active: list[float]
    memory_used_bytes: list[int]
    temperature_celsius: list[int]
    memory_temperature_celsius: list[int]
    power_milliwatts: list[int]
    energy_millijoules: list[int]
    sm_clock_mhz: list[int]
    clock_event_bits: list[int]
    power_cap_ns: list[int]
    hw_thermal_ns: list[int]
    nvlink_kib: list[int]
    nvlink_bytes_per_second: list[float]
    pcie_transmit_bytes: list[int]
    pcie_receive_bytes: list[int]
    pcie_bytes_per_second: list[float]
    ecc_corrected: list[int]


class Physics:
    """The state of all GPUs; `step` moves it on. The same seed and loads give the same numbers."""

    def __init__(self, *, gpus: int, seed: int) -> None:
        """All idle and cool, each GPU a little different from the next."""
        self._random = np.random.default_rng([seed, 7])
        draw = self._random.normal
        self._idle_watts: Floats = _IDLE_WATTS + draw(0, 2.5, gpus)
        self._celsius_per_watt: Floats = _CELSIUS_PER_WATT * (1 + draw(0, 0.05, gpus))
        self._inlet: Floats = _INLET_CELSIUS + draw(0, 0.8, gpus)
        self._hunger: Floats = 1 + draw(0, 0.015, gpus)
        self._noise: Floats = np.zeros(gpus)
        self._cooling_loss: Floats = np.ones(gpus)
        self.cooling_loss_target: Floats = np.ones(gpus)
        """1 = all fans turn; 4.8 = this GPU's fans stand still."""
        self.power: Floats = self._idle_watts.copy()
        self.temperature: Floats = self._inlet + self._celsius_per_watt * self.power
        self.clock_ratio: Floats = np.ones(gpus)
        """Share of the highest clock that heat leaves to a busy GPU; its pace."""
        self._is_throttled: Bools = np.zeros(gpus, bool)
        self._energy: Floats = self._random.uniform(1e9, 9e9, gpus)
        self._power_cap_seconds: Floats = np.zeros(gpus)
        self._hw_thermal_seconds: Floats = np.zeros(gpus)
        self._nvlink_bytes: Floats = self._random.uniform(1e14, 9e14, gpus)
        self._pcie_bytes: Floats = self._random.uniform(1e13, 5e13, gpus)
        self._ecc_corrected: NDArray[np.int64] = self._random.poisson(0.15, gpus)
        self._load = Load.idle(gpus)
        self.telemetry = self._publish()

    def step(self, load: Load, seconds: float) -> None:
        """Move on by `seconds` under this load."""
        self._load = load
        lag = math.exp(-seconds / _NOISE_LAG_SECONDS)
        self._noise = self._noise * lag + self._random.standard_normal(len(self._noise)) * math.sqrt(1 - lag * lag)
        self._cooling_loss += (self.cooling_loss_target - self._cooling_loss) * _share(seconds, _FAN_LAG_SECONDS)
        self._step_power(load, seconds)
        resistance = self._celsius_per_watt * self._cooling_loss
        heat_target = self._inlet + resistance * self.power
        rise = (heat_target - self.temperature) * _share(seconds, _HEAT_LAG_SECONDS)
        self.temperature += rise
        self._step_clocks(rise / seconds, seconds)
        self._count(load, seconds)

    def publish(self) -> None:
        """Make the present state readable."""
        self.telemetry = self._publish()

    def _step_power(self, load: Load, seconds: float) -> None:
        span = POWER_LIMIT_WATTS - self._idle_watts
        wobble = 1 + 0.02 * self._noise
        asked = load.power * self._hunger * wobble * self.clock_ratio**_POWER_CLOCK_EXPONENT
        target = np.minimum(self._idle_watts + span * asked, POWER_LIMIT_WATTS)
        self.power += (target - self.power) * _share(seconds, _POWER_LAG_SECONDS)

    def _step_clocks(self, rise_per_second: Floats, seconds: float) -> None:
        """Above the limit the clock is taken down until the temperature holds just under it."""
        too_hot = self.temperature - _THROTTLE_TARGET_CELSIUS
        is_over = self.temperature >= SLOWDOWN_CELSIUS
        is_well = (self.clock_ratio >= 0.995) & (too_hot < -2)
        self._is_throttled = is_over | (self._is_throttled & ~is_well)
        pressed = -_THROTTLE_GAIN * too_hot - _THROTTLE_DAMPING * rise_per_second
        change = np.where(self._is_throttled, pressed, 0.01) * seconds
        self.clock_ratio = np.clip(self.clock_ratio + change, _CLOCK_RATIO_MIN, 1.0)

    def _count(self, load: Load, seconds: float) -> None:
        self._energy += self.power * seconds
        self._power_cap_seconds += seconds * self._is_capped()
        self._hw_thermal_seconds += seconds * self._is_throttled
        self._nvlink_bytes += load.nvlink_bytes_per_second * seconds
        self._pcie_bytes += load.pcie_bytes_per_second * seconds
        self._ecc_corrected += self._random.poisson(seconds * 2e-7, len(self._noise))

    def _is_capped(self) -> Bools:
        capped: Bools = self.power >= POWER_LIMIT_WATTS - 6
        return capped

    def _publish(self) -> Telemetry:
        load, noise = self._load, self._noise
        is_busy = load.power > 0.02
        clock = np.where(is_busy, CLOCK_MAX_MHZ * self.clock_ratio - 15 * np.abs(noise), CLOCK_IDLE_MHZ)
        bits = np.where(is_busy | load.is_held, 0, BIT_IDLE)
        bits = bits | np.where(self._is_capped(), BIT_SW_POWER_CAP, 0)
        bits = bits | np.where(self._is_throttled, BIT_HW_THERMAL | BIT_HW_SLOWDOWN, 0)
        wobble = 1 + 0.03 * noise
        return Telemetry(
            utilization_percent=_percent(load.utilization * (1 - 0.01 * np.abs(noise))),
            memory_utilization_percent=_percent(load.dram_active * 0.9 * wobble),
            sm_active=_ratio(load.sm_active * wobble),
            sm_occupancy=_ratio(load.sm_active * 0.31 * wobble),
            tensor_active=_ratio(load.tensor_active * wobble),
            dram_active=_ratio(load.dram_active * wobble),
            memory_used_bytes=(load.memory * MEMORY_TOTAL_BYTES).astype(np.int64).tolist(),
            temperature_celsius=np.rint(self.temperature).astype(int).tolist(),
            memory_temperature_celsius=np.rint(self.temperature + 6 + 10 * load.dram_active).astype(int).tolist(),
            power_milliwatts=(self.power * (1 + 0.004 * noise) * 1000).astype(int).tolist(),
            energy_millijoules=(self._energy * 1000).astype(np.int64).tolist(),
            sm_clock_mhz=(np.floor(clock / 15) * 15).astype(int).tolist(),
            clock_event_bits=bits.tolist(),
            power_cap_ns=(self._power_cap_seconds * 1e9).astype(np.int64).tolist(),
            hw_thermal_ns=(self._hw_thermal_seconds * 1e9).astype(np.int64).tolist(),
            nvlink_kib=(self._nvlink_bytes / 1024).astype(np.int64).tolist(),
            nvlink_bytes_per_second=load.nvlink_bytes_per_second.tolist(),
            pcie_transmit_bytes=(self._pcie_bytes * 0.3).astype(np.int64).tolist(),
            pcie_receive_bytes=self._pcie_bytes.astype(np.int64).tolist(),
            pcie_bytes_per_second=load.pcie_bytes_per_second.tolist(),
            ecc_corrected=self._ecc_corrected.tolist(),
        )


def _share(seconds: float, lag_seconds: float) -> float:
    """How much of the way to its target a first-order lag goes in `seconds`."""
    return 1 - math.exp(-seconds / lag_seconds)


def _percent(ratio: Floats) -> list[int]:
    whole: list[int] = np.rint(np.clip(ratio, 0, 1) * 100).astype(int).tolist()
    return whole


def _ratio(ratio: Floats) -> list[float]:
    clipped: list[float] = np.clip(ratio, 0, 1).tolist()
    return clipped
