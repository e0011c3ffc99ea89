"""`trimtab setup`: makes Grafana, Prometheus and Alertmanager on this host know trimtab, or takes that back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from trimtab.settings import DaemonSettings
    from trimtab.setup.around import Wishes
    from trimtab.setup.asked import Asked

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
@click.option("--prometheus-url", metavar="URL", help="Where Grafana finds Prometheus.  [http://127.0.0.1:9090]")
@click.option("--postgresql-user", help="The role that Grafana reads the history as.  [trimtab_reader]")
@click.option(
    "--postgresql-password-file",
    metavar="PATH",
    help="File with that role's password, which Grafana reads; empty = it has none.  "
    "[/etc/trimtab/grafana-postgresql.password]",
)
@click.option(
    "--with-optional-rules/--without-optional-rules",
    default=None,
    help="Also the alert rules that are news every day in some halls.",
)
@click.option("--daemon-url", metavar="URL", help="Where Prometheus finds the daemon; else as [people] listen says.")
@click.option("--ca-file", metavar="PATH", help="Who signs the certificates of daemon and agents, for Prometheus.")
@click.option(
    "--metrics-token-file",
    metavar="PATH",
    help="File with the metrics token, which Prometheus reads; else the daemon's own; empty = it sends none.",
)
@click.option("--agents-token-file", metavar="PATH", help="File with the token that agents ask Prometheus for.")
@click.option("--forget", is_flag=True, help="Drop the options that earlier runs were given.")
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
    with_optional_rules: bool | None,
    forget: bool,
    grafana_api: str | None,
    grafana_token_file: Path | None,
    grafana_python: str | None,
    is_json: bool,
    **asked: str | None,
) -> None:
    """Make Grafana, Prometheus and Alertmanager know trimtab: data sources, dashboards, rules, what to scrape.

    It writes files for whatever is installed on this host, says what it changed, and what you have still to do. Run
    again it changes nothing: options that were given once hold until they are given again, or --forget. What it did not
    make, or what was edited since, it leaves alone.
    """
    from trimtab.setup.around import set_up, take_away  # noqa: PLC0415 - loaded only for this verb
    from trimtab.setup.asked import Asked, from_root  # noqa: PLC0415
    from trimtab.setup.asking import ApiWishes, by_api  # noqa: PLC0415
    from trimtab.setup.files import Ground  # noqa: PLC0415
    from trimtab.setup.shipped import shipped  # noqa: PLC0415
    from trimtab.setup.telling import to_dict, to_lines  # noqa: PLC0415

    now = Asked(settings_file=from_root(settings_file, root), is_optional_wanted=with_optional_rules, **asked)
    before = Asked() if forget or (remove and grafana_api is None) else Ground(root).asked
    settings = _settings(settings_file or now.over(before).settings_path(root), root)
    wishes = _wishes(root, settings, now, before, is_dry=dry_run)
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


def _wishes(root: Path, settings: DaemonSettings, now: Asked, before: Asked, *, is_dry: bool) -> Wishes:
    """What is asked for now, over what was before, over what is usual."""
    from trimtab.setup import around, history  # noqa: PLC0415

    asked = now.over(before)
    password_file = asked.postgresql_password_file
    return around.Wishes(
        root=root,
        is_dry=is_dry,
        asked=asked,
        as_before=before.beside(now),
        prometheus_url=asked.prometheus_url or around.PROMETHEUS_URL,
        postgres=history.postgres_of(
            settings.store.url,
            user=asked.postgresql_user or history.READER,
            password_file=history.PASSWORD_FILE if password_file is None else password_file,
        ),
        is_optional_wanted=bool(asked.is_optional_wanted),
        prometheus_version=around.installed_prometheus(root),
    )


def _settings(path: Path | None, root: Path) -> DaemonSettings:
    from trimtab.settings import DaemonSettings, load  # noqa: PLC0415

    found = path or root / SETTINGS.lstrip("/")
    return load(found, DaemonSettings) if path is not None or found.is_file() else DaemonSettings()
