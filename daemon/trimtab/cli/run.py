"""Verbs that run a process: `agent` (others join it here); each parses, builds and runs its root."""

from __future__ import annotations

import click


@click.command()
@click.option("--settings", "settings_file", type=click.Path(dir_okay=False), help="TOML file; without it, defaults.")
@click.option("--once", is_flag=True, help="One report, then exit; nothing is kept on disk.")
@click.option("--print", "is_printing", is_flag=True, help="Print each report as JSON on standard output.")
def agent(settings_file: str | None, once: bool, is_printing: bool) -> None:
    """Read this node's GPUs and send reports (`--once --print`: show one and exit)."""
    from trimtab.agent import command  # noqa: PLC0415 - loaded only for this verb

    command(settings_file, is_once=once, is_printing=is_printing)
