"""Where a demo lives: its scratch folder, ports, tokens and the daemon's settings file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trimtab.ship.tokens import digest_of, new_token

_CORDONS = 2.05
"""The stories take two nodes out; in a small cluster that is more than a tenth."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What `trimtab demo` was asked for."""

    speed: float = 20.0
    nodes: int = 24
    seed: int = 0
    database: str | None = None
    is_auto_approved: bool = False
    for_seconds: float | None = None
    is_json: bool = False
    port: int | None = None
    is_kept: bool = False
    has_servers: bool = True
    """Whether Prometheus and Alertmanager run beside it, where they are installed."""
    kill_daemon: int = 0
    """How often the daemon is killed at random within `for_seconds`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ground:
    """The folders and addresses of one demo."""

    scratch: Path
    cluster: str
    people_port: int
    ingest_port: int
    database_url: str

    @property
    def state_directory(self) -> Path:
        """The daemon's."""
        return self.scratch / "daemon"

    @property
    def settings_file(self) -> Path:
        """The daemon's."""
        return self.scratch / "daemon.toml"

    @property
    def log_file(self) -> Path:
        """What the daemon logs."""
        return self.scratch / "daemon.log"

    @property
    def url(self) -> str:
        """Where people meet the daemon."""
        return f"http://127.0.0.1:{self.people_port}"

    @property
    def ingest_url(self) -> str:
        """Where agents do."""
        return f"http://127.0.0.1:{self.ingest_port}"

    def agent_directory(self, node: str) -> Path:
        """Where one node's agent keeps its spool."""
        return self.scratch / "agents" / node

    def token_file(self, node: str) -> Path:
        """One node's token."""
        return self.scratch / "tokens" / node


def give_tokens(ground: Ground, nodes: list[str]) -> None:
    """A token for each node: in its own file, its hash in the daemon's table."""
    ground.state_directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    ground.token_file("").mkdir(mode=0o700, parents=True, exist_ok=True)
    lines = ["[nodes]"]
    for node in nodes:
        token = new_token()
        path = ground.token_file(node)
        path.touch(mode=0o600)
        path.write_text(token + "\n", encoding="ascii")
        lines.append(f'"{node}" = "{digest_of(token)}"')
    table = ground.state_directory / "node-tokens.toml"
    table.touch(mode=0o600)
    table.write_text("\n".join(lines) + "\n", encoding="ascii")


def write_settings(
    ground: Ground, *, nodes: int, control_url: str, speed: float, anchor: datetime, more: str = ""
) -> tuple[str, ...]:
    """The daemon's settings file, `more` at its end; returns what differs from a real daemon's, in sentences."""
    # No multiple of the reports' interval: beats must not look at the same instant of it each time.
    beat_seconds = max(5.0, speed * 0.35)
    silent_seconds = max(60.0, speed * 8.0)
    patience_seconds = max(900.0, speed * 600.0)
    cordoned_ratio_max = max(0.1, _CORDONS / nodes)
    text = f"""\
# Written by `trimtab demo`. Times are simulated: {speed:g} s pass in one second of the wall.
cluster = "{ground.cluster}"
state_directory = "{ground.state_directory}"

[ingest]
listen = "127.0.0.1:{ground.ingest_port}"

[people]
listen = "127.0.0.1:{ground.people_port}"

[store]
url = "{ground.database_url}"
commit_interval_seconds = {max(1.0, speed * 0.2)}

[detect]
interval_seconds = {beat_seconds}
silent_after_seconds = {silent_seconds}

[plan]
interval_seconds = {beat_seconds}
expiry_seconds = {patience_seconds}
moves_max = 8
cordoned_ratio_max = {cordoned_ratio_max:.3f}

[issue]
mode = "approve"
settle_seconds_max = {patience_seconds}
hold_seconds_max = {patience_seconds * 2}

[simulated]
url = "{control_url}"
speed = {speed}
anchor = "{anchor.isoformat()}"
{more}"""
    ground.settings_file.write_text(text, encoding="utf-8")
    return (
        f"Beats every {beat_seconds / speed:.2f} s of the wall; a node counts as silent after "
        f"{silent_seconds / speed:.0f} s; a recommendation stands {patience_seconds / speed / 60:.0f} min.",
        "Up to 8 jobs may move at once, so that all three stories can be answered side by side.",
        "The thresholds of detection are a real daemon's: heat 5 min, a slow rank 2 min, waiting for placement 2 min.",
    )
