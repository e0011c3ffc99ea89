"""Roll-ups of one cluster, made on the way in: what came, who held what, and row by row what each minute was.

`add` and `see` are called by the beats that remember and judge, and only take note; `roll` is a beat of its own.
Whatever is written can be written again: a restart goes on from `received_ms`, the receipt of the earliest report that
no row holds yet, and counts the minutes of everything later anew from the journal.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

import numpy as np

from trimtab.clock import Clock, from_unix_ms, unix_ms
from trimtab.model.board import Board
from trimtab.model.cluster import ClusterSnapshot
from trimtab.model.reading import Delivery
from trimtab.model.rollup import HOUR, MINUTE, QUARTER, Tier
from trimtab.settings.rollup import RollupSettings
from trimtab.store.database import Database
from trimtab.store.rollup_adopt import Adopter
from trimtab.store.rollup_buffer import Buffer
from trimtab.store.rollup_mend import Mender
from trimtab.store.rollup_minute import minute_rows
from trimtab.store.rollup_slots import Slots
from trimtab.store.rollup_spans import SpanBook, TenureBook
from trimtab.store.rollup_sums import BoardSums, Sums
from trimtab.store.rollup_tiers import build_slice, slices
from trimtab.store.rollup_write import State, write_rows

MENDED_MINUTES_MAX = 3000
"""Minutes of nodes counted anew at once: what they are counted from is held in memory."""
MEND_SECONDS_MAX = 5.0
"""So long a beat counts anew at most."""
FLUSH_SECONDS_MAX = 10.0
"""So long a beat writes whole minutes at most: after a daemon stood still for a day there are 1,440 at once."""
FILLED_MS_MAX = 60 * MINUTE.ms
"""After a daemon was away, so much of the time that nobody heard is written as unknown; the rest has no rows."""
MARGIN_MS = 60_000
"""Receipts so much before the point that was kept are counted anew as well: two daemons' clocks may differ."""
POSTPONED_BEATS_MAX = 6
"""While a backlog comes in, sums and coarser steps are made anew this seldom."""
_DAY_MS = 86_400_000
TIDY_AFTER_MS = 2 * MINUTE.ms
"""After a start: by then every node that lives was heard."""
BUILD_SECONDS_MAX = 15.0
"""So long a beat builds coarser steps at most: whoever watches the beats must not take it for dead."""
_RECEIVED, _FLUSHED = "received_ms", "flushed_ms"
_BUILT = {QUARTER: "built_15m_ms", HOUR: "built_1h_ms"}


@dataclass(slots=True)
class RollupCounts:
    """Counts over the life of the daemon; /metrics reads them."""

    rows_total: dict[str, int] = field(default_factory=dict)
    """Rows written, by tier."""
    failures_total: int = 0
    mended_minutes_total: int = 0
    """Minutes of nodes that were counted anew from the journal."""


class Rollup:
    """Takes note of what comes in, and rolls it up."""

    def __init__(
        self,
        database: Database,
        *,
        cluster: str,
        clock: Clock,
        settings: RollupSettings,
        hold_seconds: float,
        counts: RollupCounts | None = None,
    ) -> None:
        """Go on from what the database says. `hold_seconds`: so long a sample stands for its GPU. Raises StoreError."""
        self.counts = counts or RollupCounts()
        self._database = database
        self._clock = clock
        self._settings = settings
        self._state = State(database, cluster=cluster)
        self._slots = Slots(database, cluster=cluster, clock=clock)
        self._tenures = TenureBook(database, cluster=cluster)
        self._spans = SpanBook(database, self._slots, self._tenures, cluster=cluster)
        self._sums = Sums(database, self._tenures, cluster=cluster)
        self._adopter = Adopter(database, self._slots, self._spans, self._state, cluster=cluster)
        hold_ms = round(hold_seconds * 1000)
        self._hold_ms = hold_ms
        now_ms = unix_ms(clock.now())
        self._flushed_ms = self._first_open_minute(now_ms)
        self._state.put({_FLUSHED: self._flushed_ms})
        self._spans.recall(self._flushed_ms)
        self._keep_ms = round(settings.minute_days * _DAY_MS) - HOUR.ms
        self._buffer = Buffer(
            self._slots, cluster=cluster, hold_ms=hold_ms, closed_ms=self._flushed_ms, keep_ms=self._keep_ms
        )
        self._mender = Mender(database, self._slots, self._spans, cluster=cluster, hold_ms=hold_ms)
        self._seen: tuple[Board, ClusterSnapshot | None] | None = None
        self._board_sums: dict[int, BoardSums] = {}
        self._touched: dict[Tier, dict[int, set[int]]] = {QUARTER: {}, HOUR: {}}
        """Steps of the coarser tiers that are to be built, or built anew because minutes changed: of which slots."""
        self._unsummed: set[int] = set()
        self._postponed = 0
        self._tidied_ms = now_ms - _DAY_MS + TIDY_AFTER_MS
        self._noted_ms = now_ms - HOUR.ms + TIDY_AFTER_MS
        self._mark_unbuilt()
        self._lock = threading.Lock()
        self._mark_tail(now_ms)

    # --- what the other beats tell

    def add(self, deliveries: Iterable[Delivery]) -> None:
        """Take note of reports that the journal has stored."""
        self._buffer.add(deliveries)

    def see(self, board: Board, snapshot: ClusterSnapshot | None) -> None:
        """Take note of a board: who holds what, what is wrong, and how much of it is lost."""
        with self._lock:
            self._seen = (board, snapshot)
            minute = MINUTE.floor_ms(unix_ms(board.at))
            sums = self._board_sums.setdefault(minute, BoardSums())
            sums.add(board.strip.goodput_ratio, board.strip.stranded)

    def inherit(self, former: Rollup) -> None:
        """Go on from what no row holds and no journal tells: the boards of minutes that are not written yet."""
        with former._lock, self._lock:
            self._seen = self._seen or former._seen
            self._board_sums = {**former._board_sums, **self._board_sums}
        self._adopter.is_first = former._adopter.is_first
        self._slots.inherit(former._slots)
        self._tidied_ms = former._tidied_ms
        self._buffer.too_late_total += former._buffer.too_late_total

    def recount(self, since: datetime) -> None:
        """Have counted anew what was received since then, whoever was told of it. Raises StoreError."""
        self._mark_received(since, unix_ms(self._clock.now()))

    # --- the beat

    def roll(self) -> str:
        """Write down what changed, roll up minutes that are whole, and put right what came late. Raises StoreError."""
        try:
            return self._roll()
        except Exception:
            self.counts.failures_total += 1
            raise

    @property
    def is_stale(self) -> bool:
        """Whether it is to be opened anew, since it remembers GPUs whose rows are gone."""
        return self._slots.is_stale

    @property
    def lag_seconds(self) -> float:
        """How far the newest minute that is written lies back."""
        return max((unix_ms(self._clock.now()) - self._flushed_ms) / 1000, 0.0)

    @property
    def waiting_minutes(self) -> int:
        """Minutes of nodes that wait to be counted anew."""
        return self._buffer.dirty_minutes

    @property
    def too_late_total(self) -> int:
        """Reports that came after the rows that they belong to were deleted."""
        return self._buffer.too_late_total

    def _roll(self) -> str:
        now_ms = unix_ms(self._clock.now())
        self._slots.write()
        changed = self._adopt()
        minutes = self._flush_whole(now_ms)
        mended = self._mend()
        if self._is_settled():
            self._sum()
            self._build_touched()
        self._note(now_ms)
        self._tidy(now_ms)
        return f"{minutes} minutes rolled up, {mended} counted anew, {changed} changes of who holds what"

    def _tidy(self, now_ms: int) -> None:
        if self._flushed_ms + MINUTE.ms + self._grace_ms <= now_ms:
            return  # minutes wait to be written: what is opened anew would leave them out
        if now_ms - self._noted_ms >= HOUR.ms:
            self._slots.note_heard()
            self._noted_ms = now_ms
        if now_ms - self._tidied_ms >= _DAY_MS:
            self._tenures.tidy()
            self._slots.forget()
            self._tidied_ms = now_ms

    @property
    def _grace_ms(self) -> int:
        return round(self._settings.grace_seconds * 1000)

    def _adopt(self) -> int:
        with self._lock:
            seen, self._seen = self._seen, None
        if seen is None:
            return 0
        try:
            return self._adopter.adopt(*seen)
        except BaseException:
            with self._lock:
                self._seen = self._seen or seen
            raise

    def _flush_whole(self, now_ms: int) -> int:
        """Write minutes that are whole, for some seconds at most; how many. The next beat goes on from there."""
        until, minutes = self._clock.monotonic_seconds() + FLUSH_SECONDS_MAX, 0
        while self._flushed_ms + MINUTE.ms + self._grace_ms <= now_ms:
            self._flush(self._flushed_ms)
            minutes += 1
            if self._clock.monotonic_seconds() >= until:
                break
        return minutes

    def _flush(self, minute_ms: int) -> None:
        """One whole minute of all GPUs, its sums, and the coarser steps that end with it."""
        end_ms = minute_ms + MINUTE.ms
        self._buffer.close(end_ms)
        samples = self._buffer.samples(minute_ms)
        pieces = self._spans.pieces(samples, begin_ms=minute_ms, end_ms=end_ms)
        self._slots.write()
        rows = minute_rows(samples, pieces, begin_ms=minute_ms, end_ms=end_ms, hold_ms=self._hold_ms)
        nothing = np.zeros(0, np.int64)
        written = write_rows(self._database, MINUTE, minute_ms, rows, ids=self._slots.ids(), replaced=nothing)
        self._count(MINUTE, written)
        with self._lock:
            seen = self._board_sums.pop(minute_ms, BoardSums())
            for old in [one for one in self._board_sums if one < minute_ms]:
                del self._board_sums[old]
        self._sums.boards(minute_ms, seen)
        self._sums.minute(minute_ms)
        for tier, steps in self._touched.items():
            if end_ms % tier.ms == 0:
                steps[end_ms - tier.ms] = set(range(len(self._slots)))
        self._state.put({_FLUSHED: end_ms})
        self._flushed_ms = end_ms
        self._buffer.forget(end_ms)
        self._spans.forget(end_ms - MINUTE.ms)

    def _mend(self) -> int:
        """Count anew what is marked, for some seconds at most; how many minutes of nodes."""
        until, count = self._clock.monotonic_seconds() + MEND_SECONDS_MAX, 0
        while found := self._buffer.dirty(minutes_max=MENDED_MINUTES_MAX):
            count += self._mend_some(found)
            if self._clock.monotonic_seconds() > until:
                break
        self.counts.mended_minutes_total += count
        return count

    def _mend_some(self, found: dict[str, list[int]]) -> int:
        taken = self._buffer.take(found)
        try:
            replaced = self._mender.mend(found)
        except BaseException:
            self._buffer.give_back(taken)
            raise
        for minute, slots in replaced.items():
            self._unsummed.add(minute)
            for tier, steps in self._touched.items():
                if tier.floor_ms(minute) + tier.ms <= self._flushed_ms:
                    steps.setdefault(tier.floor_ms(minute), set()).update(slots)
        return sum(len(minutes) for minutes in found.values())

    def _is_settled(self) -> bool:
        """Whether to sum what was counted anew: not while more of it is on the way, but now and then all the same."""
        self._postponed = self._postponed + 1 if self._buffer.dirty(minutes_max=1) else 0
        return self._postponed % POSTPONED_BEATS_MAX == 0

    def _sum(self) -> None:
        for minute in sorted(self._unsummed):
            self._sums.minute(minute)
            self._unsummed.discard(minute)

    def _build_touched(self) -> None:
        """Coarser steps that are over or whose minutes changed: quarters first, hours are made from them."""
        until = self._clock.monotonic_seconds() + BUILD_SECONDS_MAX
        for tier, steps in self._touched.items():
            for at_ms in sorted(steps):
                for some in slices(np.array(sorted(steps[at_ms]), np.int64)):
                    if self._clock.monotonic_seconds() > until:
                        return  # the next beat goes on from here
                    self._count(tier, build_slice(self._database, self._slots, tier, at_ms, some))
                    steps[at_ms].difference_update(some.tolist())
                self._sums.step(tier, at_ms)
                del steps[at_ms]
            self._state.put({_BUILT[tier]: tier.floor_ms(self._flushed_ms)})

    def _note(self, now_ms: int) -> None:
        """Keep from where a restart has to count anew."""
        if any(self._touched.values()) or self._unsummed:
            return
        since = self._buffer.unwritten_since_ms(self._flushed_ms)
        self._state.put({_RECEIVED: now_ms if since is None else min(since, now_ms)})

    def _count(self, tier: Tier, rows: int) -> None:
        self.counts.rows_total[tier.name] = self.counts.rows_total.get(tier.name, 0) + rows

    # --- the start

    def _first_open_minute(self, now_ms: int) -> int:
        """The first minute that is not written: the one that was, or where nothing is known the one of now."""
        flushed = self._state.get(_FLUSHED)
        newest = MINUTE.floor_ms(now_ms)
        if flushed is None or flushed > newest:
            return newest
        if newest - flushed <= FILLED_MS_MAX:
            return flushed
        # Whole hours, so that no coarser step is left half built.
        return max(HOUR.floor_ms(newest - FILLED_MS_MAX), flushed)

    def _mark_unbuilt(self) -> None:
        """Have those coarser steps built that an earlier daemon had rolled up minutes of and not come to."""
        for tier, steps in self._touched.items():
            built = self._state.get(_BUILT[tier])
            if built is None:
                self._state.put({_BUILT[tier]: tier.floor_ms(self._flushed_ms)})
                continue
            until_ms = tier.floor_ms(self._flushed_ms)
            for minute in self._sums.minutes(built, until_ms):
                steps.setdefault(tier.floor_ms(minute), set(range(len(self._slots))))

    def _mark_tail(self, now_ms: int) -> None:
        """Have counted anew what an earlier daemon had heard and not yet written."""
        received = self._state.get(_RECEIVED)
        since_ms = now_ms - HOUR.ms if received is None else max(now_ms - self._keep_ms, received - MARGIN_MS)
        self._mark_received(from_unix_ms(since_ms), now_ms)

    def _mark_received(self, since: datetime, now_ms: int) -> None:
        for node, at_ms, received_ms in self._mender.tail(since):
            if at_ms < now_ms - self._keep_ms:
                continue
            minute = MINUTE.floor_ms(at_ms)
            while minute < at_ms + self._hold_ms:
                self._buffer.mark(node, minute, received_ms)
                minute += MINUTE.ms
