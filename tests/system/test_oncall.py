"""On-call of a real daemon from outside: pages at a strict pager, acknowledged from all sides, drills, who pages."""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlencode

import pytest
from tests import postgres
from tests.oncall.chat_receivers import SlackReceiver
from tests.oncall.receivers import PagerDutyReceiver
from tests.oncall.server import Reply, serving
from tests.system.processes import eventually
from tests.system.ward import Ward

from trimtab.clock import SystemClock, unix_seconds
from trimtab.outbound import session
from trimtab.show.api_types_oncall import IncidentStory, OnCall, OutboxLetters

ROUTING_KEY, PD_SECRET, SLACK_SECRET = "0123456789abcdef0123456789abcdef", "pd-callback-secret", "slack-signing"
SETTINGS = """
[detect]
interval_seconds = 0.1
silent_after_seconds = 86400.0
[oncall]
deliver_seconds = 0.05
backoff_seconds = 0.1
backoff_seconds_max = 0.3
quiet_update_seconds = 0.0
runbook_url = "https://docs.example/runbooks"
[oncall.targets.night]
kind = "pagerduty"
routing_key_file = "pd.key"
webhook_secrets_file = "pd.secrets"
url = "{pd}"
per_minute_max = 60000.0
[oncall.targets.chat]
kind = "slack"
token_file = "slack.token"
signing_secret_file = "slack.secret"
channel = "C0FLEET"
url = "{slack}"
per_minute_max = 60000.0
"""


@dataclass
class Scene:
    ward: Ward
    pager: PagerDutyReceiver
    slack: SlackReceiver

    def open_pages(self) -> set[str]:
        return {key for (_, key), state in self.pager.alerts.items() if state != "resolved"}

    def breaks(self) -> str:
        """One more GPU falls off the bus; the key under which it pages."""
        before = self.open_pages()
        self.ward.break_gpus(1)
        return eventually(lambda: next(iter(self.open_pages() - before), None), said=self.ward.daemon.tail)

    def has_node(self, name: str) -> None:
        """It reports, also where no test before this one made it do so."""
        if self.ward.daemon.node(name) is None:
            self.ward.report(name)
            eventually(lambda: self.ward.daemon.node(name), said=self.ward.daemon.tail)

    def number(self, key: str) -> int:
        return int(key.rpartition("-I")[2])

    def story(self, number: int) -> IncidentStory:
        return self.ward.daemon.get(f"/api/v1/incidents/{number}", IncidentStory)

    def state(self, key: str) -> str:
        return self.pager.alerts[ROUTING_KEY, key]

    def call_back(self, kind: str, body: bytes, headers: dict[str, str]):
        with session(timeout_seconds=20.0) as peer:
            return peer.post(f"{self.ward.daemon.url}/api/v1/callbacks/{kind}", data=body, headers=headers)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def scene(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    database_url = "sqlite:///trimtab.db"
    if request.param == "postgresql":
        server: postgres.PostgresServer = request.getfixturevalue("postgresql")
        database_url = server.new_database()
    pager, slack = PagerDutyReceiver(ROUTING_KEY), SlackReceiver("xoxb-token")
    with ExitStack() as stack:
        settings = SETTINGS.format(pd=stack.enter_context(serving(pager)), slack=stack.enter_context(serving(slack)))
        files = {
            "pd.key": ROUTING_KEY,
            "pd.secrets": PD_SECRET,
            "slack.token": "xoxb-token",
            "slack.secret": SLACK_SECRET,
        }
        ward = Ward(tmp_path_factory.mktemp("ward"), settings, files, database_url=database_url)
        stack.callback(ward.daemon.close)
        ward.daemon.up()
        yield Scene(ward, pager, slack)
        assert pager.refusals == []
        ward.daemon.assert_had_no_trouble()


def pd_event(key: str, *, kind: str = "incident.acknowledged", event: str = "E1") -> bytes:
    return json.dumps(
        {
            "event": {
                "id": event,
                "event_type": kind,
                "agent": {"id": "P1", "type": "user_reference", "summary": "Wang Wei"},
                "data": {"type": "incident", "incident_key": key},
            }
        }
    ).encode()


def pd_signed(body: bytes, secret: str = PD_SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-PagerDuty-Signature": f"v1={digest}", "Content-Type": "application/json"}


def test_a_fault_pages_everywhere_with_link_and_runbook(scene: Scene) -> None:
    key = scene.breaks()
    eventually(lambda: len(scene.slack.requests) >= 1)
    event = scene.pager.requests[-1].json()
    assert event["payload"]["severity"] == "critical"
    assert event["payload"]["summary"].startswith("hall-a: n0001 GPU 0 fell off the bus (XID 79)")
    links = {link["text"]: link["href"] for link in event["links"]}
    assert links["Open in trimtab"] == f"{scene.ward.daemon.url}/f/1"
    assert links["Runbook"] == "https://docs.example/runbooks/TrimtabDeviceFault.md"
    told = eventually(
        lambda: next((s for s in [scene.story(scene.number(key))] if all(not x.state.is_waiting for x in s.letters)), 0)
    )
    assert {(letter.target, letter.state.value) for letter in told.letters} == {("night", "done"), ("chat", "done")}


def test_it_is_acknowledged_by_a_verb_and_every_target_hears_it(scene: Scene) -> None:
    key = scene.breaks()
    number = scene.number(key)
    finding = scene.story(number).incident.finding
    assert f"I{number}: " in scene.ward.verb("ack", f"F{finding}")
    eventually(lambda: scene.state(key) == "acknowledged", said=scene.ward.daemon.tail)
    assert f"I{number} " in scene.ward.verb("incidents")
    assert " has it" in scene.ward.verb("incidents")
    assert "There is no incident I9999" in scene.ward.verb("ack", "I9999", code=4)


def test_who_only_looks_may_not_acknowledge(scene: Scene) -> None:
    made = scene.ward.daemon.ask("POST", "/api/v1/tokens", {"name": "looker", "role": "viewer"})
    assert made.status_code == 200, made.text
    token = made.json()["secret"]
    assert scene.ward.daemon.ask("GET", "/api/v1/incidents", token=token).status_code == 200
    for path, body in (
        ("/api/v1/incidents/1/acknowledge", {}),
        ("/api/v1/pager", {"pager": "none", "reason": "x"}),
        ("/api/v1/drills", {"kind": "xid79", "node": "n0001"}),
    ):
        assert scene.ward.daemon.ask("POST", path, body, token=token).status_code == 403


def test_it_is_acknowledged_at_pagerduty_once_and_only_with_the_right_signature(scene: Scene) -> None:
    key = scene.breaks()
    number, event = scene.number(key), secrets.token_hex(8)
    body = pd_event(key, event=event)
    assert scene.call_back("pagerduty", body, pd_signed(body, "another")).status_code == 401
    assert scene.call_back("pagerduty", body, {"Content-Type": "application/json"}).status_code == 401
    assert scene.call_back("pagerduty", body + b" ", pd_signed(body)).status_code == 401
    assert scene.story(number).incident.acknowledged_at is None
    taken = scene.call_back("pagerduty", body, pd_signed(body))
    assert taken.json() == {"is_taken": True, "sentence": f"I{number} acknowledged."}
    again = scene.call_back("pagerduty", body, pd_signed(body))
    assert again.json()["sentence"] == "This act was taken before."
    assert scene.story(number).incident.acknowledged_by == "Wang Wei (pagerduty)"
    # It is not sent back to where it came from.
    letters = [(letter.target, letter.verb.value) for letter in scene.story(number).letters]
    assert ("chat", "acknowledge") in letters
    assert ("night", "acknowledge") not in letters


def test_resolving_at_the_pager_does_not_end_what_is_still_wrong(scene: Scene) -> None:
    key = scene.breaks()
    body = pd_event(key, kind="incident.resolved", event=secrets.token_hex(8))
    said = scene.call_back("pagerduty", body, pd_signed(body)).json()["sentence"]
    assert "calls it resolved while it still stands" in said
    incident = scene.story(scene.number(key)).incident
    assert incident.is_open
    assert incident.acknowledged_by == "Wang Wei (pagerduty)"


def test_it_is_acknowledged_by_the_button_in_slack_and_a_replay_is_refused(scene: Scene) -> None:
    key = scene.breaks()
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "username": "lin"},
        "actions": [{"action_id": "trimtab_acknowledge", "value": key, "action_ts": "1.1"}],
    }
    body = urlencode({"payload": json.dumps(payload)}).encode()

    def signed(at: int) -> dict[str, str]:
        digest = hmac.new(SLACK_SECRET.encode(), f"v0:{at}:".encode() + body, hashlib.sha256).hexdigest()
        return {
            "X-Slack-Request-Timestamp": str(at),
            "X-Slack-Signature": f"v0={digest}",
            "Content-Type": "application/x-www-form-urlencoded",
        }

    now = int(unix_seconds(SystemClock().now()))
    assert scene.call_back("slack", body, signed(now - 400)).status_code == 401
    assert scene.call_back("slack", body, signed(now)).json()["is_taken"] is True
    eventually(lambda: scene.state(key) == "acknowledged", said=scene.ward.daemon.tail)


def test_the_drill_goes_the_whole_way_is_labelled_and_leaves_nothing(scene: Scene) -> None:
    scene.has_node("n0001")
    before = scene.ward.daemon.get("/api/v1/findings", dict, state="all")["findings"]
    metrics = scene.ward.daemon.ask("GET", "/metrics").text
    open_before = scene.open_pages()
    said = scene.ward.verb("drill", "xid79", "n0001/0", "--for", "2s")
    assert "[drill] hall-a: n0001 GPU 0 fell off the bus (XID 79)" in said
    assert "  would: " in said
    assert "  night: open delivered" in said
    assert "  night: resolve delivered" in said
    assert "  chat: resolve delivered" in said
    opening = next(
        event
        for event in (request.json() for request in reversed(scene.pager.requests))
        if event["event_action"] == "trigger"
    )
    assert opening["payload"]["summary"].startswith("[drill] hall-a: n0001 GPU 0")
    assert len(opening["payload"]["summary"]) <= 110 + len("[drill] ")
    assert scene.open_pages() == open_before
    # It is in no finding, no recommendation, no record and no metric of real ones.
    assert scene.ward.daemon.get("/api/v1/findings", dict, state="all")["findings"] == before
    after = scene.ward.daemon.ask("GET", "/metrics").text
    lines = lambda page: {line for line in page.splitlines() if line.startswith("trimtab_findings{")}  # noqa: E731
    assert lines(after) == lines(metrics)
    assert scene.ward.daemon.get("/api/v1/recommendations", dict, state="all")["recommendations"] == []


def test_a_drill_on_what_is_not_there_says_so(scene: Scene) -> None:
    scene.has_node("n0001")
    assert "n0001 has no GPU 7; its GPUs are 0" in scene.ward.verb("drill", "xid79", "n0001/7", code=4)
    assert "No node gpu-99 reports here" in scene.ward.verb("drill", "xid79", "gpu-99", code=4)


def test_the_pager_is_switched_in_the_middle_of_an_incident(scene: Scene) -> None:
    first = scene.breaks()
    assert "Alertmanager pages" in scene.ward.verb("pager", "alertmanager", "--reason", "trying it")
    pages = len(scene.pager.pages)
    scene.ward.break_gpus(1)

    def newest() -> IncidentStory | None:
        found = scene.ward.daemon.get("/api/v1/incidents", dict)["incidents"][0]
        return scene.story(found["number"]) if found["pager"] == "alertmanager" else None

    told = eventually(newest, said=scene.ward.daemon.tail)
    assert told.letters == ()
    assert len(scene.pager.pages) == pages
    assert scene.state(first) == "triggered"
    assert scene.ward.daemon.get("/api/v1/oncall", OnCall).setting.value == "outbox"
    scene.ward.daemon.kill()
    scene.ward.daemon.up()
    assert scene.ward.daemon.get("/api/v1/oncall", OnCall).pager.value == "alertmanager"
    scene.ward.verb("pager", "outbox", "--reason", "back")
    scene.breaks()
    assert len(scene.pager.pages) == pages + 1


def test_a_dead_message_is_seen_by_doctor_and_sent_again(scene: Scene) -> None:
    scene.pager.first = [Reply(status=400, body={"status": "invalid event"})]
    scene.ward.break_gpus(1)

    def dead() -> int | None:
        found = scene.ward.daemon.get("/api/v1/outbox", OutboxLetters).letters
        return found[0].id if found else None

    number = eventually(dead, said=scene.ward.daemon.tail)
    assert "night" in scene.ward.verb("outbox")
    checks = {one["name"]: one for one in scene.ward.daemon.get("/api/v1/doctor", dict)["checks"]}
    assert not checks["on-call night"]["is_ok"]
    assert "trimtab outbox --resend" in checks["on-call night"]["fix"]
    open_before = scene.open_pages()
    scene.ward.verb("outbox", "--resend", str(number))
    eventually(lambda: len(scene.open_pages()) == len(open_before) + 1, said=scene.ward.daemon.tail)
    assert "is not dead" in scene.ward.verb("outbox", "--resend", str(number), code=4)


def test_in_a_maintenance_window_nobody_is_paged_until_it_ends(scene: Scene) -> None:
    node, pages = f"n{scene.ward.faults + 1:04}", len(scene.pager.pages)
    scene.ward.report(node)
    eventually(lambda: scene.ward.daemon.node(node), said=scene.ward.daemon.tail)
    asked = {"scope": "node", "name": node, "lasts_seconds": 3600.0, "reason": "new power supply"}
    window = scene.ward.daemon.ask("POST", "/api/v1/maintenance", asked)
    assert window.status_code == 200, window.text
    scene.ward.break_gpus(1)

    def quiet() -> str | None:
        found = scene.ward.daemon.get("/api/v1/incidents", dict)["incidents"][0]
        return found["quiet"] if found["subject"]["node"] == node else None

    assert "new power supply" in eventually(quiet, said=scene.ward.daemon.tail)
    assert len(scene.pager.pages) == pages
    audit = scene.ward.daemon.get("/api/v1/audit", dict)["lines"]
    assert any("pages nobody" in line["what"] and "new power supply" in line["why"] for line in audit)
    ended = scene.ward.daemon.ask("POST", f"/api/v1/maintenance/{window.json()['id']}/end", {})
    assert ended.status_code == 200, ended.text
    eventually(lambda: len(scene.pager.pages) == pages + 1, said=scene.ward.daemon.tail)
