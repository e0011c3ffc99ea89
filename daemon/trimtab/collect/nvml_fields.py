"""NVML's field values: which ids we read, what each becomes, and one call for a whole block of them.

The array is prepared once per GPU and unpacked in one pass. Measured with a constant driver (bench/agent.py --fields),
8 GPUs of 148 fields a tick: the binding's own call 1.6 ms, this with its range checks 0.5 ms, the stand-in itself 0.03.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pynvml

from trimtab.collect import nvml_door as door
from trimtab.collect.units import (
    UINT_BLANK,
    Convert,
    Sieve,
    from_bit_error_code,
    from_kibi,
    from_milli,
    from_nano,
    is_blank,
    same,
)
from trimtab.model.metric import sample_key

ALL_LINKS = 0xFFFFFFFF
_UNFILLED = pynvml.NVML_ERROR_UNKNOWN


@dataclass(frozen=True, slots=True)
class Field:
    """One field of one GPU. `is_zero_absent`: this card writes 0 where it does not measure.

    `link` is the NVLink that it is of, None for the GPU itself. `sums` adds the links up under one key.
    """

    id: int
    key: str
    convert: Convert = same
    link: int | None = None
    is_zero_absent: bool = False
    sums: bool = False


def _each(name: str, labels: dict[str, int], convert: Convert = same) -> tuple[Field, ...]:
    return tuple(Field(id=number, key=sample_key(name, label), convert=convert) for label, number in labels.items())


# Of two fields with one key the first that answers counts.
GPU_FIELDS: tuple[Field, ...] = (
    Field(82, "memory_temperature_celsius", is_zero_absent=True),
    Field(185, "power_watts", from_milli),
    Field(186, "power_instant_watts", from_milli),
    Field(190, "power_limit_watts", from_milli),
    Field(189, "power_limit_default_watts", from_milli, is_zero_absent=True),
    Field(83, "energy_joules_total", from_milli),
    *_each("ecc_errors_total", {"corrected": 3, "uncorrected": 4}),
    *_each("ecc_errors_aggregate", {"corrected": 5, "uncorrected": 6}),
    *_each("remapped_rows", {"correctable": 142, "uncorrectable": 143}),
    Field(144, "row_remap_pending"),
    Field(145, "row_remap_failed"),
    *_each("retired_pages", {"correctable": 29, "uncorrectable": 30}),
    Field(31, "retired_pages_pending"),
    Field(230, "recovery_action"),
    *_each(
        "clock_event_seconds_total",
        {"sw_power_cap": 74, "sync_boost": 76, "sw_thermal": 269, "hw_thermal": 270, "hw_power_brake": 271},
        from_nano,
    ),
    *_each(
        "policy_violation_seconds_total",
        {"power": 74, "thermal": 75, "sync_boost": 76, "board_limit": 77, "low_utilization": 78, "reliability": 79},
        from_nano,
    ),
    Field(94, "pcie_replay_total"),
    Field(173, "pcie_correctable_errors_total"),
    *_each(
        "pcie_errors_total",
        {
            "nak_received": 174,
            "receiver": 175,
            "bad_tlp": 176,
            "nak_sent": 177,
            "bad_dllp": 178,
            "non_fatal": 179,
            "fatal": 180,
            "unsupported_request": 181,
            "lcrc": 182,
            "l0_to_recovery": 169,
        },
    ),
    Field(197, "pcie_transmit_bytes_total"),
    Field(198, "pcie_receive_bytes_total"),
    *_each("c2c_link_errors_total", {"crc": 231, "replay": 232, "replay_back_to_back": 233}),
)

OLD_NVLINK_FIELDS = _each("nvlink_crc_errors_by_kind_total", {"flit": 38, "data": 45})
"""Counted over all links by cards before Ampere."""

LINK_COUNT = Field(91, "nvlink_links")

# (id, metric, conversion) per link. 202 and 204 are NVLink 5's byte counters; earlier links count KiB in 138 and 139.
_PER_LINK: tuple[tuple[int, str, Convert], ...] = (
    (165, "nvlink_up", same),
    (163, "nvlink_crc_errors_total", same),
    (161, "nvlink_replay_total", same),
    (215, "nvlink_recovery_total", same),
    (162, "nvlink_recovery_total", same),
    (214, "nvlink_recovery_failed_total", same),
    (202, "nvlink_transmit_bytes_total", same),
    (138, "nvlink_transmit_bytes_total", from_kibi),
    (204, "nvlink_receive_bytes_total", same),
    (139, "nvlink_receive_bytes_total", from_kibi),
    (208, "nvlink_receive_errors_total", same),
    (221, "nvlink_symbol_errors_total", same),
    (219, "nvlink_effective_errors_total", same),
    (220, "nvlink_effective_bit_error_ratio", from_bit_error_code),
    (222, "nvlink_symbol_bit_error_ratio", from_bit_error_code),
)
_SUMMED = {"malformed": 206, "overrun": 207, "remote": 209, "general": 210, "integrity": 211, "transmit_discard": 212}
_FEC_FIRST, _FEC_BINS = 235, 16


def link_fields(links: int) -> tuple[Field, ...]:
    """Every tick's fields of so many NVLinks."""
    return tuple(
        Field(id=number, key=sample_key(name, str(link)), convert=convert, link=link)
        for number, name, convert in _PER_LINK
        for link in range(links)
    )


def slow_link_fields(links: int) -> tuple[Field, ...]:
    """The fields of so many NVLinks that are summed over them: NVLink 5's error kinds and its FEC histogram."""
    kinds = [(sample_key("nvlink_receive_errors_by_kind_total", kind), number) for kind, number in _SUMMED.items()]
    bins = [(sample_key("nvlink_fec_corrected_total", str(bin_)), _FEC_FIRST + bin_) for bin_ in range(_FEC_BINS)]
    return tuple(
        Field(id=number, key=key, link=link, sums=True) for key, number in kinds + bins for link in range(links)
    )


_ROW = struct.Struct("<IIqqiiQ")  # fieldId, scopeId, timestamp, latencyUsec, valueType, nvmlReturn, value
_DOUBLE, _UINT, _ULONGLONG, _SIGNED_LONG, _SIGNED, _USHORT = 0, 1, 3, 4, 5, 6


def _number(value_type: int, bits: int) -> float:
    """The number that 8 bytes of a value union hold."""
    if value_type == _DOUBLE:
        return float(struct.unpack("<d", bits.to_bytes(8, "little"))[0])
    if value_type == _UINT:
        return bits & 0xFFFFFFFF
    if value_type == _SIGNED_LONG:
        return bits - (1 << 64) if bits >> 63 else bits
    if value_type == _SIGNED:
        low = bits & 0xFFFFFFFF
        return low - (1 << 32) if low >> 31 else low
    return bits & 0xFFFF if value_type == _USHORT else bits


_Answer = tuple[Field, int, float]
"""A field, its return code, its raw value. A plain tuple: this is the hot loop."""


class FieldBlock:
    """Fields that are read in one call. Those that prove unsupported leave it; a whole NVLink field leaves as one."""

    def __init__(self, fields: Sequence[Field]) -> None:
        """Nothing is known to be unsupported yet."""
        self.fields: tuple[Field, ...] = ()
        self._prepare(fields)

    def read(self, handle: door.Handle, sieve: Sieve) -> dict[str, str]:
        """Read all fields into the sieve; returns the key of each that failed, with why. Raises GpuLost, DriverGone."""
        if not self.fields:
            return {}
        answers = self._answers(handle)
        others = _keep_plain(answers, sieve)
        if not others:
            return {}
        self._drop_unsupported(answers)
        return _keep_others(others, sieve)

    def _prepare(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._values, self._template = _prepared(self.fields)

    def _answers(self, handle: door.Handle) -> list[_Answer]:
        try:
            return _ask(handle, self.fields, self._values, self._template)
        except (door.GpuLost, door.DriverGone):
            raise
        except door.NvmlError as error:
            if len(self.fields) == 1:
                return [(self.fields[0], error.code, 0)]
        # One field that this driver chokes on must not cost the others: ask for each alone, this time.
        return [answer for field in self.fields for answer in _alone(handle, field)]

    def _drop_unsupported(self, answers: Iterable[_Answer]) -> None:
        answered = {field.id for field, code, _ in answers if not door.is_unsupported_field(code)}
        # An NVLink that is down may answer "not supported" until it is up again: keep the field while any link has it.
        if any(field.id not in answered for field in self.fields):
            self._prepare([field for field in self.fields if field.id in answered])


def _prepared(fields: Sequence[Field]) -> tuple[ctypes.Array[ctypes.Structure], bytes]:
    values = (pynvml.c_nvmlFieldValue_t * len(fields))()
    for value, field in zip(values, fields, strict=True):
        value.fieldId = field.id
        value.scopeId = 0 if field.link is None else field.link
        value.nvmlReturn = _UNFILLED  # an entry that the driver leaves alone must not pass for a zero
    return values, bytes(values)


def _ask(
    handle: door.Handle, fields: Sequence[Field], values: ctypes.Array[ctypes.Structure], template: bytes
) -> list[_Answer]:
    ctypes.memmove(values, template, len(template))
    door.fill_fields(handle, len(fields), ctypes.byref(values))
    return [
        (field, code, bits if value_type == _ULONGLONG else _number(value_type, bits))
        for field, (_, _, _, _, value_type, code, bits) in zip(fields, _ROW.iter_unpack(values), strict=True)
    ]


def _alone(handle: door.Handle, field: Field) -> list[_Answer]:
    try:
        return _ask(handle, (field,), *_prepared((field,)))
    except (door.GpuLost, door.DriverGone):
        raise
    except door.NvmlError as error:
        return [(field, error.code, 0)]


def _keep_plain(answers: Iterable[_Answer], sieve: Sieve) -> list[_Answer]:
    """Keep what answered; returns what failed or is to be summed."""
    values, take, others = sieve.values, sieve.take, []
    for answer in answers:
        field, code, value = answer
        if code or field.sums:
            others.append(answer)
        elif field.key in values or (field.is_zero_absent and not value):
            continue
        elif value >= UINT_BLANK and is_blank(value):
            sieve.count_bad(field.key)
        else:
            take(field.key, field.convert(value))
    return others


def _keep_others(answers: Iterable[_Answer], sieve: Sieve) -> dict[str, str]:
    errors: dict[str, str] = {}
    sums: dict[str, float | None] = {}
    for field, code, value in answers:
        if code == pynvml.NVML_ERROR_GPU_IS_LOST:
            raise door.error_of(f"field {field.id}", code)
        if field.sums:
            _add(field.key, None if code or is_blank(value) else value, sums)
        elif not door.is_unsupported_field(code):
            errors[field.key] = str(door.error_of(f"field {field.id}", code))
    for key, total in sums.items():
        if total is not None:
            sieve.take(key, total)
    return errors


def _add(key: str, value: float | None, sums: dict[str, float | None]) -> None:
    """Add one link to its sum; a sum that lacks a link would run backwards, so it is none."""
    so_far = sums.get(key, 0.0)
    sums[key] = None if so_far is None or value is None else so_far + value
