"""Activity by NVML's GPM (Hopper and later): what happened between this tick's sample and the last one's."""

from __future__ import annotations

import math

import pynvml

from trimtab.collect import nvml_door as door
from trimtab.collect.units import Convert, Sieve, from_mebi, from_percent

# GPM metric id -> our metric
_METRICS: tuple[tuple[int, str, Convert], ...] = (
    (pynvml.NVML_GPM_METRIC_GRAPHICS_UTIL, "graphics_engine_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_SM_UTIL, "sm_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_SM_OCCUPANCY, "sm_occupancy_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_ANY_TENSOR_UTIL, "tensor_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_DRAM_BW_UTIL, "dram_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_FP64_UTIL, "fp64_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_FP32_UTIL, "fp32_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_FP16_UTIL, "fp16_active_ratio", from_percent),
    (pynvml.NVML_GPM_METRIC_PCIE_TX_PER_SEC, "pcie_transmit_bytes_per_second", from_mebi),
    (pynvml.NVML_GPM_METRIC_PCIE_RX_PER_SEC, "pcie_receive_bytes_per_second", from_mebi),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, "nvlink_receive_bytes_per_second", from_mebi),
    (pynvml.NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, "nvlink_transmit_bytes_per_second", from_mebi),
)
_OF_INSTANCE = 8
"""The first so many of the table exist for a MIG instance as well."""


class Gpm:
    """Two samples of one GPU, or of one of its MIG instances, taken in turn."""

    def __init__(self, instance: int | None = None) -> None:
        """`instance` is a GPU instance id. Asks the driver for nothing yet."""
        self._instance = instance
        self._metrics = _METRICS if instance is None else _METRICS[:_OF_INSTANCE]
        self._last: door.Handle = None
        self._spare: door.Handle = None
        self._request: door.Handle = None

    def read(self, handle: door.Handle, sieve: Sieve) -> None:
        """Take a sample; from the second on, put what happened in between into the sieve. Raises NvmlError."""
        if self._request is None:
            self._open(handle)
        self._sample(handle, self._spare)
        if self._last is None:
            self._last, self._spare = self._spare, door.ask("nvmlGpmSampleAlloc")
            return
        self._request.sample1, self._request.sample2 = self._last, self._spare
        self._last, self._spare = self._spare, self._last
        door.ask("nvmlGpmMetricsGet", self._request)
        self._take(sieve)

    def close(self) -> None:
        """Give the samples back to the driver."""
        for sample in (self._last, self._spare):
            if sample is not None:
                door.ask("nvmlGpmSampleFree", sample)
        self._last = self._spare = self._request = None

    def _open(self, handle: door.Handle) -> None:
        name = "nvmlGpmQueryDeviceSupport"
        if not door.ask(name, handle).isSupportedDevice:
            raise door.Unsupported(name, pynvml.NVML_ERROR_NOT_SUPPORTED, "GPM is for Hopper and later")
        self._spare = door.ask("nvmlGpmSampleAlloc")
        request = pynvml.c_nvmlGpmMetricsGet_t()
        request.version = pynvml.NVML_GPM_METRICS_GET_VERSION
        request.numMetrics = len(self._metrics)
        for slot, (number, _, _) in zip(request.metrics, self._metrics, strict=False):
            slot.metricId = number
        self._request = request

    def _sample(self, handle: door.Handle, sample: door.Handle) -> None:
        if self._instance is None:
            door.ask("nvmlGpmSampleGet", handle, sample)
        else:
            door.ask("nvmlGpmMigSampleGet", handle, self._instance, sample)

    def _take(self, sieve: Sieve) -> None:
        for index, (_, key, convert) in enumerate(self._metrics):
            slot = self._request.metrics[index]
            if slot.nvmlReturn != pynvml.NVML_SUCCESS:
                continue
            if math.isfinite(slot.value):
                sieve.take(key, convert(slot.value))
            else:
                sieve.count_bad(key)
