"""The samples for Alertmanager and Prometheus: taken by their own checkers, each alert goes where it should, and what
is only a consequence is held back."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import requests
import yaml
from tests.alerts.faults import FAULTS, Fault
from tests.alerts.promtool_tests import ALERTS
from tests.alerts.servers import Chain, a_chain, why_missing
from tests.system.processes import eventually


def tool(name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    if shutil.which(name) is None:
        package = "prometheus-alertmanager" if name == "amtool" else "prometheus"
        pytest.skip(f"{name} is missing: apt-get install {package}")
    return subprocess.run([name, *arguments], cwd=ALERTS, capture_output=True, text=True, check=False, timeout=60)


def test_amtool_takes_the_sample() -> None:
    done = tool("amtool", "check-config", "alertmanager.yml")
    assert done.returncode == 0, done.stdout + done.stderr


def test_promtool_takes_the_sample() -> None:
    done = tool("promtool", "check", "config", "--syntax-only", "prometheus.yml")
    assert done.returncode == 0, done.stdout + done.stderr
    (pattern,) = yaml.safe_load((ALERTS / "prometheus.yml").read_text())["rule_files"]
    assert {path.name for path in ALERTS.glob(pattern)} == {path.name for path in ALERTS.glob("*.rules.yml")}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.alert)
def test_an_alert_goes_to_whom_it_concerns(fault: Fault) -> None:
    labels = {"alertname": fault.alert, "severity": fault.severity, "incident": fault.incident, "theme": fault.theme,
              **fault.labels}  # fmt: skip
    said = [f"{name}={value}" for name, value in labels.items() if value and " " not in value]
    done = tool("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", *said)
    by_severity = {"critical": "on-call", "warning": "day-shift", "info": "notices"}
    wanted = "owners" if labels.get("audience") == "owner" else by_severity[fault.severity]
    assert done.stdout.split() == [wanted], done.stderr


def test_the_dead_man_goes_out_of_the_house() -> None:
    said = ("alertname=TrimtabAlwaysFiring", "severity=none", "incident=dead_man", "theme=daemon")
    done = tool("amtool", "config", "routes", "test", "--config.file=alertmanager.yml", *said)
    assert done.stdout.split() == ["dead-man"], done.stderr


def test_every_receiver_is_told_of_ends_and_groups_are_by_incident() -> None:
    sample = yaml.safe_load((ALERTS / "alertmanager.yml").read_text())
    for receiver in sample["receivers"]:
        for webhook in receiver["webhook_configs"]:
            assert webhook["send_resolved"] is (receiver["name"] != "dead-man")
    assert set(sample["route"]["group_by"]) >= {"alertname", "incident", "cluster"}
    for rule in sample["inhibit_rules"]:
        # Two alerts that both lack a label are equal in it: the source must have it.
        sure = {one.split(" ")[0] for one in rule["source_matchers"]} | {"alertname", "cluster"}
        assert set(rule["equal"]) <= sure, rule


WHERE = {"cluster": "hall-a", "node": "gpu-07"}
DOWN = {**WHERE, "alertname": "TrimtabNodeSilent", "severity": "critical", "theme": "finding"}
XID_79 = {**WHERE, "alertname": "TrimtabXidCritical", "severity": "critical", "theme": "hardware", "code": "79"}
XID_154 = {**WHERE, "alertname": "TrimtabXidWarning", "severity": "warning", "theme": "hardware", "code": "154"}
XID_45 = {**WHERE, "alertname": "TrimtabXidWarning", "severity": "warning", "theme": "hardware", "code": "48"}
SXID = {**WHERE, "alertname": "TrimtabSxidFatal", "severity": "critical", "theme": "hardware", "code": "12020"}
LOST = {**WHERE, "alertname": "TrimtabGpuDoesNotAnswer", "severity": "critical", "theme": "hardware", "gpu": "GPU-1"}
FAULT = {**WHERE, "alertname": "TrimtabDeviceFault", "severity": "critical", "theme": "finding", "gpu": "GPU-1"}
ECC = {**LOST, "alertname": "TrimtabEccUncorrected", "severity": "warning"}
AGENT = {**WHERE, "alertname": "TrimtabAgentAbsent", "severity": "warning", "theme": "agent"}
WAITING = {"cluster": "hall-a", "alertname": "TrimtabFragmentation", "severity": "warning", "theme": "finding"}
ABSENT = {"cluster": "hall-a", "alertname": "TrimtabDaemonAbsent", "severity": "critical", "theme": "daemon"}
BEHIND = {**WHERE, "alertname": "TrimtabAgentNotDelivering", "severity": "warning", "theme": "agent"}
MOST_SILENT = {name: value for name, value in DOWN.items() if name != "node"}
CASES = {
    "a node that is down speaks for its GPUs": (DOWN, LOST, True),
    "and for the findings on them": (DOWN, FAULT, True),
    "and for its agent": (DOWN, AGENT, True),
    "not for another node's": (DOWN, {**LOST, "node": "gpu-08"}, False),
    "not for another cluster's node of that name": (DOWN, {**LOST, "cluster": "hall-b"}, False),
    "a silent node that may well work speaks for nothing": ({**DOWN, "severity": "warning"}, LOST, False),
    "most of a cluster silent speaks for no waiting job": (MOST_SILENT, WAITING, False),
    "79 speaks for the codes that follow": (XID_79, XID_45, True),
    "and for the GPU that does not answer": (XID_79, LOST, True),
    "154 speaks for the codes beside it": (XID_154, XID_45, True),
    "but not for 79": (XID_154, XID_79, False),
    "a fatal SXid speaks for XIDs behind the switch": (SXID, XID_79, True),
    "a finding speaks for the floor": (FAULT, LOST, True),
    "a finding that only warns holds back no page": ({**FAULT, "severity": "warning"}, LOST, False),
    "it speaks for a floor that only warns": ({**FAULT, "severity": "warning"}, ECC, True),
    "a finding that wakes nobody speaks for nothing": ({**FAULT, "severity": "info"}, ECC, False),
    "not for the floor of another node": (FAULT, {**LOST, "node": "gpu-08"}, False),
    "no daemon: agents cannot deliver": (ABSENT, BEHIND, True),
    "but a GPU that is lost is still a page": (ABSENT, LOST, False),
}  # fmt: skip


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    if why_missing():
        pytest.skip(why_missing())
    home: Path = tmp_path_factory.mktemp("samples")
    with a_chain(home, scrapes=[], interval="1h") as running:
        yield running


@pytest.mark.parametrize("name", CASES)
def test_consequences_are_held_back(name: str, chain: Chain) -> None:
    source, target, is_held = CASES[name]
    now = datetime.now(UTC)
    times = {"startsAt": now.isoformat(), "endsAt": (now + timedelta(minutes=5)).isoformat()}
    pair = ({**source, "incident": "x", "case": name}, {**target, "incident": "y", "case": name})
    posted = [{"labels": labels, **times} for labels in pair]
    url = f"{chain.alertmanager}/api/v2/alerts"
    assert requests.post(url, json=posted, timeout=10).status_code == 200

    def held() -> list[str] | None:
        found = requests.get(url, params={"filter": [f'case="{name}"', 'incident="y"']}, timeout=10).json()
        known = requests.get(url, params={"filter": [f'case="{name}"', 'incident="x"']}, timeout=10).json()
        ready = found and known and found[0]["status"]["state"] != "unprocessed"
        return [found[0]["status"]["state"]] if ready else None

    assert eventually(held) == ["suppressed" if is_held else "active"]
    over = {"endsAt": (now - timedelta(seconds=1)).isoformat(), "startsAt": (now - timedelta(seconds=2)).isoformat()}
    ended = [{"labels": alert["labels"], **over} for alert in posted]
    assert requests.post(url, json=ended, timeout=10).status_code == 200
