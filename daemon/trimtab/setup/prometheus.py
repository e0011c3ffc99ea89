"""What Prometheus is told: rules and what to scrape, in its include folders where it has some, else as lines to add."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import PurePosixPath
from urllib.parse import urlsplit

from trimtab.setup.grafana import SCRAPE_INTERVAL
from trimtab.setup.text import yaml_text

CONFIG = "etc/prometheus/prometheus.yml"
OWN = "etc/trimtab/prometheus"
"""Where they lie when Prometheus has no folder to include: the lines to add name it."""
SCRAPE_FILE = "trimtab.scrape.yml"
OUR_RULES = "trimtab*.rules.yml"
Version = tuple[int, int]
_INCLUDES_SCRAPES: Version = (2, 43)
"""From then on Prometheus reads `scrape_config_files`; Debian 12 has 2.42."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """Where Prometheus finds the daemon, and files that it reads: tokens that it sends, and who signs certificates."""

    daemon_url: str
    token_file: str = ""
    ca_file: str = ""
    agents_token_file: str = ""


def include_folders(config: str, key: str) -> tuple[str, ...]:
    """Folders of which Prometheus reads every `*.yml` under `rule_files` or `scrape_config_files`; from the root."""
    found = []
    for pattern in _listed(config, key):
        path = PurePosixPath(pattern)
        folder = path.parent if path.is_absolute() else PurePosixPath("/etc/prometheus") / path.parent
        ours = "trimtab-daemon.rules.yml" if key == "rule_files" else SCRAPE_FILE
        if fnmatch(ours, path.name) and "*" in path.name and not re.search(r"[*?\[]", str(folder)):
            found.append(str(folder).lstrip("/"))
    return tuple(found)


def _listed(config: str, key: str) -> Iterator[str]:
    """The items of one top-level list; enough of YAML to read a Prometheus configuration."""
    found = re.search(rf"^{key}:[ \t]*(?P<inline>\[[^\]]*\])?[^\n]*\n?(?P<block>(?:[ \t]*(?:-|#)[^\n]*\n?|[ \t]*\n)*)",
                      config, re.MULTILINE)  # fmt: skip
    if found is None:
        return
    if found["inline"]:
        items = found["inline"].strip("[]").split(",")
    else:
        items = re.findall(r"^[ \t]*-[ \t]*(.+?)[ \t]*(?:#.*)?$", found["block"], re.MULTILINE)
    yield from (item.strip().strip("\"'") for item in items if item.strip())


def scrape_jobs(scraped: Scraped) -> list[dict[str, object]]:
    """The daemon by its address; the agents, and the exporters that it reads in their place, as its own list says."""
    parts = urlsplit(scraped.daemon_url)
    trust: dict[str, object] = {"tls_config": {"ca_file": scraped.ca_file}} if scraped.ca_file else {}
    secret = {**_secret(scraped.token_file), **trust}
    listed = [{"url": f"{scraped.daemon_url}/sd", "refresh_interval": "30s", **secret}]
    daemon: dict[str, object] = {"job_name": "trimtab-daemon", "scheme": parts.scheme, **secret, "honor_labels": True}
    daemon["static_configs"] = [{"targets": [parts.netloc]}]
    return [
        {**daemon, "scrape_interval": SCRAPE_INTERVAL},
        {
            "job_name": "trimtab-agents",
            **_secret(scraped.agents_token_file),
            **trust,
            "honor_labels": True,
            "scrape_interval": SCRAPE_INTERVAL,
            "http_sd_configs": listed,
            "relabel_configs": [*_named("agent"), _label("rack", regex="(.+)")],
        },
        {
            "job_name": "gpu-exporters",
            "scrape_interval": SCRAPE_INTERVAL,
            "http_sd_configs": listed,
            "relabel_configs": _named("exporter"),
        },
    ]


def _secret(file: str) -> dict[str, object]:
    return {"authorization": {"credentials_file": file}} if file else {}


def _named(kind: str) -> list[dict[str, object]]:
    """Only targets of one kind, with the cluster and node that `up` is to name."""
    keep: dict[str, object] = {"source_labels": ["__meta_trimtab_kind"], "regex": kind, "action": "keep"}
    return [keep, _label("cluster"), _label("node")]


def _label(name: str, **more: str) -> dict[str, object]:
    return {"source_labels": [f"__meta_trimtab_{name}"], **more, "target_label": name}


def files(
    config: str, *, rules: Mapping[str, str], scraped: Scraped, version: Version | None = None
) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Path -> text of what Prometheus is to read, and the lines that a person must still add to its configuration."""
    rule_folders = include_folders(config, "rule_files")
    scrape_folders = include_folders(config, "scrape_config_files")
    jobs = yaml_text({"scrape_configs": scrape_jobs(scraped)}, says="What Prometheus scrapes of trimtab.")
    rules_in = rule_folders[0] if rule_folders else OWN
    scrape_in = scrape_folders[0] if scrape_folders else OWN
    wanted = {f"{rules_in}/{name}": text for name, text in rules.items()}
    wanted[f"{scrape_in}/{SCRAPE_FILE}"] = jobs
    lines: list[str] = []
    if not rule_folders and not _names(config, f"/{OWN}/{OUR_RULES}"):
        lines += ["rule_files:", f"  - /{OWN}/{OUR_RULES}"]
    if not scrape_folders and not _names(config, f"/{OWN}/{SCRAPE_FILE}") and "trimtab-daemon" not in config:
        lines += _to_scrape(jobs, version)
    return wanted, tuple(lines)


def _to_scrape(jobs: str, version: Version | None) -> list[str]:
    """One line that includes the file, where this Prometheus can; else the jobs themselves."""
    if version is not None and version < _INCLUDES_SCRAPES:
        return [line for line in jobs.splitlines() if not line.startswith("#")]
    note = "" if version else "   # Prometheus 2.43 or newer; before that, copy the file's jobs into scrape_configs"
    return [f"scrape_config_files:{note}", f"  - /{OWN}/{SCRAPE_FILE}"]


def version_of(said: str) -> Version | None:
    """The version in what `prometheus --version` says."""
    found = re.search(r"version (\d+)\.(\d+)", said)
    return None if found is None else (int(found[1]), int(found[2]))


def _names(config: str, path: str) -> bool:
    return any(path in line for line in config.splitlines() if not line.lstrip().startswith("#"))
