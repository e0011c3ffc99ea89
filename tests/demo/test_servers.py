"""The programs beside the demo, and its on-call end: what is missing or fails is said, forged pages are not taken."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import requests
from tests.demo.test_stories import a_board, a_found, a_story
from tests.fakes.clock import FakeClock
from tests.system.processes import eventually

from trimtab.clock import unix_seconds
from trimtab.demo.ground import Ground
from trimtab.demo.hearing import Hearing
from trimtab.demo.pager import ALERTS_PATH, PAGE_PATH, OnCallEnd, receivers_at, settings_text
from trimtab.demo.ports import Ports
from trimtab.demo.servers import ALERTMANAGER, PROMETHEUS, Servers
from trimtab.demo.telling import Narrator
from trimtab.errors import SettingsError
from trimtab.settings import DaemonSettings, load
from trimtab.setup.shipped import shipped
from trimtab.show.oncall.standard_webhook import headers, key_bytes


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    return Ground(scratch=tmp_path, cluster="hall-a", people_port=1, ingest_port=2, database_url="sqlite:///trimtab.db")


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def end(tmp_path: Path, clock: FakeClock) -> Iterator[OnCallEnd]:
    end = OnCallEnd(tmp_path, clock=clock)
    end.start()
    yield end
    end.stop()


def servers_with(ground: Ground, stack: ExitStack, find: Callable[[str], str | None]) -> Servers:
    servers = Servers(ground, stack.enter_context(closing(Ports())), find=find)
    stack.callback(servers.stop)
    return servers


def test_what_is_missing_is_said_with_the_one_command_that_installs_it(ground, stack, end):
    servers = servers_with(ground, stack, lambda _name: None)
    servers.start(end)
    lines = servers.opening()
    assert any("apt-get install prometheus prometheus-alertmanager" in line for line in lines)
    assert any("Missing: Grafana" in line and "trimtab setup" in line for line in lines)
    assert servers.url_of(ALERTMANAGER) == ""
    only_one = servers_with(ground, stack, {"alertmanager": "/bin/true", "grafana": "/bin/true"}.get)
    said = "\n".join(only_one.opening())
    assert "Missing: Prometheus (" in said
    assert said.count("Missing") == 1
    assert "Grafana is installed" in said


@pytest.mark.parametrize("program", ["/bin/false", "/nowhere/at/all"], ids=["ends at once", "cannot be run"])
def test_one_that_fails_is_said_once_and_its_address_is_not_given(ground, stack, end, program):
    servers = servers_with(ground, stack, {"prometheus": program}.get)
    servers.start(end)
    said = eventually(servers.look)
    assert len(said) == 1
    assert said[0].startswith("Prometheus ended (exit code 1).")
    assert said[0].endswith("The demo goes on without it.")
    assert servers.look() == ()
    assert not any(line.startswith("Prometheus:") for line in servers.opening())


def test_a_folder_that_cannot_be_made_stops_one_server_and_not_the_other(ground, stack, end):
    (ground.scratch / "alertmanager").write_text("in the way")
    servers = servers_with(ground, stack, {"prometheus": "/bin/sleep", "alertmanager": "/bin/sleep"}.get)
    servers.start(end)
    said = [line for line in eventually(servers.look) if line.startswith("Alertmanager was not started")]
    assert len(said) == 1
    assert (ground.scratch / "prometheus" / "trimtab-findings.rules.yml").is_file()


def test_the_configurations_are_good_ones(ground, stack, end):
    """A real Prometheus and a real Alertmanager come up with them, on loopback only, and tell the on-call end."""
    if not shutil.which("prometheus") or not shutil.which("prometheus-alertmanager"):
        pytest.skip("Prometheus or Alertmanager is missing: apt-get install prometheus prometheus-alertmanager")
    servers = servers_with(ground, stack, shutil.which)
    servers.start(end)
    eventually(lambda: not any("starting" in line for line in servers.opening()), said=servers.look)
    told = eventually(end.arrived)
    assert told[0].said.alerts[0].labels["alertname"] == "TrimtabAlwaysFiring"
    groups = requests.get(f"{servers.url_of(PROMETHEUS)}/api/v1/rules", timeout=10).json()["data"]["groups"]
    assert {"trimtab-findings", "trimtab-daemon", "trimtab-agents", "trimtab-hardware"} <= {
        one["name"] for one in groups
    }
    listening = {line.split()[1] for line in Path("/proc/net/tcp").read_text().splitlines() if line.split()[3] == "0A"}
    for name in (PROMETHEUS, ALERTMANAGER):
        port = int(servers.url_of(name).rpartition(":")[2])
        assert f"0100007F:{port:04X}" in listening
    assert servers.look() == ()


# --- the on-call end


def a_body(**more: object) -> bytes:
    data = {
        "key": "trimtab/hall-a/i1",
        "sequence": 1,
        "severity": "critical",
        "first_line": "hall-a: gpu-03 GPU 3 fell off the bus",
        "title": "hall-a: gpu-03 GPU 3 fell off the bus",
        "lines": [],
        "rule": "device_fault",
        "subject": {"cluster": "hall-a", "node": "gpu-03"},
        "opened_at": "2026-11-02T09:00:00Z",
        "facts": {"incident": "I1", "finding": "F31"},
    }
    kind = more.pop("type", "incident.opened")
    return json.dumps({"type": kind, "timestamp": "2026-11-02T09:00:00Z", "data": {**data, **more}}).encode()


def post(
    end: OnCallEnd, clock: FakeClock, body: bytes, *, id: str = "m1", age_seconds: int = 0, key: bytes = b""
) -> int:
    key = key or key_bytes(end.key_file.read_text().strip(), of="x")
    at = int(unix_seconds(clock.now())) - age_seconds
    signed = headers([key], id=id, timestamp_seconds=at, body=body)
    return requests.post(end.url + PAGE_PATH, data=body, headers=signed, timeout=10).status_code


def test_a_page_is_taken_once_and_only_when_our_key_signed_it_lately(end, clock):
    assert post(end, clock, a_body(), key=b"k" * 32) == 401
    assert post(end, clock, a_body(), age_seconds=301) == 401
    assert post(end, clock, a_body(), age_seconds=-301) == 401
    assert requests.post(end.url + PAGE_PATH, data=a_body(), timeout=10).status_code == 401
    assert (end.arrived(), end.refused) == ((), 4)
    assert [post(end, clock, a_body()), post(end, clock, a_body())] == [200, 200]
    assert post(end, clock, b"{", id="m2") == 400
    assert requests.post(end.url + "/elsewhere", data=b"{}", timeout=10).status_code == 404
    assert [one.said.data.key for one in end.arrived()] == ["trimtab/hall-a/i1"]
    assert end.key_file.stat().st_mode & 0o077 == 0


def test_each_page_is_told_with_the_time_from_its_fault_and_the_story_keeps_the_first(end, clock):
    story, lines = a_story(), []
    story.see_board(a_board([a_found()]), wall_seconds=5.0)
    hearing = Hearing([story], Narrator(lines.append, speed=20, is_auto_approved=False))
    ready_at_seconds = clock.monotonic_seconds()

    def hear(*bodies: bytes, at_seconds: float) -> None:
        clock.advance(ready_at_seconds + at_seconds - clock.monotonic_seconds())
        for number, body in enumerate(bodies):
            post(end, clock, body, id=f"{at_seconds}-{number}")
        for one in end.arrived():
            hearing.hear(one, ready_at_seconds=ready_at_seconds)

    hear(a_body(), at_seconds=5.5)
    hear(a_body(type="incident.updated"), a_body(type="incident.updated", is_loud=True), at_seconds=7.0)
    hear(a_body(type="incident.resolved", subject={"cluster": "hall-a"}), at_seconds=9.0)
    hear(a_body(facts={}, subject={"cluster": "hall-a", "node": "gpu-09"}), at_seconds=9.5)
    assert [line.split()[2] for line in lines] == ["paged", "paged", "closed", "paged"]
    assert lines[0].endswith("(2.5 s after the fault)")
    assert lines[2].endswith("(6.0 s after the fault)")
    assert "after the fault" not in lines[3]
    assert story.paged_s == 2.5


def test_alerts_are_told_when_they_change_and_the_dead_mans_once(end):
    lines: list[str] = []
    hearing = Hearing([], Narrator(lines.append, speed=20, is_auto_approved=False))

    def alert(name: str, status: str) -> dict[str, object]:
        return {"status": status, "labels": {"alertname": name}, "annotations": {"summary": f"{name} it is."}}

    for status in ("firing", "firing", "resolved"):
        group = {
            "version": "4",
            "receiver": "on-call",
            "alerts": [alert("TrimtabXid", status), alert("TrimtabAlwaysFiring", status)],
        }
        assert requests.post(f"{end.url}{ALERTS_PATH}/page", json=group, timeout=10).status_code == 200
    for one in end.arrived():
        hearing.hear(one, ready_at_seconds=0.0)
    assert [line.split("alert  ", 1)[1].split()[0] for line in lines] == ["TrimtabXid", "TrimtabAlwaysFiring", "over:"]


def test_the_daemons_settings_say_that_the_outbox_pages_the_end(end, tmp_path):
    path = tmp_path / "daemon.toml"
    path.write_text('cluster = "hall-a"\n' + settings_text(end, alertmanager_url="http://127.0.0.1:9093"))
    settings = load(path, DaemonSettings)
    assert settings.oncall.pager == "outbox"
    assert settings.oncall.targets["demo"].url == end.url + PAGE_PATH
    assert settings.alertmanager.urls == ("http://127.0.0.1:9093",)
    path.write_text('cluster = "hall-a"\n' + settings_text(end, alertmanager_url=""))
    assert load(path, DaemonSettings).alertmanager.urls == ()


def test_the_sample_keeps_no_example_address_and_another_sample_is_refused(end):
    text = receivers_at(shipped().alertmanager() or "", end)
    assert "http://pager.example" not in text
    assert "http://dead-man.example" not in text
    assert f"{end.url}{ALERTS_PATH}/heartbeat" in text
    with pytest.raises(SettingsError, match="names no"):
        receivers_at("receivers: []", end)
