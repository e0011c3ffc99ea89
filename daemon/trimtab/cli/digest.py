"""`trimtab digest`: what the fleet did, lost and gained in a stretch of time."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import click

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.values import Span
from trimtab.errors import ClientError
from trimtab.show.api_types_digest import DigestText


@click.command()
@click.option("--since", "since_seconds", type=Span(), default="7d", show_default=True, help="How far it looks back.")
@click.option("--until", default="", metavar="MOMENT", help="Where it ends (2026-11-30T07:00:00Z); else now.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["md", "html", "json"]),
    default="md",
    show_default=True,
    help="How it is told.",
)
@click.option("--language", type=click.Choice(["en", "zh-CN"]), default="en", show_default=True, help="Of md and html.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File to write; else standard output.")
@daemon_options
def digest(
    client: Client, *, is_json: bool, since_seconds: float, until: str, form: str, language: str, out: Path | None
) -> None:
    """Tell what the fleet did in a stretch of time: GPU-hours used, idle, stranded and lost, by cause and queue.

    Also: incidents, devices that come back (each with a dossier for its vendor), what the moves gained against their
    forecast, and what would pay most next week. The HTML is one file that needs nothing else.

    \b
    Examples: trimtab digest
              trimtab digest --since 30d --format html --out digest.html
              trimtab digest --until 2026-11-30T00:00:00Z --json | jq .hours
    """
    query = {"since_seconds": f"{since_seconds:g}", **({"until": until} if until else {})}
    if is_json or form == "json":
        raw = client.get_raw(f"/api/v1/digest?{urlencode(query)}")
        if out is None:
            say_json(raw)
            return
        _write(out, raw.decode())
        return
    query |= {"format": "html" if form == "html" else "markdown", "locale": language}
    told = client.decoded(client.get_raw(f"/api/v1/digest/text?{urlencode(query)}"), DigestText)
    if out is None:
        click.echo(told.text, nl=False)
        return
    _write(out, told.text)


def _write(out: Path, text: str) -> None:
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ClientError(f"{out}: cannot be written: {error.strerror}.") from error
    click.echo(f"{out} written", err=True)
