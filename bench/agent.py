"""What the agent costs: CPU and memory at one report a second over a stand-in driver, beside nvitop in the same run.

`--fields` compares the ways to read NVML's field values. `--json` prints one object.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import pynvml  # noqa: E402
from tests.standin.driver import Driver  # noqa: E402

from trimtab.clock import SystemClock  # noqa: E402
from trimtab.collect import nvml_door  # noqa: E402
from trimtab.collect.nvml import NvmlCollector, node_inventory, reader_with_deadline  # noqa: E402
from trimtab.collect.nvml_fields import GPU_FIELDS, FieldBlock, link_fields  # noqa: E402
from trimtab.collect.units import Sieve  # noqa: E402

WARM_UP_SECONDS = 4.0
SCRAPE_SECONDS = 10.0
PORT = 19742
NVITOP = """
import threading, time
from nvitop import Device
devices = Device.all()
due = time.monotonic()
while True:
    for device in devices:
        device.as_snapshot()
    due += 1.0
    threading.Event().wait(max(due - time.monotonic(), 0))
"""
NVITOP_VALUES = 45
"""Entries of one snapshot, formatted doubles included."""
AGENT = "from trimtab.cli import main; main()"


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def rss_mib(pid: int) -> float:
    line = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def start(code: str, *arguments: str, driver: Driver, log: Path) -> subprocess.Popen[bytes]:
    environment = {**os.environ, **driver.environment(), "PYTHONPATH": str(ROOT / "daemon")}
    with log.open("wb") as out:
        return subprocess.Popen(
            [sys.executable, "-c", code, *arguments], env=environment, stdout=out, stderr=subprocess.STDOUT
        )


def wait(seconds: float, *, scrape: bool) -> bytes:
    """Let time pass; fetch /metrics now and then, as Prometheus would. Returns the last page."""
    ends_at, last = time.monotonic() + seconds, b""
    while (left := ends_at - time.monotonic()) > 0:
        if scrape:
            with urllib.request.urlopen(f"http://127.0.0.1:{PORT}/metrics") as page:
                last = page.read()
        time.sleep(min(left, SCRAPE_SECONDS))
    return last


def processes(seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as scratch:
        directory = Path(scratch)
        driver = Driver(directory)
        settings = directory / "agent.toml"
        settings.write_text(
            f'interval_seconds = 1.0\nkernel_log = "none"\nmetrics_listen = "127.0.0.1:{PORT}"\n'
            f'spool_directory = "{directory / "spool"}"\n'
        )
        running = {
            "agent": start(AGENT, "agent", "--settings", str(settings), driver=driver, log=directory / "agent.log"),
            "nvitop": start(NVITOP, driver=driver, log=directory / "nvitop.log"),
        }
        try:
            wait(WARM_UP_SECONDS, scrape=False)
            before = {name: cpu_seconds(process.pid) for name, process in running.items()}
            started = time.monotonic()
            page = wait(seconds, scrape=True)
            elapsed = time.monotonic() - started
            found: dict[str, float] = {"seconds": round(elapsed, 1), "metrics_page_bytes": len(page)}
            found["agent_values"] = page.count(b"\ntrimtab_gpu_")
            for name, process in running.items():
                if process.poll() is not None:
                    raise SystemExit(f"{name} ended early:\n{(directory / f'{name}.log').read_text()}")
                found[f"{name}_cpu_ratio"] = (cpu_seconds(process.pid) - before[name]) / elapsed
                found[f"{name}_rss_mib"] = rss_mib(process.pid)
            spooled = sum(path.stat().st_size for path in (directory / "spool").glob("*.segment"))
            found["report_bytes"] = spooled / (elapsed + WARM_UP_SECONDS)
        finally:
            for process in running.values():
                process.terminate()
                process.wait(20)
    found["nvitop_values_at_most"] = NVITOP_VALUES * 8
    found["cpu_agent_to_nvitop"] = found["agent_cpu_ratio"] / found["nvitop_cpu_ratio"]
    found["cpu_per_value_agent_to_nvitop"] = (
        found["cpu_agent_to_nvitop"] * found["nvitop_values_at_most"] / found["agent_values"]
    )
    found["rss_agent_to_nvitop"] = found["agent_rss_mib"] / found["nvitop_rss_mib"]
    return found


def best_us(call: Callable[[], object], *, rounds: int = 5, times: int = 50) -> float:
    """The best of several rounds, per call."""
    best = float("inf")
    for _ in range(rounds):
        started = time.perf_counter()
        for _ in range(times):
            call()
        best = min(best, (time.perf_counter() - started) / times)
    return best * 1e6


def fields() -> dict[str, float]:
    """Microseconds for one tick of 8 GPUs: field values three ways, and the whole collector."""
    with tempfile.TemporaryDirectory() as scratch:
        driver = Driver(Path(scratch))
        os.environ["NVML_STANDIN_STATE"] = str(driver.state)
        nvml_door.use_library(ctypes.CDLL(str(driver.library)))
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(8)]
        block = FieldBlock((*GPU_FIELDS, *link_fields(18)))
        block.read(handles[0], Sieve())  # leaves what this driver has
        clock = SystemClock()
        threaded = NvmlCollector(clock=clock, inventory=node_inventory(None, ""), reader=reader_with_deadline(clock))
        direct = NvmlCollector(clock=clock, inventory=node_inventory(None, ""))
        return {
            "fields_per_gpu": len(block.fields),
            "stand_in_alone_us": best_us(driver_alone(handles, block)),
            "binding_us": best_us(binding(handles, block)),
            "ours_with_ranges_us": best_us(lambda: [block.read(handle, Sieve()) for handle in handles]),
            "collect_direct_us": best_us(direct.collect),
            "collect_with_deadlines_us": best_us(threaded.collect),
        }


def driver_alone(handles: list[Any], block: FieldBlock) -> Callable[[], object]:
    array = (pynvml.c_nvmlFieldValue_t * len(block.fields))()
    for slot, field in zip(array, block.fields, strict=True):
        slot.fieldId, slot.scopeId = field.id, field.link or 0
    return lambda: [nvml_door.fill_fields(handle, len(array), ctypes.byref(array)) for handle in handles]


def binding(handles: list[Any], block: FieldBlock) -> Callable[[], object]:
    ids = [(field.id, field.link or 0) for field in block.fields]

    def read() -> list[int]:
        return [
            value.value.ullVal
            for handle in handles
            for value in pynvml.nvmlDeviceGetFieldValues(handle, ids)
            if value.nvmlReturn == 0
        ]

    return read


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--fields", action="store_true")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    found = fields() if options.fields else processes(options.seconds)
    if options.json:
        print(json.dumps({key: round(value, 6) for key, value in found.items()}))
        return
    for key, value in found.items():
        shown = f"{value:.2%} of a core" if key.endswith("cpu_ratio") else f"{value:,.2f}"
        print(f"{key:28} {shown}")


if __name__ == "__main__":
    main()
