"""A real daemon and a real Alertmanager, both ways: pages, silences, windows, other people's alerts, the switch."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml
from tests.alertmanager.server import BINARY, INSTALL, Alertmanager, OnCall, an_on_call
from tests.oncall.receivers import PagerDutyReceiver
from tests.oncall.server import serving
from tests.system.processes import CLUSTER, eventually
from tests.system.ward import Ward

from trimtab.model.advice import OpenFinding
from trimtab.outbound import session
from trimtab.show.api_types import Doctor
from trimtab.show.api_types_alerts import Alerts, MaintenanceWindows, QuietNow

ROUTING_KEY = "0123456789abcdef0123456789abcdef"
SETTINGS = """
[detect]
interval_seconds = 0.1
silent_after_seconds = 86400.0
[oncall]
deliver_seconds = 0.05
backoff_seconds = 0.1
backoff_seconds_max = 0.3
quiet_update_seconds = 0.0
[oncall.targets.night]
kind = "pagerduty"
routing_key_file = "pd.key"
url = "{pd}"
per_minute_max = 60000.0
[alertmanager]
urls = ["{am}"]
push = true
interval_seconds = 0.2
silences_interval_seconds = 0.2
labels = {{ team = "gpu" }}
"""
HOOK = "/api/v1/webhooks/alertmanager"


@dataclass
class Scene:
    ward: Ward
    am: Alertmanager
    oncall: OnCall
    pager: PagerDutyReceiver
    webhook_token: str = ""

    def drill(self, *, seconds: float, node: str = "gpu-01") -> int:
        order = {"kind": "xid79", "node": node, "gpu": "0", "seconds": seconds}
        answer = self.ward.daemon.ask("POST", "/api/v1/drills", order)
        assert answer.status_code == 200, answer.text
        return int(answer.json()["incident"]["number"])

    def told(self, incident: str, *, since: int = 0) -> list[str]:
        alerts = self.oncall.alerts()[since:]
        return [one["status"] for one in alerts if one["labels"].get("incident") == incident]

    def incident_of(self, number: int) -> str:
        found = self.ward.daemon.ask("GET", f"/api/v1/incidents/{number}").json()["incident"]
        return str(found["incident"] or found["id"])

    def open_pages(self) -> set[str]:
        return {key for (_, key), state in self.pager.alerts.items() if state != "resolved"}

    def hook(self, body: object, *, token: str | None = None, raw: bytes | None = None):
        headers = {"Content-Type": "application/json"}
        if token != "":
            headers["Authorization"] = f"Bearer {self.webhook_token if token is None else token}"
        with session(timeout_seconds=20.0) as peer:
            data = json.dumps(body).encode() if raw is None else raw
            return peer.post(self.ward.daemon.url + HOOK, data=data, headers=headers)

    def switch(self, pager: str) -> None:
        self.ward.verb("pager", pager, "--reason", "a test")


def delivery(*, status: str = "firing", starts: datetime | None = None, **labels: str) -> dict:
    starts = starts or datetime(2026, 11, 2, tzinfo=UTC)
    alert = {
        "status": status,
        "labels": {"alertname": "GpuFanSlow", **labels},
        "annotations": {"summary": "fan 2 turns slowly"},
        "startsAt": starts.isoformat(),
        "endsAt": "0001-01-01T00:00:00Z" if status == "firing" else (starts + timedelta(hours=1)).isoformat(),
    }
    return {"version": "4", "groupKey": '{}:{alertname="GpuFanSlow"}', "status": status, "alerts": [alert]}


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    if not BINARY:
        pytest.skip(INSTALL)
    home: Path = tmp_path_factory.mktemp("ward")
    pager = PagerDutyReceiver(ROUTING_KEY)
    with ExitStack() as stack:
        oncall = stack.enter_context(an_on_call())
        am = Alertmanager(home / "am", webhook=oncall.url)
        stack.callback(am.stop)
        settings = SETTINGS.format(pd=stack.enter_context(serving(pager)), am=am.url)
        ward = Ward(home, settings, {"pd.key": ROUTING_KEY})
        stack.callback(ward.daemon.close)
        ward.daemon.up()
        given = json.loads(ward.verb("token", "person", "alertmanager", "--role", "webhook", "--json"))
        made = Scene(ward, am, oncall, pager, webhook_token=given["secret"])
        _send_to_daemon_too(made)
        am.start()
        ward.report("gpu-01", gpus=8)
        yield made
        assert pager.refusals == []
        ward.daemon.assert_had_no_trouble()


def _send_to_daemon_too(scene: Scene) -> None:
    """Alertmanager's configuration as docs/how-to/alertmanager.md shows it: everything goes to the daemon as well."""
    config = yaml.safe_load(scene.am.config.read_text())
    token = scene.am.directory / "token"
    token.write_text(scene.webhook_token)
    config["route"]["routes"] = [
        {"receiver": "trimtab", "continue": True, "group_wait": "0s", "group_interval": "1s"},
        {"receiver": "oncall"},
    ]
    hook = {
        "url": scene.ward.daemon.url + HOOK,
        "send_resolved": True,
        "http_config": {"authorization": {"credentials_file": str(token)}},
    }
    config["receivers"].append({"name": "trimtab", "webhook_configs": [hook]})
    scene.am.config.write_text(yaml.safe_dump(config))


def the_finding(scene: Scene, node: str) -> OpenFinding:
    found = scene.ward.daemon.findings("device_fault")
    return next(one for one in found if one.finding.subject.node == node)


def test_what_others_say_comes_by_alertmanager_and_stands_beside_the_finding(scene: Scene) -> None:
    scene.ward.report("n9001", xid=79)
    eventually(lambda: scene.ward.daemon.findings("device_fault"), said=scene.ward.daemon.tail)
    now = datetime.now(UTC)
    starts, ends = (now - timedelta(minutes=5)).isoformat(), (now + timedelta(hours=1)).isoformat()
    labels = {"alertname": "NodeFanSlow", "instance": "n9001:9100"}
    alert = {"labels": labels, "annotations": {"summary": "fan 2 turns slowly"}, "startsAt": starts, "endsAt": ends}
    scene.am.post([alert])

    def said() -> list[str]:
        evidence = the_finding(scene, "n9001").finding.evidence
        return [fact.text for fact in evidence if fact.source == "alert"]

    assert eventually(said, said=scene.ward.daemon.tail) == ["others say: NodeFanSlow: fan 2 turns slowly"]
    assert "NodeFanSlow" in scene.ward.verb("alerts")
    (kept,) = scene.ward.daemon.get("/api/v1/alerts", Alerts).alerts
    assert (kept.source, kept.place.node) == ("alertmanager", "n9001")
    scene.am.post([{**alert, "endsAt": datetime.now(UTC).isoformat()}])
    eventually(lambda: not said(), said=scene.ward.daemon.tail)
    assert scene.ward.daemon.board().alerts == ()


def test_a_webhook_without_its_token_is_refused_and_leaves_nothing(scene: Scene) -> None:
    body = delivery(node="n9001")
    answers = [scene.hook(body, token=token).status_code for token in ("", "wrong", "trimtab_" + "x" * 43)]
    assert answers == [401, 401, 401]
    operator = scene.hook(body, token=scene.ward.daemon.operator_token)
    assert operator.status_code == 403
    assert scene.ward.daemon.get("/api/v1/alerts", Alerts, state="all", since_seconds=86400).alerts[1:] == ()
    assert scene.ward.daemon.ask("GET", "/api/v1/board", token=scene.webhook_token).status_code == 403


def test_a_delivery_sent_twice_or_replayed_changes_nothing(scene: Scene) -> None:
    firing, over = delivery(node="n9001"), delivery(node="n9001", status="resolved")
    told = [scene.hook(one).json()["outcomes"] for one in (firing, firing, over, over, firing)]
    assert told == [{"opened": 1}, {"repeated": 1}, {"resolved": 1}, {"repeated_end": 1}, {"late": 1}]
    assert scene.ward.daemon.get("/api/v1/alerts", Alerts).alerts == ()


def test_bodies_that_are_none_or_too_large_are_refused_and_unknown_fields_are_not(scene: Scene) -> None:
    grafana = {**delivery(node="n9002", status="resolved"), "orgId": 1, "title": "x", "truncatedAlerts": 0}
    grafana["alerts"][0] |= {"values": {"A": 1.5}, "silenceURL": "x", "dashboardURL": ""}
    assert scene.hook(grafana).status_code == 200
    assert scene.hook(None, raw=b"{").status_code == 400
    assert scene.hook({"alerts": [{"labels": {"alertname": 7}}]}).status_code == 422
    assert scene.hook(None, raw=b'{"alerts": []' + b" " * (5 * 1024 * 1024) + b"}").status_code == 413


def test_where_alertmanager_pages_it_is_told_once_and_the_outbox_nothing(scene: Scene) -> None:
    scene.switch("alertmanager")
    pages, ignored = len(scene.pager.pages), ours(scene)
    number = scene.drill(seconds=4)
    incident = scene.incident_of(number)
    eventually(lambda: scene.told(incident) == ["firing"], said=scene.ward.daemon.tail)
    (alert,) = [one for one in scene.oncall.alerts() if one["labels"].get("incident") == incident]
    assert alert["labels"]["alertname"] == "TrimtabDeviceFault"
    assert {"drill": "true", "team": "gpu", "cluster": CLUSTER, "node": "gpu-01"}.items() <= alert["labels"].items()
    assert "severity" not in alert["labels"]
    eventually(lambda: scene.told(incident) == ["firing", "resolved"], said=scene.ward.daemon.tail)
    assert len(scene.pager.pages) == pages
    # They came back by the webhook, and are no news of others.
    eventually(lambda: ours(scene) >= ignored + 2, said=scene.ward.daemon.tail)
    assert scene.ward.daemon.get("/api/v1/alerts", Alerts).alerts == ()


def ours(scene: Scene) -> float:
    text = scene.ward.daemon.ask("GET", "/metrics").text
    found = re.search(r'^trimtab_webhook_alerts_total\{outcome="ours"\} (\S+)$', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_the_switch_in_the_middle_of_incidents_pages_nobody_twice_and_nobody_never(scene: Scene) -> None:
    scene.switch("outbox")
    before, since = scene.open_pages(), len(scene.oncall.alerts())
    first = scene.drill(seconds=12)
    key = eventually(lambda: next(iter(scene.open_pages() - before), None), said=scene.ward.daemon.tail)
    scene.switch("alertmanager")
    second = scene.drill(seconds=12)
    theirs = scene.incident_of(second)
    eventually(lambda: scene.told(theirs) == ["firing"], said=scene.ward.daemon.tail)
    scene.switch("outbox")
    mine = scene.incident_of(first)
    eventually(lambda: scene.pager.alerts[ROUTING_KEY, key] == "resolved", said=scene.ward.daemon.tail)
    eventually(lambda: scene.told(theirs) == ["firing", "resolved"], said=scene.ward.daemon.tail)
    assert scene.told(mine, since=since) == []
    assert scene.open_pages() == before
    assert [one for one in scene.am.alerts() if one["labels"].get("cluster") == CLUSTER] == []


def test_a_window_keeps_the_outbox_quiet_and_what_is_still_wrong_at_its_end_pages(scene: Scene) -> None:
    scene.switch("outbox")
    scene.ward.report("n9003", gpus=1)
    eventually(lambda: scene.ward.daemon.node("n9003"), said=scene.ward.daemon.tail)
    said = scene.ward.verb("maintenance", "add", "n9003", "--until", "1h", "--reason", "new cooler")
    window = re.match(r"(M\d+): faults of n9003 page nobody until", said)
    assert window, said
    before = scene.open_pages()
    scene.ward.report("n9003", xid=79)
    finding = eventually(
        lambda: [one for one in scene.ward.daemon.findings("device_fault") if one.finding.subject.node == "n9003"],
        said=scene.ward.daemon.tail,
    )[0]
    eventually(lambda: "pages nobody: Maintenance" in scene.ward.verb("incidents"), said=scene.ward.daemon.tail)
    quiet = eventually(lambda: [one for one in scene.ward.daemon.board().quiet if one.findings])
    assert [(one.name, one.findings, one.why) for one in quiet] == [(window[1], (finding.name,), "new cooler")]
    assert finding.name in scene.ward.verb("quiet")
    assert scene.open_pages() == before
    audit = scene.ward.daemon.ask("GET", "/api/v1/audit?since_seconds=600").json()["lines"]
    assert [line["why"] for line in audit if "pages nobody" in line["what"]][-1].startswith("Maintenance M")
    scene.ward.verb("maintenance", "end", window[1])
    eventually(lambda: len(scene.open_pages() - before) == 1, said=scene.ward.daemon.tail)
    assert "ended" in scene.ward.verb("maintenance", "list")


def test_a_silence_keeps_the_outbox_quiet_too_and_its_end_pages(scene: Scene) -> None:
    scene.ward.report("n9004", gpus=1)
    now = datetime.now(UTC)
    silence = scene.am.silence(
        {"name": "node", "value": "n900[45]", "isRegex": True},
        starts=now.isoformat(),
        ends=(now + timedelta(hours=1)).isoformat(),
        comment="known",
    )
    eventually(lambda: scene.ward.daemon.get("/api/v1/quiet", QuietNow).quiet, said=scene.ward.daemon.tail)
    before = scene.open_pages()
    scene.ward.report("n9004", xid=79)
    eventually(lambda: "Silence" in scene.ward.verb("incidents"), said=scene.ward.daemon.tail)
    assert scene.open_pages() == before
    scene.am.unsilence(silence)
    eventually(lambda: len(scene.open_pages() - before) == 1, said=scene.ward.daemon.tail)


def test_a_window_with_a_silence_makes_one_and_ends_it(scene: Scene) -> None:
    scene.ward.verb("maintenance", "add", "gpu-01", "--until", "1h", "--reason", "fan", "--silence")

    def made() -> list[dict]:
        return [one for one in scene.am.silences() if one["status"]["state"] == "active"]

    (silence,) = eventually(made, said=scene.ward.daemon.tail)
    assert silence["comment"].startswith("fan (trimtab:")
    eventually(lambda: "with a silence" in scene.ward.verb("maintenance", "list"), said=scene.ward.daemon.tail)
    (window,) = [one for one in scene.ward.daemon.get("/api/v1/maintenance", MaintenanceWindows).windows
                 if one.wants_silence]  # fmt: skip
    scene.ward.daemon.kill()
    scene.ward.daemon.up()
    scene.ward.verb("maintenance", "end", f"M{window.id}")
    eventually(lambda: not made(), said=scene.ward.daemon.tail)


def test_a_window_for_what_is_not_there_is_refused_with_the_reason(scene: Scene) -> None:
    said = scene.ward.verb("maintenance", "add", "gpu-77", "--until", "1h", "--reason", "x", code=4)
    assert "There is no node 'gpu-77' here" in said


def test_an_alertmanager_that_is_down_is_seen_by_doctor_and_metrics_and_told_again_later(scene: Scene) -> None:
    scene.switch("alertmanager")
    scene.am.stop()
    number = scene.drill(seconds=8)
    incident = scene.incident_of(number)

    def wrong() -> set[str]:
        return {check.name for check in scene.ward.daemon.get("/api/v1/doctor", Doctor).checks if not check.is_ok}

    name = f"alertmanager 127.0.0.1:{scene.am.port}"
    eventually(lambda: {name, "silences"} <= wrong(), said=scene.ward.daemon.tail)
    metrics = scene.ward.daemon.ask("GET", "/metrics").text
    assert f'trimtab_alertmanager_failing{{peer="127.0.0.1:{scene.am.port}"}} 1.0' in metrics
    scene.am.start()
    eventually(lambda: scene.told(incident) == ["firing"], said=scene.ward.daemon.tail)
    eventually(lambda: scene.told(incident) == ["firing", "resolved"], said=scene.ward.daemon.tail)
    eventually(lambda: not {name, "silences"} & wrong(), said=scene.ward.daemon.tail)
    scene.switch("outbox")


def test_a_daemon_killed_with_open_alerts_ends_them_after_its_start(scene: Scene) -> None:
    scene.switch("alertmanager")
    incident = scene.incident_of(scene.drill(seconds=3))
    eventually(lambda: scene.told(incident) == ["firing"], said=scene.ward.daemon.tail)
    scene.ward.daemon.kill()
    scene.ward.daemon.up()
    eventually(lambda: scene.told(incident) == ["firing", "resolved"], said=scene.ward.daemon.tail)
    scene.switch("outbox")
