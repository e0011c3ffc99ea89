"""Units and ranges: every value is converted here once, on the way in, and dropped here if it cannot be true."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trimtab.model.metric import BY_NAME, split_key

Convert = Callable[[float], float]
"""From a source's unit to ours."""

UINT_BLANK = 0xFFFFFFFF
_INT64_BLANK = 0x7FFFFFFFFFFFFFF0  # DCGM's four blanks and NVML's "not available" (all ones) lie from here on


def same(value: float) -> float:
    """A number that is in our unit already."""
    return float(value)


def from_percent(percent: float) -> float:
    """Percent as a ratio."""
    return percent / 100.0


def from_milli(thousandths: float) -> float:
    """Milliwatts as watts, millijoules as joules."""
    return thousandths / 1e3


def from_mega(millions: float) -> float:
    """Megahertz as hertz."""
    return millions * 1e6


def from_nano(nanoseconds: float) -> float:
    """Nanoseconds as seconds."""
    return nanoseconds / 1e9


def from_kibi(kibibytes: float) -> float:
    """KiB as bytes."""
    return kibibytes * 1024.0


def from_mebi(mebibytes: float) -> float:
    """MiB (per second) as bytes (per second)."""
    return mebibytes * 1048576.0


def from_bit_error_code(code: float) -> float:
    """NVLink's coded bit error rate as a ratio: bits 0 to 7 hold the exponent, 8 to 11 the mantissa."""
    bits = int(code)
    return float(((bits >> 8) & 0xF) * 10.0 ** -(bits & 0xFF))


def is_blank(raw: float) -> bool:
    """Whether an integer stands for `no value`, as drivers and DCGM write it."""
    return raw == UINT_BLANK or raw >= _INT64_BLANK


class Sieve:
    """Takes values in our units; keeps what can be true in `values`, counts the rest in `bad`."""

    def __init__(self) -> None:
        """Nothing taken yet."""
        self.values: dict[str, float] = {}
        self.bad: dict[str, int] = {}

    def take(self, key: str, value: float) -> None:
        """Keep one value, or count it as bad: NaN, infinite or outside its metric's range."""
        low, high = _RANGES.get(key) or _range_of(key)
        if low <= value <= high:  # false for NaN
            self.values[key] = value
        else:
            self.bad[key] = self.bad.get(key, 0) + 1

    def count_bad(self, key: str) -> None:
        """Count a value that was seen to be blank before conversion."""
        self.bad[key] = self.bad.get(key, 0) + 1


_RANGES: dict[str, tuple[float, float]] = {}
_FINITE_MAX = 1.7e308


def _range_of(key: str) -> tuple[float, float]:
    metric = BY_NAME[split_key(key)[0]]
    low = -_FINITE_MAX if metric.minimum is None else metric.minimum
    found = _RANGES[key] = (low, _FINITE_MAX if metric.maximum is None else metric.maximum)
    return found


def finite_only(values: Mapping[str, float]) -> dict[str, float]:
    """The values that are numbers; for node values, which have no catalogue."""
    return {key: value for key, value in values.items() if math.isfinite(value)}
