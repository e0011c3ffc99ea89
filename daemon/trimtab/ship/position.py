"""What the spool knows beside its records, in `position.json`: which sequences are settled, and what was lost."""

from __future__ import annotations

from pathlib import Path

import msgspec
import structlog

from trimtab.durable import write_whole
from trimtab.ship.settled import Settled

log = structlog.get_logger()


class _Written(msgspec.Struct, kw_only=True):
    position: int = 0
    ranges: list[tuple[int, int]] = []
    dropped_total: int = 0
    damaged_total: int = 0
    set_aside_total: int = 0


class Position:
    """Settled sequences and counts that go on over restarts."""

    def __init__(self, directory: Path) -> None:
        """Nothing is settled yet; `load` reads what was written down."""
        self.settled = Settled()
        self.dropped_total = 0
        self.damaged_total = 0
        self.set_aside_total = 0
        self._path = directory / "position.json"

    def load(self) -> bool:
        """Take over what was written down; False when there is nothing. Raises OSError."""
        try:
            written = msgspec.json.decode(self._path.read_bytes(), type=_Written)
        except FileNotFoundError:
            return False
        except msgspec.MsgspecError as error:
            log.warning("the spool's position cannot be read; what it holds is sent again", why=str(error))
            return False
        self.settled = Settled(written.position, written.ranges)
        self.dropped_total = written.dropped_total
        self.damaged_total = written.damaged_total
        self.set_aside_total = written.set_aside_total
        return True

    def save(self) -> None:
        """Write it down. Raises OSError."""
        written = _Written(
            position=self.settled.position,
            ranges=list(self.settled.ranges),
            dropped_total=self.dropped_total,
            damaged_total=self.damaged_total,
            set_aside_total=self.set_aside_total,
        )
        write_whole(self._path, msgspec.json.encode(written))

    def unsettled(self, first: int, last: int) -> int:
        """How many of `first` to `last` still wait."""
        return max(0, last - first + 1) - self.settled.count(first, last)

    def drop(self, first: int, last: int) -> int:
        """Settle these because they must make room; returns how many were waiting."""
        dropped = self.unsettled(first, last)
        self.dropped_total += dropped
        self.settled.add(first, last)
        return dropped

    def give_up(self, first: int, last: int) -> None:
        """Settle these because they cannot be read back."""
        damaged = self.unsettled(first, last)
        if damaged:
            self.damaged_total += damaged
            self.settled.add(first, last)
            log.warning("reports could not be read back from the spool", first=first, last=last, reports=damaged)
