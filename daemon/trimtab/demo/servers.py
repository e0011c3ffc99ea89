"""Prometheus and Alertmanager beside the demo, where they are installed: own ports on loopback, own folders."""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trimtab.demo.child import end, last_line, start_program
from trimtab.demo.ground import Ground
from trimtab.demo.pager import OnCallEnd, receivers_at
from trimtab.demo.ports import Ports
from trimtab.errors import SettingsError, TrimtabError
from trimtab.outbound import OutboundError, session
from trimtab.setup.prometheus import Scraped, scrape_jobs
from trimtab.setup.shipped import shipped

PROMETHEUS, ALERTMANAGER, GRAFANA = "Prometheus", "Alertmanager", "Grafana"
_BINARIES = {
    PROMETHEUS: ("prometheus",),
    ALERTMANAGER: ("prometheus-alertmanager", "alertmanager"),
    GRAFANA: ("grafana-server", "grafana"),
}
_PACKAGES = {PROMETHEUS: "prometheus", ALERTMANAGER: "prometheus-alertmanager"}
_WITHOUT = {PROMETHEUS: "rules and queries", ALERTMANAGER: "grouping and silences"}
_SCRAPE_EVERY = "10s"
"""A scrape of 192 GPUs is 4 MB of text, which costs the daemon some tenths of a second each time."""
_RULES_EVERY = "2s"
_RESEND_AFTER = "5s"
"""What Prometheus tells before it has found Alertmanager is lost until it says it again; by default after a minute."""
_ASKS_SECONDS = 1.0
_WORDS_MAX = 200

Find = Callable[[str], str | None]
"""Name of a program -> its full path."""


@dataclass(slots=True)
class Server:
    """One of them."""

    name: str
    binary: str
    port: int
    folder: Path
    process: subprocess.Popen[bytes] | None = None
    is_ready: bool = False
    is_gone: bool = False

    @property
    def url(self) -> str:
        """Where people find it."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        """What it says."""
        return self.folder / "log"


class Servers:
    """Starts what is installed, says what is missing, and goes on without what fails. Use it from one thread."""

    def __init__(self, ground: Ground, ports: Ports, *, find: Find = shutil.which) -> None:
        """Look for the programs and choose their ports; nothing runs yet."""
        self._ground = ground
        paths = {name: next(filter(None, map(find, binaries)), None) for name, binaries in _BINARIES.items()}
        self._servers = {
            name: Server(name=name, binary=path, port=ports.any(), folder=ground.scratch / name.lower())
            for name in _PACKAGES
            if (path := paths[name]) is not None
        }
        self._has_grafana = paths[GRAFANA] is not None
        self._unsaid: list[str] = []
        self._session = session(timeout_seconds=_ASKS_SECONDS)

    def url_of(self, name: str) -> str:
        """Where it is; "" where it is not installed."""
        server = self._servers.get(name)
        return "" if server is None else server.url

    def start(self, on_call: OnCallEnd) -> None:
        """Start them all and wait for none: they come up while the daemon does."""
        fill = {PROMETHEUS: self._prometheus, ALERTMANAGER: self._alertmanager}
        for name, server in self._servers.items():
            try:
                server.folder.mkdir(parents=True, exist_ok=True)
                arguments = fill[name](server, on_call)
                server.process = start_program([server.binary, *arguments], log=server.log)
            except (OSError, TrimtabError) as error:
                self._gone(server, f"{name} was not started: {error}")

    def opening(self) -> tuple[str, ...]:
        """Lines for the beginning: where each is, and what is missing with what installs it."""
        self._see()
        return (*self._addresses(), *self._missing())

    def look(self) -> tuple[str, ...]:
        """What went wrong since the last look, once each."""
        self._see()
        said, self._unsaid = tuple(self._unsaid), []
        return said

    def stop(self) -> None:
        """Ask all of them to end at once, then see to it."""
        running = [server.process for server in self._servers.values() if server.process is not None]
        for process in running:
            process.send_signal(signal.SIGTERM)
        for process in running:
            end(process)
        self._session.close()

    def _addresses(self) -> Iterator[str]:
        for server in self._servers.values():
            if not server.is_gone:
                path = "/alerts" if server.name == PROMETHEUS else "/#/alerts"
                not_yet = "" if server.is_ready else "   (still starting)"
                yield f"{server.name}:  {server.url}{path}{not_yet}"

    def _missing(self) -> Iterator[str]:
        missing = [name for name in _PACKAGES if name not in self._servers]
        if missing:
            without = ", ".join(_WITHOUT[name] for name in missing)
            packages = " ".join(_PACKAGES[name] for name in missing)
            yield f"Missing: {' and '.join(missing)} ({without}). To install:  apt-get install {packages}"
        if self._has_grafana:
            yield "Grafana is installed; the demo does not start it. Dashboards for it:  trimtab setup"
        else:
            yield "Missing: Grafana (https://grafana.com/grafana/download). Dashboards for it then:  trimtab setup"

    def _see(self) -> None:
        for server in self._servers.values():
            if server.process is None:
                continue
            code = server.process.poll()
            if code is not None:
                self._gone(
                    server, f"{server.name} ended ({_how(code)}). Its last words: {last_line(server.log)[:_WORDS_MAX]}"
                )
            elif not server.is_ready:
                server.is_ready = self._answers(f"{server.url}/-/ready")

    def _gone(self, server: Server, why: str) -> None:
        server.process, server.is_gone = None, True
        self._unsaid.append(f"{why.rstrip('.')}. The demo goes on without it.")

    def _answers(self, url: str) -> bool:
        try:
            return bool(self._session.get(url).status_code == 200)
        except OutboundError:
            return False

    def _prometheus(self, server: Server, _on_call: OnCallEnd) -> list[str]:
        for name, text in shipped().rules(is_optional_wanted=False).items():
            (server.folder / name).write_text(text, encoding="utf-8")
        jobs = [{**job, "scrape_interval": _SCRAPE_EVERY} for job in scrape_jobs(Scraped(daemon_url=self._ground.url))]
        config: dict[str, object] = {
            "global": {"scrape_interval": _SCRAPE_EVERY, "evaluation_interval": _RULES_EVERY},
            "rule_files": ["*.rules.yml"],
            "scrape_configs": jobs,
        }
        if told := self._servers.get(ALERTMANAGER):
            config["alerting"] = {"alertmanagers": [{"static_configs": [{"targets": [f"127.0.0.1:{told.port}"]}]}]}
        path = server.folder / "prometheus.yml"
        path.write_bytes(msgspec.json.format(msgspec.json.encode(config)))  # JSON is YAML
        data = f"--storage.tsdb.path={server.folder / 'data'}"
        return [*_common(server, path), data, f"--rules.alert.resend-delay={_RESEND_AFTER}"]

    def _alertmanager(self, server: Server, on_call: OnCallEnd) -> list[str]:
        sample = shipped().alertmanager()
        if sample is None:
            raise SettingsError("this installation came without the sample for it")
        path = server.folder / "alertmanager.yml"
        path.write_text(receivers_at(sample, on_call), encoding="utf-8")
        # An empty cluster address, or it gossips on every address of this host.
        return [*_common(server, path), f"--storage.path={server.folder / 'data'}", "--cluster.listen-address="]


def _common(server: Server, config: Path) -> list[str]:
    """What both take."""
    return [
        f"--config.file={config}",
        f"--web.listen-address=127.0.0.1:{server.port}",
        f"--web.external-url={server.url}/",
        "--log.level=warn",
    ]


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"
