"""Real Prometheus and Alertmanager on loopback with our own rules and samples, and an on-call end behind them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import requests
import yaml
from tests.alerts.promtool_tests import ALERTS
from tests.system.processes import eventually, free_port

ALERTMANAGER = next((name for name in ("prometheus-alertmanager", "alertmanager") if shutil.which(name)), "")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def why_missing() -> str:
    """What to install, where a server is not there; empty = all is."""
    if shutil.which("prometheus") is None:
        return "prometheus is missing: apt-get install prometheus"
    return "" if ALERTMANAGER else "Alertmanager is missing: apt-get install prometheus-alertmanager"


def shorter(duration: str, factor: float, *, least_seconds: float = 0.0) -> str:
    """A duration of a configuration by the factor: `10m` by 60 is `10000ms`."""
    number, unit = re.fullmatch(r"(\d+)(ms|s|m|h|d)", duration).groups()  # type: ignore[union-attr]
    seconds = int(number) * _UNITS[unit] / factor
    return f"{round(max(seconds, least_seconds if int(number) else 0.0) * 1000)}ms"


def shorter_rules(directory: Path, factor: float) -> list[str]:
    """Our rule files with every duration (`for`, ranges, offsets) shortened by the one factor; their paths."""
    paths = []
    for path in sorted(ALERTS.glob("*.rules.yml"), key=lambda path: path.name != "trimtab-findings.rules.yml"):
        document = yaml.safe_load(path.read_text())
        for rule in (rule for group in document["groups"] for rule in group["rules"]):
            rule["expr"] = re.sub(r"\[(\w+)\]", lambda found: f"[{shorter(found[1], factor)}]", rule["expr"])
            rule["expr"] = re.sub(r"offset (\w+)", lambda found: f"offset {shorter(found[1], factor)}", rule["expr"])
            for name in {"for", "keep_firing_for"} & set(rule):
                rule[name] = shorter(rule[name], factor)
        made = directory / path.name
        made.write_text(yaml.safe_dump(document, sort_keys=False))
        paths.append(str(made))
    return paths


def shorter_alertmanager(path: Path, factor: float, url: str) -> None:
    """The sample, with its waits shortened and the on-call end of the test in place of the sample's addresses."""
    document = yaml.safe_load((ALERTS / "alertmanager.yml").read_text())
    routes = [document["route"], *document["route"]["routes"]]
    for route in routes:
        for name, least in (("group_wait", 0.0), ("group_interval", 2.0), ("repeat_interval", 2.0)):
            if name in route:
                route[name] = shorter(route[name], factor, least_seconds=least)
    for receiver in document["receivers"]:
        for webhook in receiver["webhook_configs"]:
            webhook["url"] = f"{url}/{receiver['name']}"
    path.write_text(yaml.safe_dump(document, sort_keys=False))


@dataclass
class OnCall:
    """What arrived at the receivers: one entry a notification."""

    url: str = ""
    told: list[Told] = field(default_factory=list)

    def of(self, alert: str, **labels: str) -> list[Told]:
        """Notifications of an alert's groups in order."""
        wanted = {"alertname": alert, **labels}
        return [one for one in list(self.told) if wanted.items() <= one.group.items()]


@dataclass(frozen=True, kw_only=True)
class Told:
    """One notification."""

    at: float
    receiver: str
    status: str
    group: dict[str, str]
    key: str
    alerts: list[dict[str, Any]]


@contextmanager
def an_on_call() -> Iterator[OnCall]:
    """The far end: takes webhooks of Alertmanager (version 4)."""
    end = OnCall()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            assert body["version"] == "4"
            told = Told(at=time.monotonic(), receiver=self.path.strip("/"), status=body["status"],
                        group=body["groupLabels"], key=body["groupKey"], alerts=body["alerts"])  # fmt: skip
            end.told.append(told)
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(Handler) as port:
        end.url = f"http://127.0.0.1:{port}"
        yield end


@contextmanager
def a_page(text: Callable[[], str]) -> Iterator[int]:
    """A /metrics page that says what `text` does at each look; its port."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text().encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with serving(Handler) as port:
        yield port


@contextmanager
def serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[int]:
    """An HTTP server on a thread; its port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@dataclass(frozen=True, kw_only=True)
class Chain:
    """Prometheus → Alertmanager → on-call."""

    prometheus: str
    alertmanager: str
    oncall: OnCall

    def query(self, expression: str) -> list[dict[str, Any]]:
        """One instant query."""
        answer = requests.get(f"{self.prometheus}/api/v1/query", params={"query": expression}, timeout=10).json()
        assert answer["status"] == "success", answer
        found: list[dict[str, Any]] = answer["data"]["result"]
        return found

    def alerts(self) -> list[dict[str, Any]]:
        """What fires or waits in Prometheus, or stands in Alertmanager."""
        waiting = requests.get(f"{self.prometheus}/api/v1/alerts", timeout=10).json()["data"]["alerts"]
        standing = requests.get(f"{self.alertmanager}/api/v2/alerts", timeout=10).json()
        return [*waiting, *standing]

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped."""
        answer = requests.get(f"{self.prometheus}/api/v1/targets", timeout=10).json()
        found: list[dict[str, Any]] = answer["data"]["activeTargets"]
        return found


@contextmanager
def a_chain(
    home: Path,
    *,
    scrapes: list[dict[str, Any]],
    factor: float = 1.0,
    interval: str = "15s",
) -> Iterator[Chain]:
    """The servers with our rules; every duration of rules and routes is shortened by `factor`."""
    home.mkdir(parents=True, exist_ok=True)
    with an_on_call() as oncall:
        alertmanager_port, prometheus_port = free_port(), free_port()
        shorter_alertmanager(home / "alertmanager.yml", factor, oncall.url)
        config = {
            "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
            "rule_files": shorter_rules(home, factor),
            "alerting": {
                "alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{alertmanager_port}"]}]}],
            },
            "scrape_configs": scrapes,
        }
        (home / "prometheus.yml").write_text(yaml.safe_dump(config, sort_keys=False))
        alertmanager = [
            ALERTMANAGER, f"--config.file={home}/alertmanager.yml", f"--storage.path={home}/alertmanager",
            f"--web.listen-address=127.0.0.1:{alertmanager_port}", "--cluster.listen-address=", "--log.level=warn",
        ]  # fmt: skip
        prometheus = [
            "prometheus", f"--config.file={home}/prometheus.yml", f"--storage.tsdb.path={home}/tsdb",
            f"--web.listen-address=127.0.0.1:{prometheus_port}", "--log.level=warn",
            f"--query.lookback-delta={shorter('5m', factor, least_seconds=5.0)}",
            f"--rules.alert.resend-delay={shorter('1m', factor, least_seconds=2.0)}",
        ]  # fmt: skip
        chain = Chain(
            prometheus=f"http://127.0.0.1:{prometheus_port}",
            alertmanager=f"http://127.0.0.1:{alertmanager_port}",
            oncall=oncall,
        )
        with _running(alertmanager, home / "alertmanager.log"), _running(prometheus, home / "prometheus.log"):
            for url in (chain.alertmanager, chain.prometheus):
                eventually(lambda url=url: requests.get(f"{url}/-/ready", timeout=5).status_code == 200)  # type: ignore[misc]
            yield chain


@contextmanager
def _running(command: list[str], log: Path) -> Iterator[None]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        yield
        assert process.poll() is None, log.read_text(errors="replace")[-3000:]
    finally:
        process.terminate()
        process.wait(30)
