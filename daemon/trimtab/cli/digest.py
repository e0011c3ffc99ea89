"""`trimtab digest`: what the fleet did, lost and gained in a stretch of time."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import click

from trimtab.cli.client import Client, daemon_options, say_json
from trimtab.cli.values import Span
from trimtab.clock import SystemClock
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
@click.option("--folder", type=click.Path(file_okay=False, path_type=Path), help="Write it there, named by its day.")
@click.option("--keep", type=click.IntRange(1), default=26, show_default=True, help="So many files of --folder.")
@daemon_options
def digest(
    client: Client,
    *,
    is_json: bool,
    since_seconds: float,
    until: str,
    form: str,
    language: str,
    out: Path | None,
    folder: Path | None,
    keep: int,
) -> None:
    """Tell what the fleet did in a stretch of time: GPU-hours used, idle, stranded and lost, by cause and queue.

    Also: incidents, devices that come back (each with a dossier for its vendor), what the moves gained against their
    forecast, and what would pay most next week. The HTML is one file that needs nothing else.

    \b
    Examples: trimtab digest
              trimtab digest --since 30d --format html --out digest.html
              trimtab digest --format html --folder /var/lib/trimtab/digests
              trimtab digest --until 2026-11-30T00:00:00Z --json | jq .hours
    """
    if folder is not None:
        if out is not None:
            raise click.UsageError("Give --out or --folder, not both.")
        out = _of_today(folder, "json" if is_json else form)
    query = {"since_seconds": f"{since_seconds:g}", **({"until": until} if until else {})}
    if is_json or form == "json":
        raw = client.get_raw(f"/api/v1/digest?{urlencode(query)}")
        if out is None:
            say_json(raw)
            return
        _write(out, raw.decode(), keep=keep if folder else None)
        return
    query |= {"format": "html" if form == "html" else "markdown", "locale": language}
    told = client.decoded(client.get_raw(f"/api/v1/digest/text?{urlencode(query)}"), DigestText)
    if out is None:
        click.echo(told.text, nl=False)
        return
    _write(out, told.text, keep=keep if folder else None)


def _write(out: Path, text: str, *, keep: int | None) -> None:
    """Write it whole or not at all; then the oldest of its folder make room where so many are kept."""
    part = out.with_name(f".{out.name}.part")
    try:
        if keep is None:
            out.write_text(text, encoding="utf-8")  # also into a pipe or a device
        else:
            part.write_text(text, encoding="utf-8")
            part.replace(out)
            others = sorted(path for path in out.parent.glob(f"digest-*{out.suffix}") if path != out)
            for old in others[: max(0, len(others) + 1 - keep)]:
                old.unlink()
    except OSError as error:
        raise ClientError(f"{out}: cannot be written: {error.strerror}.") from error
    click.echo(f"{out} written", err=True)


def _of_today(folder: Path, form: str) -> Path:
    """Today's file of a folder. Raises ClientError."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o750)
    except OSError as error:
        raise ClientError(f"{folder}: cannot be written: {error.strerror}.") from error
    return folder / f"digest-{SystemClock().now():%Y-%m-%d}.{form}"
