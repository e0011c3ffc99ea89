"""`trimtab join`: turn a join token into this node's own credential, before its agent runs or beside it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
import msgspec

from trimtab.cli.client import say_json
from trimtab.cli.exits import Exit, help_text
from trimtab.cli.text import say
from trimtab.clock import SystemClock, iso
from trimtab.errors import SettingsError

DEFAULT_SETTINGS = Path("/etc/trimtab/agent.toml")


@click.command(epilog=help_text("join"))
@click.argument("url", metavar="URL")
@click.option("--token-file", metavar="FILE", required=False,
              help="File with the join token; - = standard input. Else $TRIMTAB_JOIN_TOKEN.")  # fmt: skip
@click.option("--settings", "settings_file", type=click.Path(dir_okay=False, path_type=Path),
              help="The agent's settings file.  [default: /etc/trimtab/agent.toml where it is]")  # fmt: skip
@click.option("--ca-file", metavar="FILE", help="CA certificate of the daemon, where the token does not vouch for it.")
@click.option("--json", "is_json", is_flag=True, help="What came of it, as JSON (without the secret).")
def join(url: str, token_file: str | None, settings_file: Path | None, ca_file: str | None, is_json: bool) -> None:
    """Join the daemon at URL with a join token from `trimtab enroll NODE`; run it on the node, as root.

    Keeps the node's own credential in the agent's credential_directory, and URL with it. The token is never given on
    the command line, where `ps` would show it. Run again with the same token after a failure, it goes on where it was.

    \b
    Examples: trimtab join https://trimtab.example:9741 --token-file - < gpu-07.join
              TRIMTAB_JOIN_TOKEN=… trimtab join https://trimtab.example:9741
    """
    from trimtab.joining import join_once  # noqa: PLC0415 - the agent's half, for this verb alone
    from trimtab.settings import AgentSettings, load  # noqa: PLC0415
    from trimtab.ship.admission import NotAdmitted  # noqa: PLC0415

    path = settings_file or (DEFAULT_SETTINGS if DEFAULT_SETTINGS.exists() else None)
    settings = load(path, AgentSettings)
    changes = {"daemon_urls": (url,), **({"ca_file": ca_file} if ca_file else {})}
    try:
        kept = join_once(msgspec.structs.replace(settings, **changes), token=_token(token_file), clock=SystemClock())
    except NotAdmitted as no:
        click.echo(f"trimtab: {no}", err=True)
        raise click.exceptions.Exit(Exit.REFUSED if no.is_final else Exit.OUT_OF_REACH) from no
    if is_json:
        say_json(msgspec.json.encode({"node": kept.node, "cluster": kept.cluster, "expires_at": kept.expires_at}))
        return
    where = settings.credential_directory
    until = iso(kept.expires_at)
    say([f"{kept.node} is enrolled in {kept.cluster} until {until}; kept in {where}, renewed by its agent."])
    say(["Start it: systemctl enable --now trimtab-agent (one that runs: systemctl restart trimtab-agent)"])


def _token(token_file: str | None) -> str:
    if token_file == "-":
        given = sys.stdin.readline()
    elif token_file is not None:
        try:
            given = Path(token_file).read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{token_file}: cannot read the join token: {error}") from error
    else:
        given = os.environ.get("TRIMTAB_JOIN_TOKEN", "")
    if not given.strip():
        raise SettingsError(
            "There is no join token: give --token-file FILE (- = standard input) or TRIMTAB_JOIN_TOKEN."
        )
    return given.strip()
