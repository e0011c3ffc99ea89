"""People and a real daemon: tokens by the verbs, sessions over kill -9, proxies, and what the audit says of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import requests
from tests import postgres
from tests.system.processes import Daemon, eventually, verb

from trimtab.model.command import AuditLine
from trimtab.show.api_types import Audit
from trimtab.show.auth import CSRF_HEADER

PROXY = """\
[people]
listen = "127.0.0.1:{port}"
proxy_peers = ["127.0.0.1"]
proxy_roles = {{ "*" = "viewer", gpu-oncall = "operator" }}
"""


@pytest.fixture(params=["sqlite", "postgresql"])
def daemon(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Daemon]:
    url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        server: postgres.PostgresServer = request.getfixturevalue("postgresql")
        url = server.new_database()
    running = Daemon(tmp_path, database_url=url)
    yield running
    running.close()


def run(daemon: Daemon, *words: str, token: str | None = None) -> tuple[int, str, str]:
    done = verb(*words, home=daemon.home, TRIMTAB_URL=daemon.url, TRIMTAB_TOKEN=token or daemon.operator_token)
    return done.returncode, done.stdout, done.stderr


def audit(daemon: Daemon) -> list[AuditLine]:
    return list(daemon.get("/api/v1/audit", Audit, since_seconds=3600).lines)


def sign_in(daemon: Daemon, secret: str) -> requests.Session:
    browser = requests.Session()
    answer = browser.post(daemon.url + "/api/v1/sign-in", json={"token": secret}, timeout=20)
    assert answer.status_code == 200, answer.text
    browser.headers.update({"Origin": daemon.url, CSRF_HEADER: answer.json()["csrf"]})
    return browser


def test_a_session_and_its_open_page_outlive_kill_9_and_a_revoked_token_does_not(daemon: Daemon) -> None:
    daemon.up()
    code, anna, _ = run(daemon, "token", "person", "anna", "--role", "operator", "--days", "1")
    assert code == 0
    with sign_in(daemon, anna.strip()) as browser:
        daemon.kill()
        daemon.up()
        paused = browser.post(daemon.url + "/api/v1/pause", json={"reason": "a drill"}, timeout=20)
        assert (paused.status_code, paused.text) == (200, '{"is_paused":true,"sentence":""}')
        eventually(lambda: daemon.board().is_paused, said=daemon.tail)
        assert run(daemon, "token", "revoke", "T1", "--reason", "left")[0] == 0
        daemon.kill()
        daemon.up()
        assert browser.get(daemon.url + "/api/v1/board", timeout=20).status_code == 401
    assert run(daemon, "whoami", token=anna.strip())[0] == 4
    told = [(line.who.partition(":")[0], line.what) for line in audit(daemon) if not line.who.startswith("trimtab")]
    assert [each for each in told if not each[0].startswith("peer")] == [
        ("operator", "gave a token"),
        ("anna", "signed in"),
        ("anna (page)", "paused"),
        ("operator", "revoked a token"),
    ]


def test_a_viewer_may_look_and_nothing_else(daemon: Daemon) -> None:
    daemon.up()
    code, vera, _ = run(daemon, "token", "person", "vera", "--role", "viewer")
    assert code == 0
    assert run(daemon, "status", token=vera.strip())[0] == 0
    code, _, said = run(daemon, "pause", "--reason", "x", token=vera.strip())
    assert (code, "This needs the role operator; vera has the role viewer." in said) == (4, True)
    assert not daemon.board().is_paused
    (line,) = [line for line in audit(daemon) if line.who == "vera"]
    assert (line.what, "needs the role operator" in line.why) == ("refused POST /api/v1/pause", True)


def test_forged_headers_are_ignored_until_their_sender_is_listed(daemon: Daemon) -> None:
    daemon.up()
    claims = {"X-Forwarded-User": "carl", "X-Forwarded-Groups": "gpu-oncall", "Origin": daemon.url}
    forged = requests.post(daemon.url + "/api/v1/pause", json={"reason": "x"}, headers=claims, timeout=20)
    assert (forged.status_code, daemon.board().is_paused) == (401, False)
    (line,) = [line for line in audit(daemon) if "headers" in line.what]
    assert (line.who, "no listed proxy" in line.why) == ("peer 127.0.0.1", True)
    assert daemon.stop() == 0
    daemon.write_settings(PROXY.format(port=daemon.people_port))
    daemon.up()
    me = requests.get(daemon.url + "/api/v1/me", headers=claims, timeout=20).json()
    assert (me["name"], me["role"]) == ("carl (proxy)", "operator")
    claims[CSRF_HEADER] = me["csrf"]
    assert (
        requests.post(daemon.url + "/api/v1/pause", json={"reason": "x"}, headers=claims, timeout=20).status_code == 200
    )
    assert [line.who for line in audit(daemon) if line.what == "paused"] == ["carl (proxy)"]


def test_guessing_is_slowed_down_and_written_down_once(daemon: Daemon) -> None:
    daemon.up()
    guess = {"token": "trimtab_" + "x" * 43}
    answers = [requests.post(daemon.url + "/api/v1/sign-in", json=guess, timeout=20) for _ in range(12)]
    assert {answer.status_code for answer in answers} == {401, 429}
    assert int(answers[-1].headers["retry-after"]) > 0
    assert [line.what for line in audit(daemon) if line.who == "peer 127.0.0.1"] == [
        "refused to sign in",
        "held up sign-ins",
    ]
    assert run(daemon, "status")[0] == 0  # the operator's own token is not held up
