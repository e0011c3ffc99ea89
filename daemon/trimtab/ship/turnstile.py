"""When agents that are put off come again: one after the other, however many of them were cut off together."""

from __future__ import annotations

import math
import random

from trimtab.clock import Clock

RETURNS_PER_SECOND = 100.0
"""So many are asked back each second; more than a daemon can serve, so that it never waits for them, and few enough
that turning away who comes too early costs it next to nothing."""
SECONDS_MIN = 2.0
SECONDS_MAX = 60.0
"""Nobody waits longer before the next try; ten thousand agents then come at 170 a second."""


class Turnstile:
    """Hands out moments to come again, each a little later than the one before."""

    def __init__(self, clock: Clock, *, jitter: random.Random | None = None) -> None:
        """Nobody has been put off yet."""
        self._clock = clock
        self._jitter = jitter or random.Random()
        self._next_seconds = 0.0

    def retry_after_seconds(self) -> int:
        """Whole seconds for a Retry-After header."""
        now = self._clock.monotonic_seconds()
        self._next_seconds = max(self._next_seconds, now) + 1 / RETURNS_PER_SECOND
        if self._next_seconds - now > SECONDS_MAX:
            self._next_seconds = now + SECONDS_MAX
            seconds = self._jitter.uniform(SECONDS_MIN, SECONDS_MAX)
        else:
            seconds = self._next_seconds - now
        return math.ceil(max(seconds, SECONDS_MIN) + self._jitter.uniform(0.0, 2.0))
