"""What a real Prometheus makes of /sd while a daemon starts anew: an error keeps its targets, a list counts."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.alerts.servers import Chain, a_chain, why_missing
from tests.show.test_discovery import a_fleet, found, served
from tests.system.processes import eventually

from trimtab.show.discovery import Discovery

URL = "http://gpu-00.invalid:9742/metrics"


class Listed:
    """What the daemon knows of its agents at each moment, and how often that was asked for."""

    def __init__(self) -> None:
        self.asked = 0
        self._found = Discovery()

    def knows(self, now: Discovery) -> None:
        self.asked, self._found = 0, now

    def __call__(self) -> Discovery:
        self.asked += 1
        return self._found


def nodes(chain: Chain) -> list[str]:
    return [target["discoveredLabels"].get("__meta_trimtab_node", "") for target in chain.targets()]


def test_prometheus_keeps_its_agents_until_a_daemon_that_starts_anew_has_judged(tmp_path: Path) -> None:
    if why_missing():
        pytest.skip(why_missing())
    listed = Listed()
    listed.knows(found(a_fleet(gpu_00=URL)))
    with served(tmp_path, discovery=listed) as running:
        scrape = {
            "job_name": "trimtab-agents",
            "http_sd_configs": [{"url": f"{running.url}/sd", "refresh_interval": "1s"}],
        }
        with a_chain(tmp_path / "chain", scrapes=[scrape], interval="1s") as chain:
            eventually(lambda: nodes(chain) == ["gpu-00"])
            listed.knows(found(None))
            # Longer than Prometheus waits until it takes a changed list (5 s).
            eventually(lambda: listed.asked >= 10, seconds=60)
            assert nodes(chain) == ["gpu-00"]
            listed.knows(found(a_fleet()))
            eventually(lambda: nodes(chain) == [], seconds=60)
