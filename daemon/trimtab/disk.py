"""The beat that keeps the database within its bytes and its disk from filling: what goes early is said everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable

import structlog

from trimtab.clock import Clock, age_text
from trimtab.loop import Beat
from trimtab.settings import DaemonSettings
from trimtab.show.metrics_limits import DiskFacts
from trimtab.store.quota import LEVELS, Quota, Room

log = structlog.get_logger()

_NAMES = {"raw": "raw reports", "1m": "rows of a minute", "15m": "rows of a quarter", "1h": "rows of an hour"}


class DiskWatch:
    """Looks now and then, lets the oldest history go where it must, and keeps what people are told of it."""

    def __init__(
        self, in_force: Callable[[], DaemonSettings], *, quota: Quota, clock: Clock, ended: threading.Event
    ) -> None:
        """`in_force`: the settings as a reload leaves them."""
        self._in_force = in_force
        self._quota = quota
        self._clock = clock
        self._ended = ended
        self._room: Room | None = None
        self._gone_total: dict[str, int] = dict.fromkeys(_NAMES, 0)
        self._notes: dict[str, str] = {}
        self._is_short = False

    def tick(self) -> str:
        """One look, and what came of it. Raises StoreError."""
        if self._quota.is_disk_full() and self._quota.give_up_ballast():
            log.warning("the disk is full: the ballast was given up, so that history can be deleted")
        room = self._room = self._quota.look()
        if not room.over_bytes:
            self._all_is_well(room)
            return _sentence(room)
        # By the clock, not by the age of history: that lags by as long as the daemon was down, and nothing could go.
        trimmed = self._quota.trim(self._clock.now(), is_stopped=self._ended.is_set)
        self._room = self._quota.look()
        for level, rows in trimmed.rows.items():
            self._gone_total[level] += rows
        self._note(room)
        self._say_short(is_short=not trimmed.is_enough, room=self._room)
        gone = ", ".join(f"{rows} {_NAMES[level]}" for level, rows in trimmed.rows.items()) or "nothing"
        return f"{gone} went before their days; {_sentence(self._room)}"

    def notes(self) -> tuple[str, ...]:
        """Sentences for the board: history that is shorter than its days."""
        return tuple(self._notes.values())

    def facts(self) -> DiskFacts:
        """How it stands, for /metrics."""
        room = self._room
        if room is None:
            return DiskFacts(rows_gone_total=dict(self._gone_total))
        return DiskFacts(
            held_bytes=room.held_bytes,
            held_bytes_max=room.held_bytes_max,
            free_bytes=room.free_bytes,
            free_bytes_min=room.free_bytes_min,
            rows_gone_total=dict(self._gone_total),
            is_short=self._is_short,
        )

    @property
    def _days(self) -> dict[str, float]:
        settings = self._in_force()
        return {
            "raw": settings.store.journal_days,
            "1m": settings.rollup.minute_days,
            "15m": settings.rollup.quarter_days,
            "1h": settings.rollup.hour_days,
        }

    def _all_is_well(self, room: Room) -> None:
        self._quota.hold_ballast()
        self._say_short(is_short=False, room=room)
        for level in LEVELS:
            if level.name in self._notes and self._kept_seconds(level.name) >= self._days[level.name] * 86400:
                del self._notes[level.name]  # the days are full again
                log.info("history is kept for its days again", of=_NAMES[level.name])

    def _note(self, room: Room) -> None:
        """What is kept now of each level that had to give; said in the log when it begins."""
        why = "the disk is nearly full" if room.short_bytes else "the database is at its quota"
        for level in LEVELS:
            if not self._gone_total[level.name]:
                continue
            kept, days = age_text(self._kept_seconds(level.name)), self._days[level.name]
            said = f"History is short: {_NAMES[level.name]} are kept for {kept}, not {days:g} d, because {why}"
            if level.name not in self._notes:
                log.warning(
                    "history goes before its days", of=_NAMES[level.name], kept=kept, days=days, why=why,
                    over_bytes=room.over_bytes, held_bytes=room.held_bytes, free_bytes=room.free_bytes,
                )  # fmt: skip
            self._notes[level.name] = said

    def _say_short(self, *, is_short: bool, room: Room) -> None:
        if is_short and not self._is_short:
            log.error(
                "nothing more of history may go, and it is not enough: make room on the disk or raise [disk] "
                "database_bytes_max",
                over_bytes=room.over_bytes,
                held_bytes=room.held_bytes,
                free_bytes=room.free_bytes,
            )
        if is_short:
            self._notes["short"] = "The disk is nearly full and no history is left that may go: make room on it"
        else:
            self._notes.pop("short", None)
        self._is_short = is_short

    def _kept_seconds(self, name: str) -> float:
        level = next(one for one in LEVELS if one.name == name)
        oldest = self._quota.oldest(level)
        return 0.0 if oldest is None else max((self._clock.now() - oldest).total_seconds(), 0.0)


def disk_beat(watch: DiskWatch, settings: DaemonSettings, clock: Clock) -> Beat:
    """Its beat."""
    return Beat("disk", watch.tick, interval_seconds=settings.disk.look_seconds, clock=clock)


def _sentence(room: Room) -> str:
    held = f"the database holds {_megabytes(room.held_bytes)}"
    most = f" of at most {_megabytes(room.held_bytes_max)}" if room.held_bytes_max else ""
    free = f"; {_megabytes(room.free_bytes)} are free on its disk" if room.free_bytes is not None else ""
    return f"{held}{most}{free}"


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
