"""`trimtab setup`: makes Grafana, Prometheus and Alertmanager on this host know trimtab, or takes that back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trimtab.settings import DaemonSettings

SETTINGS = "/etc/trimtab/daemon.toml"


@click.command()
@click.option(
    "--settings",
    "settings_file",
    type=click.Path(path_type=Path),
    help=f"The daemon's settings file; {SETTINGS} where it is there.",
)
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path("/"),
    help="Work under this folder in place of /: for packages and images.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--remove", is_flag=True, help="Take away what trimtab made; what was edited since stays.")
@click.option(
    "--prometheus-url", default="http://127.0.0.1:9090", show_default=True, help="Where Grafana finds Prometheus."
)
@click.option(
    "--postgresql-user", default="trimtab_reader", show_default=True, help="The role that Grafana reads the history as."
)
@click.option(
    "--postgresql-password-file",
    default="/etc/trimtab/grafana-postgresql.password",
    show_default=True,
    help="File with that role's password, which Grafana reads; empty = it has none.",
)
@click.option("--with-optional-rules", is_flag=True, help="Also the alert rules that are news every day in some halls.")
@click.option("--grafana-api", metavar="URL", help="Do it by the API of the Grafana at URL in place of files.")
@click.option(
    "--grafana-token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token of a service account that may administer Grafana.",
)
@click.option(
    "--grafana-python",
    metavar="PATH",
    help="Python of the environment that has trimtab[grafana]; without it, this one.",
)
@click.option("--json", "is_json", is_flag=True, help="What was done, as JSON.")
def setup(
    *,
    settings_file: Path | None,
    root: Path,
    dry_run: bool,
    remove: bool,
    prometheus_url: str,
    postgresql_user: str,
    postgresql_password_file: str,
    with_optional_rules: bool,
    grafana_api: str | None,
    grafana_token_file: Path | None,
    grafana_python: str | None,
    is_json: bool,
) -> None:
    """Make Grafana, Prometheus and Alertmanager know trimtab: data sources, dashboards, rules, what to scrape.

    It writes files for whatever is installed on this host, says what it changed, and what you have still to do. Run
    again it changes nothing. What it did not make, or what was edited since, it leaves alone.
    """
    from trimtab.setup.around import Wishes, installed_prometheus, set_up, take_away  # noqa: PLC0415 - loaded only for this verb
    from trimtab.setup.asking import ApiWishes, by_api  # noqa: PLC0415
    from trimtab.setup.history import postgres_of  # noqa: PLC0415
    from trimtab.setup.shipped import shipped  # noqa: PLC0415
    from trimtab.setup.telling import to_dict, to_lines  # noqa: PLC0415

    settings = _settings(settings_file, root)
    postgres = postgres_of(settings.store.url, user=postgresql_user, password_file=postgresql_password_file)
    wishes = Wishes(
        root=root,
        is_dry=dry_run,
        prometheus_url=prometheus_url,
        postgres=postgres,
        is_optional_wanted=with_optional_rules,
        prometheus_version=installed_prometheus(root),
    )
    if grafana_api is not None:
        if grafana_token_file is None:
            raise click.UsageError("--grafana-api needs --grafana-token-file: a file with a service account's token.")
        api = ApiWishes(url=grafana_api, token_file=grafana_token_file, python=grafana_python, is_removal=remove)
        done = by_api(api, wishes, shipped())
    else:
        done = take_away(wishes) if remove else set_up(wishes, settings, shipped())
    if is_json:
        click.echo(json.dumps(to_dict(done)))
        return
    for line in to_lines(done, is_dry=dry_run, is_removal=remove):
        click.echo(line)


def _settings(path: Path | None, root: Path) -> DaemonSettings:
    from trimtab.settings import DaemonSettings, load  # noqa: PLC0415

    found = path or root / SETTINGS.lstrip("/")
    return load(found, DaemonSettings) if path is not None or found.is_file() else DaemonSettings()
