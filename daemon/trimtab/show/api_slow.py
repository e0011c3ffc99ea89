"""How many requests read the past at once: it is large, and what the daemon itself reads and writes comes first."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trimtab.errors import TrimtabError

SLOW_MAX = 4
"""Requests that read the past at the same time; beyond a few they only take the disk from each other."""
WAITING_MAX = 32
WAIT_SECONDS_MAX = 10.0
RETRY_AFTER_SECONDS = 5


class TooBusy(TrimtabError):
    """Too many read the past just now."""

    retry_after_seconds = RETRY_AFTER_SECONDS


class SlowCalls:
    """Lets some through at once, some wait for a while, and sends the others away."""

    def __init__(
        self, *, most: int = SLOW_MAX, waiting_max: int = WAITING_MAX, wait_seconds_max: float = WAIT_SECONDS_MAX
    ) -> None:
        """Nobody is in yet; for one event loop."""
        self._free = asyncio.Semaphore(most)
        self._waiting = 0
        self._waiting_max = waiting_max
        self._wait_seconds_max = wait_seconds_max

    @asynccontextmanager
    async def one(self) -> AsyncIterator[None]:
        """One of them. Raises TooBusy."""
        await self._enter()
        try:
            yield
        finally:
            self._free.release()

    async def _enter(self) -> None:
        if self._free.locked() and self._waiting >= self._waiting_max:
            raise TooBusy(_SENTENCE)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._wait_seconds_max):
                await self._free.acquire()
        except TimeoutError:
            raise TooBusy(_SENTENCE) from None
        finally:
            self._waiting -= 1


_SENTENCE = f"Too many read the past at this moment. Try again in {RETRY_AFTER_SECONDS} s, or ask for less at once."
