"""Of two daemons on one database one rolls up; the other takes over from what the database says."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from trimtab.clock import Clock
from trimtab.errors import StoreError
from trimtab.model.board import Board
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.reading import Delivery
from trimtab.store.rollup import MARGIN_MS, Rollup, RollupCounts

STANDING_BY = "another daemon rolls up into this database"


SET_SECONDS = 600.0
"""A clock that was set by more; what is less is a few minutes to write."""


class Shift:
    """Rolls up while it is this daemon's turn. While it is not, nothing is taken note of: the journal has it all."""

    def __init__(
        self, make: Callable[[RollupCounts], Rollup], *, clock: Clock, is_standby: Callable[[], bool] = lambda: False
    ) -> None:
        """`make` opens the roll-ups where the database left them. Raises StoreError."""
        self.counts = RollupCounts()
        self._make = make
        self._clock = clock
        self._is_standby = is_standby
        self._rollup: Rollup | None = None if is_standby() else make(self.counts)
        self._last = clock.now(), clock.monotonic_seconds()

    @property
    def rollup(self) -> Rollup | None:
        """The roll-ups; None while standing by."""
        return self._rollup

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Take note of reports that the journal has stored."""
        rollup = self._rollup
        if rollup is not None:
            rollup.add(deliveries)

    def see(self, board: Board, snapshot: ClusterSnapshot | None) -> None:
        """Take note of a board."""
        rollup = self._rollup
        if rollup is not None:
            rollup.see(board, snapshot)

    def roll(self) -> str:
        """One beat. Raises StoreError."""
        if self._is_standby():
            self._rollup = None
            return STANDING_BY
        rollup = None if self._was_clock_set() else self._rollup
        if rollup is None or rollup.is_stale:
            return self._take_over(self._clock.now(), rollup)
        return rollup.roll()

    def _was_clock_set(self) -> bool:
        """Whether our clock moved by more than time passed. Then it is as after an absence: the days that were jumped
        over have no rows of their own, and are not written one by one.
        """
        now, seconds = self._clock.now(), self._clock.monotonic_seconds()
        (last, last_seconds), self._last = self._last, (now, seconds)
        return abs((now - last).total_seconds() - (seconds - last_seconds)) > SET_SECONDS

    def _take_over(self, now: datetime, former: Rollup | None) -> str:
        rollup = self._make(self.counts)
        if former is not None:
            rollup.inherit(former)
        self._rollup = rollup
        try:
            # What was stored while it was being opened was told to nobody; it may have waited for its commit.
            rollup.recount(now - timedelta(milliseconds=MARGIN_MS))
        except StoreError:
            self._rollup = None  # the next beat opens it once more, and counts from where this one would have
            raise
        return f"taken over; {rollup.roll()}"
