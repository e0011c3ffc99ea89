"""Verbs that run a process: `agent`, `daemon`; each parses, builds and runs its root."""

from __future__ import annotations

import click


@click.command()
@click.option("--settings", "settings_file", type=click.Path(dir_okay=False), help="TOML file; without it, defaults.")
@click.option("--once", is_flag=True, help="One report, then exit; nothing is kept on disk.")
@click.option("--print", "is_printing", is_flag=True, help="Print each report as JSON on standard output.")
def agent(settings_file: str | None, once: bool, is_printing: bool) -> None:
    """Read this node's GPUs and send reports (`--once --print`: show one and exit).

    \b
    Examples: trimtab agent --once --print | jq .
              trimtab agent --settings /etc/trimtab/agent.toml
    """
    from trimtab.agent import command  # noqa: PLC0415 - loaded only for this verb
    from trimtab.allocator import use_few_arenas  # noqa: PLC0415

    use_few_arenas()
    command(settings_file, is_once=once, is_printing=is_printing)


@click.command()
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False),
    default="/etc/trimtab/daemon.toml",
    show_default=True,
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    help="In place of log.level of the settings, which a reload may change; this stays.",
)
def daemon(settings_file: str, log_level: str | None) -> None:
    """Keep the cluster's history, judge it, recommend, and carry out what is agreed.

    Prints an address that opens the page once; `trimtab link` makes another.

    \b
    Examples: trimtab doctor --settings /etc/trimtab/daemon.toml
              trimtab daemon --settings /etc/trimtab/daemon.toml --log-level debug
    """
    from pathlib import Path  # noqa: PLC0415 - loaded only for this verb

    from msgspec.structs import replace  # noqa: PLC0415

    from trimtab import logs  # noqa: PLC0415
    from trimtab.allocator import use_few_arenas  # noqa: PLC0415
    from trimtab.loop import starting  # noqa: PLC0415
    from trimtab.pair import run  # noqa: PLC0415
    from trimtab.service import Service  # noqa: PLC0415
    from trimtab.settings import DaemonSettings, load  # noqa: PLC0415

    def read() -> DaemonSettings:
        found = load(Path(settings_file), DaemonSettings, is_start=True)
        return replace(found, log=replace(found.log, level=log_level)) if log_level else found

    use_few_arenas()
    settings = read()
    logs.setup(level=settings.log.level, form=settings.log.form, identifier="trimtab-daemon")
    logs.hear_all()
    with starting(Service().starting):
        run(settings, read=read)
