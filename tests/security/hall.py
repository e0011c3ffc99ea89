"""A real daemon that knows people, nodes, webhooks and a metrics token, for whoever wants to harm it."""

from __future__ import annotations

import re
from pathlib import Path

import requests
from tests.security.hostile import Came
from tests.system.processes import Daemon, eventually
from tests.system.ward import Ward

from trimtab.clock import SystemClock, unix_seconds
from trimtab.outbound import session
from trimtab.show.auth import cookie_name

SECRETS = {
    "metrics.token": "m" * 43,
    "pd.key": "0123456789abcdef0123456789abcdef",
    "pd.secrets": "pd-callback-secret",
    "slack.token": "xoxb-token",
    "slack.secret": "slack-signing",
    "jsm.key": "jsm-key",
    "bot.keys": "whsec_" + "QUFB" * 8,
}
SETTINGS = """
[people]
listen = "127.0.0.1:{port}"
metrics_token_file = "{state}/metrics.token"
sign_in_failures_per_peer_per_minute = {failures}
[oncall.targets.night]
kind = "pagerduty"
routing_key_file = "pd.key"
webhook_secrets_file = "pd.secrets"
url = "http://127.0.0.1:9"
[oncall.targets.chat]
kind = "slack"
token_file = "slack.token"
signing_secret_file = "slack.secret"
channel = "C0FLEET"
url = "http://127.0.0.1:9"
[oncall.targets.bot]
kind = "webhook"
keys_file = "bot.keys"
url = "http://127.0.0.1:9"
"""
INVENTED = "trimtab_" + "i" * 43


class Hall:
    """The daemon, and every kind of credential."""

    def __init__(self, home: Path, *, database_url: str = "sqlite:///trimtab.db", failures: int = 60) -> None:
        self.failures_max = failures
        self.ward = Ward(home, "", SECRETS, database_url=database_url)
        self.daemon: Daemon = self.ward.daemon
        state, port = self.daemon.state_directory, self.daemon.people_port
        self.daemon.write_settings(SETTINGS.format(port=port, state=state, failures=failures).lstrip())
        self.url, self.people_port, self.ingest_port = self.daemon.url, port, self.daemon.ingest_port
        self._credentials: dict[str, str] = {"invented": INVENTED}
        self._sessions: dict[str, tuple[str, str]] = {}

    def up(self) -> Hall:
        """Started, with three nodes and a fault of one."""
        self.daemon.up()
        for node in ("n1", "n2"):
            self.ward.report(node, gpus=2)
        self.ward.break_gpus(1)
        self._credentials |= {
            "admin": self.daemon.operator_token,
            "node": self.ward.token_of("n1"),
            "metrics": SECRETS["metrics.token"],
        }
        for role in ("viewer", "operator", "webhook"):
            self._credentials[role] = self.give(f"{role}-1", role)
        revoked = self.daemon.ask("POST", "/api/v1/tokens", {"name": "gone", "role": "admin"}).json()
        assert self.daemon.ask("POST", f"/api/v1/tokens/{revoked['token']['id']}/revoke", {}).status_code == 200
        self._credentials["revoked"] = revoked["secret"]
        eventually(lambda: self.daemon.board().findings, said=self.daemon.tail)
        return self

    def give(self, name: str, role: str) -> str:
        answer = self.daemon.ask("POST", "/api/v1/tokens", {"name": name, "role": role})
        assert answer.status_code == 200, answer.text
        return str(answer.json()["secret"])

    def credential(self, kind: str) -> str:
        return self._credentials[kind]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self._credentials)

    @property
    def cookie_name(self) -> str:
        return cookie_name(f"127.0.0.1:{self.people_port}")

    def session(self, role: str) -> tuple[str, str]:
        """A signed-in browser's cookie as it is sent, and its proof against CSRF."""
        if role not in self._sessions:
            body = {"token": self.credential(role)}
            answer = requests.post(f"{self.url}/api/v1/sign-in", json=body, timeout=20)
            assert answer.status_code == 200, answer.text
            secret = answer.cookies[self.cookie_name]
            self._sessions[role] = (f"{self.cookie_name}={secret}", answer.json()["csrf"])
        return self._sessions[role]

    def used_link(self) -> Came:
        """What a one-time link answers the second time."""
        link = self.daemon.ask("POST", "/api/v1/links", {}).json()["url"]
        with session(timeout_seconds=20.0) as browser:
            assert browser.get(link).status_code == 303
        with session(timeout_seconds=20.0) as browser:
            answer = browser.get(link)
        return Came(answer.status_code, answer.text)

    def unix_seconds(self) -> int:
        return int(unix_seconds(SystemClock().now()))

    def answers(self) -> dict[str, float]:
        """trimtab_door_answers_total by answer."""
        text = self.daemon.ask("GET", "/metrics", token=self.credential("metrics")).text
        found = re.findall(r'^trimtab_door_answers_total\{answer="(\w+)"\} (\S+)$', text, re.MULTILINE)
        return {answer: float(count) for answer, count in found}

    def audit(self) -> list[tuple[str, str, str]]:
        """Who, what and why of each line."""
        lines = self.daemon.ask("GET", "/api/v1/audit").json()["lines"]
        return [(line["who"], line["what"], line["why"]) for line in lines]

    def reports_again(self) -> None:
        """An agent's report is taken: the daemon lives and remembers."""
        self.ward.report("n2", gpus=2)

    def facts(self) -> tuple[bool, int]:
        """Whether it is paused, and how many GPUs report: what no hostile request may change."""
        board = self.daemon.board()
        return board.is_paused, len(board.nodes)

    def close(self) -> None:
        self.daemon.close()
