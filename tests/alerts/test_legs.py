"""The whole way with real programs: kernel log, agent, daemon, Prometheus by discovery, Alertmanager, on-call.

Default settings and the shipped samples; each leg is timed and printed, and its order is what is asserted.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.alerts.promtool_tests import ALERTS
from tests.alerts.servers import Chain, Told, a_chain, serving, why_missing
from tests.standin.driver import Driver
from tests.system.processes import CLUSTER, Agent, Daemon, Running, eventually, free_port

STOCK = Path(__file__).parent.parent / "fixtures" / "stock-dcgm-dashboard.promql"
LONG_SECONDS = 120.0
DEFAULTS = """
[store]
url = "sqlite:///trimtab.db"
[detect]
interval_seconds = 5.0
[plan]
interval_seconds = 5.0
[metrics]
is_loopback_listed = true
"""


class SlowAgent(Running):
    """`trimtab agent` with its defaults, over the stand-in driver and a kernel log of its own."""

    def __init__(self, home: Path, *, node: str, daemon: Daemon) -> None:
        self.home, self.node, self.port = home / node, node, free_port()
        self.home.mkdir()
        self.driver = Driver(self.home)
        self.kernel = self.home / "kernel.kmsg"
        self.kernel.write_text("6,900,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06\n")
        (self.home / "token").write_text(daemon.token_of(node) + "\n")
        settings = self.home / "agent.toml"
        settings.write_text(
            f'cluster = "{CLUSTER}"\nnode = "{node}"\ndaemon_urls = ["{daemon.ingest_url}"]\n'
            f'token_file = "{self.home}/token"\nspool_directory = "{self.home}/spool"\nkernel_log = "{self.kernel}"\n'
            f'metrics_listen = "127.0.0.1:{self.port}"\n[metrics]\ndcgm_aliases = true\n'
        )
        super().__init__(
            "agent", "--settings", str(settings), home=self.home, name="agent", env=self.driver.environment()
        )

    def falls_off(self, index: int) -> float:
        """A GPU falls off the bus; when."""
        self.driver[f"{index}.lost"] = 1
        with self.kernel.open("a") as file:
            file.write(
                f"3,901,2000000,-;NVRM: Xid (PCI:0000:{0x10 + index:02x}:00): 79, pid=4711, name=python3, "
                "GPU has fallen off the bus.\n"
            )
        return time.monotonic()


@dataclass
class Outbox:
    """The far end of the daemon's own outbox."""

    url: str = ""
    told: list[tuple[float, dict[str, Any]]] = field(default_factory=list)

    def opened(self) -> list[tuple[float, dict[str, Any]]]:
        return [(at, body) for at, body in self.told if body["type"].endswith("opened")]


@contextmanager
def an_outbox() -> Iterator[Outbox]:
    end = Outbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            end.told.append((time.monotonic(), body))
            self.send_response(204)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(Handler) as port:
        end.url = f"http://127.0.0.1:{port}/"
        yield end


def shipped_scrapes(daemon: Daemon) -> list[dict[str, Any]]:
    """The sample's scrape configuration, with this daemon's address and without TLS and tokens."""
    scrapes: list[dict[str, Any]] = yaml.safe_load((ALERTS / "prometheus.yml").read_text())["scrape_configs"]
    for scrape in scrapes:
        scrape.pop("authorization", None)
        scrape["scheme"] = "http"
        for one in scrape.get("static_configs", ()):
            one["targets"] = [daemon.url.removeprefix("http://")]
        for one in scrape.get("http_sd_configs", ()):
            one.pop("authorization")
            one["url"] = f"{daemon.url}/sd"
    return scrapes


def seen(chain: Chain, expression: str) -> float:
    """When a query first had an answer."""
    eventually(lambda: chain.query(expression), seconds=LONG_SECONDS, said=lambda: str(chain.targets())[:2000])
    return time.monotonic()


def test_from_the_kernels_line_to_the_page_by_either_pager_and_never_by_both(tmp_path: Path) -> None:
    if why_missing():
        pytest.skip(why_missing())
    with ExitStack() as stack:
        outbox = stack.enter_context(an_outbox())
        (tmp_path / "keys").write_text("whsec_" + base64.b64encode(bytes(range(32))).decode() + "\n")
        oncall = f'[oncall]\n[oncall.targets.pager]\nkind = "webhook"\nurl = "{outbox.url}"\n'
        oncall += f'keys_file = "{tmp_path}/keys"\nis_pager = true\n'
        daemon = Daemon(tmp_path, settings=DEFAULTS + oncall)
        stack.callback(daemon.close)
        daemon.up()
        agents = [SlowAgent(tmp_path, node=node, daemon=daemon) for node in ("gpu-00", "gpu-01")]
        for agent in agents:
            stack.callback(agent.close)
            agent.start()
        eventually(lambda: len(daemon.ask("GET", "/sd").json()) == 2, said=daemon.tail, seconds=LONG_SECONDS)
        chain = stack.enter_context(a_chain(tmp_path / "chain", scrapes=shipped_scrapes(daemon)))

        # Found by discovery, named by its labels, and its own series keep their names.
        for agent in agents:
            seen(chain, f'up{{job="trimtab-agents",cluster="{CLUSTER}",node="{agent.node}"}} == 1')
        assert chain.query("count(trimtab_gpu_up{exported_node!=''})") == []

        # The outbox pages: the alert rule sees the finding and leaves it alone.
        broke_at = agents[0].falls_off(3)
        found_at = _finding(daemon, "gpu-00")
        paged_at, body = eventually(lambda: next(iter(outbox.opened()), None), seconds=LONG_SECONDS, said=daemon.tail)
        assert "gpu-00" in json.dumps(body)
        _print("outbox", {"fault -> finding": found_at - broke_at, "-> page": paged_at - found_at})

        # Alertmanager pages what opens from now on.
        flip = {"pager": "alertmanager", "reason": "a test"}
        assert daemon.ask("POST", "/api/v1/pager", flip).status_code == 200
        broke_at = agents[1].falls_off(5)
        found_at = _finding(daemon, "gpu-01")
        scraped_at = seen(chain, 'trimtab_finding_info{node="gpu-01",pager="alertmanager"}')
        ruled_at = seen(chain, 'ALERTS{alertname="TrimtabDeviceFault",node="gpu-01",alertstate="firing"}')
        eventually(lambda: _stands(chain, "gpu-01"), seconds=LONG_SECONDS)
        taken_at = time.monotonic()
        told = eventually(lambda: chain.oncall.of("TrimtabDeviceFault"), seconds=LONG_SECONDS)
        legs = {
            "fault -> finding": found_at - broke_at, "-> scrape": scraped_at - found_at,
            "-> rule": ruled_at - scraped_at, "-> Alertmanager": taken_at - ruled_at,
            "-> on-call": told[0].at - taken_at,
        }  # fmt: skip
        _print("rules and Alertmanager", legs)
        assert [(one.status, one.receiver) for one in told] == [("firing", "on-call")]
        (alert,) = told[0].alerts
        assert (alert["labels"]["node"], alert["labels"]["severity"]) == ("gpu-01", "critical")
        assert alert["annotations"]["link"].startswith(f"{daemon.url}/f/")

        # Never by both, never by none: the rules have seen both findings by now.
        assert chain.query('trimtab:finding:info{node="gpu-00",pager="outbox"}')
        assert len(outbox.opened()) == 1
        assert chain.query('ALERTS{alertname="TrimtabDeviceFault",node="gpu-00"}') == []
        eventually(lambda: chain.oncall.of("TrimtabAlwaysFiring"), seconds=LONG_SECONDS)  # it has a pace of its own
        assert {one.group["alertname"] for one in chain.oncall.told} == {"TrimtabDeviceFault", "TrimtabAlwaysFiring"}

        # A dashboard made for dcgm-exporter is answered by the agents under its own names.
        for line in STOCK.read_text().splitlines():
            if line and not line.startswith("#"):
                seen(chain, _with_all(line))
        for one in (daemon, *agents):
            one.assert_had_no_trouble()


def _finding(daemon: Daemon, node: str) -> float:
    def look() -> bool:
        return any(one.finding.subject.node == node for one in daemon.findings("device_fault"))

    eventually(look, seconds=LONG_SECONDS, said=daemon.tail)
    return time.monotonic()


def _stands(chain: Chain, node: str) -> bool:
    return any(one["labels"].get("node") == node for one in chain.alerts() if "receivers" in one)


def _with_all(query: str) -> str:
    for name in ("instance", "gpu", "host", "model", "namespace", "pod", "uuid", "device", "bus"):
        query = query.replace(f"${name}", ".*")
    return query


def _print(name: str, legs: dict[str, float]) -> None:
    parts = ", ".join(f"{leg} {seconds:.1f} s" for leg, seconds in legs.items())
    print(f"\n{name}: {parts}; in all {sum(legs.values()):.1f} s from fault to page")


def test_a_daemon_that_dies_is_told_and_what_it_had_found_is_not_over_by_that(tmp_path: Path) -> None:
    if why_missing():
        pytest.skip(why_missing())
    with ExitStack() as stack:
        daemon = Daemon(tmp_path)
        stack.callback(daemon.close)
        daemon.up()
        driver = Driver(tmp_path)
        agent = Agent(tmp_path, driver, node="gpu-00", daemon=daemon, token=daemon.token_of("gpu-00"))
        stack.callback(agent.close)
        agent.start()
        port = daemon.people_port
        scrapes = [{"job_name": "trimtab-daemon", "honor_labels": True,
                    "static_configs": [{"targets": [f"127.0.0.1:{port}"]}]}]  # fmt: skip
        chain = stack.enter_context(a_chain(tmp_path / "chain", scrapes=scrapes, factor=20.0, interval="500ms"))
        eventually(lambda: chain.query("trimtab_board_age_seconds"), said=daemon.tail)
        driver["3.lost"] = 1
        eventually(lambda: chain.oncall.of("TrimtabDeviceFault"), said=daemon.tail)

        daemon.kill()
        absent = eventually(lambda: chain.oncall.of("TrimtabDaemonAbsent", cluster=CLUSTER), seconds=LONG_SECONDS)
        assert (absent[0].status, absent[0].receiver) == ("firing", "on-call")
        assert chain.query('ALERTS{alertname="TrimtabDeviceFault",alertstate="firing"}'), "held, not resolved"

        daemon.up()
        eventually(
            lambda: chain.oncall.of("TrimtabDaemonAbsent", cluster=CLUSTER)[-1].status == "resolved",
            seconds=LONG_SECONDS,
        )
        eventually(lambda: chain.query("trimtab_finding_info"), said=daemon.tail)
        story: list[Told] = chain.oncall.of("TrimtabDeviceFault")
        assert [one.status for one in story] == ["firing"], "one incident, one page, over a daemon's death"
        beats = len(chain.oncall.of("TrimtabAlwaysFiring"))
        eventually(
            lambda: len(chain.oncall.of("TrimtabAlwaysFiring")) > beats,
            said=lambda: [(one.at, one.status, one.group) for one in chain.oncall.told],
        )
