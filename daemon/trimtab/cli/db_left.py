"""`trimtab db schema` and `trimtab db kept`: what a package asks before it replaces trimtab or takes it away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from trimtab.cli.exits import Exit
from trimtab.cli.text import say
from trimtab.errors import DatabaseNewer
from trimtab.settings import DaemonSettings, load
from trimtab.settings.secrets import database_url

if TYPE_CHECKING:
    from trimtab.store.database import Database

_settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("/etc/trimtab/daemon.toml"),
    show_default=True,
    help="The daemon's settings file: says which database.",
)


@click.command()
@_settings
def schema(settings_file: Path) -> None:
    """Print the database's schema, if this trimtab can use it; nothing where there is no database yet. It is quick.

    A package asks it before it is replaced by an older one.

    \b
    Exit codes: 0 it can; 1 a newer trimtab wrote the database; 2 it cannot be read.
    """
    from trimtab.store.schema import current_revision  # noqa: PLC0415 - the daemon's half, for this verb alone

    try:
        with _database(settings_file) as database:
            if database is not None:
                with database.read() as connection:
                    say([current_revision(connection) or ""])
    except DatabaseNewer as error:
        click.echo(f"trimtab: {error}", err=True)
        raise click.exceptions.Exit(Exit.NOT_WELL) from error


@click.command()
@_settings
def kept(settings_file: Path) -> None:
    """Say what commands still keep of the cluster, from the database alone; nothing when that is nothing.

    A package asks it before it is removed. To give everything back: trimtab release --all --wait

    \b
    Exit codes: 0 nothing is kept; 1 something is; 2 the database cannot be read.
    """
    from trimtab.store.left import kept as kept_of  # noqa: PLC0415 - the daemon's half, for this verb alone

    with _database(settings_file) as database:
        found = () if database is None else kept_of(database)
    if not found:
        return
    say(f"{one.mark}  {one.state}  {one.recommendation.sentence}" for one in found)
    said = "1 command keeps" if len(found) == 1 else f"{len(found)} commands keep"
    say([f"{said} something of the cluster. Before trimtab goes: trimtab release --all --wait"])
    raise click.exceptions.Exit(Exit.NOT_WELL)


@contextmanager
def _database(settings_file: Path) -> Iterator[Database | None]:
    """The database as it is; None where the daemon never made one. Raises StoreError, SettingsError."""
    from trimtab.store.database import open_database, sqlite_path  # noqa: PLC0415

    settings = load(settings_file, DaemonSettings) if settings_file.is_file() else DaemonSettings()
    folder = Path(settings.state_directory)
    file = sqlite_path(settings.store.url, state_directory=folder)
    if file is not None and not file.is_file():
        yield None
        return
    opened = open_database(database_url(settings.store), state_directory=folder, is_left_as_it_is=True)
    try:
        yield opened
    finally:
        opened.close()
