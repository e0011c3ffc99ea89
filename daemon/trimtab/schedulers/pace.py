"""How long to wait before the next attempt: jittered exponential back-off, and a bound on attempts a minute."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from trimtab.clock import Clock

BASE_SECONDS = 1.0
"""So that an outage does not use up a minute's attempts at its beginning: whoever is answered first wakes the others,
and they may come at once. With 0.2 s they waited for their bound, up to 50 s after the server was back."""
CAP_SECONDS = 30.0
CLOSED_BASE_SECONDS = 3.0
CLOSED_CAP_SECONDS = 7.0
"""For a server that answers well and ends every watch at once: it is read nine times a minute, evenly."""
GOOD_SECONDS = 30.0
"""A connection that lived so long makes a fresh start."""
ATTEMPTS_MAX = 10
WINDOW_SECONDS = 60.0
CALLED_SECONDS = WINDOW_SECONDS / (ATTEMPTS_MAX - 2)
"""Of a server that comes back piece by piece each kind that is answered calls the others: evenly spaced, such calls
never use up a minute's attempts, whereas nine at once left a kind waiting for 59 s after its server was back."""


class Pace:
    """Of one watch. At most ATTEMPTS_MAX attempts begin in any WINDOW_SECONDS, whatever the server does."""

    def __init__(self, clock: Clock, jitter: Callable[[], float]) -> None:
        """`jitter` gives numbers from 0 to 1."""
        self._clock = clock
        self._jitter = jitter
        self._begun: deque[float] = deque(maxlen=ATTEMPTS_MAX)
        self._failures = 0
        self._called_at: float | None = None

    def begin(self) -> None:
        """An attempt begins now."""
        self._begun.append(self._clock.monotonic_seconds())

    def bound_seconds(self) -> float:
        """How long until one more attempt stays within the bound."""
        if len(self._begun) < ATTEMPTS_MAX:
            return 0.0
        return max(0.0, self._begun[0] + WINDOW_SECONDS - self._clock.monotonic_seconds())

    def after(self, *, is_failure: bool, at_least_seconds: float = 0.0) -> float:
        """How long to wait after the attempt that began last has ended."""
        now = self._clock.monotonic_seconds()
        lived = now - self._begun[-1] if self._begun else 0.0
        if lived >= GOOD_SECONDS:
            self._failures = 0
            if not is_failure:
                return self.bound_seconds()
        doubled = 2.0 ** min(self._failures, 16)
        if is_failure:
            seconds = min(CAP_SECONDS, BASE_SECONDS * doubled) * (0.5 + self._jitter() / 2)
        else:
            seconds = min(CLOSED_CAP_SECONDS, CLOSED_BASE_SECONDS * doubled) * (0.9 + self._jitter() / 10)
        self._failures += 1
        return max(seconds, at_least_seconds, self.bound_seconds())

    def when_called(self, planned_seconds: float) -> float:
        """How long to wait of `planned_seconds` where the server is said to be back: the first time hardly at all."""
        now = self._clock.monotonic_seconds()
        spaced = 0.0 if self._called_at is None else max(0.0, self._called_at + CALLED_SECONDS - now)
        seconds = min(planned_seconds, max(self._jitter() / 2, self.bound_seconds(), spaced))
        self._called_at = now + seconds
        return seconds
