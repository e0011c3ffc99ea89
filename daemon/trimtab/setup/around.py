"""What `trimtab setup` does: looks what is installed, puts files in place, and says what is left for a person."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from trimtab.settings import DaemonSettings
from trimtab.setup import grafana, prometheus, scraping
from trimtab.setup.asked import Asked
from trimtab.setup.files import Act, Change, Ground
from trimtab.setup.history import Postgres
from trimtab.setup.shipped import Shipped

ALERTMANAGER = ("etc/prometheus/alertmanager.yml", "etc/alertmanager/alertmanager.yml")
ALERTMANAGER_SAMPLE = "etc/trimtab/alertmanager.sample.yml"
PROMETHEUS_URL = "http://127.0.0.1:9090"
_CHANGES = (Act.MADE, Act.CHANGED, Act.REMOVED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """What a person asked for."""

    root: Path
    is_dry: bool = False
    asked: Asked = field(default_factory=Asked)
    """Kept for the next run."""
    as_before: tuple[str, ...] = ()
    """Of that, options that were given to an earlier run."""
    prometheus_url: str = PROMETHEUS_URL
    postgres: Postgres | None = None
    is_optional_wanted: bool = False
    prometheus_version: prometheus.Version | None = None
    """None = not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """What was done, program by program, and what a person has still to do."""

    found: tuple[str, ...]
    """The programs that are installed."""
    changes: tuple[Change, ...]
    to_do: tuple[str, ...] = ()
    """Lines: what to add where, which service to reload."""
    as_before: tuple[str, ...] = ()
    """Options of an earlier run that still hold."""


def installed_prometheus(root: Path) -> prometheus.Version | None:
    """The version of this host's Prometheus; None under another root, or where it cannot be asked."""
    program = shutil.which("prometheus")
    if root.resolve() != Path("/") or program is None:
        return None
    try:
        ran = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=10, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return prometheus.version_of(ran.stdout + ran.stderr)


def set_up(wishes: Wishes, settings: DaemonSettings, shipped: Shipped) -> Done:
    """Put everything in place for what is installed. Raises SettingsError."""
    ground = Ground(wishes.root, is_dry=wishes.is_dry)
    ground.ask(wishes.asked)
    scraped = scraping.scraped_of(settings, wishes.asked)
    found: list[str] = []
    wanted: dict[str, str] = {}
    to_do: list[str] = []
    if ground.has(grafana.PROVISIONING):
        found.append("Grafana")
        sources = grafana.data_sources(prometheus_url=wishes.prometheus_url, postgres=wishes.postgres)
        dashboards = shipped.dashboards(has_history=wishes.postgres is not None)
        wanted |= grafana.provisioning(sources, dashboards)
    if ground.has(prometheus.CONFIG):
        found.append("Prometheus")
        rules = shipped.rules(is_optional_wanted=wishes.is_optional_wanted)
        files, lines = prometheus.files(
            ground.text(prometheus.CONFIG), rules=rules, scraped=scraped, version=wishes.prometheus_version
        )
        wanted |= files
        to_do += [f"Add to /{prometheus.CONFIG}:", *(f"    {line}" for line in lines)] if lines else []
        to_do += scraping.unreadable(scraped, wishes.root)
    alertmanager = next((path for path in ALERTMANAGER if ground.has(path)), None)
    sample = shipped.alertmanager()
    if alertmanager is not None and sample is not None:
        found.append("Alertmanager")
        wanted[ALERTMANAGER_SAMPLE] = sample
        to_do += _for_alertmanager(ground.text(alertmanager), alertmanager)
    changes = tuple(ground.place(wanted))
    if any(_is_done(change, prometheus.SCRAPE_FILE) for change in changes):
        to_do += scraping.unknown(scraped, wishes.asked)
    to_do += _after(changes, wishes.postgres, found)
    return Done(found=tuple(found), changes=changes, to_do=tuple(to_do), as_before=wishes.as_before)


def take_away(wishes: Wishes) -> Done:
    """Remove what is ours and was not edited. Raises SettingsError."""
    changes = tuple(Ground(wishes.root, is_dry=wishes.is_dry).remove_all())
    return Done(found=(), changes=changes, to_do=_after(changes, None, []))


def _for_alertmanager(config: str, path: str) -> list[str]:
    """Alertmanager reads one file and includes none: what it needs is for a person to copy."""
    if "trimtab" in config.lower():
        return []
    return [f"Alertmanager includes no files: copy the routes and inhibitions of /{ALERTMANAGER_SAMPLE} into /{path}."]


def _is_done(change: Change, name: str) -> bool:
    return change.act in (Act.MADE, Act.CHANGED) and change.path.endswith(name)


def _after(changes: Sequence[Change], postgres: Postgres | None, found: Sequence[str]) -> tuple[str, ...]:
    """Which services to tell, and what PostgreSQL needs once; nothing where nothing changed."""
    touched = [change.path for change in changes if change.act in _CHANGES]
    lines = []
    if any(path.startswith(f"{grafana.PROVISIONING}/datasources") for path in touched):
        lines.append("Grafana reads data sources when it starts: systemctl restart grafana-server")
    if any(path.endswith((".rules.yml", prometheus.SCRAPE_FILE)) for path in touched):
        lines.append("Prometheus reads rules when told: systemctl reload prometheus")
    is_new = any(path.endswith("datasources/trimtab.yaml") for path in touched)
    if postgres is not None and "Grafana" in found and is_new:
        lines.append(f"Grafana signs in to PostgreSQL as {postgres.user}. Once, in database {postgres.database}:")
        lines += [f"    {grant}" for grant in postgres.grants]
    return tuple(lines)
