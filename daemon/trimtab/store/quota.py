"""Keeps a database within its bytes: measures what it holds, and lets the oldest history go, the rawest first."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from trimtab.clock import from_unix_ms, unix_ms
from trimtab.model.rollup import HOUR, MINUTE, QUARTER
from trimtab.settings.disk import DiskSettings
from trimtab.store.database import Database
from trimtab.store.every_table import metadata
from trimtab.store.retention import FREED_PAGES
from trimtab.store.tables import journal
from trimtab.store.tables_rollup import GPU_TABLES

BATCH_ROWS = 2000
"""Rows a transaction: at most 10 MB of raw reports."""
FEW_ROWS = 200
"""While the disk is full: each transaction must fit into what little there is."""
FULL_BYTES = 8 * 1024 * 1024
"""A batch of deletions fits into so much."""
SLACK_RATIO = 0.02
"""So much more goes than must, or the next commit would call for the next deletion."""
_INDEX_BYTES = 200
"""Of a row on PostgreSQL, beside its columns: header, line pointer, and its place in two indexes."""
_SAMPLE_ROWS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Level:
    """One kind of history, and how much of it stays whatever the quota says."""

    name: str
    table: sa.Table
    moment: str
    kept_at_least: timedelta


LEVELS = (
    Level(name="raw", table=journal, moment="received_at_ms", kept_at_least=timedelta(minutes=30)),
    Level(name="1m", table=GPU_TABLES[MINUTE.name], moment="at_ms", kept_at_least=timedelta(hours=6)),
    Level(name="15m", table=GPU_TABLES[QUARTER.name], moment="at_ms", kept_at_least=timedelta(days=1)),
    Level(name="1h", table=GPU_TABLES[HOUR.name], moment="at_ms", kept_at_least=timedelta(days=7)),
)
"""In the order in which they go. Half an hour of raw reports fills the ring after a restart and mends roll-ups."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What there is. None = not bounded, or not ours to know (the disk of PostgreSQL)."""

    held_bytes: int
    held_bytes_max: int | None
    free_bytes: int | None
    free_bytes_min: int | None

    @property
    def over_bytes(self) -> int:
        """How much must go; 0 = all is well."""
        over = self.held_bytes - self.held_bytes_max if self.held_bytes_max else 0
        return max(over, self.short_bytes, 0)

    @property
    def short_bytes(self) -> int:
        """How much is missing of what is to be free on the disk."""
        if self.free_bytes is None or self.free_bytes_min is None:
            return 0
        return max(self.free_bytes_min - self.free_bytes, 0)


@dataclass(slots=True)
class Trimmed:
    """What went, by level; `is_enough` is False when nothing more may go."""

    rows: dict[str, int] = field(default_factory=dict)
    is_enough: bool = True


class Quota:
    """The bounds of one database. Use it from one thread; raises StoreError."""

    def __init__(self, database: Database, settings: DiskSettings) -> None:
        """Use an open database."""
        self._database = database
        self._settings = settings
        place = Path(database.place)
        self._folder = place.parent if database.is_sqlite and place.is_absolute() else None

    def look(self) -> Room:
        """Measure."""
        disk = self._disk()
        return Room(
            held_bytes=self._held_bytes(),
            held_bytes_max=self._settings.database_bytes_max or None,
            free_bytes=disk.free if disk else None,
            # A disk that is smaller than four times the floor could never be within it.
            free_bytes_min=min(self._settings.free_bytes_min, disk.total // 4) if disk else None,
        )

    def trim(self, now: datetime, *, is_stopped: Callable[[], bool] = lambda: False) -> Trimmed:
        """Let the oldest go until the database is within its bounds, or nothing more may."""
        trimmed = Trimmed()
        left_bytes = int(self.look().over_bytes * (1 + SLACK_RATIO))
        for level in LEVELS:
            if left_bytes <= 0 or is_stopped():
                break
            for rows, freed_bytes in self._let_go(level, now):
                trimmed.rows[level.name] = trimmed.rows.get(level.name, 0) + rows
                left_bytes -= freed_bytes
                if left_bytes <= 0 or is_stopped():
                    break
        trimmed.is_enough = left_bytes <= 0
        if trimmed.rows:
            self._give_back()
        return trimmed

    def oldest(self, level: Level) -> datetime | None:
        """The oldest moment of a level that is there."""
        with self._database.read() as connection:
            oldest_ms = connection.execute(sa.select(sa.func.min(level.table.c[level.moment]))).scalar_one_or_none()
        return None if oldest_ms is None else from_unix_ms(oldest_ms)

    # --- the ballast

    def hold_ballast(self) -> None:
        """Have the file that can be given up, where there is room for it. It is not needed: trouble is none."""
        path, size_bytes = self._ballast, self._settings.ballast_bytes
        if path is None or not size_bytes or path.exists():
            return
        try:
            with path.open("wb") as file:
                os.posix_fallocate(file.fileno(), 0, size_bytes)
        except OSError:
            path.unlink(missing_ok=True)

    def is_disk_full(self) -> bool:
        """Whether there is too little room even to delete in; then nothing may be asked of the database first."""
        disk = self._disk()
        return bool(disk) and disk.free < FULL_BYTES

    def give_up_ballast(self) -> bool:
        """Make room to delete in; whether there was any to make."""
        path = self._ballast
        if path is None or not path.exists():
            return False
        path.unlink(missing_ok=True)
        return True

    @property
    def _ballast(self) -> Path | None:
        return self._folder / "ballast" if self._folder is not None else None

    # --- measuring

    def _disk(self) -> Any:  # noqa: ANN401 - shutil's own named tuple
        return shutil.disk_usage(self._folder) if self._folder is not None else None

    def _held_bytes(self) -> int:
        """What rows take. Room of deleted rows is used again, so it counts for nothing."""
        if self._database.is_sqlite:
            asked = (
                "SELECT (page_count - freelist_count) * page_size "
                "FROM pragma_page_count(), pragma_freelist_count(), pragma_page_size()"
            )
            with self._database.read() as connection:
                return int(connection.execute(sa.text(asked)).scalar_one())
        with self._database.read() as connection:
            statement = (
                "SELECT relname, pg_total_relation_size(relid), n_live_tup FROM pg_stat_user_tables "
                "WHERE schemaname = current_schema()"
            )
            # What others keep in the same database is theirs, and no reason to let history of ours go.
            tables = {
                row[0]: (int(row[1]), int(row[2]))
                for row in connection.execute(sa.text(statement))
                if row[0] in metadata.tables
            }
            held = {name: size for name, (size, _) in tables.items()}
            for level in LEVELS:
                size, rows = tables.get(level.table.name, (0, 0))
                # PostgreSQL gives files back to nobody: of what goes, its own count of rows tells what is left.
                held[level.table.name] = min(size, int(rows * self._row_bytes(connection, level)))
        return sum(held.values())

    def _row_bytes(self, connection: sa.Connection, level: Level) -> float:
        newest = sa.select(level.table).order_by(level.table.c[level.moment].desc()).limit(_SAMPLE_ROWS).subquery()
        size = sa.func.pg_column_size(newest.c.body if "body" in newest.c else newest.table_valued())
        mean = connection.execute(sa.select(sa.func.avg(size)).select_from(newest)).scalar_one_or_none()
        return float(mean or 0) + _INDEX_BYTES

    # --- letting go

    def _let_go(self, level: Level, now: datetime) -> Iterator[tuple[int, int]]:
        """Delete batches of a level, oldest first: rows and bytes of each."""
        before_ms = unix_ms(now - level.kept_at_least)
        table, moment = level.table, level.table.c[level.moment]
        keys = list(table.primary_key.columns)
        # By the moment alone, which is the index that there is: the ids of a clock that jumped are in no order.
        oldest = sa.select(*keys).where(moment < before_ms).order_by(moment)
        key: Any = keys[0] if len(keys) == 1 else sa.tuple_(*keys)
        while True:
            is_full = self.is_disk_full()
            statement = sa.delete(table).where(key.in_(oldest.limit(FEW_ROWS if is_full else BATCH_ROWS)))
            before_bytes, row_bytes = 0, 0.0
            if self._database.is_sqlite:
                before_bytes = self._held_bytes()
            else:
                with self._database.read() as connection:
                    row_bytes = self._row_bytes(connection, level)
            with self._database.write() as connection:
                rows = connection.execute(statement).rowcount
            if rows <= 0:
                return
            if is_full:
                self._database.shrink_log()
            yield rows, before_bytes - self._held_bytes() if self._database.is_sqlite else int(rows * row_bytes)

    def _give_back(self) -> None:
        """Let the disk have the room, bit by bit, where it is short; PostgreSQL uses it again by itself."""
        if not self._database.is_sqlite:
            return
        while self.look().short_bytes > 0:
            with self._database.read() as connection:
                free, mode = (
                    int(connection.execute(sa.text(f"PRAGMA {name}")).scalar_one())
                    for name in ("freelist_count", "auto_vacuum")
                )
            if mode != 2 or not free:
                return
            with self._database.write() as connection:
                driver: Any = connection.connection.driver_connection
                driver.execute(f"PRAGMA incremental_vacuum({FREED_PAGES})").fetchall()
            self._database.shrink_log()
