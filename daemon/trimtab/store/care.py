"""Care for a database outside the daemon's beats: look, back up, restore, export, move to another engine."""

from __future__ import annotations

import base64
import csv
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO

import sqlalchemy as sa

from trimtab import __version__
from trimtab.durable import sync_directory
from trimtab.errors import StoreError
from trimtab.store import schema
from trimtab.store.commands import command_floor_key
from trimtab.store.database import Database, open_database
from trimtab.store.every_table import VERSION_TABLE, metadata
from trimtab.store.postings import numbers_key
from trimtab.store.tables import commands

ROWS_PER_BATCH = 5_000
ROOM_RATIO = 1.5
"""Free space for a backup, over the database's size: the copy, and as much as the daemon writes meanwhile."""
NUMBERS_JUMP = 100_000
"""How far numbers of incidents go on after a restore: more than could have been given since the backup."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """What a database is: its place, schema, size, rows, and what is wrong with it."""

    place: str
    schema: str
    size_bytes: int
    rows: Mapping[str, int]
    commands_holding: int
    """Commands that still keep something of the cluster: `trimtab release --all` gives it back."""
    problems: tuple[str, ...] = ()


def look(database: Database, *, progress: Progress) -> Look:
    """Count every table and let the engine check itself. Raises StoreError where it cannot be read."""
    progress(f"reading {database.place}")
    with database.read() as connection:
        there = set(sa.inspect(connection).get_table_names())  # one that an upgrade will make is not there yet
        rows = {table.name: _count(connection, table) for table in metadata.sorted_tables if table.name in there}
        revision = schema.current_revision(connection) or ""
        holding = sa.select(sa.func.count()).select_from(commands).where(commands.c.is_holding.is_(True))
        held = int(connection.execute(holding).scalar_one())
        problems: tuple[str, ...] = ()
        if database.is_sqlite:
            progress("checking every page")
            said = connection.execute(sa.text("PRAGMA integrity_check(20)")).scalars().all()
            problems = () if list(said) == ["ok"] else tuple(str(one) for one in said)
    return Look(
        place=database.place,
        schema=revision,
        size_bytes=database.size_bytes(),
        rows=rows,
        commands_holding=held,
        problems=problems,
    )


def back_up(database: Database, to: Path, *, progress: Progress) -> int:
    """An online copy of a SQLite database, whole as of one moment, while the daemon goes on; its size in bytes.

    The file appears under its name only when it is complete, checked and on the disk. Raises StoreError.
    """
    if not database.is_sqlite:
        raise StoreError(
            f"{database.place} is PostgreSQL, which has its own: pg_dump --format=custom, or continuous archiving. "
            "A copy by another way would not be whole."
        )
    part = to.with_name(f"{to.name}.part")
    check_room(to, size_bytes=database.size_bytes())
    try:
        if not to.parent.exists():
            to.parent.mkdir(parents=True, mode=0o700)
            _give_as_above(to.parent)
        part.unlink(missing_ok=True)
        descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.close(descriptor)
        _give_as_above(part)
        _copy(database.place, part, progress)
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(to)
        sync_directory(to.parent)
        return to.stat().st_size
    except (OSError, sqlite3.Error) as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise StoreError(f"{to}: the backup could not be written, nothing is left of it: {error}") from error


def _give_as_above(path: Path) -> None:
    """What root made belongs to whom the folder above belongs: the nightly backup of the daemon's user goes on here."""
    if os.geteuid() == 0:
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)


def check_room(to: Path, *, size_bytes: int) -> None:
    """A backup on the daemon's own disk must not be what fills it. Raises StoreError."""
    there = next(folder for folder in to.absolute().parents if folder.exists())
    free_bytes = shutil.disk_usage(there).free
    if free_bytes < size_bytes * ROOM_RATIO:
        raise StoreError(
            f"{to}: {free_bytes / 1e6:,.0f} MB are free and the database has {size_bytes / 1e6:,.0f} MB: a backup here "
            "could fill the disk. Give --to a place on another disk, or keep fewer."
        )


def _copy(place: str, part: Path, progress: Progress) -> None:
    source = sqlite3.connect(f"file:{place}?mode=ro", uri=True)
    try:
        target = sqlite3.connect(part)
        try:
            # In one step: between two, each commit of the daemon would make the copy begin anew. Its writers go on,
            # the write-ahead log alone grows meanwhile.
            progress(f"copying {place}")
            source.backup(target)
            progress("checking the copy")
            said = [row[0] for row in target.execute("PRAGMA integrity_check(5)")]
            if said != ["ok"]:
                raise StoreError(f"the copy is damaged, as {place} may be: {said[0]}. Run: trimtab db check")
        finally:
            target.close()
    finally:
        source.close()


def restore(backup: Path, place: Path, *, at: datetime) -> Path | None:
    """Put a backup in the database's place; where the old one was set aside, if there was one. Raises StoreError.

    The daemon must be stopped: whoever calls holds its lock. The old database is kept, never written over.
    """
    _check_backup(backup)
    aside = place.with_name(f"{place.name}.before-{at:%Y%m%dT%H%M%SZ}")
    part = place.with_name(f"{place.name}.restoring")
    try:
        part.unlink(missing_ok=True)
        source, target = _opened(backup), sqlite3.connect(part)
        try:
            source.backup(target)
        finally:
            source.close()
            target.close()
        part.chmod(0o640)
        _jump(part)
        had_one = place.exists()
        owner = (place if had_one else place.parent).stat()
        if os.geteuid() == 0:  # by sudo, and for the daemon's own user all the same
            os.chown(part, owner.st_uid, owner.st_gid)
        for suffix in ("-wal", "-shm", ""):  # the log first: without its database it is nothing, with another's poison
            old = place.with_name(place.name + suffix)
            if old.exists():
                old.rename(aside.with_name(aside.name + suffix))
        part.rename(place)
        sync_directory(place.parent)
    except (OSError, sqlite3.Error) as error:
        raise StoreError(f"{place}: {backup} could not be put back: {error}") from error
    return aside if had_one else None


def _opened(backup: Path) -> sqlite3.Connection:
    """To read; nothing is made beside it, so that a backup on a read-only disk will do."""
    log = backup.with_name(f"{backup.name}-wal")
    alone = "" if log.exists() and log.stat().st_size else "&immutable=1"  # a log that is there belongs to it
    return sqlite3.connect(f"file:{backup}?mode=ro{alone}", uri=True)


def _jump(part: Path) -> None:
    """What was numbered after the backup is known outside: receivers drop a number that they have seen, and marks on
    the cluster name commands. So numbers go on far above; a mark whose command is not known here is given back.
    """
    database = sqlite3.connect(part)
    try:
        tables = {row[0] for row in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        for table, column, key_of in (("incidents", "number", numbers_key), ("commands", "id", command_floor_key)):
            if table not in tables:
                continue
            numbered = f"SELECT cluster, max({column}) FROM {table} GROUP BY cluster"
            for cluster, highest in database.execute(numbered).fetchall():
                kept = database.execute("SELECT value FROM meta WHERE key = ?", (key_of(cluster),)).fetchone()
                number = max(int(kept[0]) if kept else 0, highest) + NUMBERS_JUMP
                row = (key_of(cluster), str(number))
                database.execute("INSERT OR REPLACE INTO meta (key, value) VALUES (?, ?)", row)
        database.commit()
    finally:
        database.close()


def _check_backup(backup: Path) -> None:
    if not backup.is_file():
        raise StoreError(f"{backup}: there is no such backup.")
    source = _opened(backup)
    try:
        said = [row[0] for row in source.execute("PRAGMA integrity_check(5)")]
        names = {row[0] for row in source.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        asked = f"SELECT version_num FROM {VERSION_TABLE}"
        revision = next((row[0] for row in source.execute(asked)), None) if VERSION_TABLE in names else None
    except sqlite3.Error as error:
        raise StoreError(f"{backup} is no backup of trimtab: {error}") from error
    finally:
        source.close()
    if said != ["ok"]:
        raise StoreError(f"{backup} is damaged: {said[0]}. Nothing was changed.")
    if "journal" not in names or "commands" not in names:
        raise StoreError(f"{backup} is no backup of trimtab: it has no journal or no commands. Nothing was changed.")
    if revision is not None and revision not in schema.known_revisions():
        raise StoreError(
            f"{backup}: written by a newer trimtab (schema {revision}); this is {__version__}, whose daemon could not "
            "use it. Install that version or a later one first. Nothing was changed."
        )


_FORMULA = ("=", "+", "-", "@", "\t", "\n")


def export(database: Database, name: str, into: IO[str]) -> int:
    """One table as CSV with a header, oldest first; how many rows. Raises StoreError.

    Bytes are base64; a text that a spreadsheet would run begins with an apostrophe.
    """
    known = {table.name: table for table in metadata.sorted_tables}
    if name not in known:
        raise StoreError(f"there is no table {name!r}. There are: {', '.join(sorted(known))}.")
    table = known[name]
    writer = csv.writer(into, lineterminator="\n")
    writer.writerow([column.name for column in table.columns])
    rows = 0
    with database.read() as connection:
        ordered = sa.select(table).order_by(*table.primary_key.columns)
        for row in connection.execution_options(yield_per=ROWS_PER_BATCH).execute(ordered):
            writer.writerow([_cell(value) for value in row])
            rows += 1
    return rows


def _cell(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if not isinstance(value, str):
        return value
    # A reader takes a bare \r for the end of a row, and a spreadsheet would run what begins as a formula does: names
    # and texts come from nodes, jobs and alerts.
    text = value.replace("\r\n", "\n").replace("\r", "\n")
    return f"'{text}" if text.startswith(_FORMULA) else text


def move(source: Database, to_url: str, *, state_directory: Path, progress: Progress) -> dict[str, tuple[int, int]]:
    """Copy everything into an empty database of the other engine; rows of each table there and here, counted.

    All of it or nothing. The source stays as it is. Raises StoreError, also where the counts differ.
    """
    target = open_database(to_url, state_directory=state_directory)
    try:
        with source.read() as reading, target.write() as writing:
            _check_empty(writing, target.place)
            for table in metadata.sorted_tables:
                _copy_table(reading, writing, table, progress)
            counted = {one.name: (_count(reading, one), _count(writing, one)) for one in metadata.sorted_tables}
            different = [
                f"{name}: {here} here, {there} there" for name, (here, there) in counted.items() if here != there
            ]
            if different:
                raise StoreError(f"{target.place}: the counts differ, nothing was kept: {'; '.join(different)}")
    finally:
        target.close()
    return counted


def _check_empty(connection: sa.Connection, place: str) -> None:
    for table in metadata.sorted_tables:
        if table.name != "meta" and _count(connection, table):
            raise StoreError(
                f"{place}: {table.name} has rows already. Move into an empty database; nothing was changed."
            )
    connection.execute(sa.text("DELETE FROM meta"))  # what its migrations wrote; the source's own is copied


def _copy_table(reading: sa.Connection, writing: sa.Connection, table: sa.Table, progress: Progress) -> None:
    ordered = sa.select(table).order_by(*table.primary_key.columns)
    done = 0
    for batch in reading.execution_options(yield_per=ROWS_PER_BATCH).execute(ordered).mappings().partitions():
        writing.execute(sa.insert(table), [dict(row) for row in batch])
        done += len(batch)
        progress(f"{table.name}: {done} rows")
    if writing.dialect.name == "postgresql":
        _set_sequence(writing, table)


def _set_sequence(connection: sa.Connection, table: sa.Table) -> None:
    """Ids were copied, so that the sequence behind them must go on after the last."""
    column = table.autoincrement_column
    if column is None:
        return
    name = {"table": table.name, "column": column.name}
    sequence = connection.execute(sa.text("SELECT pg_get_serial_sequence(:table, :column)"), name).scalar_one_or_none()
    if sequence is not None:
        last = sa.select(sa.func.coalesce(sa.func.max(column), 0) + 1).scalar_subquery()
        connection.execute(sa.select(sa.func.setval(sequence, last, sa.false())))


def _count(connection: sa.Connection, table: sa.Table) -> int:
    return int(connection.execute(sa.select(sa.func.count()).select_from(table)).scalar_one())


def forget_old(backups: Iterable[Path], *, keep: int) -> list[Path]:
    """Delete all but the newest `keep`, by name; which. Raises StoreError."""
    gone: list[Path] = []
    for old in sorted(backups)[: -keep or None]:
        try:
            old.unlink()
        except OSError as error:
            raise StoreError(f"{old}: cannot be deleted: {error.strerror}") from error
        gone.append(old)
    return gone
