"""Units and ranges, and the host's values."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trimtab.collect import units
from trimtab.collect.host import HostCollector, parse_memory, parse_pressure
from trimtab.collect.units import Sieve
from trimtab.errors import NoData
from trimtab.model.metric import BY_NAME


@given(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(sorted(BY_NAME)))
def test_what_is_kept_is_a_number_within_the_range_of_its_metric(value: float, key: str) -> None:
    sieve = Sieve()
    sieve.take(key, value)
    metric = BY_NAME[key]
    if sieve.values:
        assert math.isfinite(sieve.values[key])
        assert metric.minimum is None or value >= metric.minimum
        assert metric.maximum is None or value <= metric.maximum
    else:
        assert sieve.bad == {key: 1}


@pytest.mark.parametrize(
    "blank", [0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF, 0x7FFFFFFFFFFFFFF0, 0x7FFFFFFFFFFFFFF3, 9.223372036854776e18]
)
def test_a_blank_is_told_from_a_number(blank: float) -> None:
    assert units.is_blank(blank)
    assert not units.is_blank(blank // 4)


def test_conversions_are_to_base_units() -> None:
    assert units.from_percent(50) == 0.5
    assert units.from_milli(412500) == 412.5
    assert units.from_mega(1755) == 1.755e9
    assert units.from_nano(1_500_000_000) == 1.5
    assert units.from_kibi(2) == 2048
    assert units.from_mebi(2) == 2097152
    assert units.from_bit_error_code(0x50C) == pytest.approx(5e-12)
    assert units.from_bit_error_code(0x00F) == 0.0


def test_the_host_says_its_pressure_memory_and_load(tmp_path: Path) -> None:
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/cpu").write_text(
        "some avg10=12.50 avg60=1.00 avg300=0.00 total=5\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n"
    )
    (tmp_path / "meminfo").write_text("MemTotal:       2048 kB\nMemFree: 1 kB\nMemAvailable:   1024 kB\nHugePages: 0\n")
    (tmp_path / "loadavg").write_text("3.50 1.00 0.50 2/300 1234\n")
    assert HostCollector(tmp_path).collect().node_values == {
        "cpu_pressure_ratio": 0.125,
        "memory_total_bytes": 2097152.0,
        "memory_available_bytes": 1048576.0,
        "load_1m_processes": 3.5,
    }


def test_a_host_that_says_nothing_is_no_data(tmp_path: Path) -> None:
    with pytest.raises(NoData):
        HostCollector(tmp_path).collect()


def test_text_that_is_not_as_expected_gives_no_value() -> None:
    assert parse_pressure("") is None
    assert parse_pressure("full avg10=1.0\n") is None
    assert parse_memory("MemTotal:\n") == {}
