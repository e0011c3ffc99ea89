"""Real agents that are enrolled, and what operators see of them, for the tests with processes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
from tests.system.processes import CLUSTER, Daemon, Running, eventually, free_port, verb

from trimtab.outbound import OutboundError, session
from trimtab.ship.keyring import CREDENTIAL_FILE, Kept

NODE = "gpu-07"


class Enrollee(Running):
    """`trimtab agent` with a join-token file; without a GPU, which is all the same here."""

    def __init__(self, home: Path, *urls: str, node: str = NODE, settings: str = "") -> None:
        self.node = node
        self.metrics_port = free_port()
        self.join_file = home / f"{node}.join"
        self.credentials = home / f"{node}.credential"
        self.settings_file = home / f"{node}.toml"
        self.settings_file.write_text(
            f"""\
cluster = "{CLUSTER}"
node = "{node}"
daemon_urls = {msgspec.json.encode(urls).decode()}
join_token_file = "{self.join_file}"
credential_directory = "{self.credentials}"
spool_directory = "{home}/{node}.spool"
interval_seconds = 0.2
replay_reports_per_second = 500
kernel_log = "none"
metrics_listen = "127.0.0.1:{self.metrics_port}"
{settings}
""",
            encoding="utf-8",
        )
        super().__init__("agent", "--settings", str(self.settings_file), home=home, name=node, env={})
        self._session = session(timeout_seconds=5.0)

    def give(self, token: str) -> None:
        """Put a join token where the agent looks for one."""
        self.join_file.write_text(token + "\n", encoding="ascii")

    @property
    def kept(self) -> Kept | None:
        """What it has on disk."""
        file = self.credentials / CREDENTIAL_FILE
        return msgspec.json.decode(file.read_bytes(), type=Kept) if file.exists() else None

    def metric(self, name: str, **labels: str) -> float | None:
        """One value of its /metrics page."""
        self.fail_if_ended()
        try:
            page = self._session.get(f"http://127.0.0.1:{self.metrics_port}/metrics").text
        except OutboundError:
            return None
        wanted = "".join(f'[^}}]*{key}="{value}"' for key, value in labels.items())
        found = re.search(rf"^{name}{{{wanted}[^}}]*}} (\S+)$", page, re.MULTILINE)
        return float(found[1]) if found is not None else None

    def reports_at(self, daemon: Daemon) -> None:
        """Wait until the daemon has a report that was made from now on."""
        before = self.metric("trimtab_agent_acknowledged_total") or 0.0
        said = lambda: f"{self.tail()}\n{daemon.tail()}"  # noqa: E731
        eventually(lambda: (self.metric("trimtab_agent_acknowledged_total") or 0.0) > before, seconds=60.0, said=said)


def enroll(daemon: Daemon, *arguments: str, offline: bool = False) -> Any:
    """`trimtab enroll … --json` as an operator runs it; what it says."""
    how = ("--settings", str(daemon.settings_file)) if offline else ("--url", daemon.url)
    more = {} if offline else {"TRIMTAB_TOKEN": daemon.operator_token}
    done = verb("enroll", *arguments, "--json", *how, home=daemon.home, **more)
    assert done.returncode == 0, done.stderr
    return msgspec.json.decode(done.stdout)


def token_of(daemon: Daemon, node: str = NODE, *more: str, offline: bool = False) -> str:
    """A join token of a node."""
    token: str = enroll(daemon, node, *more, offline=offline)["tokens"][0]["token"]
    return token


def row_of(daemon: Daemon, node: str = NODE) -> dict[str, Any]:
    """What `trimtab enroll list` has on a node."""
    rows = daemon.ask("GET", "/api/v1/enrolment").json()["nodes"]
    return next((row for row in rows if row["node"] == node), {})
