"""`trimtab db`: the daemon's database, looked at and cared for beside the daemon; parses and calls."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING

import click
import msgspec

from trimtab.cli.client import say_json
from trimtab.cli.db_left import kept, schema
from trimtab.cli.text import say
from trimtab.clock import SystemClock
from trimtab.errors import StoreError
from trimtab.service import lock_state
from trimtab.settings import DaemonSettings, load
from trimtab.settings.secrets import database_url

if TYPE_CHECKING:
    from trimtab.store.database import Database

_PASSWORD = re.compile(r"(://[^:/@]*):[^@/]*@")
BACKUPS = "backups"
"""Folder of the state directory where backups go unless --to says otherwise."""

_settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("/etc/trimtab/daemon.toml"),
    show_default=True,
    help="The daemon's settings file: says which database.",
)


@click.group()
def db() -> None:
    """Look at the daemon's database, back it up, restore it, export it, move it. Run it beside the daemon.

    \b
    Examples: trimtab db check
              trimtab db backup --keep 7
              trimtab db export findings > findings.csv
              trimtab db move --to postgresql://trimtab@db.example/trimtab
    """


@db.command()
@_settings
@click.option("--json", "is_json", is_flag=True, help="The same data as JSON.")
def check(settings_file: Path, *, is_json: bool) -> None:
    """Count every table and let the engine check itself. The daemon may go on meanwhile.

    A database of a newer trimtab is refused and left alone.

    \b
    Exit codes: 0 all is well; 1 something is damaged; 2 it cannot be read.
    """
    from trimtab.store import care  # noqa: PLC0415 - the daemon's half, for this verb alone

    with _database(settings_file) as database:
        found = care.look(database, progress=_progress)
    if is_json:
        say_json(msgspec.json.encode(asdict(found)))
    else:
        say([f"{found.place}: schema {found.schema}, {found.size_bytes / 1e6:,.1f} MB"])
        say(f"{rows:>12,}  {name}" for name, rows in found.rows.items())
        if found.commands_holding:
            said = f"{found.commands_holding} commands still keep something of the cluster. Before you remove trimtab: "
            say([said + "trimtab release --all"])
        say(f"damaged: {one}" for one in found.problems)
        if not found.problems:
            say(["The database is sound."])
    if found.problems:
        say(["Restore the last backup: trimtab db restore FILE"])
        raise click.exceptions.Exit(1)


@db.command()
@_settings
@click.option(
    "--to", type=click.Path(path_type=Path), help="File to write; without it backups/ of the state directory."
)
@click.option("--keep", type=click.IntRange(min=1), help="Delete all but so many of the backups there.")
def backup(settings_file: Path, to: Path | None, keep: int | None) -> None:
    """Copy a SQLite database while the daemon goes on; the file is there only when it is whole and checked.

    PostgreSQL is backed up by its own means (pg_dump); this says so.
    """
    from trimtab.store import care  # noqa: PLC0415

    settings = _load(settings_file)
    if not settings.store.url.startswith("sqlite") and to is None:
        say(["store.url is PostgreSQL, which is backed up by its own means (pg_dump): nothing to do here."])
        return
    folder = Path(settings.state_directory) / BACKUPS
    target = to or folder / f"trimtab-{SystemClock().now():%Y%m%dT%H%M%SZ}.db"
    with _database(settings_file) as database:
        size_bytes = care.back_up(database, target, progress=_progress)
    say([f"{target}: {size_bytes / 1e6:,.1f} MB"])
    if keep is not None and to is None:
        say(f"deleted {old}" for old in care.forget_old(folder.glob("trimtab-*.db"), keep=keep))


@db.command()
@click.argument("file", type=click.Path(path_type=Path))
@_settings
def restore(file: Path, settings_file: Path) -> None:
    """Put the backup FILE in the database's place; the old database is set aside, never deleted.

    Stop the daemon first. What was acknowledged after the backup is in the database that is set aside.
    """
    from trimtab.store import care  # noqa: PLC0415
    from trimtab.store.database import sqlite_path  # noqa: PLC0415

    settings = _load(settings_file)
    place = sqlite_path(database_url(settings.store), state_directory=Path(settings.state_directory))
    if place is None:
        raise StoreError("store.url is PostgreSQL: restore it by pg_restore. Nothing was changed.")
    with _stopped(settings):
        aside = care.restore(file, place, at=SystemClock().now())
    said = f" The database that was there is now {aside}." if aside else ""
    say([f"{place} is {file} now.{said} Start the daemon: systemctl start trimtab-daemon"])


@db.command()
@click.argument("table")
@_settings
@click.option("--out", type=click.File("w", lazy=False), default="-", help="File to write; - = standard output.")
def export(table: str, settings_file: Path, out: IO[str]) -> None:
    """Write TABLE as CSV with a header: findings, commands, outcomes, audit, events, gpu_1h …

    `trimtab db check` names all tables. Moments are milliseconds UTC (_at_ms), bytes are base64.
    """
    from trimtab.store import care  # noqa: PLC0415

    with _database(settings_file) as database:
        rows = care.export(database, table, out)
    click.echo(f"{rows:,} rows of {table}", err=True)


@db.command()
@click.option("--to", "to_url", required=True, metavar="URL", help="postgresql://user@host/name, empty.")
@_settings
def move(to_url: str, settings_file: Path) -> None:
    """Copy everything into an empty database, count both, and say what to change. All of it or nothing.

    Stop the daemon first. The old database stays as it is. A password is best left to ~/.pgpass or PGPASSFILE.
    """
    from trimtab.store import care  # noqa: PLC0415

    settings = _load(settings_file)
    with _stopped(settings), _database(settings_file, is_left_as_it_is=False) as database:
        counted = care.move(database, to_url, state_directory=Path(settings.state_directory), progress=_progress)
    say(f"{there:>12,}  {name}" for name, (_, there) in counted.items())
    whole = sum(there for _, there in counted.values())
    where = _PASSWORD.sub(r"\1@", to_url)
    say([f"{whole:,} rows, the same in both databases."])
    say([f'Set url = "{where}" under [store] of {settings_file}, then: systemctl start trimtab-daemon'])


db.add_command(schema)
db.add_command(kept)


def _load(settings_file: Path) -> DaemonSettings:
    return load(settings_file, DaemonSettings)


@contextmanager
def _database(settings_file: Path, *, is_left_as_it_is: bool = True) -> Iterator[Database]:
    from trimtab import logs  # noqa: PLC0415
    from trimtab.store.database import open_database  # noqa: PLC0415

    logs.setup(level="warning")  # standard output is the verb's own
    settings = _load(settings_file)
    opened = open_database(
        database_url(settings.store), state_directory=Path(settings.state_directory), is_left_as_it_is=is_left_as_it_is
    )
    try:
        yield opened
    finally:
        opened.close()


@contextmanager
def _stopped(settings: DaemonSettings) -> Iterator[None]:
    """The daemon's own lock, and on PostgreSQL the office of the active one, wherever it runs: none may run, nor begin
    to act, meanwhile. Raises SettingsError or StoreError that says so.
    """
    from trimtab.store.election_session import vacant  # noqa: PLC0415

    held = lock_state(Path(settings.state_directory))
    try:
        with vacant(database_url(settings.store), cluster=settings.cluster):
            yield
    finally:
        os.close(held)


def _progress(sentence: str) -> None:
    """On a terminal one line that is written over; a log gets nothing of it."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{sentence}", nl=False, err=True)
