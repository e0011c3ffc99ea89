"""`trimtab login` and `trimtab whoami`: keep where a daemon elsewhere is, and show as whom it knows us."""

from __future__ import annotations

import contextlib
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import click

from trimtab.cli.client import Client, DaemonSaysNo, asked_of, daemon_options, say_json
from trimtab.cli.exits import Exit, help_text
from trimtab.cli.place import OutOfReach, Place, find, own_file
from trimtab.cli.text import say
from trimtab.clock import iso
from trimtab.errors import ClientError
from trimtab.outbound import is_loopback
from trimtab.show.api_types_people import Me


@click.command(epilog=help_text("login"))
@click.argument("url", metavar="URL")
@click.option("--ca-file", metavar="FILE", envvar="TRIMTAB_CA_FILE", help="CA certificate that signed the daemon's.")
@click.option("--token-file", metavar="FILE", envvar="TRIMTAB_TOKEN_FILE",
              help="Keep where the token is, not the token.")  # fmt: skip
@click.option("--json", "is_json", is_flag=True, help="Who we are there, as JSON.")
def login(url: str, ca_file: str | None, token_file: str | None, is_json: bool) -> None:
    """Keep the address of a daemon elsewhere, and your token for it, for all verbs of this account.

    Asks for the token (or reads it from standard input in a pipe), tries it, and writes it with the address into
    ~/.config/trimtab/client.toml, which only you can read. An admin gives tokens: trimtab token person.

    \b
    Examples: trimtab login https://trimtab.example:9740 --ca-file ~/site-ca.pem
              trimtab login https://trimtab.example:9740 --token-file ~/.trimtab-token
    """
    try:
        asked = asked_of({"token_file": token_file, "ca_file": ca_file})
        is_given = token_file is not None and "token_file" not in asked.from_environment
        typed = None if is_given else _token(instead=token_file)
        token_file = None if typed else token_file
        place = find(replace(asked, url=url, token=typed, token_file=token_file))
        client = Client(place)
        raw = client.get_raw("/api/v1/me")
        path = _keep(place, token_file=token_file)
    except DaemonSaysNo as no:
        click.echo(f"trimtab: {no}", err=True)
        raise click.exceptions.Exit(Exit.REFUSED) from no
    except OutOfReach as error:
        click.echo(f"trimtab: {error}", err=True)
        raise click.exceptions.Exit(Exit.OUT_OF_REACH) from error
    if is_json:
        say_json(raw)
        return
    if place.url.startswith("http://") and not is_loopback(urlsplit(place.url).hostname or ""):
        click.echo("This is not TLS: whoever can read the network in between can read your token.", err=True)
    me = client.decoded(raw, Me)
    say([f"{place.url} knows you as {me.name}, {me.role}. Kept in {path}."])


def _token(*, instead: str | None) -> str | None:
    """What is typed or comes by standard input; None where that is nothing and `instead` names a file."""
    if sys.stdin.isatty():
        words = f"Token (nothing: the one in {instead})" if instead else "Token"
        given: str = click.prompt(words, hide_input=True, err=True, prompt_suffix=": ", default="", show_default=False)
    else:
        given = sys.stdin.readline()
    if not given.strip() and not instead:
        raise ClientError("No token was given; nothing was kept.")
    return given.strip() or None


def _keep(place: Place, *, token_file: str | None) -> Path:
    """Replaced as a whole, readable by its owner alone. Raises ClientError."""
    table = {"url": place.url}
    table |= {"token_file": str(Path(token_file).expanduser().absolute())} if token_file else {"token": place.token}
    if place.ca_file:
        table["ca_file"] = str(Path(place.ca_file).expanduser().absolute())
    # A JSON string is a TOML basic string as well.
    text = "".join(f"{key} = {json.dumps(value)}\n" for key, value in table.items())
    path = own_file()
    part = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
            file.write(text)
        part.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        raise ClientError(f"{path} cannot be written: {error.strerror}.") from error
    return path


@click.command()
@daemon_options
def whoami(client: Client, *, is_json: bool) -> None:
    """Show as whom the daemon knows us, and what we may do there.

    \b
    Example: trimtab whoami
    """
    raw = client.get_raw("/api/v1/me")
    if is_json:
        say_json(raw)
        return
    me = client.decoded(raw, Me)
    until = f", until {iso(me.expires_at)}" if me.expires_at else ""
    say([f"{me.name}, {me.role}{until}, at {client.place.url} (token from {client.place.token_said_by})"])
