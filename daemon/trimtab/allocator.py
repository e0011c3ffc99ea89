"""The C library's allocator, told to give back what was freed.

glibc keeps freed memory in an arena per thread (mallopt(3), malloc_trim(3)): a process with twenty threads that each
answer a large request now and then holds more from hour to hour though nothing in it grows. Elsewhere nothing is done.
"""

from __future__ import annotations

import ctypes

from trimtab.clock import Clock

ARENAS_MAX = 2
"""Threads take turns at Python's own lock: more arenas would only spread what is freed."""
TRIM_SECONDS = 60.0
_M_ARENA_MAX = -8
"""malloc.h"""


def use_few_arenas() -> bool:
    """At the start of a process, before it has threads; whether the C library took it."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt is not None and mallopt(_M_ARENA_MAX, ARENAS_MAX) == 1


class Trimmer:
    """Gives free memory back once a minute: some milliseconds (tens for gigabytes), while other threads go on."""

    def __init__(self, clock: Clock) -> None:
        """Nothing is given back yet."""
        self._clock = clock
        self._trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        self._trimmed_at_seconds = clock.monotonic_seconds()

    def tend(self) -> bool:
        """Call it often; whether it was time."""
        now = self._clock.monotonic_seconds()
        if self._trim is None or now - self._trimmed_at_seconds < TRIM_SECONDS:
            return False
        self._trimmed_at_seconds = now
        self._trim(0)
        return True
