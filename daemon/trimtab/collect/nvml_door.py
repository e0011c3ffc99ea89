"""The one door to `pynvml`: loads the library, makes calls, and names what a failed call means."""

from __future__ import annotations

import ctypes
from typing import Any, TypeAlias

import pynvml

from trimtab.errors import CollectError

Handle: TypeAlias = Any
"""A GPU or MIG device as the driver names it; never kept from one tick to the next."""

LIBRARY = "libnvidia-ml.so.1"

_LOST = {pynvml.NVML_ERROR_GPU_IS_LOST, pynvml.NVML_ERROR_GPU_NOT_FOUND}
_UNSUPPORTED = {
    pynvml.NVML_ERROR_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,
    pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
    pynvml.NVML_ERROR_DEPRECATED,
    pynvml.NVML_ERROR_VGPU_ECC_NOT_SUPPORTED,
    pynvml.NVML_ERROR_FREQ_NOT_SUPPORTED,
}
_FIELD_UNSUPPORTED = _UNSUPPORTED | {pynvml.NVML_ERROR_INVALID_ARGUMENT, pynvml.NVML_ERROR_NOT_FOUND}
_DRIVER_GONE = {
    pynvml.NVML_ERROR_UNINITIALIZED: "the driver was unloaded; it is opened again by itself",
    pynvml.NVML_ERROR_DRIVER_NOT_LOADED: "load the NVIDIA kernel module (modprobe nvidia), or install the driver",
    pynvml.NVML_ERROR_LIBRARY_NOT_FOUND: f"{LIBRARY} was not found: install the NVIDIA driver's libraries, "
    "or set nvml_library to its path",
    pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: "library and kernel module are of different driver versions: "
    "reboot, or reload the kernel module",
}


class NvmlError(CollectError):
    """One NVML call failed; `code` is NVML's return code."""

    def __init__(self, call: str, code: int, text: str) -> None:
        """`call` is the name of the NVML function."""
        super().__init__(f"{call}: {text} ({code})")
        self.code = code


class Unsupported(NvmlError):
    """This GPU or this driver does not have it: an ordinary answer, not a fault."""


class GpuLost(NvmlError):
    """The driver says that the GPU fell off the bus."""


class NoHandle(NvmlError):
    """The driver counts the GPU and cannot name it: what a GPU that fell off the bus looks like to a new process."""


class DriverGone(NvmlError):
    """NVML as a whole does not work; the text says what to do."""


def error_of(call: str, code: int) -> NvmlError:
    """What a return code of a call means, as an error."""
    text = str(pynvml.NVMLError(code))
    if code in _LOST:
        return GpuLost(call, code, text)
    if code in _UNSUPPORTED:
        return Unsupported(call, code, text)
    if code in _DRIVER_GONE:
        return DriverGone(call, code, f"{text}: {_DRIVER_GONE[code]}")
    return NvmlError(call, code, text)


def is_unsupported_field(code: int) -> bool:
    """Whether a field's own return code says that this GPU or driver does not have the field."""
    return code in _FIELD_UNSUPPORTED


def ask(name: str, *arguments: Any) -> Any:  # noqa: ANN401 - each NVML call has its own result
    """Make one call of the binding, by its full name. Raises NvmlError."""
    try:
        return getattr(pynvml, name)(*arguments)
    except pynvml.NVMLError as error:
        raise error_of(name, error.value) from error
    except AttributeError as error:
        raise error_of(name, pynvml.NVML_ERROR_FUNCTION_NOT_FOUND) from error
    except UnicodeDecodeError as error:
        raise NvmlError(name, pynvml.NVML_ERROR_UNKNOWN, f"the driver returned text that is none: {error}") from error


_REFUSALS = {pynvml.NVML_ERROR_NO_PERMISSION, pynvml.NVML_ERROR_RESET_REQUIRED, pynvml.NVML_ERROR_INSUFFICIENT_POWER}


def handle_at(index: int) -> Handle:
    """The GPU at an index. Raises GpuLost, DriverGone, NoHandle, or NvmlError when the driver refuses it for now."""
    try:
        return ask("nvmlDeviceGetHandleByIndex", index)
    except (GpuLost, DriverGone):
        raise
    except NvmlError as error:
        if error.code in _REFUSALS:
            raise
        raise NoHandle("nvmlDeviceGetHandleByIndex", error.code, str(error)) from error


def use_library(library: object) -> None:
    """Let the binding use this library: a loaded one, or an object whose methods stand in for its functions."""
    pynvml.nvmlLib = library
    pynvml._nvmlGetFunctionPointer_cache.clear()


def load(path: str) -> None:
    """Use the library at `path`; empty = the one that the loader finds. Raises DriverGone."""
    if not path:
        return
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        code = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
        raise DriverGone("load", code, f"nvml_library = {path}: {error}; give its path, or leave it empty") from error
    use_library(library)


def fill_fields(handle: Handle, count: int, values: object) -> None:
    """Fill a prepared array of field values in one call. Raises NvmlError when the call as a whole fails."""
    name = "nvmlDeviceGetFieldValues"
    try:
        code = pynvml._nvmlGetFunctionPointer(name)(handle, ctypes.c_int32(count), values)
    except pynvml.NVMLError as error:
        raise error_of(name, error.value) from error
    if code != pynvml.NVML_SUCCESS:
        raise error_of(name, code)
