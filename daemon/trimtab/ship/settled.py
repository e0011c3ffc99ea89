"""Which sequences are settled (acknowledged, set aside or given up), as ranges: live reports overtake the backlog."""

from __future__ import annotations

from collections.abc import Iterable

RANGES_MAX = 1000
"""Ranges kept above the position; past it the lowest is forgotten and sent again, which the daemon takes for a
duplicate."""


class Settled:
    """A set of sequences from 1 on: all up to `position`, and ranges above it."""

    def __init__(self, position: int = 0, ranges: Iterable[tuple[int, int]] = ()) -> None:
        """Start from what was written down; ranges may come in any order and overlap."""
        self.position = position
        self._ranges: list[tuple[int, int]] = []
        for first, last in ranges:
            self.add(first, last)

    @property
    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges above the position, ascending, apart from each other."""
        return tuple(self._ranges)

    @property
    def highest(self) -> int:
        """The highest settled sequence; 0 when there is none."""
        return self._ranges[-1][1] if self._ranges else self.position

    def __contains__(self, sequence: int) -> bool:
        """Whether a sequence is settled."""
        return sequence <= self.position or any(first <= sequence <= last for first, last in self._ranges)

    def add(self, first: int, last: int) -> None:
        """Settle `first` to `last`, both included; settling twice changes nothing."""
        kept: list[tuple[int, int]] = []
        for low, high in self._ranges:
            if high < first - 1 or low > last + 1:
                kept.append((low, high))
            else:
                first, last = min(first, low), max(last, high)
        kept.append((first, last))
        kept.sort()
        while kept and kept[0][0] <= self.position + 1:
            self.position = max(self.position, kept.pop(0)[1])
        self._ranges = kept[-RANGES_MAX:]

    def count(self, first: int, last: int) -> int:
        """How many of `first` to `last` are settled."""
        spans = [(1, self.position), *self._ranges]
        return sum(max(0, min(high, last) - max(low, first) + 1) for low, high in spans)
