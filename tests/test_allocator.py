"""What is freed goes back to the system, and threads share arenas: in a process of its own, over the real allocator."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fakes.clock import FakeClock

from trimtab.allocator import TRIM_SECONDS, Trimmer

HAS_GLIBC = getattr(ctypes.CDLL(None), "malloc_trim", None) is not None

MANY_THREADS = """
import ctypes, sys, threading
from trimtab.allocator import use_few_arenas
if sys.argv[1] == "few":
    assert use_few_arenas()
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.open_memstream.restype = ctypes.c_void_p
begin, end = threading.Barrier(17), threading.Barrier(17)
def work():
    libc.malloc(1000)
    begin.wait()
    end.wait()
for _ in range(16):
    threading.Thread(target=work, daemon=True).start()
begin.wait()
text, size = ctypes.c_char_p(), ctypes.c_size_t()
stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
libc.malloc_info(0, stream)
libc.fflush(stream)
print(text.value.count(b"<heap nr="))
end.wait()
"""


def arenas_of(way: str) -> int:
    """How many arenas a process of 16 threads has."""
    daemon = Path(__file__).parents[1] / "daemon"
    done = subprocess.run(
        [sys.executable, "-c", MANY_THREADS, way],
        check=False,
        env={"PYTHONPATH": str(daemon)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


@pytest.mark.skipif(not HAS_GLIBC, reason="the C library is not glibc")
def test_threads_share_two_arenas() -> None:
    assert arenas_of("few") <= 2 < arenas_of("as it comes")


def rss_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0])


@pytest.mark.skipif(not HAS_GLIBC, reason="the C library is not glibc")
def test_what_was_freed_goes_back_once_a_minute() -> None:
    libc = ctypes.CDLL(None)
    libc.malloc.restype = ctypes.c_void_p
    libc.free.argtypes = [ctypes.c_void_p]
    clock = FakeClock()
    trimmer = Trimmer(clock)
    blocks = [libc.malloc(100_000) for _ in range(1000)]  # below the size that is mapped by itself
    for block in blocks:
        ctypes.memset(block, 1, 100_000)
    for block in blocks[:-1]:  # the last one holds all others in the arena
        libc.free(block)
    held = rss_kib()
    assert not trimmer.tend()
    clock.advance(TRIM_SECONDS)
    assert trimmer.tend()
    assert held - rss_kib() > 50_000
    assert not trimmer.tend()
    libc.free(blocks[-1])
