"""`trimtab token node NAME`: gives a node its token, beside the daemon."""

from __future__ import annotations

from pathlib import Path

import click

from trimtab import settings as settings_module
from trimtab.ship.tokens import give_token, revoke_token, tokens_path


@click.group()
def token() -> None:
    """Make and revoke the tokens with which agents report."""


@token.command()
@click.argument("name")
@click.option(
    "--settings", "settings_file", type=click.Path(path_type=Path), help="The daemon's settings file: says where."
)
@click.option("--state-directory", type=click.Path(path_type=Path), help="The daemon's state directory.")
@click.option("--revoke", is_flag=True, help="Forget the node's token; its agent keeps its reports until it has one.")
def node(name: str, settings_file: Path | None, state_directory: Path | None, revoke: bool) -> None:
    """Make the token of node NAME and print it once; the daemon keeps only its hash.

    Put it into the agent's token_file. A token that the node had before no longer works.
    """
    path = _path(settings_file, state_directory)
    if revoke:
        revoke_token(path, name)
        click.echo(f"{name} has no token any more ({path}).", err=True)
        return
    made, replaces = give_token(path, name)
    click.echo(made)
    former = " Its former token no longer works." if replaces else ""
    click.echo(f"This is the token of {name}, shown this once; its hash is in {path}.{former}", err=True)


def _path(settings_file: Path | None, state_directory: Path | None) -> Path:
    if settings_file is not None and state_directory is not None:
        raise click.UsageError("Give --settings or --state-directory, not both.")
    if settings_file is not None:
        return tokens_path(settings_module.load(settings_file, settings_module.DaemonSettings))
    if state_directory is not None:
        return tokens_path(settings_module.DaemonSettings(state_directory=str(state_directory)))
    return tokens_path(settings_module.DaemonSettings())
