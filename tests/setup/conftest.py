"""Hosts that have this or that installed, as folders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROMETHEUS = """\
global:
  scrape_interval: 15s
rule_files:
  # - "first_rules.yml"
scrape_configs:
  - job_name: node
    static_configs:
      - targets: ['localhost:9100']
"""
WITH_FOLDERS = """\
rule_files:
  - /etc/prometheus/rules.d/*.rules.yml   # ours
  - 'more/*.yml'
scrape_config_files: ["/etc/prometheus/scrape.d/*.yml"]
scrape_configs: []
"""


class Host:
    """A folder that is the root of a host."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def write(self, path: str, text: str = "") -> Path:
        full = self.root / path
        full.parent.mkdir(parents=True, exist_ok=True)
        full.write_text(text)
        return full

    def text(self, path: str) -> str:
        return (self.root / path).read_text()

    def with_grafana(self) -> Host:
        for name in ("datasources", "dashboards", "plugins"):
            (self.root / "etc/grafana/provisioning" / name).mkdir(parents=True)
        return self

    def with_prometheus(self, config: str = PROMETHEUS) -> Host:
        self.write("etc/prometheus/prometheus.yml", config)
        return self

    def with_alertmanager(self, config: str = "route: {receiver: default}\nreceivers: [{name: default}]\n") -> Host:
        self.write("etc/prometheus/alertmanager.yml", config)
        return self

    def files(self) -> dict[str, str]:
        return {str(path.relative_to(self.root)): path.read_text() for path in self.root.rglob("*") if path.is_file()}

    def setup(self, *arguments: str) -> str:
        """What `trimtab setup` says."""
        command = [sys.executable, "-c", "from trimtab.cli import main; main()", "setup", "--root", str(self.root)]
        ran = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    def fails(self, *arguments: str) -> str:
        """The one line of its error."""
        command = [sys.executable, "-c", "from trimtab.cli import main; main()", "setup", "--root", str(self.root)]
        ran = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 2, (ran.stdout, ran.stderr)
        assert "Traceback" not in ran.stderr
        return ran.stderr


@pytest.fixture
def host(tmp_path: Path) -> Host:
    root = tmp_path / "host"
    root.mkdir()
    return Host(root)


@pytest.fixture
def promtool() -> str:
    found = shutil.which("promtool")
    if found is None:
        pytest.skip("promtool is missing: apt-get install prometheus")
    return found
