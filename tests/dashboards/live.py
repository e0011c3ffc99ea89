"""What the dashboards' queries are put to: the demo, one real agent, and a Prometheus that scrapes both."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import requests
import yaml
from tests.dashboards.reading import ROOT
from tests.standin.driver import Driver

CLUSTER = "hall-a"
TRIMTAB = (sys.executable, "-c", "from trimtab.cli import main; main()")
SECONDS_MAX = 150.0
SCRAPE_SECONDS = 3
RATE_INTERVAL = f"{4 * SCRAPE_SECONDS}s"
INSTALL = "prometheus is missing: apt-get install prometheus"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """Where everything listens."""

    prometheus: str
    page: str
    began_at_seconds: float

    def ask(self, path: str, **parameters: Any) -> Any:
        """One answer of Prometheus's API; its error is the test's."""
        answer = requests.get(f"{self.prometheus}/api/v1/{path}", params=parameters, timeout=30)
        body = answer.json()
        assert body["status"] == "success", f"{parameters}: {body}"
        return body["data"]

    def series(self, expression: str) -> list[dict[str, Any]]:
        """The series of a query over all the time since the demo began."""
        now = time.time()
        found = self.ask("query_range", query=expression, start=self.began_at_seconds, end=now, step=SCRAPE_SECONDS)
        series: list[dict[str, Any]] = found["result"]
        return series

    def label_values(self, selector: str, label: str) -> list[str]:
        """What Grafana's label_values() gives."""
        found: list[str] = self.ask(f"label/{label}/values", **{"match[]": selector, "start": self.began_at_seconds})
        return found


def eventually(look: Callable[[], object], *, said: Callable[[], str], seconds: float = SECONDS_MAX) -> None:
    """Until `look` gives something true; `said` explains why it never did."""
    waits = threading.Event()
    gives_up_at = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < gives_up_at, said()
        waits.wait(0.5)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


@contextmanager
def running(name: str, command: list[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[None]:
    """A process of ours, ended with everything that it started."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, env=dict(env) if env else None, cwd="/")
    try:
        yield
        assert process.poll() is None, f"{name} ended: {log.read_text(errors='replace')[-3000:]}"
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@contextmanager
def page_of(text: str) -> Iterator[int]:
    """A /metrics page that says always the same; its port."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def agent_settings(home: Path, port: int, *, more: str = "") -> Path:
    """An agent of its own node, whose daemon is away, and whose kernel tells of an XID."""
    kernel = home / "kernel.kmsg"
    kernel.write_text("6,900,1000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  570.124.06\n")
    settings = home / "agent.toml"
    settings.write_text(
        f'cluster = "{CLUSTER}"\nnode = "agent-00"\ninterval_seconds = 0.5\n'
        f'daemon_urls = ["http://127.0.0.1:{free_port()}"]\ntoken_file = "{home}/token"\n'
        f'spool_directory = "{home}/spool"\nkernel_log = "{kernel}"\nmetrics_listen = "127.0.0.1:{port}"\n{more}'
    )
    (home / "token").write_text("t" * 43 + "\n")
    return settings


def say_xid(home: Path, number: int, code: int = 13) -> None:
    """The kernel tells of an XID."""
    line = f"3,{900 + number},{2_000_000 + number},-;NVRM: Xid (PCI:0000:10:00): {code}, pid=4711, name=python3, "
    with (home / "kernel.kmsg").open("a") as file:
        file.write(line + "Graphics Exception\n")


def prometheus_settings(home: Path, targets: Mapping[str, str]) -> Path:
    """What Prometheus scrapes, in the manner of `trimtab setup`, with addresses of ours."""
    path = home / "prometheus.yml"
    often = {"scrape_interval": f"{SCRAPE_SECONDS}s", "scrape_timeout": f"{SCRAPE_SECONDS}s", "honor_labels": True}
    jobs = [
        {"job_name": name, **often, "static_configs": [{"targets": [address]}]} for name, address in targets.items()
    ]
    path.write_text(yaml.safe_dump({"scrape_configs": jobs}))
    return path


@contextmanager
def live_fleet(home: Path) -> Iterator[Fleet]:
    """The demo with its three stories, one real agent, and Prometheus over them, all up."""
    if shutil.which("prometheus") is None:
        pytest.skip(INSTALL)
    page_port, agent_port, prometheus_port = free_port(), free_port(), free_port()
    env = {**os.environ, "XDG_STATE_HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(ROOT / "daemon")}
    driver = Driver(home)
    settings = agent_settings(home, agent_port, more="[metrics]\ndcgm_aliases = true\n")
    golden = (ROOT / "tests" / "golden" / "metrics-daemon.txt").read_text(encoding="utf-8")
    demo = [*TRIMTAB, "demo", "--auto-approve", "--nodes", "12", "--port", str(page_port)]
    began_at_seconds = time.time()
    with ExitStack() as stack:
        golden_port = stack.enter_context(page_of(of_another_cluster(golden)))
        stack.enter_context(running("demo", demo, home / "demo.log", env))
        agent = [*TRIMTAB, "agent", "--settings", str(settings)]
        stack.enter_context(running("agent", agent, home / "agent.log", {**env, **driver.environment()}))
        targets = {
            "trimtab-daemon": f"127.0.0.1:{page_port}",
            "trimtab-agents": f"127.0.0.1:{agent_port}",
            "kubernetes-hall": f"127.0.0.1:{golden_port}",
        }
        config = prometheus_settings(home, targets)
        address = f"127.0.0.1:{prometheus_port}"
        prometheus = ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={home}/tsdb"]
        prometheus += [f"--web.listen-address={address}", "--log.level=warn"]
        stack.enter_context(running("prometheus", prometheus, home / "prometheus.log"))
        fleet = Fleet(
            prometheus=f"http://{address}", page=f"http://127.0.0.1:{page_port}", began_at_seconds=began_at_seconds
        )
        eventually(lambda: _is_up(fleet), said=lambda: (home / "demo.log").read_text() + _log(home), seconds=60)
        for number in range(3):
            say_xid(home, number)
        yield fleet


def of_another_cluster(golden: str) -> str:
    """The reviewed page of a daemon on Kubernetes: what a simulated cluster has not, such as a Lease and watches."""
    return golden.replace('cluster="hall-a"', 'cluster="hall-k"')


def _is_up(fleet: Fleet) -> bool:
    try:
        found = fleet.ask("query", query="up == 1")["result"]
    except requests.ConnectionError:
        return False
    return len(found) == 3


def _log(home: Path) -> str:
    return "".join(path.read_text(errors="replace")[-1500:] for path in home.glob("*.log"))
