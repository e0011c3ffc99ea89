"""`trimtab ca`: the daemon's own small CA, made, shown and used beside the daemon; parses and calls."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

import click
import msgspec

from trimtab import pki
from trimtab.certificates import SERVER_FILE, ca_directory, issue_server, server_names
from trimtab.cli.client import say_json
from trimtab.cli.text import say
from trimtab.clock import SystemClock, age_text, iso
from trimtab.settings import DaemonSettings, load

_settings = click.option(
    "--settings",
    "settings_file",
    type=click.Path(dir_okay=False, path_type=Path),
    default=Path("/etc/trimtab/daemon.toml"),
    show_default=True,
    help="The daemon's settings file: says where its CA is, and for which names.",
)
_json = click.option("--json", "is_json", is_flag=True, help="The same data as JSON.")


@click.group()
def ca() -> None:
    """Make and use the daemon's own small CA: for its listeners' certificate and for those of enrolled nodes.

    Run it beside the daemon, as the daemon's user or as root.

    \b
    Examples: trimtab ca create
              trimtab ca show
              trimtab ca renew
              trimtab ca issue gpu-07.example 10.0.0.7 --out /tmp/gpu-07
    """


@ca.command()
@_settings
@click.option(
    "--days", type=click.FloatRange(min=1), default=pki.CA_DAYS, show_default=True, help="How long it is good."
)
@click.option("--directory", type=click.Path(path_type=Path), help="Elsewhere than tls.ca_directory: for the next CA.")
@_json
def create(settings_file: Path, *, days: float, directory: Path | None, is_json: bool) -> None:
    """Make the CA in the daemon's state directory; its key stays there, readable by its owner alone.

    A daemon makes it by itself where a setting needs it; do it by hand before there are two daemons, and copy it.

    \b
    Example: trimtab ca create && scp /var/lib/trimtab/ca/ca.* other-daemon:/var/lib/trimtab/ca/
    """
    settings = load(settings_file, DaemonSettings)
    place = directory or ca_directory(settings)
    _show(pki.Authority.create(place, cluster=settings.cluster, clock=SystemClock(), days=days), place, is_json=is_json)


@ca.command()
@_settings
@_json
def show(settings_file: Path, *, is_json: bool) -> None:
    """Show the CA's fingerprint and dates, and those of the certificate that the daemon serves by.

    \b
    Examples: trimtab ca show
              trimtab ca show --json | jq -r .sha256
    """
    settings = load(settings_file, DaemonSettings)
    _show(_loaded(settings), ca_directory(settings), is_json=is_json)


@ca.command()
@_settings
@_json
def renew(settings_file: Path, *, is_json: bool) -> None:
    """Make the daemon's own server certificate anew now, for the names of tls.names. A running daemon takes it up.

    \b
    Example: trimtab ca renew
    """
    settings = load(settings_file, DaemonSettings)
    authority = _loaded(settings)
    issue_server(authority, ca_directory(settings), server_names(settings), days=settings.tls.server_days)
    _show(authority, ca_directory(settings), is_json=is_json)


@ca.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME...")
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), required=True, metavar="DIRECTORY",
              help="Where cert.pem, key.pem and ca.pem go.")  # fmt: skip
@click.option("--days", type=click.FloatRange(min=0, min_open=True), help="How long it is good; else tls.server_days.")
@_settings
@_json
def issue(names: tuple[str, ...], out: Path, *, days: float | None, settings_file: Path, is_json: bool) -> None:
    """Make a server certificate for NAMEs or addresses: of an agent's /metrics, or of a proxy before the daemon.

    \b
    Example: trimtab ca issue gpu-07.example 10.0.0.7 --out /tmp/gpu-07 --days 365
    """
    settings = load(settings_file, DaemonSettings)
    authority = _loaded(settings)
    pair = authority.issue_server(names, days=days or settings.tls.server_days)
    pki.write_file(out / "key.pem", pair.key_pem, mode=0o600)
    pki.write_file(out / "cert.pem", pair.certificate_pem + authority.certificate_pem, mode=0o644)
    pki.write_file(out / "ca.pem", authority.certificate_pem, mode=0o644)
    ends_at = pki.ends_at(pki.certificate_of(pair.certificate_pem))
    if is_json:
        say_json(msgspec.json.encode({"directory": str(out), "names": names, "ends_at": ends_at}))
        return
    say([f"{out}: cert.pem, key.pem and ca.pem for {', '.join(names)}, good until {iso(ends_at)}."])


def _loaded(settings: DaemonSettings) -> pki.Authority:
    directory = ca_directory(settings)
    if not (directory / pki.CA_FILE).exists():
        raise pki.CertificateError(f"{directory} holds no CA yet: trimtab ca create")
    return pki.Authority.load(directory, clock=SystemClock())


def _show(authority: pki.Authority, directory: Path, *, is_json: bool) -> None:
    now = SystemClock().now()
    server = directory / SERVER_FILE
    held = pki.read_certificates(server)[0] if server.exists() else None
    if is_json:
        say_json(
            msgspec.json.encode(
                {
                    "file": str(directory / pki.CA_FILE),
                    "sha256": authority.fingerprint,
                    "ends_at": authority.ends_at,
                    "server": None
                    if held is None
                    else {
                        "file": str(server),
                        "names": pki.names_of(held),
                        "starts_at": pki.starts_at(held),
                        "ends_at": pki.ends_at(held),
                        "sha256": pki.fingerprint_of(held),
                    },
                }
            )
        )
        return
    say(
        [
            f"CA       {directory / pki.CA_FILE}, good until {_until(authority.ends_at, now)}",
            f"         SHA-256 {authority.fingerprint}",
            "server   none yet: the daemon makes it at its start (own_certificate = true), or trimtab ca renew"
            if held is None
            else f"server   {server}, good until {_until(pki.ends_at(held), now)}",
            *([f"         for {', '.join(pki.names_of(held))}"] if held is not None else []),
        ]
    )


def _until(moment: datetime, now: datetime) -> str:
    left = (moment - now).total_seconds()
    return f"{iso(moment)} ({age_text(left)} left)" if left > 0 else f"{iso(moment)} (ended {age_text(-left)} ago)"
