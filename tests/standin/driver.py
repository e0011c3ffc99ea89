"""The stand-in driver as tests use it: built once per run by gcc, its fleet moved by writing a small file."""

from __future__ import annotations

import ctypes
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pynvml
import pytest

from trimtab.collect import nvml_door

SOURCE = Path(__file__).with_name("nvml_standin.c")
SONAME = "libnvidia-ml.so.1"


@functools.cache
def build(*, is_old: bool = False) -> Path:
    """The library's path; `is_old` lacks what a driver of 2020 lacked. Skips the test where there is no compiler."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler for the stand-in driver: apt-get install gcc libc6-dev")
    library = Path(tempfile.mkdtemp(prefix="trimtab-standin-")) / SONAME
    flags = ["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", f"-Wl,-soname,{SONAME}"]
    old = ["-DOLD_DRIVER"] if is_old else []
    subprocess.run([compiler, *flags, *old, "-o", library, SOURCE, "-lpthread"], check=True)
    return library


class Driver:
    """One fleet of GPUs; `driver["3.lost"] = 1` and `del driver["3.lost"]` move it at once."""

    def __init__(self, directory: Path, *, is_old: bool = False) -> None:
        self.library = build(is_old=is_old)
        self.state = directory / "fleet.txt"
        self._lines: dict[str, str] = {}
        self._write()

    def __setitem__(self, key: str, value: object) -> None:
        self._lines[key] = str(value)
        self._write()

    def __delitem__(self, key: str) -> None:
        del self._lines[key]
        self._write()

    def environment(self) -> dict[str, str]:
        """For a process that finds the library as a real one does: through the loader."""
        return {"LD_LIBRARY_PATH": str(self.library.parent), "NVML_STANDIN_STATE": str(self.state)}

    def _write(self) -> None:
        fresh = self.state.with_suffix(".new")
        fresh.write_text("".join(f"{key} {value}\n" for key, value in self._lines.items()))
        fresh.replace(self.state)


@pytest.fixture
def driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A fleet of 8 healthy GPUs, in this process."""
    made = Driver(tmp_path)
    with _in_use(made, monkeypatch):
        yield made


@pytest.fixture
def old_driver(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """The same under a driver that lacks what is new."""
    made = Driver(tmp_path, is_old=True)
    with _in_use(made, monkeypatch):
        yield made


class _in_use:  # noqa: N801 - reads as a statement
    def __init__(self, made: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
        self._made, self._monkeypatch = made, monkeypatch

    def __enter__(self) -> None:
        self._before = pynvml.nvmlLib
        self._monkeypatch.setenv("NVML_STANDIN_STATE", str(self._made.state))
        nvml_door.use_library(ctypes.CDLL(str(self._made.library)))

    def __exit__(self, *_error: object) -> None:
        while pynvml._nvmlLib_refcount > 0:
            pynvml.nvmlShutdown()
        nvml_door.use_library(self._before)
